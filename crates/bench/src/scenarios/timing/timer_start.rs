//! Starting together: the time to create a thread, and whether many tickers start in phase.
//!
//! ```text
//!   none:  each begins on arrival    gate: all wait for the last, then begin    epoch: all begin at a future instant
//! ```
//!
//! Phase skew is the distance between the first and the last epoch. First-fire spread is the distance between the first
//! instructions of the first ticks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_runtime::ticker::{Epoch, Measure, Overrun, Start, Ticker, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::judge::statistics::median;
use crate::measure::histogram::NanosHistogram;
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::{hz, now_ns};

/// Number of threads created and joined in a turn.
const THREADS: u64 = 20;
/// Time from now to the common epoch: enough for all to start.
const AHEAD: Duration = Duration::from_millis(5);

/// Scenario that starts many tickers together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerStart;

impl Scenario for TimerStart {
    fn card(&self) -> Card {
        Card {
            id: "timer-start",
            family: Family::Timing,
            label: "Timer start",
            description: "Creating threads, and starting many tickers in phase: without a gate, with a gate, and by an \
                          epoch.",
            details: &[
                "One operation is a ticker started, or a thread created and joined. Cases run in turn, so the rate of \
                 the whole run means nothing; compare the rows of the table.",
                "Latency is the lateness of first ticks: from the time at which they are due to their first \
                 instruction.",
                "Phase skew is the distance between the epochs of tickers that should start together. A good result is \
                 zero with a common epoch, where no ticker waits for another.",
                "First-fire spread is the distance between their first instructions. Only as many run at once as there \
                 are cores.",
                "The seed project's barrier row includes the creation of its thread.",
            ],
            ops_label: "starts/s",
            latency_label: Some("first tick due to its first instruction"),
            unit: Unit::Count,
            parameters: &[],
            source_file: file!(),
            timed: "start",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let mut cases = Vec::new();
            for processes in [false, true] {
                for count in [1, 2, 8, 32] {
                    for start in [StartMethod::None, StartMethod::Gate, StartMethod::Epoch] {
                        // Processes do not wait at gates: they use an epoch.
                        if !(processes && start == StartMethod::Gate) {
                            cases.push(Case { processes, count, start, skews: Vec::new(), histograms: Vec::new() });
                        }
                    }
                }
            }
            let (made_ns, released_ns) = (Vec::new(), Vec::new());
            run_in_turn(context, Starts { cases, made_ns, released_ns, lateness: NanosHistogram::default() }).await
        })
    }
}

/// Way of starting several tickers together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StartMethod {
    None,
    Gate,
    Epoch,
}

/// Result of one ticker: its epoch, the time of its first tick, and the lateness of that tick.
type Started = (Epoch, u64, u64);

struct Case {
    processes: bool,
    count: usize,
    start: StartMethod,
    skews: Vec<f64>,
    histograms: Vec<f64>,
}

struct Starts {
    cases: Vec<Case>,
    made_ns: Vec<f64>,
    /// Time to create and join a thread that first waits for a flag.
    released_ns: Vec<f64>,
    lateness: NanosHistogram,
}

impl Cases for Starts {
    fn count(&self) -> usize {
        self.cases.len() + 1
    }

