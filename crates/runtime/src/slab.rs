//! The process table, which is also where processes live: chunks of slots that are recycled and never move.
//!
//! ```text
//!   chunk, 256 KiB, aligned to its size
//!   ┌────────┬──────────────────────────────┬────────┬───────────────────────────────┐
//!   │ cell 0 │ cells 1..1024, 64 bytes each │ body 0 │ bodies 1..1024, 192 bytes each│
//!   └────────┴──────────────────────────────┴────────┴───────────────────────────────┘
//!     unused    what everybody may read       header     what only the running owner touches
//! ```
//!
//! The cells of a chunk lie side by side, so an observer ranks a million processes without touching one of them. A waker
//! is the address of a cell and holds the chunk, not the process: a stale one finds a closed or a reused cell and costs
//! at most one spurious poll.

#![expect(unsafe_code, reason = "lays out chunks by hand; each block says which chunk keeps the memory alive")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell as Plain, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, madvise};

use crate::cell::Cell;
use crate::holdings::Held;
use crate::mailbox::Backlog;
use crate::pid::Pid;
use crate::runtime::Shared;
use crate::stock::{BATCH, BATCHES_KEPT_MAX, Depot, Linked, Stock};
use crate::task::TaskKind;

/// Slots of a chunk, the first of which is its header.
pub(crate) const CHUNK_SLOTS: usize = 1024;
const CHUNK_BYTES: usize = CHUNK_SLOTS * (size_of::<Cell>() + size_of::<Body>());
const BODIES_AT: usize = CHUNK_SLOTS * size_of::<Cell>();
const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk's size is a power of two"),
};

/// Bytes of a process's control block, with the room for a small future.
pub(crate) const CONTROL_BLOCK_BYTES: usize = size_of::<Cell>() + size_of::<Body>();

/// Words of a future that lives in its control block.
pub(crate) const INLINE_FUTURE_WORDS: usize = 18;

const _: () = assert!(size_of::<Cell>() == 64 && size_of::<Body>() == 192 && CHUNK_BYTES.is_power_of_two());

/// The part of a control block that only the running owner touches, but for what says otherwise.
#[repr(C, align(64))]
pub(crate) struct Body {
    pub(crate) backlog: Plain<Backlog>,
    /// Always points to a static; atomic because observers read it.
    pub(crate) kind: AtomicPtr<TaskKind>,
    /// Counts removals from the backlog, so that a paused selective receive knows whether its place still stands.
    pub(crate) removals: Plain<u32>,
    /// Senders wait for room.
    pub(crate) crowded: Plain<bool>,
    /// It lies in a run queue with `RUNNING` at its gate; see [`Gate::hand`](crate::gate::Gate::hand).
    pub(crate) handed: Plain<bool>,
    /// The slot of the process that spawned it, for anybody; 0 if that was not a process.
    parent: AtomicU32,
    parent_generation: AtomicU32,
    /// What the process holds beside its slot, for whoever has [`Cell::lock`].
    pub(crate) held: UnsafeCell<Option<Box<Held>>>,
    pub(crate) future: UnsafeCell<[MaybeUninit<u64>; INLINE_FUTURE_WORDS]>,
}

/// Lies where the body of slot 0 would.
struct Header {
    shared: *const Shared,
    /// The runtime, while it runs, and every waker that was cloned.
    holders: AtomicUsize,
    first_slot: u32,
}

/// A slot, occupied or free; valid as long as its chunk is held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(NonNull<Cell>);

// SAFETY: a slot is an address; what may be done there is decided by the gate.
unsafe impl Send for Slot {}
// SAFETY: as above; all that a shared slot gives is the cell, which is made of atomics.
unsafe impl Sync for Slot {}

impl Slot {
    #[inline]
    pub(crate) fn cell(&self) -> &Cell {
        // SAFETY: cells are initialised with their chunk, and whoever has a slot has its chunk held.
        unsafe { self.0.as_ref() }
    }

