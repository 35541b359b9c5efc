//! The state machine of a session: the handshake, and the end of each session.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::backoff::Backoff;
use super::config::Config;
use super::established::Established;
use super::event::{DownReason, Event, LinkChange, Outgoing, RefusedReason, SendError, SendErrorReason, Transmit};
use super::fault::Fault;
use super::proposals::{Proposal, Proposals};
use super::stats::{State, Stats, Totals};
use crate::identity::{Address, BootId, Epoch, Identity, NodeName};
use crate::wire::{Hello, HelloAck, Lane, Packet, Version};

/// Maximum number of control packets that wait for the link. The oldest are dropped: they are repeated.
const CONTROL_PACKETS_MAX: usize = 32;
/// Number of events that may wait for this node while it acknowledges. Beyond it, the other node's window closes.
const ACKNOWLEDGED_EVENTS_MAX: usize = 1_024;
/// Delay of a tick beyond which this node was not running: the silence of the peer is then forgiven.
const LATE: Duration = Duration::from_millis(250);

/// The sessions with one peer, one after the other, each with its own epoch; at most one is up.
///
/// Create one for each peer and keep it while this node lives: it counts the epochs. Times are durations since the
/// node started and never go back. After each call, take the events and the packets.
#[derive(Debug)]
pub struct Session {
    config: Config,
    local: Identity,
    peer: NodeName,
    epoch: Epoch,
    is_linked: bool,
    phase: Phase,
    proposals: Proposals,
    control: VecDeque<Bytes>,
    events: VecDeque<Event>,
    refused: Option<BootId>,
    /// Time at which the session that is up began.
    up_at: Duration,
    backoff: Backoff,
    totals: Totals,
}

#[derive(Debug)]
enum Phase {
    NoLink,
    Connecting { hello_at: Duration, interval: Duration },
    Up(Box<Established>),
    PeerLeft { boot: BootId, tag_in: u64, last_ack: Option<Bytes> },
    Closed,
}

impl Session {
    /// Creates the session of this life of a node with a peer.
    pub fn new(config: Config, local: Identity, peer: NodeName) -> Self {
        Self {
            config,
            local,
            peer,
            epoch: Epoch::FIRST,
            is_linked: false,
            phase: Phase::NoLink,
            proposals: Proposals::default(),
            control: VecDeque::new(),
            events: VecDeque::new(),
            refused: None,
            up_at: Duration::ZERO,
            backoff: Backoff::default(),
            totals: Totals::default(),
        }
    }

    /// Begins with a later number than that of an earlier session of this life with the peer.
    #[must_use]
    pub fn from_epoch(mut self, epoch: Epoch) -> Self {
        self.epoch = epoch;
        self
    }

    /// Returns the number of this session, or of the next one if it is not up.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the name of the peer.
    pub const fn peer(&self) -> &NodeName {
        &self.peer
    }

