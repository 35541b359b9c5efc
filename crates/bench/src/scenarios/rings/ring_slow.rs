//! One reader that is slower than the others: the effect on the writer and the other readers, by the ring's policy.
//!
//! ```text
//!   writer ──▶ ring ──▶ readers that take some time for each item
//!                  └──▶ one reader that takes ten times as long: waited for · evicted after a while · moved forward
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusm_protocol::Unit;
use rusm_runtime::ring::{Builder, Policy, ReadError, Reader, Writer};
use rusm_runtime::ticker::sleep_precise;
use rusm_runtime::{Pid, observe};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::background::{LOAD, by_load};
use crate::scenarios::cases::{CaseContext, Cases};
use crate::scenarios::rings::cases::median;
use crate::scenarios::timing::ticking::now_ns;

/// Writing time in one turn.
const TURN: Duration = Duration::from_millis(150);
/// Interval at which the ring is sampled.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// Time that an evicting ring waits for a reader.
const PATIENCE: Duration = Duration::from_millis(1);
/// Time that a fast reader takes for an item, in nanoseconds.
const WORK_NS: u64 = 20;
/// A wait seen in a smaller percentage of the samples is ignored.
const SELDOM_PERCENT: f64 = 5.0;
const CAPACITY: usize = 16_384;
const CHUNK: usize = 64;
/// Number of chunks between two that are timed.
const TIMED_EVERY: u64 = 16;
/// Label of the ring for observers.
const LABEL: &str = "ring-slow";

/// Scenario with one reader that is slower than the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSlow;

impl Scenario for RingSlow {
    fn card(&self) -> Card {
        Card {
            id: "ring-slow",
            family: Family::Timing,
            label: "Ring with a slow reader",
            description: "One reader is slower than the others: the effect on the writer and the other readers, by \
                          policy.",
            details: &[
                "One operation is an item read by one reader. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the medians in the table.",
                "Latency is the time of a write of 64 items, including waits, for one write in 16.",
                "A fast reader works 20 ns for each item, the slow one as many times longer as the parameter slower \
                 says.",
                "lossless: the writer waits for the slow reader, so the other readers wait, too.",
                "evict: the ring drops a reader that has freed no space for 1 ms. A reader that is 10 times as slow \
                 stays, one that is 1,000 times as slow is dropped.",
                "lossy: the slow reader is moved forward and told how many items it missed.",
                "The ring is sampled every half millisecond to see which readers the writer waits for.",
                "A good result: with evict and lossy the fast readers keep their rate, and with lossless no item is \
                 missed.",
            ],
            ops_label: "items read/s",
            latency_label: Some("64 items written"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "readers",
                    description: "Number of readers, including the slow one.",
                    kind: Kind::Count { min: 1, max: 64, default: 4 },
                },
                Parameter {
                    name: "slower",
                    description: "Factor by which the slow reader is slower.",
                    kind: Kind::Count { min: 1, max: 10_000, default: 10 },
                },
                Parameter {
                    name: "policy",
                    description: "Policy of the ring for a slow reader.",
                    kind: Kind::Choice { words: &["all", "lossless", "evict", "lossy"] },
                },
                LOAD,
            ],
            source_file: file!(),
            timed: "16th write",
            ops_per_timed: 1_024,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let wanted = context.params().word("policy");
            let policies =
                [("lossless", Policy::Lossless), ("evict", Policy::EvictAfter(PATIENCE)), ("lossy", Policy::Lossy)];
            let cases = policies.into_iter().filter(|(word, _)| wanted == "all" || wanted == *word);
            let cases: Vec<_> = cases.map(|(word, policy)| Case { word, policy, turns: Vec::new() }).collect();
            by_load(context, || SlowReader { cases: cases.clone() }).await
        })
    }
}

#[derive(Clone)]
struct Case {
    word: &'static str,
    policy: Policy,
    turns: Vec<TurnResult>,
}

