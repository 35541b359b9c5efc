//! The process table, in which processes live: chunks of slots that are reused and never move.
//!
//! ```text
//!   chunk, 256 KiB, aligned to its size
//!   ┌────────┬──────────────────────────────┬────────┬───────────────────────────────┐
//!   │ header 0 │ headers 1..1024, 64 bytes each │ body 0 │ bodies 1..1024, 192 bytes each│
//!   └────────┴──────────────────────────────┴────────┴───────────────────────────────┘
//!     unused    readable by all threads       header     accessed only by the running owner
//! ```
//!
//! The headers of a chunk are adjacent, so an observer can rank a million processes without accessing any of their
//! bodies. A waker is the address of a header and keeps the chunk alive, not the process: a stale waker finds a closed
//! or reused header and causes at most one spurious poll.

#![expect(unsafe_code, reason = "lays out chunks by hand; each block says what keeps the memory alive")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;
use rustix::mm::{Advice, madvise};

use crate::mailbox::queue::Backlog;
use crate::process::free_list::{BATCH, BATCHES_KEPT_MAX, FreeList, Linked, SharedPool};
use crate::process::header::ProcessHeader;
use crate::process::pid::Pid;
use crate::process::side_table::SideTable;
use crate::process::task::{Body, TaskVtable};

/// Number of slots in a chunk, the first of which is its header.
pub(crate) const CHUNK_SLOTS: usize = 1024;
const CHUNK_BYTES: usize = CHUNK_SLOTS * (size_of::<ProcessHeader>() + size_of::<Body>());
const BODIES_AT: usize = CHUNK_SLOTS * size_of::<ProcessHeader>();
const CHUNK_LAYOUT: Layout = match Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk's size is a power of two"),
};

/// Size of a process's control block in bytes, including the room for a small future.
pub(crate) const CONTROL_BLOCK_BYTES: usize = size_of::<ProcessHeader>() + size_of::<Body>();

impl ProcessHeader {
    /// Returns the bytes of control block, future and mailbox.
    pub(crate) fn memory_bytes(&self) -> u64 {
        CONTROL_BLOCK_BYTES as u64 + u64::from(self.future_bytes.load(Ordering::Relaxed)) + self.mailbox_bytes()
    }
}

const _: () = assert!(size_of::<ProcessHeader>() == 64 && size_of::<Body>() == 192 && CHUNK_BYTES.is_power_of_two());

/// A reference to the state that owns the table, without its type: the table does not know what else that holds.
pub(crate) struct Owner {
    state: *const (),
    drop: unsafe fn(*const ()),
}

impl Owner {
    pub(crate) fn of<T: Send + Sync>(state: Arc<T>) -> Self {
        Self {
            state: Arc::into_raw(state).cast(),
            // SAFETY: called once, with the pointer above.
            drop: |state| unsafe { drop(Arc::from_raw(state.cast::<T>())) },
        }
    }
}

/// Header of a chunk, at the place of the body of slot 0.
struct ChunkHeader {
    owner: Owner,
    /// Number of references: the runtime, while it runs, and every cloned waker.
    holders: AtomicUsize,
    first_slot: u32,
}

/// A slot, occupied or free. Valid while its chunk is alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(NonNull<ProcessHeader>);

// SAFETY: a slot is an address; the gate decides what may be done there.
unsafe impl Send for Slot {}
// SAFETY: as above; a shared slot gives access to the header only, which consists of atomics.
unsafe impl Sync for Slot {}

impl Slot {
    #[inline]
    pub(crate) fn header(&self) -> &ProcessHeader {
        // SAFETY: headers are initialised with their chunk, and the owner of a slot keeps its chunk alive.
        unsafe { self.0.as_ref() }
    }

    /// Returns the body.
    ///
    /// # Safety
    /// The caller holds the gate's `RUNNING`, or will hold it because it has taken the process out of a run queue, or
    /// it has taken the slot from a free list and has initialised the body.
    #[inline]
    pub(crate) unsafe fn body(&self) -> &Body {
        // SAFETY: guaranteed by the caller; bodies are behind the headers of the same chunk.
        unsafe { self.body_ptr().as_ref() }
    }

