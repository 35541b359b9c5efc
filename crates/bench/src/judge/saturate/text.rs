//! Formats a saturation result for people.

use std::fmt::{self, Display};

use super::chart::terminal;
use super::{Saturation, Usl};
use crate::report::numbers::{Amount, Nanos};
use crate::report::text::NAME_WIDTH;

impl Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} · saturation", self.scenario)?;
        writeln!(
            f,
            "  closed loop         {} {}; no promise of latency",
            Amount(self.capacity_per_sec),
            self.ops_label
        )?;
        let bound = if self.is_lower_bound { "at least " } else { "" };
        let rate = |rate: Option<f64>| rate.map_or_else(|| "no rate in".to_owned(), |rate| Amount(rate).to_string());
        writeln!(f, "  stable to           {bound}{} {}", rate(self.max_stable_rate), self.ops_label)?;
        if let Some(spread) = self.searches.spread {
            let found: Vec<String> = self.searches.rates.iter().map(|rate| Amount(*rate).to_string()).collect();
            let agree = if self.searches.agree() { "they agree" } else { "they do not agree: inconclusive" };
            writeln!(
                f,
                "  found in turn       {}; at most {:.1} % from the middle: {agree}",
                found.join(", "),
                spread * 100.0
            )?;
        }
        if self.disturbed() > 0 {
            let (disturbed, all) = (self.disturbed(), self.levels.len());
            writeln!(
                f,
                "  disturbed           {disturbed} of {all} levels, by other programs or a stall: inconclusive"
            )?;
        }
        let hint = |rate: Option<f64>| rate.map_or_else(|| "none".to_owned(), |rate| Amount(rate).to_string());
        if let Some(slo) = self.slo_p99_ns {
            writeln!(
                f,
                "  with p99 ≤ {:<8} {} {}",
                Nanos(slo as f64).to_string(),
                rate(self.max_rate_under_slo),
                self.ops_label
            )?;
        }
        writeln!(f, "  knee, as a hint     {} by Kneedle", hint(self.knees.kneedle_rate))?;
        writeln!(
            f,
            "  legacy knee         {} where Δp99 was over twice the Δ before",
            hint(self.knees.legacy_knee_rate)
        )?;
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
