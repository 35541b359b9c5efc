//! A node of a run: its sessions, and processes that send, wait for room, and take messages.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::clock::{Clock, WorldTime};
use super::label::LABEL_BYTES;
use super::ledger::Ledger;
use super::plan::{PROCESSES, Traffic};
use super::rng::Rng;
use crate::identity::{Address, BootId, Epoch, Identity, NodeName};
use crate::session::{Busy, Config, Event, Incoming, LinkChange, Outgoing, SendErrorReason, Session};
use crate::wire::Kind;

/// One life of a node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) identity: Identity,
    pub(super) clock: Clock,
    pub(super) has_left: bool,
    /// By number of the peer; the entry of the node itself is unused.
    pub(super) peers: Vec<Peer>,
}

/// State of a node towards one peer.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) session: Session,
    pub(super) ledger: Ledger,
    /// Messages of pairs of processes of which the first was handed back.
    waiting: BTreeMap<(Address, Address), Waiting>,
    /// Messages that processes have not taken: number and bytes.
    held: BTreeMap<Address, (u32, u64)>,
    /// Time of the next planned tick.
    pub(super) tick_at: Option<WorldTime>,
}

#[derive(Debug)]
struct Waiting {
    reason: Busy,
    messages: VecDeque<(Kind, u32)>,
}

/// A message that a process takes later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    pub(super) after: WorldTime,
    pub(super) epoch: Epoch,
    pub(super) to: Address,
    pub(super) bytes: u64,
}

/// Returns the address of a process.
pub(super) fn process(index: usize) -> Address {
    Address::new(index as u32 + 1, 1)
}

impl Node {
    pub(super) fn new(name: &NodeName, boot: BootId, clock: Clock, names: &[NodeName], config: &Config) -> Self {
        let identity = Identity { name: name.clone(), boot };
        let peer = |peer: &NodeName| Peer {
            session: Session::new(config.clone(), identity.clone(), peer.clone()),
            ledger: Ledger::default(),
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            tick_at: None,
        };
        Self { peers: names.iter().map(peer).collect(), identity, clock, has_left: false }
    }
}

impl Peer {
    pub(super) fn on_link(&mut self, now: Duration, is_up: bool) {
        self.session.on_link(now, if is_up { LinkChange::Up } else { LinkChange::Down });
    }

    /// Lets processes send: one message, or a burst to one process.
    pub(super) fn send_some(&mut self, now: Duration, own: BootId, traffic: &Traffic, rng: &mut Rng) {
        let to = process(rng.index(PROCESSES));
        let burst = if rng.chance(traffic.bursts) { rng.between(5, 40) } else { 1 };
        for _ in 0..burst {
            let from = process(rng.index(PROCESSES));
            let is_signal = rng.chance(200_000);
            let is_long = rng.chance(100_000);
            let length = LABEL_BYTES as u64 + if is_long { rng.between(200, 2_000) } else { rng.between(0, 60) };
            let kind = if is_signal { Kind::SIGNAL } else { Kind::MESSAGE };
            if let Some(waiting) = self.waiting.get_mut(&(from, to)) {
                waiting.messages.push_back((kind, length as u32));
            } else if let Err(reason) = self.send(now, own, (from, to), kind, length as u32) {
                let messages = VecDeque::from([(kind, length as u32)]);
                self.waiting.insert((from, to), Waiting { reason, messages });
            }
        }
    }

    /// Sends a message. Without a session it is lost, as the session says.
    fn send(
        &mut self,
        now: Duration,
        own: BootId,
        (from, to): (Address, Address),
        kind: Kind,
        length: u32,
    ) -> Result<(), Busy> {
        let Some(label) = self.ledger.label(own, from, to, length) else { return Ok(()) };
        match self.session.send(now, Outgoing { kind, from, to, payload: label.encode() }) {
            Ok(()) => self.ledger.sent(from, to),
            Err(error) => {
                if let SendErrorReason::Busy(busy) = error.reason {
                    return Err(busy);
                }
            }
        }
        Ok(())
    }

