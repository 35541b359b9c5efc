//! Formats a saturation result for people.

use std::fmt::{self, Display};

use super::chart::terminal;
use super::{Saturation, Usl};
use crate::report::numbers::{Amount, Nanos};
use crate::report::text::NAME_WIDTH;

impl Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} · saturation", self.scenario)?;
        self.facts().iter().try_for_each(|(name, text)| writeln!(f, "  {name:<20}{text}"))?;
        writeln!(
            f,
            "\n  {:>6} {:>12} {:>12} {:>12} {:>10} {:>10} {:>10}",
            "load", "offered/s", "done/s", "backlog/s", "p50", "p99", "p99.9"
        )?;
        for level in self.first_search() {
            let slope = level.backlog_slope_per_sec.map_or_else(|| "–".to_owned(), |slope| format!("{slope:+.1}"));
            writeln!(
                f,
                "  {:>4.0} % {:>12} {:>12} {:>12} {:>10} {:>10} {:>10}  {}",
                level.load * 100.0,
                Amount(level.offered_per_sec).to_string(),
                Amount(level.achieved_per_sec).to_string(),
                slope,
                Nanos(level.latency.p50_ns as f64).to_string(),
                Nanos(level.latency.p99_ns as f64).to_string(),
                Nanos(level.latency.p999_ns as f64).to_string(),
                level.word(),
            )?;
        }
        write!(f, "\n{}", terminal(self))?;
        if let Some(usl) = &self.usl {
            law(usl, f)?;
        }
        writeln!(f)?;
        let mut line = |name: &str, value: String| writeln!(f, "  {name:NAME_WIDTH$}{value}");
        for (name, value) in self.origin.machine.lines() {
            line(name, value)?;
        }
        line("verdict", if self.is_conclusive() { "conclusive" } else { "inconclusive" }.to_owned())
    }
}

impl Saturation {
    /// Returns the results in lines, each with its name.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let bound = if self.is_lower_bound { "at least " } else { "" };
        let rate = |rate: Option<f64>| rate.map_or_else(|| "no rate in".to_owned(), |rate| Amount(rate).to_string());
        let unit = &self.ops_label;
        let mut facts = vec![
            ("closed loop".to_owned(), format!("{} {unit}; no promise of latency", Amount(self.capacity_per_sec))),
            ("stable to".to_owned(), format!("{bound}{} {unit}", rate(self.max_stable_rate))),
        ];
        if self.is_lower_bound {
            let text = "stable at the highest load that was offered: inconclusive".to_owned();
            facts.push(("limit".to_owned(), text));
        }
        if let Some(spread) = self.searches.spread {
            let found: Vec<String> = self.searches.rates.iter().map(|rate| Amount(*rate).to_string()).collect();
            let agree = if self.searches.agree() { "they agree" } else { "they do not agree: inconclusive" };
            let text = format!("{}; at most {:.1} % from the middle: {agree}", found.join(", "), spread * 100.0);
            facts.push(("found in turn".to_owned(), text));
        } else if self.searches.count > 1 {
            let (found, all) = (self.searches.rates.len(), self.searches.count);
            facts.push(("found in turn".to_owned(), format!("a rate in {found} of {all} searches: inconclusive")));
        }
        if self.disturbed() > 0 {
            let (disturbed, all) = (self.disturbed(), self.levels.len());
            let text = format!("{disturbed} of {all} levels, by other programs or a stall: inconclusive");
            facts.push(("disturbed".to_owned(), text));
        }
        let hint = |rate: Option<f64>| rate.map_or_else(|| "none".to_owned(), |rate| Amount(rate).to_string());
        if let Some(slo) = self.slo_p99_ns {
            let name = format!("with p99 ≤ {:<8}", Nanos(slo as f64).to_string());
            facts.push((name, format!("{} {unit}", rate(self.max_rate_under_slo))));
        }
        facts.push(("knee, as a hint".to_owned(), format!("{} by Kneedle", hint(self.knees.kneedle_rate))));
        let legacy = format!("{} where Δp99 was over twice the Δ before", hint(self.knees.legacy_knee_rate));
        facts.push(("legacy knee".to_owned(), legacy));
        facts
    }
}

fn law(usl: &Usl, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let peak = usl.peak_workers.map_or_else(|| "none".to_owned(), |peak| format!("{peak:.1} workers"));
    writeln!(
        f,
        "\n  Universal Scalability Law: one worker {} a second, σ {:.4}, κ {:.6}, peak {peak}",
        Amount(usl.lambda),
        usl.sigma,
        usl.kappa
    )?;
    for point in &usl.points {
        writeln!(
            f,
            "  {:>8} workers {:>10} measured {:>10} fitted {:>+7.1} %",
            point.workers,
            Amount(point.measured_per_sec).to_string(),
            Amount(point.fitted_per_sec).to_string(),
            point.residual * 100.0
        )?;
    }
    let holds = if usl.residual_max > 0.1 { "the law does not hold here" } else { "the law holds" };
    writeln!(f, "  largest residual {:.1} %: {holds}", usl.residual_max * 100.0)
}
