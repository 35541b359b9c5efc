//! Byte streams between processes. Each end notices when the other's process ends. Opening a stream needs the
//! capability `streams`; using an end that was sent to this process does not.
//!
//! An end is received as [`Received::Opaque`](crate::Received::Opaque) with the name [`READER`] or [`WRITER`], and must
//! then be accepted. Dropping an end closes it.

use crate::streaming::rusm::runtime::streams;
use crate::{Error, Pid};

/// Type name with which a reading end is received.
pub const READER: &str = "stream-reader";
/// Type name with which a writing end is received.
pub const WRITER: &str = "stream-writer";

/// Writing end of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Writer(u64);

/// Reading end of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Reader(u64);

/// Opens a stream that holds at most `capacity` bytes, a power of two up to 1,048,576. Sends the reading end to `to`.
///
/// # Errors
/// [`Error::Denied`], [`Error::NoProcess`], [`Error::Limit`] for too many ends, [`Error::Invalid`] for the capacity.
pub fn open(to: Pid, capacity: u32) -> Result<Writer, Error> {
    Ok(Writer(streams::open(to.into(), capacity)?))
}

/// Accepts the oldest end that was received and not yet accepted. Call it for an end received as [`READER`].
pub fn accept_reader() -> Option<Reader> {
    streams::accept().map(Reader)
}

/// Accepts the oldest end that was received and not yet accepted. Call it for an end received as [`WRITER`].
pub fn accept_writer() -> Option<Writer> {
    streams::accept().map(Writer)
}

impl Writer {
    /// Writes all bytes, and waits while the stream is full.
    ///
    /// # Errors
    /// [`Error::NoSuch`] if the reading end is gone.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(streams::write(self.0, bytes.as_ref())?)
    }
}

impl Reader {
    /// Returns at most `most` bytes, and waits until there is at least one; returns no bytes at the end of the stream.
    ///
    /// # Errors
    /// [`Error::NoSuch`] if the writer ended without closing it, [`Error::Limit`] if bytes of a lossy ring were missed.
    pub fn read(&mut self, most: u32) -> Result<Vec<u8>, Error> {
        Ok(streams::read(self.0, most)?)
    }

    /// Returns all bytes up to the end of the stream.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        loop {
            match self.read(64 * 1024)? {
                more if more.is_empty() => return Ok(all),
                more => all.extend(more),
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        streams::close(self.0);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        streams::close(self.0);
    }
}
