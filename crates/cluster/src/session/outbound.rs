//! The direction from this node to the other: the window, what waits for it, and packets.
//!
//! ```text
//!   send ──▶ room in the window? ──▶ queue ──▶ packets ──▶ in flight ──▶ acknowledged
//!              └── no: a signal or the rest of a long message waits in its lane; a message is handed back
//! ```
//!
//! Frames are numbered when they enter the window. Long messages use at most half of it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::config::Config;
use super::event::{Busy, DownReason, Event, Outgoing};
use super::fault::Fault;
use super::lanes::Lanes;
use super::targets::{Targets, Window};
use crate::identity::Address;
use crate::wire::limits::{DATA_HEADER_BYTES, FRAME_HEADER_BYTES, STREAM_HEADER_BYTES};
use crate::wire::stream::Credit;
use crate::wire::{Frame, Stream};

/// Length at which a packet is sent without further frames, in bytes.
const PACKET_FULL_BYTES: usize = 32 << 10;

/// Frames to the other node.
#[derive(Debug)]
pub(super) struct Outbound {
    tag: u64,
    window: Window,
    /// Number of the next frame to enter the window.
    next: u64,
    /// Number of the first frame that was not acknowledged.
    acked: u64,
    /// Frames of the window that are in no packet yet.
    queue: VecDeque<Frame>,
    /// Frames of the window, oldest first.
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: usize,
    chunk_bytes_in_flight: usize,
    lanes: Lanes,
    targets: Targets,
    /// A sender was told that the pair of nodes is full.
    is_waited_for: bool,
    /// The last frame has entered the window.
    is_closed: bool,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    length: u32,
    is_chunk: bool,
}

impl Outbound {
    pub(super) fn new(tag: u64, window: Window) -> Self {
        Self {
            tag,
            window,
            next: 0,
            acked: 0,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            chunk_bytes_in_flight: 0,
            lanes: Lanes::default(),
            targets: Targets::default(),
            is_waited_for: false,
            is_closed: false,
        }
    }

    /// Number of frames in the window, and their length in bytes.
    pub(super) fn in_flight(&self) -> (usize, usize) {
        (self.in_flight.len(), self.in_flight_bytes)
    }

    /// Maximum number of frames and bytes in the window.
    pub(super) const fn window(&self) -> (usize, usize) {
        (self.window.frames, self.window.bytes)
    }

    pub(super) const fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Number of pairs of processes with messages that wait for room in the window.
    pub(super) fn waiting_pairs(&self) -> usize {
        self.lanes.len()
    }

