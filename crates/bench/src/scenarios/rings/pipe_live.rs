//! A ticker that writes each firing through a ring to many readers, native and guests, and the lateness at each reader.
//!
//! ```text
//!   ticker, 10 kHz ── due ──▶ a process writes number and instant ──▶ ring ──▶ R processes, native ──▶ now − due
//!                                                                        └──▶ R guests             ──▶ now − due
//! ```

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use rusm_protocol::Unit;
use rusm_runtime::ring::{Builder, Reader};
use rusm_runtime::ticker::{Measure, Overrun, Start, TickCounts, TickerOptions};
use rusm_runtime::{Context, observe};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::histogram::NanosHistogram;
use crate::measure::usage::process_cpu;
use crate::parameter::{Kind, Parameter};
use crate::report::table::{ColumnUnit, Table};
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::cases::{CaseContext, Cases, run_in_turn};
use crate::scenarios::timing::ticking::hz;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES};

/// Bytes of a record: a number and a time.
const RECORD: usize = 16;
/// Number of records that the ring holds.
const RECORDS: usize = 4_096;
/// Maximum number of missed ticks that one batch makes up for; beyond that, the oldest are dropped.
const BURST: u32 = 2_000;
/// Number of ticks in a turn.
const TICKS: u64 = 1_000;
/// Time from the creation of the ticker to the start of its first period.
const AHEAD: Duration = Duration::from_millis(2);
/// Memory pages of a guest: enough for the latencies of one turn.
const PAGES: u64 = 2;

/// Scenario that sends each firing of a ticker through a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipeLive;

impl Scenario for PipeLive {
    fn card(&self) -> Card {
        Card {
            id: "pipe-live",
            family: Family::Timing,
            label: "Live pipe",
            description: "A ticker that writes to a ring with many readers, native and guests: the time from tick to \
                          read.",
            details: &[
                "One operation is a record read by one reader. Cases run in turn, so the rate of the whole run means \
                 nothing; compare the rows of the table. A turn is 1,000 ticks.",
                "Latency is from the time at which a firing was due until a reader has its record, over all cases. It \
                 is the lateness of the ticker, the writer's turn and the reader's wake-up together.",
                "Late firings are made up for, at most 2,000 ticks. Older ones are dropped and counted, as are records \
                 that a reader missed. A good result is 0 drops.",
                "If there are more readers than cores, most of the latency of a reader is the work of the other \
                 readers.",
                "Guests read from the same ring, with one call for each record.",
            ],
            ops_label: "records read/s",
            latency_label: Some("firing due to its record read"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "readers",
                    description: "Readers of each kind.",
                    kind: Kind::Count { min: 1, max: 256, default: 8 },
                },
                Parameter {
                    name: "hz",
                    description: "Firings per second.",
                    kind: Kind::Count { min: 100, max: 100_000, default: 10_000 },
                },
            ],
            source_file: file!(),
            timed: "record",
            ops_per_timed: 1,
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
            let readers = context.params().number("readers");
            let config = WasmConfig {
                capacity: 2 * readers as u32,
                parts_max: 1,
                memory_max_bytes: PAGES * PAGE_BYTES,
                ..WasmConfig::default()
            };
            let guests = Guests::start(context, config).await?;
            let tap = guests.load(context, "tap", Code::of(include_str!("../wasm/guests/tap.wat"), PAGES)).await?;
            context.prepared();
            let case = |(native, guests)| Case { native, guests, ..Case::default() };
            let cases = [(1, 0), (0, 1), (readers, 0), (0, readers), (readers, readers)].map(case).into();
            run_in_turn(context, Live { cases, wasm: guests.wasm, tap }).await
        })
    }
}

#[derive(Default)]
struct Case {
    native: u64,
    guests: u64,
    of_native: NanosHistogram,
    of_guests: NanosHistogram,
    account: TickCounts,
    missed: u64,
    cpu_ns: u64,
}

struct Live {
    cases: Vec<Case>,
    wasm: Wasm,
    tap: Module,
}

/// Result of one reader.
struct ReaderResult {
    guest: bool,
    missed: u64,
    latencies_ns: Vec<u64>,
}

impl Cases for Live {
    fn count(&self) -> usize {
        self.cases.len()
    }

    fn run_turn(&mut self, index: usize, context: &mut CaseContext) -> Result<(), RunError> {
        let case = &mut self.cases[index];
        let source = Source {
            wasm: self.wasm.clone(),
            tap: self.tap.clone(),
            native: case.native,
            guests: case.guests,
            rate: context.params.number("hz"),
            stop: context.stop_flag(),
        };
        let (sender, receiver) = mpsc::channel();
        let cpu = process_cpu();
        context.runtime.spawn(move |ctx| async move {
            let ended = source.run(&ctx).await;
            // The receiver is gone if the run is already over.
            sender.send(ended).ok();
        })?;
        let ended = receiver.recv().unwrap_or_else(|_| Err("a reader ended before the ring was closed".to_owned()));
        let cpu = process_cpu().saturating_sub(cpu);
        if context.stops() {
            return Ok(());
        }
        let (account, seen) = ended.map_err(RunError::Lacks)?;
        case.cpu_ns += cpu.as_nanos() as u64;
        case.account.fired += account.fired;
        case.account.dropped += account.dropped;
        case.account.overruns += account.overruns;
        let mut missed = account.dropped;
        for reader in seen {
            missed += reader.missed;
            case.missed += reader.missed;
            context.recorder.count(reader.latencies_ns.len() as u64);
            let histogram = if reader.guest { &mut case.of_guests } else { &mut case.of_native };
            for ns in reader.latencies_ns {
                histogram.add(ns);
                context.recorder.latency(ns.max(1));
            }
        }
        context.recorder.drop_ops(missed);
        Ok(())
    }

