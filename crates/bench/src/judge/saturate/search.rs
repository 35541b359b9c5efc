//! The search for the limits of a system, level by level.

use super::knee::{Knees, knees};
use super::level::Level;
use super::searches::Searches;
use super::system::{SaturateOptions, SystemError, SystemUnderTest, bisect, offer_undisturbed, sort};
use super::usl::{Usl, fit_usl};
use serde::Serialize;

use crate::measure::rng::{GOLDEN, XorShift};
use crate::report::Verdict;
use crate::report::document::Origin;

/// Fractions of the capacity that the ladder offers.
pub const LADDER: [f64; 11] = [0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0, 1.1, 1.2, 1.3];

/// Limits of a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saturation {
    /// Time and machine of the measurement.
    #[serde(flatten)]
    pub origin: Origin,
    /// Name of the scenario or target under load.
    pub scenario: String,
    /// Unit of the rate.
    pub ops_label: String,
    /// Rate of a closed loop, in operations per second: it says nothing about latency.
    pub capacity_per_sec: f64,
    /// All levels offered, lowest first.
    pub levels: Vec<Level>,
    /// Highest stable rate, the median of all searches; `null` if none was stable.
    pub max_stable_rate: Option<f64>,
    /// Result of each search.
    pub searches: Searches,
    /// True if even the highest level of the ladder was stable: the rate above is then only a lower bound.
    pub is_lower_bound: bool,
    /// Latency objective at the 99th percentile, in nanoseconds.
    pub slo_p99_ns: Option<u64>,
    /// Highest stable rate that met the objective.
    pub max_rate_under_slo: Option<f64>,
    /// Growth of the rate with the number of workers; `null` if not requested.
    pub usl: Option<Usl>,
    /// Bend of the latency curve, by two rules of thumb.
    pub knees: Knees,
}

/// Finds the limits of a system.
///
/// # Errors
/// [`SystemError`] if it cannot be run.
pub fn saturate(
    system: &mut impl SystemUnderTest,
    options: &SaturateOptions,
    mut seen: impl FnMut(&str),
) -> Result<Saturation, SystemError> {
    let capacity = system.closed(None)?;
    if capacity <= 0.0 {
        return Err(SystemError::Failed(
            "the closed loop completed no operation, so no rate can be offered".to_owned(),
        ));
    }
    seen(&format!("closed loop: {capacity:.0} operations a second"));
    let mut levels = Vec::new();
    for share in shuffled(options.seed) {
        let level = offer_undisturbed(system, share * capacity, &mut seen)?;
        seen(&format!("{:3.0} % of it: {}", share * 100.0, level.line()));
        levels.push(Level { load: share, ..level });
    }
    let is_stable = |level: &Level| level.stable && level.error_rate() <= options.errors_max;
    let first = bisect(system, &mut levels, capacity, &mut seen, is_stable)?;
    sort(&mut levels);
    let is_lower_bound = levels.last().is_some_and(is_stable);
    let bends = knees(&levels);
    let slo = options.slo_p99_ns;
    let max_rate_under_slo = match slo {
        Some(slo) => {
            let keeps = |level: &Level| is_stable(level) && level.latency.p99_ns <= slo;
            bisect(system, &mut levels, capacity, &mut seen, keeps)?
        }
        None => None,
    };
    let searches = Searches::again(
        system,
        &mut levels,
        capacity,
        first.filter(|_| !is_lower_bound),
        options,
        &mut seen,
        is_stable,
    )?;
    sort(&mut levels);
    let mut points = Vec::new();
    for workers in &options.workers {
        let rate = system.closed(Some(*workers))?;
        seen(&format!("closed loop of {workers}: {rate:.0} operations a second"));
        points.push((*workers as f64, rate));
    }
    Ok(Saturation {
        origin: Origin::default(),
        scenario: String::new(),
        ops_label: String::new(),
        capacity_per_sec: capacity,
        is_lower_bound,
        max_stable_rate: searches.median().or(first),
        searches,
        slo_p99_ns: slo,
        max_rate_under_slo,
        usl: fit_usl(&points),
        knees: bends,
        levels,
    })
}

/// Returns the ladder in an order given by the seed, so that drift over time does not look like load.
fn shuffled(seed: u64) -> Vec<f64> {
    let mut ladder = LADDER.to_vec();
    let mut random = XorShift::new(seed.wrapping_mul(GOLDEN) | 1);
    for end in (1..ladder.len()).rev() {
        ladder.swap(end, (random.next() >> 33) as usize % (end + 1));
    }
    ladder
}

impl Saturation {
    /// Adds the name of the system under test, the time and the machine.
    #[must_use]
    pub fn of(self, scenario: &str, ops_label: &str, origin: Origin) -> Self {
        Self { origin, scenario: scenario.to_owned(), ops_label: ops_label.to_owned(), ..self }
    }

