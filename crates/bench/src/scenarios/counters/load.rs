//! One round of the seed's harness on real processes: the measurement shared by all counter scenarios.
//!
//! ```text
//!   workers, one process each ── wait for `Go` ──▶ update a random key by ±1 as churn says ──▶ tally
//!                                                    └ one group of operations in several is timed
//!   all have ended ──▶ the counters flush the rest ──▶ compare the store with the tallies ──▶ Outcome
//! ```
//!
//! Each operation draws its key and its sign anew from its worker's generator, so a round is a random walk without a
//! trend, and the same seed repeats it. If the store and the tallies differ at the end, the round is an error and has
//! no result.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rusm_runtime::counter::{AchievedDelay, Admission, Counter, CounterStore, Counters, StoreAccount};
use rusm_runtime::{Context, Handle};

use crate::measure::latency::HIGHEST_NS;
use crate::measure::meter::Recorder;
use crate::measure::rng::{GOLDEN, XorShiftStar, splitmix64};
use crate::measure::usage::process_cpu;
use crate::run::error::{RunError, check_memory};
use crate::run::flags::StopFlag;
use crate::scenarios::counters::flags::Flags;

/// Number of operations that a worker does before it reads the clock and yields.
const TURN: u64 = 2_048;
/// Number of operations timed together when one operation is too short for the resolution of the clock.
const GROUP: u64 = 16;
/// One in this many groups is timed then.
const GROUPS: u64 = 32;
/// Memory of a worker with its histogram, of a key, and of a replica of it, at most.
const WORKER_BYTES: u64 = 16 << 10;
const KEY_BYTES: u64 = 512;
const REPLICA_BYTES: u64 = 64;
/// Initial value of each key.
const INITIAL: i64 = 1_000_000;

/// Settings of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterLoad {
    pub(crate) flags: Flags,
    /// True if an operation may wait for the store.
    pub(crate) waits: bool,
    /// True if store and tallies must agree. False for buckets, because their values refill with time.
    pub(crate) adds_up: bool,
    /// Cost of two clock reads, subtracted from each measured time.
    pub(crate) clock_ns: f64,
}

/// Results of a round.
#[derive(Clone, Debug)]
pub(crate) struct RoundOutcome {
    pub(crate) ops: u64,
    pub(crate) denied: u64,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Number of operations in each timed group; `times` are those of whole groups.
    pub(crate) group: u64,
    pub(crate) times: Times,
    /// Store accesses before the final flush.
    pub(crate) running: StoreAccount,
    /// Store accesses including the final flush.
    pub(crate) account: StoreAccount,
    pub(crate) achieved: AchievedDelay,
    /// Number of times the flusher has checked all keys.
    pub(crate) looks: u64,
    /// Difference between the store and the tallies, in units.
    pub(crate) wrong: u64,
}

/// Summary of the measured times of a round: keeping the whole histogram would take more memory than what is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    percentiles_ns: [u64; PERCENTILES.len()],
    /// Number of times longer than five times the median.
    long: u64,
}

/// Percentiles kept in [`Times`].
const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

impl Times {
    pub(crate) fn of(times: &Histogram<u64>) -> Self {
        let bound = times.value_at_quantile(0.5).saturating_mul(5).saturating_add(1);
        let is_none = times.is_empty() || bound > times.max();
        Self {
            percentiles_ns: PERCENTILES.map(|percentile| times.value_at_quantile(percentile / 100.0)),
            long: if is_none { 0 } else { times.count_between(bound, HIGHEST_NS) },
        }
    }
}

impl RoundOutcome {
    /// Checks that the store agrees with the tallies; otherwise the round fails.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        if self.wrong == 0 {
            return Ok(());
        }
        Err(RunError::Account(format!("the store is wrong by {} units after {} operations", self.wrong, self.ops)))
    }

    pub(crate) fn ops_per_sec(&self) -> f64 {
        self.ops as f64 / self.wall.as_secs_f64()
    }

    pub(crate) fn cpu_ns_per_op(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.ops as f64
    }

    /// Returns a percentile of the time of one operation, in nanoseconds: the smallest kept percentile that is not
    /// below the requested one.
    pub(crate) fn latency_ns(&self, percentile: f64) -> f64 {
        let at = PERCENTILES.iter().position(|kept| *kept >= percentile).unwrap_or(PERCENTILES.len() - 1);
        self.times.percentiles_ns[at] as f64 / self.group as f64
    }

    /// Returns the number of timed groups that took longer than five times the median.
    pub(crate) const fn long(&self) -> u64 {
        self.times.long
    }
}

