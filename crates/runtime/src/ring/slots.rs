//! The memory of a ring: slots that are written and read through cursors, which decide who may touch which.
//!
//! A position is a count of items; its slot is the position modulo the capacity, so a run of items is at most two slices.

#![expect(unsafe_code, reason = "slots are shared between a writer and readers; each block says whose they are")]

use std::alloc::{Layout, alloc, dealloc};
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where slots begin: on a cache line.
const ALIGN: usize = 64;

/// The slots of a ring.
pub(crate) struct Slots<T> {
    first: NonNull<MaybeUninit<T>>,
    mask: u64,
    layout: Layout,
    /// Slots from the first on that hold a value; only the writer stores it.
    filled: AtomicU64,
}

// SAFETY: the slots are a buffer of `T`s that moves and is shared as they are: readers on other threads look at them, and
// the last owner drops them.
unsafe impl<T: Send + Sync> Send for Slots<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Slots<T> {}

impl<T> Slots<T> {
    /// As many slots, a power of two; `None` if there is not so much memory.
    pub(crate) fn new(capacity: u64) -> Option<Self> {
        const { assert!(size_of::<T>() != 0, "a ring carries items of at least one byte") };
        let layout = Layout::array::<T>(usize::try_from(capacity).ok()?).ok()?.align_to(ALIGN).ok()?;
        // SAFETY: the layout is not of size zero.
        let first = NonNull::new(unsafe { alloc(layout) })?.cast();
        Some(Self { first, mask: capacity - 1, layout, filled: AtomicU64::new(0) })
    }

    /// Bytes of all slots.
    pub(crate) const fn bytes(&self) -> usize {
        self.layout.size()
    }

    const fn capacity(&self) -> u64 {
        self.mask + 1
    }

    #[inline]
    const fn slot(&self, position: u64) -> *mut MaybeUninit<T> {
        // SAFETY: the mask keeps it inside of the allocation.
        unsafe { self.first.as_ptr().add((position & self.mask) as usize) }
    }

    /// How many of `count` slots from `position` on lie before the end of the buffer.
    #[inline]
    const fn before_the_end(&self, position: u64, count: usize) -> usize {
        let left = (self.capacity() - (position & self.mask)) as usize;
        if count < left { count } else { left }
    }

    /// Puts one value at `position`, and gives the one that was there a lap ago.
    ///
    /// # Safety
    /// The caller is the writer, and no reader may read the slot.
    #[inline]
    pub(crate) unsafe fn put(&self, position: u64, value: T) -> Option<T> {
        let slot = self.slot(position);
        if needs_drop::<T>() && self.holds(position) {
            // SAFETY: the slot holds a value, and is the caller's.
            return Some(unsafe { ptr::replace(slot.cast::<T>(), value) });
        }
        // SAFETY: the slot is the caller's, and holds nothing that must be dropped.
        unsafe { (*slot).write(value) };
        if needs_drop::<T>() {
            self.note_filled(position + 1);
        }
        None
    }

    fn holds(&self, position: u64) -> bool {
        (position & self.mask) < self.filled.load(Ordering::Relaxed)
    }

    fn note_filled(&self, end: u64) {
        let filled = end.min(self.capacity());
        if filled > self.filled.load(Ordering::Relaxed) {
            self.filled.store(filled, Ordering::Relaxed);
        }
    }

    /// The items from `position` on, in two slices.
    ///
    /// # Safety
    /// The caller is a reader to whom the cursors have given these items, for as long as the slices live.
    #[inline]
    pub(crate) unsafe fn items(&self, position: u64, count: usize) -> (&[T], &[T]) {
        let first = self.before_the_end(position, count);
        // SAFETY: both runs lie inside of the buffer and were written, and the writer leaves them alone meanwhile.
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
        // A single item is not worth a call.
        if let [item] = items {
            // SAFETY: as promised.
            unsafe { (*self.slot(position)).write(*item) };
            return;
        }
        let first = self.before_the_end(position, items.len());
        // SAFETY: as promised; a run of them lies before the end, and what does not is copied in two.
        unsafe {
            if first < items.len() {
                self.copy_round_in(position, items, first);
            } else {
                self.copy_run_in(position, items);
            }
        };
    }

