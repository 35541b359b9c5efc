//! Counters of a route. They only go up, and each request changes a few of them, on a cache line of its scheduler.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use rusm_runtime::embed::{Histogram, PerScheduler};
use rusm_runtime::observe::{DelayCounts, RouteReport};

/// Counters of a route.
#[derive(Debug)]
pub(crate) struct RouteStats {
    lanes: PerScheduler<Lane>,
}

/// Counters of a route that the requests of one scheduler change.
#[derive(Debug)]
struct Lane {
    /// Copy of the route's label: processes change the number of its references.
    label: Arc<str>,
    /// A request may end on another scheduler than it has begun on.
    in_flight: AtomicI64,
    /// Responses by the first digit of their status.
    classes: [AtomicU64; 6],
    crashed: AtomicU64,
    cancelled: AtomicU64,
    limited: AtomicU64,
    /// Bytes of requests that have ended; those of live ones are in their records.
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    latency: OnceLock<Histogram>,
}

impl Lane {
    fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            in_flight: AtomicI64::new(0),
            classes: Default::default(),
            crashed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            limited: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            latency: OnceLock::new(),
        }
    }
}

impl RouteStats {
    pub(crate) fn new(label: &str) -> Self {
        Self { lanes: PerScheduler::new(|| Lane::new(label)) }
    }

    /// Returns the label for a process of a request.
    pub(crate) fn process_label(&self) -> Arc<str> {
        Arc::clone(&self.lanes.here().label)
    }

    pub(crate) fn begin(&self) {
        self.lanes.here().in_flight.fetch_add(1, Relaxed);
    }

    /// Counts the end of a request; without a status, the client has gone before the response.
    pub(crate) fn end(&self, status: Option<StatusCode>, took: Duration) {
        let lane = self.lanes.here();
        lane.in_flight.fetch_sub(1, Relaxed);
        match status {
            Some(status) => {
                lane.classes[usize::from(status.as_u16() / 100).min(5)].fetch_add(1, Relaxed);
                lane.latency.get_or_init(Histogram::default).add(took.as_nanos() as u64, 1);
            }
            None => drop(lane.cancelled.fetch_add(1, Relaxed)),
        }
    }

    pub(crate) fn count_crash(&self) {
        self.lanes.here().crashed.fetch_add(1, Relaxed);
    }

    /// Counts a request that a rate limit has refused.
    pub(crate) fn count_limited(&self) {
        self.lanes.here().limited.fetch_add(1, Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes_in: u64, bytes_out: u64) {
        let lane = self.lanes.here();
        lane.bytes_in.fetch_add(bytes_in, Relaxed);
        lane.bytes_out.fetch_add(bytes_out, Relaxed);
    }

    pub(super) fn report(&self) -> RouteReport {
        let sum = |of: fn(&Lane) -> &AtomicU64| self.lanes.iter().map(|lane| of(lane).load(Relaxed)).sum();
        let in_flight: i64 = self.lanes.iter().map(|lane| lane.in_flight.load(Relaxed)).sum();
        let mut latency = DelayCounts::default();
        for histogram in self.lanes.iter().filter_map(|lane| lane.latency.get()) {
            latency.add(&histogram.counts());
        }
        RouteReport {
            label: Arc::clone(&self.lanes.at(0).label),
            // The counters are read one after another, so that an end may be seen without its begin.
            in_flight: in_flight.max(0) as u64,
            responses: std::array::from_fn(|class| {
                self.lanes.iter().map(|lane| lane.classes[class].load(Relaxed)).sum()
            }),
            crashed_total: sum(|lane| &lane.crashed),
            cancelled_total: sum(|lane| &lane.cancelled),
            limited_total: sum(|lane| &lane.limited),
            bytes_in_total: sum(|lane| &lane.bytes_in),
            bytes_out_total: sum(|lane| &lane.bytes_out),
            latency,
        }
    }
}
