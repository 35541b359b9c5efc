//! Many tickers: threads with a ticker each, processes on the shared driver, and processes that use the reactor's
//! timers.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::Context;
use rusm_runtime::ticker::{Epoch, Measure, Overrun, Start, TickCounts, Ticker, TickerOptions};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::histogram::NanosHistogram;
use crate::measure::usage::process_cpu;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::{RunError, check_memory};
use crate::run::flags::StopFlag;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::pinned::{PIN, Pinned, no_ipc};
use crate::scenarios::timing::ticking::{Ticks, hz, now_ns};

/// Time from now to the common epoch.
const AHEAD: Duration = Duration::from_millis(2);

/// Scenario with many tickers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerTasks;

impl Scenario for TimerTasks {
    fn card(&self) -> Card {
        Card {
            id: "timer-tasks",
            family: Family::Timing,
            label: "Task scaling",
            description: "1 to 32 threads and 1 to 10,000 processes that tick at 10 kHz and 1 kHz.",
            details: &[
                "One operation is a firing that does no work. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the rows of the table. A turn is 100 ticks at 10 kHz or 20 at 1 kHz.",
                "Latency is lateness, over all cases: from the time at which a tick is due to its first instruction.",
                "Ticks that come while one is late are merged into it and counted as coalesced. For the actor they are \
                 overruns.",
                "Each thread has its own ticker. All processes are woken by one driver thread. In the case sleep they \
                 wait for the same instants by Context::sleep, whose timers have a resolution of a millisecond.",
                "CPU is that of the whole program. All have a common epoch, so they are due at once. With more of them \
                 than cores, most are late because of the work of the others.",
                "A good result: with many processes few ticks are coalesced, and CPU time stays low.",
            ],
            ops_label: "firings/s",
            latency_label: Some("tick due to its first instruction"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "most",
                    description: "Number of processes in the largest case.",
                    kind: Kind::Count { min: 1, max: 100_000, default: 10_000 },
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
            let most = context.params().number("most");
            check_memory(most.saturating_mul(TASK_BYTES))?;
            let case = |kind, count, rate| Case { kind, count, rate, ticks: Ticks::default() };
            let mut cases: Vec<Case> =
                [1, 2, 4, 8, 16, 32].map(|count| case(TickerKind::Threads, count, 10_000)).into_iter().collect();
            cases.extend([1, 10, 100].map(|count| case(TickerKind::Processes, count, 10_000)));
            cases.extend([1, 10, 100, 1_000, most].map(|count| case(TickerKind::Processes, count, 1_000)));
            cases.extend([1, 100].map(|count| case(TickerKind::Sleepers, count, 1_000)));
            run_in_turn(context, Tasks { cases }).await
        })
    }
}

/// Memory of a process with a ticker and its results, at most.
const TASK_BYTES: u64 = 6 << 10;

/// Kind of ticker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TickerKind {
    Threads,
    Processes,
    Sleepers,
}

struct Case {
    kind: TickerKind,
    count: u64,
    rate: u64,
    ticks: Ticks,
}

/// Number of threads, with the seed's wall time and CPU time in milliseconds.
const SEED: [(u64, f64, f64); 6] =
    [(1, 10.2, 0.059), (2, 10.2, 0.093), (4, 10.3, 0.164), (8, 10.4, 0.394), (16, 10.8, 0.892), (32, 11.4, 1.83)];

struct Tasks {
    cases: Vec<Case>,
}

/// Result of one ticker.
type TickerResult = (TickCounts, Vec<u64>);

