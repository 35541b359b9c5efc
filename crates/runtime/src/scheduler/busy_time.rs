//! Measures the CPU time of processes without reading the clock at every poll.
//!
//! A clock read costs about as much as a whole short poll. So polls are timed in two ways. The way is selected before
//! the poll, which keeps both unbiased:
//!
//! - **every poll** of a process that recently had long polls, and the first poll after a scheduler was idle;
//! - **one poll in N on average**, at random distances, of all others, counted N times. N follows the mean duration of a
//!   poll: where polls take 16 µs or more, every one is timed; where they take a tenth of a microsecond, one in 128.
//!
//! ```text
//!   sample:  read ─ poll ─ read ─ dispatch ─ read ─ unsampled polls, counted ─ read ─ poll ─ ...
//!                 └── p ──┘    └──── d ────┘    └───── c for each poll ─────┘
//! ```
//!
//! A timed poll takes longer than one that is not timed: the clock is read inside of it, and the processor cannot overlap
//! it with its neighbours. So the sum of `p` and `d`, as measured, is scaled to `c`, the time of a poll and its dispatch
//! without any read between them. A long poll counts only the time that the scheduler had a core.
//!
//! When the unsampled polls between two samples took far longer than short polls do, all processes among them become
//! suspects and are timed exactly until they prove to be short. If a poll was cut short for taking too long, its process
//! is counted exactly from the next poll on.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::shared::Counters;
use crate::process::header::bump;
use crate::process::table::Slot;

/// Largest mean distance between sampled polls, and therefore the largest weight of one.
const INTERVAL_MAX: u32 = 128;
/// Distance before anything is known about the polls.
const INTERVAL_FIRST: u32 = 16;
/// Time of polls for which two or three clock reads are cheap: half a per cent of it.
const SAMPLED_NS: u64 = 16_000;
/// Distance from which on the cost of reading the clock matters, and is calibrated.
const CALIBRATED_INTERVAL: u32 = 32;
/// Duration of a poll from which on its process is timed exactly.
const LONG_NS: u64 = 5_000;
/// Number of exactly timed polls that must be short before a process is sampled again.
const EXACT_POLLS: u8 = 16;
/// Time of unsampled polls from which on their processes are suspects.
const SUSPICIOUS_NS: u64 = 100_000;
/// Of a poll of this duration or more, only the time on a core counts.
const PREEMPTIBLE_NS: u64 = 250_000;
/// A sampled poll of this duration or more is not multiplied: most likely, the thread lost its core in a short one.
const UNWEIGHTED_NS: u64 = 1_000_000;
/// [`ProcessHeader::exact_polls_left`](crate::process::header::ProcessHeader::exact_polls_left) after such a poll.
const AFTER_PREEMPTIBLE: u8 = EXACT_POLLS + 1;
/// Number of idle stretches after a long poll for which another one is expected.
const LONG_EXPECTED: u32 = 64;
const SUSPECTS: usize = 2 * INTERVAL_MAX as usize;
/// Number of pairs of poll and dispatch after which the sums of the calibration are halved.
const CALIBRATION_PAIRS: u64 = 2_048;
/// Number of pairs from which on a calibration is used.
const CALIBRATION_PAIRS_MIN: u64 = 32;
/// One, as a factor of the calibration.
const SCALE_ONE: u64 = 1 << 10;

/// The clocks of a scheduler's thread.
pub(crate) trait Clock {
    /// Returns the time since the start of the runtime, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// Returns the CPU time of this thread, in nanoseconds. A call of the system.
    fn cpu_ns(&self) -> u64;
}

/// The clocks of the system.
pub(crate) struct SystemClock(Instant);

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn cpu_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }
}

