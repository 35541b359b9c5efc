//! The properties of sessions, checked at one end of them.

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::label::Label;
use crate::identity::{Address, BootId};
use crate::session::{DownReason, Incoming, PeerInfo};

/// A broken property, and where it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("seed {seed}, {at_ms} ms, {node} with {peer}: {what}")]
pub struct Violation {
    /// Seed of the run.
    pub seed: u64,
    /// Time of the world, in milliseconds.
    pub at_ms: u64,
    /// The node that saw it.
    pub node: String,
    /// The other node.
    pub peer: String,
    /// Description.
    pub what: String,
}

/// Sessions of one node with one peer.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) current: Option<Record>,
    /// The session before, and why it ended.
    pub(super) ended: Option<(Record, DownReason)>,
    pub(super) delivered: u64,
    pub(super) downs: u64,
}

/// One session.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) peer: PeerInfo,
    /// Number of messages sent, by sender and receiver.
    pub(super) sent: FxHashMap<(Address, Address), u32>,
    /// Number of messages received, by sender and receiver.
    pub(super) received: FxHashMap<(Address, Address), u32>,
}

impl Ledger {
    pub(super) fn up(&mut self, peer: PeerInfo) -> Result<(), String> {
        if self.current.is_some() {
            return Err("a session is up although the one before has not ended".to_owned());
        }
        if let Some((ended, reason)) = &self.ended {
            if peer.epoch <= ended.peer.epoch {
                return Err(format!("epoch {} comes after {}", peer.epoch.0, ended.peer.epoch.0));
            }
            if *reason == DownReason::Restarted && peer.identity.boot == ended.peer.identity.boot {
                return Err("a node has restarted and is the same".to_owned());
            }
        }
        self.current = Some(Record { peer, sent: FxHashMap::default(), received: FxHashMap::default() });
        Ok(())
    }

    pub(super) fn down(&mut self, reason: DownReason) -> Result<(), String> {
        let ended = self.current.take().ok_or_else(|| format!("a session that is not up ends: {reason}"))?;
        self.ended = Some((ended, reason));
        self.downs += 1;
        Ok(())
    }

    /// Checks a message: in a session, of this session, the next of its pair of processes, and whole.
    pub(super) fn deliver(&mut self, own: BootId, message: &Incoming) -> Result<(), String> {
        let session = self.current.as_mut().ok_or("a message arrives without a session")?;
        let label = Label::decode(&message.payload).ok_or("a message arrives damaged")?;
        if message.epoch != session.peer.epoch {
            return Err(format!("a message names epoch {} in {}", message.epoch.0, session.peer.epoch.0));
        }
        if (label.from, label.to) != (session.peer.identity.boot, own) {
            return Err("a message of another life arrives".to_owned());
        }
        if label.epoch != session.peer.peer_epoch {
            return Err(format!("a message of epoch {} arrives in {}", label.epoch.0, session.peer.peer_epoch.0));
        }
        let next = session.received.entry((message.from, message.to)).or_default();
        if label.number != *next {
            let (from, to) = (message.from, message.to);
            return Err(format!("{from} to {to}: message {} arrives instead of {next}", label.number));
        }
        *next += 1;
        self.delivered += 1;
        Ok(())
    }

    /// Returns the label of the next message.
    pub(super) fn label(&self, own: BootId, from: Address, to: Address, length: u32) -> Option<Label> {
        let session = self.current.as_ref()?;
        let number = session.sent.get(&(from, to)).copied().unwrap_or(0);
        Some(Label { from: own, epoch: session.peer.epoch, to: session.peer.identity.boot, number, length })
    }

    /// Counts a message that was accepted.
    pub(super) fn sent(&mut self, from: Address, to: Address) {
        if let Some(session) = &mut self.current {
            *session.sent.entry((from, to)).or_default() += 1;
        }
    }
}

impl Record {
    /// Returns true if both records are of the two ends of one session.
    pub(super) fn is_other_end_of(&self, other: &Self) -> bool {
        (self.peer.epoch, self.peer.peer_epoch) == (other.peer.peer_epoch, other.peer.epoch)
    }

    /// Checks that the other end has received what this one has sent, except to one process.
    pub(super) fn check_arrived(&self, other: &Self, except: Option<Address>) -> Result<(), String> {
        for ((from, to), sent) in self.sent.iter().filter(|((_, to), _)| Some(*to) != except) {
            let received = other.received.get(&(*from, *to)).copied().unwrap_or(0);
            if received != *sent {
                return Err(format!("{from} to {to}: {sent} messages were sent and {received} arrived"));
            }
        }
        Ok(())
    }
}
