//! Cost of a wait that returns without sleeping: the ticker's own code, with and without measuring lateness.
//!
//! At 1 GHz every wait overruns, as in the seed. In the case on time, the tick becomes due while the ticker spins for
//! it, so a wait makes no system call; the spinning time is subtracted.

use rusm_protocol::Unit;
use rusm_runtime::ticker::{Measure, Overrun, Ticker, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::judge::statistics::median;
use crate::measure::clock::ClockCost;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::{hz, net_of_spinning, thread_cpu_ns};

/// Number of waits in a turn.
const WAITS: u64 = 20_000;
/// Number of waits in a turn that are on time, each for one period.
const WAITS_ON_TIME: u64 = 2_000;

/// Scenario that measures the cost of a wait that returns without sleeping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerPath;

impl Scenario for TimerPath {
    fn card(&self) -> Card {
        Card {
            id: "timer-path",
            family: Family::Timing,
            label: "Timer overhead",
            description: "Cost of one wait of a ticker, overrun and on time, with and without measuring lateness.",
            details: &[
                "One operation is a wait. Cases run in turn, so the rate of the whole run means nothing; compare the \
                 rows of the table.",
                "Overrun: at 1 GHz every tick has already passed. Each wait makes up for all of them in one batch.",
                "On time: at 100 kHz the ticker spins until each tick, so that it never sleeps. The time spun is \
                 subtracted.",
                "Latency is the time of one overrun wait, as the median of a turn, because a single wait is too short \
                 for the clock.",
                "The seed project's two figures are equal because an overrun tick never reached its second clock read.",
                "Goal: an overrun wait costs at most 1.2 clock reads.",
            ],
            ops_label: "waits/s",
            latency_label: Some("a wait that overruns, mean of a turn"),
            unit: Unit::Count,
            parameters: &[],
            source_file: file!(),
            timed: "turn",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move { run_in_turn(context, Paths::default()).await })
    }
}

const CASES: [(&str, bool, Measure, Option<f64>); 4] = [
    ("overrun, lateness measured", false, Measure::Lateness, Some(16.1)),
    ("overrun, not measured", false, Measure::Off, Some(16.1)),
    ("on time, lateness measured", true, Measure::Lateness, None),
    ("on time, not measured", true, Measure::Off, None),
];

#[derive(Default)]
struct Paths {
    waits_ns: [Vec<f64>; 4],
    reads_ns: Vec<f64>,
}

impl Cases for Paths {
    fn count(&self) -> usize {
        CASES.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let (_, on_time, measure, _) = CASES[case];
        self.reads_ns.push(ClockCost::measure().read_ns);
        let ns = if on_time {
            net_of_spinning(context, 1, measure, WAITS_ON_TIME)? / WAITS_ON_TIME as f64
        } else {
            overruns(measure)?
        };
        self.waits_ns[case].push(ns);
        context.recorder.count(if on_time { WAITS_ON_TIME } else { WAITS });
        if !on_time {
            context.recorder.latency(ns.max(1.0) as u64);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "A wait that does not block",
            &[
                ("path", ColumnUnit::Text),
                ("a wait", ColumnUnit::Ns),
                ("waits/s", ColumnUnit::Amount),
                ("÷ clock read", ColumnUnit::Ratio),
                ("turns", ColumnUnit::Count),
                ("seed", ColumnUnit::Ns),
                ("seed waits/s", ColumnUnit::Amount),
            ],
        );
        let read_ns = median(&self.reads_ns).unwrap_or(f64::NAN);
        for ((name, _, _, seed), waits_ns) in CASES.iter().zip(&self.waits_ns) {
            let ns = median(waits_ns);
            table.row([
                (*name).into(),
                ns.into(),
                ns.map(|ns| 1e9 / ns).into(),
                ns.map(|ns| ns / read_ns).into(),
                (waits_ns.len() as u64).into(),
                (*seed).into(),
                seed.map(|ns| 1e9 / ns).into(),
            ]);
        }
        table.note(format!(
            "Overrun: CPU time of the thread. On time: elapsed time less the time spun. Medians of all \
                            turns. A clock read is {read_ns:.1} ns."
        ));
        table.note("Gate: at most 1.2 clock reads on the overrun path.");
        context.show(table);
    }
}

/// Returns the CPU time in nanoseconds of a wait for overdue ticks.
fn overruns(measure: Measure) -> Result<f64, RunError> {
    let options = TickerOptions { overrun: Overrun::Burst { max: u32::MAX }, measure, ..TickerOptions::default() };
    let mut ticker = Ticker::new(hz(1_000_000_000), options)?;
    let before_ns = thread_cpu_ns();
    for _ in 0..WAITS {
        // By reference: a copy would stall until the stores that wrote the value complete.
        std::hint::black_box(&ticker.wait());
    }
    Ok((thread_cpu_ns() - before_ns) as f64 / WAITS as f64)
}
