//! Empty pipeline: the cost of ticking alone, with and without measuring lateness, and in batches.

use rusm_protocol::Unit;
use rusm_runtime::ticker::{Measure, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::{Ticks, hz, tick};

/// Scenario with an empty pipeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerEmpty;

impl Scenario for TimerEmpty {
    fn card(&self) -> Card {
        Card {
            id: "timer-empty",
            family: Family::Timing,
            label: "Empty pipeline",
            description: "Ticks at 10 kHz that do no work, compared with the same firings at ten per tick.",
            details: &[
                "One operation is a firing that does no work. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the rows of the table.",
                "Latency is lateness, in the cases that measure it: from the time at which a tick is due to its first \
                 instruction.",
                "A turn has a tenth of the seed project's ticks. Wall and CPU time are shown for its full number of \
                 ticks.",
                "Fired is due less dropped; the seed project counts overruns only. A good result on an idle core: \
                 nothing is dropped, and there is no overrun.",
            ],
            ops_label: "firings/s",
            latency_label: Some("tick due to its first instruction"),
            unit: Unit::Count,
            parameters: &[],
            source_file: file!(),
            timed: "tick",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move { run_in_turn(context, Empty::default()).await })
    }
}

/// Name, tick rate in hertz, lateness measurement, and the seed's wall time, CPU time and firings for 1,000 ticks.
const CASES: [(&str, u64, Measure, [f64; 3]); 3] = [
    ("10 kHz, measured", 10_000, Measure::Lateness, [100e6, 8.42e6, 1_000.0]),
    ("10 kHz, not measured", 10_000, Measure::Off, [100e6, 8.37e6, 1_000.0]),
    ("10 kHz, K = 10", 1_000, Measure::Lateness, [1_000e6, 9.80e6, 10_000.0]),
];
/// Number of ticks in a turn; the seed's runs have ten times as many.
const TICKS: u64 = 100;
const OF_SEED: f64 = 10.0;

#[derive(Default)]
struct Empty {
    sums: [Ticks; 3],
}

impl Cases for Empty {
    fn count(&self) -> usize {
        CASES.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let (_, tick_rate, measure, _) = CASES[case];
        let options = TickerOptions { tick_rate: Some(hz(tick_rate)), measure, ..TickerOptions::default() };
        if let Some(ticks) = tick(context, hz(10_000), options, TICKS, |_| {})? {
            self.sums[case].merge(&ticks);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Empty pipeline, 1,000 ticks",
            &[
                ("pipeline", ColumnUnit::Text),
                ("wall", ColumnUnit::Ns),
                ("CPU", ColumnUnit::Ns),
                ("due", ColumnUnit::Count),
                ("fired", ColumnUnit::Count),
                ("overruns", ColumnUnit::Count),
                ("CPU/firing", ColumnUnit::Ns),
                ("seed wall", ColumnUnit::Ns),
                ("seed CPU", ColumnUnit::Ns),
                ("seed due", ColumnUnit::Count),
            ],
        );
        for ((name, _, _, [wall_ns, cpu_ns, due]), sum) in CASES.iter().zip(&self.sums) {
            let of_seed = |total| sum.of_a_turn(total).map(|each| each * OF_SEED);
            table.row([
                (*name).into(),
                of_seed(sum.wall_ns).into(),
                of_seed(sum.cpu_ns).into(),
                of_seed(sum.account.fired + sum.account.dropped + sum.account.coalesced).into(),
                of_seed(sum.account.fired).into(),
                of_seed(sum.account.overruns).into(),
                sum.cpu_ns_per_firing().into(),
                (*wall_ns).into(),
                (*cpu_ns).into(),
                (*due).into(),
            ]);
        }
        table.note("Gate: fired equals due, without an overrun, on an idle core.");
        context.show(table);
    }
}
