//! A ring that one writes and many read: a stream of items to readers that come and go, without a copy for each of them.
//!
//! ```text
//!                       ┌──────────── capacity ────────────┐
//!   Writer ── write ──▶ │ items, one copy for all readers  │ ──▶ Reader, at its own pace     Subscriber::join adds one
//!      ▲                └──────────────────────────────────┘ ──▶ Reader                      dropping it takes it out
//!      └── full: waits for the slowest (lossless) · waits, then evicts it · moves it forward (lossy) ──┘
//! ```
//!
//! ```
//! use rusm_runtime::{Config, Runtime, ring};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let (mut writer, subscriber) = ring::Builder::new(1024).build::<f32>()?;
//! let sums: Vec<_> = (0..3)
//!     .map(|_| {
//!         let mut reader = subscriber.join().expect("there is a seat");
//!         let (tell, told) = std::sync::mpsc::channel();
//!         let read = runtime.spawn(|_| async move {
//!             let (mut samples, mut sum) = ([0.0; 64], 0.0);
//!             while let Ok(count) = reader.read(&mut samples).await {
//!                 sum += samples[..count].iter().sum::<f32>();
//!             }
//!             tell.send(sum)
//!         });
//!         read.map(|_| told)
//!     })
//!     .collect::<Result<_, _>>()?;
//! runtime.spawn(|_| async move {
//!     for _ in 0..100 {
//!         writer.write(&[0.5; 100]).await;
//!     }
//!     writer.close();
//! })?;
//! for sum in sums {
//!     assert_eq!(sum.recv()?, 5_000.0);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What makes it fast is that hardly anything happens for each item: a reader tells the writer how far it is an eighth of
//! the ring at a time, the writer wakes readers a quarter at a time, and one that waits for room is woken when half of the
//! ring is free. Nobody is left waiting for the rest of such a batch: it is passed on at the end of the process's turn, when the
//! other side is waited for, and when the ring is closed. Outside of processes, where there are no turns, every write and
//! every read is passed on at once, unless [`Flush::Lazy`] says that [`Writer::flush`] will be called.
//!
//! Items are [`Copy`] samples, moved by copying runs of them or by reading and writing them in place; or values that can be
//! cloned, one at a time. A value stays in its slot, also after everybody has read it, until another is written there.
//!
//! Invariants: a reader sees every item from its joining on, in order and once, or is told how many it has missed; the
//! end of either side is seen by the other; no reader that ended, however it ended, is waited for.

mod cursors;
mod grant;
pub(crate) mod park;
mod read_cursor;
mod reader;
mod seats;
mod shared;
mod slots;
pub(crate) mod turn;
pub(crate) mod view;
mod write_cursor;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub(crate) use shared::{packed, unpacked};

pub use grant::Grant;
pub use reader::{JoinError, Peek, ReadError, Reader, ReaderStats, Subscriber};
pub use view::{ReaderView, RingView};
pub use writer::{ChunkError, Flush, Writer, WriterStats};

use crate::handle::Handle;
use cursors::{Cursors, Guard};
use seats::Seats;
use shared::Shared;
use slots::Slots;

/// Readers that a ring has seats for when nothing is said; a seat takes 152 bytes.
pub const READERS_DEFAULT: usize = 64;
/// The most readers of one ring.
pub const READERS_MAX: usize = 1 << 16;

/// What happens when a reader is so slow that the ring is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The writer waits for it, however long. Observers see whom it waits for.
    #[default]
    Lossless,
    /// The writer waits for so long, and goes on without it: the reader gets [`ReadError::Evicted`].
    ///
    /// A writer outside of processes and of threads that may block waits by a timer of tokio, and panics where there is none.
    EvictAfter(Duration),
    /// The writer goes on, and the reader with it: it gets [`ReadError::Missed`] with the exact number of items.
    ///
    /// It is moved by an eighth of the ring at least, so that the next item does not find it in the way again. What it
    /// copies or [peeks](Reader::peek) at just then stays: for that long the writer waits.
    Lossy,
}

