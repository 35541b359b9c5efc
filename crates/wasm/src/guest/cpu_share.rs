//! CPU share of a guest: a guest that exceeds its share pauses.
//!
//! ```text
//!   its turn ─ no debt ─▶ it runs until it waits or its epoch ends ─▶ owes the time it ran, less its share
//!           └ debt ─▶ it pauses until it may run for a tick again
//! ```
//!
//! Epochs interrupt a guest that runs without a pause, so it owes a tick or two. Host calls and memory fills, in which
//! no epoch ends, add to the debt as well. Unused time is saved, up to two ticks' worth, so a guest that mostly waits
//! never pauses.

use std::future::Future;
use std::pin::Pin;
use std::task::Context as TaskContext;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::guest::guest_info::GuestInfo;
use rusm_runtime::embed::guest::waits_for_time;

/// Maximum running time that a guest may save, in ticks.
const SAVED_TICKS_MAX: i64 = 2;

/// CPU share of one guest.
pub(crate) struct CpuShare {
    debt: CpuDebt,
    pause: Option<Pin<Box<Sleep>>>,
}

impl CpuShare {
    /// Creates a share of `percent`, 1 to 100; `None` for 100.
    pub(crate) fn new(percent: u8, tick: Duration) -> Option<Box<Self>> {
        let some = || Box::new(Self { debt: CpuDebt::new(percent, tick, Instant::now()), pause: None });
        (percent < 100).then(some)
    }

    /// Returns true if the guest may run now; otherwise wakes its process when it may.
    #[inline(never)]
    pub(crate) fn may_run(&mut self, cx: &mut TaskContext<'_>, info: &GuestInfo) -> bool {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(cx).is_pending() {
                    waits_for_time();
                    return false;
                }
                self.pause = None;
            }
            self.debt.credit(Instant::now());
            let Some(pause) = self.debt.pause() else { return true };
            info.count_pause();
            self.pause = Some(Box::pin(tokio::time::sleep(pause)));
        }
    }

    /// Records that the guest ran since `may_run` returned true.
    #[inline(never)]
    pub(crate) fn charge(&mut self) {
        self.debt.charge(Instant::now());
    }
}

/// Debt of a guest, in nanoseconds of running time; negative if it has saved time.
struct CpuDebt {
    percent: i64,
    tick_ns: i64,
    debt_ns: i64,
    as_of: Instant,
}

impl CpuDebt {
    fn new(percent: u8, tick: Duration, now: Instant) -> Self {
        let tick_ns = tick.as_nanos() as i64;
        Self { percent: percent.into(), tick_ns, debt_ns: -SAVED_TICKS_MAX * tick_ns, as_of: now }
    }

    /// Credits the guest's share of the time that passed without it.
    fn credit(&mut self, now: Instant) {
        let passed_ns = self.until(now);
        self.debt_ns = (self.debt_ns - passed_ns * self.percent / 100).max(-SAVED_TICKS_MAX * self.tick_ns);
    }

    /// Charges the time that the guest ran until now, less its share of that time.
    fn charge(&mut self, now: Instant) {
        let ran_ns = self.until(now);
        self.debt_ns += ran_ns - ran_ns * self.percent / 100;
    }

    fn until(&mut self, now: Instant) -> i64 {
        let passed = now.saturating_duration_since(std::mem::replace(&mut self.as_of, now));
        // Avoids an overflow below; a longer time pays off any debt.
        passed.min(Duration::from_secs(1_000_000)).as_nanos() as i64
    }

    /// Returns how long a guest with a debt must pause.
    fn pause(&self) -> Option<Duration> {
        let wait_ns = (self.debt_ns + self.tick_ns) * 100 / self.percent;
        (self.debt_ns > 0).then(|| Duration::from_nanos(wait_ns as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Simulates a guest that always wants to run, in slices of `slice`, with pauses that end late by `late`; returns
    /// its share in percent.
    fn share_of(percent: u8, slice: Duration, late: Duration) -> f64 {
        let begin = Instant::now();
        let mut debt = CpuDebt::new(percent, MS, begin);
        let (mut now, mut ran) = (begin, Duration::ZERO);
        while now < begin + 20_000 * MS {
            debt.credit(now);
            if let Some(pause) = debt.pause() {
                now += pause + late;
                continue;
            }
            now += slice;
            ran += slice;
            debt.charge(now);
        }
        100.0 * ran.as_secs_f64() / (now - begin).as_secs_f64()
    }

    #[test]
    fn a_guest_that_always_wants_to_run_gets_its_share_whatever_its_slices() {
        for percent in [1, 10, 25, 50, 90, 99] {
            for slice in [MS / 100, MS / 3, MS, 2 * MS] {
                let share = share_of(percent, slice, Duration::ZERO);
                assert!((share - f64::from(percent)).abs() < 0.5, "{share} of {percent} % in slices of {slice:?}");
            }
        }
    }

    #[test]
    fn rests_that_take_a_little_too_long_are_made_good() {
        for percent in [1, 10, 25, 50] {
            let share = share_of(percent, MS, MS);
            assert!((share - f64::from(percent)).abs() < 0.5, "{share} of {percent} %");
        }
    }

    #[test]
    fn a_guest_that_mostly_waits_never_rests() {
        let mut now = Instant::now();
        let mut debt = CpuDebt::new(25, MS, now);
        for _ in 0..10_000 {
            debt.credit(now);
            assert_eq!(debt.pause(), None);
            now += MS / 10;
            debt.charge(now);
            now += MS;
        }
    }

    #[test]
    fn what_is_left_over_is_two_ticks_worth_however_long_it_waited() {
        let now = Instant::now();
        let mut debt = CpuDebt::new(50, MS, now);
        let later = now + Duration::from_hours(1);
        debt.credit(later);
        // Half of five ticks: two and a half ticks of debt, less the two that were saved.
        debt.charge(later + 5 * MS);
        assert_eq!(debt.pause(), Some(3 * MS));
    }

    #[test]
    fn a_share_of_all_is_none() {
        assert!(CpuShare::new(100, MS).is_none() && CpuShare::new(99, MS).is_some());
    }
}
