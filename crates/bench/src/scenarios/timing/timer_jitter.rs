//! Lateness of a ticker's ticks with spinning, timer slack and load, compared with cyclictest.
//!
//! ```text
//!   quiet: slack 50 µs, slack 1 ns, with a lead, spin 10 µs, 50 µs, governed, cyclictest ──▶ busy: same ──▶ again
//! ```

use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::ticker::{Measure, Spin, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::histogram::NanosHistogram;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOADS, QUIET, by_load};
use crate::scenarios::cases::{CaseContext, Cases};
use crate::scenarios::pinned::{PIN, Pinned};
use crate::scenarios::timing::cyclictest;
use crate::scenarios::timing::ticking::{Ticks, hz, tick};

/// Priority of `SCHED_FIFO`, if requested.
const PRIORITY: u8 = 80;
/// Default timer slack of a thread.
const SLACK_DEFAULT: Duration = Duration::from_micros(50);

/// Scenario that measures the lateness of a ticker's ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerJitter;

impl Scenario for TimerJitter {
    fn card(&self) -> Card {
        Card {
            id: "timer-jitter",
            family: Family::Timing,
            label: "Timer jitter",
            description: "Lateness of ticks with and without spinning, on quiet and on busy cores, and of cyclictest.",
            details: &[
                "One operation is a firing of a ticker on its own thread. Cases run in turn, so the rate of the whole \
                 run means nothing; compare the rows of the table.",
                "Latency is lateness: from the time at which a tick is due to its first instruction. A late tick is \
                 not an overrun. An overrun is a tick whose time had passed before the ticker waited for it.",
                "slack is the time that the kernel may add to a sleep to combine wake-ups: 50 µs unless a thread asks \
                 for less. Tickers ask for 1 ns, cyclictest does not.",
                "No spin is a ticker's default: it asks for each wake-up earlier than the tick, by about the usual \
                 delay. After an early wake-up it waits awake, 0.5 µs on average and at most a two-hundredth of the \
                 period; spun shows how much.",
                "No lead asks for the time of the tick itself and does not wait awake.",
                "Busy means two endless loops for each core. The governor spins where the kernel is a little late, but \
                 not where it preempts. So on busy cores it must not overrun more than no spin does.",
                "The governor starts to spin after a tenth of a second without trouble, and a case starts anew every \
                 quarter of a second. So on quiet cores it spins before three ticks of five.",
                "The seed columns are the seed project's figures for 10 kHz on another machine, with a slack of 50 µs, \
                 for orientation. cyclictest counts no overruns and has no CPU column here.",
                "Goal on quiet cores: without spinning, p50 is at most 0.1 and p99 at most 0.3 of cyclictest's. Goal \
                 on busy cores: the governor has at most 1.1 times the overruns of no spin.",
            ],
            ops_label: "firings/s",
            latency_label: Some("tick due to its first instruction"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "hz",
                    description: "Ticks per second.",
                    kind: Kind::Count { min: 100, max: 100_000, default: 10_000 },
                },
                LOADS,
                Parameter {
                    name: "realtime",
                    description: "yes: tickers and cyclictest run under SCHED_FIFO.",
                    kind: Kind::Choice { words: &["no", "yes"] },
                },
                PIN,
            ],
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
            let rate = context.params().number("hz");
            let case = |mode: &Mode| Case { mode: *mode, ticks: Ticks::default() };
            let cases = || MODES.iter().filter(|mode| mode.fits(rate)).map(case).collect();
            by_load(context, || Jitter { cases: cases(), lacks: None }).await
        })
    }
}

