//! Bytes for people.

use std::fmt;

/// Shows bytes in binary units: `412.3 MiB`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binary(pub(crate) u64);

impl fmt::Display for Binary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(out, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        // What would be rounded to 1024.0 belongs to the next unit.
        while value >= 1023.95 && unit + 1 < units.len() {
            value /= 1024.0;
            unit += 1;
        }
        write!(out, "{value:.1} {}", units[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::Binary;
    use std::string::ToString;

    #[test]
    fn units_are_binary_and_never_shown_as_1024() {
        let shown = |bytes: u64| Binary(bytes).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1.0 KiB");
        assert_eq!(shown((1 << 20) - 1), "1.0 MiB");
        assert_eq!(shown(540_000_000), "515.0 MiB");
        assert_eq!(shown(u64::MAX), "16.0 EiB");
    }
}
