//! Formats a report for people.

use std::fmt::{self, Display, Write};

use rusm_protocol::LatencySnapshot;

use crate::measure::interval::Rates;
use crate::report::numbers::{Amount, Nanos, bytes, grouped};
use crate::report::{LoopKind, Report};

/// Width of the column of names. Lines are indented by two, so values begin two columns further right.
pub(crate) const NAME_WIDTH: usize = 12;

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_figures(f)?;
        let mut line = |name: &str, value: String| writeln!(f, "  {name:NAME_WIDTH$}{value}");
        for (name, value) in self.machine.lines() {
            line(name, value)?;
        }
        line("verdict", self.verdict_line())
    }
}

impl Report {
    /// Writes everything that comes before the machine's description. A document with several runs writes it too, for
    /// the run that it shows.
    pub(crate) fn write_figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head())?;
        self.facts().iter().try_for_each(|(name, text)| writeln!(f, "  {name:NAME_WIDTH$}{text}"))?;
        for table in &self.tables {
            write!(f, "\n{table}")?;
        }
        if !self.lines.is_empty() {
            writeln!(f)?;
            // Unindented, so that programs find them at the start of a line.
            self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        }
        if !self.tables.is_empty() || !self.lines.is_empty() {
            writeln!(f)?;
        }
        Ok(())
    }

    /// Returns the settings of the run in one line.
    pub(crate) fn head(&self) -> String {
        let loop_kind = match self.loop_kind {
            LoopKind::Closed => "closed loop",
            LoopKind::Open => "open loop",
        };
        format!(
            "{} · {loop_kind} · profile {} · {} schedulers · seed {}",
            self.scenario, self.profile, self.schedulers, self.seed
        )
    }

    /// Returns the lines between the settings and the tables, each with its name; an empty name continues the line
    /// before.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if !self.params.is_empty() {
            let params: Vec<String> = self.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            facts.push(("parameters", params.join(" ")));
        }
        facts.push(("rate", self.rate_line()));
        facts.push(("cpu", self.cpu_line()));
        facts.push(("operations", self.operations_line()));
        if let Some(open) = &self.open_loop {
            let offered = format!(
                "{}/s, {:.1} % done, {} missed",
                Amount(open.offered_per_sec),
                open.achieved * 100.0,
                grouped(open.missed_total)
            );
            facts.push(("offered", offered));
            facts.push(("start lag", tail_line(&open.lag)));
        }
        if let Some(pacer) = &self.pacer {
            facts.push(("pacer", tail_line(pacer)));
        }
        if let Some(latency) = &self.latency {
            let sampling = sampling_line(latency.sampling, &latency.timed, latency.clock_read_ns);
            facts.push(("latency", format!("{}; {sampling}", latency.label)));
            if latency.distribution.count == 0 {
                facts.push(("", "nothing was timed".to_owned()));
            } else {
                let (heads, cells) = percentile_lines(&latency.distribution);
                facts.extend([("", heads), ("", cells)]);
            }
        }
        if let Some(service) = &self.service {
            facts.push(("service", format!("{}, from the real start", tail_line(service))));
        }
        facts.extend(self.anomalies.lines().into_iter().map(|anomaly| ("sign", anomaly)));
        facts.push(("processes", format!("{} at most", grouped(self.processes_peak))));
        facts.push(("memory", format!("{} resident, {} at most", bytes(self.rss_bytes), bytes(self.rss_peak_bytes))));
        let others = self.foreign_cores.map_or_else(
            || "unknown".to_owned(),
            |cores| format!("{cores:.2} cores used by other programs meanwhile{}", self.stolen_text()),
        );
        facts.push(("others", others));
        facts
    }

    pub(crate) fn verdict_line(&self) -> String {
        self.error
            .as_ref()
            .map_or_else(|| self.verdict.line().to_owned(), |error| format!("{}: {error}", self.verdict.line()))
    }

    fn stolen_text(&self) -> String {
        match self.stolen_cores {
            Some(cores) if cores >= 0.005 => format!(", {cores:.2} kept back by the hypervisor"),
            _ => String::new(),
        }
    }

    fn rate_line(&self) -> String {
        let Rates { median, min, max, median_low, median_high, intervals, .. } = self.ops_per_sec;
        let mut text = format!("{} {}", Amount(median), self.ops_label);
        if let (Some(low), Some(high)) = (median_low, median_high) {
            let appended = write!(text, ", 95 % {} to {}", Amount(low), Amount(high));
            debug_assert!(appended.is_ok(), "writing to a string cannot fail");
        }
        format!("{text}; {} to {} over {intervals} intervals", Amount(min), Amount(max))
    }

    fn cpu_line(&self) -> String {
        let Some(ns) = self.cpu_ns_per_op else {
            return "no operations".to_owned();
        };
        let waiting = match self.loop_kind {
            LoopKind::Closed => "",
            LoopKind::Open => ", waiting for the next one included",
        };
        format!("{} for each operation{waiting}", Nanos(ns))
    }

    fn operations_line(&self) -> String {
        format!(
            "{} in {:.2} s after {:.2} s of warm-up; {} errors, {} dropped",
            grouped(self.ops_total),
            self.duration_s,
            self.warm_up.duration_s,
            grouped(self.errors_total),
            grouped(self.dropped_total)
        )
    }
}

