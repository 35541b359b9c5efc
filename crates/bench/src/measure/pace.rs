//! Decides when a worker begins its next operations.
//!
//! ```text
//!   closed loop:  at once, minus the rest that the profile's duty asks for
//!   open loop:    the arrivals that are due by the schedule; else waits, asleep if the next is milliseconds away
//!   paused:       not at all; the schedule moves by the length of the pause, so no arrivals pile up
//! ```

use std::time::{Duration, Instant};

use rusm_runtime::Context;

use crate::measure::duty_cycle::DutyCycle;
use crate::measure::meter::{Recorder, Stamp};
use crate::measure::schedule::Schedule;
use crate::run::flags::StopFlag;
use crate::run::profile::Share;

/// If the next arrival is nearer than this, the worker yields instead of sleeping, because timers are too coarse.
const YIELD_BELOW: Duration = Duration::from_millis(3);
/// Margin for late timers: the worker asks to be woken this much earlier.
const TIMER_SLACK: Duration = Duration::from_millis(2);
/// Longest single sleep, so that a worker soon sees the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(50);
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
    Open { schedule: Schedule, next: u64 },
}

impl Pace {
    pub(crate) fn closed(duty: Share, stop: StopFlag) -> Self {
        let kind = DutyCycle::new(duty).map_or(PaceKind::Unlimited, |duty| PaceKind::DutyCycle { duty, since: None });
        Self { kind, stop }
    }

    pub(crate) const fn open(schedule: Schedule, stop: StopFlag) -> Self {
        Self { kind: PaceKind::Open { schedule, next: 0 }, stop }
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
            PaceKind::Open { schedule, .. } => schedule.delay(began.elapsed()),
        }
        !self.stop.is_set()
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
