//! Bytes from one process to another, and two ends that notice each other's death. To open one needs the capability
//! `streams`; an end that was given to this process is its own to use.
//!
//! An end comes as [`Received::Opaque`](crate::Received::Opaque) with the name [`READER`] or [`WRITER`], and is accepted then.
//! An end that is dropped is closed.

use crate::streaming::rusm::runtime::streams;
use crate::{Error, Pid};

/// What an end that reads is called when it comes.
pub const READER: &str = "stream-reader";
/// What an end that writes is called when it comes.
pub const WRITER: &str = "stream-writer";

/// The end of a stream that writes.
#[derive(Debug, PartialEq, Eq)]
pub struct Writer(u64);

/// The end of a stream that reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Reader(u64);

/// Opens a stream that holds at most `capacity` bytes, a power of two up to 1,048,576; the end that reads goes to a process.
///
/// # Errors
/// [`Error::Denied`], [`Error::NoProcess`], [`Error::Limit`] for too many ends, [`Error::Invalid`] for the capacity.
pub fn open(to: Pid, capacity: u32) -> Result<Writer, Error> {
    Ok(Writer(streams::open(to.into(), capacity)?))
}

/// The oldest end that came and was not accepted yet: one that reads, as its name said.
pub fn accept_reader() -> Option<Reader> {
    streams::accept().map(Reader)
}

/// The same where its name said that it writes.
pub fn accept_writer() -> Option<Writer> {
    streams::accept().map(Writer)
}

impl Writer {
    /// Writes all of the bytes, and waits while there is no room for them.
    ///
    /// # Errors
    /// [`Error::NoSuch`] when nobody reads any more.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(streams::write(self.0, bytes.as_ref())?)
    }
}

impl Reader {
    /// At most so many bytes, at least one, as soon as there are any; none at the end of the stream.
    ///
    /// # Errors
    /// [`Error::NoSuch`] when the writer ended without closing it, [`Error::Limit`] when bytes of a lossy ring were missed.
    pub fn read(&mut self, most: u32) -> Result<Vec<u8>, Error> {
        Ok(streams::read(self.0, most)?)
    }

    /// All bytes up to the end of the stream.
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
