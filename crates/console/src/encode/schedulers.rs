//! Schedulers for observers: their load and rates, from two looks at their counters and at the clocks of their threads.

use std::time::Duration;

use rusm_protocol::SchedulerInfo;

use rusm_runtime::Handle;
use rusm_runtime::observe::{self, SchedulerReport};

/// CPU time of a thread, and the time for which it was ready and waited for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    pub(crate) cpu_ns: u64,
    pub(crate) core_wait_ns: u64,
}

/// State of a scheduler at the look before, and the time since then.
pub(crate) struct Span {
    pub(crate) seconds: f64,
    pub(crate) before: SchedulerReport,
    pub(crate) clock: Option<ThreadTimes>,
}

/// Encodes a scheduler; without an earlier look, its rates are 0.
pub(crate) fn scheduler(
    runtime: &Handle,
    number: usize,
    report: &SchedulerReport,
    span: Option<&Span>,
    clock: Option<ThreadTimes>,
) -> SchedulerInfo {
    let now = report.counters;
    let before = span.map(|span| (span.before, span.before.counters));
    let rate = |now: u64, before: Option<u64>| match (span, before) {
        (Some(span), Some(before)) => per_sec(now, before, span.seconds),
        _ => 0.0,
    };
    let clocks = span.and_then(|span| clock.zip(span.clock));
    let share = |of: fn(ThreadTimes) -> u64| {
        clocks.zip(span).map(|((now, before), span)| per_sec(of(now), of(before), span.seconds) / 1e9)
    };
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    SchedulerInfo {
        number: number as u32,
        awake: super::round((rate(now.busy_ns, before.map(|(_, counters)| counters.busy_ns)) / 1e9).min(1.0)),
        cpu: share(|times| times.cpu_ns).map(|share| super::round(share.min(1.0))),
        core_wait: share(|times| times.core_wait_ns).map(|share| super::round(share.min(1.0))),
        ready: now.run_queue,
        pinned: report.pinned,
        preempted: report.preempted,
        oldest_us: report.oldest_ready.map(micros),
        running: report.running.map(|pid| pid.to_string()),
        name: report.running.and_then(|pid| super::display_name(runtime, &observe::process_ref(runtime, pid)?)),
        slice_us: report.slice.map(micros),
        asleep_us: report.asleep.map(micros),
        polls_per_sec: rate(now.polls, before.map(|(_, counters)| counters.polls)),
        messages_per_sec: rate(now.messages, before.map(|(_, counters)| counters.messages)),
        steals_per_sec: rate(now.steals, before.map(|(_, counters)| counters.steals)),
        stolen_per_sec: rate(report.stolen, before.map(|(report, _)| report.stolen)),
        parks_per_sec: rate(now.parks, before.map(|(_, counters)| counters.parks)),
        wakes_per_sec: rate(now.wakes, before.map(|(_, counters)| counters.wakes)),
        preemptions_per_sec: rate(report.preemptions, before.map(|(report, _)| report.preemptions)),
    }
}

/// Returns the growth of a total per second, rounded; 0 for a span without a length.
pub(crate) fn per_sec(now: u64, before: u64, seconds: f64) -> f64 {
    if seconds <= 0.0 { 0.0 } else { super::round(now.saturating_sub(before) as f64 / seconds) }
}