impl Cases for Tasks {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, index: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[index];
        let ticks = if case.rate == 10_000 { 100 } else { 20 };
        let (cpu, before_ns) = (process_cpu(), now_ns());
        let (seen, ends_ns) = match case.kind {
            TickerKind::Threads => threads(case, ticks, context)?,
            TickerKind::Processes | TickerKind::Sleepers => processes(case, ticks, context)?,
        };
        let mut sum = Ticks { wall_ns: ends_ns - before_ns, ..Ticks::default() };
        sum.cpu_ns = process_cpu().saturating_sub(cpu).as_nanos() as u64;
        if context.stops() {
            return Ok(());
        }
        for (account, lateness) in seen {
            let mut histogram = NanosHistogram::default();
            for late_ns in lateness {
                histogram.add(late_ns);
                context.recorder.latency(late_ns);
            }
            context.recorder.count(account.fired);
            sum.merge(&Ticks { account, lateness: histogram, ..Ticks::default() });
        }
        case.ticks.merge(&sum);
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "Task scaling",
            &[
                ("what", ColumnUnit::Text),
                ("number", ColumnUnit::Count),
                ("at", ColumnUnit::Text),
                ("wall", ColumnUnit::Ns),
                ("CPU", ColumnUnit::Ns),
                ("CPU/firing", ColumnUnit::Ns),
                ("p50 late", ColumnUnit::Ns),
                ("p99 late", ColumnUnit::Ns),
                ("coalesced", ColumnUnit::Percent),
                ("seed wall", ColumnUnit::Ns),
                ("seed CPU", ColumnUnit::Ns),
            ],
        );
        for case in &self.cases {
            let seed = SEED.iter().find(|seed| case.kind == TickerKind::Threads && seed.0 == case.count);
            let (ticks, account) = (&case.ticks, &case.ticks.account);
            let due = account.fired + account.coalesced;
            table.row([
                match case.kind {
                    TickerKind::Threads => "threads",
                    TickerKind::Processes => "processes",
                    TickerKind::Sleepers => "processes, sleep",
                }
                .into(),
                case.count.into(),
                hz(case.rate).to_string().into(),
                ticks.of_a_turn(ticks.wall_ns).into(),
                ticks.of_a_turn(ticks.cpu_ns).into(),
                ticks.cpu_ns_per_firing().into(),
                ticks.lateness.percentile(50.0).into(),
                ticks.lateness.percentile(99.0).into(),
                (due > 0).then(|| account.coalesced as f64 / due as f64 * 100.0).into(),
                seed.map(|seed| seed.1 * 1e6).into(),
                seed.map(|seed| seed.2 * 1e6).into(),
            ]);
        }
        table.note(
            "Wall and CPU are per turn: 100 ticks at 10 kHz as in the seed project, or 20 at 1 kHz. They include \
                   creating all threads or processes, and 2 ms or more until their epoch.",
        );
        table.note(no_ipc());
        context.show(table);
    }
}

fn options(epoch: Epoch) -> TickerOptions {
    let start = Start::At(epoch);
    TickerOptions { start, overrun: Overrun::Skip, measure: Measure::Lateness, ..TickerOptions::default() }
}

fn threads(case: &Case, ticks: u64, context: &CaseContext) -> Result<(Vec<TickerResult>, u64), RunError> {
    let epoch = Epoch::after(AHEAD);
    let (rate, stop, pin) = (case.rate, &context.stop_flag(), context.params.word("pin") == "yes");
    let body = |place: usize| -> Result<TickerResult, RunError> {
        let _pinned = Pinned::at(place, pin)?;
        let mut ticker = Ticker::new(hz(rate), options(epoch))?;
        let mut lateness = Vec::new();
        while ticker.account().ticks < ticks && !stop.is_set() {
            lateness.extend(ticker.wait().late_ns);
        }
        Ok((ticker.account(), lateness))
    };
    let seen = thread::scope(|scope| {
        let threads: Vec<_> = (0..case.count as usize).map(|place| scope.spawn(move || body(place))).collect();
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    Ok((seen, now_ns()))
}

fn processes(case: &Case, ticks: u64, context: &CaseContext) -> Result<(Vec<TickerResult>, u64), RunError> {
    // Starting many processes takes a while: all of them must exist at the epoch.
    let epoch = context.runtime.epoch_after(AHEAD + Duration::from_micros(2 * case.count));
    let epoch_ns = now_ns() + (AHEAD + Duration::from_micros(2 * case.count)).as_nanos() as u64;
    let (sender, receiver) = mpsc::channel();
    for _ in (0..case.count).take_while(|_| !context.stops()) {
        let (sender, stop, rate, sleeps) =
            (sender.clone(), context.stop_flag(), case.rate, case.kind == TickerKind::Sleepers);
        context.runtime.spawn(move |ctx: Context| async move {
            let seen = if sleeps {
                by_sleep(&ctx, epoch_ns, 1_000_000_000 / rate, ticks, &stop).await
            } else {
                let mut ticker = ctx.ticker(hz(rate), options(epoch)).map_err(|error| error.to_string())?;
                let mut lateness = Vec::new();
                while ticker.account().ticks < ticks && !stop.is_set() {
                    lateness.extend(ticker.next().await.late_ns);
                }
                (ticker.account(), lateness)
            };
            // The receiver is gone if the run is already over.
            sender.send(seen).ok();
            Ok::<(), String>(())
        })?;
    }
    drop(sender);
    let seen = receiver.iter().collect();
    Ok((seen, now_ns()))
}

/// Ticks with `Context::sleep`; ticks that pass during a sleep are coalesced.
async fn by_sleep(ctx: &Context, epoch_ns: u64, period_ns: u64, ticks: u64, stop: &StopFlag) -> TickerResult {
    let (mut account, mut lateness) = (TickCounts::default(), Vec::new());
    while account.ticks < ticks && !stop.is_set() {
        let due_ns = epoch_ns + (account.ticks + 1) * period_ns;
        ctx.sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns()))).await;
        let late_ns = now_ns().saturating_sub(due_ns);
        lateness.push(late_ns);
        account.coalesced += late_ns / period_ns;
        account.ticks += 1 + late_ns / period_ns;
        account.fired += 1;
    }
    (account, lateness)
}