    /// Returns true if messages may be sent.
    pub const fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up(_))
    }

    /// Returns true while the link sees the peer.
    pub const fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Ends the session, because what it delivered is not what a node sends.
    pub fn break_off(&mut self, now: Duration) {
        self.end(now, DownReason::Protocol);
    }

    /// Notes that the link sees the peer, or has lost it. A repeated report changes nothing.
    pub fn on_link(&mut self, now: Duration, change: LinkChange) {
        if matches!(self.phase, Phase::Closed) {
            return;
        }
        let was_linked = std::mem::replace(&mut self.is_linked, change == LinkChange::Up);
        match change {
            LinkChange::Up if !was_linked && !self.is_up() => self.connect(now),
            LinkChange::Up => {}
            LinkChange::Down if self.is_up() => {
                self.end(now, DownReason::LinkLost);
                if self.config.has(Fault::RepeatsDown) {
                    self.events.push_back(Event::Down(DownReason::LinkLost));
                }
            }
            LinkChange::Down => self.phase = Phase::NoLink,
        }
        if !self.is_linked {
            self.proposals.clear();
            self.control.clear();
        }
    }

    /// Reads a packet of the peer.
    pub fn on_packet(&mut self, now: Duration, packet: Bytes) {
        self.totals.packets_in += 1;
        self.totals.bytes_in += packet.len() as u64;
        if !self.is_linked || matches!(self.phase, Phase::Closed) {
            self.totals.stale_packets += 1;
            return;
        }
        let Ok(packet) = Packet::decode(packet) else {
            self.totals.malformed_packets += 1;
            return;
        };
        let tag = match &packet {
            Packet::Hello(hello) => return self.on_hello(now, hello, None),
            Packet::HelloAck(ack) => return self.on_hello(now, &ack.hello, Some((ack.echo_boot, ack.echo_epoch))),
            Packet::Unknown(_) => return,
            Packet::Ack(ack) => ack.tag,
            Packet::Ping(ping) => ping.tag,
            Packet::Pong(pong) => pong.tag,
            Packet::Stream(stream) => stream.tag,
        };
        if !self.admit(now, tag) {
            self.totals.stale_packets += 1;
            return;
        }
        let delivered = self.events.len();
        if let Err(reason) = self.on_packet_of_session(now, packet) {
            self.end(now, reason);
        }
        let messages = self.events.iter().skip(delivered).filter(|event| matches!(event, Event::Deliver(_)));
        self.totals.messages_in += messages.count() as u64;
        self.close_if_left(now);
    }

    /// Returns true if a packet with this tag belongs to the session. A tag that was proposed begins a session.
    fn admit(&mut self, now: Duration, tag: u64) -> bool {
        match &self.phase {
            Phase::Up(session) if session.tag_in == tag || self.config.has(Fault::IgnoresTags) => return true,
            Phase::PeerLeft { tag_in, last_ack, .. } if *tag_in == tag => {
                // The peer leaves, and has not got the acknowledgement that it waits for.
                self.control.extend(last_ack.clone().filter(|_| self.control.is_empty()));
                return false;
            }
            Phase::Up(_) | Phase::Connecting { .. } => {}
            Phase::NoLink | Phase::PeerLeft { .. } | Phase::Closed => return false,
        }
        let Some(proposal) = self.proposals.with_tag(tag).cloned() else { return false };
        self.establish(now, &proposal);
        true
    }

    fn on_packet_of_session(&mut self, now: Duration, packet: Packet) -> Result<(), DownReason> {
        let Phase::Up(session) = &mut self.phase else { return Ok(()) };
        session.liveness.heard(now);
        match packet {
            Packet::Ack(ack) => session.on_ack(now, ack, &self.config, &mut self.events)?,
            Packet::Ping(ping) => {
                let answer = session.pong(now, ping, &self.config);
                self.push_control(answer);
            }
            Packet::Pong(pong) => session.liveness.on_pong(now, pong.sent_ns, pong.wall_ns, &self.config),
            Packet::Stream(stream) => session.on_stream(now, stream, &self.config, &mut self.events)?,
            Packet::Hello(_) | Packet::HelloAck(_) | Packet::Unknown(_) => {}
        }
        Ok(())
    }

    /// Reads a HELLO, or a `HELLO_ACK` with its echo.
    fn on_hello(&mut self, now: Duration, hello: &Hello, echo: Option<(BootId, Epoch)>) {
        let is_for_us = hello.from == self.peer && hello.to == self.local.name && hello.boot != self.local.boot;
        if !is_for_us {
            self.totals.malformed_packets += 1;
            return;
        }
        if now < self.backoff.until() {
            self.totals.stale_packets += 1;
            return;
        }
        let trusts_answers = self.config.has(Fault::TakesAnswersOfOthers);
        if echo.is_some_and(|(boot, _)| boot != self.local.boot) && !trusts_answers {
            // The answer to another life of this node: the link knows only names.
            self.totals.stale_packets += 1;
            return;
        }
        let Some(version) = Version::negotiated(self.config.versions, hello.versions) else {
            return self.refuse(hello);
        };
        if !self.may_begin(now, hello, echo.is_some()) {
            return;
        }
        if matches!(self.phase, Phase::Closed) || now < self.backoff.until() {
            // This node was leaving, or the peer begins sessions too often.
            return;
        }
        // A session with another life is only proposed: it needs a number of its own.
        let epoch = if self.is_up() { self.next_epoch() } else { self.epoch };
        let is_confirmed = echo == Some((self.local.boot, epoch));
        if echo.is_some() && !is_confirmed {
            self.totals.stale_packets += 1;
            return;
        }
        let proposal = Proposal::new((self.local.boot, epoch), hello, version, &self.config);
        if !self.proposals.offer(proposal.clone()) {
            self.totals.stale_packets += 1;
        } else if is_confirmed {
            self.establish(now, &proposal);
        } else {
            self.answer(epoch, hello);
        }
    }

    /// Returns true if a HELLO may begin a session in this phase; ends the session that it replaces.
    fn may_begin(&mut self, now: Duration, hello: &Hello, is_answer: bool) -> bool {
        match &self.phase {
            Phase::NoLink | Phase::Closed => return false,
            Phase::PeerLeft { boot, .. } if *boot == hello.boot => return false,
            Phase::PeerLeft { .. } => self.connect(now),
            Phase::Up(session) if session.info.identity.boot == hello.boot => {
                let known = session.info.peer_epoch;
                if hello.epoch == known && !is_answer {
                    // Its HELLO crossed our answer, or our answer was lost.
                    self.answer(self.epoch, hello);
                }
                if hello.epoch <= known || is_answer && !self.config.has(Fault::TakesAnswersOfOthers) {
                    return false;
                }
                self.end(now, DownReason::OtherEpoch);
            }
            Phase::Up(_) if self.config.has(Fault::TrustsOldHellos) => self.end(now, DownReason::Restarted),
            Phase::Up(_) | Phase::Connecting { .. } => {}
        }
        true
    }

    fn refuse(&mut self, hello: &Hello) {
        if self.refused != Some(hello.boot) {
            self.refused = Some(hello.boot);
            let reason = RefusedReason::Version { theirs: hello.versions, ours: self.config.versions };
            self.events.push_back(Event::Refused(reason));
        }
    }

    /// Answers a HELLO.
    fn answer(&mut self, epoch: Epoch, hello: &Hello) {
        let ack = HelloAck { hello: self.hello(epoch), echo_boot: hello.boot, echo_epoch: hello.epoch };
        self.push_control(ack.encode());
    }

    fn hello(&self, epoch: Epoch) -> Hello {
        Hello {
            versions: self.config.versions,
            features: self.config.features,
            boot: self.local.boot,
            epoch,
            window_frames: self.config.window_frames,
            window_bytes: self.config.window_bytes,
            target_messages: self.config.target_messages,
            from: self.local.name.clone(),
            to: self.peer.clone(),
            held_bytes: self.config.versions.1.has_held_bytes().then_some(self.config.held_bytes),
        }
    }

    fn push_control(&mut self, packet: Bytes) {
        if self.control.len() == CONTROL_PACKETS_MAX {
            self.control.pop_front();
        }
        self.control.push_back(packet);
    }

    fn connect(&mut self, now: Duration) {
        let hello_at = now.max(self.backoff.until());
        self.phase = Phase::Connecting { hello_at, interval: self.config.hello_interval };
        self.say_hello(now);
    }

    /// Sends a HELLO if one is due.
    fn say_hello(&mut self, now: Duration) {
        let Phase::Connecting { hello_at, interval } = &mut self.phase else { return };
        if now >= *hello_at {
            *hello_at = now + *interval;
            *interval = (*interval * 2).min(self.config.hello_interval * 8);
            let hello = self.hello(self.epoch).encode();
            self.push_control(hello);
        }
    }

    fn establish(&mut self, now: Duration, proposal: &Proposal) {
        if self.is_up() {
            self.end(now, DownReason::Restarted);
        }
        if matches!(self.phase, Phase::Closed) || now < self.backoff.until() {
            // This node was leaving, or the peer begins sessions too often.
            return;
        }
        self.up_at = now;
        let session = Established::new(now, self.peer.clone(), proposal);
        self.proposals.clear();
        self.totals.ups += 1;
        self.events.push_back(Event::Up(session.info.clone()));
        self.phase = Phase::Up(Box::new(session));
    }

    fn next_epoch(&self) -> Epoch {
        if self.config.has(Fault::KeepsItsEpoch) { self.epoch } else { self.epoch.next() }
    }

    /// Ends the session that is up: the only place that reports it.
    fn end(&mut self, now: Duration, reason: DownReason) {
        let Phase::Up(mut session) = std::mem::replace(&mut self.phase, Phase::NoLink) else { return };
        self.totals.downs += 1;
        self.totals.last_down = Some(reason);
        self.backoff.on_end(now, reason, now.saturating_sub(self.up_at));
        self.totals.duplicate_frames += session.inbound.duplicates();
        if !self.config.has(Fault::ForgetsDown) {
            self.events.push_back(Event::Down(reason));
        }
        self.epoch = self.next_epoch();
        self.proposals.retain_epoch(self.epoch);
        self.control.clear();
        if session.leaves_at.is_some() {
            let unacknowledged = session.outbound.in_flight().0 as u64;
            self.events.push_back(Event::Left { unacknowledged });
            self.phase = Phase::Closed;
        } else if reason == DownReason::Left {
            session.inbound.hurry_ack();
            let last_ack = session.take_ack();
            self.control.extend(last_ack.clone());
            self.phase = Phase::PeerLeft { boot: session.info.identity.boot, tag_in: session.tag_in, last_ack };
        } else if self.is_linked {
            self.connect(now);
        }
    }

    /// Does what is due. Call it at [`Self::deadline`], or every few milliseconds.
    pub fn on_tick(&mut self, now: Duration) {
        let late = self.deadline().map_or(Duration::ZERO, |deadline| now.saturating_sub(deadline));
        self.say_hello(now);
        let Phase::Up(session) = &mut self.phase else { return };
        if late > LATE {
            session.liveness.forgive(late);
        }
        match session.on_tick(now, &self.config, &mut self.events) {
            Ok(ping) => ping.into_iter().for_each(|ping| self.push_control(ping)),
            Err(reason) => self.end(now, reason),
        }
        self.close_if_left(now);
    }

    /// Returns the time of the next tick that matters.
    pub fn deadline(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Connecting { hello_at, .. } => Some(*hello_at),
            Phase::Up(session) => session.deadline(&self.config),
            Phase::NoLink | Phase::PeerLeft { .. } | Phase::Closed => None,
        }
    }

    /// Accepts a message, or hands it back. An accepted message arrives, or the session goes down.
    ///
    /// # Errors
    /// [`SendErrorReason::Busy`]: wait for [`Event::Room`]. Signals are never busy. The others do not change by waiting
    /// for room.
    pub fn send(&mut self, now: Duration, message: Outgoing) -> Result<(), SendError> {
        let Phase::Up(session) = &mut self.phase else {
            let is_closed = matches!(self.phase, Phase::Closed);
            let reason = if is_closed { SendErrorReason::Leaving } else { SendErrorReason::NotUp };
            return Err(SendError { reason, message });
        };
        let sent = session.send(now, message, &self.config);
        match &sent {
            Ok(()) => self.totals.messages_out += 1,
            Err(error) => self.totals.busy += u64::from(matches!(error.reason, SendErrorReason::Busy(_))),
        }
        if session.outbound.overflows(&self.config) {
            self.end(now, DownReason::Overflow);
        }
        sent
    }

    /// Checks that a message of `length` bytes to a process would be accepted now.
    ///
    /// # Errors
    /// As those of [`Self::send`]. After [`SendErrorReason::Busy`], [`Event::Room`] follows.
    pub fn check_room(&mut self, to: Address, length: usize) -> Result<(), SendErrorReason> {
        match &mut self.phase {
            Phase::Up(session) => session.check_room(to, length, &self.config),
            Phase::Closed => Err(SendErrorReason::Leaving),
            Phase::NoLink | Phase::Connecting { .. } | Phase::PeerLeft { .. } => Err(SendErrorReason::NotUp),
        }
    }

    /// Returns the credit of messages that a process has taken, or that were dropped because it is dead. `epoch` is
    /// that of the messages, `bytes` the length of their payloads. Not for signals.
    pub fn consumed(&mut self, now: Duration, epoch: Epoch, to: Address, messages: u32, bytes: u64) {
        if let Phase::Up(session) = &mut self.phase
            && session.info.epoch == epoch
        {
            session.consumed(now, to, (messages, bytes), &self.config, &mut self.events);
        }
    }

    /// Leaves: what was accepted is sent, then BYE. [`Event::Left`] comes when all was acknowledged, or at the deadline.
    pub fn leave(&mut self, now: Duration, deadline: Duration) {
        match &mut self.phase {
            Phase::Up(session) if session.leaves_at.is_some() => {}
            Phase::Up(session) => {
                session.leaves_at = Some(deadline);
                session.outbound.close(&self.config);
                self.close_if_left(now);
            }
            Phase::Closed => {}
            Phase::NoLink | Phase::Connecting { .. } | Phase::PeerLeft { .. } => {
                self.phase = Phase::Closed;
                self.control.clear();
                self.events.push_back(Event::Left { unacknowledged: 0 });
            }
        }
    }

    fn close_if_left(&mut self, now: Duration) {
        let Phase::Up(session) = &mut self.phase else { return };
        let is_over = session.leaves_at.is_some_and(|deadline| now >= deadline);
        if session.has_left(&self.config) || is_over {
            self.end(now, DownReason::Left);
        }
    }

    /// Returns true if [`Self::poll_transmit`] has a packet.
    pub fn has_transmit(&self) -> bool {
        let acknowledges = self.acknowledges();
        let is_waiting =
            |session: &Established| acknowledges && session.inbound.owes_ack() || session.outbound.has_packet();
        !self.control.is_empty() || matches!(&self.phase, Phase::Up(session) if is_waiting(session))
    }

    /// Returns true if this node takes its events as fast as they come. Nothing else bounds signals.
    fn acknowledges(&self) -> bool {
        self.events.len() <= ACKNOWLEDGED_EVENTS_MAX
    }

    /// Returns the number of frames that the other node has not acknowledged, and their length in bytes.
    pub fn in_flight(&self) -> (usize, usize) {
        if let Phase::Up(session) = &self.phase { session.outbound.in_flight() } else { (0, 0) }
    }

    /// Takes the next packet for the link.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        let transmit = self.next_transmit()?;
        self.totals.packets_out += 1;
        self.totals.bytes_out += transmit.packet.len() as u64;
        Some(transmit)
    }

    fn next_transmit(&mut self) -> Option<Transmit> {
        let control = |packet| Transmit { lane: Lane::Control, packet };
        if let Some(packet) = self.control.pop_front() {
            return Some(control(packet));
        }
        let acknowledges = self.acknowledges();
        let Phase::Up(session) = &mut self.phase else { return None };
        let ack = if acknowledges { session.take_ack() } else { None };
        ack.map(control).or_else(|| {
            let packet = session.outbound.packet()?;
            Some(Transmit { lane: Lane::Stream, packet })
        })
    }

    /// Returns true if [`Self::poll_event`] has an event.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the last PING that the other node has answered in this session: it was there at that time or
    /// later.
    pub fn proof(&self) -> Option<Duration> {
        if let Phase::Up(session) = &self.phase { session.liveness.round_trip().proof } else { None }
    }

    /// Returns the figures of the session.
    pub fn stats(&self) -> Stats {
        let state = match &self.phase {
            Phase::NoLink => State::NoLink,
            Phase::Connecting { .. } => State::Connecting,
            Phase::Up(session) if session.leaves_at.is_some() => State::Leaving,
            Phase::Up(_) => State::Up,
            Phase::PeerLeft { .. } => State::PeerLeft,
            Phase::Closed => State::Closed,
        };
        let session = if let Phase::Up(session) = &self.phase { Some(session) } else { None };
        Stats::new(state, session.map(|session| &**session), self.totals)
    }
}
