//! A mapping divided into slots of equal size.
//!
//! ```text
//!   fresh ─▶ taken ─▶ kept (not cleared) ─▶ taken ...      the slots used last, if they may be dirty
//!               └───▶ dirty ─▶ a batch is cleared together ─▶ clean ─▶ taken ...
//! ```
//!
//! Clearing a slot returns its pages to the system, so that it reads as zeros again. Slots are cleared in batches, and
//! neighbours in a batch by one call.

#![expect(unsafe_code, reason = "maps memory; each block names the owner of what it touches")]

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::canary::{self, Canaries};
use parking_lot::Mutex;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// Number of slots cleared together.
const CLEAR_BATCH: usize = 64;
/// `MADV_GUARD_INSTALL` of Linux 6.13: a guard that needs no memory map.
const GUARD_INSTALL: i32 = 102;

/// A mapping divided into slots of equal size.
pub(crate) struct Arena {
    base: NonNull<c_void>,
    slot_bytes: usize,
    slots: u32,
    /// Size of the guard at the beginning of each slot.
    guard_bytes: usize,
    /// Maximum number of slots kept for reuse without clearing.
    kept_max: usize,
    free: Mutex<FreeSlots>,
    used: AtomicU32,
    /// The system supports guards that need no memory map.
    light_guards: AtomicBool,
    /// Slots without a guard, because the system ran out of memory maps.
    canaries: Canaries,
}

#[derive(Default)]
struct FreeSlots {
    /// First slot that was never used.
    fresh: u32,
    kept: Vec<u32>,
    clean: Vec<u32>,
    dirty: Vec<u32>,
    /// Number of threads that are clearing slots; those slots are free, but in no list until they are done.
    clearing_threads: u32,
}

