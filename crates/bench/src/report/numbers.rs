//! Numbers for people: three significant digits and a unit, or digits in groups of three.

use std::fmt::{self, Display};

/// A number, formatted with three significant digits and a unit prefix.
pub(crate) struct Amount(pub(crate) f64);

impl Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, &[("", 1.0), (" k", 1e3), (" M", 1e6), (" G", 1e9)])
    }
}

/// A time in nanoseconds, formatted with three significant digits.
pub(crate) struct Nanos(pub(crate) f64);

impl Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, &[(" ns", 1.0), (" µs", 1e3), (" ms", 1e6), (" s", 1e9)])
    }
}

fn scaled(f: &mut fmt::Formatter<'_>, value: f64, units: &[(&str, f64)]) -> fmt::Result {
    // A value that would round up to 1,000 of one unit is shown in the next unit.
    let fits = |scale: &f64| value / scale < 999.5;
    let (unit, scale) =
        units.iter().find(|(_, scale)| fits(scale)).or_else(|| units.last()).copied().unwrap_or(("", 1.0));
    let value = value / scale;
    let whole = unit == units[0].0 && value.fract().abs() < f64::EPSILON;
    let digits = match value {
        _ if whole => 0,
        value if value < 9.995 => 2,
        value => usize::from(value < 99.95),
    };
    write!(f, "{value:.digits$}{unit}")
}

pub(crate) fn bytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "unknown".to_owned(), |bytes| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)))
}

/// Formats a number with its digits in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let shown = [0.0, 7.0, 999.4, 999.6, 12_345.0, 44.3e6, 1e12].map(|value| Amount(value).to_string());

        assert_eq!(shown, ["0", "7", "999", "1.00 k", "12.3 k", "44.3 M", "1000 G"]);
        assert_eq!(Nanos(9_996.0).to_string(), "10.0 µs");
        assert_eq!((grouped(0), grouped(999), grouped(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
    }
}
