//! Runs scenarios without an observer: start, warm up, measure, report.

use std::thread;
use std::time::{Duration, Instant};

use rusm_runtime::{Config, Handle, Runtime, StartError};
use thiserror::Error;

use crate::defaults;
use crate::measure::steady::SteadyRule;
use crate::report::Report;
use crate::run::error::RunError;
use crate::run::execution::Run;
use crate::run::flags::StopFlag;
use crate::run::plan::{Plan, Request, RequestError};

/// Maximum time for the shutdown of a runtime started for a run.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

/// Shortest measurement: one interval.
const DURATION_MIN: Duration = defaults::INTERVAL;
/// Longest measurement: one week.
const DURATION_MAX: Duration = Duration::from_hours(7 * 24);

/// Maximum number of runs in a report.
pub const RUNS_MAX: u32 = 1_000;

/// Options of a headless run.
#[derive(Clone, Debug)]
pub struct HeadlessOptions {
    /// The scenario and its parameters.
    pub request: Request,
    /// Length of the measurement after the warm-up, from 100 ms to one week. Default 5 s; longer runs show rarer
    /// events. In runs longer than 28 h, the statistics over intervals (rates, pauses, sawtooth patterns, backlog
    /// growth) cover only the last 28 h.
    pub duration: Duration,
    /// Length of the warm-up. Default 1 s to 5 s.
    pub warm_up: SteadyRule,
    /// Configuration of the runtime to start. Default: one scheduler per core.
    pub runtime: Config,
    /// Ends the run early when set; the report then covers the part that was measured. Default: a flag that is
    /// never set.
    pub stop: StopFlag,
}

impl HeadlessOptions {
    /// Creates the default options for a request.
    pub fn new(request: Request) -> Self {
        Self {
            request,
            duration: defaults::DURATION,
            warm_up: SteadyRule::default(),
            runtime: Config::default(),
            stop: StopFlag::default(),
        }
    }
}

/// Error returned if a run ends without a report.
#[derive(Debug, Error)]
pub enum HeadlessError {
    /// The request contains an unknown name or a value out of range.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The duration is out of range.
    #[error("duration of {duration:?} is not between {DURATION_MIN:?} and {DURATION_MAX:?}")]
    Duration {
        /// The given duration.
        duration: Duration,
    },
    /// The number of runs is out of range.
    #[error("{runs} runs are not between 1 and {RUNS_MAX}")]
    Runs {
        /// The given number.
        runs: u32,
    },
    /// The run was stopped before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
    /// A search could not be carried out; the text says why.
    #[error("{0}")]
    Failed(String),
    /// The runtime did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run did not start. A run that started and then failed has a report.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Starts a runtime, runs a scenario on it, and ends both.
///
/// ```
/// use std::time::Duration;
///
/// use rusm_bench::{HeadlessOptions, Request, SteadyRule, run_headless};
///
/// let options = HeadlessOptions {
///     duration: Duration::from_millis(200),
///     warm_up: SteadyRule { min: Duration::from_millis(100), max: Duration::from_millis(100) },
///     ..HeadlessOptions::new(Request { scenario: "ping-pong".to_owned(), ..Request::default() })
/// };
/// let report = run_headless(&options)?;
/// assert!(report.ops_total > 0 && report.errors_total == 0);
/// # Ok::<(), rusm_bench::HeadlessError>(())
/// ```
///
/// # Errors
/// [`HeadlessError`] if nothing could be run. A run that failed has a report with its error.
pub fn run_headless(options: &HeadlessOptions) -> Result<Report, HeadlessError> {
    // Check before starting the runtime, so that an invalid request fails at once.
    drive_plan(check(options)?, options, |_| ())
}

/// Runs a scenario on an existing runtime; `options.runtime` is not used.
///
/// # Errors
/// Same as [`run_headless`].
pub fn run_headless_on(handle: &Handle, options: &HeadlessOptions) -> Result<Report, HeadlessError> {
    let plan = check(options)?;
    Ok(drive(handle, plan, options.warm_up, options.duration, &options.stop, |_| ())?)
}

pub(crate) fn check(options: &HeadlessOptions) -> Result<Plan, HeadlessError> {
    check_duration(options.duration)?;
    Ok(Plan::of(&options.request)?)
}

pub(crate) fn check_duration(duration: Duration) -> Result<(), HeadlessError> {
    if (DURATION_MIN..=DURATION_MAX).contains(&duration) { Ok(()) } else { Err(HeadlessError::Duration { duration }) }
}

/// Runs a plan; its scenario does not have to be in the catalogue.
///
/// # Errors
/// [`RunError`] if the run did not start. A run that started and then failed has a report.
pub fn run_plan(handle: &Handle, plan: Plan, warm_up: SteadyRule, duration: Duration) -> Result<Report, RunError> {
    drive(handle, plan, warm_up, duration, &StopFlag::default(), |_| ())
}

/// Runs a plan like [`run_plan`] until `stop` is set, and calls `seen` at each tick.
pub(crate) fn drive(
    handle: &Handle,
    plan: Plan,
    warm_up: SteadyRule,
    duration: Duration,
    stop: &StopFlag,
    mut seen: impl FnMut(&mut Run),
) -> Result<Report, RunError> {
    let mut run = Run::start(handle, plan, warm_up)?;
    run.expect(duration.max(warm_up.max));
    loop {
        park_until(run.next_tick());
        let goes_on = run.tick(Instant::now());
        seen(&mut run);
        if !goes_on || stop.is_set() || run.sampler.measured() >= duration {
            break;
        }
    }
    let report = Report::of(&mut run, handle.config().schedulers);
    let (tables, late_errors) = (run.tables.clone(), run.late_errors());
    let outcome = run.finish();
    Ok(report.with_tables(&tables).with_errors(late_errors()).ended(outcome))
}

/// Starts a runtime, runs a plan on it, calls `seen` at each tick, and shuts the runtime down.
pub(crate) fn drive_plan(
    plan: Plan,
    options: &HeadlessOptions,
    seen: impl FnMut(&mut Run),
) -> Result<Report, HeadlessError> {
    let runtime = Runtime::start(options.runtime.clone())?;
    let report = drive(&runtime, plan, options.warm_up, options.duration, &options.stop, seen);
    runtime.shutdown(SHUTDOWN_WITHIN);
    Ok(report?)
}

fn park_until(instant: Instant) {
    loop {
        let left = instant.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_found_before_anything_starts() {
        let options = HeadlessOptions::new(Request { scenario: "ping-pong".to_owned(), ..Request::default() });
        let short = HeadlessOptions { duration: Duration::ZERO, ..options.clone() };
        let unknown =
            HeadlessOptions { request: Request { scenario: "pong".to_owned(), ..options.request }, ..short.clone() };

        assert_eq!(run_headless(&short).unwrap_err().to_string(), "duration of 0ns is not between 100ms and 604800s");
        assert!(run_headless(&HeadlessOptions { duration: DURATION_MIN, ..unknown }).is_err());
    }
}
