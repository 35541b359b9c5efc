//! Measures the busy time of processes without reading the clock at every poll.
//!
//! A clock read costs about as much as a whole short poll. So polls are timed in two ways. The way is selected before
//! the poll, which keeps both unbiased:
//!
//! - **every poll** of a process that recently had long polls, and the first poll after a scheduler was idle;
//! - **one poll in 64 on average**, at random distances, of all others, counted 64 times.
//!
//! When the unsampled polls between two samples took far longer than short polls do, all processes among them become
//! suspects and are timed exactly until they prove to be short. A process with long polls is thus counted exactly from
//! its second long poll on. If a poll was cut short for taking too long, its process is counted exactly from the next
//! poll on.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::process::header::bump;
use crate::process::table::Slot;

/// Mean distance between sampled polls, and therefore the weight of each.
const SAMPLE_INTERVAL: u32 = 64;
/// Duration of a poll from which on its process is timed exactly.
const LONG_NS: u64 = 5_000;
/// Number of exactly timed polls that must be short before a process is sampled again.
const EXACT_POLLS: u8 = 16;
/// Time of unsampled polls from which on their processes are suspects.
const SUSPICIOUS_NS: u64 = 100_000;
/// A sampled poll of this duration or more is not multiplied.
const UNWEIGHTED_MIN_NS: u64 = 50_000;
const SUSPECTS: usize = 128;

/// Measures the busy time of the processes of one scheduler.
pub(crate) struct BusyTimer {
    started: Instant,
    /// Number of unsampled polls until the next sample.
    countdown: Cell<u32>,
    /// Countdown at the last check for suspects.
    counted_from: Cell<u32>,
    /// End of the last timed stretch, in nanoseconds since the start of the runtime.
    last_ns: Cell<u64>,
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

impl BusyTimer {
    pub(crate) fn new(started: Instant, seed: u32) -> Self {
        Self {
            started,
            countdown: Cell::new(0),
            counted_from: Cell::new(0),
            last_ns: Cell::new(0),
            suspects: [const { Cell::new(None) }; SUSPECTS],
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9) | 1),
        }
    }

    /// Returns the nanoseconds since the start of the runtime.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Restarts the measurement after an idle stretch or a turn of the reactor.
    pub(crate) fn resume(&self, now_ns: u64) {
        self.last_ns.set(now_ns);
        self.counted_from.set(self.countdown.get());
    }

    /// Ends a stretch of work. Returns the current time.
    pub(crate) fn pause(&self) -> u64 {
        let now_ns = self.now_ns();
        self.flag_suspects(now_ns);
        now_ns
    }

    /// Decides how the next poll of the process in `slot` is timed; `first` after an idle stretch.
    #[inline]
    pub(crate) fn begin_poll(&self, slot: Slot, first: bool) -> Timing {
        if first || slot.header().exact_polls_left.load(Ordering::Relaxed) != 0 {
            return Timing::From(self.now_ns(), 1);
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

    #[cold]
    fn sample(&self) -> Timing {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        let now_ns = self.now_ns();
        self.flag_suspects(now_ns);
        // Uniform on 0..=126 unsampled polls before the next sample: a mean distance of 64.
        let countdown = random % (2 * SAMPLE_INTERVAL - 1);
        self.countdown.set(countdown);
        self.counted_from.set(countdown);
        Timing::From(now_ns, SAMPLE_INTERVAL)
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
        }
    }

    /// Accounts for a timed poll of the process in `slot`, which is still running. Returns the end of the poll.
    #[inline]
    pub(crate) fn end_poll(&self, slot: Slot, timing: Timing) -> Option<u64> {
        let Timing::From(start_ns, weight) = timing else {
            return None;
        };
        let now_ns = self.now_ns();
        let took_ns = now_ns - start_ns;
        self.last_ns.set(now_ns);
        let header = slot.header();
        // A long poll is not multiplied: it is rare until it is noticed, and timed exactly from then on.
        let weight = if took_ns >= UNWEIGHTED_MIN_NS { 1 } else { weight };
        bump(&header.busy_ns, took_ns * u64::from(weight));
        let exact_polls = header.exact_polls_left.load(Ordering::Relaxed);
        if took_ns >= LONG_NS {
            header.exact_polls_left.store(EXACT_POLLS, Ordering::Relaxed);
        } else if exact_polls != 0 {
            header.exact_polls_left.store(exact_polls - 1, Ordering::Relaxed);
        }
        Some(now_ns)
    }
}
