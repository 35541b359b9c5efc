//! Memory of a ring: a buffer of slots that the writer fills and the readers borrow or copy from.
//!
//! The writer and the readers hold it in `RingShared`. Nothing here checks which side may access a slot: the callers
//! prove it with their cursors, and a cursor that is wrong makes two threads access one slot at once.
//!
//! A position counts items; its slot is the position modulo the capacity, so a run of items is at most two slices.

#![expect(unsafe_code, reason = "slots are shared between a writer and readers; each block names the owner")]

use std::alloc::{Layout, alloc, dealloc};
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Alignment of the first slot: a cache line.
const ALIGN: usize = 64;

/// The slots of a ring.
pub(crate) struct Slots<T> {
    first: NonNull<MaybeUninit<T>>,
    mask: u64,
    layout: Layout,
    /// Number of slots, from the first, that are known to hold a value; only the writer stores it. It is exact if `T`
    /// must be dropped. For other types only `to_fill` updates it.
    filled: AtomicU64,
}

// SAFETY: the slots are a buffer of `T`s and follow the rules of `T`: readers on other threads borrow the items, and
// the last owner drops them.
unsafe impl<T: Send + Sync> Send for Slots<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}

impl<T> Slots<T> {
    /// Allocates `capacity` slots, which must be a power of two; returns `None` if there is not enough memory.
    pub(crate) fn new(capacity: u64) -> Option<Self> {
        const { assert!(size_of::<T>() != 0, "a ring carries items of at least one byte") };
        let layout = Layout::array::<T>(usize::try_from(capacity).ok()?).ok()?.align_to(ALIGN).ok()?;
        // SAFETY: the layout is not of size zero.
        let first = NonNull::new(unsafe { alloc(layout) })?.cast();
        Some(Self { first, mask: capacity - 1, layout, filled: AtomicU64::new(0) })
    }

    /// Returns the size of all slots, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Returns the address of the first slot, by which observers measure how much of the ring is resident.
    pub(crate) fn address(&self) -> usize {
        self.first.as_ptr() as usize
    }

    const fn capacity(&self) -> u64 {
        self.mask + 1
    }

    #[inline]
    const fn slot(&self, position: u64) -> *mut MaybeUninit<T> {
        // SAFETY: the mask keeps the pointer inside of the allocation.
        unsafe { self.first.as_ptr().add((position & self.mask) as usize) }
    }

    /// Returns the number of slots, of `count` from `position` on, before the end of the buffer.
    #[inline]
    const fn contiguous_len(&self, position: u64, count: usize) -> usize {
        let left = (self.capacity() - (position & self.mask)) as usize;
        if count < left { count } else { left }
    }

    /// Writes one value at `position`, and returns the value of one lap ago if it must be dropped.
    ///
    /// # Safety
    /// The caller is the writer, and no reader may read the slot.
    #[inline]
    pub(crate) unsafe fn put(&self, position: u64, value: T) -> Option<T> {
        let slot = self.slot(position);
        if needs_drop::<T>() && self.is_filled(position) {
            // SAFETY: the slot holds a value, and the caller has exclusive access to it.
            return Some(unsafe { ptr::replace(slot.cast::<T>(), value) });
        }
        // SAFETY: the caller has exclusive access to the slot, which holds nothing that must be dropped.
        unsafe { (*slot).write(value) };
        if needs_drop::<T>() {
            self.record_filled(position + 1);
        }
        None
    }

    fn is_filled(&self, position: u64) -> bool {
        (position & self.mask) < self.filled.load(Ordering::Relaxed)
    }

    fn record_filled(&self, end: u64) {
        let filled = end.min(self.capacity());
        if filled > self.filled.load(Ordering::Relaxed) {
            self.filled.store(filled, Ordering::Relaxed);
        }
    }

    /// Returns the items from `position` on, in two slices.
    ///
    /// # Safety
    /// The caller is a reader, and the cursors have granted it these items for the lifetime of the slices.
    #[inline]
    pub(crate) unsafe fn items(&self, position: u64, count: usize) -> (&[T], &[T]) {
        let first = self.contiguous_len(position, count);
        // SAFETY: both runs are inside of the buffer and were written, and the writer does not touch them meanwhile.
        unsafe {
            (
                slice::from_raw_parts(self.slot(position).cast::<T>(), first),
                slice::from_raw_parts(self.first.as_ptr().cast::<T>(), count - first),
            )
        }
    }
}

impl<T: Copy> Slots<T> {
    /// Copies items in from `position` on.
    ///
    /// # Safety
    /// The caller is the writer, and no reader may read these slots.
    #[inline]
    pub(crate) unsafe fn copy_in(&self, position: u64, items: &[T]) {
        // Avoids a call for a single item.
        if let [item] = items {
            // SAFETY: guaranteed by the caller.
            unsafe { (*self.slot(position)).write(*item) };
            return;
        }
        let first = self.contiguous_len(position, items.len());
        // SAFETY: guaranteed by the caller; `first` items are before the end, and a run that wraps is copied in two
        // parts.
        unsafe {
            if first < items.len() {
                self.copy_wrapping_in(position, items, first);
            } else {
                self.copy_contiguous_in(position, items);
            }
        };
    }