/// Runs a round; returns `None` if the run was stopped meanwhile.
///
/// # Errors
/// [`RunError`] if a process cannot be spawned or the store fails.
pub(crate) fn round<C: Counter<S>, S: CounterStore>(
    runtime: &Handle,
    stop: &StopFlag,
    meters: &mut RecorderPool<'_>,
    load: CounterLoad,
    store: &Arc<S>,
    options: C::Options,
    achieved: impl Fn(&S) -> AchievedDelay,
) -> Result<Option<RoundOutcome>, RunError> {
    let lacks = |error: &dyn std::fmt::Display| RunError::Lacks(error.to_string());
    let of_keys = load.flags.keys.saturating_mul(KEY_BYTES + load.flags.crdt.replicas as u64 * REPLICA_BYTES);
    check_memory(of_keys.saturating_add(load.flags.workers.saturating_mul(WORKER_BYTES)))?;
    let counters = Counters::<C, S>::with_store(runtime, Arc::clone(store), options).map_err(|error| lacks(&error))?;
    let before = store.account();
    // A run of many keys and workers can be ended while it begins.
    let begins = (0..load.flags.keys).take_while(|_| !stop.is_set());
    let keys: Result<Arc<[Arc<C>]>, _> = begins.map(|key| counters.counter(&format!("key-{key}"), INITIAL)).collect();
    let keys = keys.map_err(|error| lacks(&error))?;
    let start_value: i64 = keys.iter().map(|key| key.value()).sum();
    let (sender, receiver) = mpsc::channel();
    let mut workers = Vec::new();
    for number in (0..load.flags.workers).take_while(|_| !stop.is_set()) {
        let share = load.flags.ops / load.flags.workers + u64::from(number < load.flags.ops % load.flags.workers);
        let worker = Worker {
            number: number as usize,
            keys: Arc::clone(&keys),
            load,
            share,
            random: XorShiftStar::new(splitmix64(load.flags.seed.wrapping_add(number.wrapping_mul(GOLDEN))) | 1),
            stop: stop.clone(),
            recorder: meters.recorder(),
        };
        let sender = sender.clone();
        workers.push(runtime.spawn(move |ctx| async move { sender.send(worker.work(&ctx).await) })?);
    }
    drop(sender);
    let (start, cpu) = (Instant::now(), process_cpu());
    for worker in workers {
        // A worker that has crashed is missing from the tallies, which is checked below.
        drop(runtime.try_send(worker, StartSignal));
    }
    let mut tallies = Vec::new();
    for tally in receiver {
        let (tally, recorder) = tally.map_err(|error| lacks(&error))?;
        meters.give_back(recorder);
        tallies.push(tally);
    }
    let (wall, cpu) = (start.elapsed(), process_cpu().saturating_sub(cpu));
    let (running, looks) = (store.account().since(&before), counters.checks());
    let (stop_sender, stopped) = mpsc::channel();
    runtime.spawn(move |_| async move { stop_sender.send(counters.stop().await) })?;
    stopped.recv().map_err(|error| lacks(&error))?.map_err(|error| lacks(&error))?;
    if stop.is_set() || tallies.len() as u64 != load.flags.workers {
        return Ok(None);
    }
    let net: i64 = tallies.iter().map(|tally| tally.net).sum();
    let mut end_value = 0;
    for key in 0..load.flags.keys {
        end_value += store.slot(&format!("key-{key}"), 0).map_err(|error| lacks(&error))?.value();
    }
    let mut times = histogram();
    for tally in &tallies {
        times += &tally.times;
    }
    Ok(Some(RoundOutcome {
        ops: tallies.iter().map(|tally| tally.ops).sum(),
        denied: tallies.iter().map(|tally| tally.denied).sum(),
        wall,
        cpu,
        group: load.group(),
        times: Times::of(&times),
        running,
        account: store.account().since(&before),
        achieved: achieved(store),
        looks,
        wrong: if load.adds_up { (start_value - net - end_value).unsigned_abs() } else { 0 },
    }))
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("the bounds and the digits are valid")
}

