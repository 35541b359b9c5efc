//! Time from a write to the read by a sleeping reader: flushed at once, or at the end of the writer's turn.
//!
//! ```text
//!   writer: asleep ── write ── (eager: flush) ── works on ── end of its turn ──▶ asleep
//!   reader: asleep ───────────── woken ──▶ reads: time since the write
//! ```

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rusm_protocol::Unit;
use rusm_runtime::ring::{Builder, Flush, Reader, RingError, Writer};
use rusm_runtime::ticker::sleep_precise;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::histogram::NanosHistogram;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOAD, by_load};
use crate::scenarios::cases::{CaseContext, Cases};
use crate::scenarios::timing::ticking::now_ns;

/// Number of writes in a turn.
const WRITES: u64 = 100;
/// Pause between two writes: long enough for the reader to sleep again.
const GAP: Duration = Duration::from_micros(150);

/// Scenario that measures the time from a write to the read by a sleeping reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingWake;

impl Scenario for RingWake {
    fn card(&self) -> Card {
        Card {
            id: "ring-wake",
            family: Family::Timing,
            label: "Ring wake-up",
            description: "Time until an idle reader has a written item, if it is passed on at once and if it is not.",
            details: &[
                "One operation is an item received by a reader that was asleep. Cases run in turn, so the rate of the \
                 whole run means nothing; compare the rows of the table.",
                "Latency is from before the write until after the read, over all cases; the table has each case.",
                "Eager cases flush after the write. Lazy cases do not: a process passes its items on at the end of its \
                 turn, here after more work, and a thread when it flushes after that work.",
                "It says nothing about a reader with a backlog: such a reader does not sleep and needs no wake-up.",
                "A good result is a low latency. Lazy cases take longer by about the work of the writer.",
            ],
            ops_label: "wake-ups/s",
            latency_label: Some("write to read"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "work",
                    description: "Microseconds that the writer works after the write.",
                    kind: Kind::Count { min: 0, max: 10_000, default: 20 },
                },
                LOAD,
            ],
            source_file: file!(),
            timed: "write",
            ops_per_timed: 1,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let case = |(kind, eager)| Case { kind, eager, histogram: NanosHistogram::default() };
            let cases = [
                (SideKind::Process, true),
                (SideKind::Process, false),
                (SideKind::Thread, true),
                (SideKind::Thread, false),
            ];
            by_load(context, || Wakes { cases: cases.map(case) }).await
        })
    }
}

/// Kind of writer and reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SideKind {
    Process,
    Thread,
}

struct Case {
    kind: SideKind,
    eager: bool,
    histogram: NanosHistogram,
}

struct Wakes {
    cases: [Case; 4],
}

impl Cases for Wakes {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[case];
        let work = Duration::from_micros(context.params.number("work"));
        let latencies = match case.kind {
            SideKind::Process => processes(context, case.eager, work)?,
            SideKind::Thread => threads(case.eager, work)?,
        };
        if context.stops() {
            return Ok(());
        }
        context.recorder.count(latencies.len() as u64);
        for ns in latencies {
            case.histogram.add(ns);
            context.recorder.latency(ns.max(1));
        }
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            "From a write to the read of a sleeping reader",
            &[
                ("who", ColumnUnit::Text),
                ("passed on", ColumnUnit::Text),
                ("mean", ColumnUnit::Ns),
                ("p50", ColumnUnit::Ns),
                ("p99", ColumnUnit::Ns),
                ("p99.9", ColumnUnit::Ns),
                ("max", ColumnUnit::Ns),
                ("wake-ups", ColumnUnit::Count),
            ],
        );
        for case in &self.cases {
            let [mean, p50, p99, p999, max] = case.histogram.cells();
            let kind = if case.kind == SideKind::Process { "processes" } else { "threads" };
            let passed_on = if case.eager { "at once" } else { "at the end of the turn" };
            table.row([kind.into(), passed_on.into(), mean, p50, p99, p999, max, case.histogram.len().into()]);
        }
        table.note(format!("the writer works for {} µs after the write", context.params.number("work")));
        context.show(table);
    }
}

fn ring() -> Result<(Writer<u64>, Reader<u64>), RunError> {
    let error = |error: RingError| RunError::Lacks(error.to_string());
    let (writer, subscriber) = Builder::new(64).readers_max(1).build::<u64>().map_err(error)?;
    Ok((writer, subscriber.join().expect("the ring has a slot for one reader")))
}

fn work_for(work: Duration) {
    let until_ns = now_ns() + work.as_nanos() as u64;
    while now_ns() < until_ns {
        std::hint::spin_loop();
    }
}

fn processes(context: &CaseContext, eager: bool, work: Duration) -> Result<Vec<u64>, RunError> {
    let (mut writer, mut reader) = ring()?;
    let (sender, receiver) = mpsc::channel();
    context.runtime.spawn(move |_| async move {
        let mut latencies = Vec::new();
        while let Ok(at_ns) = reader.next().await {
            latencies.push(now_ns().saturating_sub(at_ns));
        }
        sender.send(latencies)
    })?;
    let stop = context.stop_flag();
    context.runtime.spawn(move |ctx| async move {
        for _ in 0..WRITES {
            ctx.sleep_precise(GAP).await;
            if stop.is_set() {
                break;
            }
            writer.push(now_ns()).await;
            if eager {
                writer.flush();
            }
            work_for(work);
        }
        writer.close();
    })?;
    Ok(receiver.recv().unwrap_or_default())
}

fn threads(eager: bool, work: Duration) -> Result<Vec<u64>, RunError> {
    let (mut writer, mut reader) = ring()?;
    writer.set_flush(if eager { Flush::Eager } else { Flush::Lazy });
    Ok(thread::scope(|scope| {
        let reads = scope.spawn(move || {
            let (mut latencies, mut item) = (Vec::new(), [0]);
            while reader.blocking_read(&mut item).is_ok() {
                latencies.push(now_ns().saturating_sub(item[0]));
            }
            latencies
        });
        for _ in 0..WRITES {
            sleep_precise(GAP);
            writer.blocking_write(&[now_ns()]);
            work_for(work);
            writer.flush();
        }
        writer.close();
        reads.join().unwrap_or_default()
    }))
}