    fn run_turn(&mut self, index: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let Some(case) = self.cases.get_mut(index) else {
            self.made_ns.push(make_and_join(false));
            self.released_ns.push(make_and_join(true));
            context.recorder.count(2 * THREADS);
            return Ok(());
        };
        let started = if case.processes { processes(case, context)? } else { threads(case)? };
        for (_, _, late_ns) in &started {
            context.recorder.latency(*late_ns);
            if case.start == StartMethod::Epoch {
                self.lateness.add(*late_ns);
            }
        }
        context.recorder.count(started.len() as u64);
        let (Some(first), Some(last)) = (started.iter().map(|s| s.0).min(), started.iter().map(|s| s.0).max()) else {
            return Ok(());
        };
        let fired = || started.iter().map(|started| started.1);
        case.skews.push(last.since(first).as_nanos() as f64);
        case.histograms.push((fired().max().unwrap_or(0) - fired().min().unwrap_or(0)) as f64);
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Starting together",
            &[
                ("what", ColumnUnit::Text),
                ("number", ColumnUnit::Count),
                ("start", ColumnUnit::Text),
                ("phase skew", ColumnUnit::Ns),
                ("first-fire spread", ColumnUnit::Ns),
                ("turns", ColumnUnit::Count),
            ],
        );
        for case in &self.cases {
            table.row([
                if case.processes { "processes" } else { "threads" }.into(),
                (case.count as u64).into(),
                match case.start {
                    StartMethod::None => "none",
                    StartMethod::Gate => "gate",
                    StartMethod::Epoch => "epoch",
                }
                .into(),
                median(&case.skews).into(),
                median(&case.histograms).into(),
                (case.skews.len() as u64).into(),
            ]);
        }
        table.note("Medians of all turns. Gate: no phase skew with an epoch.");
        context.show(table);
        let columns = [
            ("benchmark", ColumnUnit::Text),
            ("time", ColumnUnit::Ns),
            ("items/s", ColumnUnit::Amount),
            ("seed", ColumnUnit::Ns),
            ("seed items/s", ColumnUnit::Amount),
        ];
        let mut made = Table::new("Creating a thread", &columns);
        let rate = |ns: Option<f64>| Cell::from(ns.map(|ns| 1e9 / ns));
        let (thread, barrier) = (median(&self.made_ns), median(&self.released_ns));
        made.row(["create and join".into(), thread.into(), rate(thread), 71_500.0.into(), 25_000.0.into()]);
        let with_barrier = "the same, released at a barrier";
        made.row([with_barrier.into(), barrier.into(), rate(barrier), 78_300.0.into(), 23_000.0.into()]);
        let late = self.lateness.percentile(50.0).into();
        made.row(["first tick by an epoch, p50 late".into(), late, Cell::Missing, Cell::Missing, Cell::Missing]);
        made.note(
            "seed: figures of the seed project on another machine; its rates are by CPU time, ours by elapsed time",
        );
        context.show(made);
    }
}

/// Returns the time in nanoseconds to create and join a thread. It ends at once, or when released by a flag that it
/// polls, as in the seed.
fn make_and_join(waits: bool) -> f64 {
    let before_ns = now_ns();
    for _ in 0..THREADS {
        let released = AtomicBool::new(!waits);
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                while !released.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            });
            released.store(true, Ordering::Release);
            drop(thread.join());
        });
    }
    (now_ns() - before_ns) as f64 / THREADS as f64
}

fn options(start: Start) -> TickerOptions {
    // If the first tick has already passed, it fires at once: a late start is visible.
    TickerOptions { start, overrun: Overrun::Skip, measure: Measure::Lateness, ..TickerOptions::default() }
}

fn threads(case: &Case) -> Result<Vec<Started>, RunError> {
    let (gate, epoch) = (Barrier::new(case.count), Epoch::after(AHEAD));
    let start = || -> Result<Started, RunError> {
        if case.start == StartMethod::Gate {
            gate.wait();
        }
        let start = if case.start == StartMethod::Epoch { Start::At(epoch) } else { Start::Now };
        let mut ticker = Ticker::new(hz(1_000), options(start))?;
        let firings = ticker.wait();
        Ok((ticker.epoch(), now_ns(), firings.late_ns.unwrap_or(0)))
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..case.count).map(|_| scope.spawn(start)).collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    })
}

fn processes(case: &Case, context: &CaseContext) -> Result<Vec<Started>, RunError> {
    let epoch = context.runtime.epoch_after(AHEAD);
    let start = if case.start == StartMethod::Epoch { Start::At(epoch) } else { Start::Now };
    let (sender, receiver) = mpsc::channel();
    let sender = Arc::new(sender);
    for _ in 0..case.count {
        let sender = Arc::clone(&sender);
        context.runtime.spawn(move |ctx: Context| async move {
            let mut ticker = ctx.ticker(hz(1_000), options(start)).map_err(|error| error.to_string())?;
            let firings = ticker.next().await;
            // The receiver is gone if the run is already over.
            sender.send((ticker.epoch(), now_ns(), firings.late_ns.unwrap_or(0))).ok();
            Ok::<(), String>(())
        })?;
    }
    drop(sender);
    Ok(receiver.iter().collect())
}
