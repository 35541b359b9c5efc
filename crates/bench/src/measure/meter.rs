//! Counts and times operations at a cost low enough for operations of 50 ns.
//!
//! ```text
//!   worker ── Recorder ──▶ WorkerCounters: ops, errors, dropped; a cache line of their own, plain stores
//!                │
//!                └ begin ── one in N, at random distances ──▶ Stamp ── end / Probe::end ──▶ Latencies
//! ```
//!
//! Every operation is counted. Timing one costs two clock reads; if that exceeds 5 % of an operation, only a random
//! sample is timed. The distance to the next timed operation is drawn anew each time, so the sample cannot synchronise
//! with anything periodic in the load.
//!
//! Cost of a scenario without a meter -> with one, in CPU ns per operation (interleaved, median of 7, 2 cores,
//! release): spawn-storm 43.2 -> 45.3, ping-pong with one pair 54.5 -> 57.8, with 64 pairs 55.9 -> 58.6.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::measure::latency::Latencies;
use crate::measure::rng::{XorShift, splitmix64};

/// Largest sampling interval: at least one operation in this many is timed.
pub(crate) const SAMPLING_MAX: u32 = 1024;
/// If timing costs at most this fraction of an operation, every operation is timed.
const TIMING_ALL_SHARE: f64 = 0.05;
/// Cost of timing, as a fraction of an operation, if only a sample is timed. Lower than [`TIMING_ALL_SHARE`], because
/// counting and the longer duration of timed operations add to it; the total stays below 5 %.
const TIMING_SHARE: f64 = 0.03;

/// Sums and latencies of all recorders of a run.
pub struct Meter {
    pub(crate) latencies: Latencies,
    /// Delays between intended and actual start of operations in an open loop.
    pub(crate) lags: Latencies,
    /// Parts of the latencies, for scenarios that measure them separately.
    pub(crate) latency_parts: OnceLock<LatencyParts>,
    workers: Mutex<Vec<Arc<WorkerCounters>>>,
    outside: OnceLock<Outside>,
    outside_errors: OnceLock<Outside>,
    sampling: AtomicU32,
    /// Additional cost of timing an operation, beyond the clock reads, in nanoseconds.
    timing_extra_ns: AtomicU32,
    seed: u64,
}

/// Parts of a latency, measured separately by some scenarios.
pub(crate) struct LatencyParts {
    /// Service times: from the actual start of an operation to its end.
    pub(crate) services: Latencies,
    /// Start delays of operations that nothing blocked: the load generator's own lag.
    pub(crate) pacer: Latencies,
}

/// Counters of one worker, written only by that worker.
#[derive(Default)]
#[repr(align(128))]
struct WorkerCounters {
    ops: AtomicU64,
    errors: AtomicU64,
    dropped: AtomicU64,
    peak_live: AtomicU64,
}

/// A counter maintained outside the recorders, and its value at the start.
struct Outside {
    count: Box<dyn Fn() -> u64 + Send + Sync>,
    start: u64,
}

/// Sums of all counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) ops: u64,
    pub(crate) errors: u64,
    pub(crate) dropped: u64,
    pub(crate) peak_live: u64,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("sums", &self.sums()).field("sampling", &self.sampling()).finish_non_exhaustive()
    }
}

impl Meter {
    /// Creates a meter for workers on `threads` threads that times one operation in `sampling`.
    pub(crate) fn new(threads: usize, sampling: u32, seed: u64) -> Self {
        Self {
            latencies: Latencies::new(threads),
            lags: Latencies::new(threads),
            latency_parts: OnceLock::new(),
            workers: Mutex::default(),
            outside: OnceLock::new(),
            outside_errors: OnceLock::new(),
            sampling: AtomicU32::new(sampling),
            timing_extra_ns: AtomicU32::new(0),
            seed,
        }
    }

