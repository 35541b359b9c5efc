//! The direction from the other node to this one: order, long messages, and what is owed to the other node.
//!
//! ```text
//!   packet ──▶ next in order? ──▶ chunks put together ──▶ deliver ──▶ taken by the process ──▶ credit
//!                 └── behind: dropped as a duplicate; ahead: the session ends
//! ```
//!
//! The limits to which an honest sender is held are checked here again: the window, the credit of each process, that of all
//! processes, and the long messages under way. A sender that exceeds one breaks the protocol. A long message uses credit
//! from its first chunk on, as it does at its sender.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustc_hash::FxHashMap;

use super::config::Config;
use super::event::{DownReason, Event, Incoming};
use super::fault::Fault;
use crate::identity::{Address, Epoch};
use crate::wire::limits::CREDIT_ENTRIES_MAX;
use crate::wire::stream::Credit;
use crate::wire::{Frame, Kind, Stream};

/// Frames from the other node.
#[derive(Debug)]
pub(super) struct Inbound {
    epoch: Epoch,
    /// Maximum length of the messages for which credit was not returned, in bytes.
    held_bytes_max: u64,
    /// Number of the next frame.
    expected: u64,
    /// Number of frames and bytes that arrived after the last acknowledgement.
    unacknowledged: (u64, u64),
    ack_at: Option<Duration>,
    owes_ack: bool,
    parts: FxHashMap<(Address, Address), Part>,
    /// Announced length of the long signals among the parts, in bytes.
    signal_parts_bytes: u64,
    targets: FxHashMap<Address, Taken>,
    /// Number of messages of all targets for which credit was not returned, and their length in bytes.
    held: (u64, u64),
    /// Targets with credit to return.
    owed: VecDeque<Address>,
    credit_at: Option<Duration>,
    owes_credit: bool,
    duplicates: u64,
}

/// A long message of which some chunks have arrived.
#[derive(Debug)]
struct Part {
    kind: Kind,
    total: usize,
    bytes: BytesMut,
}

#[derive(Debug, Default)]
struct Taken {
    /// Number of messages that the process has not taken, with those of which some chunks have arrived.
    waiting: u32,
    /// Number of taken messages for which credit is still owed.
    messages: u32,
    bytes: u64,
    /// Length of all these messages, in bytes.
    held_bytes: u64,
}

/// A frame that is for the other direction.
#[derive(Debug)]
pub(super) enum Returned {
    /// Credit of processes of the other node.
    Credit(Vec<Credit>),
    /// The other node leaves.
    Bye,
}

impl Inbound {
    pub(super) fn new(epoch: Epoch, held_bytes_max: u64) -> Self {
        Self {
            epoch,
            held_bytes_max,
            expected: 0,
            unacknowledged: (0, 0),
            ack_at: None,
            owes_ack: true,
            parts: FxHashMap::default(),
            signal_parts_bytes: 0,
            targets: FxHashMap::default(),
            held: (0, 0),
            owed: VecDeque::new(),
            credit_at: None,
            owes_credit: false,
            duplicates: 0,
        }
    }

    /// Number of frames that arrived again.
    pub(super) const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Number of processes that have not taken all of their messages.
    pub(super) fn waiting_targets(&self) -> usize {
        self.targets.values().filter(|taken| taken.waiting > 0).count()
    }

    /// Reads the frames of a packet and delivers the messages that are complete.
    pub(super) fn on_stream(
        &mut self,
        now: Duration,
        stream: Stream,
        config: &Config,
        events: &mut VecDeque<Event>,
        mut returned: impl FnMut(Returned, &mut VecDeque<Event>) -> Result<(), DownReason>,
    ) -> Result<(), DownReason> {
        if stream.first > self.expected {
            if !config.has(Fault::DeliversPastAGap) {
                return Err(DownReason::Gap);
            }
            self.expected = stream.first;
        }
        let seen = if config.has(Fault::DeliversTwice) { 0 } else { self.expected - stream.first };
        if seen > 0 {
            // The acknowledgement may have been lost.
            self.owes_ack = true;
        }
        for (frame, number) in stream.frames.zip(stream.first..) {
            let frame = frame.map_err(|_malformed| DownReason::Protocol)?;
            if number < stream.first + seen {
                self.duplicates += 1;
                continue;
            }
            self.expected = number + 1;
            self.unacknowledged.0 += 1;
            match frame {
                Frame::Data { kind, from, to, payload } => {
                    self.unacknowledged.1 += payload.len() as u64;
                    self.hold(kind, to, payload.len(), config)?;
                    events.push_back(Event::Deliver(Incoming { epoch: self.epoch, kind, from, to, payload }));
                }
                Frame::First { kind, from, to, total, chunk } => {
                    self.unacknowledged.1 += chunk.len() as u64;
                    self.begin(kind, from, to, total as usize, &chunk, config)?;
                }
                Frame::Next { from, to, chunk } => {
                    self.unacknowledged.1 += chunk.len() as u64;
                    if let Some((kind, payload)) = self.append(from, to, &chunk)? {
                        events.push_back(Event::Deliver(Incoming { epoch: self.epoch, kind, from, to, payload }));
                    }
                }
                Frame::Credit(entries) => returned(Returned::Credit(entries), events)?,
                Frame::Bye => returned(Returned::Bye, events)?,
            }
        }
        let (frames, bytes) = self.unacknowledged;
        // A frame that is longer than the window goes alone.
        if frames > u64::from(config.window_frames) || frames > 1 && bytes > u64::from(config.window_bytes) {
            return Err(DownReason::Protocol);
        }
        self.owes_ack |= frames >= config.ack_frames() || bytes >= config.ack_bytes();
        if frames > 0 && !self.owes_ack {
            self.ack_at.get_or_insert(now + config.ack_delay);
        }
        Ok(())
    }