    #[inline]
    pub(crate) fn body_ptr(self) -> NonNull<Body> {
        // Headers are 64 bytes apart, bodies 192: the offset from a header to its body grows by twice the offset of the
        // header.
        const STRIDE: usize = size_of::<Body>() / size_of::<ProcessHeader>() - 1;
        let header_offset = self.0.as_ptr() as usize & (CHUNK_BYTES - 1);
        // SAFETY: stays inside the chunk.
        unsafe { self.0.byte_add(STRIDE * header_offset + BODIES_AT).cast() }
    }

    /// Returns slot and generation of the process that spawned this one, for observers, which do not own the body; 0 if
    /// it was not spawned by a process.
    ///
    /// Must be called only for a slot that has or had a tenant.
    pub(crate) fn parent(self) -> (u32, u32) {
        let body = self.body_ptr().as_ptr();
        // SAFETY: the spawn of the first tenant wrote these fields, atomics that are only stored to afterwards.
        unsafe { ((*body).parent.load(Ordering::Relaxed), (*body).parent_generation.load(Ordering::Relaxed)) }
    }

    /// Returns [`parent`](Self::parent) as a pid; `None` if it was not spawned by a process.
    pub(crate) fn parent_pid(self) -> Option<Pid> {
        let (slot, generation) = self.parent();
        (slot != 0).then(|| Pid::local(slot, generation))
    }

    /// Returns [`Body::noted_at`], for all threads.
    ///
    /// Must be called only for a slot that has or had a tenant.
    #[inline]
    pub(crate) fn noted_at(&self) -> &AtomicU16 {
        let body = self.body_ptr().as_ptr();
        // SAFETY: as in `parent`.
        unsafe { &(*body).noted_at }
    }

    /// Returns the address of the tenant's side table; see [`Body::side_table`].
    pub(crate) fn side_table_ptr(self) -> *mut Option<Box<SideTable>> {
        // SAFETY: stays inside the body.
        unsafe { (*self.body_ptr().as_ptr()).side_table.get() }
    }

    /// Returns the slot of a header of the table.
    pub(crate) fn of(header: &ProcessHeader) -> Self {
        Self(NonNull::from(header))
    }

    /// Returns a number that is the same for all futures of one type, and never 0 for a slot with a tenant.
    pub(crate) fn future_id(self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.body_ptr().as_ptr()).vtable.load(Ordering::Relaxed) as usize }
    }

    /// Returns the Rust type of the future, for observers. Must be called only for a slot that has or had a tenant.
    pub(crate) fn future_type(self) -> &'static str {
        // SAFETY: as above. The pointer refers to a static, or is null once the chunk is decommitted.
        unsafe { (*self.body_ptr().as_ptr()).vtable.load(Ordering::Relaxed).as_ref() }
            .map_or("", |vtable| (vtable.name)())
    }

    /// Prepares the body for a new tenant, without a future. Its side table needs no lock before the gate opens.
    ///
    /// # Safety
    /// The caller has taken the slot from a free list.
    #[inline]
    pub(crate) unsafe fn clear_body(&self, parent: Option<Pid>, side_table: Option<Box<SideTable>>) -> &Body {
        let body = self.body_ptr().as_ptr();
        // SAFETY: the caller owns the slot, and the fields are inside the body. The storage of the future may stay as
        // it is.
        unsafe {
            (&raw mut (*body).backlog).write(Cell::new(Backlog::EMPTY));
            (&raw mut (*body).vtable).write(AtomicPtr::new(ptr::from_ref(TaskVtable::NONE).cast_mut()));
            (&raw mut (*body).overtakes).write(Cell::new(0));
            (&raw mut (*body).backpressured).write(Cell::new(false));
            (&raw mut (*body).handed_off).write(Cell::new(false));
            // The watchdog may write at the same time; new memory is zero.
            (*body).noted_at.store(0, Ordering::Relaxed);
            (&raw mut (*body).parent).write(AtomicU32::new(parent.map_or(0, Pid::slot)));
            (&raw mut (*body).parent_generation).write(AtomicU32::new(parent.map_or(0, Pid::generation)));
            (&raw mut (*body).side_table).write(UnsafeCell::new(side_table));
            &*body
        }
    }

    #[inline]
    fn chunk_header(self) -> NonNull<ChunkHeader> {
        let address = self.0.as_ptr() as usize;
        let base = address & (CHUNK_BYTES - 1);
        // SAFETY: the header is at the first body of the same chunk.
        unsafe { self.0.byte_sub(base).byte_add(BODIES_AT).cast() }
    }

    pub(crate) fn number(self) -> u32 {
        let index = (self.0.as_ptr() as usize & (CHUNK_BYTES - 1)) / size_of::<ProcessHeader>();
        // SAFETY: headers are initialised with their chunk.
        unsafe { (*self.chunk_header().as_ptr()).first_slot + index as u32 }
    }

    /// Returns the pid of the tenant.
    pub(crate) fn pid(self) -> Pid {
        Pid::local(self.number(), self.header().generation.load(Ordering::Relaxed))
    }

    /// Returns the state that owns the table, by the address given to [`Owner::of`].
    #[inline]
    pub(crate) fn owner(&self) -> *const () {
        // SAFETY: headers are initialised with their chunk.
        unsafe { (*self.chunk_header().as_ptr()).owner.state }
    }

    /// Adds a reference to the chunk, for a waker.
    pub(crate) fn hold(self) {
        // SAFETY: headers are initialised with their chunk. Relaxed is enough to increment a count that is not zero.
        unsafe { (*self.chunk_header().as_ptr()).holders.fetch_add(1, Ordering::Relaxed) };
    }

    /// Drops a reference to the chunk. The last one drops the chunk's own reference to the state that owns the table.
    pub(crate) fn release(self) {
        // SAFETY: the caller gives up a reference that it owns. After the last one, slots of this chunk are reachable
        // only through the table. The last reference to the table frees it and this chunk, which is not accessed
        // afterwards.
        unsafe {
            let header = self.chunk_header();
            if (*header.as_ptr()).holders.fetch_sub(1, Ordering::Release) == 1 {
                fence(Ordering::Acquire);
                let Owner { state, drop } = &(*header.as_ptr()).owner;
                drop(*state);
            }
        }
    }

    pub(crate) fn as_ptr(self) -> *mut ProcessHeader {
        self.0.as_ptr()
    }

    /// Returns the slot at an address returned by [`as_ptr`](Self::as_ptr).
    ///
    /// # Safety
    /// The chunk is still alive.
    #[inline]
    pub(crate) unsafe fn from_ptr(header: *mut ProcessHeader) -> Option<Self> {
        NonNull::new(header).map(Self)
    }
}

