//! One quantity over all runs of a report: what comparisons and histories are made of.

use serde::{Deserialize, Serialize};

use crate::report::Report;
use crate::statistics::{median, median_confidence, median_interval};
use crate::table::ColumnUnit;

/// One quantity over all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, which ends in its unit.
    pub name: String,
    /// What its numbers are.
    pub unit: ColumnUnit,
    /// Which way is better.
    pub better: Better,
    /// The value of each run, in their order.
    pub values: Vec<f64>,
    /// Half of the runs were below.
    pub median: f64,
    /// The lower end of the interval of the median; `null` below six runs.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// How sure it is that the interval holds the median, from the binomial distribution and nothing else.
    pub confidence: Option<f64>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl Figure {
    /// A figure of the values of some runs; `None` of none.
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

    /// The figures of some runs of one scenario. Only what every run has is one.
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
        // Where cases take turns, rate and latency are those of a mixture, which a slower case changes as much as a slower machine.
        let is_mixture = runs.iter().any(|run| run.takes_turns);
        picks.into_iter().filter(|(name, ..)| !is_mixture || IN_TURNS.contains(name)).filter_map(of).collect()
    }

    /// As the interval stands in a report.
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

/// The figure by which closed loops are compared.
pub const RATE: &str = "ops_per_sec";
/// The figure that says most on a machine that others use.
pub const CPU: &str = "cpu_ns_per_op";
const RSS: &str = "rss_bytes";
/// The figures of a scenario whose cases take turns; the first one decides.
const IN_TURNS: [&str; 2] = [CPU, RSS];
/// The figure by which open loops are compared.
pub const P99: &str = "latency_ns_p99";

/// The figure that decides when nobody names one, of those that there are.
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
