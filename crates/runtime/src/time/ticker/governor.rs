//! Decides how long to spin before a deadline: as long as the kernel is late, and not at all if the thread is
//! preempted.
//!
//! ```text
//!   start, or preemption ──▶ rest: no spin, until 0.1 s in a row have gone well ──▶ spin = 1.25 × lateness, ≤ 40 µs
//!                             ▲        (twice as long each time, up to 6.4 s)         │
//!                             └──────────── woken over 100 µs late: a preemption ◀────┘
//! ```
//!
//! A thread that spins on a busy core uses up its share and is preempted, so spinning makes it later; if it took a
//! preemption for jitter, it would spin even longer. One preemption costs as many ticks as a time slice is long, so
//! even finding out is expensive: the governor begins with a rest, and a preemption during a rest restarts it. Never
//! reads a clock.

/// A longer lateness is not jitter. In nanoseconds.
const PREEMPTED_NS: u64 = 100_000;
/// Longest spin, in nanoseconds.
const SPIN_MAX_NS: u64 = 40_000;
/// Time without preemptions before it spins, in nanoseconds, and how often that may double.
const REST_MIN_NS: u64 = 100_000_000;
const REST_DOUBLINGS: u32 = 6;
/// Smallest number of ticks in a rest: for slow tickers, fewer would say nothing.
const REST_MIN: u32 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Governor {
    /// Lateness of the kernel in nanoseconds, as an upper estimate.
    late_ns: u64,
    /// Remaining ticks without spinning.
    rest: u32,
    /// Length of the next rest, in ticks.
    next_rest: u32,
    /// Length of the shortest rest, in ticks.
    rest_min: u32,
    /// Ticks spun since the last rest, or since the next rest was last shortened.
    good: u32,
}

impl Governor {
    /// Creates a governor for a ticker with this period.
    pub(super) fn new(period_ns: u64) -> Self {
        // At most a hundred million ticks, for a period of a nanosecond.
        let rest_min = ((REST_MIN_NS / period_ns.max(1)) as u32).max(REST_MIN);
        Self { late_ns: 4_000, rest: rest_min, next_rest: rest_min, rest_min, good: 0 }
    }

    /// Returns the time to spin before the next deadline, in nanoseconds.
    pub(super) fn spin_ns(&mut self) -> u64 {
        if self.rest > 0 {
            self.rest -= 1;
            return 0;
        }
        self.good += 1;
        if self.good >= self.rest_min {
            self.next_rest = (self.next_rest / 2).max(self.rest_min);
            self.good = 0;
        }
        (self.late_ns + self.late_ns / 4).min(SPIN_MAX_NS)
    }

    /// Learns from a sleep that ended `late_ns` after the requested instant.
    pub(super) fn woke(&mut self, late_ns: u64) {
        if late_ns >= PREEMPTED_NS {
            self.back_off();
        } else if late_ns > self.late_ns {
            self.late_ns += (late_ns - self.late_ns).div_ceil(4);
        } else {
            self.late_ns -= (self.late_ns - late_ns) / 32;
        }
    }

    /// Learns that a deadline had passed by `late_ns` before the sleep began, or during a spin.
    pub(super) fn overran(&mut self, late_ns: u64) {
        if late_ns >= PREEMPTED_NS {
            self.back_off();
        }
    }