    /// The body.
    ///
    /// # Safety
    /// The caller holds the gate's `RUNNING` or will by having taken the process out of a run queue, or it has the slot from
    /// a stock and has initialised the body.
    #[inline]
    pub(crate) unsafe fn body(&self) -> &Body {
        // SAFETY: the caller's promise; bodies lie behind the cells of the same chunk.
        unsafe { self.body_ptr().as_ref() }
    }

    #[inline]
    pub(crate) fn body_ptr(self) -> NonNull<Body> {
        // Cells are 64 bytes apart and bodies 192: the way from one to the other grows by twice what a cell lies in the chunk.
        const STRIDE: usize = size_of::<Body>() / size_of::<Cell>() - 1;
        let cell_at = self.0.as_ptr() as usize & (CHUNK_BYTES - 1);
        // SAFETY: stays inside the chunk.
        unsafe { self.0.byte_add(STRIDE * cell_at + BODIES_AT).cast() }
    }

    /// Slot and generation of the process that spawned this one, for observers, who do not own the body; 0 if that was
    /// not a process.
    ///
    /// Only asked of a slot that has or had a tenant.
    pub(crate) fn parent(self) -> (u32, u32) {
        let body = self.body_ptr().as_ptr();
        // SAFETY: the first tenant's spawn wrote these fields, atomics that are only stored to afterwards.
        unsafe { ((*body).parent.load(Ordering::Relaxed), (*body).parent_generation.load(Ordering::Relaxed)) }
    }

    /// Where what the tenant holds hangs; see [`Body::held`].
    pub(crate) fn held_ptr(self) -> *mut Option<Box<Held>> {
        // SAFETY: stays inside the body.
        unsafe { (*self.body_ptr().as_ptr()).held.get() }
    }

    /// The slot of a cell of the table.
    pub(crate) fn of(cell: &Cell) -> Self {
        Self(NonNull::from(cell))
    }

    /// The Rust type of the future, for observers. Only asked of a slot that has or had a tenant.
    pub(crate) fn future_type(self) -> &'static str {
        // SAFETY: as above, and the pointer is one to a static, or null once the chunk is cold.
        unsafe { (*self.body_ptr().as_ptr()).kind.load(Ordering::Relaxed).as_ref() }.map_or("", |kind| (kind.name)())
    }

    /// Readies the body for a new tenant that has no future yet; what it is to hold needs no lock before the gate opens.
    ///
    /// # Safety
    /// The caller has the slot from a stock.
    #[inline]
    pub(crate) unsafe fn clear_body(&self, parent: Option<Pid>, held: Option<Box<Held>>) -> &Body {
        let body = self.body_ptr().as_ptr();
        // SAFETY: the caller owns the slot, and the fields lie inside the body; the future's storage may stay as it is.
        unsafe {
            (&raw mut (*body).backlog).write(Plain::new(Backlog::EMPTY));
            (&raw mut (*body).kind).write(AtomicPtr::new(ptr::from_ref(TaskKind::NONE).cast_mut()));
            (&raw mut (*body).removals).write(Plain::new(0));
            (&raw mut (*body).crowded).write(Plain::new(false));
            (&raw mut (*body).handed).write(Plain::new(false));
            (&raw mut (*body).parent).write(AtomicU32::new(parent.map_or(0, Pid::slot)));
            (&raw mut (*body).parent_generation).write(AtomicU32::new(parent.map_or(0, Pid::generation)));
            (&raw mut (*body).held).write(UnsafeCell::new(held));
            &*body
        }
    }

    #[inline]
    fn header(self) -> NonNull<Header> {
        let address = self.0.as_ptr() as usize;
        let base = address & (CHUNK_BYTES - 1);
        // SAFETY: the header lies at the first body of the same chunk.
        unsafe { self.0.byte_sub(base).byte_add(BODIES_AT).cast() }
    }

    pub(crate) fn number(self) -> u32 {
        let index = (self.0.as_ptr() as usize & (CHUNK_BYTES - 1)) / size_of::<Cell>();
        // SAFETY: headers are initialised with their chunk.
        unsafe { (*self.header().as_ptr()).first_slot + index as u32 }
    }

    /// The pid of the tenant.
    pub(crate) fn pid(self) -> Pid {
        Pid::local(self.number(), self.cell().generation.load(Ordering::Relaxed))
    }

    /// The runtime that the slot belongs to.
    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: a chunk holds its runtime's shared part as long as it is held itself.
        unsafe { &*(*self.header().as_ptr()).shared }
    }

    /// Holds the chunk for a waker.
    pub(crate) fn hold(self) {
        // SAFETY: headers are initialised with their chunk. Relaxed is enough to add to a count that is not zero.
        unsafe { (*self.header().as_ptr()).holders.fetch_add(1, Ordering::Relaxed) };
    }

    /// Ends a hold; the last one ends the chunk's own hold of the table, in which it lies.
    pub(crate) fn release(self) {
        // SAFETY: the caller gives up a hold that it has; after the last one nobody has the address of a slot here but
        // through the table. The last of all who hold that frees it, this chunk as well, which is not touched any more.
        unsafe {
            let header = self.header();
            if (*header.as_ptr()).holders.fetch_sub(1, Ordering::Release) == 1 {
                fence(Ordering::Acquire);
                drop(Arc::from_raw((*header.as_ptr()).shared));
            }
        }
    }

    pub(crate) fn as_ptr(self) -> *mut Cell {
        self.0.as_ptr()
    }

    /// The slot at an address that [`as_ptr`](Self::as_ptr) gave.
    ///
    /// # Safety
    /// The chunk is still held.
    #[inline]
    pub(crate) unsafe fn from_ptr(cell: *mut Cell) -> Option<Self> {
        NonNull::new(cell).map(Self)
    }
}