    /// Creates a recorder for another worker.
    pub fn recorder(self: &Arc<Self>) -> Recorder {
        let counters = Arc::new(WorkerCounters::default());
        let mut workers = self.workers.lock();
        workers.push(Arc::clone(&counters));
        let mut recorder = Recorder {
            counters,
            ops: 0,
            errors: 0,
            dropped: 0,
            peak_live: 0,
            countdown: 0,
            random: XorShift::new(splitmix64(self.seed.wrapping_add(workers.len() as u64)) | 1),
            meter: Arc::clone(self),
        };
        recorder.draw();
        recorder
    }

    /// Returns the number of recorders created; each has at most one operation in flight.
    pub(crate) fn workers(&self) -> usize {
        self.workers.lock().len()
    }

    /// Counts operations with an external counter, starting from its present value.
    ///
    /// Only the first call has an effect. The counts of recorders are added to it.
    pub fn count_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        self.outside.get_or_init(|| Outside { start: count(), count: Box::new(count) });
    }

    /// Counts failed operations with an external counter, in the same way as [`count_by`](Self::count_by).
    pub fn fail_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        self.outside_errors.get_or_init(|| Outside { start: count(), count: Box::new(count) });
    }

    /// Starts measuring the parts of latencies separately, for `threads` writers.
    pub(crate) fn init_latency_parts(&self, threads: usize) -> &LatencyParts {
        self.latency_parts
            .get_or_init(|| LatencyParts { services: Latencies::new(threads), pacer: Latencies::new(threads) })
    }

    /// Sets the additional cost of timing an operation, beyond the two clock reads; the higher it is, the fewer
    /// operations are timed.
    pub fn timing_costs(&self, extra_ns: u32) {
        self.timing_extra_ns.store(extra_ns, Ordering::Relaxed);
    }

    /// Returns the additional cost of timing an operation, beyond the clock reads, in nanoseconds.
    pub(crate) fn timing_extra_ns(&self) -> f64 {
        self.timing_extra_ns.load(Ordering::Relaxed).into()
    }

    /// Returns the sampling interval: one operation in this many is timed.
    pub(crate) fn sampling(&self) -> u32 {
        self.sampling.load(Ordering::Relaxed)
    }

    /// Sets the sampling interval; each recorder uses it from its next timed operation on.
    pub(crate) fn set_sampling(&self, sampling: u32) {
        self.sampling.store(sampling, Ordering::Relaxed);
    }

    /// Returns the sums of all counters.
    pub(crate) fn sums(&self) -> Sums {
        let workers = self.workers.lock();
        let since = |outside: &Outside| (outside.count)().saturating_sub(outside.start);
        let zero = Sums {
            ops: self.outside.get().map_or(0, since),
            errors: self.outside_errors.get().map_or(0, since),
            ..Sums::default()
        };
        workers.iter().fold(zero, |sums, counters| Sums {
            ops: sums.ops + counters.ops.load(Ordering::Relaxed),
            errors: sums.errors + counters.errors.load(Ordering::Relaxed),
            dropped: sums.dropped + counters.dropped.load(Ordering::Relaxed),
            peak_live: sums.peak_live.max(counters.peak_live.load(Ordering::Relaxed)),
        })
    }
}

/// Returns the sampling interval for operations of `op_ns` if timing one costs `timing_ns`.
pub(crate) fn sampling_for(timing_ns: f64, op_ns: f64) -> u32 {
    if timing_ns <= TIMING_ALL_SHARE * op_ns {
        return 1;
    }
    let wanted = timing_ns / (TIMING_SHARE * op_ns);
    // NaN, before any operation has run, saturates as well.
    (wanted.min(f64::from(SAMPLING_MAX)).ceil() as u32).max(1).next_power_of_two()
}

/// Start time of an operation; empty for the operations that are not timed, which are most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp(Option<Instant>);

impl Stamp {
    /// Encodes the start time for a payload, in nanoseconds since `base`; 0 if the operation is not timed.
    pub(crate) fn to_ns(self, base: Instant) -> u64 {
        self.0.map_or(0, |began| began.saturating_duration_since(base).as_nanos() as u64 + 1)
    }

