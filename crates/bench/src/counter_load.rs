//! A round of the seed's harness on real processes: what all scenarios of counters measure.
//!
//! ```text
//!   workers, a process each ── wait for "go" ──▶ update a random key, ±1 by churn ──▶ tally
//!                                                    └ one group of operations in some is timed
//!   all have ended ──▶ the keeper stores what is left ──▶ the store has what the workers say ──▶ Outcome
//! ```
//!
//! Each operation draws its key and its sign anew from its worker's generator, so a round is a random walk and no drift,
//! and a seed repeats it. What the store does not have at the end is an error and no result.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rusm_runtime::counter::{Account, AchievedDelay, Admission, Counter, CounterStore, Counters};
use rusm_runtime::{Context, Handle};

use crate::counter_flags::Flags;
use crate::latency::HIGHEST_NS;
use crate::meter::Recorder;
use crate::run::RunError;
use crate::stage::StopFlag;
use crate::usage::process_cpu;

/// Operations that a worker does before it looks at the clock and lets others run.
const TURN: u64 = 2_048;
/// Operations that are timed together when one is shorter than the clock can tell.
const GROUP: u64 = 16;
/// Groups of which one is timed then.
const GROUPS: u64 = 32;
/// The value that keys begin with.
const INITIAL: i64 = 1_000_000;

/// What a round does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) flags: Flags,
    /// Whether an operation waits for the store.
    pub(crate) waits: bool,
    /// Whether values must add up: those of buckets come back by themselves.
    pub(crate) adds_up: bool,
    /// Two reads of the clock.
    pub(crate) clock_ns: f64,
}

/// What came out of a round.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) ops: u64,
    pub(crate) denied: u64,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    /// Operations in one timed thing, and their times.
    pub(crate) group: u64,
    pub(crate) times: Times,
    /// What the store was asked for before the final flush.
    pub(crate) running: Account,
    /// And after it.
    pub(crate) account: Account,
    pub(crate) achieved: AchievedDelay,
    /// Times that the keeper has looked at all keys.
    pub(crate) looks: u64,
    /// Units by which the store is wrong.
    pub(crate) wrong: u64,
}

/// What is kept of the times of a round: all of them would take more memory than what is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    percentiles_ns: [u64; PERCENTILES.len()],
    /// Those that took more than five times as long as the one in the middle.
    long: u64,
}

/// The percentiles that are kept.
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

impl Outcome {
    /// Whether every unit is where it belongs; without that there is no result.
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

    /// A percentile of the time of one operation, in nanoseconds; one of those that are kept, or the next above.
    pub(crate) fn latency_ns(&self, percentile: f64) -> f64 {
        let at = PERCENTILES.iter().position(|kept| *kept >= percentile).unwrap_or(PERCENTILES.len() - 1);
        self.times.percentiles_ns[at] as f64 / self.group as f64
    }

    /// Timed things that took more than five times as long as the one in the middle.
    pub(crate) const fn long(&self) -> u64 {
        self.times.long
    }
}

/// Runs a round; `None` if it was told to stop meanwhile.
///
/// # Errors
/// [`RunError`] when the runtime has no room, or the store does not do what it is asked.
pub(crate) fn round<C: Counter<S>, S: CounterStore>(
    runtime: &Handle,
    stop: &StopFlag,
    meters: &mut Meters<'_>,
    load: Load,
    store: &Arc<S>,
    options: C::Options,
    achieved: impl Fn(&S) -> AchievedDelay,
) -> Result<Option<Outcome>, RunError> {
    let lacks = |error: &dyn std::fmt::Display| RunError::Lacks(error.to_string());
    let counters = Counters::<C, S>::over(runtime, Arc::clone(store), options).map_err(|error| lacks(&error))?;
    let before = store.account();
    let keys: Result<Arc<[Arc<C>]>, _> =
        (0..load.flags.keys).map(|key| counters.counter(&format!("key-{key}"), INITIAL)).collect();
    let keys = keys.map_err(|error| lacks(&error))?;
    let start_value: i64 = keys.iter().map(|key| key.value()).sum();
    let (tell, told) = mpsc::channel();
    let mut workers = Vec::new();
    for number in 0..load.flags.workers {
        let share = load.flags.ops / load.flags.workers + u64::from(number < load.flags.ops % load.flags.workers);
        let worker = Worker {
            number: number as usize,
            keys: Arc::clone(&keys),
            load,
            share,
            random: Random::new(load.flags.seed, number),
            stop: stop.clone(),
            recorder: meters.recorder(),
        };
        let tell = tell.clone();
        workers.push(runtime.spawn(move |ctx| async move { tell.send(worker.work(&ctx).await) })?);
    }
    drop(tell);
    let (start, cpu) = (Instant::now(), process_cpu());
    for worker in workers {
        // One that has crashed is missed below.
        drop(runtime.try_send(worker, Go));
    }
    let mut tallies = Vec::new();
    for tally in told {
        let (tally, recorder) = tally.map_err(|error| lacks(&error))?;
        meters.give_back(recorder);
        tallies.push(tally);
    }
    let (wall, cpu) = (start.elapsed(), process_cpu().saturating_sub(cpu));
    let (running, looks) = (store.account().since(&before), counters.looks());
    let (say, said) = mpsc::channel();
    runtime.spawn(move |_| async move { say.send(counters.stop().await) })?;
    said.recv().map_err(|error| lacks(&error))?.map_err(|error| lacks(&error))?;
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
    Ok(Some(Outcome {
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

/// The recorders of workers, which outlive a round.
pub(crate) struct Meters<'a> {
    own: &'a Recorder,
    idle: &'a mut Vec<Recorder>,
}

impl<'a> Meters<'a> {
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

impl Load {
    /// Operations that are timed together.
    const fn group(&self) -> u64 {
        if self.waits { 1 } else { GROUP }
    }

    /// Of so many groups one is timed; 0 is none.
    fn every(&self) -> u64 {
        let groups = if self.waits { 1 } else { GROUPS };
        match self.flags.sample_every {
            0 => 0,
            every => groups.max(every / self.group()),
        }
    }
}

struct Go;

struct Worker<C> {
    number: usize,
    keys: Arc<[Arc<C>]>,
    load: Load,
    share: u64,
    random: Random,
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
    ) -> Result<(Tally, Recorder), rusm_runtime::counter::StoreError>
    where
        C: Counter<S>,
    {
        let mut tally = Tally { ops: 0, denied: 0, net: 0, times: histogram() };
        ctx.receive_of::<Go>().await;
        let Flags { duration, keys, churn, .. } = self.load.flags;
        let (group, every) = (self.load.group(), self.load.every());
        // A share of all that a half of the generator's word can be.
        let negative = (churn << 32) / 100;
        let deadline = (!duration.is_zero()).then(|| Instant::now() + duration);
        // Workers do not time all at once.
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

/// A generator of one word of state: fast, and good enough for keys and signs (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64, worker: u64) -> Self {
        // splitmix64, so that neighbours do unlike things.
        let mixed = seed.wrapping_add(worker.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((mixed ^ (mixed >> 31)) | 1)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