    fn back_off(&mut self) {
        if self.rest == 0 {
            self.next_rest = self.next_rest.saturating_mul(2).min(self.rest_min << REST_DOUBLINGS);
        }
        self.rest = self.next_rest;
        self.good = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::rng::splitmix64;
    use proptest::prelude::*;

    use super::*;

    const PERIOD_NS: u64 = 100_000;

    /// Creates a governor at 10 kHz that has rested.
    fn rested() -> Governor {
        let mut governor = Governor::new(PERIOD_NS);
        assert_eq!(ticks_of_rest(&mut governor), 1_000);
        governor
    }

    fn ticks_of_rest(governor: &mut Governor) -> usize {
        (0..10_000_000).take_while(|_| governor.spin_ns() == 0).count()
    }

    #[test]
    fn it_spins_a_little_longer_than_the_kernel_is_late() {
        let mut governor = rested();

        (0..100).for_each(|_| governor.woke(12_000));

        assert!((14_900..=15_000).contains(&governor.spin_ns()), "{governor:?}");
        (0..1_000).for_each(|_| governor.woke(90_000));
        assert_eq!(governor.spin_ns(), SPIN_MAX_NS);
    }

    #[test]
    fn a_preemption_stops_the_spinning_for_a_while_and_the_next_for_twice_as_long() {
        let mut governor = rested();

        governor.woke(3_000_000);
        assert_eq!(ticks_of_rest(&mut governor), 2_000);
        governor.overran(3_000_000);
        assert_eq!(ticks_of_rest(&mut governor), 4_000);
        governor.overran(99_000);
        assert_eq!(ticks_of_rest(&mut governor), 0);
        for _ in 0..100 {
            governor.overran(3_000_000);
            governor.rest = 0;
        }
        governor.overran(3_000_000);
        assert_eq!(ticks_of_rest(&mut governor), 64_000);
    }

    #[test]
    fn a_preemption_while_it_rests_begins_the_rest_anew() {
        let mut governor = Governor::new(PERIOD_NS);

        (0..900).for_each(|_| assert_eq!(governor.spin_ns(), 0));
        governor.woke(200_000);

        assert_eq!(ticks_of_rest(&mut governor), 1_000);
    }

    #[test]
    fn good_times_shorten_the_rest_again() {
        let mut governor = rested();
        governor.woke(200_000);
        ticks_of_rest(&mut governor);

        (0..1_000).for_each(|_| assert!(governor.spin_ns() > 0));
        governor.woke(200_000);

        assert_eq!(ticks_of_rest(&mut governor), 2_000, "and not 4,000");
    }

    #[test]
    fn a_rest_is_a_tenth_of_a_second_and_some_ticks_at_least() {
        assert_eq!(Governor::new(1_000_000).rest, 100);
        assert_eq!(Governor::new(1_000_000_000).rest, REST_MIN);
        assert_eq!(Governor::new(0).rest, 100_000_000);
    }

    /// Simulates `ticks` ticks on a core where the kernel preempts one tick in `spun_in` with a spin and one in
    /// `else_in` without, each time for `slice` ticks. Returns the number of overruns and the number of ticks spun.
    fn overruns(seed: u64, ticks: u64, spun_in: u64, else_in: u64, slice: u64, governed: bool) -> (u64, u64) {
        let (mut random, mut governor) = (seed, Governor::new(PERIOD_NS));
        let mut one_in = |many| splitmix64(&mut random).is_multiple_of(many);
        let (mut now, mut overruns, mut spun) = (0, 0, 0);
        while now < ticks {
            let spins = governed && governor.spin_ns() > 0;
            spun += u64::from(spins);
            let preempted = one_in(if spins { spun_in } else { else_in });
            governor.woke(if preempted { slice * PERIOD_NS } else { 5_000 });
            if preempted {
                overruns += slice;
                now += slice;
            }
            now += 1;
        }
        (overruns, spun)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn on_a_busy_core_it_hardly_overruns_more_than_without_spinning(
            seed: u64, spun_in in 5_u64..100, else_in in 100_u64..2_000, slice in 5_u64..40,
        ) {
            const TICKS: u64 = 500_000;

            let (plain, _) = overruns(seed, TICKS, spun_in, else_in, slice, false);
            let (governed, spun) = overruns(!seed, TICKS, spun_in, else_in, slice, true);

            // Chance alone makes a difference of some standard deviations between two equal series.
            let chance = 5.0 * (2.0 * plain as f64 * slice as f64).sqrt();
            prop_assert!((governed as f64) < 1.1 * plain as f64 + chance, "{governed} for {plain}, {spun} spun");
            prop_assert!(spun < TICKS / 20, "{spun}");
        }

        #[test]
        fn on_a_core_of_its_own_it_spins_nearly_always(seed: u64) {
            let (overruns, spun) = overruns(seed, 100_000, u64::MAX, u64::MAX, 30, true);

            prop_assert_eq!((overruns, spun), (0, 99_000));
        }
    }
}
