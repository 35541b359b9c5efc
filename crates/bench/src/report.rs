//! Report of a headless run: JSON for programs, text for people.

pub(crate) mod document;
pub(crate) mod figure;
pub(crate) mod history;
pub(crate) mod listing;
pub(crate) mod machine;
pub(crate) mod numbers;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod timestamp;

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_protocol::LatencySnapshot;
use serde::{Deserialize, Serialize};

use crate::judge::anomalies::Anomalies;
use crate::judge::backlog::grows;
use crate::measure::interval::Rates;
use crate::measure::usage::{MachineCpu, resident};
use crate::report::machine::Machine;
use crate::report::table::{Table, Tables};
use crate::run::error::RunError;
use crate::run::execution::Run;

/// Part of the machine that other processes may use before a run counts as disturbed.
const FOREIGN_QUIET: f64 = 0.05;
/// Part of the offered operations that must be done for a system to count as keeping up.
pub(crate) const KEEPS_UP: f64 = 0.99;
/// Maximum lateness of the generator at its 99th percentile, as a part of the latency's 99th percentile.
const PACER_SHARE: f64 = 0.1;

/// Results of a run, and the machine it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The scenario's id.
    pub scenario: String,
    /// Unit of the rate, such as `spawns/s`.
    pub ops_label: String,
    /// All parameters, including those with default values.
    pub params: BTreeMap<String, String>,
    /// The resource profile's id.
    pub profile: String,
    /// Number of scheduler threads.
    pub schedulers: usize,
    /// True if the scenario compares cases in turn: its rate changes by design, and the figures are in its tables.
    pub takes_turns: bool,
    /// Closed loop or open.
    pub loop_kind: LoopKind,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Length and result of the warm-up.
    pub warm_up: WarmUpReport,
    /// Length of the measurement, in seconds.
    pub duration_s: f64,
    /// Number of operations measured.
    pub ops_total: u64,
    /// Operations per second.
    pub ops_per_sec: Rates,
    /// CPU time of the whole process per operation, in nanoseconds; `null` without operations.
    pub cpu_ns_per_op: Option<f64>,
    /// Number of operations measured that failed.
    pub errors_total: u64,
    /// Number of operations measured that a policy dropped.
    pub dropped_total: u64,
    /// Latency; `null` if the scenario measures none.
    pub latency: Option<LatencyReport>,
    /// Service time: duration of operations from their actual start; `null` if the scenario does not measure it
    /// separately.
    pub service: Option<LatencySnapshot>,
    /// Rate that an open loop offered, and how well it kept to its schedule.
    pub open_loop: Option<OpenLoopReport>,
    /// Lateness of the generator when nothing blocked it; `null` if the scenario does not measure it separately.
    pub pacer: Option<LatencySnapshot>,
    /// Pauses and sawtooth patterns.
    #[serde(rename = "signs")]
    pub anomalies: Anomalies,
    /// Tables of a scenario that compares cases.
    pub tables: Vec<Table>,
    /// Lines that the scenario prints for other programs, unchanged.
    pub lines: Vec<String>,
    /// Peak number of live processes.
    pub processes_peak: u64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: Option<u64>,
    /// Peak resident memory, in bytes.
    pub rss_peak_bytes: Option<u64>,
    /// Average number of cores that other processes of the machine used during the measurement.
    pub foreign_cores: Option<f64>,
    /// Average number of cores that the hypervisor withheld (steal time) during the measurement.
    pub stolen_cores: Option<f64>,
    /// Assessment of the run.
    pub verdict: Verdict,
    /// Error that ended the run; `null` if it did not fail.
    pub error: Option<String>,
    /// Machine of the run; left out in a document, which states it once for all runs.
    #[serde(skip_serializing_if = "Machine::is_unknown")]
    pub machine: Machine,
}

/// Event that starts the next operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopKind {
    /// The end of the previous operation: shows the highest rate, and hides queueing.
    #[default]
    Closed,
    /// A schedule: shows the latency that independent clients would see.
    Open,
}

/// Length and result of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUpReport {
    /// Length, in seconds.
    pub duration_s: f64,
    /// True if the rate was steady at the end.
    pub steady: bool,
}

/// Latency, and how it was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Description of the latency.
    pub label: String,
    /// Timed unit, such as `round trip`.
    pub timed: String,
    /// Sampling: on average one in this many units was timed, at random distances.
    pub sampling: u32,
    /// Cost of reading the clock once, in nanoseconds.
    pub clock_read_ns: f64,
    /// Distribution of the latencies.
    #[serde(flatten)]
    pub distribution: LatencySnapshot,
}

