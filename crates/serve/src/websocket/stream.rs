//! Frames on the byte stream of a connection, without a buffer while nothing is on its way.
//!
//! ```text
//!   socket ──▶ buffer of the thread ──▶ Decoder ──▶ item       what follows the item is kept
//!   frame ──▶ socket                                           what the socket does not take at once is kept
//! ```

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::io::Io;
use crate::limits::HeldBytes;
use crate::websocket::frame::{Decoder, Item, Opcode, Violation, head};

/// Bytes that one read takes at most.
const READ_BYTES: usize = 16 * 1024;
/// Frames without a wait after which other processes run first: each may be a ping, and a pong is a call of the system.
const TURN_FRAMES: u32 = 64;
/// Bytes of pongs that may wait for a slow client. Further pings are not answered.
const PONGS_MAX: usize = 1024;

thread_local! {
    static READ_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into());
}

/// Frames on the byte stream of a connection.
#[derive(Debug)]
pub(super) struct FrameStream {
    io: Io,
    decoder: Decoder,
    /// Bytes that the decoder holds.
    held: HeldBytes,
    /// Bytes that were received behind an item, and the position of the first one that is not decoded.
    received: (Vec<u8>, usize),
    /// Bytes that are still to be sent, and the position of the first one.
    unsent: (Vec<u8>, usize),
    /// Frames since the last wait.
    turn: u32,
}

/// Reason why no further frame is read.
#[derive(Debug)]
pub(super) enum ReadError {
    Io(io::Error),
    Violation(Violation),
}

/// Decodes an item, and counts what the decoder holds then.
fn decode(decoder: &mut Decoder, held: &mut HeldBytes, bytes: &mut &[u8]) -> Result<Option<Item>, Violation> {
    let item = decoder.decode(bytes)?;
    if held.set(decoder.held_bytes() as u64) { Ok(item) } else { Err(Violation::Busy) }
}

impl FrameStream {
    pub(super) const fn new(io: Io, decoder: Decoder, held: HeldBytes) -> Self {
        Self { io, decoder, held, received: (Vec::new(), 0), unsent: (Vec::new(), 0), turn: 0 }
    }

    pub(super) const fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// Returns the next item; `None` at the end of the connection. Sends what is still to be sent, too.
    pub(super) fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Result<Option<Item>, ReadError>> {
        if !self.unsent.0.is_empty()
            && let Poll::Ready(Err(error)) = self.poll_flush(task)
        {
            return Poll::Ready(Err(ReadError::Io(error)));
        }
        loop {
            if self.turn >= TURN_FRAMES {
                self.turn = 0;
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(item) = self.decode_received().map_err(ReadError::Violation)? {
                self.turn += 1;
                return Poll::Ready(Ok(Some(item)));
            }
            let read = READ_BUFFER.with_borrow_mut(|buffer| self.poll_read(&mut ReadBuf::new(buffer), task));
            if read.is_pending() {
                self.turn = 0;
            }
            match ready!(read)? {
                Read::Item(item) => return Poll::Ready(Ok(Some(item))),
                Read::Part => {}
                Read::End => return Poll::Ready(Ok(None)),
            }
        }
    }

    fn decode_received(&mut self) -> Result<Option<Item>, Violation> {
        let (bytes, at) = &mut self.received;
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut rest = &bytes[*at..];
        let item = decode(&mut self.decoder, &mut self.held, &mut rest);
        *at = bytes.len() - rest.len();
        if *at == bytes.len() {
            self.received = (Vec::new(), 0);
        }
        item
    }

    /// Reads once, and decodes the first item.
    fn poll_read(&mut self, buffer: &mut ReadBuf<'_>, task: &mut Context<'_>) -> Poll<Result<Read, ReadError>> {
        ready!(Pin::new(&mut self.io).poll_read(task, buffer)).map_err(ReadError::Io)?;
        let mut bytes = buffer.filled();
        if bytes.is_empty() {
            return Poll::Ready(Ok(Read::End));
        }
        let item = decode(&mut self.decoder, &mut self.held, &mut bytes).map_err(ReadError::Violation)?;
        if !bytes.is_empty() {
            self.received = (bytes.to_vec(), 0);
        }
        Poll::Ready(Ok(item.map_or(Read::Part, Read::Item)))
    }

    /// Sends a frame, after what is still to be sent. What the operating system does not take at once is kept.
    pub(super) async fn begin(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        self.flush().await?;
        poll_fn(|task| Poll::Ready(self.write(opcode, payload, task))).await
    }

    /// Returns the number of bytes that are still to be sent.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.0.len() - self.unsent.1
    }

    /// Forgets what is still to be sent. The connection cannot be used any more.
    pub(super) fn discard(&mut self) {
        self.unsent = (Vec::new(), 0);
    }

    /// Adds a frame to what is still to be sent. [`flush`](Self::flush) sends it.
    pub(super) fn queue(&mut self, opcode: Opcode, payload: &[u8]) {
        let (head, head_len) = head(opcode, payload.len());
        self.unsent.0.extend_from_slice(&head[..head_len]);
        self.unsent.0.extend_from_slice(payload);
    }

    /// Answers a ping without a wait.
    pub(super) async fn send_pong(&mut self, payload: &[u8]) -> io::Result<()> {
        if self.unsent.0.len() > PONGS_MAX {
            return Ok(());
        }
        poll_fn(|task| Poll::Ready(self.write(Opcode::Pong, payload, task))).await
    }

    /// Writes as much of a frame as the operating system takes, and keeps the rest.
    fn write(&mut self, opcode: Opcode, payload: &[u8], task: &mut Context<'_>) -> io::Result<()> {
        let (head, head_len) = head(opcode, payload.len());
        let head = &head[..head_len];
        let mut sent = 0;
        if self.unsent.0.is_empty() {
            let slices = [IoSlice::new(head), IoSlice::new(payload)];
            match Pin::new(&mut self.io).poll_write_vectored(task, &slices) {
                Poll::Ready(Ok(bytes)) => sent = bytes,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => {}
            }
        }
        if sent < head_len + payload.len() {
            self.unsent.0.extend_from_slice(&head[sent.min(head_len)..]);
            self.unsent.0.extend_from_slice(&payload[sent.saturating_sub(head_len)..]);
        } else if self.io.is_tls()
            && let Poll::Ready(Err(error)) = Pin::new(&mut self.io).poll_flush(task)
        {
            // Bytes that wait within TLS are sent with the next frame.
            return Err(error);
        }
        Ok(())
    }

    /// Waits until the operating system has taken all bytes.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if self.unsent.0.is_empty() && !self.io.is_tls() {
            return Ok(());
        }
        poll_fn(|task| self.poll_flush(task)).await
    }

    fn poll_flush(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (bytes, at) = &mut self.unsent;
        while *at < bytes.len() {
            match ready!(Pin::new(&mut self.io).poll_write(task, &bytes[*at..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => *at += sent,
            }
        }
        self.unsent = (Vec::new(), 0);
        Pin::new(&mut self.io).poll_flush(task)
    }
}

/// Result of a read.
enum Read {
    Item(Item),
    /// Of an item that is not complete.
    Part,
    End,
}
