//! Delays of the node over the last seconds, from the cumulative samples of its schedulers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rusm_protocol::{DelaysInfo, LatencySnapshot};
use rusm_runtime::Handle;
use rusm_runtime::observe::{self, DelayCounts, DelayReport};

/// Time that the figures cover.
const WINDOW: Duration = Duration::from_secs(10);
/// Interval between two reads.
const EVERY: Duration = Duration::from_secs(1);

/// The delays of the last seconds.
#[derive(Debug, Default)]
pub(super) struct NodeDelays {
    past: VecDeque<(Instant, u64, DelayReport)>,
    newest: Option<DelaysInfo>,
}

impl NodeDelays {
    /// Returns the delays; `None` while nobody observes, or before the first second. `polls` is the number of polls of
    /// all schedulers.
    pub(super) fn tick(&mut self, runtime: &Handle, now: Instant, clients: u32, polls: u64) -> Option<DelaysInfo> {
        observe::set_sampling(runtime, clients > 0);
        if clients == 0 {
            *self = Self::default();
            return None;
        }
        if self.past.back().is_some_and(|(at, ..)| now - *at < EVERY) {
            return self.newest.clone();
        }
        let report = observe::delays(runtime);
        while self.past.front().is_some_and(|(at, ..)| now - *at > WINDOW) {
            self.past.pop_front();
        }
        self.newest = self.past.front().map(|(_, polls_before, before)| {
            let scheduling = report.scheduling.since(&before.scheduling);
            let polls = polls.saturating_sub(*polls_before) as f64;
            DelaysInfo {
                sampling: (polls / scheduling.count().max(1) as f64).max(1.0),
                scheduling: latency(&scheduling),
                poll: latency(&report.poll.since(&before.poll)),
                handling: latency(&report.handling.since(&before.handling)),
            }
        });
        self.past.push_back((now, polls, report));
        self.newest.clone()
    }
}

/// Returns the percentiles of counts. A percentile is at most an eighth too high.
pub(crate) fn latency(counts: &DelayCounts) -> LatencySnapshot {
    if counts.count() == 0 {
        return LatencySnapshot::default();
    }
    LatencySnapshot {
        count: counts.count(),
        min_ns: counts.percentile_ns(0.0),
        max_ns: counts.percentile_ns(1.0),
        mean_ns: counts.mean_ns().round(),
        p50_ns: counts.percentile_ns(0.5),
        p90_ns: counts.percentile_ns(0.9),
        p95_ns: counts.percentile_ns(0.95),
        p99_ns: counts.percentile_ns(0.99),
        p999_ns: counts.percentile_ns(0.999),
    }
}