    /// Copies items in that wrap around: the first `first` of them are before the end of the buffer.
    ///
    /// # Safety
    /// Same as for [`copy_in`](Self::copy_in).
    #[cold]
    unsafe fn copy_wrapping_in(&self, position: u64, items: &[T], first: usize) {
        let (items, rest) = items.split_at(first);
        // SAFETY: guaranteed by the caller; items that wrap around continue at the beginning.
        unsafe {
            self.copy_contiguous_in(position, items);
            self.copy_contiguous_in(position + first as u64, rest);
        }
    }

    /// Copies items in that do not wrap around.
    ///
    /// # Safety
    /// Same as for [`copy_in`](Self::copy_in).
    #[inline]
    unsafe fn copy_contiguous_in(&self, position: u64, items: &[T]) {
        // SAFETY: guaranteed by the caller; the run is inside of the buffer.
        unsafe { ptr::copy_nonoverlapping(items.as_ptr(), self.slot(position).cast::<T>(), items.len()) };
    }

    /// Copies items out from `position` on.
    ///
    /// # Safety
    /// The caller is a reader, and the cursors have granted it these items.
    #[inline]
    pub(crate) unsafe fn copy_out(&self, position: u64, items: &mut [T]) {
        if let [item] = items {
            // SAFETY: guaranteed by the caller.
            *item = unsafe { (*self.slot(position)).assume_init() };
            return;
        }
        let first = self.contiguous_len(position, items.len());
        // SAFETY: guaranteed by the caller; `first` items are before the end, and a run that wraps is copied in two
        // parts.
        unsafe {
            if first < items.len() {
                self.copy_wrapping_out(position, items, first);
            } else {
                self.copy_contiguous_out(position, items);
            }
        };
    }

    /// Copies items out that wrap around: the first `first` of them are before the end of the buffer.
    ///
    /// # Safety
    /// Same as for [`copy_out`](Self::copy_out).
    #[cold]
    unsafe fn copy_wrapping_out(&self, position: u64, items: &mut [T], first: usize) {
        let (items, rest) = items.split_at_mut(first);
        // SAFETY: guaranteed by the caller; items that wrap around continue at the beginning.
        unsafe {
            self.copy_contiguous_out(position, items);
            self.copy_contiguous_out(position + first as u64, rest);
        }
    }

    /// Copies items out that do not wrap around.
    ///
    /// # Safety
    /// Same as for [`copy_out`](Self::copy_out).
    #[inline]
    unsafe fn copy_contiguous_out(&self, position: u64, items: &mut [T]) {
        // SAFETY: guaranteed by the caller; the run is inside of the buffer.
        unsafe { ptr::copy_nonoverlapping(self.slot(position).cast::<T>(), items.as_mut_ptr(), items.len()) };
    }
}

impl<T: Copy + Default> Slots<T> {
    /// Returns the slots from `position` on for writing. They hold the items of one lap ago, or the default.
    ///
    /// # Safety
    /// The caller is the writer, no reader may read these slots for the lifetime of the slices, and all earlier
    /// positions were written.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the cursors grant the caller exclusive access")]
    pub(crate) unsafe fn to_fill(&self, position: u64, count: usize) -> (&mut [T], &mut [T]) {
        if position < self.capacity() {
            // SAFETY: guaranteed by the caller.
            unsafe { self.fill_first_lap(position, count) };
        }
        let first = self.contiguous_len(position, count);
        // SAFETY: guaranteed by the caller; both runs are inside of the buffer, do not overlap, and hold values.
        unsafe {
            (
                slice::from_raw_parts_mut(self.slot(position).cast::<T>(), first),
                slice::from_raw_parts_mut(self.first.as_ptr().cast::<T>(), count - first),
            )
        }
    }
}

impl<T: Copy + Default> Slots<T> {
    /// Writes the default into slots that were never written.
    ///
    /// # Safety
    /// Same as for [`to_fill`](Self::to_fill), and the position must be in the first lap.
    #[cold]
    unsafe fn fill_first_lap(&self, position: u64, count: usize) {
        let end = (position + count as u64).min(self.capacity());
        for fresh in position.max(self.filled.load(Ordering::Relaxed))..end {
            // SAFETY: guaranteed by the caller.
            unsafe { (*self.slot(fresh)).write(T::default()) };
        }
        self.record_filled(end);
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        // SAFETY: this is the last owner. If `T` must be dropped, exactly the first `filled` slots hold a value.
        unsafe {
            if needs_drop::<T>() {
                let filled = *self.filled.get_mut() as usize;
                ptr::drop_in_place(ptr::slice_from_raw_parts_mut(self.first.as_ptr().cast::<T>(), filled));
            }
            dealloc(self.first.as_ptr().cast(), self.layout);
        }
    }
}