    /// Decodes a stamp from a payload.
    pub(crate) fn from_ns(base: Instant, ns: u64) -> Self {
        Self(ns.checked_sub(1).map(|ns| base + Duration::from_nanos(ns)))
    }

    /// Returns true if the operation is timed.
    #[inline]
    pub const fn is_timed(&self) -> bool {
        self.0.is_some()
    }
}

/// Counts and times the operations of one worker.
pub struct Recorder {
    counters: Arc<WorkerCounters>,
    ops: u64,
    errors: u64,
    dropped: u64,
    peak_live: u64,
    /// Number of operations until the next timed one.
    countdown: u32,
    random: XorShift,
    meter: Arc<Meter>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("ops", &self.ops).finish_non_exhaustive()
    }
}

impl Recorder {
    /// Counts finished operations.
    #[inline]
    pub fn count(&mut self, ops: u64) {
        self.ops += ops;
        // Relaxed, here and below: only this worker writes, and the reader only sums.
        self.counters.ops.store(self.ops, Ordering::Relaxed);
    }

    /// Counts failed operations.
    pub fn fail(&mut self, errors: u64) {
        self.errors += errors;
        self.counters.errors.store(self.errors, Ordering::Relaxed);
    }

    /// Counts operations dropped by a policy.
    pub fn drop_ops(&mut self, dropped: u64) {
        self.dropped += dropped;
        self.counters.dropped.store(self.dropped, Ordering::Relaxed);
    }

    /// Records the peak number of live processes seen by this worker.
    ///
    /// The count is a difference of two sums read one after the other; it is too high if the reader was preempted
    /// between them. Therefore a new peak is limited to the value of a second reading.
    #[inline]
    pub fn saw_live(&mut self, live: u64, look_again: impl FnOnce() -> u64) {
        if live > self.peak_live {
            self.peak_live = self.peak_live.max(live.min(look_again()));
            self.counters.peak_live.store(self.peak_live, Ordering::Relaxed);
        }
    }

    /// Begins an operation of a closed loop, and times it if it is in the sample.
    #[inline]
    pub fn begin(&mut self) -> Stamp {
        if self.is_due() { Stamp(Some(Instant::now())) } else { Stamp(None) }
    }

    /// Begins an operation of an open loop with the intended start time `intended`.
    #[inline]
    pub(crate) fn begin_at(&mut self, intended: impl FnOnce() -> Instant) -> Stamp {
        if !self.is_due() {
            return Stamp(None);
        }
        let intended = intended();
        let lag = Instant::now().saturating_duration_since(intended);
        self.meter.lags.add(lag.as_nanos() as u64);
        Stamp(Some(intended))
    }

    /// Ends an operation, which any recorder may have begun.
    #[inline]
    pub fn end(&self, stamp: Stamp) {
        if let Some(began) = stamp.0 {
            self.meter.add(began);
        }
    }

    /// Adds a latency that was measured elsewhere, for example by a guest, if it is in the sample.
    #[inline]
    pub fn latency(&mut self, ns: u64) {
        if self.is_due() {
            self.meter.latencies.add(ns);
        }
    }

    /// Creates a recorder for another worker of the same run.
    pub fn another(&self) -> Self {
        self.meter.recorder()
    }

    /// Creates a probe for a process that only ends operations of this worker.
    pub fn probe(&self) -> Probe {
        Probe(Arc::clone(&self.meter))
    }

    #[inline]
    fn is_due(&mut self) -> bool {
        self.countdown -= 1;
        self.countdown == 0 && self.draw()
    }

    /// Draws the distance to the next timed operation, uniformly from 1 to twice the mean minus one.
    #[cold]
    fn draw(&mut self) -> bool {
        let span = u64::from(2 * self.meter.sampling() - 1);
        self.countdown = 1 + (((self.random.next() >> 32) * span) >> 32) as u32;
        true
    }
}