fn sampling_line(sampling: u32, timed: &str, clock_read_ns: f64) -> String {
    let every = if sampling == 1 { format!("every {timed} timed") } else { format!("one {timed} in {sampling} timed") };
    format!("{every}, a clock read is {}", Nanos(clock_read_ns))
}

/// Returns the header and the row of a table of percentiles.
fn percentile_lines(latency: &LatencySnapshot) -> (String, String) {
    let columns = [
        ("p50", latency.p50_ns as f64),
        ("p90", latency.p90_ns as f64),
        ("p95", latency.p95_ns as f64),
        ("p99", latency.p99_ns as f64),
        ("p99.9", latency.p999_ns as f64),
        ("max", latency.max_ns as f64),
        ("mean", latency.mean_ns),
    ];
    let heads = columns.map(|(head, _)| format!("{head:>10}")).concat();
    let cells = columns.map(|(_, ns)| format!("{:>10}", Nanos(ns).to_string())).concat();
    (format!("{heads}{:>14}", "timed"), format!("{cells}{:>14}", grouped(latency.count)))
}

fn tail_line(latency: &LatencySnapshot) -> String {
    format!(
        "p50 {}, p99 {}, max {}",
        Nanos(latency.p50_ns as f64),
        Nanos(latency.p99_ns as f64),
        Nanos(latency.max_ns as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::anomalies::Anomalies;
    use crate::report::machine::Machine;
    use crate::report::{LatencyReport, OpenLoopReport, Verdict, WarmUpReport};

    fn report() -> Report {
        Report {
            scenario: "spawn-storm".to_owned(),
            ops_label: "spawns/s".to_owned(),
            params: [("live-cap", "1000"), ("spawners", "auto")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            profile: "balanced".to_owned(),
            schedulers: 2,
            takes_turns: false,
            loop_kind: LoopKind::Closed,
            seed: 1,
            warm_up: WarmUpReport { duration_s: 1.1, steady: true },
            duration_s: 5.0,
            ops_total: 221_450_112,
            ops_per_sec: Rates {
                median: 44.3e6,
                min: 41.02e6,
                max: 45.9e6,
                median_low: Some(44.1e6),
                median_high: Some(44.6e6),
                variation: Some(0.01),
                intervals: 50,
            },
            cpu_ns_per_op: Some(45.2),
            errors_total: 0,
            dropped_total: 0,
            latency: Some(LatencyReport {
                label: "spawn call to first instruction".to_owned(),
                timed: "spawn".to_owned(),
                sampling: 64,
                clock_read_ns: 24.6,
                distribution: LatencySnapshot {
                    count: 3_460_157,
                    min_ns: 60,
                    max_ns: 1_234_567,
                    mean_ns: 4_321.0,
                    p50_ns: 4_100,
                    p90_ns: 5_400,
                    p95_ns: 6_000,
                    p99_ns: 9_996,
                    p999_ns: 99_960,
                },
            }),
            service: None,
            open_loop: None,
            pacer: None,
            anomalies: Anomalies::default(),
            tables: Vec::new(),
            lines: Vec::new(),
            processes_peak: 2_063,
            rss_bytes: Some(12 << 20),
            rss_peak_bytes: Some(13 << 20),
            foreign_cores: Some(0.03),
            stolen_cores: Some(0.0),
            verdict: Verdict::Steady,
            error: None,
            machine: Machine {
                cpu: Some("A Processor".to_owned()),
                cores: 2,
                virtual_machine: Some(true),
                kernel: "Linux 6.18".to_owned(),
                load_average: Some([1.0, 2.0, 3.25]),
                rustc: "rustc 1.95.0".to_owned(),
                build: "release, opt-level 3".to_owned(),
                commit: Some("0123456789abcdef".to_owned()),
                ..Machine::default()
            },
        }
    }

    #[test]
    fn a_closed_loop_reads_like_this() {
        insta::assert_snapshot!(report().to_string());
    }

    #[test]
    fn an_open_loop_that_failed_reads_like_this() {
        let report = Report {
            loop_kind: LoopKind::Open,
            open_loop: Some(OpenLoopReport {
                offered_per_sec: 10_000.0,
                achieved: 0.421,
                missed_total: 28_950,
                lag: LatencySnapshot {
                    p50_ns: 1_200,
                    p99_ns: 53_000,
                    max_ns: 2_000_000_000,
                    ..LatencySnapshot::default()
                },
            }),
            latency: Some(LatencyReport {
                label: "round trip".to_owned(),
                timed: "round trip".to_owned(),
                sampling: 1,
                ..LatencyReport::default()
            }),
            ops_total: 0,
            ops_per_sec: Rates::default(),
            cpu_ns_per_op: None,
            verdict: Verdict::Failed,
            error: Some("worker <0.1.1> ended during the run: killed".to_owned()),
            ..report()
        };

        insta::assert_snapshot!(report.to_string());
    }
}