    /// Returns the assessment of the result.
    pub fn verdict(&self) -> Verdict {
        match (self.max_stable_rate.or(self.max_rate_under_slo), self.is_conclusive()) {
            (None, _) => Verdict::Failed,
            (Some(_), true) => Verdict::Steady,
            (Some(_), false) if self.disturbed() > 0 => Verdict::Disturbed,
            (Some(_), false) => Verdict::NotSteady,
        }
    }

    /// Returns the number of unstable levels that were disturbed at every attempt.
    pub fn disturbed(&self) -> usize {
        self.levels.iter().filter(|level| level.disturbed && !level.stable).count()
    }

    /// Returns the levels of the ladder and of the first search, which form one curve.
    pub(crate) fn first_search(&self) -> impl Iterator<Item = &Level> {
        self.levels.iter().filter(|level| level.search <= 1)
    }

    /// Returns true if the highest stable rate is repeatable: no unstable level was disturbed, a limit was reached, and
    /// all searches came out close to it.
    pub fn is_conclusive(&self) -> bool {
        self.max_stable_rate.or(self.max_rate_under_slo).is_some() && self.disturbed() == 0 && self.searches.agree()
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::LatencySnapshot;

    use super::*;
    use crate::judge::saturate::svg;
    use crate::judge::saturate::system::TOLERANCE;

    /// Simulated server with one queue and 1,000 operations per second: its latency is that of M/M/1.
    struct Queue {
        offers: Vec<f64>,
    }

    const RATE: f64 = 1_000.0;

    impl SystemUnderTest for Queue {
        fn closed(&mut self, workers: Option<u64>) -> Result<f64, SystemError> {
            let n = workers.unwrap_or(8) as f64;
            Ok(if workers.is_some() { 200.0 * n / (1.0 + 0.1 * (n - 1.0)) } else { RATE })
        }

        fn offer(&mut self, per_sec: f64) -> Result<Level, SystemError> {
            self.offers.push(per_sec);
            let stable = per_sec < 0.97 * RATE;
            let busy = (per_sec / RATE).min(0.999);
            let p99_ns = (4.6e9 / (RATE * (1.0 - busy))) as u64;
            let latency = LatencySnapshot { count: 1, p99_ns, ..LatencySnapshot::default() };
            Ok(Level {
                offered_per_sec: per_sec,
                achieved_per_sec: per_sec.min(RATE),
                stable,
                latency,
                ..Level::default()
            })
        }
    }

    fn run(options: &SaturateOptions) -> (Queue, Saturation) {
        let mut queue = Queue { offers: Vec::new() };
        let found = saturate(&mut queue, options, |_| ()).unwrap();
        (queue, found.of("queue", "operations/s", Origin::default()))
    }

    #[test]
    fn the_highest_stable_rate_is_found_to_two_per_cent() {
        let (queue, found) = run(&SaturateOptions::default());

        let rate = found.max_stable_rate.unwrap();
        assert!(rate < 970.0 && rate > 970.0 / TOLERANCE / TOLERANCE, "{rate}");
        assert!(!found.is_lower_bound);
        assert!(queue.offers[..LADDER.len()].windows(2).any(|pair| pair[0] > pair[1]), "the ladder is in order");
        assert_eq!(found.max_rate_under_slo, None);
    }

    #[test]
    fn the_highest_rate_under_a_promise_is_found_too() {
        // p99 of 20 ms: 4.6 / (1000 - rate) = 0.02, so 770 per second.
        let (_, found) = run(&SaturateOptions { slo_p99_ns: Some(20_000_000), ..SaturateOptions::default() });

        let rate = found.max_rate_under_slo.unwrap();
        assert!(rate <= 770.0 && rate > 770.0 / TOLERANCE / TOLERANCE, "{rate}");
    }

    #[test]
    fn workers_that_get_in_each_other_s_way_are_told_by_the_law() {
        let (_, found) = run(&SaturateOptions { workers: vec![1, 2, 4, 8, 16, 32], ..SaturateOptions::default() });

        let usl = found.usl.unwrap();
        assert!((usl.sigma - 0.1).abs() < 1e-6 && usl.kappa < 1e-6 && (usl.lambda - 200.0).abs() < 1e-3, "{usl:?}");
    }

    #[test]
    fn a_saturation_reads_like_this() {
        insta::assert_snapshot!(run(&SaturateOptions::default()).1.to_string());
    }

    #[test]
    fn an_svg_has_a_point_for_each_level() {
        let (_, found) = run(&SaturateOptions::default());

        let picture = svg(&found);

        assert_eq!(picture.matches("<circle").count(), found.levels.len());
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    }
}
