//! A measurement that a client requested, checked before anything starts.

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_console::HostError;
use rusm_protocol::{ErrorCode, RunSettings};
use rusm_runtime::Config;
use rusm_text::suggestion;

use crate::defaults;
use crate::judge::saturate::{SEARCHES, SaturateOptions};
use crate::judge::scenario_system::LEVEL;
use crate::judge::sweep::{Axis, cells, parse_grid};
use crate::run::headless::{RUNS_MAX, check_duration};
use crate::run::plan::Plan;
use crate::run::profile::Profile;
use crate::run::recipe::Recipe;

/// Maximum number of searches and of rounds.
const REPEATS_MAX: u32 = 100;
/// Minimum number of rounds of a comparison.
const ROUNDS_MIN: u32 = 2;
/// Length of a long run if none is given.
const SOAK: Duration = Duration::from_mins(30);
/// Words for the kinds of measurements.
const KINDS: [&str; 5] = ["run", "sweep", "saturate", "soak", "ab"];

/// Kind of a measurement, with what only this kind needs.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Runs of one recipe.
    Series,
    /// One series for each combination of parameters.
    Sweep { axes: Vec<Axis>, cells: Vec<Recipe> },
    /// A search for the highest stable rate.
    Saturate(SaturateOptions),
    /// A long run, searched for growth.
    Soak,
    /// Interleaved runs of the recipe and of an earlier result's recipe.
    Ab { baseline: Box<Recipe>, number: u64 },
}

impl Kind {
    /// Returns the word on the wire.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Series => "run",
            Self::Sweep { .. } => "sweep",
            Self::Saturate(_) => "saturate",
            Self::Soak => "soak",
            Self::Ab { .. } => "ab",
        }
    }
}

/// A checked measurement.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub(crate) kind: Kind,
    /// All settings, with every parameter.
    pub(crate) recipe: Recipe,
    /// True if it runs until it is stopped.
    pub(crate) is_endless: bool,
    /// The settings as they were requested.
    pub(crate) settings: RunSettings,
}

/// Number and settings of a measurement that was begun.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) kind: &'static str,
    pub(crate) recipe: Recipe,
    pub(crate) settings: RunSettings,
    /// True if the scenario runs cases in turn.
    pub(crate) takes_turns: bool,
}

/// What a client requested.
pub(crate) struct Wish<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) params: &'a BTreeMap<String, String>,
    pub(crate) settings: &'a RunSettings,
    /// Profile if the settings name none.
    pub(crate) profile: Profile,
}

