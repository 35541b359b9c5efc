//! A stream of numbers through a ring, with readers of every kind: the load of the ring scenarios.
//!
//! ```text
//!   readers start ─▶ the writer writes chunks for a while ─▶ closes ─▶ readers read the rest, check it and report
//!                        └─ one chunk in 256 or fewer is stamped ─▶ the first reader measures its latency
//! ```
//!
//! The time to start threads and processes is not measured. Every reader checks the first number of each chunk, so a
//! ring that loses or reorders items gives an error and not a result.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rusm_runtime::Handle;
use rusm_runtime::ring::{Builder, Flush, Padding, Policy, ReadError, Reader, Subscriber, Writer};

use crate::measure::usage::process_cpu;
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenarios::pinned::Pinned;

/// Minimum distance between two stamped chunks; larger in a large ring.
const STAMP_EVERY: u64 = 256;
/// Number of chunks that the writer writes between two reads of the clock.
const CHUNKS_PER_LOOK: u64 = 16;

/// How both sides wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Processes that copy.
    Processes,
    /// Processes that write and read items in place.
    InPlace,
    /// Threads that retry at once, as in the seed's ring.
    Busy,
    /// Threads that try 100 times, yield 100 times and then sleep for 1 ms, as in the seed's later ring.
    Hybrid,
    /// Threads that try 20 times and then yield.
    SpinYield,
    /// Threads that sleep and are woken for every chunk.
    ParkEager,
    /// Threads that sleep and are woken when much data is available.
    ParkLazy,
}

impl Waiting {
    /// All kinds that copy.
    pub(crate) const ALL: [Self; 6] =
        [Self::Processes, Self::ParkLazy, Self::ParkEager, Self::SpinYield, Self::Hybrid, Self::Busy];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::InPlace => "in-place",
            Self::Busy => "busy",
            Self::Hybrid => "hybrid",
            Self::SpinYield => "spin-yield",
            Self::ParkEager => "park-eager",
            Self::ParkLazy => "park-lazy",
        }
    }
}

/// Load on a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLoad {
    pub(crate) waiting: Waiting,
    pub(crate) readers: usize,
    pub(crate) chunk: usize,
    pub(crate) capacity: usize,
    pub(crate) padding: Padding,
    pub(crate) length: Duration,
    /// True if each thread is pinned to a core, the writer to the first.
    pub(crate) pin: bool,
}

/// Result of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct RingOutcome {
    pub(crate) written: u64,
    pub(crate) delivered: u64,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) writes: u64,
    pub(crate) writes_full: u64,
    pub(crate) reads: u64,
    pub(crate) reads_empty: u64,
    /// Number of times that the writer scanned the positions of all readers.
    pub(crate) looks: u64,
    /// Number of chunks that did not contain what was written.
    pub(crate) wrong: u64,
    pub(crate) latencies_ns: Vec<u64>,
}

impl RingOutcome {
    pub(crate) fn written_per_sec(&self) -> f64 {
        self.written as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn delivered_per_sec(&self) -> f64 {
        self.delivered as f64 / self.wall.as_secs_f64()
    }

    /// Returns the CPU time per delivered item, in nanoseconds.
    pub(crate) fn cpu_ns_per_item(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.delivered as f64
    }
}

/// The most recent stamped chunk.
#[derive(Default)]
struct LastStamp {
    /// Position of the chunk plus 1; 0 before the first.
    position: AtomicU64,
    at_ns: AtomicU64,
}

/// State that both sides of a load share.
struct LoadState {
    start: Instant,
    stamp: LastStamp,
    /// Number of chunks from one stamp to the next.
    stamp_every: u64,
    /// Time of the writer's start: the time to start the readers is not measured.
    begun: OnceLock<Instant>,
    stop: StopFlag,
    length: Duration,
}

impl LoadState {
    fn is_over(&self) -> bool {
        self.begun.get_or_init(Instant::now).elapsed() >= self.length || self.stop.is_set()
    }