/// Recorders for the workers, reused from round to round.
pub(crate) struct RecorderPool<'a> {
    own: &'a Recorder,
    idle: &'a mut Vec<Recorder>,
}

impl<'a> RecorderPool<'a> {
    pub(crate) const fn new(own: &'a Recorder, idle: &'a mut Vec<Recorder>) -> Self {
        Self { own, idle }
    }

    fn recorder(&mut self) -> Recorder {
        self.idle.pop().unwrap_or_else(|| self.own.another())
    }

    fn give_back(&mut self, recorder: Recorder) {
        self.idle.push(recorder);
    }
}

impl CounterLoad {
    /// Returns the number of operations timed together.
    const fn group(&self) -> u64 {
        if self.waits { 1 } else { GROUP }
    }

    /// Returns the sampling interval in groups: one group in this many is timed; 0 turns timing off.
    fn every(&self) -> u64 {
        let groups = if self.waits { 1 } else { GROUPS };
        match self.flags.sample_every {
            0 => 0,
            every => groups.max(every / self.group()),
        }
    }
}

struct StartSignal;

struct Worker<C> {
    number: usize,
    keys: Arc<[Arc<C>]>,
    load: CounterLoad,
    share: u64,
    random: XorShiftStar,
    stop: StopFlag,
    recorder: Recorder,
}

struct Tally {
    ops: u64,
    denied: u64,
    net: i64,
    times: Histogram<u64>,
}

impl<C> Worker<C> {
    async fn work<S: CounterStore>(
        mut self,
        ctx: &Context,
    ) -> Result<(Tally, Recorder), rusm_runtime::counter::CounterStoreError>
    where
        C: Counter<S>,
    {
        let mut tally = Tally { ops: 0, denied: 0, net: 0, times: histogram() };
        ctx.receive_of::<StartSignal>().await;
        let Flags { duration, keys, churn, .. } = self.load.flags;
        let (group, every) = (self.load.group(), self.load.every());
        // The share of negative operations, scaled to the range of the lower 32 bits of a random word.
        let negative = (churn << 32) / 100;
        let deadline = (!duration.is_zero()).then(|| Instant::now() + duration);
        // Stagger the samples, so that the workers do not all time at once.
        let mut countdown = every.min(1 + self.number as u64);
        let turn = if self.load.waits { group } else { TURN };
        while !self.stop.is_set() {
            let mut left = turn;
            if deadline.is_none() {
                left = left.min(self.share - tally.ops);
            } else if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            if left == 0 {
                break;
            }
            let before = tally.ops;
            while left > 0 {
                let count = left.min(group);
                let is_timed = countdown == 1 && count == group;
                countdown = if countdown <= 1 { every } else { countdown - 1 };
                let begun = is_timed.then(Instant::now);
                for _ in 0..count {
                    let word = self.random.next();
                    let key = (((word >> 32) * keys) >> 32) as usize;
                    let units = if (word & 0xffff_ffff) < negative { -1 } else { 1 };
                    match self.keys[key].update_by(self.number, units).await? {
                        Admission::Granted => tally.net += units,
                        Admission::Denied => tally.denied += 1,
                    }
                }
                if let Some(begun) = begun {
                    let took = begun.elapsed().as_nanos() as f64 - self.load.clock_ns;
                    tally.times.saturating_record(took.max(1.0) as u64);
                    self.recorder.latency((took / group as f64).max(1.0) as u64);
                }
                tally.ops += count;
                left -= count;
            }
            self.recorder.count(tally.ops - before);
            if !self.load.waits {
                ctx.yield_now().await;
            }
        }
        Ok((tally, self.recorder))
    }
}
