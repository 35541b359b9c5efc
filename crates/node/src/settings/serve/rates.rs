//! `[[serve.rate]]` and `[[serve.route.rate]]`: limits of the rate of requests.
//!
//! ```text
//!   per_second or per_minute, burst     token bucket: a burst at once, then the rate
//!   per_second or per_minute, waiting   leaky bucket: one request after the other, others wait
//! ```

use rusm_serve::RateLimit;
use serde::Deserialize;
use toml::{Table, Value};

use crate::settings::error::SettingsError;
use crate::settings::layers::in_section;
use crate::settings::limits::U32_MAX;
use crate::settings::raw::{RawSetting, section, tables};
use crate::settings::value::{Flag, Number};

/// Highest rate; more than one machine handles.
const RATE_MAX: u64 = 10_000_000;

/// `[[serve.rate]]` and `[[serve.route.rate]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RateSection {
    per_second: Option<Number<1, RATE_MAX>>,
    per_minute: Option<Number<1, RATE_MAX>>,
    burst: Option<Number<1, U32_MAX>>,
    waiting: Option<Number<1, U32_MAX>>,
    per_client: Flag,
}

/// Reads the limits of a server or of a route; `key` is the name of the section.
pub(super) fn rates(given: Option<&RawSetting>, key: &str, origin: &str) -> Result<Vec<RateLimit>, SettingsError> {
    let shape = if key == "serve.rate" { "written as [[serve.rate]]" } else { "written as [[serve.route.rate]]" };
    let entries: Option<&Value> = given.map(|given| &given.value);
    tables(entries, key, shape, origin)?.into_iter().map(|table| rate(table, key, origin)).collect()
}

fn rate(table: &Table, key: &str, origin: &str) -> Result<RateLimit, SettingsError> {
    let given: RateSection = section(&in_section(key, origin, table.clone()), key, origin)?;
    let shape = |due| SettingsError::Shape { key: key.to_owned(), origin: origin.to_owned(), due };
    let per_sec = match (given.per_second, given.per_minute) {
        (Some(Number(rate)), None) => rate as f64,
        (None, Some(Number(rate))) => rate as f64 / 60.0,
        _ => return Err(shape("a rate in either per_second or per_minute")),
    };
    let limit = match (given.burst, given.waiting) {
        (Some(_), Some(_)) => return Err(shape("limited by either a burst or waiting requests")),
        (None, Some(Number(waiting))) => RateLimit::leaky_bucket(per_sec, waiting),
        (burst, None) => RateLimit::token_bucket(per_sec, burst.map_or_else(|| per_sec.ceil() as u64, |burst| burst.0)),
    };
    let invalid = |error| SettingsError::Invalid(format!("{key} in {origin}: {error}"));
    let limit = limit.map_err(invalid)?;
    Ok(if given.per_client.0 { limit.per_client() } else { limit })
}
