//! Messages that topic scenarios publish: of the sizes of a mix, and some with the time of their publication.
//!
//! Most are handles to preallocated buffers. A timed message has its own buffer, which begins with the time.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rusm_runtime::topic::Message;

use crate::measure::meter::{Recorder, Stamp};
use crate::measure::rng::XorShift;

/// Total bytes of the preallocated buffers for each size.
const READY_BYTES: usize = 1 << 20;
const READY_MAX: usize = 64;
/// Shortest payload: a time.
pub(crate) const PAYLOAD_MIN: u64 = 8;

/// Percentage of the messages and their size, for each size.
pub(crate) type Mix = &'static [(u64, usize)];

/// The seed's mixes by name; the first uses the size from the parameters.
pub(crate) const MIXES: &[(&str, Mix)] = &[
    ("payload", &[]),
    ("small", &[(100, 1 << 10)]),
    ("large", &[(100, 500 << 10)]),
    ("mixed", &[(90, 1 << 10), (10, 500 << 10)]),
    ("mixed-heavy", &[(50, 1 << 10), (50, 500 << 10)]),
    ("full-spectrum", &[(70, 1 << 10), (20, 10 << 10), (8, 500 << 10), (2, 1 << 20)]),
];

/// Names of the mixes.
pub(crate) const MIX_NAMES: &[&str] = &["payload", "small", "large", "mixed", "mixed-heavy", "full-spectrum"];

/// Generates messages.
#[derive(Clone, Debug)]
pub(crate) struct Payloads {
    sizes: Vec<Size>,
    keys: Vec<Arc<str>>,
    /// True if each message is a copy in its own buffer.
    copies: bool,
    base: Instant,
    random: XorShift,
    made: usize,
}

/// Bytes of the messages that a publisher creates in one turn.
const TURN_BYTES: u64 = 16 << 20;

/// Returns the number of messages with `bytes` bytes each in one turn, at most `most`.
pub(crate) fn per_turn(bytes: usize, most: u64) -> u64 {
    (TURN_BYTES / bytes.max(1) as u64).clamp(1, most)
}

#[derive(Clone, Debug)]
struct Size {
    percent: u64,
    ready: Vec<Bytes>,
}

impl Payloads {
    /// Creates payloads of a mix, or of `payload` bytes if the mix is empty, with `keys` ordering keys, or without keys
    /// if 0.
    pub(crate) fn new(mix: Mix, payload: usize, keys: u64, copies: bool, base: Instant, seed: u64) -> Self {
        let whole = [(100, payload)];
        let sizes = if mix.is_empty() { &whole[..] } else { mix };
        let size = |(percent, bytes): &(u64, usize)| {
            let count = (READY_BYTES / (*bytes).max(1)).clamp(1, READY_MAX);
            Size { percent: *percent, ready: (0..count).map(|_| Bytes::from(vec![0; *bytes])).collect() }
        };
        let keys = (0..keys).map(|key| key.to_string().into()).collect();
        Self { sizes: sizes.iter().map(size).collect(), keys, copies, base, random: XorShift::new(seed | 1), made: 0 }
    }

    /// Returns the number of messages that a publisher may create before it looks whether the run has ended: at most
    /// `most`, and fewer of large ones.
    pub(crate) fn per_turn(&self, most: u64) -> u64 {
        per_turn(self.sizes.iter().filter_map(|size| size.ready.first()).map(Bytes::len).max().unwrap_or(0), most)
    }

    /// Returns a generator like this one that copies each message into a buffer of its own.
    pub(crate) fn copying(&self) -> Self {
        Self { copies: true, ..self.clone() }
    }

    /// Returns the next message.
    #[inline]
    pub(crate) fn next(&mut self, stamp: Stamp) -> Message {
        self.made += 1;
        let size = if self.sizes.len() == 1 { 0 } else { self.draw() };
        let ready = &self.sizes[size].ready;
        let buffer = &ready[self.made % ready.len()];
        let ns = stamp.to_ns(self.base);
        let payload = if ns == 0 && !self.copies { buffer.clone() } else { stamped(buffer, ns) };
        let message = Message::new(payload);
        if self.keys.is_empty() {
            message
        } else {
            message.with_key(Arc::clone(&self.keys[self.made % self.keys.len()]))
        }
    }

    fn draw(&mut self) -> usize {
        let mut percent = (self.random.next() >> 32) % 100;
        for (index, size) in self.sizes.iter().enumerate() {
            if percent < size.percent {
                return index;
            }
            percent -= size.percent;
        }
        0
    }
}

fn stamped(buffer: &Bytes, ns: u64) -> Bytes {
    let mut own = buffer.to_vec();
    own[..8].copy_from_slice(&ns.to_le_bytes());
    own.into()
}

/// Ends the operation of a message that has arrived, if it is timed.
#[inline]
pub(crate) fn arrived(recorder: &Recorder, base: Instant, payload: &Bytes) {
    let ns = payload.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
    if ns != 0 {
        recorder.end(Stamp::from_ns(base, ns));
    }
}
