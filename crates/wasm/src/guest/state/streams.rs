//! Ends of streams of a guest.

use std::collections::{BTreeMap, VecDeque};

use rusm_runtime::ring::Reader;
use rusm_runtime::stream::StreamWriter;

/// One end of a stream.
pub(crate) enum StreamEnd {
    Writer(StreamWriter),
    Reader(Reader<u8>),
}

/// Ends of streams of a guest.
#[derive(Default)]
pub(crate) struct Streams {
    pub(crate) ends: BTreeMap<u64, StreamEnd>,
    pub(crate) offered: VecDeque<StreamEnd>,
    last: u64,
}

impl Streams {
    /// Stores an end; returns the number by which the guest refers to it.
    pub(crate) fn keep(&mut self, end: StreamEnd) -> u64 {
        self.last += 1;
        self.ends.insert(self.last, end);
        self.last
    }
}
