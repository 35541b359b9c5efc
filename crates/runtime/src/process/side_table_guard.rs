//! Access to the side table of a live process, guarded by a lock of the process.
//!
//! The flag [`HAS_SIDE_TABLE`] in the header tells the exit whether there is something to release. A thread that adds
//! something sets the flag first and then checks the generation. The exit advances the generation first and then reads
//! the flag. So nothing is ever added to a process that has ended. Two processes are locked at once only for a link, the
//! lower slot first. While a process is locked, only the locks of the registry, of groups and of timers may be taken.

#![expect(unsafe_code, reason = "accesses data guarded by the lock of a process; each block states that it is held")]

use crate::process::header::HAS_SIDE_TABLE;
use crate::process::pid::Pid;
use crate::process::side_table::SideTable;
use crate::process::table::Slot;
use crate::sync::RawLock as _;
use crate::sync::atomic::Ordering;

/// Guard of the side table of a live process.
pub(crate) struct SideTableGuard(Slot);

impl SideTableGuard {
    /// Locks the side table of a process that has ended or is ending.
    pub(crate) fn of(slot: Slot) -> Self {
        slot.header().lock.lock();
        Self(slot)
    }

    /// Locks the side table of a process; `None` if the process has ended.
    pub(crate) fn lock_live(slot: Slot, pid: Pid) -> Option<Self> {
        let locked = Self::of(slot);
        let header = slot.header();
        let is_alive = || header.generation.load(Ordering::SeqCst) == pid.generation() && !header.gate.is_closed();
        // Check the gate as well: until it opens, the flags are those of the previous process and will be overwritten.
        if !is_alive() {
            return None;
        }
        // Acquire: if these are the flags of the next process in the slot, the check below sees its generation.
        if header.flags.load(Ordering::Acquire) & HAS_SIDE_TABLE == 0 {
            header.flags.fetch_or(HAS_SIDE_TABLE, Ordering::SeqCst);
        }
        // Check again even if `HAS_SIDE_TABLE` was set: it may be that of the next process, set at its spawn without
        // the lock.
        is_alive().then_some(locked)
    }

    /// Locks the side tables of two processes, as [`lock_live`](Self::lock_live) does for one.
    pub(crate) fn lock_both(own: (Slot, Pid), other: (Slot, Pid)) -> (Option<Self>, Option<Self>) {
        let lock = |(slot, pid)| Self::lock_live(slot, pid);
        if own.1.slot() == other.1.slot() {
            // Both pids are of one slot, so at most one of them is alive.
            let locked = lock(own);
            return if locked.is_some() { (locked, None) } else { (None, lock(other)) };
        }
        if own.1.slot() < other.1.slot() {
            let locked = lock(own);
            (locked, lock(other))
        } else {
            let locked = lock(other);
            (lock(own), locked)
        }
    }

    /// Returns the side table, and creates it on first use.
    pub(crate) fn side_table(&mut self) -> &mut SideTable {
        self.entry().get_or_insert_default()
    }

    /// Returns the slot of the process.
    pub(crate) fn slot(&self) -> Slot {
        self.0
    }

    /// Returns the side table, if it exists.
    pub(crate) fn get(&mut self) -> Option<&mut SideTable> {
        self.entry().as_deref_mut()
    }

    /// Returns the side table in its place.
    pub(crate) fn entry(&mut self) -> &mut Option<Box<SideTable>> {
        // SAFETY: the lock is held; the slot has or had a process, and the spawn of that process wrote the field.
        unsafe { &mut *self.0.side_table_ptr() }
    }
}

impl Drop for SideTableGuard {
    fn drop(&mut self) {
        // SAFETY: `of` took the lock.
        unsafe { self.0.header().lock.unlock() }
    }
}