/// Measures the CPU time of the processes of one scheduler.
pub(crate) struct BusyTimer<C = SystemClock> {
    clock: C,
    /// Cost of one clock read, in nanoseconds.
    read_ns: u64,
    /// Number of unsampled polls until the next sample.
    countdown: Cell<u32>,
    /// Countdown at the last check for suspects.
    counted_from: Cell<u32>,
    /// Mean distance that the countdown was drawn for: the weight of the next sample.
    weight: Cell<u32>,
    /// Mean duration of a poll and its dispatch, in nanoseconds; 0 if unknown.
    mean_ns: Cell<u64>,
    /// End of the last timed stretch.
    last_ns: Cell<u64>,
    /// Start of the last sample; 0 if the polls since then are not comparable.
    sampled_at_ns: Cell<u64>,
    /// A sampled poll whose dispatch is still to be timed: its duration and its end. The end is 0 if something else came
    /// between.
    open_pair: Cell<Option<(u64, u64)>>,
    /// Start of the unsampled polls since the last pair, and their number; 0 if they are not comparable.
    stretch: Cell<(u64, u32)>,
    calibration: Calibration,
    /// Time and CPU time at the start of the running long poll, or at the end of the last one; zero after an idle stretch.
    on_core: Cell<(u64, u64)>,
    /// Number of idle stretches after which long polls are not expected any more.
    long_expected: Cell<u32>,
    /// Processes of the unsampled polls, indexed by the countdown after the poll.
    suspects: [Cell<Option<Slot>>; SUSPECTS],
    random: Cell<u32>,
}

/// Timing of the next poll.
#[derive(Clone, Copy)]
pub(crate) enum Timing {
    /// Not timed.
    Skipped,
    /// Timed from this instant, counted this number of times.
    From(u64, u32),
}

/// Sums of timed pairs of poll and dispatch, and of unsampled polls with their dispatches.
#[derive(Default)]
struct Calibration {
    pairs: Cell<u64>,
    pairs_ns: Cell<u64>,
    polls: Cell<u64>,
    polls_ns: Cell<u64>,
}

impl Calibration {
    fn add(of: &Cell<u64>, by: u64) {
        of.set(of.get() + by);
    }

    fn pair(&self, ns: u64) {
        Self::add(&self.pairs, 1);
        Self::add(&self.pairs_ns, ns);
        if self.pairs.get() >= CALIBRATION_PAIRS {
            // Old pairs count less than new ones.
            for sum in [&self.pairs, &self.pairs_ns, &self.polls, &self.polls_ns] {
                sum.set(sum.get() / 2);
            }
        }
    }

    fn unsampled(&self, polls: u32, ns: u64) {
        Self::add(&self.polls, polls.into());
        Self::add(&self.polls_ns, ns);
    }

    /// Returns the time of an unsampled poll and its dispatch relative to that of a timed one, at most 1, in units of
    /// [`SCALE_ONE`].
    fn scale(&self) -> u64 {
        let (pairs, polls) = (self.pairs.get(), self.polls.get());
        if pairs < CALIBRATION_PAIRS_MIN || polls == 0 {
            return SCALE_ONE;
        }
        let scale = SCALE_ONE * pairs * self.polls_ns.get() / (polls * self.pairs_ns.get()).max(1);
        scale.clamp(SCALE_ONE / 8, SCALE_ONE)
    }
}

impl BusyTimer {
    pub(crate) fn new(started: Instant, seed: u32) -> Self {
        Self::with_clock(SystemClock(started), seed)
    }
}

