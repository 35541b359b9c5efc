//! Lateness and overruns from 1 Hz to 1 MHz, and at audio rates.

use rusm_protocol::Unit;
use rusm_runtime::ticker::{Firings, Measure, Spin, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::histogram::NanosHistogram;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::cyclictest;
use crate::scenarios::timing::ticking::{Ticks, hz, tick};

/// Scenario that measures lateness and overruns by frequency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerSweep;

impl Scenario for TimerSweep {
    fn card(&self) -> Card {
        Card {
            id: "timer-sweep",
            family: Family::Timing,
            label: "Timer frequency sweep",
            description: "Lateness and overruns at every frequency from 1 Hz to 1 MHz.",
            details: &[
                "One operation is a firing of a ticker on its own thread. Cases run in turn, so the rate of the whole \
                 run means nothing; compare the rows of the table. A turn of 1 Hz takes a second.",
                "Latency is lateness, over all frequencies; the table has each frequency.",
                "The seed project cut periods to whole nanoseconds, so its 48 kHz would drift by 16 ppm. These periods \
                 do not drift.",
                "An overrun is a tick whose time has passed when the ticker begins to wait for it. Before each there \
                 is a wake-up that came a period late or more: the column late has their share.",
                "The column preempted has the overruns after wake-ups over 100 µs late, while something else used the \
                 processor.",
                "cyclictest (Debian package rt-tests) runs in turn with the others if it is installed.",
                "Without spinning, no machine wakes a thread every microsecond. 1 MHz shows the loss, and \
                 timer-kfactor how batches avoid it.",
                "Goal: at most 5 % overruns at 48 kHz on a machine that is not busy.",
            ],
            ops_label: "firings/s",
            latency_label: Some("tick due to its first instruction"),
            unit: Unit::Count,
            parameters: &[Parameter {
                name: "spin",
                description: "Spinning before a tick: off, or set by the governor.",
                kind: Kind::Choice { words: &["off", "governed"] },
            }],
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
        Box::pin(async move {
            let spin = if context.params().word("spin") == "governed" { Spin::Governed } else { Spin::Off };
            run_in_turn(context, Sweep { spin, ..Sweep::default() }).await
        })
    }
}

/// Hertz, ticks in a turn, and the seed's mean lateness and overruns.
const CASES: [(u64, u64, Option<[f64; 2]>); 8] = [
    (1_000_000, 10_000, Some([36_189.0, 98.6])),
    (100_000, 5_000, Some([38_911.0, 87.7])),
    (48_000, 2_400, None),
    (10_000, 1_000, Some([72_334.0, 1.7])),
    (1_000, 100, Some([76_571.0, 0.0])),
    (100, 10, Some([87_916.0, 0.0])),
    (10, 3, Some([97_491.0, 0.0])),
    (1, 1, Some([99_368.0, 0.0])),
];

/// The case for comparison with cyclictest: its interval, and its number of wake-ups in a turn.
const BESIDE: (u64, u64) = (21, 2_400);
/// A wake-up later than this counts as a preemption.
const PREEMPTED_NS: u64 = 100_000;

#[derive(Default)]
struct Sweep {
    spin: Spin,
    sums: [Sum; CASES.len()],
    cyclictest: NanosHistogram,
    /// Reason why the result of cyclictest is missing.
    lacks: Option<String>,
}

/// Sum over the turns of a case.
#[derive(Default)]
struct Sum {
    ticks: Ticks,
    /// Number of ticks that passed because of preemptions.
    preempted: u64,
}

impl Cases for Sweep {
    fn count(&self) -> usize {
        CASES.len() + 1
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let Some((rate, ticks, _)) = CASES.get(case) else {
            self.run_cyclictest();
            return Ok(());
        };
        let (sum, mut preempted) = (&mut self.sums[case], 0);
        let options = TickerOptions { spin: self.spin, measure: Measure::Lateness, ..TickerOptions::default() };
        let count = |firings: Firings| {
            let late_ns = firings.late_ns.filter(|late_ns| *late_ns >= PREEMPTED_NS);
            preempted += late_ns.map_or(0, |late_ns| late_ns * rate / 1_000_000_000);
        };
        if let Some(ticks) = tick(context, hz(*rate), options, *ticks, count)? {
            sum.ticks.merge(&ticks);
            sum.preempted += preempted;
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Frequency sweep",
            &[
                ("frequency", ColumnUnit::Text),
                ("mean", ColumnUnit::Ns),
                ("p50", ColumnUnit::Ns),
                ("p99", ColumnUnit::Ns),
                ("p99.9", ColumnUnit::Ns),
                ("max", ColumnUnit::Ns),
                ("late", ColumnUnit::Percent),
                ("overruns", ColumnUnit::Percent),
                ("preempted", ColumnUnit::Percent),
                ("ticks", ColumnUnit::Count),
                ("cpu", ColumnUnit::Percent),
                ("seed mean", ColumnUnit::Ns),
                ("seed overruns", ColumnUnit::Percent),
            ],
        );
        for ((rate, _, seed), Sum { ticks, preempted }) in CASES.iter().zip(&self.sums).rev() {
            let [mean, p50, p99, p999, max] = ticks.lateness.cells();
            let seed = seed.map_or([None; 2], |seed| seed.map(Some));
            table.row([
                hz(*rate).to_string().into(),
                mean,
                p50,
                p99,
                p999,
                max,
                ticks.lateness.pct_from(1_000_000_000 / rate).into(),
                ticks.overruns_pct().into(),
                ticks.pct_of_ticks((*preempted).min(ticks.account.overruns)).into(),
                ticks.account.ticks.into(),
                ticks.cpu_pct().into(),
                seed[0].into(),
                seed[1].into(),
            ]);
        }
        let [mean, p50, p99, p999, max] = self.cyclictest.cells();
        let late = self.cyclictest.pct_from(BESIDE.0 * 1_000);
        let none = || None::<f64>.into();
        table.row([
            format!("cyclictest, {} µs", BESIDE.0).into(),
            mean,
            p50,
            p99,
            p999,
            max,
            late.into(),
            none(),
            none(),
            self.cyclictest.len().into(),
            none(),
            none(),
            none(),
        ]);
        if let Some(lacks) = &self.lacks {
            table.note(lacks.as_str());
        }
        table.note("late: wake-ups a period late or more; preempted: overruns after wake-ups over 100 µs late");
        table.note("Gate: overruns at 48 kHz at most 5 % where the machine is not busy.");
        context.show(table);
    }
}

impl Sweep {
    fn run_cyclictest(&mut self) {
        if self.lacks.is_some() {
            return;
        }
        match cyclictest::run(BESIDE.0, BESIDE.1, None) {
            Ok(histogram) => self.cyclictest.merge(&histogram),
            Err(note) => self.lacks = Some(note),
        }
    }
}
