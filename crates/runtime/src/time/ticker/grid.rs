//! The instants of ticks, without drift: tick `n` is due at `n · K / f` after the epoch, rounded up to a nanosecond.
//! `f` is the frequency of firings, and `K` (`batch`) the number of firings that one tick stands for.
//!
//! ```text
//!   frequency, K ──▶ period = whole ns + rest/unit ──▶ next += whole, fraction += rest; if fraction ≥ unit: carry 1 ns
//! ```
//!
//! Never reads a clock. Rounding up keeps the promise of the ticker exact: at the instant of tick `n`, `⌊elapsed · f⌋`
//! is `n · K` and not one less. A step costs one addition; only a ticker that is late by more than a tick needs a
//! division. A period is called *even* if it is a whole number of nanoseconds (`rest` is 0).
//!
//! Invariant: `next · unit + fraction = (passed + 1) · num` and `fraction < unit`.

use super::frequency::Frequency;

#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Number of firings per tick.
    batch: u64,
    /// The period of a tick in nanoseconds: `num / unit`, which is `whole + rest / unit`.
    num: u128,
    unit: u64,
    whole: u64,
    rest: u64,
    /// `(2⁶⁴ − 1) / whole`, rounded down: a multiplication by it replaces the division by `whole` for tickers that
    /// overrun at each wait.
    inverse: u64,
    /// Number of ticks that have passed; the next tick is number `passed + 1`.
    passed: u64,
    /// Instant of the next tick, rounded down, and its remainder in parts of `unit`.
    next: u64,
    fraction: u64,
}

impl Grid {
    pub(super) fn new(frequency: Frequency, batch: u64) -> Self {
        let (num, unit) = frequency.period_of(batch);
        let whole = u64::try_from(num / u128::from(unit)).unwrap_or(u64::MAX);
        let rest = (num % u128::from(unit)) as u64;
        let inverse = u64::MAX / whole.max(1);
        Self { batch, num, unit, whole, rest, inverse, passed: 0, next: whole, fraction: rest }
    }

    #[inline]
    pub(super) const fn batch(&self) -> u64 {
        self.batch
    }

    /// Returns the number of ticks that have passed.
    #[inline]
    pub(super) const fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the time between two ticks, rounded down to a nanosecond.
    pub(super) const fn period_ns(&self) -> u64 {
        self.whole
    }

    /// Returns the instant of the next tick, in nanoseconds after the epoch.
    #[inline]
    pub(super) const fn next_ns(&self) -> u64 {
        self.next.saturating_add((self.fraction > 0) as u64)
    }

    /// Returns the instant of a tick, in nanoseconds after the epoch.
    #[inline(never)]
    pub(super) fn at_ns(&self, tick: u64) -> u64 {
        if self.rest == 0 {
            return tick.saturating_mul(self.whole);
        }
        let num = u128::from(tick) * self.num;
        u64::try_from(num.div_ceil(u128::from(self.unit))).unwrap_or(u64::MAX)
    }

    /// Returns the number of ticks due at `ns` after the epoch; never fewer than have passed.
    #[inline]
    pub(super) fn due(&self, ns: u64) -> u64 {
        ns.checked_sub(self.next_ns()).map_or(self.passed, |late_ns| self.passed + self.behind(late_ns))
    }

    /// Returns the number of ticks due `late_ns` after the next tick; at least one.
    #[inline]
    pub(super) fn behind(&self, late_ns: u64) -> u64 {
        if late_ns < self.whole || self.is_even() {
            self.behind_even(late_ns).0
        } else {
            self.behind_by_division(late_ns)
        }
    }

    /// Same as [`behind`](Self::behind) for periods of whole nanoseconds; also returns the time that those ticks take.
    ///
    /// Avoids a division, which would cost as much as reading the clock. The inverse of the period is too small by less
    /// than one part of 2⁶⁴, so the quotient is too small by less than one.
    #[inline]
    pub(super) const fn behind_even(&self, late_ns: u64) -> (u64, u64) {
        let periods = ((late_ns as u128 * self.inverse as u128) >> 64) as u64;
        let ns = periods * self.whole;
        let (periods, ns) = if late_ns - ns >= self.whole { (periods + 1, ns + self.whole) } else { (periods, ns) };
        (periods + 1, ns.saturating_add(self.whole))
    }

