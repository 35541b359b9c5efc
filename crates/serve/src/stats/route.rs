//! Counters of a route. They only go up, and each request changes a few of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::StatusCode;
use rusm_runtime::embed::Histogram;
use rusm_runtime::observe::RouteReport;

/// Counters of a route.
#[derive(Debug)]
pub(crate) struct RouteStats {
    label: Arc<str>,
    in_flight: AtomicU64,
    /// Responses by the first digit of their status.
    classes: [AtomicU64; 6],
    crashed: AtomicU64,
    cancelled: AtomicU64,
    limited: AtomicU64,
    /// Bytes of requests that have ended; those of live ones are in their records.
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    latency: Histogram,
}

impl RouteStats {
    pub(crate) fn new(label: &str) -> Self {
        Self {
            label: label.into(),
            in_flight: AtomicU64::new(0),
            classes: Default::default(),
            crashed: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
            limited: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            latency: Histogram::default(),
        }
    }

    pub(crate) const fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn begin(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// Counts the end of a request; without a status, the client has gone before the response.
    pub(crate) fn end(&self, status: Option<StatusCode>, took: Duration) {
        self.in_flight.fetch_sub(1, Relaxed);
        match status {
            Some(status) => {
                self.classes[usize::from(status.as_u16() / 100).min(5)].fetch_add(1, Relaxed);
                self.latency.add(took.as_nanos() as u64, 1);
            }
            None => drop(self.cancelled.fetch_add(1, Relaxed)),
        }
    }

    pub(crate) fn count_crash(&self) {
        self.crashed.fetch_add(1, Relaxed);
    }

    /// Counts a request that a rate limit has refused.
    pub(crate) fn count_limited(&self) {
        self.limited.fetch_add(1, Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes_in: u64, bytes_out: u64) {
        self.bytes_in.fetch_add(bytes_in, Relaxed);
        self.bytes_out.fetch_add(bytes_out, Relaxed);
    }

    pub(super) fn report(&self) -> RouteReport {
        RouteReport {
            label: Arc::clone(&self.label),
            in_flight: self.in_flight.load(Relaxed),
            responses: std::array::from_fn(|class| self.classes[class].load(Relaxed)),
            crashed_total: self.crashed.load(Relaxed),
            cancelled_total: self.cancelled.load(Relaxed),
            limited_total: self.limited.load(Relaxed),
            bytes_in_total: self.bytes_in.load(Relaxed),
            bytes_out_total: self.bytes_out.load(Relaxed),
            latency: self.latency.counts(),
        }
    }
}
