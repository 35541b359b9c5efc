//! Formats numbers for people: three or four significant digits, units at the end, no control characters.
//!
//! Few digits also save bandwidth: an unchanged cell is not sent to the terminal.

pub(crate) use rusm_text::grouped;

/// Formats a count or a rate in at most five characters: `912`, `1.21M`.
pub(crate) fn short(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return "-".to_owned();
    }
    if value < 9.95 && value.fract() > 0.05 {
        return format!("{value:.1}");
    }
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// Formats a count in full if it fits into `width` columns, else abbreviated.
pub(crate) fn count_within(n: u64, width: usize) -> String {
    let full = grouped(n);
    if full.len() <= width { full } else { short(n as f64) }
}

/// Formats a size for a narrow column: `64K`, `1.21G`.
pub(crate) fn bytes_short(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &["B", "K", "M", "G", "T", "P", "E"])
}

/// Formats a size with its unit: `64.0 KiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// Formats a rate in bytes per second: `4.2 KiB/s`.
pub(crate) fn bytes_per_sec(rate: f64) -> String {
    format!("{}/s", bytes(rate.max(0.0) as u64))
}

/// Formats a duration. `micro` is the prefix for a millionth that the terminal can show.
pub(crate) fn nanos(ns: u64, micro: &str) -> String {
    let value = ns as f64;
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (value / 1e3, format!("{micro}s")),
        1_000_000..1_000_000_000 => (value / 1e6, "ms".to_owned()),
        _ => (value / 1e9, "s".to_owned()),
    };
    format!("{} {unit}", three_digits(value))
}

/// Formats a number in a unit of a result's table: `count`, `amount`, `ns`, `percent`, `ratio`, `bytes` or `seconds`.
pub(crate) fn in_unit(value: f64, unit: &str, micro: &str) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let digits = |value: f64| match value.abs() {
        small if small < 0.0995 => format!("{value:.3}"),
        small if small < 9.95 => format!("{value:.2}"),
        small if small < 99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    match unit {
        "count" if value >= 0.0 => grouped(value.round() as u64),
        "bytes" if value >= 0.0 => bytes(value.round() as u64),
        "ns" if value >= 999.5 => nanos(value.round() as u64, micro),
        "ns" => format!("{} ns", digits(value)),
        "percent" => format!("{} %", digits(value)),
        "ratio" => digits(value),
        "seconds" => format!("{value:.0} s"),
        _ if value < 0.0 => format!("-{}", short(-value)),
        _ => short(value),
    }
}

/// Formats a percentage: `87 %`, `0.31 %`.
pub(crate) fn percent(value: f64) -> String {
    // Normalise -0.0, which is the sum of an empty iterator.
    let value = value + 0.0;
    if !value.is_finite() {
        "- %".to_owned()
    } else if value == 0.0 {
        "0 %".to_owned()
    } else if value >= 9.95 {
        format!("{value:.0} %")
    } else if value >= 0.995 {
        format!("{value:.1} %")
    } else if value > 0.0 && value < 0.005 {
        "<0.01 %".to_owned()
    } else {
        format!("{value:.2} %")
    }
}

/// Formats per cent of one core as a number of cores: `0.81`, `12.4`.
pub(crate) fn cores(pct: f64) -> String {
    let cores = (pct / 100.0).max(0.0) + 0.0;
    if !cores.is_finite() {
        "-".to_owned()
    } else if cores < 9.995 {
        format!("{cores:.2}")
    } else {
        format!("{cores:.1}")
    }
}

/// Formats a running time: `00:34`, `1:22:07`, `3d 04:12`.
pub(crate) fn clock(ms: u64) -> String {
    let s = ms / 1000;
    let (days, hours, minutes, seconds) = (s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes:02}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}d {hours:02}:{minutes:02}"),
    }
}

/// Formats the time of day in UTC of a time since 1970: `03:44:21`.
pub(crate) fn time_of_day(unix_ms: u64) -> String {
    let s = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
}

/// Formats an age for a narrow column: `120ms`, `4s`, `4m12`, `2h05`, `3d04`.
pub(crate) fn age(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 => format!("{ms}ms"),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}", s / 86_400, s / 3600 % 24),
    }
}

/// Returns a round value at or above `value`, for the top of a chart's axis.
pub(crate) fn axis_top(value: f64) -> f64 {
    if !value.is_finite() || value <= 1.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|&top| top >= value)
        .unwrap_or(10.0 * power)
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= base * 0.9995 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0}{}", units[0]) } else { format!("{}{}", three_digits(value), units[unit]) }
}

fn three_digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Formats a point in time as the node's uptime, to a tenth of a second.
pub(crate) fn moment(at_ms: u64) -> String {
    format!("{}.{}", clock(at_ms), at_ms % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        let texts = [0, 999, 1000, 1_000_000].map(grouped);

        assert_eq!(texts, ["0", "999", "1,000", "1,000,000"]);
    }

    #[test]
    fn short_numbers_keep_three_digits_and_fit_five_columns() {
        let texts = [0.0, 3.21, 42.0, 999.0, 999.6, 12_345.0, 2_412_077.0, 1e9].map(short);

        assert_eq!(texts, ["0", "3.2", "42", "999", "1.00k", "12.3k", "2.41M", "1.00G"]);
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!([f64::NAN, f64::INFINITY, -1.0].map(short), ["-", "-", "-"]);
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(bytes(64 * 1024), "64.0 KiB");
        assert_eq!(bytes_short(1_300_000_000), "1.21G");
        assert_eq!(bytes_short(512), "512B");
    }

    #[test]
    fn durations_pick_their_unit() {
        let texts = [84, 12_300, 1_200_000, 3_400_000_000].map(|ns| nanos(ns, "µ"));

        assert_eq!(texts, ["84 ns", "12.3 µs", "1.20 ms", "3.40 s"]);
    }

    #[test]
    fn clocks_grow_with_their_time() {
        let texts = [34_000, 4_927_000, 274_320_000].map(clock);

        assert_eq!(texts, ["00:34", "1:22:07", "3d 04:12"]);
    }

    #[test]
    fn an_axis_ends_at_a_round_number_above_the_value() {
        assert_eq!([0.0, 2.41e6, 1e6, 1.01e6].map(axis_top).map(short), ["1", "2.50M", "1.00M", "1.20M"]);
    }
}
