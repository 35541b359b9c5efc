//! Messages that wait for room in the window: the rest of long messages, what follows them, and signals.
//!
//! ```text
//!   pair of processes ──▶ queue      the pairs take turns, one frame each
//! ```
//!
//! Only messages of the same pair of processes wait for each other, so a long message delays no other.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::event::Outgoing;
use crate::identity::Address;
use crate::wire::Frame;
use crate::wire::limits::DATA_HEADER_BYTES;

type Pair = (Address, Address);

/// Messages that wait, by pair of processes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    by_pair: FxHashMap<Pair, Waiting>,
    turns: VecDeque<Pair>,
    signals: usize,
    signal_bytes: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Outgoing>,
    /// Number of bytes of the first message that have been sent.
    sent: usize,
}

/// The frame that is next, before it is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextFrame {
    /// Length on the wire, in bytes.
    pub(super) length: usize,
    /// True for a part of a long message.
    pub(super) is_chunk: bool,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Number of pairs of processes with messages that wait.
    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Number of signals that wait, and their length in bytes.
    pub(super) const fn signals(&self) -> (usize, usize) {
        (self.signals, self.signal_bytes)
    }

    /// Returns true if messages of these processes wait, so that later ones have to wait behind them.
    pub(super) fn has(&self, from: Address, to: Address) -> bool {
        !self.by_pair.is_empty() && self.by_pair.contains_key(&(from, to))
    }

    /// Adds a message at the end of the queue of its processes.
    pub(super) fn push(&mut self, message: Outgoing) {
        if message.kind.is_signal() {
            self.signals += 1;
            self.signal_bytes += message.payload.len();
        }
        let pair = (message.from, message.to);
        let waiting = self.by_pair.entry(pair).or_default();
        if waiting.messages.is_empty() {
            self.turns.push_back(pair);
        }
        waiting.messages.push_back(message);
    }

    /// Lets the next pair of processes have its turn.
    pub(super) fn rotate(&mut self) {
        if let Some(pair) = self.turns.pop_front() {
            self.turns.push_back(pair);
        }
    }

    /// Returns the next frame of the first pair.
    pub(super) fn peek(&self, chunk_bytes: usize) -> Option<NextFrame> {
        let waiting = self.by_pair.get(self.turns.front()?)?;
        let rest = waiting.messages.front()?.payload.len() - waiting.sent;
        let is_chunk = waiting.sent > 0 || rest > chunk_bytes;
        Some(NextFrame { length: DATA_HEADER_BYTES + 4 + rest.min(chunk_bytes), is_chunk })
    }

    /// Takes the next frame of the first pair, and lets the next pair have its turn.
    pub(super) fn pop(&mut self, chunk_bytes: usize) -> Option<Frame> {
        let pair = self.turns.pop_front()?;
        let waiting = self.by_pair.get_mut(&pair)?;
        let message = waiting.messages.front()?;
        let (kind, from, to, start) = (message.kind, message.from, message.to, waiting.sent);
        let (total, end) = (message.payload.len(), message.payload.len().min(start + chunk_bytes));
        let chunk = message.payload.slice(start..end);
        let frame = match (start, end == total) {
            (0, true) => Frame::Data { kind, from, to, payload: chunk },
            (0, false) => Frame::First { kind, from, to, total: total as u32, chunk },
            _ => Frame::Next { from, to, chunk },
        };
        waiting.sent = end;
        if end == total {
            waiting.sent = 0;
            waiting.messages.pop_front();
            if kind.is_signal() {
                self.signals -= 1;
                self.signal_bytes -= total;
            }
        }
        if waiting.messages.is_empty() {
            self.by_pair.remove(&pair);
        } else {
            self.turns.push_back(pair);
        }
        Some(frame)
    }
}