// SAFETY: the mapping belongs to the arena until its drop, and a slot to the caller that took it.
unsafe impl Send for Arena {}
// SAFETY: as above; the arena's own data is behind its lock.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves address space for `slots` slots; uses no memory until they are touched.
    pub(crate) fn new(slot_bytes: usize, slots: usize, guard_bytes: usize, kept_max: usize) -> io::Result<Self> {
        let too_many = || io::Error::new(io::ErrorKind::OutOfMemory, "more bytes than the address space has");
        let len = slot_bytes.checked_mul(slots).ok_or_else(too_many)?;
        let slots = u32::try_from(slots).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address that the system chooses.
        let base = unsafe {
            mmap_anonymous(
                null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        // SAFETY: covers exactly the new mapping. With huge pages, every slot would use at least one huge page. The
        // call fails on a system without them, which has the same effect.
        unsafe { madvise(base, len, Advice::LinuxNoHugepage) }.ok();
        let base = NonNull::new(base).ok_or_else(too_many)?;
        let light_guards = AtomicBool::new(guard_bytes != 0);
        let (free, used) = (Mutex::default(), AtomicU32::new(0));
        let canaries = Canaries::default();
        Ok(Self { base, slot_bytes, slots, guard_bytes, kept_max, free, used, light_guards, canaries })
    }

    /// Number of slots.
    pub(crate) const fn slots(&self) -> u32 {
        self.slots
    }

    pub(crate) const fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Number of slots in use.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the address of a slot.
    pub(crate) fn address(&self, slot: u32) -> *mut u8 {
        self.base.as_ptr().cast::<u8>().wrapping_add(slot as usize * self.slot_bytes)
    }

    /// Takes a free slot.
    pub(crate) fn take(&self) -> Option<u32> {
        let slot = self.take_free()?;
        self.used.fetch_add(1, Ordering::Relaxed);
        if self.canaries.has(slot) {
            // SAFETY: the slot was just taken, and is longer than a canary.
            canary::write(unsafe { &mut *self.address(slot).cast() });
        }
        Some(slot)
    }

    fn take_free(&self) -> Option<u32> {
        let mut free = self.free.lock();
        let kept = loop {
            let kept = free.kept.pop().or_else(|| free.clean.pop());
            if kept.is_some() || free.fresh < self.slots || !free.dirty.is_empty() || free.clearing_threads == 0 {
                break kept;
            }
            drop(free);
            std::thread::yield_now();
            free = self.free.lock();
        };
        if kept.is_some() {
            return kept;
        }
        if free.fresh < self.slots {
            let slot = free.fresh;
            free.fresh += 1;
            drop(free);
            self.guard(slot);
            return Some(slot);
        }
        let dirty = std::mem::take(&mut free.dirty);
        self.clear_slots(dirty, &mut free)
    }

    /// Returns a slot.
    pub(crate) fn release(&self, slot: u32) {
        self.used.fetch_sub(1, Ordering::Relaxed);
        if self.canaries.has(slot) {
            // SAFETY: the caller gave the slot up, and it is longer than a canary.
            canary::check(unsafe { &*self.address(slot).cast() });
        }
        let mut free = self.free.lock();
        if free.kept.len() < self.kept_max {
            free.kept.push(slot);
            return;
        }
        free.dirty.push(slot);
        if free.dirty.len() < CLEAR_BATCH {
            return;
        }
        let dirty = std::mem::take(&mut free.dirty);
        free.clearing_threads += 1;
        drop(free);
        let mut emptied = FreeSlots::default();
        let last = self.clear_slots(dirty, &mut emptied);
        let mut free = self.free.lock();
        free.clearing_threads -= 1;
        free.clean.extend(emptied.clean);
        free.clean.extend(last);
    }

    /// Clears slots, adds all but one to the clean ones, and returns that one.
    fn clear_slots(&self, mut dirty: Vec<u32>, free: &mut FreeSlots) -> Option<u32> {
        dirty.sort_unstable();
        for run in dirty.chunk_by(|one, next| one + 1 == *next) {
            let len = run.len() * self.slot_bytes;
            // SAFETY: these slots are not in use; guards survive this call.
            let emptied = unsafe { madvise(self.address(run[0]).cast(), len, Advice::LinuxDontNeed) };
            if emptied.is_err() {
                self.clear(run);
            }
        }
        let last = dirty.pop();
        free.clean.append(&mut dirty);
        last
    }

    /// Zeroes slots that the system did not clear: the next guest must not see data of the previous one.
    #[cold]
    fn clear(&self, slots: &[u32]) {
        for slot in slots {
            let start = self.address(*slot).wrapping_add(self.guard_bytes);
            // SAFETY: the slot is not in use, and the range excludes the guard.
            unsafe { start.write_bytes(0, self.slot_bytes - self.guard_bytes) };
        }
    }

    /// Installs the guard of a slot that was never used.
    fn guard(&self, slot: u32) {
        if self.guard_bytes == 0 {
            return;
        }
        let place: *mut c_void = self.address(slot).cast();
        if self.light_guards.load(Ordering::Relaxed) {
            // SAFETY: the beginning of a slot that has not been handed out yet.
            if unsafe { libc::madvise(place, self.guard_bytes, GUARD_INSTALL) } == 0 {
                return;
            }
            self.light_guards.store(false, Ordering::Relaxed);
        }
        // Takes two memory maps.
        // SAFETY: as above.
        if unsafe { mprotect(place, self.guard_bytes, MprotectFlags::empty()) }.is_err() {
            self.canaries.add(slot);
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the owner of a slot holds a reference to the arena, so no slot is in use.
        unsafe { munmap(self.base.as_ptr(), self.slot_bytes * self.slots as usize) }.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_comes_back_is_empty() {
        let arena = Arena::new(65_536, 3, 0, 0).unwrap();
        for round in 0..200_u32 {
            let slot = arena.take().unwrap();
            let first = arena.address(slot);
            // SAFETY: the slot was just taken.
            unsafe {
                assert_eq!(first.read(), 0, "round {round}");
                first.write_bytes(0xaa, 65_536);
            }
            arena.release(slot);
        }
        assert_eq!(arena.used(), 0);
    }

    #[test]
    fn a_slot_without_a_guard_has_a_canary_each_time_that_it_is_taken() {
        let arena = Arena::new(65_536, 1, 4096, 0).unwrap();
        arena.canaries.add(0);
        // Mark the slot as used, so that its guard is not installed, as on a system without a map for it.
        arena.free.lock().fresh = 1;
        arena.free.lock().clean.push(0);
        let mut drawn = [0; canary::BYTES];
        canary::write(&mut drawn);

        for _ in 0..200 {
            let slot = arena.take().unwrap();
            // SAFETY: the slot was just taken.
            unsafe {
                assert_eq!(arena.address(slot).cast::<[u8; canary::BYTES]>().read(), drawn);
                arena.address(slot).add(canary::BYTES).write_bytes(0xaa, 65_536 - canary::BYTES);
            }
            arena.release(slot);
        }
    }

    #[test]
    fn there_are_as_many_as_there_are() {
        let arena = Arena::new(65_536, 100, 4096, 7).unwrap();

        let mut taken: Vec<u32> = std::iter::from_fn(|| arena.take()).collect();

        assert_eq!((taken.len(), arena.used()), (100, 100));
        taken.drain(..).for_each(|slot| arena.release(slot));
        let again = std::iter::from_fn(|| arena.take()).collect::<std::collections::HashSet<_>>();
        assert_eq!(again.len(), 100);
    }

    #[test]
    fn slots_that_another_thread_is_emptying_are_waited_for() {
        let arena = Arena::new(65_536, 256, 0, 0).unwrap();

        // The threads together never take more slots than exist.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..2000 {
                        let taken: Vec<_> = (0..64).map(|_| arena.take()).collect();
                        assert!(taken.iter().all(Option::is_some), "round {round}: {taken:?}");
                        taken.into_iter().flatten().for_each(|slot| arena.release(slot));
                    }
                });
            }
        });

        assert_eq!(arena.used(), 0);
    }
}
