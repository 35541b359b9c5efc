//! Limits the number of restarts within a period; with more, the supervisor gives up.
//! ```text
//!   crash ──▶ spend(now) ──▶ true: restart the child
//!                       └──▶ false: the supervisor itself ends
//! ```
//! Never reads a clock: `now` is an argument, so its tests need no sleeping.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Number of restarts allowed within a period. Default: one in five seconds, as in OTP.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::supervisor::{Intensity, Strategy, Supervisor};
///
/// let intensity = Intensity { restarts: 10, period: Duration::from_secs(60) };
/// let tree = Supervisor::new(Strategy::OneForOne).intensity(intensity.restarts, intensity.period);
/// # drop(tree);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intensity {
    /// Number of restarts within any period that do not end the supervisor. Default 1; more hide a child that cannot
    /// run.
    pub restarts: u32,
    /// Length of the period. Default 5 s; a longer period keeps more restarts in memory, at 16 bytes each.
    pub period: Duration,
}

impl Default for Intensity {
    fn default() -> Self {
        Self { restarts: 1, period: Duration::from_secs(5) }
    }
}

/// Restarts within the last period, as a sliding window.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::{Duration, Instant};
///
/// use rusm::supervisor::{Intensity, RestartWindow};
///
/// let now = Instant::now();
/// let mut window = RestartWindow::new(Intensity { restarts: 1, period: Duration::from_secs(5) });
/// assert!(window.spend(now));
/// assert!(!window.spend(now), "the second restart within five seconds");
/// assert!(window.spend(now + Duration::from_secs(6)));
/// ```
#[derive(Debug)]
pub struct RestartWindow {
    intensity: Intensity,
    /// Times of the restarts, oldest first; at most one more than allowed.
    spent: VecDeque<Instant>,
}

impl RestartWindow {
    /// Creates a window without restarts.
    pub const fn new(intensity: Intensity) -> Self {
        Self { intensity, spent: VecDeque::new() }
    }

    /// Counts a restart; returns false if it exceeds the limit.
    pub fn spend(&mut self, now: Instant) -> bool {
        self.slide(now);
        if self.spent.len() as u64 > u64::from(self.intensity.restarts) {
            self.spent.pop_front();
        }
        self.spent.push_back(now);
        self.spent.len() as u64 <= u64::from(self.intensity.restarts)
    }

    /// Returns the number of restarts that count at `now`.
    pub fn used(&self, now: Instant) -> usize {
        self.spent.len() - self.spent.partition_point(|spent| self.is_over(*spent, now))
    }

    /// Returns the limit.
    pub const fn intensity(&self) -> Intensity {
        self.intensity
    }

    fn is_over(&self, spent: Instant, now: Instant) -> bool {
        now.saturating_duration_since(spent) > self.intensity.period
    }

    /// Returns the number of restarts that counted at the last one, if it is at least two and over half of the limit.
    pub fn pressure(&self) -> Option<u32> {
        let used = self.spent.len() as u64;
        (used >= 2 && 2 * used > u64::from(self.intensity.restarts)).then_some(used as u32)
    }

    fn slide(&mut self, now: Instant) {
        while let Some(oldest) = self.spent.front()
            && self.is_over(*oldest, now)
        {
            self.spent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(restarts: u32, seconds: u64) -> RestartWindow {
        RestartWindow::new(Intensity { restarts, period: Duration::from_secs(seconds) })
    }

    #[test]
    fn exactly_the_intensity_is_forgiven_and_one_more_is_not() {
        let (mut window, now) = (window(3, 5), Instant::now());

        assert_eq!([(); 4].map(|()| window.spend(now)), [true, true, true, false]);
    }

    #[test]
    fn no_restart_at_all_may_be_forgiven() {
        assert!(!window(0, 5).spend(Instant::now()));
    }

    #[test]
    fn the_window_slides_and_its_far_edge_still_counts() {
        let (mut window, start) = (window(2, 5), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);

        assert!(window.spend(at(0)) && window.spend(at(3)));
        assert_eq!(window.used(at(5)), 2);
        assert!(window.spend(at(6)), "the first has left the window");
        assert!(!window.spend(at(8)), "the second has not: it is five seconds old");
    }

    #[test]
    fn more_than_half_of_the_intensity_and_never_a_single_restart_is_a_strain() {
        let now = Instant::now();
        let strains = |restarts| {
            let mut window = window(restarts, 5);
            [(); 4].map(|()| {
                window.spend(now);
                window.pressure()
            })
        };

        assert_eq!(strains(1)[..2], [None, Some(2)]);
        assert_eq!(strains(3), [None, Some(2), Some(3), Some(4)]);
        assert_eq!(strains(5), [None, None, Some(3), Some(4)]);
        assert_eq!(strains(u32::MAX), [None; 4]);
    }

    proptest! {
        #[test]
        fn it_forgives_what_a_list_of_all_restarts_forgives(
            restarts in 0_u32..5,
            period in 0_u64..10,
            gaps in prop::collection::vec(0_u64..6, 1..60),
        ) {
            let mut window = window(restarts, period);
            let (mut now, mut all) = (Instant::now(), Vec::new());
            for gap in gaps {
                now += Duration::from_secs(gap);
                all.push(now);
                let within = all.iter().filter(|at| now - **at <= Duration::from_secs(period)).count();
                prop_assert_eq!(window.spend(now), within <= restarts as usize);
            }
        }
    }
}