/// Marks the busy time of a free slot, which is the address of the next one in its list.
const FREE: u64 = 1 << 63;

impl Linked for Slot {
    #[inline]
    fn next(self) -> Option<Self> {
        let address = self.header().busy_ns.load(Ordering::Relaxed) & !FREE;
        NonNull::new(address as *mut ProcessHeader).map(Self)
    }

    #[inline]
    fn set_next(self, next: Option<Self>) {
        let address = next.map_or(0, |next| next.0.as_ptr() as u64);
        self.header().busy_ns.store(address | FREE, Ordering::Relaxed);
    }
}

/// Returns the time that a process has run. It may end at any time, and the time of a free slot is 0.
pub(crate) fn busy_ns(header: &ProcessHeader) -> u64 {
    let busy_ns = header.busy_ns.load(Ordering::Relaxed);
    if busy_ns & FREE == 0 { busy_ns } else { 0 }
}

/// Returns the number of slots that move at a time between the free list of a thread and the shared pool: an 80th of
/// the limit for each of `free_lists` threads, at least 1 and at most [`BATCH`].
///
/// A free list keeps at most five batches. So the free lists of all threads together keep a sixteenth of the limit, if
/// that is some hundreds or more. From a limit of 256 · 80 for each thread on, a batch is large enough to make its lock
/// cheap.
pub(crate) fn batch(limit: usize, free_lists: usize) -> u32 {
    u32::try_from(limit / (80 * free_lists)).unwrap_or(u32::MAX).clamp(1, BATCH)
}

/// All chunks of a runtime.
pub(crate) struct ProcessTable {
    chunks: Box<[AtomicPtr<ProcessHeader>]>,
    /// Largest number of live processes.
    limit: usize,
    /// Number of slots that may be used. The last chunk may be used only in part.
    slots_max: usize,
    len: AtomicUsize,
    growing: Mutex<()>,
    /// Chunks without a tenant. The memory of their bodies was returned to the system.
    decommitted: Mutex<Vec<usize>>,
}