    fn stamp(&self, chunk: u64, position: u64) {
        if chunk.is_multiple_of(self.stamp_every) {
            self.stamp.at_ns.store(self.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.stamp.position.store(position + 1, Ordering::Release);
        }
    }
}

/// Sends numbers through a ring for a while. Returns `None` if the run was stopped meanwhile.
///
/// # Errors
/// [`RunError`] if the ring or a process cannot be created.
pub(crate) fn run(handle: &Handle, stop: &StopFlag, load: RingLoad) -> Result<Option<RingOutcome>, RunError> {
    let (writer, subscriber) = Builder::new(load.capacity)
        .readers_max(load.readers)
        .padding(load.padding)
        .policy(Policy::Lossless)
        .build::<u32>()
        .map_err(|error| RunError::Lacks(error.to_string()))?;
    let state = Arc::new(LoadState {
        start: Instant::now(),
        stamp: LastStamp::default(),
        // At least two ring capacities apart: the slowest reader has read one stamped chunk before the next is stamped.
        stamp_every: STAMP_EVERY.max(2 * load.capacity as u64 / load.chunk.max(1) as u64),
        begun: OnceLock::new(),
        stop: stop.clone(),
        length: load.length,
    });
    let outcome = match load.waiting {
        Waiting::Processes | Waiting::InPlace => as_processes(handle, writer, &subscriber, load, &state)?,
        _ => as_threads(writer, &subscriber, load, &state)?,
    };
    Ok((!stop.is_set()).then_some(outcome))
}

fn as_processes(
    handle: &Handle,
    mut writer: Writer<u32>,
    subscriber: &Subscriber<u32>,
    load: RingLoad,
    state: &Arc<LoadState>,
) -> Result<RingOutcome, RunError> {
    let (sender, receiver) = mpsc::channel();
    for index in 0..load.readers {
        let reader = attach(subscriber);
        let (state, sender) = (Arc::clone(state), sender.clone());
        handle.spawn(move |_| async move {
            let mut tally = Tally::new(reader, load.chunk, index == 0);
            if load.waiting == Waiting::InPlace {
                tally.look_on(&state).await;
            } else {
                tally.read_on(&state).await;
            }
            sender.send(tally.outcome())
        })?;
    }
    drop(sender);
    let (writer_sender, writer_outcome) = mpsc::channel();
    let (state, cpu) = (Arc::clone(state), process_cpu());
    let start = Instant::now();
    handle.spawn(move |_| async move {
        let mut source = Source::new(load.chunk);
        while !source.is_over(&state) {
            source.next(&state, writer.written());
            if load.waiting == Waiting::InPlace {
                number_in_place(&mut writer, load.chunk).await;
            } else {
                writer.write(&source.items).await;
            }
        }
        let outcome = written(&writer);
        writer.close();
        writer_sender.send(outcome)
    })?;
    let mut outcome = writer_outcome.recv().unwrap_or_default();
    for read in receiver {
        add(&mut outcome, read);
    }
    (outcome.wall, outcome.cpu) = (start.elapsed(), process_cpu().saturating_sub(cpu));
    Ok(outcome)
}

fn as_threads(
    mut writer: Writer<u32>,
    subscriber: &Subscriber<u32>,
    load: RingLoad,
    state: &Arc<LoadState>,
) -> Result<RingOutcome, RunError> {
    let flush = if load.waiting == Waiting::ParkLazy { Flush::Lazy } else { Flush::Eager };
    writer.set_flush(flush);
    let ready = Barrier::new(load.readers + 1);
    // Check before starting the readers: if this thread may be pinned, they may be too.
    drop(Pinned::at(0, load.pin)?);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..load.readers)
            .map(|index| {
                let (mut reader, ready, state) = (attach(subscriber), &ready, Arc::clone(state));
                reader.set_flush(flush);
                scope.spawn(move || {
                    let _pinned = Pinned::at(index + 1, load.pin);
                    let mut tally = Tally::new(reader, load.chunk, index == 0);
                    ready.wait();
                    read_on_a_thread(&mut tally, load, &state);
                    tally.outcome()
                })
            })
            .collect();
        let _pinned = Pinned::at(0, load.pin);
        ready.wait();
        let (start, cpu) = (Instant::now(), process_cpu());
        let mut source = Source::new(load.chunk);
        while !source.is_over(state) {
            source.next(state, writer.written());
            write_on_a_thread(&mut writer, &source.items, load.waiting);
        }
        let mut outcome = written(&writer);
        writer.close();
        for thread in threads {
            add(&mut outcome, thread.join().unwrap_or_default());
        }
        (outcome.wall, outcome.cpu) = (start.elapsed(), process_cpu().saturating_sub(cpu));
        Ok(outcome)
    })
}

/// Writes the next numbers of a chunk in place.
async fn number_in_place(writer: &mut Writer<u32>, chunk: usize) {
    let position = writer.written() as u32;
    let Ok(mut grant) = writer.grant(chunk).await else { return };
    let (one, other) = grant.slices();
    for (place, number) in one.iter_mut().chain(other).zip(0_u32..) {
        *place = position.wrapping_add(number);
    }
    grant.commit(chunk);
}

fn attach(subscriber: &Subscriber<u32>) -> Reader<u32> {
    subscriber.join().expect("the ring was built with a slot for each reader")
}

fn read_on_a_thread(tally: &mut Tally, load: RingLoad, state: &LoadState) {
    let mut items = vec![0; load.chunk];
    let mut tries = 0;
    loop {
        let read = match load.waiting {
            Waiting::ParkEager | Waiting::ParkLazy => tally.reader.blocking_read(&mut items),
            _ => tally.reader.try_read(&mut items),
        };
        match read {
            Ok(count) => {
                tries = 0;
                tally.got(&items[..count], state);
            }
            Err(ReadError::Empty) => retry(load.waiting, &mut tries),
            Err(_) => return,
        }
    }
}

