//! Runs a scenario for a long time and checks whether anything grows.
//!
//! ```text
//!   short run, ended ─▶ live bytes ─▶ long run, with samples ─▶ ended ─▶ live bytes: equal within 64 KiB?
//!                                         │
//!                                         └─▶ each quantity without the rise to its plateau: Mann–Kendall, Theil–Sen
//! ```

mod growth;
mod sample;
mod text;

pub use growth::Growth;
pub use sample::SoakSample;

use std::time::{Duration, Instant};

use rusm_runtime::Config;
use serde::Serialize;

use crate::measure::live_bytes::live_bytes;
use crate::report::Report;
use crate::report::document::{Document, DocumentKind, Origin};
use crate::report::machine::Machine;
use crate::run::flags::StopFlag;
use crate::run::headless::{HeadlessError, HeadlessOptions, check};
use crate::run::recipe::Recipe;
use crate::run::runner::{OnNewRuntimes, Runner};

/// Shortest interval between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of samples in a run: one per second for a day, one per 7 seconds for a week.
const SAMPLES_MAX: u32 = 86_400;
/// Maximum difference of live bytes after everything has ended.
const DRAINED_DIFFERENCE_MAX: u64 = 64 << 10;

/// Result of a long run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Soak {
    /// Time and machine of the run, and the recipe to repeat it.
    #[serde(flatten)]
    pub origin: Origin,
    /// The run.
    pub run: Report,
    /// Trend of each quantity.
    pub growths: Vec<Growth>,
    /// Live bytes after a short run before the long one; `null` if the allocator does not count them.
    pub live_bytes_before: Option<u64>,
    /// Live bytes after the long run had ended.
    pub live_bytes_after: Option<u64>,
    /// Assessment of the run.
    pub verdict: SoakVerdict,
    /// One sample per second. In a run longer than a day, the interval in seconds is the length in days.
    pub samples: Vec<SoakSample>,
}

/// Assessment of a long run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakVerdict {
    /// Nothing grew.
    Level,
    /// Something grew, or memory was not freed.
    Growing,
    /// The run was too short to tell.
    TooShort,
    /// The run failed.
    Failed,
}

/// Runs a scenario for as long as its recipe says, or until it is stopped.
///
/// # Errors
/// [`HeadlessError`] if nothing could be run. A run that failed is in the result.
pub fn run_soak(
    recipe: &Recipe,
    runtime: &Config,
    stop: &StopFlag,
    seen: impl FnMut(&SoakSample),
) -> Result<Soak, HeadlessError> {
    run_soak_by(&mut OnNewRuntimes, recipe, runtime, stop, seen)
}

/// Does the same as [`run_soak`] with another runner.
pub(crate) fn run_soak_by(
    runner: &mut dyn Runner,
    recipe: &Recipe,
    runtime: &Config,
    stop: &StopFlag,
    mut seen: impl FnMut(&SoakSample),
) -> Result<Soak, HeadlessError> {
    let options = HeadlessOptions { stop: stop.clone(), ..recipe.options(runtime) };
    let plan = check(&options)?;
    let machine = Machine::look();
    // A first run allocates some memory once and keeps it, such as tables of this library: in the second it is not a
    // leak.
    let brief = HeadlessOptions { duration: SAMPLE_EVERY, ..options.clone() };
    runner.run(plan.clone(), &brief, &mut |_| ())?;
    // Allocate and touch the memory for all samples now: a growing list would count as growth, and a list that is kept
    // as a leak.
    let every = sample_every(options.duration);
    let mut samples = vec![SoakSample::default(); (options.duration.as_secs() / every.as_secs()) as usize + 1];
    samples.clear();
    // A node around the run allocates too, for its recorder and its observers.
    let live_outside = |runner: &dyn Runner| if runner.is_alone() { live_bytes() } else { None };
    let live_bytes_before = live_outside(runner);
    let (mut start, mut due) = (None, Duration::ZERO);
    let run = runner.run(plan, &options, &mut |run| {
        if run.sampler.measured().is_zero() {
            return;
        }
        let now = Instant::now();
        let elapsed = now - *start.get_or_insert(now);
        if elapsed >= due && samples.len() < samples.capacity() {
            due += every;
            let sample = SoakSample::take(elapsed, run);
            seen(&sample);
            samples.push(sample);
        }
    })?;
    if stop.is_set() && samples.is_empty() {
        return Err(HeadlessError::Stopped);
    }
    let live_bytes_after = live_outside(runner);
    let growths = Growth::all_of(&samples);
    let verdict = judge(&run, &growths, live_bytes_before, live_bytes_after);
    let run = Report { machine: Machine::default(), ..run };
    Ok(Soak {
        origin: Origin::of(recipe.clone(), machine),
        run,
        growths,
        live_bytes_before,
        live_bytes_after,
        verdict,
        samples,
    })
}

