//! One quantity over all runs of a report: the input of comparisons and histories.

use serde::{Deserialize, Serialize};

use crate::judge::statistics::{median, median_confidence, median_interval};
use crate::report::Report;
use crate::report::table::ColumnUnit;

/// One quantity over all runs of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name, which ends in the unit.
    pub name: String,
    /// Unit of the values.
    pub unit: ColumnUnit,
    /// Direction in which the figure is better.
    pub better: Better,
    /// Value of each run, in run order.
    pub values: Vec<f64>,
    /// Median of the values.
    pub median: f64,
    /// Lower end of the interval of the median; `null` with fewer than six runs.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Probability that the interval contains the median, from the binomial distribution alone.
    pub confidence: Option<f64>,
}

/// Direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Higher values are better.
    Higher,
    /// Lower values are better.
    Lower,
}

impl Figure {
    /// Creates a figure from the values of several runs; returns `None` without values.
    pub fn of(name: &str, unit: ColumnUnit, better: Better, values: Vec<f64>) -> Option<Self> {
        let median = median(&values)?;
        let enclosing = median_interval(&values);
        Some(Self {
            name: name.to_owned(),
            unit,
            better,
            median,
            low: enclosing.map(|(low, _)| low),
            high: enclosing.map(|(_, high)| high),
            confidence: median_confidence(values.len()),
            values,
        })
    }

    /// Returns the figures of the runs of one scenario. A quantity that any of the runs lacks is left out.
    pub(crate) fn all_of(runs: &[Report]) -> Vec<Self> {
        type Pick = Box<dyn Fn(&Report) -> Option<f64>>;
        let latency = |pick: fn(&rusm_protocol::LatencySnapshot) -> u64| {
            move |report: &Report| {
                let seen = report.latency.as_ref().map(|latency| &latency.distribution)?;
                (seen.count > 0).then(|| pick(seen) as f64)
            }
        };
        let picks: [(&str, ColumnUnit, Better, Pick); 9] = [
            (RATE, ColumnUnit::Amount, Better::Higher, Box::new(|report| Some(report.ops_per_sec.median))),
            (CPU, ColumnUnit::Ns, Better::Lower, Box::new(|report| report.cpu_ns_per_op)),
            ("latency_ns_p50", ColumnUnit::Ns, Better::Lower, Box::new(latency(|seen| seen.p50_ns))),
            ("latency_ns_p95", ColumnUnit::Ns, Better::Lower, Box::new(latency(|seen| seen.p95_ns))),
            (P99, ColumnUnit::Ns, Better::Lower, Box::new(latency(|seen| seen.p99_ns))),
            ("latency_ns_p999", ColumnUnit::Ns, Better::Lower, Box::new(latency(|seen| seen.p999_ns))),
            ("latency_ns_max", ColumnUnit::Ns, Better::Lower, Box::new(latency(|seen| seen.max_ns))),
            (
                "achieved_ratio",
                ColumnUnit::Ratio,
                Better::Higher,
                Box::new(|report| report.open_loop.map(|open| open.achieved)),
            ),
            (RSS, ColumnUnit::Bytes, Better::Lower, Box::new(|report| report.rss_bytes.map(|rss| rss as f64))),
        ];
        let of = |(name, unit, better, pick): (&str, ColumnUnit, Better, Pick)| {
            Self::of(name, unit, better, runs.iter().map(pick).collect::<Option<Vec<f64>>>()?)
        };
        // If cases run in turn, rate and latency are those of a mixture: a slower case changes them as much as a slower
        // machine does.
        let is_mixture = runs.iter().any(|run| run.takes_turns);
        picks.into_iter().filter(|(name, ..)| !is_mixture || IN_TURNS.contains(name)).filter_map(of).collect()
    }

    /// Formats the interval for a report.
    pub(crate) fn interval_text(&self) -> String {
        match (self.low, self.high, self.confidence) {
            (Some(low), Some(high), Some(confidence)) => format!(
                "{} to {} with {:.1} %",
                self.unit.show_number(low),
                self.unit.show_number(high),
                confidence * 100.0
            ),
            _ => "no interval below 6 runs".to_owned(),
        }
    }
}

/// Figure by which closed loops are compared.
pub const RATE: &str = "ops_per_sec";
/// Figure that is most reliable on a machine with other load.
pub const CPU: &str = "cpu_ns_per_op";
const RSS: &str = "rss_bytes";
/// Figures of a scenario with cases that run in turn; the first one decides.
const IN_TURNS: [&str; 2] = [CPU, RSS];
/// Figure by which open loops are compared.
pub const P99: &str = "latency_ns_p99";

/// Returns the deciding figure if none is given. Without a rate, closed loops are compared by CPU time.
pub(crate) fn usual(is_open: bool, has_rate: bool) -> &'static str {
    match (is_open, has_rate) {
        (true, _) => P99,
        (false, true) => RATE,
        (false, false) => CPU,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_runs_have_an_exact_interval_and_five_have_none() {
        let six = Figure::of("x", ColumnUnit::Count, Better::Higher, vec![6.0, 1.0, 5.0, 2.0, 4.0, 3.0]).unwrap();
        let five = Figure::of("x", ColumnUnit::Count, Better::Higher, vec![1.0; 5]).unwrap();

        assert_eq!((six.median, six.low, six.high, six.confidence), (3.5, Some(1.0), Some(6.0), Some(0.96875)));
        assert_eq!((five.low, five.confidence), (None, None));
        assert_eq!(Figure::of("x", ColumnUnit::Count, Better::Higher, Vec::new()), None);
    }

    #[test]
    fn what_a_run_lacks_is_no_figure() {
        let names: Vec<String> =
            Figure::all_of(&[Report { cpu_ns_per_op: Some(1.0), ..Report::default() }, Report::default()])
                .into_iter()
                .map(|figure| figure.name)
                .collect();

        assert_eq!(names, [RATE]);
    }
}
