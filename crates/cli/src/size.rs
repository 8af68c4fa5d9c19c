//! Sizes and counts as people write and read them: binary units for bytes, thousands separators for
//! counts.

/// Parses a size in bytes: `4096`, `512KiB`, `1.5 MiB`, `2G` (units are binary, whatever their spelling).
///
/// # Errors
/// Says what a size looks like.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong(text)),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(1 << shift)
            .ok_or_else(|| format!("`{text}` is more than 16 EiB"));
    }
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((value * (1_u64 << shift) as f64).round() as u64),
        _ => Err(wrong(text)),
    }
}

fn wrong(text: &str) -> String {
    format!(
        "`{text}` is not a size; write bytes or a number with a unit, as in 4096, 512KiB, 1.5MiB"
    )
}

/// `512 KiB`, `1.5 MiB`: three significant digits at most, binary units.
pub fn show(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 9.95 {
        format!("{value:.1} {}", UNITS[unit])
    } else {
        format!("{value:.0} {}", UNITS[unit])
    }
}

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 thread`, `2 threads`.
pub fn many(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(number))
}

/// `part` of `whole` in per cent; `0%` of nothing, `<0.1%` and `>99.9%` where rounding would hide that there
/// is some, or that it is not all.
pub fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0%".into();
    }
    let percent = part as f64 / whole as f64 * 100.0;
    if percent < 0.1 {
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
    fn sizes_are_read_with_every_spelling_of_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512KiB", 512 << 10),
            ("512k", 512 << 10),
            ("1.5 MiB", 3 << 19),
            ("2G", 2 << 30),
            ("3tb", 3 << 40),
            (" 7 b ", 7),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_says_how_to_write_one() {
        for text in ["", "KiB", "-1", "1e3", "12 parsecs", "1.2.3", "."] {
            assert!(parse(text).unwrap_err().contains("512KiB"), "{text}");
        }
        assert!(parse("17179869184GiB").unwrap_err().contains("16 EiB"));
    }

    #[test]
    fn sizes_are_shown_in_binary_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (10 << 10, "10 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(show(bytes), text);
        }
    }

    #[test]
    fn counts_and_shares_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(many(1, "thread"), "1 thread");
        assert_eq!(many(1_000, "thread"), "1,000 threads");
        assert_eq!(share(0, 0), "0%");
        assert_eq!(share(1, 4), "25.0%");
        assert_eq!(share(1, 1_000_000), "<0.1%");
        assert_eq!(share(999_999, 1_000_000), ">99.9%");
        assert_eq!(share(5, 5), "100.0%");
    }
}
