//! The flags of the seed project's test harness as scenario parameters, with the same names and defaults.
//!
//! ```text
//!   HARNESS_… variables ──▶ fill in what was not given ──▶ preset ──▶ fills in the rest ──▶ Params ──▶ Flags
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_runtime::counter::{BATCH_MAX, BatchOptions, CommitOptions, CrdtOptions, Quota, REPLICAS_MAX};

use crate::parameter::{Kind, Parameter, ParameterError, Params};

const fn count(name: &'static str, description: &'static str, range: (u64, u64), default: u64) -> Parameter {
    Parameter { name, description, kind: Kind::Count { min: range.0, max: range.1, default } }
}

const fn time(name: &'static str, description: &'static str, least: Duration, default: Duration) -> Parameter {
    Parameter { name, description, kind: Kind::Time { min: least, max: Duration::from_mins(1), default } }
}

const ZERO: Duration = Duration::ZERO;
const LEAST: Duration = Duration::from_micros(100);

/// All flags of the seed's harness except `variant`, which is the scenario here, followed by our own.
pub(crate) const FLAGS: &[Parameter] = &[
    count("ops", "Operations in a round, by all workers together.", (1, 10_000_000_000), 200_000),
    time("duration", "Length of a round, in place of a number of operations; 0 turns this off.", ZERO, ZERO),
    count("goroutines", "Workers; each is a process.", (1, 100_000), 32),
    count("keys", "Number of keys; all are used equally often.", (1, 1_000_000), 1),
    count("churn", "Percentage of negative operations.", (0, 100), 50),
    count("threshold", "vsa: a net change of this size or more is stored.", (1, 1 << 40), 64),
    Parameter {
        name: "low_threshold",
        description: "vsa: net change that arms the threshold again after a failed commit; auto is half of it.",
        kind: Kind::AutoCount { min: 0, max: 1 << 40 },
    },
    time("commit_interval", "vsa: interval between two checks of all keys.", LEAST, Duration::from_millis(10)),
    time(
        "commit_max_age",
        "vsa: an untouched key is stored after this time; 0 is never.",
        ZERO,
        Duration::from_millis(15),
    ),
    time(
        "commit_oldest_max",
        "vsa: an operation is stored after this time, even if its key is busy; 0 is never.",
        ZERO,
        ZERO,
    ),
    count("batch_size", "batch: operations in a batch.", (1, BATCH_MAX), 64),
    time(
        "batch_interval",
        "batch: longest time that a batch waits for more operations.",
        LEAST,
        Duration::from_millis(10),
    ),
    count("replicas", "crdt: replicas of each key.", (1, REPLICAS_MAX as u64), 4),
    time("merge_interval", "crdt: time between two merges.", LEAST, Duration::from_millis(25)),
    count("rate", "token, leaky: operations per second for each key.", (1, 100_000_000), 10_000),
    count("burst", "token, leaky: burst of operations for each key.", (1, 1_000_000), 100),
    Parameter {
        name: "write_delay",
        description: "Delay of each call of the store; the table has the real delay.",
        kind: Kind::Time { min: ZERO, max: Duration::from_secs(1), default: ZERO },
    },
    count("sample_every", "At most one operation in this many is timed; 0 times none.", (0, 1 << 32), 1),
    count("max_latency_samples", "Accepted without effect: a histogram holds all samples.", (0, 1 << 40), 200_000),
    Parameter {
        name: "seed",
        description: "Random seed of the operations; auto is the seed of the run.",
        kind: Kind::AutoCount { min: 0, max: u64::MAX },
    },
    Parameter {
        name: "preset",
        description: "Recipes of the seed project: 128 keys, threshold, commit interval and age; given values override \
                      them.",
        kind: Kind::Choice { words: &["none", "balanced", "low-pressure", "fresh"] },
    },
];

/// Name of the parameter that sets several others.
pub const PRESET: &str = "preset";
/// Parameters set by a preset.
const BY_PRESET: [&str; 5] = ["keys", "threshold", "low_threshold", "commit_interval", "commit_max_age"];

/// Removes the values that a preset sets, also those that the user gave, because another preset was chosen.
pub fn forget_preset(given: &mut BTreeMap<String, String>) {
    given.retain(|name, _| !BY_PRESET.contains(&name.as_str()));
}

/// Adds the values of the chosen preset.
pub(crate) fn fill_from_preset(given: &mut BTreeMap<String, String>) {
    let options = match given.get(PRESET).map(String::as_str) {
        Some("balanced") => CommitOptions::balanced(),
        Some("low-pressure") => CommitOptions::low_pressure(),
        Some("fresh") => CommitOptions::fresh(),
        _ => return,
    };
    let values = BY_PRESET.into_iter().zip([
        "128".to_owned(),
        options.threshold.to_string(),
        options.low_threshold.to_string(),
        format!("{:?}", options.interval),
        format!("{:?}", options.max_age),
    ]);
    // If a threshold is given, the low threshold defaults to half of it and not to the preset's value.
    let own_threshold = given.contains_key("threshold");
    for (name, value) in values.filter(|(name, _)| *name != "low_threshold" || !own_threshold) {
        given.entry(name.to_owned()).or_insert(value);
    }
}

