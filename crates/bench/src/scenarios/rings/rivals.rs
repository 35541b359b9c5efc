//! Rings of other crates under the same load as ours: numbers in chunks, checked by every reader.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use disruptor::wait_strategies::WaitStrategy;
use disruptor::{BusySpin, Producer, Sleep, build_single_producer};
use rusm_runtime::Handle;

use crate::measure::usage::process_cpu;
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenarios::rings::load::{RingLoad, RingOutcome, Waiting, run};

/// Ring implementation under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// Ours, between processes.
    Ours,
    /// Ours, between processes that write and read items in place, as those of `disruptor` do.
    OursInPlace,
    /// Ours, between threads that sleep.
    OursThreads,
    /// One `rtrb` for each reader, between threads that yield.
    Rtrb,
    /// `disruptor` with spinning readers.
    DisruptorBusy,
    /// `disruptor` with readers that sleep for 50 µs.
    DisruptorSleep,
    /// `async-broadcast`, between processes; its writer waits for the slowest reader.
    AsyncBroadcast,
    /// `tokio::sync::broadcast`, between processes; readers that are too slow lose items.
    TokioBroadcast,
    /// One thread that copies each chunk in once and out for each reader: the upper bound.
    Memcpy,
}

impl Rival {
    pub(crate) const ALL: [Self; 9] = [
        Self::Ours,
        Self::OursInPlace,
        Self::Memcpy,
        Self::OursThreads,
        Self::Rtrb,
        Self::DisruptorSleep,
        Self::DisruptorBusy,
        Self::AsyncBroadcast,
        Self::TokioBroadcast,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours, processes",
            Self::OursInPlace => "ours, in place",
            Self::OursThreads => "ours, threads",
            Self::Rtrb => "rtrb for each reader",
            Self::DisruptorBusy => "disruptor, spinning",
            Self::DisruptorSleep => "disruptor, 50 µs sleep",
            Self::AsyncBroadcast => "async-broadcast",
            Self::TokioBroadcast => "tokio broadcast (lossy)",
            Self::Memcpy => "memcpy, no ring",
        }
    }

    /// Sends numbers through the ring for a while. Returns `None` if the run was stopped meanwhile.
    pub(crate) fn run(self, handle: &Handle, stop: &StopFlag, load: RingLoad) -> Result<Option<RingOutcome>, RunError> {
        let outcome = match self {
            Self::Ours => return run(handle, stop, RingLoad { waiting: Waiting::Processes, ..load }),
            Self::OursInPlace => return run(handle, stop, RingLoad { waiting: Waiting::InPlace, ..load }),
            Self::OursThreads => return run(handle, stop, RingLoad { waiting: Waiting::ParkLazy, ..load }),
            Self::Rtrb => rtrb(stop, load),
            Self::DisruptorBusy => disruptor(stop, load, BusySpin),
            Self::DisruptorSleep => disruptor(stop, load, Sleep::new(Duration::from_micros(50))),
            Self::AsyncBroadcast => async_broadcast(handle, stop, load)?,
            Self::TokioBroadcast => tokio_broadcast(handle, stop, load)?,
            Self::Memcpy => memcpy(stop, load),
        };
        Ok((!stop.is_set()).then_some(outcome))
    }
}

/// Measures a load from its creation on.
struct Stopwatch {
    start: Instant,
    cpu: Duration,
    length: Duration,
    stop: StopFlag,
}

impl Stopwatch {
    fn start(stop: &StopFlag, load: RingLoad) -> Self {
        Self { start: Instant::now(), cpu: process_cpu(), length: load.length, stop: stop.clone() }
    }

    fn is_over(&self) -> bool {
        self.start.elapsed() >= self.length || self.stop.is_set()
    }

    fn outcome(&self, written: u64, delivered: u64, wrong: u64) -> RingOutcome {
        let cpu = process_cpu().saturating_sub(self.cpu);
        RingOutcome { written, delivered, wrong, wall: self.start.elapsed(), cpu, ..RingOutcome::default() }
    }
}

