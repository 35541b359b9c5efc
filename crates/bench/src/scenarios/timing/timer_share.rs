//! Sleep and work: the part of the time that a ticker sleeps, and the CPU time of a firing, with the seed's figures.

use std::hint::black_box;

use rusm_protocol::Unit;
use rusm_runtime::ticker::{Measure, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::{Ticks, hz, now_ns, tick};

/// Scenario that measures sleep and work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerShare;

impl Scenario for TimerShare {
    fn card(&self) -> Card {
        Card {
            id: "timer-share",
            family: Family::Timing,
            label: "Timer and work",
            description: "Share of the time that a ticker sleeps, and CPU time of one firing.",
            details: &[
                "One operation is a firing that multiplies 64 numbers. Cases run in turn, so the rate of the whole run \
                 means nothing; compare the rows of the table.",
                "Latency is lateness: from the time at which a tick is due to its first firing.",
                "The seed project divides the time slept by K and calls it the cost of a firing, but it is a period, \
                 not a cost. A column keeps it next to the CPU time, which is the cost.",
                "CPU per firing is that of the ticker's thread, including clock reads, sleeps and the work. The work \
                 is timed once for each batch.",
                "A good result is a CPU time per firing close to that of the work alone.",
            ],
            ops_label: "firings/s",
            latency_label: Some("tick due to its first firing"),
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
        Box::pin(async move { run_in_turn(context, Shares::default()).await })
    }
}

/// Name, hertz, tick rate, ticks in a turn; the seed's timer and work per tick, its share and "per-firing timer".
const CASES: [(&str, u64, u64, u64, [f64; 4]); 5] = [
    ("K=1 @ 10 kHz", 10_000, 10_000, 500, [99_907.0, 17.0, 99.98, 99_907.0]),
    ("K=10 @ 1 kHz", 10_000, 1_000, 50, [999_905.0, 18.0, 100.0, 99_990.0]),
    ("1 MHz, K=1", 1_000_000, 1_000_000, 5_000, [981.0, 24.0, 97.61, 981.0]),
    ("10 MHz, K=10", 10_000_000, 1_000_000, 5_000, [977.0, 24.0, 97.60, 97.7]),
    ("100 MHz, K=100", 100_000_000, 1_000_000, 5_000, [978.0, 24.0, 97.60, 9.8]),
];

#[derive(Clone, Default)]
struct Share {
    ticks: Ticks,
    work_ns: u64,
}

#[derive(Default)]
struct Shares {
    sums: [Share; 5],
}

impl Cases for Shares {
    fn count(&self) -> usize {
        CASES.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let (_, rate, tick_rate, ticks, _) = CASES[case];
        let options =
            TickerOptions { tick_rate: Some(hz(tick_rate)), measure: Measure::Lateness, ..TickerOptions::default() };
        let (mut numbers, mut work_ns) = ([1.000_1_f32; 64], 0);
        let ticked = tick(context, hz(rate), options, ticks, |firings| {
            let start_ns = now_ns();
            for _ in 0..firings.count {
                for number in black_box(&mut numbers) {
                    *number *= 0.999_9;
                }
            }
            work_ns += now_ns() - start_ns;
        })?;
        if let Some(ticks) = ticked {
            self.sums[case].ticks.merge(&ticks);
            self.sums[case].work_ns += work_ns;
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Timer and work",
            &[
                ("configuration", ColumnUnit::Text),
                ("asleep", ColumnUnit::Percent),
                ("CPU/firing", ColumnUnit::Ns),
                ("of it work", ColumnUnit::Ns),
                ("not work/tick", ColumnUnit::Ns),
                ("not work/tick ÷ K", ColumnUnit::Ns),
                ("not work", ColumnUnit::Percent),
                ("fired", ColumnUnit::Count),
                ("overruns", ColumnUnit::Percent),
                ("seed timer", ColumnUnit::Ns),
                ("seed work", ColumnUnit::Ns),
                ("seed not work", ColumnUnit::Percent),
                ("seed ÷ K", ColumnUnit::Ns),
            ],
        );
        for ((name, rate, tick_rate, _, [seed_timer, seed_work, seed_pct, seed_ns]), share) in
            CASES.iter().zip(&self.sums)
        {
            let (ticks, batch) = (&share.ticks, rate.div_ceil(*tick_rate) as f64);
            let (fired, all) = (ticks.account.fired as f64, ticks.account.ticks as f64);
            let timer_ns = ticks.wall_ns.saturating_sub(share.work_ns) as f64 / all;
            table.row([
                (*name).into(),
                ticks.cpu_pct().map(|cpu| (100.0 - cpu).max(0.0)).into(),
                ticks.cpu_ns_per_firing().into(),
                (share.work_ns as f64 / fired).into(),
                timer_ns.into(),
                (timer_ns / batch).into(),
                (100.0 * timer_ns * all / ticks.wall_ns as f64).into(),
                ticks.of_a_turn(ticks.account.fired).into(),
                ticks.overruns_pct().into(),
                (*seed_timer).into(),
                (*seed_work).into(),
                (*seed_pct).into(),
                (*seed_ns).into(),
            ]);
        }
        table.note(
            "\"not work/tick ÷ K\" is the seed project's per-firing timer, \"not work\" its overhead ratio. Both come \
             from a period, not from a cost. The cost is CPU/firing.",
        );
        context.show(table);
    }
}