impl Measurement {
    /// Checks a request. `baseline` returns the number and the recipe of an earlier result of the scenario.
    ///
    /// # Errors
    /// [`HostError`] with a line for the client.
    pub(crate) fn of(
        wish: &Wish<'_>,
        runtime: &Config,
        baseline: impl FnOnce(Option<u64>) -> Option<(u64, Recipe)>,
    ) -> Result<Self, HostError> {
        let settings = wish.settings;
        let word = settings.kind.as_deref().unwrap_or(KINDS[0]);
        if !KINDS.contains(&word) {
            let message = format!("unknown kind {word:?}: {}", suggestion(word, KINDS));
            return Err(HostError { code: ErrorCode::Unknown, message });
        }
        check_extras(word, settings)?;
        let millis = |time: Duration| time.as_millis() as u64;
        let runs = settings.runs.unwrap_or(match word {
            "saturate" => SEARCHES,
            "ab" => defaults::RUNS,
            _ => 1,
        });
        check_runs(word, runs)?;
        let is_endless = word == "run" && runs == 1 && settings.duration_ms.is_none();
        let usual = match word {
            "saturate" => LEVEL,
            "soak" => SOAK,
            _ => defaults::DURATION,
        };
        let warm_up_max_ms = settings.warm_up_ms.unwrap_or_else(|| millis(defaults::WARM_UP_MAX));
        if warm_up_max_ms == 0 || warm_up_max_ms > millis(Duration::from_hours(1)) {
            return Err(out_of_range(format!("warm-up of {warm_up_max_ms} ms is not between 1 ms and 1 h")));
        }
        let mut recipe = Recipe {
            scenario: wish.scenario.to_owned(),
            profile: settings.profile.clone().unwrap_or_else(|| wish.profile.id().to_owned()),
            rate_per_sec: settings.rate_per_sec,
            seed: settings.seed.unwrap_or(defaults::SEED),
            schedulers: Some(runtime.schedulers),
            process_limit: Some(runtime.process_limit),
            mailbox_capacity: Some(runtime.mailbox_capacity),
            runs: if matches!(word, "run" | "sweep") { runs } else { 1 },
            duration_ms: settings.duration_ms.unwrap_or_else(|| millis(usual)),
            warm_up_min_ms: millis(defaults::WARM_UP_MIN).min(warm_up_max_ms),
            warm_up_max_ms,
            params: wish.params.clone(),
        };
        check_duration(Duration::from_millis(recipe.duration_ms)).map_err(|error| out_of_range(error.to_string()))?;
        let plan = Plan::of(&recipe.request())?;
        let kind = match word {
            "sweep" => {
                let axes = parse_grid(&settings.grid).map_err(|error| out_of_range(error.to_string()))?;
                let cells = cells(&recipe, &axes).map_err(|error| out_of_range(error.to_string()))?;
                Kind::Sweep { axes, cells }
            }
            "saturate" => {
                // A scenario that cannot be offered a rate is refused now.
                Plan::of(&Recipe { rate_per_sec: Some(1e6), ..recipe.clone() }.request())?;
                let (slo_p99_ns, seed) = (settings.slo_p99_ns, recipe.seed);
                Kind::Saturate(SaturateOptions { slo_p99_ns, seed, searches: runs, ..SaturateOptions::default() })
            }
            "soak" => Kind::Soak,
            "ab" => {
                let (number, baseline) = baseline(settings.baseline).ok_or_else(|| {
                    let message = match settings.baseline {
                        Some(number) => format!("no result {number} of {} to compare with", wish.scenario),
                        None => format!("no earlier result of {} to compare with: run it first", wish.scenario),
                    };
                    HostError { code: ErrorCode::Unknown, message }
                })?;
                let baseline = Recipe { runs: 1, duration_ms: recipe.duration_ms, ..baseline };
                Kind::Ab { baseline: Box::new(baseline), number }
            }
            _ => Kind::Series,
        };
        recipe.params = plan.params.said();
        if word == "ab" {
            // The number of rounds; a round has four runs.
            recipe.runs = runs;
        }
        Ok(Self { kind, recipe, is_endless, settings: settings.clone() })
    }

    /// Returns the measurement with another profile.
    pub(crate) fn with_profile(mut self, profile: Profile) -> Self {
        profile.id().clone_into(&mut self.recipe.profile);
        if let Kind::Sweep { cells, .. } = &mut self.kind {
            for cell in cells {
                profile.id().clone_into(&mut cell.profile);
            }
        }
        self
    }
}

/// Refuses settings that this kind of measurement does not have: they would be ignored without a word.
fn check_extras(word: &str, settings: &RunSettings) -> Result<(), HostError> {
    let refuse = |is_given: bool, what: &str, owner: &str| {
        if is_given && word != owner {
            return Err(out_of_range(format!("{what} belongs to {owner}, not to {word}: leave it out")));
        }
        Ok(())
    };
    refuse(!settings.grid.is_empty(), "a grid", "sweep")?;
    refuse(settings.slo_p99_ns.is_some(), "a latency limit", "saturate")?;
    refuse(settings.baseline.is_some(), "a baseline", "ab")?;
    if word == "sweep" && settings.grid.is_empty() {
        return Err(out_of_range("a sweep needs a grid of the form name=a,b,c".to_owned()));
    }
    if word == "saturate" && settings.rate_per_sec.is_some() {
        return Err(out_of_range("saturate chooses the rates itself: leave the rate out".to_owned()));
    }
    Ok(())
}

fn check_runs(word: &str, runs: u32) -> Result<(), HostError> {
    let (what, range) = match word {
        "saturate" => ("searches", 1..=REPEATS_MAX),
        "ab" => ("rounds", ROUNDS_MIN..=REPEATS_MAX),
        "soak" => ("runs of a soak", 1..=1),
        _ => ("runs", 1..=RUNS_MAX),
    };
    if range.contains(&runs) {
        return Ok(());
    }
    Err(out_of_range(format!("{runs} {what} are not between {} and {}", range.start(), range.end())))
}

