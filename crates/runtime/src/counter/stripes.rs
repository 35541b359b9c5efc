//! Striped counts of units: one stripe per scheduler, written by its thread alone, and one shared by all other threads.
//!
//! ```text
//!   update ──▶ stripe: net, operations           own stripe: plain load and store, 2 ns; shared: fetch-and-add
//!   spend  ──▶ stripe: local credit = (credit, spent)   one compare-and-swap on an exclusive cache line
//!                │ empty                         under the lock: from the reserve, or from the other local credits
//!                ▼
//!              reserve: units that are in no local credit
//! ```
//!
//! Each stripe has a local credit. The units taken in total are `Σ net + Σ spent + moved_spent`. Invariants:
//! `reserve + Σ credit + Σ spent + moved_spent` is the budget adjusted by the updates when the reserve last accounted
//! for them, so units that do not exist are never spent; and a reader that loads the stripes before `moved_spent` never
//! misses units that are moved.

use crossbeam_utils::CachePadded;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Largest local credit, and largest number of spent units before they are moved.
pub(crate) const CREDIT_MAX: u64 = 1 << 30;

/// Selects a stripe: that of a scheduler, or the one that all other threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stripe {
    /// Stripe of the scheduler with this index; only its own thread may use it.
    Own(usize),
    /// Stripe of all other threads.
    Shared,
}

/// Counts of units in stripes, over a budget.
pub(crate) struct Stripes {
    counts: Box<[CachePadded<StripeCounts>]>,
    /// Spent units that were moved out of the local credits.
    moved_spent: AtomicI64,
    reserve: Mutex<Reserve>,
}

#[derive(Default)]
struct StripeCounts {
    net: AtomicI64,
    operations: AtomicU64,
    /// Credit in the upper half, units spent from it in the lower half.
    credit_word: AtomicU64,
}

/// Reserve: units that are in no local credit.
struct Reserve {
    units: i64,
    /// Units taken by updates when the reserve last accounted for them.
    updates: i64,
}

#[derive(Clone, Copy)]
struct LocalCredit {
    credit: u64,
    spent: u64,
}

impl LocalCredit {
    const fn of(word: u64) -> Self {
        Self { credit: word >> 32, spent: word & 0xffff_ffff }
    }

    const fn word(self) -> u64 {
        self.credit << 32 | self.spent
    }
}

impl StripeCounts {
    /// Changes the local credit; returns false if `change` returns `None`.
    #[inline]
    fn update_credit(&self, change: impl Fn(LocalCredit) -> Option<LocalCredit>) -> bool {
        let change = |word| change(LocalCredit::of(word)).map(LocalCredit::word);
        // Release: a reader that no longer sees spent units in the local credit sees them in `moved_spent`.
        self.credit_word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change).is_ok()
    }

    /// Removes all credit and returns it.
    fn take_credit(&self) -> i64 {
        let word = self.credit_word.fetch_and(0xffff_ffff, Ordering::AcqRel);
        (word >> 32).cast_signed()
    }
}

impl Stripes {
    /// Creates stripes for `schedulers` schedulers and for all other threads, over a budget.
    pub(crate) fn new(schedulers: usize, budget: i64) -> Self {
        Self {
            counts: (0..=schedulers).map(|_| CachePadded::default()).collect(),
            moved_spent: AtomicI64::new(0),
            reserve: Mutex::new(Reserve { units: budget, updates: 0 }),
        }
    }

    /// Returns the number of stripes, including the shared one.
    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    #[inline]
    fn counts(&self, stripe: Stripe) -> &StripeCounts {
        match stripe {
            Stripe::Own(scheduler) => &self.counts[scheduler],
            Stripe::Shared => &self.counts[self.counts.len() - 1],
        }
    }

    /// Takes units unconditionally; negative units are given.
    #[inline]
    pub(crate) fn update(&self, stripe: Stripe, units: i64) {
        let counts = self.counts(stripe);
        match stripe {
            // Relaxed: only one thread writes here. The count of operations is stored last, so its readers see the
            // units.
            Stripe::Own(_) => {
                let net = counts.net.load(Ordering::Relaxed);
                counts.net.store(net.wrapping_add(units), Ordering::Relaxed);
            }
            Stripe::Shared => {
                counts.net.fetch_add(units, Ordering::Relaxed);
            }
        }
        count_operation(counts, stripe);
    }

    /// Takes units if they are available; returns false otherwise.
    #[inline]
    pub(crate) fn spend(&self, stripe: Stripe, units: u64) -> bool {
        let counts = self.counts(stripe);
        let spent = counts.update_credit(|local| {
            (local.credit >= units && local.spent + units <= CREDIT_MAX)
                .then(|| LocalCredit { credit: local.credit - units, spent: local.spent + units })
        });
        if spent || self.spend_from_reserve(counts, units) {
            count_operation(counts, stripe);
            return true;
        }
        false
    }

