//! Free lists of empty objects (process slots, message nodes), one per thread, balanced through a shared pool.
//!
//! ```text
//!   take ◀── FreeList ──▶ push         plain loads and stores
//!              │ ▲
//!        spill ▼ │ refill              one lock for BATCH objects
//!             SharedPool
//! ```
//!
//! Without the pool, a thread that only creates objects would drain its free list, and one that only frees them would
//! flood its own. Free objects are linked through themselves, so a free list allocates nothing.

use std::cell::Cell;

use parking_lot::Mutex;

/// Number of objects that move between a free list and the pool at a time, unless the pool has smaller batches.
pub(crate) const BATCH: u32 = 256;

/// Largest number of batches in a free list: four that [`FreeList::push_balanced`] leaves, or one taken when it was
/// empty.
pub(crate) const BATCHES_KEPT_MAX: usize = 5;

/// An object that can store a link to the next one while it is free.
pub(crate) trait Linked: Copy {
    fn next(self) -> Option<Self>;
    fn set_next(self, next: Option<Self>);
}

/// Free list of one thread.
pub(crate) struct FreeList<T: Linked> {
    first: Cell<Option<T>>,
    len: Cell<u32>,
    /// Largest number of objects that [`push_balanced`](Self::push_balanced) leaves here.
    max: u32,
}

impl<T: Linked> FreeList<T> {
    pub(crate) const fn new() -> Self {
        Self::of(BATCH)
    }

    /// Creates a free list that moves batches of this size to its pool.
    pub(crate) const fn of(batch: u32) -> Self {
        Self { first: Cell::new(None), len: Cell::new(0), max: 4 * batch }
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<T> {
        let object = self.first.get()?;
        self.first.set(object.next());
        self.len.set(self.len.get() - 1);
        Some(object)
    }

    #[inline]
    pub(crate) fn push(&self, object: T) {
        object.set_next(self.first.get());
        self.first.set(Some(object));
        self.len.set(self.len.get() + 1);
    }

    /// Adds an object, and moves a surplus to the pool at once, so that other threads can use it.
    #[inline]
    pub(crate) fn push_balanced(&self, object: T, shared_pool: &SharedPool<T>) {
        self.push(object);
        if self.len.get() > self.max {
            self.spill(shared_pool, self.max / 2);
        }
    }

    /// Takes a batch from the pool, if it has one.
    pub(crate) fn refill(&self, shared_pool: &SharedPool<T>) -> bool {
        let batch = shared_pool.take_batch();
        let mut next = batch;
        while let Some(object) = next {
            next = object.next();
            self.push(object);
        }
        batch.is_some()
    }

    /// Moves a surplus to the pool.
    #[inline]
    pub(crate) fn balance(&self, shared_pool: &SharedPool<T>) {
        if self.len.get() > self.max {
            self.spill(shared_pool, self.max / 2);
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// Moves objects to the pool until `keep` are left.
    #[cold]
    pub(crate) fn spill(&self, shared_pool: &SharedPool<T>, keep: u32) {
        while self.len.get() > keep {
            let mut batch = None;
            let surplus = (self.len.get() - keep).min(shared_pool.batch) as usize;
            for object in std::iter::from_fn(|| self.take()).take(surplus) {
                object.set_next(batch);
                batch = Some(object);
            }
            shared_pool.batches.lock().extend(batch);
        }
    }
}

/// Pool of batches that no thread holds: chains of at most `batch` objects.
pub(crate) struct SharedPool<T> {
    batches: Mutex<Vec<T>>,
    batch: u32,
}

impl<T: Linked> SharedPool<T> {
    /// Creates a pool with chains of at most [`BATCH`] objects.
    pub(crate) const fn new() -> Self {
        Self::of(BATCH)
    }

    /// Creates a pool with chains of at most `batch` objects.
    pub(crate) const fn of(batch: u32) -> Self {
        Self { batches: Mutex::new(Vec::new()), batch }
    }

    /// Returns the length of a full chain.
    pub(crate) const fn batch(&self) -> u32 {
        self.batch
    }

    /// Returns the number of chains in the pool.
    pub(crate) fn batches(&self) -> usize {
        self.batches.lock().len()
    }

    /// Takes one chain out.
    pub(crate) fn take_batch(&self) -> Option<T> {
        self.batches.lock().pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Object<'a>(usize, &'a [Cell<Option<usize>>]);

    impl Linked for Object<'_> {
        fn next(self) -> Option<Self> {
            self.1[self.0].get().map(|next| Self(next, self.1))
        }

        fn set_next(self, next: Option<Self>) {
            self.1[self.0].set(next.map(|object| object.0));
        }
    }

    #[test]
    fn a_spill_keeps_what_it_is_told_to_and_its_chains_are_at_most_a_batch_long() {
        let links = vec![Cell::new(None); 23];
        let (free_list, taker, shared_pool) = (FreeList::of(4), FreeList::of(4), SharedPool::of(4));
        (0..links.len()).for_each(|index| free_list.push(Object(index, &links)));

        free_list.spill(&shared_pool, 5);
        assert_eq!((free_list.len(), shared_pool.batches()), (5, 5));
        while taker.refill(&shared_pool) {
            assert!(taker.len() <= 4);
            while taker.take().is_some() {}
        }
        (0..11).for_each(|index| free_list.push(Object(index, &links)));
        assert_eq!(free_list.len(), 16);
        free_list.push_balanced(Object(11, &links), &shared_pool);

        assert_eq!(free_list.len(), 8);
    }

    #[test]
    fn a_stock_that_only_grows_feeds_one_that_only_shrinks() {
        let links = vec![Cell::new(None); 5 * BATCH as usize];
        let (giver, taker, shared_pool) = (FreeList::new(), FreeList::new(), SharedPool::new());
        for index in 0..links.len() {
            giver.push(Object(index, &links));
        }

        giver.balance(&shared_pool);
        giver.spill(&shared_pool, 0);
        let mut seen: Vec<usize> = Vec::new();
        while taker.refill(&shared_pool) {
            seen.extend(std::iter::from_fn(|| taker.take()).map(|object| object.0));
        }

        seen.sort_unstable();
        assert_eq!(seen, (0..links.len()).collect::<Vec<_>>());
    }
}
