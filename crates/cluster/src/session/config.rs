//! Limits and times of a session.

use std::time::Duration;

use super::fault::Fault;
use crate::wire::limits::{CHUNK_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::wire::{Features, Version};

/// Length of the messages that may wait at a node that says nothing about it, and from one, in bytes: nodes that are older
/// than this limit in HELLO.
pub(super) const HELD_BYTES_OF_OLD_NODES: u64 = 256 << 20;

/// Limits and times of a session. The defaults are those that were measured on one machine; over long distances, the
/// window is what grows.
#[derive(Clone, Debug)]
pub struct Config {
    /// Oldest and newest version of the wire to speak.
    pub versions: (Version, Version),
    /// Features to offer.
    pub features: Features,
    /// Maximum number of frames in flight. Default 16,384.
    pub window_frames: u32,
    /// Maximum number of bytes in flight. More makes it slower to find out that a node hangs. Default 1 MiB.
    pub window_bytes: u32,
    /// Maximum number of messages for one process that it has not taken, beyond its mailbox. Default 4,096.
    pub target_messages: u32,
    /// Maximum length of these messages, in bytes, if it is more than one. Default 4 MiB.
    pub target_bytes: u64,
    /// Maximum number of messages that all processes of the other node together have not taken. Default 262,144.
    pub held_messages: u64,
    /// Maximum length of the messages of the other node that the processes of this one together have not taken, in bytes.
    /// The other node is told. Default 256 MiB; a member of a cluster allows less if its mailboxes are small.
    pub held_bytes: u64,
    /// Maximum length of a chunk, in bytes. Default 64 KiB.
    pub chunk_bytes: usize,
    /// Maximum length of a message, in bytes. Default 64 MiB.
    pub message_bytes: usize,
    /// Maximum number of signals that wait for room. Beyond it, the session ends. Default 1,048,576.
    pub waiting_signals: usize,
    /// Maximum length of these signals, in bytes. Default 64 MiB.
    pub waiting_signal_bytes: usize,
    /// Time after which the link notices that a node is gone. The session itself waits one second longer. Default 2 s.
    pub lease: Duration,
    /// Maximum time until frames are acknowledged and credit is returned. Default 5 ms.
    pub ack_delay: Duration,
    /// Time between the first two HELLOs; it doubles up to eight times this time. Default 250 ms.
    pub hello_interval: Duration,
    /// Time of day at which the node started, in nanoseconds since 1970, for the clock offset. Default 0: not known.
    pub started_at_ns: u64,
    /// A planted bug, for tests of the simulation.
    #[cfg(any(test, feature = "simulation"))]
    pub fault: Option<Fault>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            versions: (Version::OLDEST, Version::NEWEST),
            features: Features::NONE,
            window_frames: 16_384,
            window_bytes: 1 << 20,
            target_messages: 4_096,
            target_bytes: 4 << 20,
            held_messages: 1 << 18,
            held_bytes: HELD_BYTES_OF_OLD_NODES,
            chunk_bytes: CHUNK_BYTES_MAX,
            message_bytes: MESSAGE_BYTES_MAX,
            waiting_signals: 1 << 20,
            waiting_signal_bytes: 64 << 20,
            lease: Duration::from_secs(2),
            ack_delay: Duration::from_millis(5),
            hello_interval: Duration::from_millis(250),
            started_at_ns: 0,
            #[cfg(any(test, feature = "simulation"))]
            fault: None,
        }
    }
}

impl Config {
    /// Returns the time without progress after which the session ends.
    pub fn patience(&self) -> Duration {
        self.lease + Duration::from_secs(1)
    }

    /// Returns the maximum number of long messages under way: what may be held or wait, in chunks, and those in flight.
    pub(super) fn parts_max(&self, held_bytes: u64) -> usize {
        let bytes = held_bytes as usize + self.waiting_signal_bytes + self.window_bytes as usize;
        bytes / self.chunk_bytes.max(1) + 2
    }

    /// Returns the number of frames after which an acknowledgement does not wait.
    pub(super) fn ack_frames(&self) -> u64 {
        u64::from((self.window_frames / 4).clamp(1, 1_024))
    }

    /// Returns the number of bytes after which an acknowledgement does not wait.
    pub(super) fn ack_bytes(&self) -> u64 {
        u64::from(self.window_bytes / 8)
    }

    /// Returns true if a test planted this bug.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Returns false: bugs are planted in tests only.
    #[cfg(not(any(test, feature = "simulation")))]
    #[expect(clippy::unused_self, reason = "the same call as in tests")]
    pub(super) const fn has(&self, _fault: Fault) -> bool {
        false
    }
}
