//! Decides when a worker begins its next operations.
//!
//! ```text
//!   closed loop:  at once, minus the rest that the profile's duty asks for
//!   open loop:    the arrivals that are due by the schedule; else waits, asleep if the next is milliseconds away
//!   part of the maximum:  at once for two seconds, then an open loop of that part of the rate that was found
//!   paused:       not at all; the schedule moves by the length of the pause, so no arrivals pile up
//! ```

use std::time::{Duration, Instant};

use rusm_runtime::Context;

use crate::measure::duty_cycle::DutyCycle;
use crate::measure::meter::{Recorder, Stamp};
use crate::measure::schedule::{Rate, Schedule};
use crate::run::flags::StopFlag;
use crate::run::profile::Share;

/// If the next arrival is nearer than this, the worker yields instead of sleeping, because timers are too coarse.
const YIELD_BELOW: Duration = Duration::from_millis(3);
/// Margin for late timers: the worker asks to be woken this much earlier.
const TIMER_SLACK: Duration = Duration::from_millis(2);
/// Longest single sleep, so that a worker soon sees the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Time at full speed in which a worker finds its maximum rate.
const MEASURE_FOR: Duration = Duration::from_secs(2);
/// Time between two checks of a paused worker.
const PAUSE_CHECK: Duration = Duration::from_millis(100);

/// Decides when a worker begins its next operations.
#[derive(Debug)]
pub struct Pace {
    kind: PaceKind,
    stop: StopFlag,
}

#[derive(Debug)]
enum PaceKind {
    Unlimited,
    DutyCycle { duty: DutyCycle, since: Option<Instant> },
    Measuring(Measuring),
    Open { schedule: Schedule, next: u64 },
}

/// A worker at full speed that will then work at a part of it.
#[derive(Debug)]
struct Measuring {
    part: Share,
    since: Option<Instant>,
    ops: u64,
}

impl Measuring {
    /// Returns the arrivals at the part of the maximum rate, once that is known; else counts the next operations.
    fn next(&mut self, now: Instant, ops: u64) -> Option<Schedule> {
        let elapsed = now - *self.since.get_or_insert(now);
        if elapsed < MEASURE_FOR {
            self.ops += ops;
            return None;
        }
        let per_sec = self.ops as f64 / elapsed.as_secs_f64() * self.part.fraction();
        let rate = Rate::from_per_sec(per_sec.clamp(Rate::MIN_PER_SEC, Rate::MAX_PER_SEC)).ok()?;
        Some(Schedule::new(rate, now, 0, 1))
    }
}

impl Pace {
    pub(crate) fn closed(duty: Share, stop: StopFlag) -> Self {
        let kind = DutyCycle::new(duty).map_or(PaceKind::Unlimited, |duty| PaceKind::DutyCycle { duty, since: None });
        Self { kind, stop }
    }

    pub(crate) const fn open(schedule: Schedule, stop: StopFlag) -> Self {
        Self { kind: PaceKind::Open { schedule, next: 0 }, stop }
    }

    /// Makes a closed loop work at a part of its maximum rate, which it measures first.
    pub(crate) fn at_part_of_maximum(self, part: Share) -> Self {
        if self.is_open() {
            return self;
        }
        Self { kind: PaceKind::Measuring(Measuring { part, since: None, ops: 0 }), stop: self.stop }
    }

    /// Waits until operations may begin and returns their number, at most `most`; `None` when the run stops.
    #[inline]
    pub async fn next_batch(&mut self, ctx: &Context, most: u64) -> Option<u64> {
        loop {
            if !self.stop.is_clear() && !self.goes_on(ctx).await {
                return None;
            }
            match &mut self.kind {
                PaceKind::Unlimited => return Some(most),
                PaceKind::DutyCycle { duty, since } => {
                    rest(ctx, duty, since).await;
                    return Some(most);
                }
                PaceKind::Measuring(measuring) => {
                    let Some(schedule) = measuring.next(Instant::now(), most) else { return Some(most) };
                    self.kind = PaceKind::Open { schedule, next: 0 };
                }
                PaceKind::Open { schedule, next } => {
                    // `None` means that the run stops or pauses: the next check finds out.
                    if let Some(ops) = arrivals(ctx, &self.stop, schedule, *next, most).await {
                        return Some(ops);
                    }
                }
            }
        }
    }

    /// Waits while the run is paused; returns false if it stops.
    #[cold]
    async fn goes_on(&mut self, ctx: &Context) -> bool {
        let began = Instant::now();
        while self.stop.is_paused() {
            ctx.sleep(PAUSE_CHECK).await;
        }
        match &mut self.kind {
            PaceKind::Unlimited => {}
            PaceKind::DutyCycle { since, .. } => *since = None,
            PaceKind::Measuring(measuring) => (measuring.since, measuring.ops) = (None, 0),
            PaceKind::Open { schedule, .. } => schedule.delay(began.elapsed()),
        }
        !self.stop.is_set()
    }

    /// Returns true if the run stops: no operation begins any more.
    pub fn is_over(&self) -> bool {
        self.stop.is_set()
    }

    /// Returns true if operations begin by a schedule (open loop).
    pub const fn is_open(&self) -> bool {
        matches!(self.kind, PaceKind::Open { .. })
    }

    /// Begins one operation of this batch.
    #[inline]
    pub fn begin(&mut self, recorder: &mut Recorder) -> Stamp {
        let PaceKind::Open { schedule, next } = &mut self.kind else {
            return recorder.begin();
        };
        let number = *next;
        *next += 1;
        recorder.begin_at(|| schedule.intended(number))
    }
}

impl Pace {
    /// Begins `ops` operations of this batch at once and times them as one, from the intended start of the first.
    #[inline]
    pub fn begin_batch(&mut self, recorder: &mut Recorder, ops: u64) -> Stamp {
        let stamp = self.begin(recorder);
        if let PaceKind::Open { next, .. } = &mut self.kind {
            *next += ops.saturating_sub(1);
        }
        stamp
    }
}

async fn rest(ctx: &Context, duty: &mut DutyCycle, since: &mut Option<Instant>) {
    let now = Instant::now();
    let worked = now - since.replace(now).unwrap_or(now);
    if let Some(rest) = duty.worked(worked) {
        ctx.sleep(rest.min(SLEEP_MAX)).await;
        let woken = Instant::now();
        duty.rested(woken - now);
        *since = Some(woken);
    }
}

async fn arrivals(ctx: &Context, stop: &StopFlag, schedule: &Schedule, next: u64, most: u64) -> Option<u64> {
    while stop.is_clear() {
        let now = Instant::now();
        let due = schedule.due(now).saturating_sub(next);
        if due > 0 {
            return Some(due.min(most));
        }
        let wait = schedule.intended(next).saturating_duration_since(now);
        if wait > YIELD_BELOW {
            ctx.sleep(wait.saturating_sub(TIMER_SLACK).min(SLEEP_MAX)).await;
        } else {
            ctx.yield_now().await;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_maximum_is_offered_once_the_maximum_is_known() {
        let (start, step) = (Instant::now(), Duration::from_millis(1));
        let mut measuring = Measuring { part: Share::WHOLE.times(0.5), since: None, ops: 0 };
        let mut now = start;

        let schedule = loop {
            if let Some(schedule) = measuring.next(now, 64) {
                break schedule;
            }
            now += step;
        };

        assert_eq!(now - start, MEASURE_FOR);
        assert_eq!(schedule.due(now + Duration::from_secs(1)) / 100, 320, "of 64,000 a second");
    }
}
