//! Message nodes, their pools, and the part of a mailbox that only its owner accesses.
//!
//! ```text
//!   sender: pool ─▶ node ─▶ gate (newest first, lock-free)
//!   owner:                  gate ─▶ Backlog (oldest first) ─▶ message, node ─▶ pool
//! ```
//!
//! A node stores the generation of its receiver. If a slow sender pushes a message just when the slot is reused, the
//! new process in the slot drops the message and never reads it.

#![expect(unsafe_code, reason = "links pooled nodes by raw pointers; each block states the owner of the node")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use crate::mailbox::message::Message;
use crate::process::free_list::{FreeList, Linked, SharedPool};
use crate::runtime::panics;

/// Maximum number of batches in the shared pool (16 MiB); nodes beyond it are freed.
const SHARED_POOL_BATCHES_MAX: usize = 1024;

/// A message in a queue; one cache line.
#[repr(C, align(64))]
pub(crate) struct Node {
    next: *mut Self,
    generation: u32,
    /// Heap bytes of the message, saturating.
    heap: u32,
    /// Initialised by `EmptyNode::fill` or `message_envelope`, until the envelope is opened or dropped.
    message: ManuallyDrop<Message>,
}

/// Bytes of memory that a waiting message takes in addition to the heap bytes of its value.
pub(crate) const NODE_BYTES: usize = size_of::<Node>();

/// Envelope: an owned node that holds a message.
pub(crate) struct Envelope(NonNull<Node>);

// SAFETY: an envelope owns its node, and messages are `Send`.
unsafe impl Send for Envelope {}

impl Envelope {
    /// Returns the address of the node, for [`Gate::push`](crate::mailbox::gate::Gate::push).
    pub(crate) fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// Returns the name of the type of the message.
    pub(crate) fn type_name(&self) -> &'static str {
        // SAFETY: an envelope owns its node, which holds a message.
        unsafe { &(*self.0.as_ptr()).message }.type_name()
    }

    /// Returns the message.
    pub(crate) fn message(&self) -> &Message {
        // SAFETY: an envelope owns its node, which holds a message.
        unsafe { &(*self.0.as_ptr()).message }
    }

    /// Returns true if the message carries a `T`.
    #[inline]
    pub(crate) fn is<T: 'static>(&self) -> bool {
        // SAFETY: an envelope owns its node, which holds a message.
        unsafe { &(*self.0.as_ptr()).message }.is::<T>()
    }

    pub(crate) fn heap(&self) -> u32 {
        // SAFETY: an envelope owns its node.
        unsafe { (*self.0.as_ptr()).heap }
    }

    /// Writes the link to the next older message.
    pub(crate) fn link(&self, newest: u64) {
        // SAFETY: an envelope owns its node; other threads cannot see the node before the push succeeds.
        unsafe { (*self.0.as_ptr()).next = newest as *mut Node }
    }

    /// Gives up the node, which the gate owns now.
    pub(crate) fn leak(self) {
        std::mem::forget(self);
    }

    /// Takes the message out and frees the node.
    pub(crate) fn into_message(self) -> Message {
        self.open(&NodePool::new())
    }

    /// Takes the message out and returns the node to `pool`.
    #[inline]
    pub(crate) fn open(self, pool: &NodePool) -> Message {
        let node = ManuallyDrop::new(self).0;
        // SAFETY: an envelope owns its node, which holds a message; the node is empty afterwards and goes to the pool.
        unsafe {
            let message = ManuallyDrop::take(&mut (*node.as_ptr()).message);
            pool.0.push(EmptyNode(node));
            message
        }
    }

    /// Takes the value out as a `T` and returns the node to `pool`.
    ///
    /// # Safety
    /// The message carries a `T`.
    #[inline]
    pub(crate) unsafe fn open_as<T: 'static>(self, pool: &NodePool) -> T {
        let node = ManuallyDrop::new(self).0;
        // SAFETY: as in `open`; the caller guarantees that the message carries a `T`.
        unsafe {
            let value = Message::read_from((&raw const (*node.as_ptr()).message).cast());
            pool.0.push(EmptyNode(node));
            value
        }
    }
}

impl Drop for Envelope {
    fn drop(&mut self) {
        // SAFETY: an envelope owns its node, and the message in it is initialised. Free the node first, because the
        // drop of the message may panic.
        let message = unsafe {
            let message = ManuallyDrop::take(&mut (*self.0.as_ptr()).message);
            EmptyNode(self.0).free();
            message
        };
        drop(message);
    }
}

