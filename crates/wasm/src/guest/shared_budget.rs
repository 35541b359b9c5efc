//! Budgets that all guests of an engine share: the memory of their linear memories, streams and timers, and the rate at
//! which their repeating timers fire.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thiserror::Error;

use crate::bindings::rusm::runtime::types;

/// The bound, and what is taken of it.
#[derive(Debug)]
pub(crate) struct SharedBudget {
    taken: AtomicU64,
    max: u64,
}

/// Error of a request for memory that would exceed the bound.
#[derive(Clone, Copy, Debug, Error)]
#[error("all guests together may have at most {max_bytes} bytes of memory")]
pub(crate) struct MemoryFull {
    pub(crate) max_bytes: u64,
}

impl From<MemoryFull> for types::Error {
    #[cold]
    fn from(full: MemoryFull) -> Self {
        Self::Limit(full.to_string())
    }
}

/// A part of a budget, until it is dropped.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<SharedBudget>,
    amount: u64,
}

impl SharedBudget {
    /// Returns `None` without a bound: then nothing is counted.
    pub(crate) fn new(max: u64) -> Option<Arc<Self>> {
        (max < u64::MAX).then(|| Arc::new(Self::bounded(max)))
    }

    pub(crate) const fn bounded(max: u64) -> Self {
        Self { taken: AtomicU64::new(0), max }
    }

    /// Returns the error for a request that exceeds the bound of the memory.
    pub(crate) const fn full(&self) -> MemoryFull {
        MemoryFull { max_bytes: self.max }
    }

    /// Returns a share, if there is room for it.
    pub(crate) fn take(self: &Arc<Self>, amount: u64) -> Option<BudgetShare> {
        let mut share = BudgetShare { budget: Arc::clone(self), amount: 0 };
        share.resize(amount).then_some(share)
    }
}

impl BudgetShare {
    /// Changes the size of the share. Returns false, and leaves the share as it is, if the bound would be exceeded.
    pub(crate) fn resize(&mut self, amount: u64) -> bool {
        // Relaxed: only the sum matters.
        let taken = &self.budget.taken;
        if let Some(more) = amount.checked_sub(self.amount) {
            let before = taken.fetch_add(more, Relaxed);
            if before.saturating_add(more) > self.budget.max && more > 0 {
                taken.fetch_sub(more, Relaxed);
                return false;
            }
        } else {
            taken.fetch_sub(self.amount - amount, Relaxed);
        }
        self.amount = amount;
        true
    }

    /// Leaves the share taken for as long as the budget exists.
    pub(crate) fn keep(mut self) {
        self.amount = 0;
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_one_bound_and_are_given_back() {
        let memory = SharedBudget::new(100).expect("a bound");
        let mut one = memory.take(60).expect("there is room");

        assert!(memory.take(41).is_none());
        assert!(!one.resize(101) && one.resize(30));
        let other = memory.take(70).expect("there is room");
        assert!(!one.resize(31));
        drop(other);
        assert!(one.resize(100));
        drop(one);
        assert_eq!(memory.taken.load(Relaxed), 0);
        assert!(SharedBudget::new(u64::MAX).is_none());
    }
}
