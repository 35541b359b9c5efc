//! Chunks through a stream between two processes, native or guest; each chunk is read whole and checked by its XXH3
//! hash.
//!
//! ```text
//!   source: 16 different chunks in turn ── write ──▶ stream ── read ──▶ sink: is the XXH3 of each as expected?
//!   bound:  one thread copies a chunk once and takes the XXH3 of the copy
//! ```

mod chunks;
mod ends;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use rusm_protocol::Unit;
use rusm_wasm::{Module, Wasm, WasmConfig};
use xxhash_rust::xxh3::xxh3_64;

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::usage::process_cpu;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::rings::cases::median;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES};

use chunks::{CHUNKS, Chunks};
use ends::{Pipe, TURN, TurnResult};

/// Guests of two turns: those of the previous turn may not have ended yet.
const GUESTS_MAX: u32 = 4;

/// Scenario that sends chunks through a stream between two processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamPipe;

impl Scenario for StreamPipe {
    fn card(&self) -> Card {
        Card {
            id: "stream-pipe",
            family: Family::Actors,
            label: "Stream pipe",
            description: "Bytes from one process to another, native or guest; all are read and verified.",
            details: &[
                "One operation is a byte written, carried, read and verified. Cases run in turn, so the rate of the \
                 whole run means nothing; compare the medians in the table.",
                "Latency is the mean time of a chunk: a turn divided by its chunks. It does not show how long a chunk \
                 was in the stream.",
                "The source writes 16 different chunks in turn, and the sink computes the XXH3 of each. A wrong, \
                 missing or repeated byte is an error.",
                "The bound is one thread that copies each chunk once and computes the same XXH3. Two processes on two \
                 cores may be faster.",
                "A stream copies each byte once for a native sink, which hashes in place, and twice for a guest.",
                "Guests are modules that hash with vector instructions. The time to create their chunks is not \
                 included.",
                "Goal at 64 KiB: a native pair has at least half the rate of the bound, and a pair with a guest at \
                 least half the rate of the native pair.",
            ],
            ops_label: "bytes/s",
            latency_label: Some("a chunk's share of its turn"),
            unit: Unit::Bytes,
            parameters: &[
                Parameter {
                    name: "ends",
                    description: "Kind of the source and of the sink.",
                    kind: Kind::Choice {
                        words: &["all", "native-native", "native-guest", "guest-native", "guest-guest"],
                    },
                },
                Parameter {
                    name: "chunk",
                    description: "Bytes of a chunk, rounded up to a power of two.",
                    kind: Kind::Bytes { min: 1 << 10, max: 1 << 18, default: 1 << 16 },
                },
                Parameter {
                    name: "capacity",
                    description: "Bytes that the stream holds, rounded up to a power of two.",
                    kind: Kind::Bytes { min: 1 << 10, max: 1 << 20, default: 1 << 18 },
                },
            ],
            source_file: file!(),
            timed: "turn",
            // A turn has a few hundred chunks.
            ops_per_timed: 1 << 24,
            sampling: 1,
        }
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let chunk = (context.params().number("chunk") as usize).next_power_of_two();
            let capacity = (context.params().number("capacity") as usize).next_power_of_two();
            let wanted = context.params().word("ends");
            // A source holds all of its chunks, after 1,024 bytes for its own data.
            let pages = ((chunk * CHUNKS + 1_024) as u64).div_ceil(PAGE_BYTES);
            let config = WasmConfig {
                capacity: GUESTS_MAX,
                parts_max: 1,
                memory_max_bytes: pages * PAGE_BYTES,
                ..WasmConfig::default()
            };
            let guests = Guests::start(context, config).await?;
            let source =
                guests.load(context, "source", Code::of(include_str!("../wasm/guests/pipe_source.wat"), pages)).await?;
            let pages = ((chunk + 1_024) as u64).div_ceil(PAGE_BYTES);
            let sink =
                guests.load(context, "sink", Code::of(include_str!("../wasm/guests/pipe_sink.wat"), pages)).await?;
            context.prepared();
            let ends = [
                Ends::Bound,
                Ends::of(false, false),
                Ends::of(false, true),
                Ends::of(true, false),
                Ends::of(true, true),
            ];
            let cases = ends.into_iter().filter(|ends| wanted == "all" || [wanted, "bound"].contains(&ends.word()));
            let cases = cases.map(|ends| (ends, Vec::new())).collect();
            let chunks = Arc::new(Chunks::new(chunk));
            run_in_turn(context, Pipes { cases, chunks, capacity, wasm: guests.wasm, source, sink }).await
        })
    }
}

/// Kinds of writer and reader; or one thread that does the minimum work, as the bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Bound,
    Pipe { guest_writes: bool, guest_reads: bool },
}