/// An owned node without a message.
#[derive(Clone, Copy)]
pub(crate) struct EmptyNode(NonNull<Node>);

// SAFETY: an empty node is owned and not bound to a thread.
unsafe impl Send for EmptyNode {}

impl Linked for EmptyNode {
    #[inline]
    fn next(self) -> Option<Self> {
        // SAFETY: an empty node owns its node; `set_next` wrote the link.
        NonNull::new(unsafe { (*self.0.as_ptr()).next }).map(Self)
    }

    #[inline]
    fn set_next(self, next: Option<Self>) {
        // SAFETY: an empty node owns its node.
        unsafe { (*self.0.as_ptr()).next = next.map_or(ptr::null_mut(), |next| next.0.as_ptr()) }
    }
}

impl EmptyNode {
    fn allocate() -> Self {
        let layout = Layout::new::<Node>();
        // SAFETY: the layout is not of size zero.
        let node = NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        Self(node.cast())
    }

    fn free(self) {
        // SAFETY: an empty node owns its node, which `allocate` allocated with this layout.
        unsafe { dealloc(self.0.as_ptr().cast(), Layout::new::<Node>()) }
    }

    #[inline]
    fn fill<T: Send + 'static>(self, generation: u32, value: T) -> Envelope {
        let node = self.0.as_ptr();
        // SAFETY: an empty node owns its node; the message is written before it is read.
        unsafe {
            Message::write_to((&raw mut (*node).message).cast::<Message>(), value);
            (*node).generation = generation;
            (*node).heap = u32::try_from((*node).message.heap_bytes()).unwrap_or(u32::MAX);
        }
        Envelope(self.0)
    }
}

/// Empty nodes that all threads share.
pub(crate) type SharedNodePool = SharedPool<EmptyNode>;

/// Free list of empty nodes of one thread.
pub(crate) struct NodePool(FreeList<EmptyNode>);

impl NodePool {
    pub(crate) const fn new() -> Self {
        Self(FreeList::new())
    }

    /// Creates an envelope with `value` for the process with this `generation`.
    #[inline]
    pub(crate) fn envelope<T: Send + 'static>(
        &self,
        shared_pool: &SharedNodePool,
        generation: u32,
        value: T,
    ) -> Envelope {
        let empty = self.0.take().unwrap_or_else(|| self.replenish(shared_pool));
        empty.fill(generation, value)
    }

    #[cold]
    fn replenish(&self, shared_pool: &SharedNodePool) -> EmptyNode {
        if !self.0.refill(shared_pool) {
            for _ in 0..32 {
                self.0.push(EmptyNode::allocate());
            }
        }
        self.0.take().unwrap_or_else(EmptyNode::allocate)
    }

    /// Moves surplus nodes to the shared pool; [`trim`](Self::trim) frees what that does not need.
    #[inline]
    pub(crate) fn balance(&self, shared_pool: &SharedNodePool) {
        self.0.balance(shared_pool);
    }

    /// Frees the nodes of the shared pool beyond its limit.
    pub(crate) fn trim(shared_pool: &SharedNodePool) {
        while shared_pool.batches() > SHARED_POOL_BATCHES_MAX {
            free_chain(shared_pool.take_batch());
        }
    }

    /// Frees all nodes of the shared pool.
    pub(crate) fn clear(shared_pool: &SharedNodePool) {
        while let Some(chain) = shared_pool.take_batch() {
            free_chain(Some(chain));
        }
    }
}

impl Drop for NodePool {
    fn drop(&mut self) {
        while let Some(empty) = self.0.take() {
            empty.free();
        }
    }
}

fn free_chain(mut next: Option<EmptyNode>) {
    while let Some(empty) = next {
        next = empty.next();
        empty.free();
    }
}

/// Creates an envelope on a thread without a pool.
pub(crate) fn unpooled_envelope<T: Send + 'static>(generation: u32, value: T) -> Envelope {
    EmptyNode::allocate().fill(generation, value)
}

