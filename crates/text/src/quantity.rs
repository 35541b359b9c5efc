//! Parses durations and sizes as people write them, and formats large numbers.

use std::time::Duration;

/// Suffixes of a size and their factors. A longer suffix comes before the shorter ones that it ends in.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Parses a duration such as `50us`, `1.5 ms`, `10s`, `2m` or `1h`. A number without a unit is in seconds.
///
/// The units are `ns`, `us` or `µs`, `ms`, `s`, `m`, `h` and `d`. Returns `None` if the text is not a duration, is negative,
/// or exceeds [`Duration::MAX`]. Callers with another limit check it themselves, as do callers that require a unit.
///
/// ```
/// use std::time::Duration;
///
/// use rusm_text::parse_duration;
///
/// assert_eq!(parse_duration("250ms"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_duration("3"), Some(Duration::from_secs(3)));
/// assert_eq!(parse_duration("soon"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.trim().parse::<f64>().ok()? * unit).ok()
}

/// Parses a size in bytes such as `65536`, `64KiB`, `16 MiB`, `1_000kB` or `1GB`.
///
/// The units are `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB` and `GB`. Underscores between digits are ignored. Returns `None`
/// if the text is not a whole number with a unit, or exceeds [`u64::MAX`] bytes.
///
/// ```
/// use rusm_text::parse_size;
///
/// assert_eq!(parse_size("64KiB"), Some(65_536));
/// assert_eq!(parse_size("1.5MiB"), None);
/// ```
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = SIZE_UNITS
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|digits| (digits.trim_end(), *unit)))
        .unwrap_or((text, 1));
    digits.replace('_', "").parse::<u64>().ok()?.checked_mul(unit)
}

/// Formats a number with commas between groups of three digits.
///
/// ```
/// assert_eq!(rusm_text::grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_read_in_the_usual_units() {
        let cases = [
            ("0", Duration::ZERO),
            ("20ns", Duration::from_nanos(20)),
            ("50us", Duration::from_micros(50)),
            ("50µs", Duration::from_micros(50)),
            ("1.5 ms", Duration::from_micros(1_500)),
            ("250ms", Duration::from_millis(250)),
            ("3", Duration::from_secs(3)),
            (" 10s", Duration::from_secs(10)),
            ("1.5m", Duration::from_secs(90)),
            ("2h", Duration::from_hours(2)),
            ("1d", Duration::from_hours(24)),
        ];
        for (text, duration) in cases {
            assert_eq!(parse_duration(text), Some(duration), "{text}");
        }
        for bad in ["", "s", "-1s", "1w", "1e300h", "NaNs", "inf", "1s ", "1 2s", "soon"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_read_in_the_usual_units() {
        let cases = [("65536", 65_536), ("64KiB", 65_536), ("16 MiB", 16 << 20), ("1_000kB", 1_000_000), ("7B", 7)];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5MiB", "16 mib", "99999999999GiB"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_third_digit_is_followed_by_a_comma() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC{0,20}") {
            _ = (parse_duration(&text), parse_size(&text));
        }

        #[test]
        fn a_grouped_number_without_its_commas_is_the_number(number: u64) {
            prop_assert_eq!(grouped(number).replace(',', ""), number.to_string());
        }
    }
}
