//! Sessions that other lives of the peer propose, until one of them proves that it is alive.
//!
//! A HELLO may be old: the link may have kept it since before a restart. So a HELLO alone never ends or begins a
//! session. It is answered, and the session begins with the first packet that only its live sender can send.

use xxhash_rust::xxh3::xxh3_64;

use super::config::{Config, HELD_BYTES_OF_OLD_NODES};
use super::fault::Fault;
use super::targets::Window;
use crate::identity::{BootId, Epoch};
use crate::wire::{Features, Hello, Version};

/// Maximum number of lives of the peer that are remembered at a time.
const PROPOSALS_MAX: usize = 4;

/// A session that may begin.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) boot: BootId,
    /// Number of the session at the other node.
    pub(super) peer_epoch: Epoch,
    /// Number of the session at this node.
    pub(super) epoch: Epoch,
    /// Tag of packets to the other node.
    pub(super) tag_out: u64,
    /// Tag of packets from the other node.
    pub(super) tag_in: u64,
    pub(super) version: Version,
    pub(super) features: Features,
    pub(super) window: Window,
    /// Maximum length of the messages of the other node that processes of this node may have waiting, in bytes.
    pub(super) held_bytes: u64,
}

/// The proposed sessions, newest last.
#[derive(Debug, Default)]
pub(super) struct Proposals(Vec<Proposal>);

impl Proposal {
    /// Creates the session that a HELLO proposes.
    pub(super) fn new(ours: (BootId, Epoch), hello: &Hello, version: Version, config: &Config) -> Self {
        let theirs = (hello.boot, hello.epoch);
        Self {
            boot: hello.boot,
            peer_epoch: hello.epoch,
            epoch: ours.1,
            tag_out: tag(ours, theirs, config),
            tag_in: tag(theirs, ours, config),
            version,
            features: config.features.intersection(hello.features),
            window: Window {
                frames: hello.window_frames.min(config.window_frames) as usize,
                bytes: hello.window_bytes.min(config.window_bytes) as usize,
                target_messages: hello.target_messages.min(config.target_messages),
                held_bytes: hello.held_bytes.unwrap_or(HELD_BYTES_OF_OLD_NODES),
            },
            held_bytes: match hello.held_bytes {
                Some(_) => config.held_bytes,
                None => config.held_bytes.max(HELD_BYTES_OF_OLD_NODES),
            },
        }
    }
}

impl Proposals {
    /// Adds a proposal. Returns false if the same life has proposed a later session.
    pub(super) fn offer(&mut self, proposal: Proposal) -> bool {
        if let Some(known) = self.0.iter_mut().find(|known| known.boot == proposal.boot) {
            let is_older = proposal.peer_epoch < known.peer_epoch;
            if !is_older {
                *known = proposal;
            }
            return !is_older;
        }
        if self.0.len() == PROPOSALS_MAX {
            self.0.remove(0);
        }
        self.0.push(proposal);
        true
    }

    /// Returns the proposal with this tag of packets from the other node.
    pub(super) fn with_tag(&self, tag: u64) -> Option<&Proposal> {
        self.0.iter().find(|proposal| proposal.tag_in == tag)
    }

    /// Removes proposals that count another number of this node.
    pub(super) fn retain_epoch(&mut self, epoch: Epoch) {
        self.0.retain(|proposal| proposal.epoch == epoch);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Computes the tag of packets in one direction of a session. No other session of these nodes has it.
fn tag(from: (BootId, Epoch), to: (BootId, Epoch), config: &Config) -> u64 {
    let mut bytes = [0; 48];
    let boots = if config.has(Fault::ForgetsBootIds) { [0, 0] } else { [from.0.0, to.0.0] };
    bytes[..16].copy_from_slice(&boots[0].to_le_bytes());
    bytes[16..24].copy_from_slice(&from.1.0.to_le_bytes());
    bytes[24..40].copy_from_slice(&boots[1].to_le_bytes());
    bytes[40..].copy_from_slice(&to.1.0.to_le_bytes());
    xxh3_64(&bytes)
}