const fn out_of_range(message: String) -> HostError {
    HostError { code: ErrorCode::OutOfRange, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scenario: &str, settings: &RunSettings) -> Result<Measurement, String> {
        let params = BTreeMap::new();
        let wish = Wish { scenario, params: &params, settings, profile: Profile::Max };
        let earlier = |number: Option<u64>| {
            let recipe = Recipe { scenario: "ping-pong".to_owned(), seed: 9, ..Recipe::default() };
            number.is_none_or(|number| number == 3).then_some((3, recipe))
        };
        Measurement::of(&wish, &Config { schedulers: 2, ..Config::default() }, earlier).map_err(|error| error.message)
    }

    fn kind(word: &str) -> RunSettings {
        RunSettings { kind: Some(word.to_owned()), ..RunSettings::default() }
    }

    #[test]
    fn a_bare_request_runs_until_it_is_stopped() {
        let bare = check("ping-pong", &RunSettings::default()).unwrap();
        let timed = check("ping-pong", &RunSettings { duration_ms: Some(200), ..RunSettings::default() }).unwrap();
        let many = check("ping-pong", &RunSettings { runs: Some(3), ..RunSettings::default() }).unwrap();

        assert_eq!((bare.is_endless, bare.recipe.profile.as_str()), (true, "max"));
        assert_eq!((timed.is_endless, timed.recipe.duration_ms), (false, 200));
        assert_eq!((many.is_endless, many.recipe.runs, many.recipe.duration_ms), (false, 3, 5_000));
    }

    #[test]
    fn each_kind_has_its_own_defaults() {
        let saturate = check("ping-pong", &kind("saturate")).unwrap();
        let sweep = check("ping-pong", &RunSettings { grid: vec!["pairs=1,2".to_owned()], ..kind("sweep") }).unwrap();
        let ab = check("ping-pong", &kind("ab")).unwrap();

        assert!(matches!(&saturate.kind, Kind::Saturate(options) if options.searches == SEARCHES), "{saturate:?}");
        assert!(matches!(&sweep.kind, Kind::Sweep { cells, .. } if cells.len() == 2), "{sweep:?}");
        assert!(matches!(&ab.kind, Kind::Ab { baseline, number: 3 } if baseline.seed == 9), "{ab:?}");
        assert_eq!((saturate.recipe.duration_ms, ab.recipe.runs), (6_000, 6));
    }

    #[test]
    fn what_does_not_fit_is_refused_in_one_line() {
        for (scenario, settings, expected) in [
            ("ping-pong", kind("swep"), r#"unknown kind "swep": did you mean "sweep"?"#),
            ("ping-pong", kind("sweep"), "a sweep needs a grid of the form name=a,b,c"),
            ("ping-pong", RunSettings { rate_per_sec: Some(1.0), ..kind("saturate") }, "saturate chooses the rates"),
            (
                "ping-pong",
                RunSettings { grid: vec!["a=1".into()], ..kind("run") },
                "a grid belongs to sweep, not to run",
            ),
            ("ping-pong", RunSettings { runs: Some(1), ..kind("ab") }, "1 rounds are not between 2 and 100"),
            ("ping-pong", RunSettings { baseline: Some(4), ..kind("ab") }, "no result 4 of ping-pong to compare with"),
            ("ping-pong", RunSettings { duration_ms: Some(1), ..kind("run") }, "duration of 1ms is not between"),
            ("ping-pong", RunSettings { warm_up_ms: Some(0), ..kind("run") }, "warm-up of 0 ms is not between"),
            ("ping-pong", RunSettings { rate_per_sec: Some(-1.0), ..kind("run") }, ""),
            ("timer-path", kind("saturate"), "timer-path runs cases in turn, each at its own rate"),
        ] {
            let refused = check(scenario, &settings).unwrap_err();
            assert!(refused.starts_with(expected) && !refused.contains('\n'), "{refused}");
        }
    }
}
