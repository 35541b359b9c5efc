//! Recipe of a report: all settings needed to repeat it on another machine.
//!
//! ```text
//!   flags ──▶ Recipe ──▶ run ──▶ Document { recipe, … } ──▶ run again from the report, or from a file with the recipe
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_runtime::Config;
use serde::{Deserialize, Serialize};

use crate::defaults;
use crate::measure::steady::SteadyRule;
use crate::run::headless::HeadlessOptions;
use crate::run::plan::Request;

/// All settings needed to repeat a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The scenario's id.
    pub scenario: String,
    /// The resource profile's id.
    pub profile: String,
    /// Operations per second that the open loop offers; absent or `null` is a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_sec: Option<f64>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of scheduler threads; absent or `null` is one for each core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedulers: Option<usize>,
    /// Maximum number of live processes; absent or `null` uses the node's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_limit: Option<usize>,
    /// Capacity of a mailbox, in messages; absent or `null` uses the node's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mailbox_capacity: Option<u32>,
    /// Number of runs.
    pub runs: u32,
    /// Length of each measurement, in milliseconds.
    pub duration_ms: u64,
    /// Shortest warm-up, in milliseconds.
    pub warm_up_min_ms: u64,
    /// Longest warm-up, in milliseconds.
    pub warm_up_max_ms: u64,
    /// Parameters of the scenario.
    pub params: BTreeMap<String, String>,
}

impl Default for Recipe {
    fn default() -> Self {
        let millis = |time: Duration| time.as_millis() as u64;
        Self {
            scenario: String::new(),
            profile: defaults::PROFILE.id().to_owned(),
            rate_per_sec: None,
            seed: defaults::SEED,
            schedulers: None,
            process_limit: None,
            mailbox_capacity: None,
            runs: defaults::RUNS,
            duration_ms: millis(defaults::DURATION),
            warm_up_min_ms: millis(defaults::WARM_UP_MIN),
            warm_up_max_ms: millis(defaults::WARM_UP_MAX),
            params: BTreeMap::new(),
        }
    }
}

impl Recipe {
    /// Returns the request to send to a node.
    pub fn request(&self) -> Request {
        Request {
            scenario: self.scenario.clone(),
            profile: Some(self.profile.clone()),
            params: self.params.clone(),
            rate_per_sec: self.rate_per_sec,
            seed: Some(self.seed),
        }
    }

    /// Returns the options to run it, on a runtime configured like `runtime` except for the recipe's own settings.
    pub fn options(&self, runtime: &Config) -> HeadlessOptions {
        HeadlessOptions {
            duration: Duration::from_millis(self.duration_ms),
            warm_up: SteadyRule {
                min: Duration::from_millis(self.warm_up_min_ms),
                max: Duration::from_millis(self.warm_up_max_ms.max(self.warm_up_min_ms)),
            },
            runtime: Config {
                schedulers: self.schedulers.unwrap_or(runtime.schedulers),
                process_limit: self.process_limit.unwrap_or(runtime.process_limit),
                mailbox_capacity: self.mailbox_capacity.unwrap_or(runtime.mailbox_capacity),
                // Some scenarios crash processes on purpose, and count them.
                log_crashes: false,
                ..runtime.clone()
            },
            ..HeadlessOptions::new(self.request())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_survives_its_json_and_refuses_what_it_does_not_know() {
        let recipe = Recipe { scenario: "ping-pong".to_owned(), rate_per_sec: Some(1e3), ..Recipe::default() };
        let text = serde_json::to_string(&recipe).unwrap();

        assert_eq!(serde_json::from_str::<Recipe>(&text).unwrap(), recipe);
        let error = serde_json::from_str::<Recipe>(r#"{"scenario":"fan-in","ruins":3}"#).unwrap_err();
        assert!(error.to_string().contains("unknown field `ruins`"), "{error}");
    }

    #[test]
    fn what_a_recipe_leaves_out_is_as_the_node_is_set() {
        let node = Config { schedulers: 3, process_limit: 500, mailbox_capacity: 32, ..Config::default() };
        let told =
            Recipe { schedulers: Some(1), process_limit: Some(900), mailbox_capacity: Some(16), ..Recipe::default() };

        let options = Recipe::default().options(&node);
        let other = told.options(&node);

        let set = |config: &Config| (config.schedulers, config.process_limit, config.mailbox_capacity);
        assert_eq!((set(&options.runtime), set(&other.runtime)), ((3, 500, 32), (1, 900, 16)));
        assert_eq!((options.duration, options.warm_up), (defaults::DURATION, SteadyRule::default()));
    }
}
