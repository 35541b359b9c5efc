//! Where units are counted: a lane for each scheduler that nobody else writes, and one that all other threads share.
//!
//! ```text
//!   update ──▶ lane: net, operations           own lane: plain load and store, 2 ns; shared lane: fetch-and-add
//!   spend  ──▶ lane: purse = (credit, spent)   one compare-and-swap on a line of one's own
//!                │ empty                       under the lock: from the bank, or from the other purses
//!                ▼
//!              bank: units that lie in no purse
//! ```
//!
//! What was taken in all is `Σ net + Σ spent + moved`. Invariants: `bank + Σ credit + Σ spent + moved` is the budget plus
//! what updates gave or took when they were last looked at, so nobody spends what is not there; and who reads the lanes
//! before `moved` never sees less taken than was.

use crossbeam_utils::CachePadded;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The most units that a purse holds, and that it has spent before they are moved.
pub(crate) const PURSE_MAX: u64 = 1 << 30;

/// Whose lane: that of a scheduler, or the one that all other threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Of the scheduler of this number, and only its thread says so.
    Own(usize),
    /// Of all other threads.
    Shared,
}

/// See the module.
pub(crate) struct Stripes {
    lanes: Box<[CachePadded<Counts>]>,
    /// Units that were spent and are in no purse any more.
    moved: AtomicI64,
    bank: Mutex<Bank>,
}

#[derive(Default)]
struct Counts {
    net: AtomicI64,
    operations: AtomicU64,
    /// Credit in the upper half, what was spent of it in the lower.
    purse: AtomicU64,
}

/// Units that lie in no purse.
struct Bank {
    units: i64,
    /// What updates had taken when the bank last looked.
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
    /// Changes the purse, unless `change` says that it cannot be.
    #[inline]
    fn purse(&self, change: impl Fn(Purse) -> Option<Purse>) -> bool {
        let change = |word| change(Purse::of(word)).map(Purse::word);
        // Release: who sees the purse without what was moved out of it sees `moved` with it.
        self.purse.fetch_update(Ordering::AcqRel, Ordering::Relaxed, change).is_ok()
    }

    /// Takes all credit out.
    fn empty(&self) -> i64 {
        let word = self.purse.fetch_and(0xffff_ffff, Ordering::AcqRel);
        (word >> 32).cast_signed()
    }
}

impl Stripes {
    /// Lanes for so many schedulers and all other threads, over a budget.
    pub(crate) fn new(schedulers: usize, budget: i64) -> Self {
        Self {
            lanes: (0..=schedulers).map(|_| CachePadded::default()).collect(),
            moved: AtomicI64::new(0),
            bank: Mutex::new(Bank { units: budget, updates: 0 }),
        }
    }

    /// The lanes, the shared one with them.
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

    /// Takes units without asking; negative ones are given.
    #[inline]
    pub(crate) fn update(&self, lane: Lane, units: i64) {
        let counts = self.counts(lane);
        match lane {
            // Relaxed: one thread alone writes here. The count of operations comes after, so who has seen it sees the units.
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

    /// Takes units if they are there.
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

    /// Gives units back, not more than were spent; says how many.
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
        // A share, so that the others find something too.
        let share = (bank.units / (2 * self.lanes.len().cast_signed() as i64)).clamp(0, (PURSE_MAX / 2).cast_signed());
        let filled = share.max(wanted);
        bank.units -= filled;
        let more = filled.cast_unsigned() - units;
        let put = counts.purse(|purse| {
            // What others have put back meanwhile leaves room for less; a lane that is shared may have spent again.
            Some(Purse { credit: purse.credit + more, spent: purse.spent + units })
        });
        debug_assert!(put, "a purse always takes what fits into half of it");
        true
    }

    #[cold]
    fn refund_slowly(&self, units: u64) -> u64 {
        let mut bank = self.bank.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for counts in &self.lanes {
            self.move_spent(counts);
        }
        // Only under the lock does it become less.
        let returned = i64::try_from(units).unwrap_or(i64::MAX).min(self.moved.load(Ordering::Relaxed));
        self.moved.fetch_sub(returned, Ordering::Relaxed);
        bank.units += returned;
        returned.cast_unsigned()
    }

    /// Moves what a purse has spent to where it does not count against its size. First it is added, then taken away: whoever
    /// reads the purse and then `moved` may see it twice, and never not at all.
    fn move_spent(&self, counts: &Counts) {
        loop {
            let word = counts.purse.load(Ordering::Relaxed);
            let purse = Purse::of(word);
            self.moved.fetch_add(purse.spent.cast_signed(), Ordering::Release);
            let without = Purse { spent: 0, ..purse }.word();
            if counts.purse.compare_exchange(word, without, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
            // Its owner was quicker.
            self.moved.fetch_sub(purse.spent.cast_signed(), Ordering::Relaxed);
        }
    }

    /// Takes what updates have taken out of the bank.
    fn look_at_updates(&self, bank: &mut Bank) {
        let updates = self.lanes.iter().fold(0, |sum, counts| counts.net.load(Ordering::Relaxed).wrapping_add(sum));
        bank.units = bank.units.wrapping_sub(updates.wrapping_sub(bank.updates));
        bank.updates = updates;
    }

    /// What was taken in all; while units are moved it may seem more, and never less.
    #[inline]
    pub(crate) fn taken(&self) -> i64 {
        let lane = |counts: &CachePadded<Counts>| {
            let spent = Purse::of(counts.purse.load(Ordering::Acquire)).spent;
            counts.net.load(Ordering::Relaxed).wrapping_add(spent.cast_signed())
        };
        let lanes = self.lanes.iter().fold(0_i64, |sum, counts| sum.wrapping_add(lane(counts)));
        lanes.wrapping_add(self.moved.load(Ordering::Relaxed))
    }

    /// The operations, and what they had taken at least: exactly that, once nobody adds to it.
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
