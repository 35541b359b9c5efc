//! Byte streams between processes: a bounded pipe with two ends, each of which detects the death of the other.
//!
//! ```text
//!   StreamWriter ── write: waits while the pipe is full ──▶ bytes ──▶ StreamReader ── read: waits while it is empty
//!        │ close ─────────────────────────────────────────────────▶ end of the stream, after the last byte
//!        │ dies  ─────────────────────────────────────────────────▶ StreamError::Cut, after the last byte
//!        └ StreamError::ReaderGone ◀──────────────────────────────── dies, or drops its end
//! ```
//!
//! ```
//! # use rusm_runtime as rusm;
//! use rusm::{Config, Runtime, stream};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let (mut writer, mut reader) = stream::pipe(4096)?;
//! let (tell, told) = std::sync::mpsc::channel();
//! runtime.spawn(move |_| async move {
//!     writer.write_all(b"hello, ").await.expect("the reader is alive");
//!     writer.write_all(b"world").await.expect("the reader is alive");
//!     writer.close();
//! })?;
//! runtime.spawn(move |_| async move {
//!     let (mut text, mut bytes) = (Vec::new(), [0; 8]);
//!     loop {
//!         match reader.read(&mut bytes).await.expect("the writer closes its end") {
//!             0 => break tell.send(text),
//!             count => text.extend_from_slice(&bytes[..count]),
//!         }
//!     }
//! })?;
//! assert_eq!(told.recv()?, b"hello, world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Both ends also implement tokio's [`AsyncRead`], [`AsyncBufRead`] and [`AsyncWrite`], so a stream can be copied to a
//! socket. They can be sent to other processes in messages. A stream is a [ring] of bytes with one
//! reader: bytes are copied in and out once. Wake-ups are batched and sent at the latest at the end of a process's
//! turn.
//!
//! Invariant: the reader receives exactly the bytes that were written, in order, and then either the end of the stream
//! or [`StreamError::Cut`]. A stream never looks complete if its writer has died.

pub mod ring;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thiserror::Error;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::ring::{Builder, ReadError, Reader, RingError, Writer};

/// Error of a stream operation.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::stream::{StreamError, pipe};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|_| async move {
///     let (mut writer, mut reader) = pipe(1024)?;
///     writer.write_all(b"half of a").await.expect("the reader is there");
///     drop(writer); // without `close`
///     let read = reader.fill().await.expect("what was written is read").len();
///     reader.consume(read);
///     assert_eq!(reader.fill().await, Err(StreamError::Cut));
///     Ok::<(), rusm::ring::RingError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The reader was dropped or has died.
    #[error("the reader of the stream is gone")]
    ReaderGone,
    /// The writer ended before it closed the stream: the bytes read may be incomplete.
    #[error("the writer of the stream ended without closing it")]
    Cut,
    /// The stream was already shut down by its writer.
    #[error("the stream is closed")]
    Closed,
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        let kind = match error {
            StreamError::ReaderGone | StreamError::Closed => io::ErrorKind::BrokenPipe,
            StreamError::Cut => io::ErrorKind::UnexpectedEof,
        };
        Self::new(kind, error)
    }
}

/// Creates a stream that buffers at most `capacity` bytes, a power of two.
///
/// # Errors
/// [`RingError`] if the capacity is not valid, or if there is not enough memory for it.
pub fn pipe(capacity: usize) -> Result<(StreamWriter, StreamReader), RingError> {
    labelled_pipe(capacity, "stream")
}

/// Creates a stream as [`pipe`] does, with a name for observers.
///
/// # Errors
/// [`RingError`], as for [`pipe`].
pub fn labelled_pipe(capacity: usize, label: &str) -> Result<(StreamWriter, StreamReader), RingError> {
    pipe_of(Builder::new(capacity).label(label))
}

/// Creates a stream with the ring of a builder as its buffer, and one reader.
///
/// # Errors
/// [`RingError`], as for [`pipe`].
///
/// # Panics
/// Never: a new ring has a free slot for its first reader.
pub fn pipe_of(builder: Builder) -> Result<(StreamWriter, StreamReader), RingError> {
    let (writer, subscriber) = builder.readers_max(1).build()?;
    let reader = subscriber.join().expect("a new ring has a free slot for its first reader");
    Ok((StreamWriter { ring: writer, closed: false }, StreamReader { ring: reader }))
}

/// The writing end of a stream. Dropping it without [`close`](Self::close) cuts the stream off.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::stream::pipe;
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let (mut writer, mut reader) = pipe(1024)?;
/// runtime.block_on(|ctx| async move {
///     // It waits while 1,024 bytes are unread. Without `close`, the reader gets an error.
///     ctx.spawn(|_| async move {
///         writer.write_all(&[7; 5_000]).await.expect("the reader is there");
///         writer.close();
///     });
///     let mut total = 0;
///     loop {
///         match reader.fill().await.expect("the writer closes the stream").len() {
///             0 => break,
///             count => {
///                 total += count;
///                 reader.consume(count);
///             }
///         }
///     }
///     assert_eq!(total, 5_000);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamWriter {
    ring: Writer<u8>,
    closed: bool,
}