    #[inline(never)]
    fn behind_by_division(&self, late_ns: u64) -> u64 {
        let ns = self.next_ns().saturating_add(late_ns);
        (u128::from(ns) * u128::from(self.unit) / self.num) as u64 - self.passed
    }

    /// Returns true if periods are whole nanoseconds.
    pub(super) const fn is_even(&self) -> bool {
        self.rest == 0
    }

    /// Advances by `ticks` ticks, which take `ns` together.
    #[inline]
    pub(super) const fn pass_even(&mut self, ticks: u64, ns: u64) {
        self.passed += ticks;
        self.next = self.next.saturating_add(ns);
    }

    /// Advances until `ticks` ticks have passed.
    #[inline]
    pub(super) fn pass(&mut self, ticks: u64) {
        let steps = ticks - self.passed;
        if self.rest == 0 {
            self.pass_even(steps, self.whole.saturating_mul(steps));
            return;
        }
        self.passed = ticks;
        if steps == 1 {
            self.next = self.next.saturating_add(self.whole);
            self.fraction += self.rest;
            if self.fraction >= self.unit {
                self.fraction -= self.unit;
                self.next = self.next.saturating_add(1);
            }
        } else if steps > 0 {
            self.seek(ticks);
        }
    }

    /// Moves forward or back until `ticks` ticks have passed.
    #[inline(never)]
    pub(super) fn seek(&mut self, ticks: u64) {
        let num = (u128::from(ticks) + 1) * self.num;
        self.passed = ticks;
        self.next = u64::try_from(num / u128::from(self.unit)).unwrap_or(u64::MAX);
        self.fraction = (num % u128::from(self.unit)) as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_billion_ticks_of_48_khz_do_not_drift() {
        let mut grid = Grid::new(Frequency::hz(48_000).unwrap(), 1);
        for _ in 0..48_000 {
            grid.pass(grid.passed() + 1);
        }

        assert_eq!(grid.next_ns(), 1_000_000_000 + 20_834);
        grid.pass(1_000_000_000 - 1);
        assert_eq!(grid.next_ns(), 1_000_000_000_u64 * 1_000_000_000 / 48_000 + 1);
    }

    #[test]
    fn a_third_of_a_hertz_and_3_hz_meet_at_whole_seconds() {
        let mut slow = Grid::new(Frequency::ratio(1, 3).unwrap(), 1);
        let mut fast = Grid::new(Frequency::hz(3).unwrap(), 1);

        assert_eq!((slow.next_ns(), fast.next_ns()), (3_000_000_000, 333_333_334));
        slow.pass(1);
        fast.pass(17);
        assert_eq!((slow.next_ns(), fast.next_ns()), (6_000_000_000, 6_000_000_000));
    }

    proptest! {
        #[test]
        fn a_quotient_without_a_division_is_the_quotient(ns in 0..u64::MAX, near in 0_u64..4, hz in 1_u64..=1_000, scale in 0_u32..7) {
            let frequency = Frequency::hz(hz * 10_u64.pow(scale)).unwrap();
            let grid = Grid::new(frequency, 1);

            let multiple = (ns / grid.whole * grid.whole).saturating_add(near).saturating_sub(2);
            for ns in [ns, ns >> 20, ns >> 40, multiple, near, u64::MAX - 1 - near] {
                let periods = ns / grid.whole;
                prop_assert_eq!(grid.behind_even(ns), (periods + 1, (periods * grid.whole).saturating_add(grid.whole)));
            }
        }

        #[test]
        fn steps_of_any_size_come_to_the_same_instants(
            num in 1_u64..=2_000_000, den in 1_u64..=1_000, batch in 1_u64..=1_000,
            steps in prop::collection::vec(1_u64..2_000, 1..40),
        ) {
            let frequency = Frequency::ratio(num, den).unwrap();
            let mut grid = Grid::new(frequency, batch);

            for step in steps {
                let due = grid.at_ns(grid.passed() + step);
                prop_assert_eq!(grid.due(due), grid.passed() + step);
                prop_assert_eq!(grid.due(due - 1), grid.passed() + step - 1);
                prop_assert_eq!(u128::from(due) * u128::from(num) / (u128::from(den) * 1_000_000_000) / u128::from(batch), u128::from(grid.passed() + step));
                grid.pass(grid.passed() + step);
                prop_assert_eq!(grid.next_ns(), grid.at_ns(grid.passed() + 1));
            }
        }
    }
}
