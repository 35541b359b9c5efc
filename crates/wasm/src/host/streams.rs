//! `rusm:runtime/streams`: byte streams to and from other processes, guests or native ones.
//!
//! ```text
//!   open ──▶ the writing end: a number        the reading end ── in a message ──▶ another process
//!   a message with an end in it ──▶ offered ── accept ──▶ a number ── read, write, close
//! ```
//!
//! A native process passes an end (of a stream, or of any ring of bytes) to a guest by sending it. A guest that exits
//! drops its ends, which the other sides notice.

use crate::bindings::rusm::runtime::types::{Error, Pid};
use crate::bindings::streaming::rusm::runtime::streams::Host;
use crate::engine::fiber::waiting;
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::guest::state::streams::StreamEnd;
use rusm_runtime::Message;
use rusm_runtime::TrySendError;
use rusm_runtime::ring::{Builder, ReadError, Reader};
use rusm_runtime::stream::{self, StreamError, StreamReader, StreamWriter};

/// Maximum number of ends per guest, and of ends that it has not accepted yet.
const ENDS_MAX: usize = 64;
/// Maximum capacity of a stream that a guest opens, in bytes.
const CAPACITY_MAX: u32 = 1 << 20;
/// Maximum number of bytes that a component reads at once.
const READ_MAX: u32 = 1 << 20;

impl Host for GuestState {
    async fn open(&mut self, to: Pid, capacity: u32) -> Result<u64, Error> {
        self.open_stream(to, capacity).await
    }

    fn accept(&mut self) -> Option<u64> {
        self.accept_stream()
    }

    async fn write(&mut self, stream: u64, bytes: Vec<u8>) -> Result<(), Error> {
        // The rest of a long piece waits here until its reader has taken what came before.
        let _share = self.share_if_long(bytes.len())?;
        self.write_stream(stream, &bytes).await
    }

    async fn read(&mut self, stream: u64, most: u32) -> Result<Vec<u8>, Error> {
        self.record_call(HostCall::StreamRead);
        // Wait before the allocation: the memory of a waiting buffer would not be counted.
        let available = self.readable(stream, most).await?;
        let len = available.min(most.min(READ_MAX) as usize);
        self.hold_result(len)?;
        let mut bytes = vec![0; len];
        if len > 0 {
            let count = self.reader(stream)?.try_read(&mut bytes).or_else(not_read)?;
            bytes.truncate(count);
        }
        Ok(bytes)
    }

    fn close(&mut self, stream: u64) -> bool {
        self.close_stream(stream)
    }
}

impl GuestState {
    pub(crate) async fn open_stream(&mut self, to: Pid, capacity: u32) -> Result<u64, Error> {
        self.record_call(HostCall::StreamOpen);
        self.require(Capability::Streams)?;
        if !capacity.is_power_of_two() || capacity > CAPACITY_MAX {
            let why = format!("stream capacity of {capacity} bytes is not a power of two from 1 to {CAPACITY_MAX}");
            return Err(Error::Invalid(why));
        }
        self.has_room_for_stream()?;
        let share = self.share_of(capacity.into())?;
        let builder = Builder::new(capacity as usize).label("guest's stream").holding(share);
        let (writer, reader) = stream::pipe_of(builder).map_err(|error| Error::Limit(error.to_string()))?;
        let to = super::convert::pid_of(to);
        match self.ctx.try_send(to, reader) {
            Ok(()) => {}
            Err(TrySendError::NoProcess { .. } | TrySendError::NoConnection { .. }) => return Err(Error::NoProcess),
            Err(refused @ (TrySendError::NotPortable { .. } | TrySendError::TooLarge { .. })) => {
                return Err(Error::Invalid(refused.to_string()));
            }
            Err(TrySendError::Full { message, .. }) => {
                if let Ok(reader) = message.downcast::<StreamReader>() {
                    waiting(self.ctx.send(to, reader)).await;
                }
            }
        }
        Ok(self.streams.get_or_insert_default().keep(StreamEnd::Writer(writer)))
    }

    pub(crate) fn accept_stream(&mut self) -> Option<u64> {
        self.record_call(HostCall::StreamAccept);
        let streams = self.streams.as_mut().filter(|streams| streams.ends.len() < ENDS_MAX)?;
        let end = streams.offered.pop_front()?;
        Some(streams.keep(end))
    }