    fn show(&self, context: &CaseContext) {
        let mut table = Table::new(
            &format!("From a tick at {} through a ring to its readers", hz(context.params.number("hz"))),
            &[
                ("native", ColumnUnit::Count),
                ("guests", ColumnUnit::Count),
                ("seen by", ColumnUnit::Text),
                ("mean", ColumnUnit::Ns),
                ("p50", ColumnUnit::Ns),
                ("p99", ColumnUnit::Ns),
                ("p99.9", ColumnUnit::Ns),
                ("max", ColumnUnit::Ns),
                ("records", ColumnUnit::Count),
                ("drops", ColumnUnit::Count),
                ("overruns", ColumnUnit::Count),
                ("CPU/record", ColumnUnit::Ns),
            ],
        );
        let mut drops = 0;
        for case in &self.cases {
            let dropped = case.account.dropped + case.missed;
            drops += dropped;
            let records = case.of_native.len() + case.of_guests.len();
            let cpu = (records > 0).then(|| case.cpu_ns as f64 / records as f64);
            for (who, histogram) in [("native", &case.of_native), ("guests", &case.of_guests)] {
                if histogram.len() == 0 {
                    continue;
                }
                let [mean, p50, p99, p999, max] = histogram.cells();
                let (native, guests) = (case.native.into(), case.guests.into());
                let (records, dropped) = (histogram.len().into(), dropped.into());
                let overruns = case.account.overruns.into();
                table.row([
                    native,
                    guests,
                    who.into(),
                    mean,
                    p50,
                    p99,
                    p999,
                    max,
                    records,
                    dropped,
                    overruns,
                    cpu.into(),
                ]);
            }
        }
        table.note(format!("gate: 0 drops; there were {drops}"));
        context.show(table);
    }
}

/// The process that starts the readers, then ticks and writes.
struct Source {
    wasm: Wasm,
    tap: Module,
    native: u64,
    guests: u64,
    rate: u64,
    stop: StopFlag,
}

impl Source {
    async fn run(self, ctx: &Context) -> Result<(TickCounts, Vec<ReaderResult>), String> {
        ctx.set_label("live source");
        let readers = self.native + self.guests;
        let ring = Builder::new(RECORDS * RECORD).readers_max(readers as usize).label("pipe-live").build::<u8>();
        let (mut writer, subscriber) = ring.map_err(|error| error.to_string())?;
        for index in 0..readers {
            let reader = subscriber.join().map_err(|error| error.to_string())?;
            if index < self.native {
                let source = ctx.pid();
                // The reader is linked: if it fails, this process ends too.
                ctx.spawn_link(move |ctx| async move { ctx.send(source, tap(&ctx, reader).await).await })
                    .map_err(|error| error.to_string())?;
            } else {
                let guest = GuestOptions::default().linked();
                let (guest, _) = self.wasm.spawn_from(ctx, &self.tap, &guest).map_err(|error| error.to_string())?;
                ctx.send(guest, reader).await;
            }
        }
        // All times are on the node's clock, which guests read too.
        let epoch = ctx.runtime().epoch_after(AHEAD);
        let epoch_ns = (observe::uptime(&ctx.runtime()) + AHEAD).as_nanos() as u64;
        let (start, overrun) = (Start::At(epoch), Overrun::Burst { max: BURST });
        let options = TickerOptions { start, overrun, measure: Measure::Lateness, ..TickerOptions::default() };
        let mut ticker = ctx.ticker(hz(self.rate), options).map_err(|error| error.to_string())?;
        let mut number = 0_u64;
        while ticker.account().ticks < TICKS && !self.stop.is_set() {
            let firings = ticker.next().await;
            for firing in firings.first..firings.first + firings.count {
                let due_ns = epoch_ns + (firing + 1) * 1_000_000_000 / self.rate;
                let mut record = [0; RECORD];
                record[..8].copy_from_slice(&number.to_le_bytes());
                record[8..].copy_from_slice(&due_ns.to_le_bytes());
                writer.write(&record).await;
                number += 1;
            }
        }
        let account = ticker.account();
        writer.close();
        let mut seen = Vec::new();
        while seen.len() < readers as usize {
            let message = ctx.receive().await;
            match message.downcast::<ReaderResult>() {
                Ok(reader) => seen.push(reader),
                Err(message) => seen.extend(message.downcast::<Bytes>().ok().as_deref().map(of_guest)),
            }
        }
        Ok((account, seen))
    }
}

/// Reads all records and notes how late each is.
async fn tap(ctx: &Context, mut reader: Reader<u8>) -> ReaderResult {
    let runtime = ctx.runtime();
    let (mut record, mut next) = ([0; RECORD], 0);
    let mut seen = ReaderResult { guest: false, missed: 0, latencies_ns: Vec::new() };
    while reader.read_exact(&mut record).await.is_ok() {
        let now_ns = observe::uptime(&runtime).as_nanos() as u64;
        let [number, due_ns] = words(&record);
        seen.latencies_ns.push(now_ns.saturating_sub(due_ns));
        seen.missed += number - next;
        next = number + 1;
    }
    seen
}

fn words(record: &[u8; RECORD]) -> [u64; 2] {
    crate::scenarios::wasm::guests::words(record).unwrap_or_else(|| unreachable!("a record is two words"))
}

/// Decodes the result of a guest: the number of missed records, then the latencies.
fn of_guest(bytes: &[u8]) -> ReaderResult {
    let mut words = bytes.chunks_exact(8).filter_map(crate::scenarios::wasm::guests::words::<1>).map(|[word]| word);
    let missed = words.next().unwrap_or(0);
    ReaderResult { guest: true, missed, latencies_ns: words.map(|ns| if ns > 1 << 62 { 0 } else { ns }).collect() }
}
