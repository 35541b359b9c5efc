//! Free lists of empty objects (process slots, message nodes), one per thread, balanced through a shared pool.
//!
//! ```text
//!   take ◀── Stock ──▶ give            plain loads and stores
//!              │ ▲
//!        spill ▼ │ refill              one lock for BATCH objects
//!             Depot
//! ```
//!
//! Without the pool, a thread that only creates objects would drain its free list, and one that only frees them would
//! flood its own. Free objects are linked through themselves, so a free list allocates nothing.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// Number of objects that move between a free list and the pool at a time, unless the pool has smaller batches.
pub(crate) const BATCH: u32 = 256;

/// Largest number of batches in a free list: four that [`Stock::keep`] leaves, or one taken when it was empty.
pub(crate) const BATCHES_KEPT_MAX: usize = 5;

/// An object that can store a link to the next one while it is free.
pub(crate) trait Linked: Copy {
    fn next(self) -> Option<Self>;
    fn set_next(self, next: Option<Self>);
}

/// Free list of one thread.
pub(crate) struct Stock<T: Linked> {
    first: Cell<Option<T>>,
    len: Cell<u32>,
    /// Largest number of objects that [`keep`](Self::keep) leaves here.
    most: u32,
}

impl<T: Linked> Stock<T> {
    pub(crate) const fn new() -> Self {
        Self::of(BATCH)
    }

    /// Creates a free list that moves batches of this size to its pool.
    pub(crate) const fn of(batch: u32) -> Self {
        Self { first: Cell::new(None), len: Cell::new(0), most: 4 * batch }
    }

    #[inline]
    pub(crate) fn take(&self) -> Option<T> {
        let thing = self.first.get()?;
        self.first.set(thing.next());
        self.len.set(self.len.get() - 1);
        Some(thing)
    }

    #[inline]
    pub(crate) fn give(&self, thing: T) {
        thing.set_next(self.first.get());
        self.first.set(Some(thing));
        self.len.set(self.len.get() + 1);
    }

    /// Adds an object, and moves a surplus to the pool at once, so that other threads can use it.
    #[inline]
    pub(crate) fn keep(&self, thing: T, depot: &Depot<T>) {
        self.give(thing);
        if self.len.get() > self.most {
            self.spill(depot, self.most / 2);
        }
    }

    /// Takes a batch from the pool, if it has one.
    pub(crate) fn refill(&self, depot: &Depot<T>) -> bool {
        let batch = depot.take_batch();
        let mut next = batch;
        while let Some(thing) = next {
            next = thing.next();
            self.give(thing);
        }
        batch.is_some()
    }

    /// Moves a surplus to the pool.
    #[inline]
    pub(crate) fn balance(&self, depot: &Depot<T>) {
        if self.len.get() > self.most {
            self.spill(depot, self.most / 2);
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.get()
    }

    /// Moves objects to the pool until `keep` are left.
    #[cold]
    pub(crate) fn spill(&self, depot: &Depot<T>, keep: u32) {
        while self.len.get() > keep {
            let mut batch = None;
            let surplus = (self.len.get() - keep).min(depot.batch) as usize;
            for thing in std::iter::from_fn(|| self.take()).take(surplus) {
                thing.set_next(batch);
                batch = Some(thing);
            }
            depot.batches.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        }
    }
}

/// Pool of batches that no thread holds: chains of at most `batch` objects.
pub(crate) struct Depot<T> {
    batches: Mutex<Vec<T>>,
    batch: u32,
}

impl<T: Linked> Depot<T> {
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
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes one chain out.
    pub(crate) fn take_batch(&self) -> Option<T> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Thing<'a>(usize, &'a [Cell<Option<usize>>]);

    impl Linked for Thing<'_> {
        fn next(self) -> Option<Self> {
            self.1[self.0].get().map(|next| Self(next, self.1))
        }

        fn set_next(self, next: Option<Self>) {
            self.1[self.0].set(next.map(|thing| thing.0));
        }
    }

    #[test]
    fn a_spill_keeps_what_it_is_told_to_and_its_chains_are_at_most_a_batch_long() {
        let links = vec![Cell::new(None); 23];
        let (stock, taker, depot) = (Stock::of(4), Stock::of(4), Depot::of(4));
        (0..links.len()).for_each(|index| stock.give(Thing(index, &links)));

        stock.spill(&depot, 5);
        assert_eq!((stock.len(), depot.batches()), (5, 5));
        while taker.refill(&depot) {
            assert!(taker.len() <= 4);
            while taker.take().is_some() {}
        }
        (0..11).for_each(|index| stock.give(Thing(index, &links)));
        assert_eq!(stock.len(), 16);
        stock.keep(Thing(11, &links), &depot);

        assert_eq!(stock.len(), 8);
    }

    #[test]
    fn a_stock_that_only_grows_feeds_one_that_only_shrinks() {
        let links = vec![Cell::new(None); 5 * BATCH as usize];
        let (giver, taker, depot) = (Stock::new(), Stock::new(), Depot::new());
        for index in 0..links.len() {
            giver.give(Thing(index, &links));
        }

        giver.balance(&depot);
        giver.spill(&depot, 0);
        let mut seen: Vec<usize> = Vec::new();
        while taker.refill(&depot) {
            seen.extend(std::iter::from_fn(|| taker.take()).map(|thing| thing.0));
        }

        seen.sort_unstable();
        assert_eq!(seen, (0..links.len()).collect::<Vec<_>>());
    }
}
