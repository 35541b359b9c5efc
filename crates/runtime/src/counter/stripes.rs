//! Striped counts of units: one stripe per scheduler, written by its thread alone, and one shared by all other threads.
//!
//! ```text
//!   update ──▶ stripe: net, operations           own stripe: plain load and store, 2 ns; shared: fetch-and-add
//!   spend  ──▶ stripe: purse = (credit, spent)   one compare-and-swap on an exclusive cache line
//!                │ empty                         under the lock: from the bank, or from the other purses
//!                ▼
//!              bank: units that are in no purse
//! ```
//!
//! A purse is the local credit of a stripe, the bank is the reserve. The units taken in total are `Σ net + Σ spent +
//! moved`. Invariants: `bank + Σ credit + Σ spent + moved` is the budget adjusted by the updates when the bank last
//! accounted for them, so units that do not exist are never spent; and a reader that loads the stripes before `moved`
//! never sees fewer units taken than were taken.

use crossbeam_utils::CachePadded;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Largest credit of a purse, and largest number of spent units before they are moved.
pub(crate) const PURSE_MAX: u64 = 1 << 30;

/// Selects a stripe: that of a scheduler, or the one that all other threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Stripe of the scheduler with this index; only its own thread may use it.
    Own(usize),
    /// Stripe of all other threads.
    Shared,
}

/// Counts of units in stripes, over a budget.
pub(crate) struct Stripes {
    lanes: Box<[CachePadded<Counts>]>,
    /// Spent units that were moved out of the purses.
    moved: AtomicI64,
    bank: Mutex<Bank>,
}

#[derive(Default)]
struct Counts {
    net: AtomicI64,
    operations: AtomicU64,
    /// Credit in the upper half, units spent from it in the lower half.
    purse: AtomicU64,
}

/// Reserve: units that are in no purse.
struct Bank {
    units: i64,
    /// Units taken by updates when the bank last accounted for them.
    updates: i64,
}

#[derive(Clone, Copy)]
struct Purse {
    credit: u64,
    spent: u64,
}

impl Purse {
    const fn of(word: u64) -> Self {
        Self { credit: word >> 32, spent: word & 0xffff_ffff }
    }

    const fn word(self) -> u64 {
        self.credit << 32 | self.spent
    }
}

impl Counts {
    /// Changes the purse; returns false if `change` returns `None`.
    #[inline]
    fn purse(&self, change: impl Fn(Purse) -> Option<Purse>) -> bool {
        let change = |word| change(Purse::of(word)).map(Purse::word);
        // Release: a reader that no longer sees spent units in the purse sees them in `moved`.
        self.purse.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change).is_ok()
    }

    /// Removes all credit and returns it.
    fn empty(&self) -> i64 {
        let word = self.purse.fetch_and(0xffff_ffff, Ordering::AcqRel);
        (word >> 32).cast_signed()
    }
}

impl Stripes {
    /// Creates stripes for `schedulers` schedulers and for all other threads, over a budget.
    pub(crate) fn new(schedulers: usize, budget: i64) -> Self {
        Self {
            lanes: (0..=schedulers).map(|_| CachePadded::default()).collect(),
            moved: AtomicI64::new(0),
            bank: Mutex::new(Bank { units: budget, updates: 0 }),
        }
    }

    /// Returns the number of stripes, including the shared one.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    #[inline]
    fn counts(&self, lane: Lane) -> &Counts {
        match lane {
            Lane::Own(scheduler) => &self.lanes[scheduler],
            Lane::Shared => &self.lanes[self.lanes.len() - 1],
        }
    }

    /// Takes units unconditionally; negative units are given.
    #[inline]
    pub(crate) fn update(&self, lane: Lane, units: i64) {
        let counts = self.counts(lane);
        match lane {
            // Relaxed: only one thread writes here. The count of operations is stored last, so its readers see the
            // units.
            Lane::Own(_) => {
                let net = counts.net.load(Ordering::Relaxed);
                counts.net.store(net.wrapping_add(units), Ordering::Relaxed);
            }
            Lane::Shared => {
                counts.net.fetch_add(units, Ordering::Relaxed);
            }
        }
        counted(counts, lane);
    }

    /// Takes units if they are available; returns false otherwise.
    #[inline]
    pub(crate) fn spend(&self, lane: Lane, units: u64) -> bool {
        let counts = self.counts(lane);
        let spent = counts.purse(|purse| {
            (purse.credit >= units && purse.spent + units <= PURSE_MAX)
                .then(|| Purse { credit: purse.credit - units, spent: purse.spent + units })
        });
        if spent || self.spend_slowly(counts, units) {
            counted(counts, lane);
            return true;
        }
        false
    }