    pub(crate) async fn write_stream(&mut self, stream: u64, bytes: &[u8]) -> Result<(), Error> {
        self.record_call(HostCall::StreamWrite);
        let StreamEnd::Writer(writer) = self.end(stream)? else {
            return Err(Error::Invalid(format!("stream {stream} is a read end")));
        };
        // Fast path: usually there is room, and the call need not wait.
        let written = writer.try_write(bytes).map_err(gone)?;
        match &bytes[written..] {
            [] => Ok(()),
            rest => waiting(writer.write_all(rest)).await.map_err(gone),
        }
    }

    /// Waits until a stream can be read; returns the number of bytes that are there, 0 at its end. `most` must not be 0.
    async fn readable(&mut self, stream: u64, most: u32) -> Result<usize, Error> {
        let reader = self.reader(stream)?;
        if most == 0 {
            return Err(reads_nothing());
        }
        let available = match reader.try_peek().map(|bytes| bytes.len()) {
            Err(ReadError::Empty) => waiting(reader.peek()).await.map(|bytes| bytes.len()),
            available => available,
        };
        available.or_else(not_read)
    }

    /// Reads at least one byte; 0 at the end of the stream.
    pub(crate) async fn read_stream(&mut self, stream: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        self.record_call(HostCall::StreamRead);
        let reader = self.reader(stream)?;
        if bytes.is_empty() {
            return Err(reads_nothing());
        }
        let read = match reader.try_read(bytes) {
            Err(ReadError::Empty) => waiting(reader.read(bytes)).await,
            read => read,
        };
        read.or_else(not_read)
    }

    pub(crate) fn close_stream(&mut self, stream: u64) -> bool {
        self.record_call(HostCall::StreamClose);
        match self.streams.as_mut().and_then(|streams| streams.ends.remove(&stream)) {
            Some(StreamEnd::Writer(writer)) => {
                writer.close();
                true
            }
            Some(StreamEnd::Reader(_)) => true,
            None => false,
        }
    }

    /// Stores the end of a stream from a message; returns the name under which the guest receives it. If too many ends
    /// wait to be accepted, closes this one and returns another name, so that messages and accepted ends stay in step.
    pub(super) fn offered(&mut self, message: Message) -> Result<&'static str, Message> {
        let (end, word) = match message.downcast::<StreamReader>() {
            Ok(reader) => (StreamEnd::Reader(reader.into_ring()), "stream-reader"),
            Err(message) => match message.downcast::<Reader<u8>>() {
                Ok(reader) => (StreamEnd::Reader(reader), "stream-reader"),
                Err(message) => (StreamEnd::Writer(message.downcast::<StreamWriter>()?), "stream-writer"),
            },
        };
        let streams = self.streams.get_or_insert_default();
        if streams.offered.len() == ENDS_MAX {
            return Ok("stream-refused");
        }
        streams.offered.push_back(end);
        Ok(word)
    }

    fn end(&mut self, stream: u64) -> Result<&mut StreamEnd, Error> {
        let ends = self.streams.as_mut().map(|streams| &mut streams.ends);
        ends.and_then(|ends| ends.get_mut(&stream))
            .ok_or_else(|| Error::Invalid(format!("stream {stream} does not exist")))
    }

    fn reader(&mut self, stream: u64) -> Result<&mut Reader<u8>, Error> {
        match self.end(stream)? {
            StreamEnd::Reader(reader) => Ok(reader),
            StreamEnd::Writer(_) => Err(Error::Invalid(format!("stream {stream} is a write end"))),
        }
    }

    fn has_room_for_stream(&self) -> Result<(), Error> {
        if self.streams.as_ref().is_none_or(|streams| streams.ends.len() < ENDS_MAX) {
            return Ok(());
        }
        Err(Error::Limit(format!("a process may have at most {ENDS_MAX} stream ends: close some")))
    }
}

fn reads_nothing() -> Error {
    Error::Invalid("cannot read 0 bytes: read at least 1".to_owned())
}

/// Returns 0 at the end of a stream, and otherwise why it cannot be read.
fn not_read(error: ReadError) -> Result<usize, Error> {
    match error {
        ReadError::Ended => Ok(0),
        ReadError::Cut => Err(gone(StreamError::Cut)),
        ReadError::Missed { .. } => Err(Error::Limit(error.to_string())),
        ReadError::Evicted | ReadError::Empty => Err(Error::NoSuch(error.to_string())),
    }
}

fn gone(error: StreamError) -> Error {
    Error::NoSuch(error.to_string())
}
