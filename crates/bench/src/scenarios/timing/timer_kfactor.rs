//! Effect of batches on firings that are due far more often than a machine can wake: K firings per tick.
//!
//! ```text
//!   f = 1, 10, 100 MHz  ×  tick rate 1 MHz, 10 kHz ──▶ K = 1 … 10,000;  and 10 kHz with K = 1 beside K = 10
//! ```

use rusm_protocol::Unit;
use rusm_runtime::ticker::{Measure, Overrun, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::judge::statistics::median;
use crate::measure::clock::ClockCost;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::{Ticks, hz, net_of_spinning, tick};

/// Scenario that measures the effect of batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerKfactor;

impl Scenario for TimerKfactor {
    fn card(&self) -> Card {
        Card {
            id: "timer-kfactor",
            family: Family::Timing,
            label: "Timer batches",
            description: "Firings at 1 to 100 MHz in batches of K, so that the thread wakes far less often.",
            details: &[
                "One operation is a firing: an empty piece of work within a batch. Cases run in turn, so the rate of \
                 the whole run means nothing; compare the rows of the table.",
                "Latency is that of a batch: from the time at which its tick is due to its first firing.",
                "An overrun is a tick whose time had passed before the ticker waited for it. The policy drop drops all \
                 its firings, as the seed project does; burst makes up for up to 1,000 ticks at once.",
                "CPU per firing is that of the ticker's thread, including clock reads and sleeps. The second table has \
                 the ticker alone, without the kernel's time for a sleep.",
                "Goal in the second table: a firing costs at most a tenth of a clock read at K = 100.",
                "A machine that cannot sleep for less than some microseconds always has overruns at a tick rate of 1 \
                 MHz.",
            ],
            ops_label: "firings/s",
            latency_label: Some("tick due to the batch's first firing"),
            unit: Unit::Count,
            parameters: &[Parameter {
                name: "policy",
                description: "Policy for ticks whose time has passed.",
                kind: Kind::Choice { words: &["drop", "burst", "skip", "slip"] },
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
            let policy = match context.params().word("policy") {
                "burst" => Overrun::Burst { max: 1_000 },
                "skip" => Overrun::Skip,
                "slip" => Overrun::Slip,
                _ => Overrun::Drop,
            };
            let sums = CASES.iter().map(|_| Ticks::default()).collect();
            let net_ns = Default::default();
            run_in_turn(context, Kfactor { policy, sums, net_ns, read_ns: ClockCost::measure().read_ns }).await
        })
    }
}

struct Case {
    hz: u64,
    tick_rate: u64,
    ticks: u64,
    seed: SeedFigures,
}

/// The seed's result for the same number of ticks.
struct SeedFigures {
    wall_ms: f64,
    overruns: u64,
    firings: u64,
}

const fn case(hz: u64, tick_rate: u64, ticks: u64, wall_ms: f64, [overruns, firings]: [u64; 2]) -> Case {
    Case { hz, tick_rate, ticks, seed: SeedFigures { wall_ms, overruns, firings } }
}

const CASES: [Case; 8] = [
    case(1_000_000, 1_000_000, 1_000, 1.04, [986, 14]),
    case(10_000_000, 1_000_000, 1_000, 1.03, [986, 140]),
    case(100_000_000, 1_000_000, 1_000, 1.03, [985, 1_500]),
    case(1_000_000, 10_000, 1_000, 100.0, [23, 97_700]),
    case(10_000_000, 10_000, 1_000, 100.0, [11, 989_000]),
    case(100_000_000, 10_000, 1_000, 100.0, [32, 9_680_000]),
    case(10_000, 10_000, 10_000, 1_000.0, [251, 9_749]),
    case(10_000, 1_000, 1_000, 1_000.0, [0, 10_000]),
];

/// Batch sizes for measuring the framework alone; below, the number of ticks in a turn.
const BATCHES: [u64; 4] = [1, 10, 100, 1_000];
const SPUN_TICKS: u64 = 300;

struct Kfactor {
    policy: Overrun,
    sums: Vec<Ticks>,
    /// Time of a firing in nanoseconds, by batch size.
    net_ns: [Vec<f64>; 4],
    read_ns: f64,
}

impl Cases for Kfactor {
    fn count(&self) -> usize {
        CASES.len() + BATCHES.len()
    }

    fn run_turn(&mut self, index: usize, context: &mut CaseContext) -> Result<(), RunError> {
        if let Some(which) = index.checked_sub(CASES.len()) {
            let firings = (SPUN_TICKS * BATCHES[which]) as f64;
            let net_ns = net_of_spinning(context, BATCHES[which], Measure::Off, SPUN_TICKS)?;
            if !context.stops() {
                self.net_ns[which].push(net_ns / firings);
            }
            return Ok(());
        }
        let case = &CASES[index];
        let tick_rate = Some(hz(case.tick_rate));
        let options =
            TickerOptions { tick_rate, overrun: self.policy, measure: Measure::Lateness, ..TickerOptions::default() };
        let ticked = tick(context, hz(case.hz), options, case.ticks, |firings| {
            for number in 0..firings.count {
                std::hint::black_box(number);
            }
        })?;
        if let Some(ticks) = ticked {
            self.sums[index].merge(&ticks);
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Firings in batches",
            &[
                ("frequency", ColumnUnit::Text),
                ("K", ColumnUnit::Count),
                ("ticks", ColumnUnit::Text),
                ("wall", ColumnUnit::Ns),
                ("overruns", ColumnUnit::Amount),
                ("of ticks", ColumnUnit::Percent),
                ("fired", ColumnUnit::Count),
                ("dropped", ColumnUnit::Count),
                ("coalesced", ColumnUnit::Count),
                ("p50 late", ColumnUnit::Ns),
                ("CPU/firing", ColumnUnit::Ns),
                ("÷ clock read", ColumnUnit::Ratio),
                ("seed wall", ColumnUnit::Ns),
                ("seed overruns", ColumnUnit::Count),
                ("seed fired", ColumnUnit::Count),
            ],
        );
        for (case, sum) in CASES.iter().zip(&self.sums) {
            let cpu_ns = sum.cpu_ns_per_firing();
            table.row([
                hz(case.hz).to_string().into(),
                case.hz.div_ceil(case.tick_rate).into(),
                format!("{} of {}", case.ticks, hz(case.tick_rate)).into(),
                sum.of_a_turn(sum.wall_ns).into(),
                sum.of_a_turn(sum.account.overruns).into(),
                sum.overruns_pct().into(),
                sum.of_a_turn(sum.account.fired).into(),
                sum.of_a_turn(sum.account.dropped).into(),
                sum.of_a_turn(sum.account.coalesced).into(),
                sum.lateness.percentile(50.0).into(),
                cpu_ns.into(),
                cpu_ns.map(|cpu_ns| cpu_ns / self.read_ns).into(),
                (case.seed.wall_ms * 1e6).into(),
                case.seed.overruns.into(),
                case.seed.firings.into(),
            ]);
        }
        table.note(format!(
            "Wall, overruns, fired, dropped and coalesced are those of one turn; a clock read is {:.1} ns.",
            self.read_ns
        ));
        context.show(table);
        context.show(self.framework());
    }
}

impl Kfactor {
    fn framework(&self) -> Table {
        let columns = [
            ("K", ColumnUnit::Count),
            ("a firing", ColumnUnit::Ns),
            ("÷ clock read", ColumnUnit::Ratio),
            ("turns", ColumnUnit::Count),
        ];
        let mut table = Table::new("The ticker alone, without sleeping", &columns);
        for (batch, net_ns) in BATCHES.iter().zip(&self.net_ns) {
            let ns = median(net_ns);
            table.row([
                (*batch).into(),
                ns.into(),
                ns.map(|ns| ns / self.read_ns).into(),
                (net_ns.len() as u64).into(),
            ]);
        }
        table.note(
            "Ticks at 100 kHz with spinning instead of sleeping, less the time spun; medians. Gate: 0.1 clock \
                    reads at K = 100.",
        );
        table
    }
}