impl Meter {
    #[cold]
    fn add(&self, began: Instant) {
        self.latencies.add(began.elapsed().as_nanos() as u64);
    }
}

/// Handle of a process that only ends operations; created by [`Recorder::probe`].
#[derive(Clone, Debug)]
pub struct Probe(Arc<Meter>);

impl Probe {
    /// Ends an operation.
    #[inline]
    pub fn end(&self, stamp: Stamp) {
        if let Some(began) = stamp.0 {
            self.0.add(began);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distances(meter: &Arc<Meter>, samples: usize) -> Vec<u32> {
        let mut recorder = meter.recorder();
        let mut distance = 0;
        std::iter::from_fn(|| {
            loop {
                distance += 1;
                if recorder.begin().is_timed() {
                    return Some(std::mem::take(&mut distance));
                }
            }
        })
        .take(samples)
        .collect()
    }

    #[test]
    fn the_counters_of_all_workers_add_up() {
        let meter = Arc::new(Meter::new(1, 1, 1));
        let mut workers = [meter.recorder(), meter.recorder()];

        for worker in &mut workers {
            worker.count(2);
            worker.fail(1);
            worker.drop_ops(3);
        }
        workers[0].saw_live(90, || 7);
        workers[1].saw_live(5, || 6);

        let expected = Sums { ops: 4, errors: 2, dropped: 6, peak_live: 7 };
        assert_eq!(meter.sums(), expected);
    }

    #[test]
    fn a_count_kept_elsewhere_counts_from_where_it_stood() {
        let meter = Meter::new(1, 1, 1);
        let elsewhere = Arc::new(AtomicU64::new(100));
        let [count, failed] = [Arc::clone(&elsewhere), Arc::clone(&elsewhere)];
        meter.count_by(move || count.load(Ordering::Relaxed));
        meter.fail_by(move || failed.load(Ordering::Relaxed) / 2);

        elsewhere.store(142, Ordering::Relaxed);

        assert_eq!((meter.sums().ops, meter.sums().errors), (42, 21));
    }

    #[test]
    fn sampling_of_one_times_every_operation() {
        let meter = Arc::new(Meter::new(1, 1, 1));

        assert_eq!(distances(&meter, 100), [1; 100]);
    }

    #[test]
    fn timed_operations_lie_at_uneven_distances_of_the_right_mean() {
        let meter = Arc::new(Meter::new(1, 64, 1));

        let seen = distances(&meter, 20_000);

        let mean = seen.iter().map(|distance| f64::from(*distance)).sum::<f64>() / 20_000.0;
        assert!((mean - 64.0).abs() < 1.5, "{mean}");
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&1), Some(&127)));
    }

    #[test]
    fn two_workers_draw_unlike_distances_and_a_seed_repeats_them() {
        let draw = |seed| {
            let meter = Arc::new(Meter::new(1, 64, seed));
            (distances(&meter, 50), distances(&meter, 50))
        };

        assert_ne!(draw(1).0, draw(1).1);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn operations_far_longer_than_the_clock_are_all_timed() {
        assert_eq!(sampling_for(60.0, 2_000.0), 1);
        assert_eq!((sampling_for(60.0, 1_200.0), sampling_for(60.0, 1_199.0)), (1, 2));
        assert_eq!(sampling_for(60.0, 50.0), 64);
        assert_eq!(sampling_for(60.0, f64::NAN), SAMPLING_MAX);
        assert_eq!(sampling_for(60.0, 0.0), SAMPLING_MAX);
    }

    proptest! {
        #[test]
        fn timing_never_costs_more_than_its_share(timing in 1.0_f64..1_000.0, op in 10.0_f64..1e6) {
            let sampling = sampling_for(timing, op);

            let share = if sampling == 1 { TIMING_ALL_SHARE } else { TIMING_SHARE };
            prop_assert!(sampling == SAMPLING_MAX || timing / f64::from(sampling) <= share * op);
        }
    }
}