impl StreamWriter {
    /// Writes as many of the bytes as fit, and waits if none fits. Returns the number of bytes written.
    ///
    /// # Errors
    /// [`StreamError::ReaderGone`] when the reader is gone, and [`StreamError::Closed`] after a shutdown.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        std::future::poll_fn(|cx| self.poll_write_some(cx, bytes)).await
    }

    /// Writes all of the bytes, and waits while the pipe is full. If the future is dropped, the bytes already written
    /// remain.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub async fn write_all(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.write(rest).await?;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Writes as many of the bytes as fit, without waiting. Returns the number of bytes written.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        if self.closed {
            return Err(StreamError::Closed);
        }
        if self.has_reader() { Ok(self.ring.try_write(bytes)) } else { Err(StreamError::ReaderGone) }
    }

    /// Wakes a sleeping reader now instead of at the end of this process's turn.
    pub fn flush(&mut self) {
        self.ring.flush();
    }

    /// Ends the stream. The reader still receives the buffered bytes, and then the end.
    pub fn close(self) {
        self.ring.close();
    }

    /// Returns the total number of bytes written.
    pub const fn written(&self) -> u64 {
        self.ring.written()
    }

    /// Returns true if the stream still has a reader.
    pub fn has_reader(&self) -> bool {
        self.ring.readers() > 0
    }

    fn poll_write_some(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, StreamError>> {
        if self.closed {
            return Poll::Ready(Err(StreamError::Closed));
        }
        if !self.has_reader() {
            return Poll::Ready(Err(StreamError::ReaderGone));
        }
        let written = ready!(self.ring.poll_write(cx, bytes));
        // A reader that leaves also frees space, but its bytes will never be read.
        if self.has_reader() { Poll::Ready(Ok(written)) } else { Poll::Ready(Err(StreamError::ReaderGone)) }
    }
}

impl AsyncWrite for StreamWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_some(cx, bytes).map_err(io::Error::from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flush();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closed = true;
        self.ring.finish();
        Poll::Ready(Ok(()))
    }
}

/// The reading end of a stream. Dropping it notifies the writer.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::stream::{StreamError, pipe};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let (mut writer, mut reader) = pipe(1024)?;
/// runtime.block_on(|_| async move {
///     writer.write_all(b"half a mess").await.expect("the reader is there");
///     drop(writer);
///     let mut bytes = [0; 64];
///     assert_eq!(reader.read(&mut bytes).await, Ok(11));
///     assert_eq!(reader.read(&mut bytes).await, Err(StreamError::Cut));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamReader {
    ring: Reader<u8>,
}

impl StreamReader {
    /// Reads the available bytes, as many as fit, and waits while the stream is empty. Returns 0 at the end of the
    /// stream.
    ///
    /// # Errors
    /// [`StreamError::Cut`] when the writer ended without closing the stream, after all bytes that it had written.
    pub async fn read(&mut self, bytes: &mut [u8]) -> Result<usize, StreamError> {
        std::future::poll_fn(|cx| self.ring.poll_read(cx, bytes).map(convert_read)).await
    }

    /// Returns the next bytes in place, without a copy, and waits while the stream is empty. Returns no bytes at the
    /// end of the stream.
    ///
    /// They stay buffered until they are [consumed](Self::consume).
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub async fn fill(&mut self) -> Result<&[u8], StreamError> {
        let count = std::future::poll_fn(|cx| self.ring.poll_open(cx).map(convert_read)).await?;
        Ok(self.ring.opened(count).0)
    }

    /// Marks `count` of the bytes returned by [`fill`](Self::fill) as read.
    ///
    /// # Panics
    /// If `count` is larger than the number of available bytes.
    pub fn consume(&mut self, count: usize) {
        let there = self.ring.available();
        assert!(count <= there, "cannot consume {count} bytes: {there} are available");
        self.ring.release(count);
    }

    /// Returns the underlying ring, which reports a cut or a close only as a [`ReadError`].
    pub fn into_ring(self) -> Reader<u8> {
        self.ring
    }

    /// Returns the total number of bytes read.
    pub const fn read_total(&self) -> u64 {
        self.ring.position()
    }
}

/// Converts the result of a read from the ring.
fn convert_read(read: Result<usize, ReadError>) -> Result<usize, StreamError> {
    match read {
        Ok(count) => Ok(count),
        Err(ReadError::Ended) => Ok(0),
        Err(ReadError::Cut) => Err(StreamError::Cut),
        Err(ReadError::Empty | ReadError::Missed { .. } | ReadError::Evicted) => {
            unreachable!("a stream waits for its bytes and is lossless")
        }
    }
}

impl AsyncRead for StreamReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let count = ready!(self.ring.poll_read(cx, into.initialize_unfilled()).map(convert_read))?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncBufRead for StreamReader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        let count = ready!(this.ring.poll_open(cx).map(convert_read))?;
        Poll::Ready(Ok(this.ring.opened(count).0))
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        self.get_mut().consume(count);
    }
}