    /// Lets the processes that wait for room try again: for that in a process, or for `None` in the windows of pairs.
    fn retry(&mut self, now: Duration, own: BootId, room: Option<Address>) {
        let is_meant = |to: Address, reason: Busy| match room {
            Some(target) => reason == Busy::Target && to == target,
            None => reason == Busy::Pair,
        };
        let waiting = self.waiting.iter().filter(|((_, to), waiting)| is_meant(*to, waiting.reason));
        for pair in waiting.map(|(pair, _)| *pair).collect::<Vec<_>>() {
            let Some(mut waiting) = self.waiting.remove(&pair) else { continue };
            while let Some((kind, length)) = waiting.messages.front().copied() {
                if let Err(reason) = self.send(now, own, pair, kind, length) {
                    waiting.reason = reason;
                    break;
                }
                waiting.messages.pop_front();
            }
            if !waiting.messages.is_empty() {
                self.waiting.insert(pair, waiting);
            }
        }
    }

    /// Handles an event. Returns a process that takes the message, unless it is stuck.
    pub(super) fn on_event(
        &mut self,
        now: Duration,
        own: BootId,
        event: Event,
        (traffic, limit, rng): (&Traffic, u32, &mut Rng),
    ) -> Result<Option<Taking>, String> {
        match event {
            Event::Up(peer) => self.ledger.up(peer)?,
            Event::Down(reason) => {
                self.ledger.down(reason)?;
                self.waiting.clear();
                self.held.clear();
            }
            Event::Deliver(message) => {
                self.ledger.deliver(own, &message)?;
                if !message.kind.is_signal() {
                    return self.hold(&message, traffic, limit, rng);
                }
            }
            Event::Room { to } => self.retry(now, own, to),
            Event::Refused(reason) => return Err(format!("the node was refused: {reason}")),
            Event::Left { .. } => {}
        }
        Ok(None)
    }

    fn hold(
        &mut self,
        message: &Incoming,
        traffic: &Traffic,
        limit: u32,
        rng: &mut Rng,
    ) -> Result<Option<Taking>, String> {
        let (to, bytes) = (message.to, message.payload.len() as u64);
        let held = self.held.entry(to).or_default();
        *held = (held.0 + 1, held.1 + bytes);
        if held.0 > limit {
            return Err(format!("{to} holds {} messages, over {limit}", held.0));
        }
        let is_stuck = traffic.stuck.is_some_and(|stuck| process(stuck) == to);
        let after = rng.between(0, traffic.lazy);
        Ok((!is_stuck).then_some(Taking { after, epoch: message.epoch, to, bytes }))
    }

    /// Lets a process take a message.
    pub(super) fn take(&mut self, now: Duration, taking: Taking) {
        let is_current = self.ledger.current.as_ref().is_some_and(|session| session.peer.epoch == taking.epoch);
        if let Some(held) = self.held.get_mut(&taking.to).filter(|_| is_current) {
            *held = (held.0 - 1, held.1 - taking.bytes);
        }
        self.session.consumed(now, taking.epoch, taking.to, 1, taking.bytes);
    }

    /// Lets a stuck process take all of its messages.
    pub(super) fn release(&mut self, now: Duration, stuck: Address) {
        let Some(epoch) = self.ledger.current.as_ref().map(|session| session.peer.epoch) else { return };
        if let Some((messages, bytes)) = self.held.remove(&stuck) {
            self.session.consumed(now, epoch, stuck, messages, bytes);
        }
    }

    /// Returns a pair of processes that waits for room, except those that send to one process.
    pub(super) fn waiting(&self, except: Option<Address>) -> Option<(Address, Address)> {
        self.waiting.keys().find(|(_, to)| Some(*to) != except).copied()
    }
}