    /// The same for items of which the first so many lie before the end of the buffer.
    ///
    /// # Safety
    /// As for [`copy_in`](Self::copy_in).
    #[cold]
    unsafe fn copy_round_in(&self, position: u64, items: &[T], first: usize) {
        let (items, rest) = items.split_at(first);
        // SAFETY: as promised; what goes round the end lies at the beginning.
        unsafe {
            self.copy_run_in(position, items);
            self.copy_run_in(position + first as u64, rest);
        }
    }

    /// The same for items that lie before the end of the buffer.
    ///
    /// # Safety
    /// As for [`copy_in`](Self::copy_in).
    #[inline]
    unsafe fn copy_run_in(&self, position: u64, items: &[T]) {
        // SAFETY: as promised; the run lies inside of the buffer.
        unsafe { ptr::copy_nonoverlapping(items.as_ptr(), self.slot(position).cast::<T>(), items.len()) };
    }

    /// Copies items out from `position` on.
    ///
    /// # Safety
    /// The caller is a reader to whom the cursors have given these items.
    #[inline]
    pub(crate) unsafe fn copy_out(&self, position: u64, items: &mut [T]) {
        if let [item] = items {
            // SAFETY: as promised.
            *item = unsafe { (*self.slot(position)).assume_init() };
            return;
        }
        let first = self.before_the_end(position, items.len());
        // SAFETY: as promised; a run of them lies before the end, and what does not is copied in two.
        unsafe {
            if first < items.len() {
                self.copy_round_out(position, items, first);
            } else {
                self.copy_run_out(position, items);
            }
        };
    }

    /// The same for items of which the first so many lie before the end of the buffer.
    ///
    /// # Safety
    /// As for [`copy_out`](Self::copy_out).
    #[cold]
    unsafe fn copy_round_out(&self, position: u64, items: &mut [T], first: usize) {
        let (items, rest) = items.split_at_mut(first);
        // SAFETY: as promised; what goes round the end lies at the beginning.
        unsafe {
            self.copy_run_out(position, items);
            self.copy_run_out(position + first as u64, rest);
        }
    }

    /// The same for items that lie before the end of the buffer.
    ///
    /// # Safety
    /// As for [`copy_out`](Self::copy_out).
    #[inline]
    unsafe fn copy_run_out(&self, position: u64, items: &mut [T]) {
        // SAFETY: as promised; the run lies inside of the buffer.
        unsafe { ptr::copy_nonoverlapping(self.slot(position).cast::<T>(), items.as_mut_ptr(), items.len()) };
    }
}

impl<T: Copy + Default> Slots<T> {
    /// The slots from `position` on, to write into: what was there a lap ago, or the default.
    ///
    /// # Safety
    /// The caller is the writer, no reader may read these slots for as long as the slices live, and all before were written.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the cursors make the caller the only one who has them")]
    pub(crate) unsafe fn to_fill(&self, position: u64, count: usize) -> (&mut [T], &mut [T]) {
        if position < self.capacity() {
            // SAFETY: as promised.
            unsafe { self.fill_first_lap(position, count) };
        }
        let first = self.before_the_end(position, count);
        // SAFETY: as promised; both runs lie inside of the buffer, apart from each other, and hold values.
        unsafe {
            (
                slice::from_raw_parts_mut(self.slot(position).cast::<T>(), first),
                slice::from_raw_parts_mut(self.first.as_ptr().cast::<T>(), count - first),
            )
        }
    }
}

impl<T: Copy + Default> Slots<T> {
    /// Puts the default where nothing was ever written.
    ///
    /// # Safety
    /// As for [`to_fill`](Self::to_fill), and the position is of the first lap.
    #[cold]
    unsafe fn fill_first_lap(&self, position: u64, count: usize) {
        let end = (position + count as u64).min(self.capacity());
        for fresh in position.max(self.filled.load(Ordering::Relaxed))..end {
            // SAFETY: as promised.
            unsafe { (*self.slot(fresh)).write(T::default()) };
        }
        self.note_filled(end);
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        // SAFETY: nobody else is left. Of a type that must be dropped, exactly the noted slots hold a value.
        unsafe {
            if needs_drop::<T>() {
                let filled = *self.filled.get_mut() as usize;
                ptr::drop_in_place(ptr::slice_from_raw_parts_mut(self.first.as_ptr().cast::<T>(), filled));
            }
            dealloc(self.first.as_ptr().cast(), self.layout);
        }
    }
}