/// Creates an envelope for a message that exists already.
pub(crate) fn message_envelope(generation: u32, message: Message) -> Envelope {
    let node = EmptyNode::allocate().0;
    // SAFETY: an empty node owns its node; all fields but the link are written before they are read.
    unsafe {
        (*node.as_ptr()).heap = u32::try_from(message.heap_bytes()).unwrap_or(u32::MAX);
        (*node.as_ptr()).generation = generation;
        (&raw mut (*node.as_ptr()).message).write(ManuallyDrop::new(message));
    }
    Envelope(node)
}

/// Messages that a process has taken from its gate but not received, oldest first.
#[derive(Clone, Copy)]
pub(crate) struct Backlog {
    first: *mut Node,
    last: *mut Node,
}

/// A position between two messages of a backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(*mut Node);

// SAFETY: only the owner of a backlog follows its cursors, after a check that nothing was removed since.
unsafe impl Send for Cursor {}

impl Cursor {
    pub(crate) const START: Self = Self(ptr::null_mut());
}

impl Backlog {
    pub(crate) const EMPTY: Self = Self { first: ptr::null_mut(), last: ptr::null_mut() };

    /// Appends the chain that a gate returned, newest first, and drops messages for another `generation`.
    ///
    /// Returns the number of messages appended, and the heap bytes of the messages dropped.
    ///
    /// # Safety
    /// `newest` is 0 or heads an owned chain of envelopes, as [`Gate`](crate::mailbox::gate::Gate) returns it to the
    /// owner.
    #[inline]
    pub(crate) unsafe fn append(&mut self, newest: u64, generation: u32) -> (u32, u32) {
        let last = newest as *mut Node;
        let mut node = last;
        let mut first: *mut Node = ptr::null_mut();
        let (mut count, mut has_stale) = (0, false);
        while !node.is_null() {
            // SAFETY: the caller passes an owned chain.
            unsafe {
                let older = (*node).next;
                (*node).next = first;
                has_stale |= (*node).generation != generation;
                first = node;
                node = older;
            }
            count += 1;
        }
        if first.is_null() {
            return (0, 0);
        }
        if self.first.is_null() {
            self.first = first;
        } else {
            // SAFETY: a non-empty backlog owns its last node.
            unsafe { (*self.last).next = first };
        }
        self.last = last;
        if !has_stale {
            return (count, 0);
        }
        let (dropped, heap) = self.drop_stale(generation);
        (count - dropped, heap)
    }

    #[cold]
    fn drop_stale(&mut self, generation: u32) -> (u32, u32) {
        let all = std::mem::replace(self, Self::EMPTY);
        let (mut node, mut dropped, mut heap) = (all.first, 0, 0_u32);
        while let Some(owned) = NonNull::new(node) {
            // SAFETY: the old backlog owned the chain; each node is either moved to the new backlog or dropped.
            unsafe {
                node = (*node).next;
                if (*owned.as_ptr()).generation == generation {
                    (*owned.as_ptr()).next = ptr::null_mut();
                    if self.first.is_null() {
                        self.first = owned.as_ptr();
                    } else {
                        (*self.last).next = owned.as_ptr();
                    }
                    self.last = owned.as_ptr();
                } else {
                    heap = heap.wrapping_add((*owned.as_ptr()).heap);
                    panics::contain(|| drop(Envelope(owned)));
                    dropped += 1;
                }
            }
        }
        (dropped, heap)
    }

    /// Appends an envelope for the owner.
    #[inline]
    pub(crate) fn push(&mut self, envelope: Envelope) {
        envelope.link(0);
        let node = ManuallyDrop::new(envelope).0.as_ptr();
        if self.first.is_null() {
            self.first = node;
        } else {
            // SAFETY: a non-empty backlog owns its last node.
            unsafe { (*self.last).next = node };
        }
        self.last = node;
    }

    /// Returns this backlog followed by `newer`.
    pub(crate) fn followed_by(self, newer: Self) -> Self {
        if self.first.is_null() {
            return newer;
        }
        if newer.first.is_null() {
            return self;
        }
        // SAFETY: a non-empty backlog owns its last node.
        unsafe { (*self.last).next = newer.first };
        Self { first: self.first, last: newer.last }
    }

    /// Returns the position after the newest message. It stays valid until a message is removed.
    pub(crate) fn end(&self) -> Cursor {
        // `last` is valid only while `first` is not null.
        if self.first.is_null() { Cursor::START } else { Cursor(self.last) }
    }