/// Number of chunks between two reads of the clock.
const CHUNKS_PER_LOOK: usize = 16;

fn rtrb(stop: &StopFlag, load: RingLoad) -> RingOutcome {
    let (mut producers, consumers): (Vec<_>, Vec<_>) =
        (0..load.readers).map(|_| rtrb::RingBuffer::<u32>::new(load.capacity)).unzip();
    let chunk = load.chunk;
    thread::scope(|scope| {
        let threads: Vec<_> = consumers
            .into_iter()
            .map(|mut consumer| {
                scope.spawn(move || {
                    let (mut items, mut delivered, mut wrong) = (vec![0; chunk], 0_u64, 0);
                    loop {
                        if consumer.pop_entire_slice(&mut items).is_ok() {
                            wrong += u64::from(items[0] != delivered as u32);
                            delivered += chunk as u64;
                        } else if consumer.is_abandoned() && consumer.slots() < chunk {
                            return (delivered, wrong);
                        } else {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let stopwatch = Stopwatch::start(stop, load);
        let (mut items, mut written) = (vec![0; chunk], 0_u64);
        while !stopwatch.is_over() {
            for _ in 0..CHUNKS_PER_LOOK {
                items[0] = written as u32;
                for producer in &mut producers {
                    while producer.push_entire_slice(&items).is_err() {
                        thread::yield_now();
                    }
                }
                written += chunk as u64;
            }
        }
        drop(producers);
        let read = threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        let (delivered, wrong) = read.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        stopwatch.outcome(written, delivered, wrong)
    })
}

fn disruptor(stop: &StopFlag, load: RingLoad, wait: impl WaitStrategy + 'static) -> RingOutcome {
    let totals: Vec<Arc<(AtomicU64, AtomicU64)>> = (0..load.readers).map(|_| Arc::default()).collect();
    let mut handlers = totals.iter().map(|total| {
        let total = Arc::clone(total);
        let (mut delivered, mut wrong) = (0_u64, 0_u64);
        move |event: &u32, sequence: i64, ends_batch: bool| {
            delivered += 1;
            wrong += u64::from(*event != sequence as u32);
            if ends_batch {
                total.0.store(delivered, Ordering::Relaxed);
                total.1.store(wrong, Ordering::Relaxed);
            }
        }
    });
    let first = handlers.next().expect("there is a reader");
    let builder = build_single_producer(load.capacity, || 0_u32, wait).handle_events_with(first);
    let (stopwatch, written) = match handlers.next() {
        None => produce(builder.build(), stop, load),
        Some(second) => {
            let mut builder = builder.handle_events_with(second);
            for handler in handlers {
                builder = builder.handle_events_with(handler);
            }
            produce(builder.build(), stop, load)
        }
    };
    let sum = |value: fn(&(AtomicU64, AtomicU64)) -> &AtomicU64| {
        totals.iter().map(|total| value(total).load(Ordering::Relaxed)).sum()
    };
    stopwatch.outcome(written, sum(|total| &total.0), sum(|total| &total.1))
}

/// Publishes chunks; dropping the producer waits until all of them are read.
fn produce(mut producer: impl Producer<u32>, stop: &StopFlag, load: RingLoad) -> (Stopwatch, u64) {
    let stopwatch = Stopwatch::start(stop, load);
    let mut written = 0_u64;
    while !stopwatch.is_over() {
        for _ in 0..CHUNKS_PER_LOOK {
            producer.batch_publish(load.chunk, |places| {
                for place in places {
                    *place = written as u32;
                    written += 1;
                }
            });
        }
    }
    drop(producer);
    (stopwatch, written)
}

fn async_broadcast(handle: &Handle, stop: &StopFlag, load: RingLoad) -> Result<RingOutcome, RunError> {
    let (sender, receiver) = async_broadcast::broadcast::<u32>(load.capacity);
    let (result_sender, results) = mpsc::channel();
    for _ in 0..load.readers {
        let (mut receiver, result_sender) = (receiver.clone(), result_sender.clone());
        handle.spawn(move |_| async move {
            let (mut delivered, mut wrong) = (0_u64, 0_u64);
            while let Ok(item) = receiver.recv_direct().await {
                wrong += u64::from(item != delivered as u32);
                delivered += 1;
            }
            result_sender.send((delivered, wrong))
        })?;
    }
    drop((receiver, result_sender));
    let stopwatch = Arc::new(Stopwatch::start(stop, load));
    let (written_sender, written) = mpsc::channel();
    let clock = Arc::clone(&stopwatch);
    handle.spawn(move |_| async move {
        let mut written = 0_u64;
        while !clock.is_over() {
            for _ in 0..CHUNKS_PER_LOOK * load.chunk {
                written += u64::from(sender.broadcast_direct(written as u32).await.is_ok());
            }
        }
        written_sender.send(written)
    })?;
    Ok(collect(&stopwatch, &written, &results))
}

fn tokio_broadcast(handle: &Handle, stop: &StopFlag, load: RingLoad) -> Result<RingOutcome, RunError> {
    use tokio::sync::broadcast::{channel, error::RecvError};
    let (sender, receiver) = channel::<u32>(load.capacity);
    let (result_sender, results) = mpsc::channel();
    for _ in 0..load.readers {
        let (mut receiver, result_sender) = (receiver.resubscribe(), result_sender.clone());
        handle.spawn(move |_| async move {
            let (mut position, mut delivered, mut wrong) = (0_u64, 0_u64, 0_u64);
            loop {
                match receiver.recv().await {
                    Ok(item) => {
                        wrong += u64::from(item != position as u32);
                        position += 1;
                        delivered += 1;
                    }
                    Err(RecvError::Lagged(missed)) => position += missed,
                    Err(RecvError::Closed) => break result_sender.send((delivered, wrong)),
                }
            }
        })?;
    }
    drop((receiver, result_sender));
    let stopwatch = Arc::new(Stopwatch::start(stop, load));
    let (written_sender, written) = mpsc::channel();
    let clock = Arc::clone(&stopwatch);
    handle.spawn(move |ctx| async move {
        let mut written = 0_u64;
        while !clock.is_over() {
            for _ in 0..CHUNKS_PER_LOOK * load.chunk {
                written += u64::from(sender.send(written as u32).is_ok());
            }
            // `send` never waits: without this yield, no other process could run on this scheduler.
            ctx.yield_now().await;
        }
        written_sender.send(written)
    })?;
    Ok(collect(&stopwatch, &written, &results))
}

fn collect(stopwatch: &Stopwatch, written: &mpsc::Receiver<u64>, results: &mpsc::Receiver<(u64, u64)>) -> RingOutcome {
    let written = written.recv().unwrap_or_default();
    let (delivered, wrong) = results.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    stopwatch.outcome(written, delivered, wrong)
}

fn memcpy(stop: &StopFlag, load: RingLoad) -> RingOutcome {
    use std::hint::black_box;
    let (mut buffer, mut items, mut read) = (vec![0_u32; load.capacity], vec![0; load.chunk], vec![0; load.chunk]);
    let stopwatch = Stopwatch::start(stop, load);
    let (mut written, mut wrong) = (0_u64, 0);
    while !stopwatch.is_over() {
        for _ in 0..CHUNKS_PER_LOOK {
            items[0] = written as u32;
            let at = written as usize & (load.capacity - 1);
            let place = black_box(at..at + load.chunk);
            buffer[place.clone()].copy_from_slice(black_box(&items));
            for _ in 0..load.readers {
                read.copy_from_slice(&black_box(&buffer)[place.clone()]);
                wrong += u64::from(black_box(&read)[0] != written as u32);
            }
            written += load.chunk as u64;
        }
    }
    stopwatch.outcome(written, written * load.readers as u64, wrong)
}
