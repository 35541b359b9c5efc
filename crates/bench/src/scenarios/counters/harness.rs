//! The environment variables of the seed project's test harness, as parameters of the counter scenarios.

use std::collections::BTreeMap;

use crate::card::Family;
use crate::catalogue::find;
use crate::run::plan::RequestError;

/// The environment variables of the seed's harness, and the flag that each one sets.
pub const HARNESS: [(&str, &str); 11] = [
    ("HARNESS_DURATION", "duration"),
    ("HARNESS_WORKERS", "goroutines"),
    ("HARNESS_KEYS", "keys"),
    ("HARNESS_CHURN", "churn"),
    ("HARNESS_WRITE_DELAY", "write_delay"),
    ("HARNESS_THRESHOLD", "threshold"),
    ("HARNESS_LOW_THRESHOLD", "low_threshold"),
    ("HARNESS_MAX_AGE", "commit_max_age"),
    ("HARNESS_COMMIT_INTERVAL", "commit_interval"),
    ("HARNESS_RATE", "rate"),
    ("HARNESS_BURST", "burst"),
];

/// Adds the values of the harness's environment variables to the given parameters of a counter scenario. Parameters
/// that were given explicitly take precedence.
///
/// # Errors
/// [`RequestError`] if the scenario is unknown.
pub fn fill_from_harness(
    scenario: &str,
    given: &mut BTreeMap<String, String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), RequestError> {
    let card = find(scenario)?.card();
    if card.family != Family::Counters {
        return Ok(());
    }
    for (name, flag) in HARNESS {
        let known = card.parameters.iter().any(|parameter| parameter.name == flag);
        if let Some(value) = variable(name).filter(|value| known && !value.is_empty()) {
            given.entry(flag.to_owned()).or_insert(value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_variables_count_where_nothing_is_given_and_for_counters_alone() {
        let variable = |name: &str| match name {
            "HARNESS_KEYS" => Some("128".to_owned()),
            "HARNESS_WORKERS" => Some("7".to_owned()),
            _ => None,
        };
        let fill = |scenario, given: &[(&str, &str)]| {
            let mut given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            fill_from_harness(scenario, &mut given, variable).map(|()| given)
        };
        let pairs = |given: BTreeMap<String, String>| given.into_iter().collect::<Vec<_>>();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());

        let filled = fill("counter-batch", &[("keys", "3")]).unwrap();
        assert_eq!(pairs(filled), [pair("goroutines", "7"), pair("keys", "3")]);
        assert_eq!(fill("ping-pong", &[]).unwrap(), BTreeMap::new());
        assert!(fill("counter-best", &[]).is_err());
    }
}
