//! What a headless run hands back, for programs as JSON and for people as text.

use std::collections::BTreeMap;
use std::time::Duration;

use rusm_protocol::LatencySnapshot;
use serde::{Deserialize, Serialize};

use crate::interval::Rates;
use crate::machine::Machine;
use crate::run::{Run, RunError};
use crate::saturate::grows;
use crate::signs::Signs;
use crate::table::{Table, Tables};
use crate::usage::{MachineCpu, machine_cpu, resident};

/// The part of the machine that others may use before a run counts as disturbed.
const FOREIGN_QUIET: f64 = 0.05;
/// The part of the offered operations that a system that keeps up has done.
pub(crate) const KEEPS_UP: f64 = 0.99;
/// How late the generator may be at its 99th percentile, as a part of the latency's.
const PACER_SHARE: f64 = 0.1;

/// What a run showed, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The scenario's id.
    pub scenario: String,
    /// What the operations are called, such as `spawns/s`.
    pub ops_label: String,
    /// All parameters, those with defaults too.
    pub params: BTreeMap<String, String>,
    /// The resource profile's id.
    pub profile: String,
    /// Scheduler threads.
    pub schedulers: usize,
    /// Whether the scenario compares cases in turn: its rate moves by design, and the figures are in its tables.
    pub takes_turns: bool,
    /// Closed loop or open.
    pub loop_kind: LoopKind,
    /// The seed of everything random.
    pub seed: u64,
    /// How the warm-up went.
    pub warm_up: WarmUpReport,
    /// How long was measured, in seconds.
    pub duration_s: f64,
    /// Operations measured.
    pub ops_total: u64,
    /// Operations a second.
    pub ops_per_sec: Rates,
    /// CPU time of the whole process for each operation, in nanoseconds; `null` without operations.
    pub cpu_ns_per_op: Option<f64>,
    /// Failed operations measured.
    pub errors_total: u64,
    /// Operations measured that a policy gave up.
    pub dropped_total: u64,
    /// Latency; `null` for a scenario that has none.
    pub latency: Option<LatencyReport>,
    /// How long operations took from when they really began, where that differs; `null` where it is not told apart.
    pub service: Option<LatencySnapshot>,
    /// What an open loop offered, and how well it kept to its schedule.
    pub open_loop: Option<OpenLoopReport>,
    /// How well the generator kept to its schedule where nothing was in its way; `null` where that is not told apart.
    pub pacer: Option<LatencySnapshot>,
    /// Pauses and sawteeth.
    pub signs: Signs,
    /// What the scenario compares, in tables of its own.
    pub tables: Vec<Table>,
    /// Lines of the scenario's own that other programs read, as they are.
    pub lines: Vec<String>,
    /// The most processes alive at once.
    pub processes_peak: u64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: Option<u64>,
    /// Resident memory at its most, in bytes.
    pub rss_peak_bytes: Option<u64>,
    /// Cores that other processes of the machine used meanwhile.
    pub foreign_cores: Option<f64>,
    /// Cores that a hypervisor kept back meanwhile.
    pub stolen_cores: Option<f64>,
    /// What to make of it.
    pub verdict: Verdict,
    /// Why the run failed; `null` if it did not.
    pub error: Option<String>,
    /// Where it was measured; left out of a run in a document, which says it once.
    #[serde(skip_serializing_if = "Machine::is_unknown")]
    pub machine: Machine,
}

/// What makes the next operation begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopKind {
    /// The end of the one before: shows the highest rate, and hides queueing.
    #[default]
    Closed,
    /// A schedule: shows what those would see who do not wait for each other.
    Open,
}

/// How the warm-up went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUpReport {
    /// How long it was, in seconds.
    pub duration_s: f64,
    /// Whether the rate was steady at its end.
    pub steady: bool,
}

/// Latency, and how it was sampled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// What it is of.
    pub label: String,
    /// What was timed, such as `round trip`.
    pub timed: String,
    /// One in this many was timed, at random distances.
    pub sampling: u32,
    /// One read of the clock, in nanoseconds.
    pub clock_read_ns: f64,
    /// The distribution.
    #[serde(flatten)]
    pub distribution: LatencySnapshot,
}