/// Way of waiting for a tick.
#[derive(Clone, Copy)]
enum Mode {
    Ticker { name: &'static str, spin: Spin, slack: Duration, lead: bool, seed: [Option<f64>; 4] },
    Cyclictest,
}

impl Mode {
    /// Returns true if the mode does not spin for longer than a period.
    fn fits(&self, rate: u64) -> bool {
        let period = Duration::from_nanos(1_000_000_000 / rate.max(1));
        !matches!(self, Self::Ticker { spin: Spin::Fixed(spin), .. } if *spin > period)
    }
}

const fn ticker(name: &'static str, spin: Spin, slack: Duration, seed: Option<[f64; 4]>) -> Mode {
    let seed = match seed {
        Some([mean, p50, p99, overruns]) => [Some(mean), Some(p50), Some(p99), Some(overruns)],
        None => [None; 4],
    };
    Mode::Ticker { name, spin, slack, lead: false, seed }
}

/// Default mode of a ticker.
const NO_SPIN: Mode = Mode::Ticker { name: "no spin", spin: Spin::Off, slack: LEAST, lead: true, seed: [None; 4] };
const GOVERNED: Mode =
    Mode::Ticker { name: "governed", spin: Spin::Governed, slack: LEAST, lead: true, seed: [None; 4] };

const LEAST: Duration = Duration::from_nanos(1);
const MODES: [Mode; 7] = [
    ticker("no lead, slack 50 µs", Spin::Off, SLACK_DEFAULT, Some([73_303.0, 71_652.0, 111_521.0, 3.3])),
    ticker("no lead", Spin::Off, LEAST, None),
    NO_SPIN,
    ticker("spin 10 µs", Spin::Fixed(Duration::from_micros(10)), LEAST, Some([62_654.0, 61_565.0, 98_795.0, 0.7])),
    ticker("spin 50 µs", Spin::Fixed(Duration::from_micros(50)), LEAST, Some([23_725.0, 21_584.0, 66_172.0, 0.0])),
    GOVERNED,
    Mode::Cyclictest,
];

struct Case {
    mode: Mode,
    ticks: Ticks,
}

impl Case {
    fn lateness(&self) -> &NanosHistogram {
        &self.ticks.lateness
    }
}

struct Jitter {
    cases: Vec<Case>,
    /// Reason why the result of cyclictest is missing.
    lacks: Option<String>,
}

impl Cases for Jitter {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let rate = context.params.number("hz");
        let priority = (context.params.word("realtime") == "yes").then_some(PRIORITY);
        let pin = context.params.word("pin") == "yes";
        // A quarter of a second: in the first tenth, the governor only observes.
        let ticks = (rate / 4).max(20);
        let case = &mut self.cases[case];
        // Pin only now: the load runs on the cores of the previous affinity mask, and cyclictest inherits the new one.
        let _pinned = Pinned::at(0, pin)?;
        match case.mode {
            Mode::Ticker { spin, slack, lead, .. } => {
                let realtime = priority.and_then(std::num::NonZeroU8::new);
                let measure = Measure::Lateness;
                let options =
                    TickerOptions { spin, early_wake: lead, slack, measure, realtime, ..TickerOptions::default() };
                if let Some(ticks) = tick(context, hz(rate), options, ticks, |_| {})? {
                    case.ticks.merge(&ticks);
                }
            }
            Mode::Cyclictest if self.lacks.is_some() => {}
            Mode::Cyclictest => match cyclictest::run(1_000_000 / rate, ticks, priority) {
                Ok(histogram) => case.ticks.lateness.merge(&histogram),
                Err(note) => self.lacks = Some(note),
            },
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let realtime = context.params.word("realtime") == "yes";
        context.show(self.table(context.params.number("hz"), realtime, context.beside.get() != QUIET));
    }
}

impl Jitter {
    fn table(&self, rate: u64, realtime: bool, busy: bool) -> Table {
        let policy = if realtime { " under SCHED_FIFO" } else { "" };
        let mut table = Table::new(
            &format!("Jitter at {}{policy}", hz(rate)),
            &[
                ("mode", ColumnUnit::Text),
                ("slack", ColumnUnit::Ns),
                ("mean", ColumnUnit::Ns),
                ("p50", ColumnUnit::Ns),
                ("p99", ColumnUnit::Ns),
                ("p99.9", ColumnUnit::Ns),
                ("max", ColumnUnit::Ns),
                ("late", ColumnUnit::Percent),
                ("overruns", ColumnUnit::Percent),
                ("cpu", ColumnUnit::Percent),
                ("spun", ColumnUnit::Ns),
                ("ticks", ColumnUnit::Count),
                ("seed mean", ColumnUnit::Ns),
                ("seed p50", ColumnUnit::Ns),
                ("seed p99", ColumnUnit::Ns),
                ("seed overruns", ColumnUnit::Percent),
            ],
        );
        let of_seed = rate == 10_000 && !busy;
        for case in &self.cases {
            let [mean, p50, p99, p999, max] = case.lateness().cells();
            let (name, slack, seed) = match case.mode {
                Mode::Ticker { name, slack, seed, .. } => (name, slack, if of_seed { seed } else { [None; 4] }),
                // cyclictest keeps the default timer slack of a thread.
                Mode::Cyclictest => ("cyclictest", SLACK_DEFAULT, [None; 4]),
            };
            let [seed_mean, seed_p50, seed_p99, seed_overruns] = seed.map(Cell::from);
            let (overruns, cpu) = (case.ticks.overruns_pct().into(), case.ticks.cpu_pct().into());
            let ticks = case.lateness().len().into();
            table.row([
                name.into(),
                (slack.as_nanos() as u64).into(),
                mean,
                p50,
                p99,
                p999,
                max,
                case.lateness().pct_from(1_000_000_000 / rate).into(),
                overruns,
                cpu,
                case.ticks.spun_ns_per_tick().into(),
                ticks,
                seed_mean,
                seed_p50,
                seed_p99,
                seed_overruns,
            ]);
        }
        let of_gate = if realtime { Vec::new() } else { self.ratios(busy) };
        table.note(
            "late: wake-ups late by a period or more; overruns: ticks whose time had passed before the ticker \
                    waited for them",
        );
        for line in of_gate.into_iter().chain(self.lacks.clone()) {
            table.note(line);
        }
        table
    }

    /// Returns a line for each gate, with the measured figure and the required one.
    fn ratios(&self, busy: bool) -> Vec<String> {
        let case = |wanted: &str| {
            self.cases.iter().find(|case| matches!(case.mode, Mode::Ticker { name, .. } if name == wanted))
        };
        let (Some(plain), Some(governed)) = (case("no spin"), case("governed")) else { return Vec::new() };
        let ratio = |ours: Option<f64>, theirs: Option<f64>| Some(ours? / theirs.filter(|theirs| *theirs > 0.0)?);
        let mut lines = Vec::new();
        let cyclictest = self.cases.iter().find(|case| matches!(case.mode, Mode::Cyclictest));
        if let Some(theirs) = cyclictest.map(Case::lateness) {
            let p50 = ratio(plain.lateness().percentile(50.0), theirs.percentile(50.0));
            let p99 = ratio(plain.lateness().percentile(99.0), theirs.percentile(99.0));
            if let (Some(p50), Some(p99), false) = (p50, p99, busy) {
                lines.push(format!(
                    "without spinning ÷ cyclictest: p50 {p50:.3} (at most 0.1), p99 {p99:.3} (at most 0.3); a disturbed run decides nothing"
                ));
            }
        }
        if let Some(overruns) = ratio(governed.ticks.overruns_pct(), plain.ticks.overruns_pct()).filter(|_| busy) {
            lines.push(format!("overruns governed ÷ without spinning: {overruns:.2} (at most 1.1)"));
        }
        lines
    }
}
