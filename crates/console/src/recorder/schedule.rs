//! When the recorder records what. It takes the time as an argument, so its tests need no waiting.

use std::time::{Duration, Instant};

/// Time between two instants with all views, and between two sets of figures.
const EVERY: Duration = Duration::from_secs(1);
/// Time between two frames.
const FRAME_EVERY: Duration = Duration::from_millis(100);
/// Time between two instants while the node is quiet. Frames then come once in [`EVERY`].
const QUIET_EVERY: Duration = Duration::from_secs(5);
/// Share of one core that the instants may use; if they cost more, they are recorded less often.
const SHARE: f64 = 0.004;
/// Tolerance for recording early: ticks are not aligned to seconds.
const EARLY: Duration = Duration::from_millis(20);

/// Decides what is due at a tick.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    next_instant: Option<Instant>,
    next_frame: Option<Instant>,
    next_figures: Option<Instant>,
    /// Time and progress of the processes at the last instant.
    last: Option<(Instant, Option<u64>)>,
}

/// The parts of a recording that are due at a tick. If figures or an instant are due, a frame is too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) frame: bool,
    pub(super) figures: bool,
    pub(super) instant: bool,
}

impl Schedule {
    /// Returns what is due, which is then taken as done. `progress` is that of the processes, `None` while any of them
    /// runs; the node is quiet if it is the same as at the last instant and no client is attached.
    pub(super) fn due(&mut self, now: Instant, clients: u32, progress: Option<u64>) -> Due {
        let quiet_since = self.last.filter(|(_, last)| clients == 0 && last.is_some() && *last == progress);
        let instant =
            is_due(self.next_instant, now) && quiet_since.is_none_or(|(at, _)| is_due(Some(at + QUIET_EVERY), now));
        let frame = instant || is_due(self.next_frame, now);
        let figures = frame && is_due(self.next_figures, now);
        if instant {
            self.next_instant = Some(following(self.next_instant, now, EVERY));
            self.last = Some((now, progress));
        }
        if frame {
            let every = if quiet_since.is_some() { EVERY } else { FRAME_EVERY };
            self.next_frame = Some(following(self.next_frame, now, every));
        }
        if figures {
            self.next_figures = Some(following(self.next_figures, now, EVERY));
        }
        Due { frame, figures, instant }
    }

    /// Postpones the next instant if the one of `now` was expensive.
    pub(super) fn instant_cost(&mut self, now: Instant, cost: Duration) {
        let earliest = now + cost.div_f64(SHARE);
        self.next_instant = self.next_instant.map(|next| next.max(earliest));
    }
}

fn is_due(next: Option<Instant>, now: Instant) -> bool {
    next.is_none_or(|next| now + EARLY >= next)
}

/// Returns the time of the next recording. Recordings stay `every` apart on average; a missed one is not repeated.
fn following(next: Option<Instant>, now: Instant, every: Duration) -> Instant {
    next.map_or(now + every, |next| (next + every).max(now + every / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    /// Counts frames, figures and instants of twenty seconds.
    fn recorded(clients: u32, cost: Duration, mut progress: impl FnMut(u64) -> Option<u64>) -> [u32; 3] {
        let (start, mut schedule, mut counts) = (Instant::now(), Schedule::default(), [0; 3]);
        for tick in 0..400 {
            let now = start + TICK * tick;
            let due = schedule.due(now, clients, progress(u64::from(tick)));
            for (count, is_due) in counts.iter_mut().zip([due.frame, due.figures, due.instant]) {
                *count += u32::from(is_due);
            }
            if due.instant {
                schedule.instant_cost(now, cost);
            }
        }
        counts
    }

    #[test]
    fn a_node_that_works_is_recorded_at_the_full_rate() {
        assert_eq!(recorded(0, Duration::ZERO, Some), [200, 20, 20]);
        assert_eq!(recorded(0, Duration::ZERO, |_| None), [200, 20, 20], "a process runs at every tick");
    }

    #[test]
    fn a_quiet_node_is_recorded_less_often_until_a_client_comes() {
        let [frames, figures, instants] = recorded(0, Duration::ZERO, |_| Some(7));

        assert!((20..25).contains(&frames), "{frames} frames");
        assert_eq!((figures, instants), (20, 4));
        assert_eq!(recorded(1, Duration::ZERO, |_| Some(7)), [200, 20, 20]);
    }

    #[test]
    fn the_first_progress_after_a_rest_is_recorded_at_once() {
        let (start, mut schedule) = (Instant::now(), Schedule::default());
        assert!(schedule.due(start, 0, Some(1)).instant);

        assert!(!schedule.due(start + 2 * EVERY, 0, Some(1)).instant);
        assert!(schedule.due(start + 2 * EVERY + TICK, 0, Some(2)).instant);
    }

    #[test]
    fn expensive_instants_are_recorded_less_often() {
        assert_eq!(recorded(0, Duration::from_millis(16), Some), [200, 20, 5]);
    }
}
