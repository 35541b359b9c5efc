//! A ring with one writer and many readers: a stream of items, shared without a copy for each reader.
//!
//! ```text
//!                       ┌──────────── capacity ────────────┐
//!   Writer ── write ──▶ │ items, one copy for all readers  │ ──▶ Reader, at its own pace     Subscriber::join adds one
//!      ▲                └──────────────────────────────────┘ ──▶ Reader                      dropping it removes it
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
//!         let mut reader = subscriber.join().expect("there is a free reader slot");
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
//! The ring is fast because there is almost no work per item. A reader publishes its position every eighth of the ring.
//! The writer wakes readers every quarter of the ring, and a writer that waits for room is woken when half of the ring
//! is free. No side waits for the rest of such a batch: it is published at the end of the process's turn, when a side
//! waits for the other, and when the ring is closed. Code outside of processes has no turns, so every write and every
//! read is published at once, unless [`Flush::Lazy`] states that [`Writer::flush`] will be called.
//!
//! Items are either [`Copy`] samples, moved in runs or read and written in place, or values that can be cloned, one at
//! a time. A value stays in its slot, even after all readers have read it, until another value is written there.
//!
//! Invariants: a reader sees every item after it has joined, in order and once, or receives the number of missed items.
//! Each side sees the end of the other. The writer never waits for a reader that has ended, no matter how it ended.

mod cursors;
mod grant;
pub(crate) mod park;
mod policy;
mod read_cursor;
mod reader;
mod reader_slots;
pub(crate) mod registry;
mod shared;
mod slots;
pub(crate) mod turn;
mod view;
mod write_cursor;
mod writer;

use std::sync::{Arc, Weak};
use std::time::Duration;

use thiserror::Error;

pub(crate) use shared::{packed, unpacked};

pub use grant::Grant;
pub use policy::{Flush, Padding, Policy};
pub use reader::{JoinError, Peek, ReadError, Reader, ReaderStats, Subscriber};
pub use registry::{ReaderView, RingView};
pub use writer::{ChunkError, Writer, WriterStats};

use crate::process::running::Running;
use crate::runtime::handle::Handle;
use crate::scheduler::{self, Local};
use cursors::{Cursors, Guard};
use reader_slots::ReaderSlots;
use registry::ObservedRing;
use shared::RingShared;
use slots::Slots;

/// Default number of reader slots of a ring. A slot takes 152 bytes.
pub const READERS_DEFAULT: usize = 64;
/// Largest number of readers of one ring.
pub const READERS_MAX: usize = 1 << 16;

/// Error returned when a ring cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// The capacity is not valid: choose a power of two.
    #[error("ring capacity of {capacity} items is not a power of two from 1 to 2^40")]
    Capacity {
        /// The capacity asked for.
        capacity: usize,
    },
    /// The number of readers is out of range.
    #[error("{readers_max} readers are not between 1 and {READERS_MAX}")]
    Readers {
        /// The number asked for.
        readers_max: usize,
    },
    /// The eviction time is too short: give readers more time, or choose [`Policy::Lossy`].
    #[error("eviction after {after:?} leaves a reader too little time: use at least 1 ms")]
    Eviction {
        /// The time asked for.
        after: Duration,
    },
    /// Not enough memory: choose a smaller capacity.
    #[error("not enough memory for a ring of {capacity} items of {item_bytes} bytes")]
    Memory {
        /// The capacity asked for.
        capacity: usize,
        /// Bytes of an item.
        item_bytes: usize,
    },
}

/// Builder of a ring.
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
    /// Creates a builder for a ring of `capacity` items, a power of two. A larger ring needs fewer wake-ups and more
    /// memory.
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

    /// Sets the largest number of concurrent readers. Default 64; each takes 152 bytes, used or not.
    pub const fn readers_max(mut self, readers_max: usize) -> Self {
        self.readers_max = readers_max;
        self
    }

    /// Sets what happens when a reader is too slow. Default: the writer waits.
    pub const fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the distance between cursors. Default 128 bytes; less saves memory, but costs time on several cores.
    pub const fn padding(mut self, padding: Padding) -> Self {
        self.padding = padding;
        self
    }

    /// Sets the name shown to observers. Default: none.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the runtime that shows the ring to its observers. Default: the runtime of the process that builds it.
    pub fn observed_by(mut self, runtime: &Handle) -> Self {
        self.runtime = Some(runtime.clone());
        self
    }

    /// Creates the ring. Returns its writer, and a subscriber from which readers join.
    ///
    /// # Errors
    /// [`RingError`] with the number that is out of range.
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
        let reader_slots = ReaderSlots::new(self.readers_max, self.padding.bytes());
        let shared = Arc::new(RingShared::new(
            Cursors::new(capacity as u64, reader_slots, guard),
            slots,
            self.policy,
            self.label,
        ));
        announce(self.runtime.as_ref(), &shared);
        Ok((Writer::new(Arc::clone(&shared)), Subscriber::new(shared)))
    }
}

/// Makes a ring visible to the observers of `runtime`, or by default of the runtime that the calling process runs on.
fn announce<T: Send + Sync + 'static>(runtime: Option<&Handle>, ring: &Arc<RingShared<T>>) {
    let weak: Weak<dyn ObservedRing> = Arc::<RingShared<T>>::downgrade(ring);
    if let Some(runtime) = runtime {
        runtime.shared.streams.add(weak);
    } else if let Some(running) = scheduler::local().and_then(Local::running) {
        let Running { local, .. } = running;
        ring.info.set_writer(running.pid());
        local.shared.streams.add(weak);
    }
}
