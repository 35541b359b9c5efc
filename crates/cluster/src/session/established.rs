//! A session that is up: both directions, and the signs of life.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::config::Config;
use super::event::{DownReason, Event, Outgoing, PeerInfo, SendError, SendErrorReason};
use super::fault::Fault;
use super::inbound::{Inbound, Returned};
use super::liveness::Liveness;
use super::outbound::Outbound;
use super::proposals::Proposal;
use crate::identity::{Address, Identity, NodeName};
use crate::wire::{Ack, Ping, Pong, Stream};

/// A session that is up.
#[derive(Debug)]
pub(super) struct Established {
    pub(super) info: PeerInfo,
    pub(super) tag_in: u64,
    tag_out: u64,
    pub(super) outbound: Outbound,
    pub(super) inbound: Inbound,
    pub(super) liveness: Liveness,
    /// Time at which this node leaves, whatever was acknowledged.
    pub(super) leaves_at: Option<Duration>,
}

impl Established {
    pub(super) fn new(now: Duration, name: NodeName, proposal: &Proposal) -> Self {
        Self {
            info: PeerInfo {
                identity: Identity { name, boot: proposal.boot },
                epoch: proposal.epoch,
                peer_epoch: proposal.peer_epoch,
                version: proposal.version,
                features: proposal.features,
            },
            tag_in: proposal.tag_in,
            tag_out: proposal.tag_out,
            outbound: Outbound::new(proposal.tag_out, proposal.window),
            inbound: Inbound::new(proposal.epoch, proposal.held_bytes),
            liveness: Liveness::new(now, proposal.version.has_ping()),
            leaves_at: None,
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.outbound.in_flight().0 > 0
    }

    pub(super) fn send(&mut self, now: Duration, message: Outgoing, config: &Config) -> Result<(), SendError> {
        if self.leaves_at.is_some() {
            return Err(SendError { reason: SendErrorReason::Leaving, message });
        }
        let length = message.payload.len();
        if length > config.message_bytes {
            let reason = SendErrorReason::TooLarge { length, limit: config.message_bytes };
            return Err(SendError { reason, message });
        }
        let was_in_doubt = self.is_in_doubt();
        let sent = self.outbound.send(message, config);
        if !was_in_doubt {
            self.liveness.progressed(now);
        }
        sent.map_err(|(busy, message)| SendError { reason: SendErrorReason::Busy(busy), message })
    }

    pub(super) fn check_room(&mut self, to: Address, length: usize, config: &Config) -> Result<(), SendErrorReason> {
        if self.leaves_at.is_some() {
            return Err(SendErrorReason::Leaving);
        }
        self.outbound.check_room(to, length, config).map_err(SendErrorReason::Busy)
    }

    pub(super) fn on_stream(
        &mut self,
        now: Duration,
        stream: Stream,
        config: &Config,
        events: &mut VecDeque<Event>,
    ) -> Result<(), DownReason> {
        let outbound = &mut self.outbound;
        let returned = |frame: Returned, events: &mut VecDeque<Event>| match frame {
            Returned::Credit(entries) => outbound.on_credit(&entries, config, events),
            Returned::Bye => Err(DownReason::Left),
        };
        self.inbound.on_stream(now, stream, config, events, returned)?;
        self.refill(now, config, events);
        Ok(())
    }

    pub(super) fn on_ack(
        &mut self,
        now: Duration,
        ack: Ack,
        config: &Config,
        events: &mut VecDeque<Event>,
    ) -> Result<(), DownReason> {
        if self.outbound.on_ack(ack.frames)? {
            self.liveness.progressed(now);
            self.refill(now, config, events);
        }
        Ok(())
    }

    pub(super) fn consumed(
        &mut self,
        now: Duration,
        to: Address,
        (messages, bytes): (u32, u64),
        config: &Config,
        events: &mut VecDeque<Event>,
    ) {
        self.inbound.consumed(now, to, messages, bytes, config);
        if self.inbound.credit_entries() > 0 {
            self.refill(now, config, events);
        }
    }

    /// Moves into the window what has room there: credit first, since the other node may wait for it.
    fn refill(&mut self, now: Duration, config: &Config, events: &mut VecDeque<Event>) {
        let was_in_doubt = self.is_in_doubt();
        while self.inbound.credit_entries() > 0 && self.outbound.has_room_for_credit(self.inbound.credit_entries()) {
            self.outbound.send_credit(self.inbound.take_credit());
        }
        self.outbound.refill(config, events);
        if self.leaves_at.is_some() {
            self.outbound.close(config);
        }
        if !was_in_doubt && self.is_in_doubt() {
            self.liveness.progressed(now);
        }
    }

    /// Does what is due. Returns a PING to be sent.
    pub(super) fn on_tick(
        &mut self,
        now: Duration,
        config: &Config,
        events: &mut VecDeque<Event>,
    ) -> Result<Option<Bytes>, DownReason> {
        if let Some(reason) = self.liveness.failure(now, self.is_in_doubt(), config) {
            return Err(reason);
        }
        self.inbound.on_tick(now);
        self.refill(now, config, events);
        let ping = Ping { tag: self.tag_out, sent_ns: now.as_nanos() as u64 };
        Ok(self.liveness.takes_ping(now, config).then(|| ping.encode()))
    }

    /// Returns the answer to a PING.
    pub(super) fn pong(&mut self, now: Duration, ping: Ping, config: &Config) -> Bytes {
        self.inbound.hurry_ack();
        let wall_ns = if config.started_at_ns == 0 { 0 } else { config.started_at_ns + now.as_nanos() as u64 };
        Pong { tag: self.tag_out, sent_ns: ping.sent_ns, wall_ns }.encode()
    }

    /// Returns the acknowledgement that is owed.
    pub(super) fn take_ack(&mut self) -> Option<Bytes> {
        let frames = self.inbound.take_ack()?;
        Some(Ack { tag: self.tag_out, frames }.encode())
    }

    /// Returns true if this node leaves and the other one has all that was sent.
    pub(super) fn has_left(&mut self, config: &Config) -> bool {
        let is_over = |outbound: &Outbound| outbound.is_drained() || config.has(Fault::LeavesAtOnce);
        self.leaves_at.is_some() && self.outbound.close(config) && is_over(&self.outbound)
    }

    pub(super) fn deadline(&self, config: &Config) -> Option<Duration> {
        let liveness = self.liveness.deadline(self.is_in_doubt(), config);
        liveness.into_iter().chain(self.inbound.deadline()).chain(self.leaves_at).min()
    }
}
