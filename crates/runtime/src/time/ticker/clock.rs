//! The clock that tickers follow, and sleeps until one of its instants.
//!
//! `CLOCK_MONOTONIC`: it does not jump when the time of day is set, and does not run while the machine is suspended, so
//! no ticks become due meanwhile. A sleep is always until an instant: the errors of relative sleeps would add up.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::thread::{ClockId, clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};

use crate::time::override_stack::OverrideStack;

/// A shorter wait spins: the system call to sleep takes longer. In nanoseconds.
pub(super) const SLEEP_MIN_NS: u64 = 200;
/// Time before the end of [`sleep_precise`] at which it wakes up and spins, in nanoseconds.
const PRECISE_SPIN_NS: u64 = 10_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Returns the time in nanoseconds since boot.
#[inline]
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(SECOND_NS).wrapping_add(now.tv_nsec as u64)
}

fn instant(ns: u64) -> Timespec {
    Timespec { tv_sec: i64::try_from(ns / SECOND_NS).unwrap_or(i64::MAX), tv_nsec: (ns % SECOND_NS).cast_signed() }
}

/// Sleeps until an instant.
pub(crate) fn sleep_until(ns: u64) {
    // A signal ends a sleep early. Any other error would repeat forever, and the caller checks the clock.
    while clock_nanosleep_absolute(ClockId::Monotonic, &instant(ns)) == Err(Errno::INTR) {}
}

/// Spins until an instant, or until `enough` returns true; returns the time.
#[inline]
pub(crate) fn spin_until(ns: u64, enough: impl Fn() -> bool) -> u64 {
    loop {
        let now = now_ns();
        if now >= ns || enough() {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Sleeps until an instant or without limit, while `word` is `seen` and until [`wake`] is called.
pub(crate) fn wait_on(word: &AtomicU32, seen: u32, until_ns: Option<u64>) {
    let until = until_ns.map(instant);
    // Every result means that the wait is over: timeout, signal, changed value or wake-up. The caller checks.
    futex::wait_bitset(word, futex::Flags::PRIVATE, seen, until.as_ref(), NonZeroU32::MAX).ok();
}

/// Wakes the thread that waits on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // Fails only for an invalid address.
    futex::wake(word, futex::Flags::PRIVATE, 1).ok();
}

thread_local! {
    /// Slacks requested on this thread.
    static SLACKS: RefCell<OverrideStack<NonZeroU64>> = const { RefCell::new(OverrideStack::new()) };
}

/// Timer slack of this thread while this exists: how late the kernel may wake it. A thread's default is 50 µs.
///
/// If there are several, the newest applies. Has no effect if the kernel refuses: sleeps are then as late as before.
#[derive(Debug)]
pub(crate) struct Slack {
    id: Option<u64>,
    /// Not `Send`: the setting that it has changed belongs to this thread.
    _thread: PhantomData<*const ()>,
}

impl Slack {
    pub(crate) fn set(ns: u64) -> Self {
        let wanted = NonZeroU64::new(ns).unwrap_or(NonZeroU64::MIN);
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        let before = before.filter(|_| set_current_timer_slack(Some(wanted)).is_ok());
        let id = before.map(|before| SLACKS.with_borrow_mut(|slacks| slacks.add(before, wanted)));
        Self { id, _thread: PhantomData }
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        // A thread that is ending needs no restored slack.
        let left = self.id.and_then(|id| SLACKS.try_with(|slacks| slacks.borrow_mut().remove(id)).ok().flatten());
        if left.is_some() {
            // Cannot fail: setting it succeeded before.
            set_current_timer_slack(left).ok();
        }
    }
}

/// Blocks this thread for `delay`, with a precision of some microseconds: for delays far below the precision of
/// `thread::sleep`.
///
/// Sleeps with the smallest slack until shortly before the end, and spins for the rest, 10 µs at most. Must not be used
/// on a scheduler's thread: a process has [`Context::sleep_precise`](crate::Context::sleep_precise).
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::{Duration, Instant};
/// use rusm::ticker::sleep_precise;
///
/// let start = Instant::now();
/// sleep_precise(Duration::from_micros(50));
/// assert!(start.elapsed() >= Duration::from_micros(50));
/// ```
pub fn sleep_precise(delay: Duration) {
    let until = now_ns().saturating_add(u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX));
    if delay > Duration::from_nanos(PRECISE_SPIN_NS) {
        let _slack = Slack::set(1);
        sleep_until(until.saturating_sub(PRECISE_SPIN_NS));
    }
    spin_until(until, || false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_never_too_short_whatever_the_instant() {
        let before = now_ns();

        sleep_until(before.saturating_sub(5));
        sleep_until(before + 1_000_000);

        assert!(now_ns() >= before + 1_000_000);
    }

    #[test]
    fn it_is_the_clock_that_nobody_sets_and_that_stands_still_with_the_machine() {
        let nanos = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec.cast_unsigned() * SECOND_NS + time.tv_nsec.cast_unsigned()
        };

        let (before, now, after) = (nanos(ClockId::Monotonic), now_ns(), nanos(ClockId::Monotonic));

        assert!(before <= now && now <= after);
    }

    #[test]
    fn the_slack_of_a_thread_is_given_back() {
        let before = current_timer_slack().unwrap();

        let slack = Slack::set(1);
        assert_eq!(current_timer_slack().unwrap(), 1);
        drop(slack);

        assert_eq!(current_timer_slack().unwrap(), before);
    }

    #[test]
    fn slacks_are_given_back_in_any_order() {
        let before = current_timer_slack().unwrap();

        let (first, second) = (Slack::set(1), Slack::set(2_000));
        drop(first);
        assert_eq!(current_timer_slack().unwrap(), 2_000);
        drop(second);

        assert_eq!(current_timer_slack().unwrap(), before);
    }

    #[test]
    fn whoever_waits_on_a_word_sees_its_change() {
        let word = AtomicU32::new(1);

        wait_on(&word, 0, None);
        wait_on(&word, 1, Some(now_ns() + 1_000));

        assert_eq!(word.into_inner(), 1);
    }
}
