//! Finds the highest rate that meets an objective.
//!
//! ```text
//!   closed loop ─▶ an eighth of its rate ─▶ double it until the objective is missed ─▶ bisect to 2 %
//! ```

use crate::judge::saturate::{
    Level, Saturation, Searches, SystemError, SystemUnderTest, bisect, knees, offer_undisturbed,
};
use crate::report::KEEPS_UP;
use crate::report::document::Origin;

/// First rate offered, as a part of the capacity.
const FIRST: f64 = 0.125;
/// Maximum number of times that the first rate is doubled, or halved if even that one misses the objective.
const HALVINGS: u32 = 6;

/// Objective of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchOptions {
    /// Latency objective at the 99th percentile, in nanoseconds; `None` requires only that the server keeps up.
    pub slo_p99_ns: Option<u64>,
    /// Part of the operations that may fail.
    pub errors_max: f64,
}

impl SearchOptions {
    fn is_kept(&self, level: &Level) -> bool {
        let done = level.achieved_per_sec + level.offered_per_sec * level.error_rate();
        done >= KEEPS_UP * level.offered_per_sec
            && level.error_rate() <= self.errors_max
            && level.latency.count > 0
            && self.slo_p99_ns.is_none_or(|slo| level.latency.p99_ns <= slo)
    }
}

/// Finds the highest rate that meets the objective.
///
/// # Errors
/// [`SystemError`] if the server cannot be loaded.
pub fn find_max(
    system: &mut impl SystemUnderTest,
    options: &SearchOptions,
    mut seen: impl FnMut(&str),
) -> Result<Saturation, SystemError> {
    let capacity = system.closed(None)?;
    if capacity <= 0.0 {
        return Err(SystemError::Failed("the closed loop got no answers, so no rate can be offered".to_owned()));
    }
    seen(&format!("closed loop: {capacity:.0} a second"));
    let mut levels: Vec<Level> = Vec::new();
    let mut offer = |system: &mut _, rate: f64| -> Result<bool, SystemError> {
        let level = offer_undisturbed(system, rate, &mut seen)?;
        seen(&level.line());
        let kept = options.is_kept(&level);
        levels.push(Level { load: rate / capacity, ..level });
        Ok(kept)
    };
    let mut rate = FIRST * capacity;
    let mut kept = offer(system, rate)?;
    let climbs = kept;
    for _ in 0..HALVINGS {
        if kept != climbs {
            break;
        }
        rate = if climbs { 2.0 * rate } else { rate / 2.0 };
        kept = offer(system, rate)?;
    }
    let highest = bisect(system, &mut levels, capacity, &mut seen, |level| options.is_kept(level))?;
    levels.sort_by(|a, b| a.offered_per_sec.total_cmp(&b.offered_per_sec));
    Ok(Saturation {
        origin: Origin::default(),
        scenario: String::new(),
        ops_label: String::new(),
        capacity_per_sec: capacity,
        max_stable_rate: levels.iter().rev().find(|level| level.stable).map(|level| level.offered_per_sec),
        searches: Searches::default(),
        is_lower_bound: levels.last().is_some_and(|level| level.stable),
        slo_p99_ns: options.slo_p99_ns,
        max_rate_under_slo: highest,
        usl: None,
        knees: knees(&levels),
        levels,
    })
}

#[cfg(test)]
mod tests {
    use rusm_protocol::LatencySnapshot;

    use super::*;

    /// A server with a p99 of 1 ms up to one rate and of 1 s above it; above another rate some operations fail.
    struct Server {
        slow_from: f64,
        fails_from: f64,
    }

    impl SystemUnderTest for Server {
        fn closed(&mut self, _: Option<u64>) -> Result<f64, SystemError> {
            Ok(10_000.0)
        }

        fn offer(&mut self, per_sec: f64) -> Result<Level, SystemError> {
            let p99_ns = if per_sec < self.slow_from { 1_000_000 } else { 1_000_000_000 };
            let errors_total = if per_sec < self.fails_from { 0 } else { 5 };
            Ok(Level {
                offered_per_sec: per_sec,
                achieved_per_sec: per_sec * (100 - errors_total) as f64 / 100.0,
                ops_total: 100 - errors_total,
                errors_total,
                stable: true,
                latency: LatencySnapshot { count: 1, p99_ns, ..LatencySnapshot::default() },
                ..Level::default()
            })
        }
    }

    fn highest(mut server: Server, errors_max: f64) -> f64 {
        let options = SearchOptions { slo_p99_ns: Some(20_000_000), errors_max };
        find_max(&mut server, &options, |_| ()).unwrap().max_rate_under_slo.unwrap()
    }

    #[test]
    fn the_highest_rate_is_found_above_and_below_the_first() {
        for limit in [7_300.0, 1_900.0, 400.0] {
            let rate = highest(Server { slow_from: limit, fails_from: 1e9 }, 0.0);

            assert!(rate < limit && rate > limit / 1.03, "{rate} of {limit}");
        }
    }

    #[test]
    fn errors_break_the_promise_unless_they_are_allowed() {
        let server = || Server { slow_from: 8_000.0, fails_from: 3_000.0 };

        assert!(highest(server(), 0.03) < 3_000.0);
        assert!(highest(server(), 0.06) > 7_000.0);
    }
}