    /// Gives units back, at most as many as were spent; returns their number.
    #[inline]
    pub(crate) fn refund(&self, stripe: Stripe, units: u64) -> u64 {
        let counts = self.counts(stripe);
        let back = counts.update_credit(|local| {
            (local.spent >= units && local.credit + units <= CREDIT_MAX)
                .then(|| LocalCredit { credit: local.credit + units, spent: local.spent - units })
        });
        let units = if back { units } else { self.refund_to_reserve(units) };
        count_operation(counts, stripe);
        units
    }

    #[cold]
    fn spend_from_reserve(&self, counts: &StripeCounts, units: u64) -> bool {
        let Ok(wanted) = i64::try_from(units) else { return false };
        let mut reserve = self.reserve.lock();
        self.deduct_updates(&mut reserve);
        if reserve.units < wanted {
            reserve.units += self.counts.iter().map(|counts| counts.take_credit()).sum::<i64>();
        }
        if reserve.units < wanted {
            return false;
        }
        if units > CREDIT_MAX / 2 {
            self.moved_spent.fetch_add(wanted, Ordering::Release);
            reserve.units -= wanted;
            return true;
        }
        self.move_spent(counts);
        // Takes only a share, so that other stripes find units too.
        let share =
            (reserve.units / (2 * self.counts.len().cast_signed() as i64)).clamp(0, (CREDIT_MAX / 2).cast_signed());
        let filled = share.max(wanted);
        reserve.units -= filled;
        let more = filled.cast_unsigned() - units;
        let put = counts.update_credit(|local| {
            // Concurrent refunds may have added credit, which leaves less room; a shared stripe may have spent again.
            Some(LocalCredit { credit: local.credit + more, spent: local.spent + units })
        });
        debug_assert!(put, "a local credit always has room for half of its maximum");
        true
    }

    #[cold]
    fn refund_to_reserve(&self, units: u64) -> u64 {
        let mut reserve = self.reserve.lock();
        for counts in &self.counts {
            self.move_spent(counts);
        }
        // `moved_spent` decreases only under the lock.
        let returned = i64::try_from(units).unwrap_or(i64::MAX).min(self.moved_spent.load(Ordering::Relaxed));
        self.moved_spent.fetch_sub(returned, Ordering::Relaxed);
        reserve.units += returned;
        returned.cast_unsigned()
    }

    /// Moves the spent units out of a local credit, so that they do not count against its size. They are added to
    /// `moved_spent` before they are removed: a reader of the local credit and then of `moved_spent` may count them
    /// twice, but never misses them.
    fn move_spent(&self, counts: &StripeCounts) {
        loop {
            let word = counts.credit_word.load(Ordering::Relaxed);
            let local = LocalCredit::of(word);
            self.moved_spent.fetch_add(local.spent.cast_signed(), Ordering::Release);
            let without = LocalCredit { spent: 0, ..local }.word();
            if counts.credit_word.compare_exchange(word, without, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
            // The local credit was changed concurrently: undo and retry.
            self.moved_spent.fetch_sub(local.spent.cast_signed(), Ordering::Relaxed);
        }
    }

    /// Deducts the units that updates have taken from the reserve.
    fn deduct_updates(&self, reserve: &mut Reserve) {
        let updates = self.counts.iter().fold(0, |sum, counts| counts.net.load(Ordering::Relaxed).wrapping_add(sum));
        reserve.units = reserve.units.wrapping_sub(updates.wrapping_sub(reserve.updates));
        reserve.updates = updates;
    }

    /// Returns the units taken in total. While units are moved it may be too high. While others take units from one
    /// stripe and give back to another, it may be too low by those.
    #[inline]
    pub(crate) fn taken(&self) -> i64 {
        let stripe = |counts: &CachePadded<StripeCounts>| {
            let spent = LocalCredit::of(counts.credit_word.load(Ordering::Acquire)).spent;
            counts.net.load(Ordering::Relaxed).wrapping_add(spent.cast_signed())
        };
        let stripes = self.counts.iter().fold(0_i64, |sum, counts| sum.wrapping_add(stripe(counts)));
        stripes.wrapping_add(self.moved_spent.load(Ordering::Relaxed))
    }

    /// Returns the number of operations and the units they took; exact once no operation adds to them.
    pub(crate) fn totals(&self) -> (u64, i64) {
        let _guard = self.reserve.lock();
        let operations = self.counts.iter().map(|counts| counts.operations.load(Ordering::Acquire)).sum();
        (operations, self.taken())
    }
}

#[inline]
fn count_operation(counts: &StripeCounts, stripe: Stripe) {
    match stripe {
        Stripe::Own(_) => {
            counts.operations.store(counts.operations.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        }
        Stripe::Shared => {
            counts.operations.fetch_add(1, Ordering::Release);
        }
    }
}