/// What an open loop offered, and how well it kept to its schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoopReport {
    /// Operations a second that were offered.
    pub offered_per_sec: f64,
    /// Done, as a part of offered.
    pub achieved: f64,
    /// Offered operations that had not been done at the end.
    pub missed_total: u64,
    /// How late operations began: the generator's own lag and the queue before it.
    pub lag: LatencySnapshot,
}

/// What to make of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It was steady and undisturbed.
    Steady,
    /// The rate had not settled when the longest warm-up was over.
    NotSteady,
    /// Others used more than 5 % of the machine meanwhile.
    Disturbed,
    /// The generator was late by more than a tenth of the latency that it shows.
    Unpaced,
    /// An open loop offered more than could be done: latency grows with the length of the run.
    Saturated,
    /// It failed, or did nothing.
    #[default]
    Failed,
}

impl Verdict {
    /// Whether the figures say something about what was measured, and nothing about what else went on.
    ///
    /// A system that was saturated, or that failed, has given an answer.
    pub const fn is_conclusive(self) -> bool {
        match self {
            Self::Steady | Self::Saturated | Self::Failed => true,
            Self::NotSteady | Self::Disturbed | Self::Unpaced => false,
        }
    }

    /// What to make of several runs: a failure or a saturation of one is one of all, other faults count when half have them.
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

    /// The word that stands in reports for programs.
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

    /// One line for a person.
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
    /// Reads a run that has been measured; its end is told later by [`ended`](Self::ended).
    pub(crate) fn of(run: &mut Run, schedulers: usize) -> Self {
        let card = run.plan.scenario.card();
        let start = run.sampler.cut().map_or_else(|| *run.sampler.first(), |cut| cut.reading);
        let end = *run.sampler.last();
        let duration = end.at - start.at;
        let ops = end.sums.ops - start.sums.ops;
        let cpu = end.cpu.saturating_sub(start.cpu);
        let resident = resident();
        let machine_before = run.sampler.cut().and_then(|cut| cut.machine_cpu);
        let machine_after = machine_cpu();
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
            signs: if run.plan.scenario.takes_turns() { Signs::default() } else { Signs::of(run.sampler.intervals()) },
            tables: Vec::new(),
            lines: Vec::new(),
            processes_peak: run.peak_live(),
            rss_bytes: resident.map(|(now, _)| now),
            rss_peak_bytes: resident.map(|(_, most)| most),
            foreign_cores: since(|cpu| cpu.busy).map(|busy| cores_of(busy.saturating_sub(cpu), duration)),
            stolen_cores: since(|cpu| cpu.stolen).map(|stolen| cores_of(stolen, duration)),
            verdict: Verdict::Failed,
            error: None,
            machine: Machine::look(),
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
        // At a low rate the few that are under way at the end are more than a hundredth of all.
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

    /// Whether the generator itself was so late that the latency is its own.
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

    /// Adds errors that were found when all was over.
    pub(crate) fn with_errors(self, late: u64) -> Self {
        Self { errors_total: self.errors_total + late, ..self }
    }

    /// Adds the tables and lines that the scenario has shown by its end.
    pub(crate) fn with_tables(self, tables: &Tables) -> Self {
        Self { tables: tables.read(), lines: tables.printed(), ..self }
    }

    /// The report as JSON, indented.
    ///
    /// # Panics
    /// Never: a report has no keys but strings, and numbers that are not finite become `null`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report holds only what JSON can say")
    }
}

/// What a verdict needs to know and no report says.
#[derive(Clone, Copy, Debug, Default)]
struct Circumstances {
    /// Operations that can be under way at once.
    in_flight_max: u64,
    /// Whether what was offered and not done became more all the time, and not once.
    backlog_grows: bool,
    /// Whether what is loaded is another program on this machine, whose CPU time is that of others too.
    loads_neighbour: bool,
}

/// How many cores so much CPU time is.
fn cores_of(cpu: Duration, duration: Duration) -> f64 {
    // The machine's figures come in hundredths of a second, so a short run can seem to be more than all.
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
        assert_eq!(quiet(stalled).judge(seen), Verdict::Saturated, "nobody else is to blame");
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
