//! Stocks of empty things (process slots, message nodes), one per thread, balanced through a shared depot.
//!
//! ```text
//!   take ◀── Stock ──▶ give            plain loads and stores
//!              │ ▲
//!        spill ▼ │ refill              one lock for BATCH things
//!             Depot
//! ```
//!
//! Without the depot a thread that only makes things and one that only ends them would drain one stock and flood the
//! other. Things are linked through themselves, so a stock allocates nothing.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

/// Things that move between a stock and the depot at a time.
pub(crate) const BATCH: u32 = 256;

/// The most things that a stock keeps between two calls of [`Stock::balance`], give or take a slice.
pub(crate) const KEPT_MAX: usize = 5 * BATCH as usize;

/// A thing that can name the next one while nobody uses it.
pub(crate) trait Linked: Copy {
    fn next(self) -> Option<Self>;
    fn set_next(self, next: Option<Self>);
}

/// One thread's stock.
pub(crate) struct Stock<T: Linked> {
    first: Cell<Option<T>>,
    len: Cell<u32>,
}

impl<T: Linked> Stock<T> {
    pub(crate) const fn new() -> Self {
        Self { first: Cell::new(None), len: Cell::new(0) }
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

    /// Takes a batch from the depot, if it has one.
    pub(crate) fn refill(&self, depot: &Depot<T>) -> bool {
        let batch = depot.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut next = batch;
        while let Some(thing) = next {
            next = thing.next();
            self.give(thing);
        }
        batch.is_some()
    }

    /// Hands surplus things to the depot, which drops none.
    #[inline]
    pub(crate) fn balance(&self, depot: &Depot<T>) {
        if self.len.get() > 4 * BATCH {
            self.spill(depot, 2 * BATCH);
        }
    }

    /// Hands things to the depot until `keep` are left.
    #[cold]
    pub(crate) fn spill(&self, depot: &Depot<T>, keep: u32) {
        while self.len.get() > keep {
            let mut batch = None;
            for thing in std::iter::from_fn(|| self.take()).take(BATCH as usize) {
                thing.set_next(batch);
                batch = Some(thing);
            }
            depot.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        }
    }
}

/// Chains of at most [`BATCH`] things that no thread holds.
pub(crate) struct Depot<T>(Mutex<Vec<T>>);

impl<T: Linked> Depot<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Chains in the depot.
    pub(crate) fn batches(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Takes one chain out.
    pub(crate) fn take_batch(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
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