impl ProcessTable {
    /// Creates a table for at least `limit` processes, while `free_lists` threads keep free slots for themselves.
    ///
    /// It has `limit + 5 * free_lists * batch` slots, and there are never more processes than that; see [`batch`].
    pub(crate) fn new(limit: usize, free_lists: usize) -> Self {
        let slots_max = limit + free_lists * BATCHES_KEPT_MAX * batch(limit, free_lists) as usize;
        Self {
            chunks: (0..slots_max.div_ceil(CHUNK_SLOTS - 1)).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            limit,
            slots_max,
            len: AtomicUsize::new(0),
            growing: Mutex::new(()),
            decommitted: Mutex::default(),
        }
    }

    /// Fills an empty free list from the shared pool, a decommitted chunk or a new chunk. At the limit it stays empty.
    ///
    /// The free list receives no more slots than processes may be added to the `live` ones, so a thread that spawns alone
    /// meets the limit exactly. Slots in the free lists of other threads are not counted: processes can exceed the limit
    /// by those.
    pub(crate) fn replenish(
        &self,
        live: u64,
        pool: &SharedPool<Slot>,
        free_list: &FreeList<Slot>,
        owner: impl FnOnce() -> Owner,
    ) {
        let left = (self.limit as u64).saturating_sub(live);
        if left == 0 {
            return;
        }
        if !free_list.refill(pool) {
            let _growing = self.growing.lock();
            // The pool may have been empty only because it was being sorted.
            if !free_list.refill(pool) {
                self.grow(owner, |slot| free_list.push(slot));
            }
        }
        let keep = left.min(4 * u64::from(pool.batch())) as u32;
        if free_list.len() > keep {
            free_list.spill(pool, keep);
        }
    }

    /// Gives the slots of a decommitted chunk, or else of a new one. Returns false at the limit. Only one thread grows
    /// at a time.
    fn grow(&self, owner: impl FnOnce() -> Owner, give: impl FnMut(Slot)) -> bool {
        if let Some(chunk) = self.decommitted.lock().pop() {
            self.chunk_slots(chunk).rev().for_each(give);
            return true;
        }
        let index = self.len.load(Ordering::Relaxed);
        if index == self.chunks.len() {
            return false;
        }
        let first_slot = (index * CHUNK_SLOTS) as u32;
        // SAFETY: the size of the layout is not zero; every process header and the chunk header are written before
        // another thread sees them.
        let base = unsafe {
            let Some(base) = NonNull::new(alloc(CHUNK_LAYOUT)) else { handle_alloc_error(CHUNK_LAYOUT) };
            let base = base.cast::<ProcessHeader>().as_ptr();
            for slot in 0..CHUNK_SLOTS {
                base.add(slot).write(ProcessHeader::free());
            }
            let header = ChunkHeader { owner: owner(), holders: AtomicUsize::new(1), first_slot };
            base.byte_add(BODIES_AT).cast::<ChunkHeader>().write(header);
            base
        };
        self.chunks[index].store(base, Ordering::Release);
        self.len.store(index + 1, Ordering::Release);
        let used = (self.slots_max - index * (CHUNK_SLOTS - 1)).min(CHUNK_SLOTS - 1);
        // Backwards, so that the first slot is taken first.
        self.chunk_slots(index).rev().skip(CHUNK_SLOTS - 1 - used).for_each(give);
        true
    }

    /// Returns the slot of a pid, if the table has grown that far. The caller must check the generation.
    #[inline]
    pub(crate) fn slot(&self, pid: Pid) -> Option<Slot> {
        let (chunk, index) = (pid.slot() as usize / CHUNK_SLOTS, pid.slot() as usize % CHUNK_SLOTS);
        let base = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if base.is_null() || index == 0 || pid.node() != 0 {
            return None;
        }
        // SAFETY: `index` is below `CHUNK_SLOTS`, so the header is inside the chunk, which the table keeps alive.
        Some(Slot(unsafe { NonNull::new_unchecked(base.add(index)) }))
    }

    /// Returns the number of allocated chunks.
    pub(crate) fn chunk_count(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the address and the size of each chunk.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        let address = |chunk: &AtomicPtr<ProcessHeader>| chunk.load(Ordering::Acquire) as usize;
        self.chunks[..self.chunk_count()].iter().map(move |chunk| (address(chunk), CHUNK_BYTES))
    }

