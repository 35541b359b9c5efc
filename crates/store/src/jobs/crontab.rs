//! Times of a crontab expression.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions, parse_crontab_with};
use thiserror::Error;

/// Maximum length of an expression, in bytes.
const BYTES_MAX: usize = u8::MAX as usize;

/// Reason why a crontab expression is refused.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::jobs::{CrontabError, NewJob};
///
/// assert!(NewJob::new("report").crontab("0 9 * * MON-FRI Europe/Paris").is_ok());
/// let error: CrontabError = NewJob::new("report").crontab("0 25 * * *").unwrap_err();
/// println!("{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("crontab {expression:?}: {reason}")]
pub struct CrontabError {
    expression: String,
    reason: String,
}

/// The parser looks for a time in the four years after another one, so later ones are looked for from there on.
const LOOK_MS: u64 = 4 * 365 * 24 * 3_600 * 1_000;
/// Number of such looks. Some 29 February comes within 8 years, and on a given day of the week within 40.
const LOOKS: u64 = 12;

/// Checks an expression: it is valid, and has a next time.
pub(super) fn check(expression: &str) -> Result<(), CrontabError> {
    let reason = if expression.len() > BYTES_MAX {
        format!("it is longer than {BYTES_MAX} bytes")
    } else {
        match parse(expression) {
            Ok(crontab) if next(&crontab, 0).is_some() => return Ok(()),
            Ok(_) => "it matches no time of 48 years".to_owned(),
            Err(error) => error,
        }
    };
    Err(CrontabError { expression: expression.chars().take(BYTES_MAX).collect(), reason })
}

/// Returns the first time of an expression after another time, both in milliseconds since 1970.
pub(super) fn next_ms(expression: &[u8], after_ms: u64) -> Option<u64> {
    next(&parse(std::str::from_utf8(expression).ok()?).ok()?, after_ms)
}

fn next(crontab: &Crontab, after_ms: u64) -> Option<u64> {
    (0..LOOKS).find_map(|look| next_of_four_years(crontab, after_ms.checked_add(look * LOOK_MS)?))
}

fn next_of_four_years(crontab: &Crontab, after_ms: u64) -> Option<u64> {
    let after = MakeTimestamp::from_millisecond(after_ms.try_into().ok()?).ok()?;
    u64::try_from(crontab.find_next(after).ok()?.timestamp().as_millisecond()).ok()
}

fn parse(expression: &str) -> Result<Crontab, String> {
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    parse_crontab_with(expression, options).map_err(|error| {
        // The parser shows the expression in a line of its own, with an arrow below it, and then the reason.
        let error = error.to_string();
        let reason = error.rsplit_once("^ ").map_or("not valid", |(_, reason)| reason);
        reason.split("; for a list").next().unwrap_or(reason).to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_comes_once_in_many_years_is_found() {
        const DAY_MS: u64 = 24 * 3_600 * 1_000;
        let (in_2096, in_2104) = (3_981_312_000_000, 4_233_686_400_000);
        let next = |expression: &str| next_ms(expression.as_bytes(), in_2096);

        assert_eq!(next("0 0 29 2 *"), Some(in_2104));
        assert!(next("0 0 * 2 TUE#5").is_some_and(|next| next > in_2104 && next < in_2104 + 40 * 366 * DAY_MS));
        assert_eq!(next("0 0 30 2 *"), None);
    }
}