fn write_on_a_thread(writer: &mut Writer<u32>, items: &[u32], waiting: Waiting) {
    if matches!(waiting, Waiting::ParkEager | Waiting::ParkLazy) {
        return writer.blocking_write(items);
    }
    let mut tries = 0;
    while writer.try_write_all(items).is_err() {
        retry(waiting, &mut tries);
    }
}

fn retry(waiting: Waiting, tries: &mut u32) {
    *tries += 1;
    match (waiting, *tries) {
        (Waiting::Hybrid, 201..) => thread::park_timeout(Duration::from_millis(1)),
        (Waiting::Hybrid, 101..) | (Waiting::SpinYield, 21..) => thread::yield_now(),
        _ => std::hint::spin_loop(),
    }
}

/// Generates the numbers to write.
struct Source {
    items: Vec<u32>,
    chunks: u64,
    over: bool,
}

impl Source {
    fn new(chunk: usize) -> Self {
        Self { items: vec![0; chunk], chunks: 0, over: false }
    }

    #[inline]
    fn is_over(&mut self, state: &LoadState) -> bool {
        if self.chunks.is_multiple_of(CHUNKS_PER_LOOK) {
            self.over = state.is_over();
        }
        self.over
    }

    #[inline]
    fn next(&mut self, state: &LoadState, position: u64) {
        state.stamp(self.chunks, position);
        self.chunks += 1;
        // Only the first item of each chunk holds its position: the copy keeps the rest in order.
        self.items[0] = position as u32;
    }
}

fn written(writer: &Writer<u32>) -> RingOutcome {
    let stats = writer.stats();
    RingOutcome {
        written: writer.written(),
        writes: stats.writes,
        writes_full: stats.full,
        looks: stats.tail_scans,
        ..RingOutcome::default()
    }
}

fn add(outcome: &mut RingOutcome, read: RingOutcome) {
    outcome.delivered += read.delivered;
    outcome.reads += read.reads;
    outcome.reads_empty += read.reads_empty;
    outcome.wrong += read.wrong;
    outcome.latencies_ns.extend(read.latencies_ns);
}

/// State of one reader.
struct Tally {
    reader: Reader<u32>,
    chunk: u64,
    times: bool,
    timed: u64,
    delivered: u64,
    /// Position at which the next chunk begins.
    marked: u64,
    wrong: u64,
    latencies_ns: Vec<u64>,
}

impl Tally {
    fn new(reader: Reader<u32>, chunk: usize, times: bool) -> Self {
        let (chunk, latencies_ns) = (chunk as u64, Vec::new());
        Self { reader, chunk, times, timed: 0, delivered: 0, marked: 0, wrong: 0, latencies_ns }
    }

    /// Copies a chunk at a time and checks the first item of each.
    async fn read_on(&mut self, state: &LoadState) {
        let mut items = vec![0; self.chunk as usize];
        while let Ok(count) = self.reader.read(&mut items).await {
            self.got(&items[..count], state);
        }
    }

    /// Checks each item in place.
    async fn look_on(&mut self, state: &LoadState) {
        loop {
            let first = self.delivered as u32;
            let Ok(peek) = self.reader.peek().await else { return };
            let (count, (one, other)) = (peek.len(), peek.slices());
            let strange = |items: &[u32], first: u32| -> u32 {
                items.iter().zip(0_u32..).map(|(item, number)| u32::from(*item != first.wrapping_add(number))).sum()
            };
            let wrong = strange(one, first) + strange(other, first.wrapping_add(one.len() as u32));
            peek.release(count);
            self.wrong += u64::from(wrong);
            self.delivered += count as u64;
            if self.times {
                self.time(state);
            }
        }
    }

    #[inline]
    fn got(&mut self, items: &[u32], state: &LoadState) {
        let first = self.delivered;
        self.delivered += items.len() as u64;
        // The first item of each chunk holds its position.
        while self.marked < self.delivered {
            self.wrong += u64::from(items[(self.marked - first) as usize] != self.marked as u32);
            self.marked += self.chunk;
        }
        if self.times {
            self.time(state);
        }
    }

    #[inline]
    fn time(&mut self, state: &LoadState) {
        let stamped = state.stamp.position.load(Ordering::Acquire);
        if stamped > self.timed && stamped <= self.delivered {
            self.timed = stamped;
            let at_ns = state.stamp.at_ns.load(Ordering::Relaxed);
            self.latencies_ns.push((state.start.elapsed().as_nanos() as u64).saturating_sub(at_ns));
        }
    }

    fn outcome(self) -> RingOutcome {
        let stats = self.reader.stats();
        RingOutcome {
            delivered: self.delivered,
            reads: stats.reads,
            reads_empty: stats.empty,
            wrong: self.wrong,
            latencies_ns: self.latencies_ns,
            ..RingOutcome::default()
        }
    }
}