/// Rate that an open loop offered, and how well it kept to its schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoopReport {
    /// Operations per second that were offered.
    pub offered_per_sec: f64,
    /// Operations done, as a part of those offered.
    pub achieved: f64,
    /// Number of offered operations not done at the end.
    pub missed_total: u64,
    /// Lateness of operations at their start: the generator's own lag plus the wait behind earlier operations.
    pub lag: LatencySnapshot,
}

/// Assessment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The rate was steady and nothing disturbed the run.
    Steady,
    /// The rate had not settled when the longest warm-up was over.
    NotSteady,
    /// Other processes used more than 5 % of the machine during the run.
    Disturbed,
    /// The generator was late by more than a tenth of the latency that it reports.
    Unpaced,
    /// An open loop offered more than the system could do: latency grows with the length of the run.
    Saturated,
    /// The run failed, or did no operations.
    #[default]
    Failed,
}

impl Verdict {
    /// Returns true if the figures describe the system under test and not a disturbance.
    ///
    /// A saturated or failed run is conclusive: it is a result about the system.
    pub const fn is_conclusive(self) -> bool {
        match self {
            Self::Steady | Self::Saturated | Self::Failed => true,
            Self::NotSteady | Self::Disturbed | Self::Unpaced => false,
        }
    }

    /// Combines the verdicts of several runs: one failed or saturated run decides for all; other faults count only if
    /// at least half of the runs have one.
    pub fn of_runs(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let verdicts: Vec<Self> = verdicts.into_iter().collect();
        let count = |wanted: Self| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        if verdicts.is_empty() || count(Self::Failed) > 0 {
            return Self::Failed;
        }
        if count(Self::Saturated) > 0 {
            return Self::Saturated;
        }
        let faults = [Self::Disturbed, Self::Unpaced, Self::NotSteady];
        if 2 * faults.iter().map(|fault| count(*fault)).sum::<usize>() < verdicts.len() {
            return Self::Steady;
        }
        faults.into_iter().max_by_key(|fault| count(*fault)).unwrap_or(Self::Steady)
    }

    /// Returns the word for this verdict in reports for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::NotSteady => "not_steady",
            Self::Disturbed => "disturbed",
            Self::Unpaced => "unpaced",
            Self::Saturated => "saturated",
            Self::Failed => "failed",
        }
    }

    /// Returns a line of text for people.
    pub const fn line(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::NotSteady => "not steady: the rate still moved when the longest warm-up was over",
            Self::Disturbed => {
                "disturbed: other programs used more than 5 % of the machine; trust the CPU time per operation"
            }
            Self::Unpaced => "not paced: the generator itself was late by more than a tenth of the latency at p99",
            Self::Saturated => "saturated: less than 99 % of the offered operations were done; latency grows with time",
            Self::Failed => "failed",
        }
    }
}

impl Report {
    /// Creates the report of a measured run. [`ended`](Self::ended) adds later how the run ended.
    pub(crate) fn of(run: &mut Run, schedulers: usize) -> Self {
        Self::on(run, schedulers, Machine::look())
    }