impl Linked for Slot {
    #[inline]
    fn next(self) -> Option<Self> {
        NonNull::new(self.cell().busy_ns.load(Ordering::Relaxed) as *mut Cell).map(Self)
    }

    #[inline]
    fn set_next(self, next: Option<Self>) {
        let address = next.map_or(0, |next| next.0.as_ptr() as u64);
        self.cell().busy_ns.store(address, Ordering::Relaxed);
    }
}

/// Slots that move at a time between the stock of a thread and what all threads share: an 80th of the limit for each of
/// `stocks` threads, at least 1 and at most [`BATCH`].
///
/// A stock keeps at most five batches, so those of all threads together are a sixteenth of a limit of some hundreds or more.
/// With a limit of 256 · 80 for each thread and above, the batch is as large as it need be to make its lock cheap.
pub(crate) fn batch(limit: usize, stocks: usize) -> u32 {
    u32::try_from(limit / (80 * stocks)).unwrap_or(u32::MAX).clamp(1, BATCH)
}

/// Processes that count for the limit. Reads the ends first: one that is missed makes the count too high and not too low.
fn counted(shared: &Shared) -> u64 {
    let closed = shared.schedulers.iter().map(|scheduler| scheduler.counters.closed.load(Ordering::Acquire));
    let closed: u64 = closed.sum();
    shared.spawned().saturating_sub(closed)
}

/// All chunks of a runtime.
pub(crate) struct Slab {
    chunks: Box<[AtomicPtr<Cell>]>,
    /// The number of processes that may live at once.
    limit: usize,
    /// Slots that are used: of the last chunk as many as the rest of them needs.
    slots_max: usize,
    len: AtomicUsize,
    growing: Mutex<()>,
    /// Chunks without a tenant, whose bodies were given back to the system.
    cold: Mutex<Vec<usize>>,
}

