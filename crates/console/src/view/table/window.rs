//! One client's window onto a part of the node, for example its tree or its topics.
//!
//! ```text
//!   view of the client ──▶ window ──▶ read ──▶ result, stamped ──▶ the client
//!                             ▲─────────────────────┘ next: at the client's rate, later if a read is expensive
//! ```
//!
//! A session holds a window for each kind of view. It reads as often as the client wants and the part of this client
//! in the budget of all allows. Without a client nothing is read.

use std::time::{Duration, Instant};

use rusm_protocol::{ServerMessage, VIEW_ROWS_MAX, ViewWindow};

use crate::budget::{OrderBudget, refresh_every, thread_cpu, thread_cpu_since};
use crate::host::HostError;
use crate::view::node::Node;
use rusm_runtime::observe;

/// A source of data for a window.
pub(crate) trait ViewSource {
    /// Result of a read.
    type Data;

    /// Returns the reads per second that the client wants.
    fn hz(&self) -> f64;

    /// Returns true if there may be something new since the last call.
    fn has_changed(&mut self, _node: &Node) -> bool {
        true
    }

    /// Reads the current state of the node.
    fn read(&mut self, node: &Node) -> Self::Data;

    /// Returns the message for the client.
    fn message(&self, found: Self::Data, meta: ViewMeta) -> ServerMessage;
}

/// Number, time and cost of a read.
pub(crate) struct ViewMeta {
    /// Number of this read, counting from 1.
    pub(crate) seq: u64,
    /// The node's uptime, in milliseconds.
    pub(crate) at_ms: u64,
    /// CPU time, in microseconds.
    pub(crate) cost_us: f64,
    /// Reason why the client gets less than it asked for.
    pub(crate) degraded: Option<String>,
}

/// A source and the time of its next read.
pub(crate) struct Window<S> {
    source: S,
    seq: u64,
    next: Instant,
}

impl<S: ViewSource> Window<S> {
    /// Creates a window with its first read due at once; its numbering continues that of the client's previous window.
    pub(crate) fn new(source: S, before: Option<&Self>) -> Self {
        Self { source, seq: before.map_or(0, |before| before.seq), next: Instant::now() }
    }

    /// Returns the source.
    pub(crate) const fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Reads the source if it is time; returns the message for the client.
    pub(crate) fn read(&mut self, node: &Node, budget: &OrderBudget, now: Instant) -> Option<ServerMessage> {
        if now < self.next || now < budget.ready_at(now) {
            return None;
        }
        if !self.source.has_changed(node) {
            self.next = now + Duration::from_secs_f64(1.0 / self.source.hz());
            return None;
        }
        let before = thread_cpu();
        let found = self.source.read(node);
        let cost = thread_cpu_since(before);
        budget.spend(now, cost);
        let wanted = Duration::from_secs_f64(1.0 / self.source.hz());
        let every = refresh_every(wanted, cost);
        self.next = now + every;
        self.seq += 1;
        let cost_us = (cost.as_secs_f64() * 1e6).round();
        let is_degraded = every > wanted;
        let meta = ViewMeta {
            seq: self.seq,
            at_ms: observe::uptime(&node.runtime).as_millis() as u64,
            cost_us,
            degraded: is_degraded
                .then(|| format!("a refresh takes {:.1} ms of CPU: refreshed less often", cost_us / 1e3)),
        };
        Some(self.source.message(found, meta))
    }
}

/// Checks the number of rows that a client wants.
pub(crate) fn check_rows(window: ViewWindow) -> Result<(), HostError> {
    if window.len > VIEW_ROWS_MAX {
        let message = format!("a window of {} rows is over the limit of {VIEW_ROWS_MAX}", window.len);
        return Err(HostError::out_of_range(message));
    }
    Ok(())
}

/// Checks the rate of reads that a client wants.
pub(crate) fn check_hz(hz: f64) -> Result<(), HostError> {
    if !(1.0..=10.0).contains(&hz) {
        return Err(HostError::out_of_range(format!("hz of {hz} is not between 1 and 10")));
    }
    Ok(())
}