    /// Creates the report of a run that may go on, on a machine that was described before.
    pub(crate) fn on(run: &mut Run, schedulers: usize, machine: Machine) -> Self {
        let card = run.plan.scenario.card();
        let start = run.sampler.cut().map_or_else(|| *run.sampler.first(), |cut| cut.reading);
        let end = *run.sampler.last();
        let duration = end.at - start.at;
        let ops = end.sums.ops - start.sums.ops;
        let cpu = end.cpu.saturating_sub(start.cpu);
        let resident = resident();
        let machine_before = run.sampler.cut().and_then(|cut| cut.machine_cpu);
        let machine_after = run.sampler.machine_cpu();
        let since =
            |part: fn(&MachineCpu) -> Duration| Some(part(&machine_after?).saturating_sub(part(&machine_before?)));
        let mut report = Self {
            scenario: card.id.to_owned(),
            ops_label: card.ops_label.to_owned(),
            params: run.plan.params.said(),
            profile: run.plan.profile.id().to_owned(),
            schedulers,
            takes_turns: run.plan.scenario.takes_turns(),
            loop_kind: if run.plan.rate.is_some() { LoopKind::Open } else { LoopKind::Closed },
            seed: run.plan.seed,
            warm_up: WarmUpReport {
                duration_s: (start.at - run.sampler.first().at).as_secs_f64(),
                steady: run.sampler.cut().is_some_and(|cut| cut.steady),
            },
            duration_s: duration.as_secs_f64(),
            ops_total: ops,
            ops_per_sec: Rates::of(run.sampler.intervals()),
            cpu_ns_per_op: (ops > 0).then(|| cpu.as_nanos() as f64 / ops as f64),
            errors_total: end.sums.errors - start.sums.errors,
            dropped_total: end.sums.dropped - start.sums.dropped,
            latency: card.latency_label.map(|label| LatencyReport {
                label: label.to_owned(),
                timed: card.timed.to_owned(),
                sampling: run.meter.sampling(),
                clock_read_ns: run.sampler.clock().read_ns,
                distribution: run.sampler.cumulative(),
            }),
            open_loop: run.plan.rate.map(|rate| {
                let offered = rate.per_sec() * duration.as_secs_f64();
                OpenLoopReport {
                    offered_per_sec: rate.per_sec(),
                    achieved: if offered > 0.0 { ops as f64 / offered } else { 0.0 },
                    missed_total: (offered - ops as f64).max(0.0) as u64,
                    lag: run.sampler.lags(),
                }
            }),
            service: run.sampler.services(),
            pacer: run.sampler.pacer(),
            anomalies: if run.plan.scenario.takes_turns() {
                Anomalies::default()
            } else {
                Anomalies::of(run.sampler.intervals())
            },
            tables: Vec::new(),
            lines: Vec::new(),
            processes_peak: run.peak_live(),
            rss_bytes: resident.map(|(now, _)| now),
            rss_peak_bytes: resident.map(|(_, most)| most),
            foreign_cores: since(|cpu| cpu.busy).map(|busy| cores_of(busy.saturating_sub(cpu), duration)),
            stolen_cores: since(|cpu| cpu.stolen).map(|stolen| cores_of(stolen, duration)),
            verdict: Verdict::Failed,
            error: None,
            machine,
        };
        report.verdict = report.judge(Circumstances {
            in_flight_max: run.meter.workers() as u64,
            backlog_grows: run.plan.rate.is_some_and(|rate| grows(rate.per_sec(), run.sampler.intervals())),
            loads_neighbour: run.plan.scenario.loads_neighbour(),
        });
        report
    }

    fn judge(&self, seen: Circumstances) -> Verdict {
        let disturbs = FOREIGN_QUIET * self.machine.cores as f64;
        let falls_short = self.open_loop.is_some_and(|open| open.achieved < KEEPS_UP);
        // At a low rate, the few operations in flight at the end can be more than 1 % of all.
        let misses = self.open_loop.is_some_and(|open| open.missed_total > seen.in_flight_max + 1);
        if self.ops_total == 0 || self.error.is_some() {
            Verdict::Failed
        } else if falls_short && misses && seen.backlog_grows {
            Verdict::Saturated
        } else if self.is_unpaced() {
            Verdict::Unpaced
        } else if !seen.loads_neighbour && self.foreign_cores.is_some_and(|cores| cores > disturbs) {
            Verdict::Disturbed
        } else if falls_short && (misses || seen.backlog_grows) {
            Verdict::Saturated
        } else if self.warm_up.steady || self.takes_turns {
            Verdict::Steady
        } else {
            Verdict::NotSteady
        }
    }

    /// Returns true if the generator was so late that its own lateness distorts the measured latency.
    fn is_unpaced(&self) -> bool {
        let latency = self.latency.as_ref().map(|latency| latency.distribution.p99_ns);
        match (&self.pacer, latency) {
            (Some(pacer), Some(latency)) => pacer.p99_ns as f64 > PACER_SHARE * latency as f64,
            _ => false,
        }
    }

    /// Adds how the run ended.
    pub(crate) fn ended(mut self, outcome: Result<(), RunError>) -> Self {
        if let Err(error) = outcome {
            self.error = Some(error.to_string());
            self.verdict = Verdict::Failed;
        }
        self
    }

    /// Adds errors that were found after the run.
    pub(crate) fn with_errors(self, late: u64) -> Self {
        Self { errors_total: self.errors_total + late, ..self }
    }

    /// Adds the tables and lines that the scenario has produced by its end.
    pub(crate) fn with_tables(self, tables: &Tables) -> Self {
        Self { tables: tables.read(), lines: tables.printed(), ..self }
    }