    /// Counts a message that arrives, or begins to. It may exceed the limits in bytes only alone, as at its sender.
    fn hold(&mut self, kind: Kind, to: Address, length: usize, config: &Config) -> Result<(), DownReason> {
        if kind.is_signal() {
            return Ok(());
        }
        let target = self.targets.entry(to).or_default();
        target.waiting += 1;
        target.held_bytes += length as u64;
        self.held = (self.held.0 + 1, self.held.1 + length as u64);
        let messages = target.waiting + target.messages;
        let exceeds_target =
            messages > config.target_messages || messages > 1 && target.held_bytes > config.target_bytes;
        let exceeds_all = self.held.0 > config.held_messages || self.held.0 > 1 && self.held.1 > self.held_bytes_max;
        if exceeds_target || exceeds_all { Err(DownReason::Protocol) } else { Ok(()) }
    }

    fn begin(
        &mut self,
        kind: Kind,
        from: Address,
        to: Address,
        total: usize,
        chunk: &[u8],
        config: &Config,
    ) -> Result<(), DownReason> {
        if total > config.message_bytes || chunk.is_empty() || chunk.len() >= total {
            return Err(DownReason::Protocol);
        }
        self.hold(kind, to, total, config)?;
        if kind.is_signal() {
            self.signal_parts_bytes += total as u64;
        }
        // Not the announced length: memory is used for what has arrived.
        let part = Part { kind, total, bytes: BytesMut::from(chunk) };
        let earlier = self.parts.insert((from, to), part);
        let signal_bytes_max = config.waiting_signal_bytes + config.message_bytes;
        let is_too_much = self.signal_parts_bytes > signal_bytes_max as u64
            || self.parts.len() > config.parts_max(self.held_bytes_max);
        if earlier.is_some() || is_too_much { Err(DownReason::Protocol) } else { Ok(()) }
    }

    /// Adds a chunk to a long message. Returns the message when it is complete.
    fn append(&mut self, from: Address, to: Address, chunk: &[u8]) -> Result<Option<(Kind, Bytes)>, DownReason> {
        let part = self.parts.get_mut(&(from, to)).ok_or(DownReason::Protocol)?;
        if chunk.is_empty() || part.bytes.len() + chunk.len() > part.total {
            return Err(DownReason::Protocol);
        }
        part.bytes.extend_from_slice(chunk);
        if part.bytes.len() < part.total {
            return Ok(None);
        }
        let part = self.parts.remove(&(from, to)).ok_or(DownReason::Protocol)?;
        if part.kind.is_signal() {
            self.signal_parts_bytes -= part.total as u64;
        }
        Ok(Some((part.kind, part.bytes.freeze())))
    }

    /// Counts messages that a process has taken.
    pub(super) fn consumed(&mut self, now: Duration, to: Address, messages: u32, bytes: u64, config: &Config) {
        let Some(target) = self.targets.get_mut(&to) else { return };
        let messages = messages.min(target.waiting);
        if messages == 0 || config.has(Fault::LosesCredit) && messages == target.waiting {
            return;
        }
        if target.messages == 0 {
            self.owed.push_back(to);
        }
        target.waiting -= messages;
        target.messages += messages;
        target.bytes += bytes;
        self.owes_credit |=
            target.messages >= config.target_messages.div_ceil(4) || target.bytes >= config.target_bytes / 4;
        if !self.owes_credit {
            self.credit_at.get_or_insert(now + config.ack_delay);
        }
    }

    /// Returns the time at which something is owed.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.ack_at.into_iter().chain(self.credit_at).min()
    }

    /// Notes what is owed since the deadline passed.
    pub(super) fn on_tick(&mut self, now: Duration) {
        self.owes_ack |= self.ack_at.take_if(|at| *at <= now).is_some();
        self.owes_credit |= self.credit_at.take_if(|at| *at <= now).is_some();
    }

    /// Makes an acknowledgement due at once.
    pub(super) const fn hurry_ack(&mut self) {
        self.owes_ack = true;
    }

    pub(super) const fn owes_ack(&self) -> bool {
        self.owes_ack
    }

    /// Returns the number of frames to acknowledge now, if one is owed.
    pub(super) fn take_ack(&mut self) -> Option<u64> {
        if !std::mem::take(&mut self.owes_ack) {
            return None;
        }
        self.unacknowledged = (0, 0);
        self.ack_at = None;
        Some(self.expected)
    }

    /// Number of entries that the next frame of credit has.
    pub(super) fn credit_entries(&self) -> usize {
        if self.owes_credit { self.owed.len().min(CREDIT_ENTRIES_MAX) } else { 0 }
    }

    /// Takes the credit to return.
    pub(super) fn take_credit(&mut self) -> Vec<Credit> {
        let count = self.owed.len().min(CREDIT_ENTRIES_MAX);
        let mut entries = Vec::with_capacity(count);
        for to in self.owed.drain(..count) {
            let Some(target) = self.targets.get_mut(&to) else { continue };
            let (messages, bytes) = (std::mem::take(&mut target.messages), std::mem::take(&mut target.bytes));
            // As the sender counts: with its last message, nothing of a target is held.
            let given = if target.waiting == 0 { target.held_bytes } else { bytes.min(target.held_bytes) };
            target.held_bytes -= given;
            self.held = (self.held.0 - u64::from(messages), self.held.1 - given);
            if target.waiting == 0 {
                self.targets.remove(&to);
            }
            entries.push(Credit { to, messages, bytes });
        }
        if self.owed.is_empty() {
            self.owes_credit = false;
            self.credit_at = None;
        }
        entries
    }
}