    /// Gives units back, at most as many as were spent; returns their number.
    #[inline]
    pub(crate) fn refund(&self, lane: Lane, units: u64) -> u64 {
        let counts = self.counts(lane);
        let back = counts.purse(|purse| {
            (purse.spent >= units && purse.credit + units <= PURSE_MAX)
                .then(|| Purse { credit: purse.credit + units, spent: purse.spent - units })
        });
        let units = if back { units } else { self.refund_slowly(units) };
        counted(counts, lane);
        units
    }

    #[cold]
    fn spend_slowly(&self, counts: &Counts, units: u64) -> bool {
        let Ok(wanted) = i64::try_from(units) else { return false };
        let mut bank = self.bank.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.look_at_updates(&mut bank);
        if bank.units < wanted {
            bank.units += self.lanes.iter().map(|counts| counts.empty()).sum::<i64>();
        }
        if bank.units < wanted {
            return false;
        }
        if units > PURSE_MAX / 2 {
            self.moved.fetch_add(wanted, Ordering::Release);
            bank.units -= wanted;
            return true;
        }
        self.move_spent(counts);
        // Takes only a share, so that other stripes find units too.
        let share = (bank.units / (2 * self.lanes.len().cast_signed() as i64)).clamp(0, (PURSE_MAX / 2).cast_signed());
        let filled = share.max(wanted);
        bank.units -= filled;
        let more = filled.cast_unsigned() - units;
        let put = counts.purse(|purse| {
            // Concurrent refunds may have added credit, which leaves less room; a shared stripe may have spent again.
            Some(Purse { credit: purse.credit + more, spent: purse.spent + units })
        });
        debug_assert!(put, "a purse always has room for half of its maximum");
        true
    }

    #[cold]
    fn refund_slowly(&self, units: u64) -> u64 {
        let mut bank = self.bank.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for counts in &self.lanes {
            self.move_spent(counts);
        }
        // `moved` decreases only under the lock.
        let returned = i64::try_from(units).unwrap_or(i64::MAX).min(self.moved.load(Ordering::Relaxed));
        self.moved.fetch_sub(returned, Ordering::Relaxed);
        bank.units += returned;
        returned.cast_unsigned()
    }

    /// Moves the spent units out of a purse, so that they do not count against its size. They are added to `moved`
    /// before they are removed: a reader of the purse and then of `moved` may count them twice, but never misses them.
    fn move_spent(&self, counts: &Counts) {
        loop {
            let word = counts.purse.load(Ordering::Relaxed);
            let purse = Purse::of(word);
            self.moved.fetch_add(purse.spent.cast_signed(), Ordering::Release);
            let without = Purse { spent: 0, ..purse }.word();
            if counts.purse.compare_exchange(word, without, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
            // The purse was changed concurrently: undo and retry.
            self.moved.fetch_sub(purse.spent.cast_signed(), Ordering::Relaxed);
        }
    }

    /// Deducts the units that updates have taken from the bank.
    fn look_at_updates(&self, bank: &mut Bank) {
        let updates = self.lanes.iter().fold(0, |sum, counts| counts.net.load(Ordering::Relaxed).wrapping_add(sum));
        bank.units = bank.units.wrapping_sub(updates.wrapping_sub(bank.updates));
        bank.updates = updates;
    }

    /// Returns the units taken in total. While units are moved it may be too high, but never too low.
    #[inline]
    pub(crate) fn taken(&self) -> i64 {
        let lane = |counts: &CachePadded<Counts>| {
            let spent = Purse::of(counts.purse.load(Ordering::Acquire)).spent;
            counts.net.load(Ordering::Relaxed).wrapping_add(spent.cast_signed())
        };
        let lanes = self.lanes.iter().fold(0_i64, |sum, counts| sum.wrapping_add(lane(counts)));
        lanes.wrapping_add(self.moved.load(Ordering::Relaxed))
    }

    /// Returns the number of operations and the least units they took; exact once no operation adds to them.
    pub(crate) fn settled(&self) -> (u64, i64) {
        let _nothing_moves = self.bank.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let operations = self.lanes.iter().map(|counts| counts.operations.load(Ordering::Acquire)).sum();
        (operations, self.taken())
    }
}

#[inline]
fn counted(counts: &Counts, lane: Lane) {
    match lane {
        Lane::Own(_) => {
            counts.operations.store(counts.operations.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        }
        Lane::Shared => {
            counts.operations.fetch_add(1, Ordering::Release);
        }
    }
}
