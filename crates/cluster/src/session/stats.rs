//! Figures of a session, for observers.

use std::time::Duration;

use super::established::Established;
use super::event::{DownReason, PeerInfo};
use super::outbound::Outbound;
use super::targets::Targets;

/// State of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// The link does not see the other node.
    NoLink,
    /// HELLOs are sent.
    Connecting,
    /// Messages may be sent.
    Up,
    /// This node is leaving: it waits for acknowledgements.
    Leaving,
    /// The other node has left.
    PeerLeft,
    /// This node has left.
    Closed,
}

impl State {
    /// Returns the state in one word for observers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoLink => "down",
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Leaving => "leaving",
            Self::PeerLeft | Self::Closed => "left",
        }
    }
}

/// Figures of a session. Totals count all sessions with this peer, and only increase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// State of the session.
    pub state: State,
    /// The other end, while the session is up.
    pub peer: Option<PeerInfo>,
    /// Smoothed round trip, if measured.
    pub round_trip: Option<Duration>,
    /// Clock of the other node minus the clock of this one, in nanoseconds, if measured.
    pub clock_offset_ns: Option<i64>,
    /// Number of frames that are in doubt: sent or about to be sent, and not acknowledged.
    pub in_doubt_frames: u64,
    /// Their length, in bytes.
    pub in_doubt_bytes: u64,
    /// Maximum number of frames in doubt.
    pub window_frames: u64,
    /// Maximum number of bytes in doubt.
    pub window_bytes: u64,
    /// Number of messages that processes of the other node have not taken.
    pub held_messages: u64,
    /// Their length, in bytes.
    pub held_bytes: u64,
    /// Number of processes of the other node that have used up their credit while a sender waits.
    pub stalled_targets: u64,
    /// Number of pairs of processes with messages that wait for room.
    pub waiting_pairs: u64,
    /// Number of processes of this node that have not taken all of their messages.
    pub slow_targets: u64,
    /// Totals.
    pub totals: Totals,
}

impl Stats {
    pub(super) fn new(state: State, session: Option<&Established>, mut totals: Totals) -> Self {
        let outbound = session.map(|session| &session.outbound);
        let (frames, bytes) = outbound.map_or((0, 0), Outbound::in_flight);
        let (window_frames, window_bytes) = outbound.map_or((0, 0), Outbound::window);
        let targets = outbound.map(Outbound::targets);
        let round_trip = session.map(|session| session.liveness.round_trip()).unwrap_or_default();
        totals.duplicate_frames += session.map_or(0, |session| session.inbound.duplicates());
        Self {
            state,
            peer: session.map(|session| session.info.clone()),
            round_trip: round_trip.smoothed,
            clock_offset_ns: round_trip.clock_offset_ns,
            in_doubt_frames: frames as u64,
            in_doubt_bytes: bytes as u64,
            window_frames: window_frames as u64,
            window_bytes: window_bytes as u64,
            held_messages: targets.map_or(0, Targets::messages),
            held_bytes: targets.map_or(0, Targets::bytes),
            stalled_targets: targets.map_or(0, |targets| targets.waiting() as u64),
            waiting_pairs: outbound.map_or(0, |outbound| outbound.waiting_pairs() as u64),
            slow_targets: session.map_or(0, |session| session.inbound.waiting_targets() as u64),
            totals,
        }
    }
}

/// Totals of all sessions with a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of sessions that came up.
    pub ups: u64,
    /// Number of sessions that ended.
    pub downs: u64,
    /// Why the last one ended.
    pub last_down: Option<DownReason>,
    /// Number of messages and signals accepted from processes of this node.
    pub messages_out: u64,
    /// Number of messages and signals delivered to processes of this node.
    pub messages_in: u64,
    /// Number of bytes given to the link.
    pub bytes_out: u64,
    /// Number of bytes taken from the link.
    pub bytes_in: u64,
    /// Number of packets given to the link.
    pub packets_out: u64,
    /// Number of packets taken from the link.
    pub packets_in: u64,
    /// Number of messages that were handed back because something was full.
    pub busy: u64,
    /// Number of dropped packets of earlier sessions.
    pub stale_packets: u64,
    /// Number of dropped frames that had arrived before.
    pub duplicate_frames: u64,
    /// Number of dropped packets that could not be read, or were for another node.
    pub malformed_packets: u64,
}