    /// Returns the report as indented JSON.
    ///
    /// # Panics
    /// Never: all keys of a report are strings, and numbers that are not finite become `null`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("every field of a report can be written as JSON")
    }
}

/// Facts about a run that the verdict needs and the report does not contain.
#[derive(Clone, Copy, Debug, Default)]
struct Circumstances {
    /// Maximum number of operations in flight.
    in_flight_max: u64,
    /// True if the backlog grew throughout the run, and not only in one step.
    backlog_grows: bool,
    /// True if the scenario loads another program on this machine: other processes' CPU time then includes that
    /// program's.
    loads_neighbour: bool,
}

/// Converts CPU time to an average number of cores.
fn cores_of(cpu: Duration, duration: Duration) -> f64 {
    // The machine's CPU times have a resolution of 10 ms, so the result of a short run can exceed the number of cores.
    cpu.as_secs_f64() / duration.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            ops_total: 1,
            foreign_cores: Some(0.02),
            warm_up: WarmUpReport { duration_s: 1.0, steady: true },
            machine: Machine { cores: 2, ..Machine::default() },
            ..Report::default()
        }
    }

    #[test]
    fn a_run_is_judged_by_its_worst_fault() {
        let noisy = Report { foreign_cores: Some(0.2), ..report() };
        let seen = Circumstances { in_flight_max: 2, backlog_grows: true, loads_neighbour: false };

        assert_eq!(report().judge(seen), Verdict::Steady);
        assert_eq!(noisy.judge(seen), Verdict::Disturbed);
        assert_eq!(Report { open_loop: Some(open(0.9, 100)), ..noisy.clone() }.judge(seen), Verdict::Saturated);
        assert_eq!(Report { open_loop: Some(open(1.0, 0)), ..report() }.judge(seen), Verdict::Steady);
        assert_eq!(Report { ops_total: 0, ..noisy }.judge(seen), Verdict::Failed);
        assert_eq!(report().ended(Err(RunError::Stuck)).verdict, Verdict::Failed);
    }

    fn open(achieved: f64, missed_total: u64) -> OpenLoopReport {
        OpenLoopReport { achieved, missed_total, ..OpenLoopReport::default() }
    }

    #[test]
    fn a_stall_by_other_programs_is_no_saturation() {
        let seen = Circumstances { in_flight_max: 2, ..Circumstances::default() };
        let grows = Circumstances { backlog_grows: true, ..seen };
        let noisy = Report { foreign_cores: Some(0.2), ..report() };
        let stalled = Report { open_loop: Some(open(0.8, 7)), ..noisy.clone() };
        let under_way = Report { open_loop: Some(open(0.91, 3)), ..noisy };

        assert_eq!((stalled.judge(seen), stalled.judge(grows)), (Verdict::Disturbed, Verdict::Saturated));
        assert_eq!((under_way.judge(seen), under_way.judge(grows)), (Verdict::Disturbed, Verdict::Disturbed));
        let quiet = |report: Report| Report { foreign_cores: Some(0.0), ..report };
        assert_eq!(quiet(under_way).judge(seen), Verdict::Steady, "what is under way at the end is not missed");
        assert_eq!(quiet(stalled).judge(seen), Verdict::Saturated, "no other program used the machine");
    }

    #[test]
    fn the_server_that_is_loaded_does_not_disturb() {
        let noisy = Report { foreign_cores: Some(1.0), ..report() };
        let seen = Circumstances { loads_neighbour: true, ..Circumstances::default() };

        assert_eq!(noisy.judge(seen), Verdict::Steady);
    }

    #[test]
    fn many_runs_are_judged_by_what_half_of_them_have() {
        use Verdict::{Disturbed, Failed, NotSteady, Saturated, Steady};

        assert_eq!(Verdict::of_runs([Steady, Steady, Steady, Steady, Disturbed, NotSteady]), Steady);
        assert_eq!(Verdict::of_runs([Steady, Disturbed, Disturbed, NotSteady]), Disturbed);
        assert_eq!(Verdict::of_runs([Steady, Steady, Saturated]), Saturated);
        assert_eq!(Verdict::of_runs([Steady, Steady, Saturated, Failed]), Failed);
        assert_eq!(Verdict::of_runs([]), Failed);
    }

    #[test]
    fn a_report_survives_its_json() {
        let report = Report { latency: Some(LatencyReport::default()), ..report() };

        assert_eq!(serde_json::from_str::<Report>(&report.to_json()).unwrap(), report);
    }
}
