//! Builds rings, and shows them to observers.

use std::any::Any;
use std::sync::{Arc, Weak};
use std::time::Duration;

use thiserror::Error;

use super::cursors::{Cursors, Guard};
use super::policy::{Padding, Policy};
use super::reader::Subscriber;
use super::reader_slots::ReaderSlots;
use super::registry::ObservedRing;
use super::shared::{Held, RingShared};
use super::slots::Slots;
use super::writer::Writer;
use crate::process::running::Running;
use crate::runtime::handle::Handle;
use crate::scheduler::{self, Local};

/// Default number of reader slots of a ring. A slot takes 152 bytes with [`Padding::Pair`].
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
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::ring::{Builder, Policy, RingError};
///
/// let (writer, subscriber) = Builder::new(4_096)
///     .readers_max(4)
///     .policy(Policy::EvictAfter(Duration::from_secs(1)))
///     .label("samples")
///     .build::<f32>()?;
/// assert_eq!((writer.readers(), subscriber.bytes() >= 4 * 4_096), (0, true));
///
/// let error = Builder::new(1_000).build::<f32>().unwrap_err();
/// assert_eq!(error, RingError::Capacity { capacity: 1_000 }, "not a power of two");
/// # Ok::<(), RingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    capacity: usize,
    readers_max: usize,
    policy: Policy,
    padding: Padding,
    label: Option<Arc<str>>,
    held: Held,
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
            held: None,
            runtime: None,
        }
    }

    /// Sets the largest number of concurrent readers. Default 64; each takes 152 bytes with the default padding, used
    /// or not.
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

    /// Keeps a value until the memory of the ring is free again, for example a share of a bound on memory.
    pub fn holding(mut self, value: impl Any + Send + Sync) -> Self {
        self.held = Some(Arc::new(value));
        self
    }

    /// Sets the runtime that shows the ring to its observers. Default: the runtime of the process that builds it; none
    /// if no process builds it.
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
        // A power of two: `Slots` finds the slot of a position with a bit mask.
        if !capacity.is_power_of_two() || capacity > 1 << 40 {
            return Err(RingError::Capacity { capacity });
        }
        if self.readers_max == 0 || self.readers_max > READERS_MAX {
            return Err(RingError::Readers { readers_max: self.readers_max });
        }
        // If the writer may pass a reader, each read sets a mark in its reader slot, so that the writer does not
        // overwrite items in use. A lossless ring needs no marks: its writer never passes a reader.
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
            (self.label, self.held),
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
