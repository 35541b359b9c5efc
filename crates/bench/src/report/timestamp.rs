//! Time of a measurement: the only place that reads the wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time as `2026-11-21T14:03:59Z`.
#[expect(clippy::disallowed_methods, reason = "the only place that timestamps reports")]
pub(crate) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text(since)
}

fn text(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Converts days since 1970-01-01 to a date. Years begin in March here, so that leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) =
        (day_of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let texts = [0, 951_827_696, 1_709_251_199, 4_102_444_800].map(|seconds| text(Duration::from_secs(seconds)));

        assert_eq!(
            texts,
            ["1970-01-01T00:00:00Z", "2000-02-29T12:34:56Z", "2024-02-29T23:59:59Z", "2100-01-01T00:00:00Z"]
        );
        assert!(now().as_str() > "2026");
    }
}