impl Ends {
    const fn of(guest_writes: bool, guest_reads: bool) -> Self {
        Self::Pipe { guest_writes, guest_reads }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Pipe { guest_writes: false, guest_reads: false } => "native-native",
            Self::Pipe { guest_writes: false, guest_reads: true } => "native-guest",
            Self::Pipe { guest_writes: true, guest_reads: false } => "guest-native",
            Self::Pipe { guest_writes: true, guest_reads: true } => "guest-guest",
        }
    }
}

struct Pipes {
    cases: Vec<(Ends, Vec<TurnResult>)>,
    chunks: Arc<Chunks>,
    capacity: usize,
    wasm: Wasm,
    source: Module,
    sink: Module,
}

impl Cases for Pipes {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let turn = match self.cases[case].0 {
            Ends::Bound => bound(&self.chunks),
            Ends::Pipe { guest_writes, guest_reads } => self.pipe(context, guest_writes, guest_reads)?,
        };
        if context.stops() {
            return Ok(());
        }
        context.recorder.count(turn.chunks * self.chunks.chunk as u64);
        context.recorder.fail(turn.wrong);
        context.recorder.latency((turn.wall.as_nanos() as u64 / turn.chunks.max(1)).max(1));
        self.cases[case].1.push(turn);
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            &format!("Chunks of {} bytes through a stream of {}", self.chunks.chunk, self.capacity),
            &[
                ("from-to", ColumnUnit::Text),
                ("bytes/s", ColumnUnit::Bytes),
                ("÷ bound", ColumnUnit::Ratio),
                ("÷ native", ColumnUnit::Ratio),
                ("CPU/KiB", ColumnUnit::Ns),
                ("CPU ÷ bound", ColumnUnit::Ratio),
                ("wrong", ColumnUnit::Count),
                ("turns", ColumnUnit::Count),
            ],
        );
        let (bound, native) = (self.median(Ends::Bound), self.median(Ends::of(false, false)));
        for (ends, turn) in &self.cases {
            let Some((rate, cpu_ns)) = self.median(*ends) else { continue };
            table.row([
                ends.word().into(),
                rate.into(),
                bound.map(|(bound, _)| rate / bound).into(),
                native.filter(|_| *ends != Ends::Bound).map(|(native, _)| rate / native).into(),
                cpu_ns.into(),
                bound.map(|(_, bound_ns)| cpu_ns / bound_ns).into(),
                turn.iter().map(|turn| turn.wrong).sum::<u64>().into(),
                (turn.len() as u64).into(),
            ]);
        }
        table.note("bound: one copy and the same XXH3 on one thread; medians of turns of 60 ms");
        table.note("gates at 64 KiB: native ÷ bound at least 0.5, with a guest ÷ native at least 0.5");
        context.show(table);
    }
}

impl Pipes {
    /// Returns bytes per second, and CPU nanoseconds per 1,024 bytes.
    fn median(&self, ends: Ends) -> Option<(f64, f64)> {
        let (_, turn) = self.cases.iter().find(|(other, turn)| *other == ends && !turn.is_empty())?;
        let bytes = |turn: &TurnResult| (turn.chunks.max(1) * self.chunks.chunk as u64) as f64;
        let rates = turn.iter().map(|turn| bytes(turn) / turn.wall.as_secs_f64()).collect();
        let costs = turn.iter().map(|turn| turn.cpu.as_nanos() as f64 * 1_024.0 / bytes(turn)).collect();
        Some((median(rates), median(costs)))
    }

    fn pipe(&self, context: &CaseContext, guest_writes: bool, guest_reads: bool) -> Result<TurnResult, RunError> {
        let pipe = Pipe {
            wasm: self.wasm.clone(),
            source: guest_writes.then(|| self.source.clone()),
            sink: guest_reads.then(|| self.sink.clone()),
            chunks: Arc::clone(&self.chunks),
            capacity: self.capacity,
        };
        let (sender, receiver) = mpsc::channel();
        context.runtime.spawn(move |ctx| async move {
            let ended = pipe.run(&ctx).await;
            // The receiver is gone if the run is already over.
            sender.send(ended).ok();
        })?;
        let ended = receiver
            .recv()
            .unwrap_or_else(|_| Err("a process of the pair ended before the stream was closed".to_owned()));
        ended.map_err(RunError::Lacks)
    }
}

/// Measures the minimum work: one copy and one hash per chunk, on this thread.
fn bound(chunks: &Chunks) -> TurnResult {
    let mut copy = vec![0; chunks.chunk];
    let (start, cpu) = (Instant::now(), process_cpu());
    let (mut count, mut wrong) = (0, 0);
    while start.elapsed() < TURN / 2 {
        for _ in 0..CHUNKS {
            copy.copy_from_slice(black_box(chunks.of(count)));
            wrong += u64::from(xxh3_64(black_box(&copy)) != chunks.hash(count));
            count += 1;
        }
    }
    TurnResult { chunks: count, wrong, wall: start.elapsed(), cpu: process_cpu().saturating_sub(cpu) }
}