/// How far apart the readers' cursors lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Side by side, 32 bytes each: readers slow each other down. For comparisons.
    Packed,
    /// On a cache line each, 64 bytes.
    Line,
    /// On a pair of cache lines each, 128 bytes: processors load them by pairs.
    #[default]
    Pair,
}

impl Padding {
    /// Bytes of each cursor, as far as they are asked for.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Packed => 0,
            Self::Line => 64,
            Self::Pair => 128,
        }
    }
}

/// Why there is no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// Choose a power of two.
    #[error("ring capacity of {capacity} items is not a power of two from 1 to 2^40")]
    Capacity {
        /// The capacity asked for.
        capacity: usize,
    },
    /// Choose a number in the range.
    #[error("{readers_max} readers are not from 1 to {READERS_MAX}")]
    Readers {
        /// The number asked for.
        readers_max: usize,
    },
    /// Give a reader some time, or choose [`Policy::Lossy`].
    #[error("eviction after {after:?} leaves a reader no time: at least 1 ms")]
    Eviction {
        /// The time asked for.
        after: Duration,
    },
    /// Choose a smaller capacity.
    #[error("no memory for a ring of {capacity} items of {item_bytes} bytes")]
    Memory {
        /// The capacity asked for.
        capacity: usize,
        /// Bytes of an item.
        item_bytes: usize,
    },
}

/// What a ring is to be like.
#[derive(Clone, Debug)]
pub struct Builder {
    capacity: usize,
    readers_max: usize,
    policy: Policy,
    padding: Padding,
    label: Option<Arc<str>>,
    runtime: Option<Handle>,
}

impl Builder {
    /// A ring of so many items, a power of two; more of them mean fewer wake-ups and more memory.
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            readers_max: READERS_DEFAULT,
            policy: Policy::Lossless,
            padding: Padding::Pair,
            label: None,
            runtime: None,
        }
    }

    /// How many may read at once. Default 64; each takes 152 bytes, used or not.
    pub const fn readers_max(mut self, readers_max: usize) -> Self {
        self.readers_max = readers_max;
        self
    }

    /// What happens when a reader is too slow. Default: the writer waits.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// How far apart cursors lie. Default 128 bytes; less saves memory and costs time when there are several cores.
    pub const fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// What observers call it. Default: nothing.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The runtime whose observers see it. Default: that of the process that builds it.
    pub fn seen_by(mut self, runtime: &Handle) -> Self {
        self.runtime = Some(runtime.clone());
        self
    }

    /// Makes the ring: the one who writes, and what readers come from.
    ///
    /// # Errors
    /// [`RingError`] names the number that is out of range.
    pub fn build<T: Send + Sync + 'static>(self) -> Result<(Writer<T>, Subscriber<T>), RingError> {
        let capacity = self.capacity;
        if !capacity.is_power_of_two() || capacity > 1 << 40 {
            return Err(RingError::Capacity { capacity });
        }
        if self.readers_max == 0 || self.readers_max > READERS_MAX {
            return Err(RingError::Readers { readers_max: self.readers_max });
        }
        let guard = match self.policy {
            Policy::Lossless => Guard::Unguarded,
            Policy::EvictAfter(after) if after < Duration::from_millis(1) => {
                return Err(RingError::Eviction { after });
            }
            Policy::EvictAfter(_) => Guard::Evicts,
            Policy::Lossy => Guard::Skips,
        };
        let memory = RingError::Memory { capacity, item_bytes: size_of::<T>() };
        let slots = Slots::new(capacity as u64).ok_or(memory)?;
        let seats = Seats::new(self.readers_max, self.padding.bytes());
        let shared = Arc::new(Shared::new(Cursors::new(capacity as u64, seats, guard), slots, self.policy, self.label));
        view::announce(self.runtime.as_ref(), &shared);
        Ok((Writer::new(Arc::clone(&shared)), Subscriber::new(shared)))
    }
}
