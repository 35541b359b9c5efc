//! How long processes are busy, without reading the clock for each poll.
//!
//! A clock read costs about as much as a whole short poll. So polls are timed in two ways, and which one is decided
//! before the poll, which keeps both unbiased:
//!
//! - **every poll** of a process that was seen to be long lately, and the first poll after a scheduler was idle;
//! - **one poll in 64 on average**, at random distances, of all others, counted 64 times.
//!
//! When the unsampled polls between two samples took far longer than short polls do, all processes among them become
//! suspects and are timed exactly until they turn out to be short. A process with long polls is thus counted exactly
//! from its second long poll on, and one whose poll was cut short because it took too long from the next on.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::cell::bump;
use crate::slab::Slot;

/// Mean distance of sampled polls, and so the weight of each.
const DISTANCE: u32 = 64;
/// A poll this long makes its process worth timing exactly.
const LONG_NS: u64 = 5_000;
/// Exactly timed polls that must be short before a process is sampled again.
const PATIENCE: u8 = 16;
/// Time of unsampled polls that raises suspicion.
const SUSPICIOUS_NS: u64 = 100_000;
/// A sampled poll this long is not multiplied.
const RARE_NS: u64 = 50_000;
const SUSPECTS: usize = 128;

/// One scheduler's stopwatch.
pub(crate) struct Stopwatch {
    started: Instant,
    /// Unsampled polls until the next sample.
    countdown: Cell<u32>,
    /// Where the countdown stood when nobody was suspected.
    counted_from: Cell<u32>,
    /// The end of the last timed stretch, in nanoseconds since the start of the runtime.
    last_ns: Cell<u64>,
    /// Whose unsampled poll it was, by what the countdown stood at afterwards.
    suspects: [Cell<Option<Slot>>; SUSPECTS],
    random: Cell<u32>,
}

/// How the coming poll is timed.
#[derive(Clone, Copy)]
pub(crate) enum Timing {
    /// Not at all.
    Skipped,
    /// From this instant, to count this many times.
    From(u64, u32),
}

impl Stopwatch {
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

    /// Nanoseconds since the start of the runtime.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Starts anew after an idle stretch or a turn of the reactor.
    pub(crate) fn resume(&self, now_ns: u64) {
        self.last_ns.set(now_ns);
        self.counted_from.set(self.countdown.get());
    }

    /// Ends a stretch of work; returns the instant.
    pub(crate) fn pause(&self) -> u64 {
        let now_ns = self.now_ns();
        self.suspect(now_ns);
        now_ns
    }

    /// Decides about the coming poll of the process in `slot`; `first` after an idle stretch.
    #[inline]
    pub(crate) fn before(&self, slot: Slot, first: bool) -> Timing {
        if first || slot.cell().timed.load(Ordering::Relaxed) != 0 {
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
        self.suspect(now_ns);
        // Uniform on 0..=126 unsampled polls before the next sample: a mean distance of 64.
        let countdown = random % (2 * DISTANCE - 1);
        self.countdown.set(countdown);
        self.counted_from.set(countdown);
        Timing::From(now_ns, DISTANCE)
    }

    /// Has all processes since the last sample timed exactly if together they took too long for short polls.
    fn suspect(&self, now_ns: u64) {
        let countdown = self.countdown.get();
        let counted_from = self.counted_from.replace(countdown);
        if now_ns - self.last_ns.get() <= SUSPICIOUS_NS {
            return;
        }
        for suspect in self.suspects.get(countdown as usize..counted_from as usize).unwrap_or_default() {
            if let Some(slot) = suspect.get() {
                // Some may have ended or moved on; then another process is timed exactly for a while, which is harmless.
                slot.cell().timed.store(PATIENCE, Ordering::Relaxed);
            }
        }
    }

    /// The poll of the process in `slot`, which still runs, is known to be a long one: so are its next ones, and the clock
    /// is read soon.
    #[cfg(feature = "wasm")]
    pub(crate) fn is_long(&self, slot: Slot) {
        if slot.cell().timed.swap(PATIENCE, Ordering::Relaxed) == 0 {
            self.countdown.set(0);
            self.counted_from.set(0);
        }
    }

    /// Accounts for a timed poll of the process in `slot`, which still runs; returns the instant of its end.
    #[inline]
    pub(crate) fn after(&self, slot: Slot, timing: Timing) -> Option<u64> {
        let Timing::From(start_ns, weight) = timing else {
            return None;
        };
        let now_ns = self.now_ns();
        let took_ns = now_ns - start_ns;
        self.last_ns.set(now_ns);
        let cell = slot.cell();
        // A long poll is not multiplied: it is rare until it is seen, and timed exactly from then on.
        let weight = if took_ns >= RARE_NS { 1 } else { weight };
        bump(&cell.busy_ns, took_ns * u64::from(weight));
        let patience = cell.timed.load(Ordering::Relaxed);
        if took_ns >= LONG_NS {
            cell.timed.store(PATIENCE, Ordering::Relaxed);
        } else if patience != 0 {
            cell.timed.store(patience - 1, Ordering::Relaxed);
        }
        Some(now_ns)
    }
}
