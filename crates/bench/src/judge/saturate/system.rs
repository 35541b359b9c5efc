//! A system under test, and the search between a stable and an unstable rate.

use rusm_text::escaped;
use thiserror::Error;

use super::level::Level;
use crate::run::headless::HeadlessError;

/// Maximum ratio of the two ends at which a bisection stops.
pub(super) const TOLERANCE: f64 = 1.02;
/// Maximum number of steps of a bisection.
const STEPS_MAX: u32 = 12;
/// Default number of searches for the highest stable rate.
pub const SEARCHES: u32 = 5;
/// Maximum number of times that a disturbed level is offered.
const TRIES: u32 = 3;

/// System under test: it can be loaded in a closed and in an open loop.
pub trait SystemUnderTest {
    /// Runs a closed loop, with `workers` workers if given, and returns its rate in operations per second.
    ///
    /// # Errors
    /// [`SystemError`] if it cannot be run.
    fn closed(&mut self, workers: Option<u64>) -> Result<f64, SystemError>;

    /// Offers a rate in an open loop.
    ///
    /// # Errors
    /// [`SystemError`] if it cannot be run.
    fn offer(&mut self, per_sec: f64) -> Result<Level, SystemError>;
}

/// Error returned when the system cannot be loaded.
#[derive(Debug, Error)]
pub enum SystemError {
    /// The run could not be started.
    #[error(transparent)]
    Headless(#[from] HeadlessError),
    /// The run failed.
    #[error("{}", escaped(.0))]
    Failed(String),
}

/// Options of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SaturateOptions {
    /// Latency objective at the 99th percentile, in nanoseconds.
    pub slo_p99_ns: Option<u64>,
    /// Part of the operations that may fail.
    pub errors_max: f64,
    /// Numbers of workers for the Universal Scalability Law; leave empty to skip it.
    pub workers: Vec<u64>,
    /// Seed for the order of the ladder.
    pub seed: u64,
    /// Number of searches for the highest stable rate.
    pub searches: u32,
}

impl Default for SaturateOptions {
    fn default() -> Self {
        Self { slo_p99_ns: None, errors_max: 0.0, workers: Vec::new(), seed: 1, searches: SEARCHES }
    }
}

/// Bisects between the lowest bad level and the highest good level below it. Returns the highest good rate, if any.
pub(crate) fn bisect(
    system: &mut impl SystemUnderTest,
    levels: &mut Vec<Level>,
    capacity: f64,
    seen: &mut impl FnMut(&str),
    is_good: impl Fn(&Level) -> bool,
) -> Result<Option<f64>, SystemError> {
    sort(levels);
    let lowest_bad = levels.iter().position(|level| !is_good(level));
    let good = levels[..lowest_bad.unwrap_or(levels.len())].last().map(|level| level.offered_per_sec);
    let (Some(mut good), Some(bad)) = (good, lowest_bad) else {
        return Ok(good);
    };
    let mut bad = levels[bad].offered_per_sec;
    for _ in 0..STEPS_MAX {
        if bad / good <= TOLERANCE {
            break;
        }
        let rate = f64::midpoint(good, bad);
        let level = offer_undisturbed(system, rate, seen)?;
        seen(&format!("bisection: {}", level.line()));
        if is_good(&level) {
            good = rate;
        } else {
            bad = rate;
        }
        levels.push(Level { load: rate / capacity, ..level });
    }
    Ok(Some(good))
}

/// Offers a rate, and repeats it while the level is both unstable and disturbed.
pub(crate) fn offer_undisturbed(
    system: &mut impl SystemUnderTest,
    rate: f64,
    seen: &mut impl FnMut(&str),
) -> Result<Level, SystemError> {
    let mut level = system.offer(rate)?;
    for _ in 1..TRIES {
        if level.stable || !level.disturbed {
            break;
        }
        seen(&format!("repeated because the level was disturbed: {}", level.line()));
        level = system.offer(rate)?;
    }
    Ok(level)
}

pub(crate) fn sort(levels: &mut [Level]) {
    levels.sort_by(|a, b| a.offered_per_sec.total_cmp(&b.offered_per_sec));
}
