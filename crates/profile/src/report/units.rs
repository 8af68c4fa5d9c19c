//! Numbers for people.

/// `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `120.3 MiB`; bytes below a KiB without a fraction.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `850 ns`, `1.2 µs`, `34 ms`, `5.1 min`: two or three digits.
pub(crate) fn duration(ns: f64) -> String {
    const UNITS: [(f64, &str); 6] = [
        (1e3, "ns"),
        (1e3, "µs"),
        (1e3, "ms"),
        (60.0, "s"),
        (60.0, "min"),
        (f64::INFINITY, "h"),
    ];
    let mut value = ns.max(0.0);
    for (next, unit) in UNITS {
        if value < next * 0.9995 {
            return if value < 9.95 && unit != "ns" {
                format!("{value:.1} {unit}")
            } else {
                format!("{value:.0} {unit}")
            };
        }
        value /= next;
    }
    "∞".into()
}

/// `45.1%`; what is not nothing is never shown as `0.0%`, what is not all never as `100.0%`.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".into();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    if part > 0 && percent < 0.1 {
        "<0.1%".into()
    } else if part < whole && percent > 99.9 {
        ">99.9%".into()
    } else {
        format!("{percent:.1}%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [count(0), count(999), count(1000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1024), bytes(1_048_575)],
            ["0 B", "1023 B", "1.0 KiB", "1.0 MiB"]
        );
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        let shown = [850.0, 1234.0, 33_600_000.0, 999_990.0, 61e9, 7200e9].map(duration);
        assert_eq!(
            shown,
            ["850 ns", "1.2 µs", "34 ms", "1.0 ms", "1.0 min", "2.0 h"]
        );
        assert_eq!(
            [
                share(0, 9),
                share(1, 100_000),
                share(99_999, 100_000),
                share(1, 3)
            ],
            ["0.0%", "<0.1%", ">99.9%", "33.3%"]
        );
        assert_eq!(share(0, 0), "–");
    }
}
