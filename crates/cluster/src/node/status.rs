//! Figures of the connections of a node.

use std::sync::atomic::Ordering;

use rusm_runtime::embed::remote::LinkFigures;

use super::connection::Connection;
use crate::identity::NodeName;
use crate::session::{State, Stats};

/// State and figures of the connection to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Name of the peer.
    pub name: NodeName,
    /// Node part of the pids of its processes; 0 if it is not connected.
    pub node: u32,
    /// Figures of its session.
    pub stats: Stats,
}

impl Connection {
    pub(super) fn status(&self) -> PeerStatus {
        let stats = self.session.lock().stats();
        PeerStatus { name: self.peer.clone(), node: self.node.load(Ordering::Acquire), stats }
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
        self.left.load(Ordering::Acquire) || self.session.lock().stats().state == State::Closed
    }
}