impl Slab {
    /// A table for at least `limit` processes, while `stocks` threads keep free slots for themselves.
    ///
    /// There are `limit + 5 * stocks * batch` slots, and never more processes than that; see [`batch`].
    pub(crate) fn new(limit: usize, stocks: usize) -> Self {
        let slots_max = limit + stocks * BATCHES_KEPT_MAX * batch(limit, stocks) as usize;
        Self {
            chunks: (0..slots_max.div_ceil(CHUNK_SLOTS - 1)).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            limit,
            slots_max,
            len: AtomicUsize::new(0),
            growing: Mutex::new(()),
            cold: Mutex::default(),
        }
    }

    /// Fills an empty stock from the depot, a cold chunk or a new one; at the limit it stays empty.
    ///
    /// The stock gets no more slots than processes may be added, so a thread that spawns alone meets the limit exactly.
    /// Slots that other threads have in their stocks are not counted: they can exceed the limit by those.
    pub(crate) fn restock(&self, shared: &Arc<Shared>, stock: &Stock<Slot>) {
        let left = (self.limit as u64).saturating_sub(counted(shared));
        if left == 0 {
            return;
        }
        if !stock.refill(&shared.slots) {
            let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
            // The depot may have been empty only because it was being sorted.
            if !stock.refill(&shared.slots) {
                self.grow(shared, |slot| stock.give(slot));
            }
        }
        let keep = left.min(4 * u64::from(shared.slots.batch())) as u32;
        if stock.len() > keep {
            stock.spill(&shared.slots, keep);
        }
    }