/// Returns the interval between samples for a run of this length.
fn sample_every(duration: Duration) -> Duration {
    SAMPLE_EVERY * duration.as_secs().div_ceil(u64::from(SAMPLES_MAX)).max(1) as u32
}

fn judge(run: &Report, growths: &[Growth], before: Option<u64>, after: Option<u64>) -> SoakVerdict {
    if run.error.is_some() || run.ops_total == 0 {
        SoakVerdict::Failed
    } else if is_kept(before, after) || growths.iter().any(|growth| growth.grows) {
        SoakVerdict::Growing
    } else if growths.is_empty() {
        SoakVerdict::TooShort
    } else {
        SoakVerdict::Level
    }
}

/// Returns true if more memory is allocated after everything has ended than before the run.
fn is_kept(before: Option<u64>, after: Option<u64>) -> bool {
    before.zip(after).is_some_and(|(before, after)| after > before + DRAINED_DIFFERENCE_MAX)
}

impl Soak {
    /// Returns the run as a report with one run.
    pub fn document(&self) -> Document {
        let Origin { recipe, machine, .. } = self.origin.clone();
        Document::of(DocumentKind::Bench, recipe, machine, vec![self.run.clone()])
    }

    /// Returns the result as indented JSON.
    ///
    /// # Panics
    /// Never: all keys are strings.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("every field of a result can be written as JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_back_is_growth() {
        let run = Report { ops_total: 1, ..Report::default() };
        let level = Growth::of("rss_bytes", &(0..100).map(|at| (f64::from(at), 1e6)).collect::<Vec<_>>());
        let growths = [level.unwrap()];

        assert_eq!(judge(&run, &growths, Some(1_000), Some(1_000 + (64 << 10))), SoakVerdict::Level);
        assert_eq!(judge(&run, &growths, Some(1_000), Some(1_001 + (64 << 10))), SoakVerdict::Growing);
        assert_eq!(judge(&run, &growths, None, None), SoakVerdict::Level);
        assert_eq!(judge(&run, &[], None, None), SoakVerdict::TooShort);
        assert_eq!(judge(&Report::default(), &growths, None, None), SoakVerdict::Failed);
    }

    #[test]
    fn a_week_has_no_more_samples_than_a_day() {
        let every = |hours: u64| sample_every(Duration::from_hours(hours)).as_secs();

        assert_eq!((every(0), every(24), every(25), every(7 * 24)), (1, 1, 2, 7));
    }

    /// Runs a scenario for a second and a half.
    fn short_soak(seen: impl FnMut(&SoakSample)) -> Soak {
        let recipe = Recipe {
            scenario: "ping-pong".to_owned(),
            duration_ms: 1_500,
            warm_up_min_ms: 100,
            warm_up_max_ms: 100,
            ..Recipe::default()
        };
        run_soak(&recipe, &Config { schedulers: 1, ..Config::default() }, &StopFlag::default(), seen).unwrap()
    }

    #[test]
    fn a_short_soak_has_a_sample_a_second_and_says_that_it_was_short() {
        let mut told = 0;

        let soak = short_soak(|_| told += 1);

        assert_eq!((told, soak.samples.len()), (2, 2), "{soak}");
        assert!(soak.samples[0].fds > Some(0) && soak.samples[0].processes > 0, "{soak}");
        assert!(soak.growths.is_empty(), "{soak}");
        assert!(matches!(soak.verdict, SoakVerdict::TooShort | SoakVerdict::Growing), "{soak}");
    }

    #[test]
    fn the_verdict_names_what_grew_and_what_was_not_freed() {
        let rising = Growth::of("fds", &(0..100).map(|at| (f64::from(at), f64::from(at))).collect::<Vec<_>>()).unwrap();
        let grown = Soak { growths: vec![rising], verdict: SoakVerdict::Growing, ..short_soak(|_| ()) };
        let kept = Soak { live_bytes_before: Some(0), live_bytes_after: Some(1 << 20), ..grown.clone() };
        let freed = Soak { live_bytes_after: None, ..grown };

        assert_eq!(freed.verdict_line(), "growing: fds");
        assert_eq!(kept.verdict_line(), "growing: fds, memory that was not freed");
    }
}