    /// Returns true if nothing waits and everything was acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        self.lanes.is_empty() && self.in_flight.is_empty()
    }

    pub(super) fn has_packet(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Checks that a message of a length has credit and room. If not, room is reported later.
    pub(super) fn check_room(&mut self, to: Address, length: usize, config: &Config) -> Result<(), Busy> {
        let has_room = self.has_room(DATA_HEADER_BYTES + length.min(config.chunk_bytes));
        let checked = self.targets.check(to, length, &self.window, config);
        let checked = if has_room { checked } else { checked.and(Err(Busy::Pair)) };
        self.is_waited_for |= checked == Err(Busy::Pair);
        checked
    }

    /// Accepts a message, or hands it back.
    pub(super) fn send(&mut self, message: Outgoing, config: &Config) -> Result<(), (Busy, Outgoing)> {
        let is_signal = message.kind.is_signal();
        let length = message.payload.len();
        if !is_signal {
            if let Err(busy) = self.check_room(message.to, length, config) {
                let is_dropped = config.has(Fault::DropsWhenBusy);
                return if is_dropped { Ok(()) } else { Err((busy, message)) };
            }
            self.targets.take(message.to, length);
        }
        let overtakes = if is_signal { Fault::LetsSignalsOvertake } else { Fault::LetsMessagesOvertake };
        let has_to_wait = self.lanes.has(message.from, message.to) && !config.has(overtakes);
        let size = DATA_HEADER_BYTES + length;
        if length <= config.chunk_bytes && !has_to_wait && self.has_room(size) {
            let Outgoing { kind, from, to, payload } = message;
            self.admit(Frame::Data { kind, from, to, payload }, size, false);
        } else {
            self.lanes.push(message);
            self.fill(config);
        }
        Ok(())
    }

    /// Returns true if more signals wait than may wait.
    pub(super) fn overflows(&self, config: &Config) -> bool {
        let (signals, bytes) = self.lanes.signals();
        signals > config.waiting_signals || bytes > config.waiting_signal_bytes
    }

    /// Returns true if the window has room for a frame of credit.
    pub(super) fn has_room_for_credit(&self, entries: usize) -> bool {
        !self.is_closed && self.has_room(FRAME_HEADER_BYTES + entries * 20)
    }

    /// Sends credit for messages of the other node.
    pub(super) fn send_credit(&mut self, entries: Vec<Credit>) {
        let size = FRAME_HEADER_BYTES + entries.len() * 20;
        self.admit(Frame::Credit(entries), size, false);
    }

    /// Sends BYE, once, when nothing waits any more. Returns true if it was sent, now or before.
    pub(super) fn close(&mut self, config: &Config) -> bool {
        let may_close = self.lanes.is_empty() || config.has(Fault::LeavesAtOnce);
        if !self.is_closed && may_close && self.has_room(FRAME_HEADER_BYTES) {
            self.admit(Frame::Bye, FRAME_HEADER_BYTES, false);
            self.is_closed = true;
        }
        self.is_closed
    }

    /// Removes acknowledged frames from the window. Returns true if there were any.
    pub(super) fn on_ack(&mut self, frames: u64) -> Result<bool, DownReason> {
        if frames > self.next - self.queue.len() as u64 {
            return Err(DownReason::Protocol);
        }
        if frames <= self.acked {
            return Ok(false);
        }
        for _ in self.acked..frames {
            let frame = self.in_flight.pop_front().ok_or(DownReason::Protocol)?;
            self.in_flight_bytes -= frame.length as usize;
            self.chunk_bytes_in_flight -= if frame.is_chunk { frame.length as usize } else { 0 };
        }
        self.acked = frames;
        Ok(true)
    }

    /// Counts messages that processes of the other node have taken.
    pub(super) fn on_credit(
        &mut self,
        entries: &[Credit],
        config: &Config,
        events: &mut VecDeque<Event>,
    ) -> Result<(), DownReason> {
        for credit in entries {
            let given = self.targets.give(credit, self.window.target_messages, config);
            let is_awaited = given.map_err(|_unknown| DownReason::Protocol)?;
            if is_awaited && !config.has(Fault::ForgetsRoom) {
                events.push_back(Event::Room { to: Some(credit.to) });
            }
        }
        Ok(())
    }

    /// Moves what waits into the window, as far as it has room, and reports room to senders that wait for it.
    pub(super) fn refill(&mut self, config: &Config, events: &mut VecDeque<Event>) {
        self.fill(config);
        // Reporting the first free place would make the senders wait again at once.
        let is_free = self.in_flight.len() <= self.window.frames / 4 * 3
            && self.in_flight_bytes <= self.window.bytes / 4 * 3
            && self.targets.have_room(&self.window, config);
        if self.is_waited_for && is_free && !config.has(Fault::ForgetsRoom) {
            self.is_waited_for = false;
            events.push_back(Event::Room { to: None });
        }
    }

    fn fill(&mut self, config: &Config) {
        let mut skipped = 0;
        while let Some(next) = self.lanes.peek(config.chunk_bytes) {
            let chunks = self.chunk_bytes_in_flight;
            if next.is_chunk && chunks > 0 && chunks + next.length > self.window.bytes / 2 {
                self.lanes.rotate();
                skipped += 1;
                if skipped >= self.lanes.len() {
                    break;
                }
                continue;
            }
            if self.is_closed || !self.has_room(next.length) {
                break;
            }
            let Some(frame) = self.lanes.pop(config.chunk_bytes) else { break };
            self.admit(frame, next.length, next.is_chunk);
            skipped = 0;
        }
    }

    /// Returns true if the window has room for a frame. A frame that is longer than the window goes alone.
    fn has_room(&self, length: usize) -> bool {
        self.in_flight.is_empty()
            || self.in_flight.len() < self.window.frames && self.in_flight_bytes + length <= self.window.bytes
    }

    fn admit(&mut self, frame: Frame, length: usize, is_chunk: bool) {
        self.next += 1;
        self.in_flight_bytes += length;
        self.chunk_bytes_in_flight += if is_chunk { length } else { 0 };
        self.in_flight.push_back(InFlight { length: length as u32, is_chunk });
        self.queue.push_back(frame);
    }

    /// Takes the next packet.
    pub(super) fn packet(&mut self) -> Option<Bytes> {
        let first = self.next - self.queue.len() as u64;
        let frame = self.queue.pop_front()?;
        let mut out = BytesMut::with_capacity(STREAM_HEADER_BYTES + self.frame_bytes(first));
        Stream::put_header(&mut out, self.tag, first);
        frame.put(&mut out);
        while out.len() < PACKET_FULL_BYTES {
            let Some(frame) = self.queue.pop_front() else { break };
            frame.put(&mut out);
        }
        Some(out.freeze())
    }

    /// Returns the length of the frames from `first` on, as far as a packet takes them.
    fn frame_bytes(&self, first: u64) -> usize {
        let lengths = self.in_flight.iter().skip((first - self.acked) as usize).map(|frame| frame.length as usize);
        let mut bytes = 0;
        for length in lengths {
            bytes += length;
            if bytes >= PACKET_FULL_BYTES {
                break;
            }
        }
        bytes
    }
}