    /// Gives the slots of a cold chunk, or else of a new one; false at the limit. Only one thread grows at a time.
    fn grow(&self, shared: &Arc<Shared>, give: impl FnMut(Slot)) -> bool {
        if let Some(chunk) = self.cold.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            self.chunk_slots(chunk).rev().for_each(give);
            return true;
        }
        let index = self.len.load(Ordering::Relaxed);
        if index == self.chunks.len() {
            return false;
        }
        let first_slot = (index * CHUNK_SLOTS) as u32;
        // SAFETY: the layout is not of size zero; every cell and the header are written before anyone sees them.
        let base = unsafe {
            let Some(base) = NonNull::new(alloc(CHUNK_LAYOUT)) else { handle_alloc_error(CHUNK_LAYOUT) };
            let base = base.cast::<Cell>().as_ptr();
            for slot in 0..CHUNK_SLOTS {
                base.add(slot).write(Cell::free());
            }
            let header = Header { shared: Arc::into_raw(Arc::clone(shared)), holders: AtomicUsize::new(1), first_slot };
            base.byte_add(BODIES_AT).cast::<Header>().write(header);
            base
        };
        self.chunks[index].store(base, Ordering::Release);
        self.len.store(index + 1, Ordering::Release);
        let used = (self.slots_max - index * (CHUNK_SLOTS - 1)).min(CHUNK_SLOTS - 1);
        // Backwards, so that the first slot is taken first.
        self.chunk_slots(index).rev().skip(CHUNK_SLOTS - 1 - used).for_each(give);
        true
    }

    /// The slot of a pid, if the table has grown that far; whether the pid lives there is the generation's business.
    #[inline]
    pub(crate) fn slot(&self, pid: Pid) -> Option<Slot> {
        let (chunk, index) = (pid.slot() as usize / CHUNK_SLOTS, pid.slot() as usize % CHUNK_SLOTS);
        let base = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if base.is_null() || index == 0 || pid.node() != 0 {
            return None;
        }
        // SAFETY: `index` is below `CHUNK_SLOTS`, so the cell is inside the chunk, which the slab holds.
        Some(Slot(unsafe { NonNull::new_unchecked(base.add(index)) }))
    }

    /// Chunks allocated.
    pub(crate) fn chunk_count(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The cells of a chunk with the number of the first; cell 0 is none.
    pub(crate) fn cells(&self, chunk: usize) -> Option<(u32, &[Cell])> {
        let base = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if base.is_null() {
            return None;
        }
        // SAFETY: the slab holds the chunk, whose cells are initialised and only changed through atomics.
        Some(((chunk * CHUNK_SLOTS) as u32, unsafe { std::slice::from_raw_parts(base, CHUNK_SLOTS) }))
    }

    /// Brings in the cell that a walk over all of them comes to some lines later: the processor's own guesses end at each
    /// page, after 64 cells.
    #[inline]
    pub(crate) fn prefetch(cell: &Cell) {
        const AHEAD: usize = 24;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(cell).wrapping_add(AHEAD).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (cell, AHEAD);
    }

    /// Every slot that was ever used or is free.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..self.chunk_count()).flat_map(|chunk| self.chunk_slots(chunk))
    }

    fn chunk_slots(&self, chunk: usize) -> impl DoubleEndedIterator<Item = Slot> {
        let base = self.chunks[chunk].load(Ordering::Acquire);
        // SAFETY: inside the chunk, which is allocated and held by the slab.
        (1..CHUNK_SLOTS).map(move |index| Slot(unsafe { NonNull::new_unchecked(base.add(index)) }))
    }

    /// Gives the memory of chunks without a tenant back to the system: takes all that no thread keeps for itself out of
    /// the depot, and returns there what belongs to chunks that are in use.
    pub(crate) fn cool(&self, depot: &Depot<Slot>) {
        // Whoever finds the depot empty meanwhile waits until it is not.
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_chunk: Vec<Vec<Slot>> = (0..self.chunk_count()).map(|_| Vec::new()).collect();
        while let Some(batch) = depot.take_batch() {
            for slot in std::iter::successors(Some(batch), |slot| slot.next()) {
                by_chunk[slot.number() as usize / CHUNK_SLOTS].push(slot);
            }
        }
        let stock = Stock::new();
        for (chunk, slots) in by_chunk.into_iter().enumerate() {
            // A slot whose generations are used up is in no stock, so its chunk stays warm for ever.
            if slots.len() == CHUNK_SLOTS - 1 {
                self.chill(chunk);
            } else {
                for slot in slots {
                    stock.give(slot);
                }
            }
        }
        stock.spill(depot, 0);
    }

    fn chill(&self, chunk: usize) {
        // SAFETY: all slots of the chunk were taken out of the stocks, so nobody owns a body here, and whatever a body
        // holds is written anew for its next tenant.
        unsafe { give_back(self.chunks[chunk].load(Ordering::Acquire)) };
        self.cold.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
    }

    /// Ends the runtime's hold of its chunks: from here on only wakers and handles keep the table, without the bodies.
    ///
    /// # Safety
    /// Every gate is closed and no thread of the runtime runs any more; called once.
    pub(crate) unsafe fn release(&self) {
        for chunk in &self.chunks[..self.chunk_count()] {
            if let Some(cell) = NonNull::new(chunk.load(Ordering::Acquire)) {
                // SAFETY: the bodies were dropped, and nobody makes new ones.
                unsafe { give_back(cell.as_ptr()) };
                Slot(cell).release();
            }
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            if let Some(base) = NonNull::new(*chunk.get_mut()) {
                // SAFETY: chunks hold their runtime, whose table this is, so nobody holds any of them.
                unsafe { dealloc(base.as_ptr().cast(), CHUNK_LAYOUT) };
            }
        }
    }
}

/// Gives the memory of a chunk's bodies back to the system. The header's page stays, and so do the cells with their
/// generations.
///
/// # Safety
/// Nobody owns a body there. Observers read bodies only through atomics that allow zero.
unsafe fn give_back(base: *mut Cell) {
    let from = BODIES_AT + rustix::param::page_size();
    // SAFETY: inside of the chunk, as above.
    let given = unsafe { madvise(base.byte_add(from).cast(), CHUNK_BYTES - from, Advice::LinuxDontNeed) };
    if let Err(error) = given {
        tracing::debug!(%error, "cannot give the memory of a chunk back");
    }
}
