//! Accounts for every firing that was due: it fired, was dropped, or was coalesced into a later one.
//!
//! ```text
//!   due ticks ──▶ a tick that was waited for ──▶ fires
//!           └───▶ ticks that had passed before the wait: an overrun ──▶ handled by the policy
//! ```
//!
//! Never reads a clock. Invariant after every call, under any load: `fired + dropped + coalesced` is `⌊elapsed · f⌋`
//! minus the firings of a batch that is not due yet, in the ticker's own time, which only slips delay.

use super::grid::Grid;
use super::options::{Overrun, Plan};

/// Firings to be carried out now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Firings {
    /// Number of the first firing, counted from the ticker's epoch.
    pub first: u64,
    /// Number of firings; never 0.
    pub count: u64,
    /// Number of firings dropped between the last batch and this one.
    pub dropped: u64,
    /// Number of firings between the last batch and this one that are coalesced into this one.
    pub coalesced: u64,
    /// Nanoseconds since the tick of the oldest of these firings, coalesced ones included; `None` if not measured.
    pub late_ns: Option<u64>,
}

/// Counts of what a ticker has done; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickCounts {
    /// Number of ticks that were due.
    pub ticks: u64,
    /// Number of firings carried out.
    pub fired: u64,
    /// Number of firings dropped.
    pub dropped: u64,
    /// Number of firings coalesced into later ones.
    pub coalesced: u64,
    /// Number of ticks that had passed before they were waited for.
    pub overruns: u64,
    /// Time by which slips have delayed the following ticks, in nanoseconds.
    pub slipped_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    grid: Grid,
    policy: Overrun,
    /// Number of ticks that had passed when the ledger began.
    joined: u64,
    /// Firings dropped and coalesced. All others fired, so a tick that fires updates no count.
    dropped: u64,
    coalesced: u64,
    overruns: u64,
    slipped_ns: u64,
    /// Firings dropped since the last batch, which the next batch reports.
    unreported_drops: u64,
}

impl Plan {
    /// Creates the ledger of a ticker that begins now. Also returns its epoch.
    pub(super) fn ledger(&self, now_ns: u64) -> (Ledger, u64) {
        let epoch_ns = self.epoch_ns(now_ns);
        let joined = self.grid.due(now_ns.saturating_sub(epoch_ns));
        (Ledger::new(self.grid, self.options.overrun, joined), epoch_ns)
    }
}

impl Ledger {
    /// Creates a ledger that begins with the tick after `joined`.
    pub(super) fn new(mut grid: Grid, policy: Overrun, joined: u64) -> Self {
        grid.pass(joined);
        Self { grid, policy, joined, dropped: 0, coalesced: 0, overruns: 0, slipped_ns: 0, unreported_drops: 0 }
    }

    pub(super) const fn account(&self) -> TickCounts {
        let ticks = self.grid.passed() - self.joined;
        TickCounts {
            ticks,
            fired: ticks * self.grid.batch() - self.dropped - self.coalesced,
            dropped: self.dropped,
            coalesced: self.coalesced,
            overruns: self.overruns,
            slipped_ns: self.slipped_ns,
        }
    }

    pub(super) const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the instant of the next tick, in nanoseconds after the epoch, slips included.
    #[inline]
    pub(super) const fn next_ns(&self) -> u64 {
        self.grid.next_ns().saturating_add(self.slipped_ns)
    }

    /// Returns the due instant of a batch that was taken when the next tick was at `tick_ns`: a burst may drop the
    /// oldest ticks.
    #[inline]
    pub(super) fn due_ns(&self, firings: &Firings, tick_ns: u64, epoch_ns: u64) -> u64 {
        match self.policy {
            Overrun::Burst { .. } if firings.dropped > 0 => {
                epoch_ns.saturating_add(self.grid.at_ns(firings.first / self.grid.batch() + 1))
            }
            Overrun::Burst { .. } | Overrun::Drop | Overrun::Skip | Overrun::Slip => tick_ns,
        }
    }

    /// Returns true if there are due ticks that were not taken.
    #[inline]
    pub(super) const fn is_behind(&self, due: u64) -> bool {
        due > self.grid.passed()
    }

    /// Takes the ticks that are due now; returns `None` if nothing fires and the next tick must be waited for.
    ///
    /// `waited` is true if the first of them was waited for. Only a slip calls `ns`.
    #[inline]
    pub(super) fn take(&mut self, due: u64, waited: bool, ns: impl FnOnce() -> u64) -> Option<Firings> {
        let behind = due.checked_sub(self.grid.passed()).filter(|behind| *behind > 0)?;
        if behind == u64::from(waited) {
            return Some(self.take_waited());
        }
        self.overrun(behind, waited, ns)
    }

    /// Takes the next tick, which was waited for.
    #[inline]
    pub(super) fn take_waited(&mut self) -> Firings {
        let passed = self.grid.passed();
        self.grid.pass(passed + 1);
        self.fire(passed, 1, 0)
    }

    /// Returns the largest number of ticks that [`catch_up`](Self::catch_up) may take: 0 unless periods are whole
    /// nanoseconds and a burst makes up for passed ticks.
    pub(super) const fn catch_up_max(&self) -> u64 {
        match self.policy {
            Overrun::Burst { max } if self.grid.is_even() => max as u64,
            _ => 0,
        }
    }

    /// Takes `behind` ticks that were not waited for and all fire; together they take `ns`.
    #[inline]
    pub(super) fn catch_up(&mut self, behind: u64, ns: u64) -> Firings {
        let passed = self.grid.passed();
        self.overruns += behind;
        self.grid.pass_even(behind, ns);
        self.fire(passed, behind, 0)
    }

    /// Applies the policy to due ticks of which at least one is late.
    #[inline(never)]
    fn overrun(&mut self, behind: u64, waited: bool, ns: impl FnOnce() -> u64) -> Option<Firings> {
        let (passed, batch) = (self.grid.passed(), self.grid.batch());
        // With a slip, the other ticks are not late: they move with the first one.
        let late = if self.policy == Overrun::Slip { 1 } else { behind };
        self.overruns += late - u64::from(waited);
        let due = passed + behind;
        let (first, fired, coalesced, taken) = match self.policy {
            Overrun::Drop => (passed, u64::from(waited), 0, behind),
            Overrun::Burst { max } => {
                let fired = behind.min(u64::from(max));
                (due - fired, fired, 0, behind)
            }
            Overrun::Skip => (due - 1, 1, behind - 1, behind),
            Overrun::Slip => {
                let late = ns().saturating_sub(self.next_ns());
                self.slipped_ns = self.slipped_ns.saturating_add(late);
                (passed, 1, 0, 1)
            }
        };
        self.grid.pass(passed + taken);
        let dropped = (taken - fired - coalesced) * batch;
        self.dropped += dropped;
        // Firings dropped after a tick that fires are reported with the next batch.
        let follow = self.policy == Overrun::Drop && fired > 0;
        self.unreported_drops += if follow { 0 } else { dropped };
        let firings = (fired > 0).then(|| self.fire(first, fired, coalesced));
        self.unreported_drops += if follow { dropped } else { 0 };
        firings
    }

    #[inline]
    fn fire(&mut self, first: u64, ticks: u64, coalesced: u64) -> Firings {
        let batch = self.grid.batch();
        self.coalesced += coalesced * batch;
        Firings {
            first: first * batch,
            count: ticks * batch,
            dropped: std::mem::take(&mut self.unreported_drops),
            coalesced: coalesced * batch,
            late_ns: None,
        }
    }
}

#[cfg(test)]
mod tests;
