//! Figures of the connections of a node.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rusm_runtime::embed::remote::LinkFigures;
use rusm_runtime::observe::NetworkPeer;

use super::connection::Connection;
use crate::identity::{BootId, NodeName};
use crate::session::{State, Stats};

/// State and figures of the connection to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Name of the peer.
    pub name: NodeName,
    /// Node part of the pids of its processes; 0 if it is not connected.
    pub node: u32,
    /// Its last known life.
    pub boot: Option<BootId>,
    /// Figures of its session.
    pub stats: Stats,
}

impl Connection {
    pub(super) fn status(&self) -> PeerStatus {
        let stats = self.session.lock().stats();
        let boot = self.last.lock().map(|(boot, _)| boot);
        PeerStatus { name: self.peer.clone(), node: self.node.load(Ordering::Acquire), boot, stats }
    }

    /// Returns the connection for observers.
    pub(super) fn report(&self, now: Duration) -> NetworkPeer {
        let stats = self.session.lock().stats();
        let last = *self.last.lock();
        let totals = stats.totals;
        NetworkPeer {
            name: self.peer.as_str().into(),
            boot_id: last.map(|(boot, _)| boot.0),
            node: self.node.load(Ordering::Acquire),
            state: stats.state.word(),
            since: last.map(|(_, at)| now.saturating_sub(at)),
            wire_version: stats.peer.as_ref().map(|peer| peer.version.0),
            rtt_ns: stats.round_trip.map(|rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX)),
            clock_offset_ns: stats.clock_offset_ns,
            in_doubt_frames: stats.in_doubt_frames,
            in_doubt_bytes: stats.in_doubt_bytes,
            window_frames: stats.window_frames,
            window_bytes: stats.window_bytes,
            stalled_targets: stats.stalled_targets,
            messages_out: totals.messages_out,
            messages_in: totals.messages_in,
            bytes_out: totals.bytes_out,
            bytes_in: totals.bytes_in,
            ups: totals.ups,
            downs: totals.downs,
            last_down: totals.last_down.map(|reason| reason.to_string()),
            vitals: self.vitals.lock().seen(now),
        }
    }

    pub(super) fn figures(&self) -> LinkFigures {
        let stats = self.session.lock().stats();
        LinkFigures {
            rtt_ns: stats.round_trip.map(|rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX)),
            sent_bytes: stats.totals.bytes_out,
            received_bytes: stats.totals.bytes_in,
            credit_frames: stats.window_frames.saturating_sub(stats.in_doubt_frames),
            in_doubt_frames: stats.in_doubt_frames,
            clock_offset_ns: stats.clock_offset_ns,
        }
    }

    pub(super) fn is_to(&self, node: u32) -> bool {
        self.node.load(Ordering::Acquire) == node
    }

    pub(super) fn has_left(&self) -> bool {
        let is_closed = || {
            let session = self.session.lock();
            session.stats().state == State::Closed && !session.has_event()
        };
        self.left.get().is_some() || is_closed()
    }

    /// Returns true unless this node has left the peer while something was not acknowledged. The last frame, which says that
    /// this node leaves, may be: the peer may leave at the same time.
    pub(super) fn has_acknowledged(&self) -> bool {
        self.left.get().is_none_or(|unacknowledged| *unacknowledged <= 1)
    }
}