    /// Returns the headers of a chunk, with the number of the first one. Header 0 is not a slot.
    pub(crate) fn headers(&self, chunk: usize) -> Option<(u32, &[ProcessHeader])> {
        let base = self.chunks.get(chunk)?.load(Ordering::Acquire);
        if base.is_null() {
            return None;
        }
        // SAFETY: the table keeps the chunk alive; its headers are initialised and change only through atomics.
        Some(((chunk * CHUNK_SLOTS) as u32, unsafe { std::slice::from_raw_parts(base, CHUNK_SLOTS) }))
    }

    /// Prefetches a header that a walk over all headers reaches some lines later: the hardware prefetcher stops at the
    /// end of each page, after 64 headers.
    #[inline]
    pub(crate) fn prefetch(header: &ProcessHeader) {
        const AHEAD: usize = 24;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: this is only a hint, valid for any address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(ptr::from_ref(header).wrapping_add(AHEAD).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (header, AHEAD);
    }

    /// Returns every slot, used or free.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        (0..self.chunk_count()).flat_map(|chunk| self.chunk_slots(chunk))
    }

    fn chunk_slots(&self, chunk: usize) -> impl DoubleEndedIterator<Item = Slot> {
        let base = self.chunks[chunk].load(Ordering::Acquire);
        // SAFETY: inside the chunk, which is allocated and kept alive by the table.
        (1..CHUNK_SLOTS).map(move |index| Slot(unsafe { NonNull::new_unchecked(base.add(index)) }))
    }

    /// Returns the memory of chunks without a tenant to the system: takes all slots out of the shared pool, and puts
    /// back those of chunks in use.
    pub(crate) fn trim(&self, shared_pool: &SharedPool<Slot>) {
        // A thread that finds the pool empty meanwhile waits for this lock.
        let _growing = self.growing.lock();
        let mut by_chunk: Vec<Vec<Slot>> = (0..self.chunk_count()).map(|_| Vec::new()).collect();
        while let Some(batch) = shared_pool.take_batch() {
            for slot in std::iter::successors(Some(batch), |slot| slot.next()) {
                by_chunk[slot.number() as usize / CHUNK_SLOTS].push(slot);
            }
        }
        let free_list = FreeList::new();
        for (chunk, slots) in by_chunk.into_iter().enumerate() {
            // A slot without unused generations is in no free list, so its chunk is never returned.
            if slots.len() == CHUNK_SLOTS - 1 {
                self.decommit_chunk(chunk);
            } else {
                for slot in slots {
                    free_list.push(slot);
                }
            }
        }
        free_list.spill(shared_pool, 0);
    }

    fn decommit_chunk(&self, chunk: usize) {
        // SAFETY: all slots of the chunk were taken out of the free lists, so no thread owns a body here, and a body is
        // written anew for its next tenant.
        unsafe { decommit(self.chunks[chunk].load(Ordering::Acquire)) };
        self.decommitted.lock().push(chunk);
    }

    /// Drops the runtime's references to its chunks: from here on only wakers and handles keep the table alive, without
    /// bodies.
    ///
    /// # Safety
    /// Every gate is closed, and no thread of the runtime is running. Called once.
    pub(crate) unsafe fn release(&self) {
        for chunk in &self.chunks[..self.chunk_count()] {
            if let Some(header) = NonNull::new(chunk.load(Ordering::Acquire)) {
                // SAFETY: the bodies were dropped, and no new ones are created.
                unsafe { decommit(header.as_ptr()) };
                Slot(header).release();
            }
        }
    }
}

impl Drop for ProcessTable {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            if let Some(base) = NonNull::new(*chunk.get_mut()) {
                // SAFETY: chunks keep the runtime with this table alive, so all references to them have been dropped.
                unsafe { dealloc(base.as_ptr().cast(), CHUNK_LAYOUT) };
            }
        }
    }
}

/// Returns the memory of a chunk's bodies to the system. The page of the chunk header stays, and so do the process
/// headers with their generations.
///
/// # Safety
/// No thread owns a body there. Observers read bodies only through atomics for which zero is valid.
unsafe fn decommit(base: *mut ProcessHeader) {
    let from = BODIES_AT + rustix::param::page_size();
    // SAFETY: inside of the chunk, as above.
    let given = unsafe { madvise(base.byte_add(from).cast(), CHUNK_BYTES - from, Advice::LinuxDontNeed) };
    if let Err(error) = given {
        tracing::debug!(%error, "cannot return the memory of a chunk to the system");
    }
}