/// Result of a turn.
#[derive(Clone, Copy)]
struct TurnResult {
    written_per_sec: f64,
    fast_per_sec: f64,
    slow_per_sec: f64,
    missed_percent: f64,
    evicted: f64,
    for_slow_percent: f64,
    for_others_percent: f64,
    waits: f64,
}

struct SlowReader {
    cases: Vec<Case>,
}

impl Cases for SlowReader {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[case];
        let (readers, slower) = (context.params.number("readers"), context.params.number("slower"));
        let (turn, delivered, latencies) = measure(context, case.policy, readers, slower)?;
        if context.stops() {
            return Ok(());
        }
        context.recorder.count(delivered);
        for ns in latencies {
            context.recorder.latency(ns.max(1));
        }
        case.turns.push(turn);
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let (readers, slower) = (context.params.number("readers"), context.params.number("slower"));
        let mut table = Table::new(
            &format!("{readers} readers of a ring of 16,384 items, one {slower} times as slow"),
            &[
                ("policy", ColumnUnit::Text),
                ("writer waits for", ColumnUnit::Text),
                ("written/s", ColumnUnit::Amount),
                ("fast read/s", ColumnUnit::Amount),
                ("slow read/s", ColumnUnit::Amount),
                ("slow missed", ColumnUnit::Percent),
                ("evicted", ColumnUnit::Amount),
                ("waits for slow", ColumnUnit::Percent),
                ("for others", ColumnUnit::Percent),
                ("waits", ColumnUnit::Amount),
                ("turns", ColumnUnit::Count),
            ],
        );
        for case in self.cases.iter().filter(|case| !case.turns.is_empty()) {
            let median = |value: fn(&TurnResult) -> f64| median(case.turns.iter().map(value).collect());
            let of = |value| median(value).into();
            table.row([
                case.word.into(),
                who_waits(median(|turn| turn.for_slow_percent), median(|turn| turn.for_others_percent)).into(),
                of(|turn| turn.written_per_sec),
                of(|turn| turn.fast_per_sec),
                of(|turn| turn.slow_per_sec),
                of(|turn| turn.missed_percent),
                of(|turn| turn.evicted),
                of(|turn| turn.for_slow_percent),
                of(|turn| turn.for_others_percent),
                of(|turn| turn.waits),
                (case.turns.len() as u64).into(),
            ]);
        }
        table.note(
            "fast: one fast reader; evicted, waits: per turn of 150 ms; waits for: percentage of samples; none: under \
             5 %",
        );
        table.note(
            "evict: a reader that has freed no space for 1 ms is dropped; the writer waits for a slow one that \
                    still reads",
        );
        context.show(table);
    }
}

/// Returns the reader that the writer waited for, from the percentages of samples.
fn who_waits(for_slow_percent: f64, for_others_percent: f64) -> &'static str {
    match (for_slow_percent >= SELDOM_PERCENT, for_others_percent >= SELDOM_PERCENT) {
        (true, true) => "all readers",
        (true, false) => "slow reader",
        (false, true) => "fast readers",
        (false, false) => "none",
    }
}

/// Result of one reader.
#[derive(Default)]
struct ReaderResult {
    read: u64,
    missed: u64,
}