impl<C: Clock> BusyTimer<C> {
    pub(super) fn with_clock(clock: C, seed: u32) -> Self {
        let read_ns = read_cost(&clock);
        Self {
            clock,
            read_ns,
            countdown: Cell::new(0),
            counted_from: Cell::new(0),
            weight: Cell::new(1),
            mean_ns: Cell::new(0),
            last_ns: Cell::new(0),
            sampled_at_ns: Cell::new(0),
            open_pair: Cell::new(None),
            stretch: Cell::new((0, 0)),
            calibration: Calibration::default(),
            on_core: Cell::new((0, 0)),
            long_expected: Cell::new(0),
            suspects: [const { Cell::new(None) }; SUSPECTS],
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9) | 1),
        }
    }

    /// Returns the nanoseconds since the start of the runtime.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the time that was read last: at the start of the slice, or of a timed poll.
    pub(crate) const fn last_ns(&self) -> u64 {
        self.last_ns.get()
    }

    /// Restarts the measurement after an idle stretch or a turn of the reactor.
    pub(crate) fn resume(&self, now_ns: u64, was_idle: bool) {
        self.last_ns.set(now_ns);
        self.counted_from.set(self.countdown.get());
        self.interrupt();
        if was_idle {
            // Reading the CPU time is a call of the system: only where polls were long recently.
            let long_expected = self.long_expected.get();
            self.long_expected.set(long_expected.saturating_sub(1));
            self.on_core.set(if long_expected == 0 { (0, 0) } else { (now_ns, self.clock.cpu_ns()) });
        }
    }

    /// Ends a stretch of work. Returns the current time.
    pub(crate) fn pause(&self) -> u64 {
        let now_ns = self.now_ns();
        self.flag_suspects(now_ns);
        now_ns
    }

    /// Discards what was measured since the last sample: something else than unsampled polls came between.
    fn interrupt(&self) {
        self.sampled_at_ns.set(0);
        self.open_pair.set(self.open_pair.get().map(|_| (0, 0)));
        self.stretch.set((0, 0));
    }

    /// Decides how the next poll of the process in `slot` is timed; `first` after an idle stretch.
    #[inline]
    pub(crate) fn begin_poll(&self, slot: Slot, first: bool) -> Timing {
        let exact_polls = slot.header().exact_polls_left.load(Ordering::Relaxed);
        if first || exact_polls != 0 {
            return self.exact(exact_polls);
        }
        let countdown = self.countdown.get();
        if countdown != 0 {
            let countdown = countdown - 1;
            self.countdown.set(countdown);
            self.suspects[countdown as usize % SUSPECTS].set(Some(slot));
            return Timing::Skipped;
        }
        self.sample()
    }

    fn exact(&self, exact_polls: u8) -> Timing {
        self.interrupt();
        let now_ns = self.now_ns();
        if exact_polls == AFTER_PREEMPTIBLE {
            self.on_core.set((now_ns, self.clock.cpu_ns()));
        }
        Timing::From(now_ns, 1)
    }

    #[cold]
    fn sample(&self) -> Timing {
        let now_ns = self.now_ns();
        if let Some((poll_ns, end_ns)) = self.open_pair.take() {
            let pair_ns = poll_ns + (now_ns - end_ns).saturating_sub(self.read_ns);
            if end_ns != 0 && pair_ns < LONG_NS {
                self.calibration.pair(pair_ns);
            }
            // This poll is an unsampled one, and is counted with those that follow.
            let countdown = self.draw(2 * (self.weight.get() - 2) + 1);
            self.stretch.set((now_ns, countdown + 1));
            return Timing::Skipped;
        }
        self.flag_suspects(now_ns);
        let (since_ns, polls) = self.stretch.replace((0, 0));
        if since_ns != 0 && now_ns - since_ns < SUSPICIOUS_NS {
            self.calibration.unsampled(polls, (now_ns - since_ns).saturating_sub(self.read_ns));
        }
        let weight = self.weight.get();
        let sampled_at_ns = self.sampled_at_ns.replace(now_ns);
        if sampled_at_ns != 0 {
            // On average, `weight` polls lie between two samples.
            let mean_ns = (now_ns - sampled_at_ns) / u64::from(weight);
            let known_ns = self.mean_ns.get();
            self.mean_ns.set(if known_ns == 0 { mean_ns } else { (7 * known_ns + mean_ns) / 8 }.max(1));
        }
        Timing::From(now_ns, weight)
    }

    /// Draws the number of unsampled polls before the next sample, uniform below `end`.
    fn draw(&self, end: u32) -> u32 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        let countdown = random % end;
        self.countdown.set(countdown);
        self.counted_from.set(countdown);
        countdown
    }

    /// Decides after a sample how far away the next one is.
    fn schedule_sample(&self, poll_ns: u64, end_ns: u64) {
        let interval = match self.mean_ns.get() {
            0 => INTERVAL_FIRST,
            mean_ns => (SAMPLED_NS / mean_ns).clamp(1, INTERVAL_MAX.into()) as u32,
        };
        self.weight.set(interval);
        if interval >= CALIBRATED_INTERVAL {
            // The next poll begins with a read that ends the dispatch of this one.
            self.countdown.set(0);
            self.counted_from.set(0);
            self.open_pair.set(Some((poll_ns, end_ns)));
        } else {
            self.draw(2 * interval - 1);
        }
    }

    /// Times all processes since the last sample exactly, if together they took too long for short polls.
    fn flag_suspects(&self, now_ns: u64) {
        let countdown = self.countdown.get();
        let counted_from = self.counted_from.replace(countdown);
        if now_ns - self.last_ns.get() <= SUSPICIOUS_NS {
            return;
        }
        for suspect in self.suspects.get(countdown as usize..counted_from as usize).unwrap_or_default() {
            if let Some(slot) = suspect.get() {
                // Some may have ended since. Then another process is timed exactly for a while, which is harmless.
                slot.header().exact_polls_left.store(EXACT_POLLS, Ordering::Relaxed);
            }
        }
    }

    /// Marks the running poll of the process in `slot` as long. Its next polls are timed exactly, and the clock is read
    /// soon.
    pub(crate) fn mark_long(&self, slot: Slot) {
        if slot.header().exact_polls_left.swap(EXACT_POLLS, Ordering::Relaxed) == 0 {
            self.countdown.set(0);
            self.counted_from.set(0);
            self.interrupt();
            // Sampled out of turn, so counted once, and without the second half of an earlier sample.
            self.open_pair.set(None);
            self.weight.set(1);
        }
    }

    /// Accounts for a timed poll of the process in `slot`, which is still running. Returns the end of the poll.
    #[inline]
    pub(crate) fn end_poll(&self, slot: Slot, timing: Timing, counters: &Counters) -> Option<u64> {
        let Timing::From(start_ns, weight) = timing else {
            return None;
        };
        let now_ns = self.now_ns();
        let took_ns = (now_ns - start_ns).saturating_sub(self.read_ns);
        self.last_ns.set(now_ns);
        let header = slot.header();
        let busy_ns = if took_ns >= UNWEIGHTED_NS || (took_ns >= PREEMPTIBLE_NS && weight == 1) {
            self.on_core_ns(took_ns, now_ns)
        } else if weight >= CALIBRATED_INTERVAL {
            took_ns * u64::from(weight) * self.calibration.scale() / SCALE_ONE
        } else {
            took_ns * u64::from(weight)
        };
        bump(&header.busy_ns, busy_ns);
        bump(&counters.poll_ns, busy_ns);
        let exact_polls = header.exact_polls_left.load(Ordering::Relaxed);
        if exact_polls != 0 {
            header.exact_polls_left.store(exact_polls - 1, Ordering::Relaxed);
        } else if self.countdown.get() == 0 && self.sampled_at_ns.get() == start_ns {
            self.schedule_sample(took_ns, now_ns);
        }
        if took_ns >= LONG_NS {
            let left = if took_ns >= PREEMPTIBLE_NS { AFTER_PREEMPTIBLE } else { EXACT_POLLS };
            header.exact_polls_left.store(left, Ordering::Relaxed);
        }
        Some(now_ns)
    }

    /// Returns the part of a long poll for which the scheduler had a core.
    ///
    /// The other polls since the start of the measurement were short. If that was not long ago, the time without a core
    /// was in this one, else it was spread over all of them.
    fn on_core_ns(&self, took_ns: u64, now_ns: u64) -> u64 {
        let cpu_ns = self.clock.cpu_ns();
        let (since_ns, cpu_before_ns) = self.on_core.replace((now_ns, cpu_ns));
        self.long_expected.set(LONG_EXPECTED);
        if since_ns == 0 {
            return took_ns;
        }
        let elapsed_ns = (now_ns - since_ns).max(1);
        let without_core_ns = elapsed_ns.saturating_sub(cpu_ns - cpu_before_ns);
        if elapsed_ns / 4 <= took_ns {
            took_ns.saturating_sub(without_core_ns)
        } else {
            took_ns - (took_ns as f64 * (without_core_ns as f64 / elapsed_ns as f64)) as u64
        }
    }
}

/// Returns the cost of one clock read: the lowest mean of a few series.
fn read_cost(clock: &impl Clock) -> u64 {
    const READS: u64 = 16;
    let series = || {
        let start_ns = clock.now_ns();
        let end_ns = (0..READS).map(|_| clock.now_ns()).last().unwrap_or(start_ns);
        (end_ns - start_ns) / READS
    };
    (0..4).map(|_| series()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests;