/// The parsed values of the flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flags {
    pub(crate) ops: u64,
    pub(crate) duration: Duration,
    pub(crate) workers: u64,
    pub(crate) keys: u64,
    pub(crate) churn: u64,
    pub(crate) commit: CommitOptions,
    pub(crate) batch: BatchOptions,
    pub(crate) crdt: CrdtOptions,
    pub(crate) quota: Quota,
    pub(crate) write_delay: Duration,
    pub(crate) sample_every: u64,
    pub(crate) seed: u64,
}

impl Flags {
    /// Parses the parameters and checks the combinations that must be consistent.
    pub(crate) fn of(params: &Params) -> Result<Self, ParameterError> {
        let threshold = params.number("threshold");
        let commit = CommitOptions {
            threshold,
            low_threshold: params.auto_number("low_threshold").unwrap_or(threshold / 2),
            interval: params.time("commit_interval"),
            max_age: params.time("commit_max_age"),
            oldest_max: params.time("commit_oldest_max"),
        };
        let together = |error: &dyn std::error::Error| ParameterError::Together(error.to_string());
        commit.check().map_err(|error| together(&error))?;
        let quota = Quota::per_sec(params.number("rate") as f64, params.number("burst"));
        Ok(Self {
            ops: params.number("ops"),
            duration: params.time("duration"),
            workers: params.number("goroutines"),
            keys: params.number("keys"),
            churn: params.number("churn"),
            commit,
            batch: BatchOptions { size: params.number("batch_size"), interval: params.time("batch_interval") },
            crdt: CrdtOptions {
                replicas: params.number("replicas") as usize,
                merge_interval: params.time("merge_interval"),
            },
            quota: quota.map_err(|error| together(&error))?,
            write_delay: params.time("write_delay"),
            sample_every: params.number("sample_every"),
            seed: params.auto_number("seed").unwrap_or(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::plan::{Plan, Request, RequestError};

    fn plan(params: &[(&str, &str)]) -> Result<Plan, RequestError> {
        let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Plan::of(&Request { scenario: "counter-vsa".to_owned(), params, ..Request::default() })
    }

    fn flags(params: &[(&str, &str)]) -> Flags {
        Flags::of(&plan(params).unwrap().params).unwrap()
    }

    #[test]
    fn the_defaults_are_the_seeds() {
        let flags = flags(&[]);

        assert_eq!((flags.ops, flags.workers, flags.keys, flags.churn), (200_000, 32, 1, 50));
        assert_eq!(flags.commit, CommitOptions::default());
        assert_eq!((flags.batch, flags.crdt), (BatchOptions::default(), CrdtOptions::default()));
        assert_eq!((flags.quota.rate_per_sec(), flags.quota.burst()), (10_000.0, 100));
        assert_eq!((flags.duration, flags.write_delay, flags.sample_every), (ZERO, ZERO, 1));
    }

    #[test]
    fn the_seeds_command_lines_are_understood() {
        let flags = flags(&[
            ("duration", "750ms"),
            ("write_delay", "50us"),
            ("commit_interval", "1ms"),
            ("threshold", "192"),
            ("low_threshold", "96"),
            ("max_latency_samples", "0"),
            ("sample_every", "0"),
        ]);

        assert_eq!((flags.duration, flags.write_delay), (Duration::from_millis(750), Duration::from_micros(50)));
        assert_eq!((flags.commit.low_threshold, flags.commit.interval), (96, Duration::from_millis(1)));
    }

    #[test]
    fn a_preset_fills_in_what_is_not_given() {
        let preset = flags(&[("preset", "low-pressure")]);
        let own = flags(&[("preset", "fresh"), ("threshold", "40"), ("keys", "3")]);

        assert_eq!((preset.keys, preset.commit), (128, CommitOptions::low_pressure()));
        let expected = CommitOptions { threshold: 40, low_threshold: 20, ..CommitOptions::fresh() };
        assert_eq!((own.keys, own.commit), (3, expected));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_number() {
        let error = |params| plan(params).unwrap_err().to_string();

        assert_eq!(
            error(&[("threshold", "10"), ("low_threshold", "12")]),
            "low threshold of 12 is not below the threshold of 10"
        );
        assert_eq!(error(&[("churn", "101")]), r#"churn of "101" is not in 0–100"#);
        assert_eq!(error(&[("goroutines", "0")]), r#"goroutines of "0" is not in 1–100000"#);
        assert_eq!(error(&[("rate", "-5")]), r#"rate of "-5" is not in 1–100000000"#);
        assert_eq!(
            error(&[("write_delay", "50")]),
            r#"write_delay of "50" is not in 0ns–1s: a time has a unit, for example 50ms"#
        );
        assert_eq!(error(&[("commit_interval", "0")]), r#"commit_interval of "0" is not in 100µs–60s"#);
        assert_eq!(error(&[("batch_size", "0")]), r#"batch_size of "0" is not in 1–65536"#);
        assert_eq!(error(&[("preset", "best")]), r#"preset of "best" is not in none, balanced, low-pressure, fresh"#);
    }
}