fn measure(
    context: &CaseContext,
    policy: Policy,
    readers: u64,
    slower: u64,
) -> Result<(TurnResult, u64, Vec<u64>), RunError> {
    let error = |error: &dyn std::fmt::Display| RunError::Lacks(error.to_string());
    let built =
        Builder::new(CAPACITY).readers_max(readers as usize).policy(policy).label(LABEL).observed_by(&context.runtime);
    let (writer, subscriber) = built.build::<u64>().map_err(|failed| error(&failed))?;
    let seats =
        (0..readers).map(|_| subscriber.join()).collect::<Result<Vec<_>, _>>().map_err(|failed| error(&failed))?;
    let (sender, receiver) = mpsc::channel();
    let mut slow = None;
    for (index, reader) in seats.into_iter().enumerate() {
        let (sender, work_ns) = (sender.clone(), if index == 0 { WORK_NS * slower } else { WORK_NS });
        let pid = context.runtime.spawn(move |ctx| async move {
            ctx.set_label(if index == 0 { "slow reader" } else { "reader" });
            sender.send((index, read(reader, work_ns).await))
        })?;
        slow = slow.or(Some(pid));
    }
    drop(sender);
    let over = Arc::new(AtomicBool::new(false));
    let (latency_sender, latencies_receiver) = mpsc::channel();
    let (until, total) = (Arc::clone(&over), Arc::new(AtomicU64::new(0)));
    let written = Arc::clone(&total);
    let start = Instant::now();
    context.runtime.spawn(move |ctx| async move {
        ctx.set_label("writer");
        latency_sender.send(write(writer, &until, &written).await)
    })?;
    let looks = watch(context, &context.stop_flag(), slow, start);
    over.store(true, Ordering::Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let latencies = latencies_receiver.recv().unwrap_or_default();
    let mut turn = looks;
    turn.written_per_sec = total.load(Ordering::Relaxed) as f64 / seconds;
    let (mut delivered, mut fast) = (0, 0);
    for (index, ReaderResult { read, missed }) in receiver {
        delivered += read;
        if index == 0 {
            turn.slow_per_sec = read as f64 / seconds;
            turn.missed_percent = 100.0 * missed as f64 / (read + missed).max(1) as f64;
        } else {
            fast += read;
        }
    }
    turn.fast_per_sec = fast as f64 / (readers - 1).max(1) as f64 / seconds;
    Ok((turn, delivered, latencies))
}

async fn read(mut reader: Reader<u64>, work_ns: u64) -> ReaderResult {
    let (mut got, mut items) = (ReaderResult::default(), [0; CHUNK]);
    loop {
        match reader.read(&mut items).await {
            Ok(count) => {
                got.read += count as u64;
                let until_ns = now_ns() + work_ns * count as u64;
                while now_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
            Err(ReadError::Missed { items }) => got.missed += items,
            Err(_) => return got,
        }
    }
}

async fn write(mut writer: Writer<u64>, over: &AtomicBool, total: &AtomicU64) -> Vec<u64> {
    let (mut latencies, mut chunks) = (Vec::new(), 0_u64);
    while !over.load(Ordering::Relaxed) {
        let before_ns = now_ns();
        writer.write(&[chunks; CHUNK]).await;
        if chunks.is_multiple_of(TIMED_EVERY) {
            latencies.push(now_ns() - before_ns);
        }
        chunks += 1;
        total.store(writer.written(), Ordering::Relaxed);
    }
    writer.close();
    latencies
}

/// Samples the ring through the observer interface until the turn is over.
fn watch(context: &CaseContext, stop: &StopFlag, slow: Option<Pid>, start: Instant) -> TurnResult {
    let (mut looks, mut for_slow, mut for_others, mut evicted, mut waits) = (0_u64, 0_u64, 0_u64, 0, 0);
    while start.elapsed() < TURN && !stop.is_set() {
        sleep_precise(LOOK_EVERY);
        looks += 1;
        let rings = observe::streams(&context.runtime, 0);
        let Some(ring) = rings.iter().find(|ring| ring.label.as_deref() == Some(LABEL) && !ring.ended) else {
            continue;
        };
        (evicted, waits) = (ring.evicted_total, ring.waits_total);
        match ring.waits_for {
            Some(reader) if reader.pid == slow => for_slow += 1,
            Some(_) => for_others += 1,
            None => {}
        }
    }
    let percent = |count: u64| 100.0 * count as f64 / looks.max(1) as f64;
    TurnResult {
        written_per_sec: 0.0,
        fast_per_sec: 0.0,
        slow_per_sec: 0.0,
        missed_percent: 0.0,
        evicted: evicted as f64,
        for_slow_percent: percent(for_slow),
        for_others_percent: percent(for_others),
        waits: waits as f64,
    }
}
