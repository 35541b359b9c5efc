//! Settings of a ring: its policy for slow readers, the time of notifications, and the distance between cursors.

use std::time::Duration;

/// Policy for a ring that is full because of a slow reader.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ring::{Builder, Policy, ReadError};
///
/// let (mut writer, subscriber) = Builder::new(8).policy(Policy::Lossy).build::<u32>()?;
/// let mut reader = subscriber.join()?;
/// writer.blocking_write(&[1, 2, 3, 4, 5, 6, 7, 8]);
/// writer.blocking_write(&[9]); // a lossless writer would wait for the reader here
///
/// let mut items = [0; 8];
/// assert!(matches!(reader.try_read(&mut items), Err(ReadError::Missed { .. })));
/// assert!(reader.try_read(&mut items).is_ok(), "it continues after the missed items");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The writer waits for the reader without a limit. Observers see the reader that it waits for.
    #[default]
    Lossless,
    /// The writer waits for this time, and then continues without the reader, which receives [`ReadError::Evicted`](super::ReadError::Evicted).
    ///
    /// If the writer is neither in a process nor on a thread that may block, the wait uses a timer of tokio. The writer
    /// panics outside of a tokio runtime.
    EvictAfter(Duration),
    /// The writer continues and moves the reader forward, which receives [`ReadError::Missed`](super::ReadError::Missed) with the exact number of
    /// items.
    ///
    /// The reader is moved by at least an eighth of the ring, so that it does not block the next item again. Items that
    /// it is copying or [peeking](super::Reader::peek) at that moment stay valid: the writer waits for that long.
    Lossy,
}

/// Selects when the other side is notified, apart from complete batches and waits for the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// At the end of the process's turn; outside of processes at once.
    #[default]
    Turn,
    /// At once, with each write or read.
    Eager,
    /// Not before `flush` is called: until then the other side may sleep.
    Lazy,
}

/// Distance between the readers' cursors in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Next to each other, 32 bytes each: readers slow each other down (false sharing). For comparisons.
    Packed,
    /// One cache line for each, 64 bytes.
    Line,
    /// A pair of cache lines for each, 128 bytes: processors load cache lines in pairs.
    #[default]
    Pair,
}

impl Padding {
    /// Returns the requested number of bytes of each cursor; 0 if packed.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Packed => 0,
            Self::Line => 64,
            Self::Pair => 128,
        }
    }
}