    /// Calls `each` with the oldest messages, at most `limit`.
    pub(crate) fn peek(&self, limit: usize, each: &mut dyn FnMut(&Message)) {
        let mut node = self.first;
        for _ in 0..limit {
            // SAFETY: the backlog owns its nodes, all of which hold messages.
            let Some(waiting) = (unsafe { node.as_ref() }) else { return };
            each(&waiting.message);
            node = waiting.next;
        }
    }

    /// Returns the heap bytes of all messages, modulo 2^32, or `None` without messages.
    pub(crate) fn heap_bytes(&self) -> Option<u32> {
        let mut node = NonNull::new(self.first)?.as_ptr();
        let mut heap = 0_u32;
        // SAFETY: the backlog owns its nodes.
        while let Some(waiting) = unsafe { node.as_ref() } {
            heap = heap.wrapping_add(waiting.heap);
            node = waiting.next;
        }
        Some(heap)
    }

    /// Returns a reference to the oldest message.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Message> {
        // SAFETY: the backlog owns its nodes, all of which hold messages.
        unsafe { self.first.as_ref() }.map(|node| &*node.message)
    }

    /// Takes the oldest message.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Envelope> {
        let node = NonNull::new(self.first)?;
        // SAFETY: the backlog owns its nodes.
        self.first = unsafe { (*node.as_ptr()).next };
        Some(Envelope(node))
    }

    /// Takes the first message after `cursor` that `wanted` accepts, and moves the cursor past the messages it rejects.
    ///
    /// The cursor must be [`Cursor::START`], or come from this backlog with nothing removed since.
    pub(crate) fn take_match(
        &mut self,
        cursor: &mut Cursor,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Option<Envelope> {
        let mut before = cursor.0;
        // SAFETY: the backlog owns its nodes, all of which hold messages; a valid cursor points to one of them.
        unsafe {
            let mut node = if before.is_null() { self.first } else { (*before).next };
            while let Some(owned) = NonNull::new(node) {
                if wanted(&(*node).message) {
                    let after = (*node).next;
                    if before.is_null() {
                        self.first = after;
                    } else {
                        (*before).next = after;
                    }
                    if after.is_null() {
                        self.last = before;
                    }
                    cursor.0 = before;
                    return Some(Envelope(owned));
                }
                before = node;
                node = (*node).next;
            }
        }
        cursor.0 = before;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(backlog: &mut Backlog, pool: &NodePool) -> Vec<u32> {
        std::iter::from_fn(|| backlog.pop()).map(|envelope| envelope.open(pool).downcast().unwrap()).collect()
    }

    fn filled(generations: &[u32]) -> (Backlog, NodePool, u32) {
        let (pool, shared_pool) = (NodePool::new(), SharedNodePool::new());
        let mut newest = 0;
        for (value, generation) in (0_u32..).zip(generations) {
            let envelope = pool.envelope(&shared_pool, *generation, value);
            envelope.link(newest);
            newest = envelope.address();
            envelope.leak();
        }
        let mut backlog = Backlog::EMPTY;
        // SAFETY: the chain is linked as a gate links it.
        let (count, _) = unsafe { backlog.append(newest, 1) };
        (backlog, pool, count)
    }

    #[test]
    fn messages_come_out_in_the_order_they_were_pushed() {
        let (mut backlog, pool, count) = filled(&[1; 5]);

        assert_eq!((count, drain(&mut backlog, &pool)), (5, vec![0, 1, 2, 3, 4]));
    }

    #[test]
    fn a_message_for_an_earlier_tenant_is_dropped() {
        let (mut backlog, pool, count) = filled(&[1, 0, 1, 0]);

        assert_eq!((count, drain(&mut backlog, &pool)), (2, vec![0, 2]));
    }

    #[test]
    fn a_match_leaves_the_others_in_order() {
        let (mut backlog, pool, _) = filled(&[1; 4]);
        let mut cursor = Cursor::START;

        let third = backlog.take_match(&mut cursor, &mut |message| message.downcast_ref() == Some(&2_u32)).unwrap();
        let last = backlog.take_match(&mut cursor, &mut |message| message.downcast_ref() == Some(&3_u32)).unwrap();

        assert_eq!(third.open(&pool).downcast::<u32>().unwrap(), 2);
        assert_eq!(last.open(&pool).downcast::<u32>().unwrap(), 3);
        assert_eq!(drain(&mut backlog, &pool), [0, 1]);
    }
}
