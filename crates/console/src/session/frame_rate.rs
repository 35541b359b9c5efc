//! When an observer gets the next frame: as often as it asked for, counted in the node's samples.

use std::time::{Duration, Instant};

/// Chooses the samples that one observer gets as frames.
#[derive(Debug)]
pub(super) struct FrameRate {
    /// Period that the observer asked for; zero for every sample.
    every: Duration,
    /// The next frame is sent with this sample, or with the first one after `next_at`.
    next_seq: f64,
    next_at: Instant,
    /// Number of the last sample that was sent as a frame.
    sent_seq: Option<u64>,
    skipped: u64,
}

impl FrameRate {
    pub(super) fn new(now: Instant) -> Self {
        Self { every: Duration::ZERO, next_seq: 0.0, next_at: now, sent_seq: None, skipped: 0 }
    }

    /// Sends frames in this period from the next sample on.
    pub(super) fn set_period(&mut self, every: Duration) {
        self.every = every;
        self.next_seq = 0.0;
    }

    /// Takes a sample, and returns `None` if it is not due as a frame. For a frame, it returns the number of frames that the
    /// observer asked for and missed until now. `tick` is the shortest time between two samples.
    pub(super) fn take(&mut self, sample: u64, now: Instant, tick: Duration) -> Option<u64> {
        let every = self.every.max(tick);
        // Counted in samples, so that an observer that wants all of them gets all of them.
        let per_frame = every.div_duration_f64(tick);
        let seq = sample as f64;
        let is_due = seq + 0.5 > self.next_seq || now >= self.next_at;
        if !is_due {
            return None;
        }
        if let Some(sent) = self.sent_seq {
            // Whole frames only; the small addition absorbs the rounding of the two periods.
            let missed = ((sample - sent) as f64 / per_frame + 0.01) as u64;
            self.skipped += missed.saturating_sub(1);
        }
        self.sent_seq = Some(sample);
        self.next_seq = self.next_seq.max(seq - 0.5) + per_frame;
        // The node may sample less often than its tick.
        self.next_at = now + every;
        Some(self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(50);

    /// Returns the samples that are due as frames, and the number of skipped ones, with a sample in each of these numbers
    /// of ticks.
    fn frames(rate: &mut FrameRate, start: Instant, at: impl IntoIterator<Item = (u64, f64)>) -> (Vec<u64>, u64) {
        let mut skipped = 0;
        let is_due = |&(sample, ticks): &(u64, f64)| {
            let taken = rate.take(sample, start + TICK.mul_f64(ticks), TICK);
            skipped = taken.unwrap_or(skipped);
            taken.is_some()
        };
        let due = at.into_iter().filter(is_due).map(|(sample, _)| sample).collect();
        (due, skipped)
    }

    /// Samples that come in time, but for a part of a tick.
    fn jittered(samples: std::ops::Range<u64>) -> impl Iterator<Item = (u64, f64)> {
        samples.map(|sample| (sample, sample as f64 + [0.0, 0.3, 0.1, 0.4][sample as usize % 4]))
    }

    #[test]
    fn an_observer_gets_every_sample_or_the_part_that_it_asked_for() {
        let start = Instant::now();
        let mut all = FrameRate::new(start);
        let mut half = FrameRate::new(start);
        half.set_period(2 * TICK);
        let mut two_of_three = FrameRate::new(start);
        two_of_three.set_period(TICK.mul_f64(1.5));

        assert_eq!(frames(&mut all, start, jittered(0..100)), ((0..100).collect(), 0));
        assert_eq!(frames(&mut half, start, jittered(0..100)), ((0..100).step_by(2).collect(), 0));
        let (samples, skipped) = frames(&mut two_of_three, start, jittered(0..90));
        assert_eq!((samples.len(), skipped), (60, 0));
    }

    #[test]
    fn the_period_is_kept_while_the_node_samples_less_often() {
        let start = Instant::now();
        let mut half = FrameRate::new(start);
        half.set_period(2 * TICK);

        // One sample in three ticks: later than the period, so each of them is a frame.
        let slow = (0..50).map(|sample| (sample, 3.0 * sample as f64));
        assert_eq!(frames(&mut half, start, slow), ((0..50).collect(), 0));
    }

    #[test]
    fn samples_that_an_observer_did_not_get_are_counted_in_its_own_frames() {
        let start = Instant::now();
        let mut all = FrameRate::new(start);
        let mut half = FrameRate::new(start);
        half.set_period(2 * TICK);

        // Ten samples while nothing could be sent: nine frames of one observer, four of the other.
        assert_eq!(frames(&mut all, start, [(0, 0.0), (10, 10.0)]), (vec![0, 10], 9));
        assert_eq!(frames(&mut half, start, [(0, 0.0), (10, 10.0)]), (vec![0, 10], 4));
    }

    #[test]
    fn a_new_period_begins_with_the_next_sample() {
        let start = Instant::now();
        let mut rate = FrameRate::new(start);
        rate.set_period(20 * TICK);

        assert_eq!(frames(&mut rate, start, jittered(0..10)).0, [0]);
        rate.set_period(5 * TICK);
        assert_eq!(frames(&mut rate, start, jittered(11..22)).0, [11, 16, 21]);
    }
}
