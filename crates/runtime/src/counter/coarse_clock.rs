//! A clock that costs one load while it is read millions of times per second, and reads the system clock otherwise.
//!
//! ```text
//!   now ── ticking? ── yes ──▶ the instant of the last tick, at most 100 µs ago
//!             └ no ──▶ CLOCK_MONOTONIC ── the last 1,024 readings took less than 1 ms? ──▶ wake the ticking thread
//!   rusm-clock: ticks every 50 µs, until the clock was not read for 10 ms
//! ```
//!
//! Reading the system clock takes 25 ns, several times the rest of a limiter's work. While the ticking thread is
//! descheduled, the time does not advance: limiters then admit later, but never more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use crossbeam_utils::CachePadded;

use crate::time::ticker::clock;

/// Time between two ticks, in nanoseconds.
const TICK_NS: u64 = 50_000;
/// Number of system clock readings between two checks of their rate.
const READINGS: u32 = 1_024;
/// Ticking is cheaper if `READINGS` readings take less than this time, in nanoseconds.
const READINGS_NS: u64 = 1_000_000;
/// Number of ticks without a reading after which ticking stops.
const IDLE_TICKS: u32 = 200;

/// A clock that ticks on its own thread while it is read often. Clones share the same clock.
#[derive(Clone)]
pub(crate) struct CoarseClock(Arc<ClockOwner>);

struct ClockOwner {
    shared: Arc<ClockState>,
    thread: parking_lot::Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct ClockState {
    /// Time of the last tick; 0 while not ticking.
    tick_ns: CachePadded<AtomicU64>,
    /// True if a tick was read since the last tick.
    was_read: CachePadded<AtomicBool>,
    readings: CachePadded<AtomicU32>,
    since_ns: AtomicU64,
    /// Futex word that changes whenever the thread has work to do.
    wake_word: AtomicU32,
    stopped: AtomicBool,
}

impl CoarseClock {
    /// Creates a clock without a thread; the thread is started once it saves time.
    pub(crate) fn new() -> Self {
        Self(Arc::new(ClockOwner { shared: Arc::default(), thread: parking_lot::Mutex::default() }))
    }

    /// Returns the time in nanoseconds since boot; never 0.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        let shared = &self.0.shared;
        // Relaxed: no other data depends on this word.
        let tick_ns = shared.tick_ns.load(Ordering::Relaxed);
        if tick_ns == 0 {
            return self.0.read();
        }
        if !shared.was_read.load(Ordering::Relaxed) {
            shared.was_read.store(true, Ordering::Relaxed);
        }
        tick_ns
    }

    /// Returns true while the clock ticks.
    #[cfg(test)]
    fn ticks(&self) -> bool {
        self.0.shared.tick_ns.load(Ordering::Relaxed) != 0
    }
}

impl ClockOwner {
    /// Reads the system clock, and starts ticking if it was read often lately.
    fn read(&self) -> u64 {
        let now_ns = clock::now_ns();
        let shared = &self.shared;
        // Readings by several threads may be counted as one: only the order of magnitude matters.
        let readings = shared.readings.load(Ordering::Relaxed) + 1;
        shared.readings.store(readings % READINGS, Ordering::Relaxed);
        if readings >= READINGS {
            let since_ns = shared.since_ns.swap(now_ns, Ordering::Relaxed);
            if now_ns.saturating_sub(since_ns) < READINGS_NS {
                self.start();
            }
        }
        now_ns
    }

    #[cold]
    fn start(&self) {
        let Some(mut thread) = self.thread.try_lock() else { return };
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            // If the thread cannot be started, the system clock stays in use.
            *thread = Builder::new().name("rusm-clock".to_owned()).spawn(move || shared.tick()).ok();
        }
        self.shared.wake_word.fetch_add(1, Ordering::Release);
        clock::wake(&self.shared.wake_word);
    }
}

impl Drop for ClockOwner {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        self.shared.wake_word.fetch_add(1, Ordering::Release);
        clock::wake(&self.shared.wake_word);
        if let Some(thread) = self.thread.get_mut().take() {
            // The thread never panics.
            drop(thread.join());
        }
    }
}

impl ClockState {
    fn tick(&self) {
        let _slack = clock::Slack::set(1);
        let mut last_seen = 0;
        while !self.stopped.load(Ordering::Acquire) {
            let wake_word = self.wake_word.load(Ordering::Acquire);
            if wake_word == last_seen {
                clock::wait_on(&self.wake_word, wake_word, None);
                continue;
            }
            last_seen = wake_word;
            self.tick_until_idle();
        }
    }

    fn tick_until_idle(&self) {
        let mut idle = 0;
        while idle < IDLE_TICKS && !self.stopped.load(Ordering::Relaxed) {
            let now_ns = clock::now_ns();
            self.tick_ns.store(now_ns.max(1), Ordering::Relaxed);
            clock::sleep_until(now_ns + TICK_NS);
            idle = if self.was_read.swap(false, Ordering::Relaxed) { 0 } else { idle + 1 };
        }
        self.tick_ns.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_ticks_when_it_is_asked_often_follows_the_true_clock_and_rests_again() {
        let clock = CoarseClock::new();
        let deadline = Instant::now() + Duration::from_mins(1);

        while !clock.ticks() {
            assert!(clock.now_ns() > 0 && Instant::now() < deadline);
        }
        // The ticking thread may be descheduled for a while, so the smallest lag of many readings counts.
        let lag = || clock::now_ns().saturating_sub(clock.now_ns());
        while lag() > 2 * TICK_NS {
            assert!(Instant::now() < deadline);
        }
        while clock.ticks() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }

    #[test]
    fn it_never_runs_ahead() {
        let clock = CoarseClock::new();

        for _ in 0..100_000 {
            let seen = clock.now_ns();
            assert!(seen <= clock::now_ns());
        }
    }
}
