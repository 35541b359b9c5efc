//! What became of every firing that was due: fired, dropped, or stood for by a later one.
//!
//! ```text
//!   due ticks ──▶ one that was waited for ──▶ fires
//!           └───▶ those whose time had passed before anybody waited: an overrun ──▶ by the policy
//! ```
//!
//! Never reads a clock. The invariant, after every call and whatever the load: `fired + dropped + coalesced` is
//! `⌊elapsed · f⌋` less the firings of a batch that is not due yet, on the ticker's own time, which only a slip holds back.

use super::Overrun;
use super::grid::Grid;

/// Firings that are to be carried out now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Firings {
    /// The number of the first of them, counted from the ticker's epoch.
    pub first: u64,
    /// How many; never 0.
    pub count: u64,
    /// Firings between the last batch and this one that are lost.
    pub dropped: u64,
    /// Firings between the last batch and this one that this one stands for.
    pub coalesced: u64,
    /// Nanoseconds since the tick of the oldest of these, or of the oldest that they stand for; `None` if nobody measures.
    pub late_ns: Option<u64>,
}

/// What a ticker has done; all only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Ticks that were due.
    pub ticks: u64,
    /// Firings carried out.
    pub fired: u64,
    /// Firings lost.
    pub dropped: u64,
    /// Firings that a later one stands for.
    pub coalesced: u64,
    /// Ticks whose time had passed before anybody waited for them.
    pub overruns: u64,
    /// Nanoseconds by which slips have moved the ticks that followed.
    pub slipped_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ledger {
    grid: Grid,
    policy: Overrun,
    /// Ticks that had passed when it began.
    joined: u64,
    /// Firings lost and stood for. What fired is the rest, so that a tick that fires counts nothing.
    dropped: u64,
    coalesced: u64,
    overruns: u64,
    slipped_ns: u64,
    /// Lost since the last batch.
    untold: u64,
}

impl Ledger {
    /// A ledger that begins with the tick after `joined`.
    pub(super) fn new(mut grid: Grid, policy: Overrun, joined: u64) -> Self {
        grid.pass(joined);
        Self { grid, policy, joined, dropped: 0, coalesced: 0, overruns: 0, slipped_ns: 0, untold: 0 }
    }

    pub(super) const fn account(&self) -> Account {
        let ticks = self.grid.passed() - self.joined;
        Account {
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

    /// When the next tick is due, in nanoseconds after the epoch, slips included.
    #[inline]
    pub(super) const fn next_ns(&self) -> u64 {
        self.grid.next_ns().saturating_add(self.slipped_ns)
    }

    /// When a batch was due that was taken when `tick_ns` was the next tick: a burst may leave out the oldest.
    #[inline]
    pub(super) fn due_ns(&self, firings: &Firings, tick_ns: u64, epoch_ns: u64) -> u64 {
        match self.policy {
            Overrun::Burst { .. } if firings.dropped > 0 => {
                epoch_ns.saturating_add(self.grid.at_ns(firings.first / self.grid.batch() + 1))
            }
            Overrun::Burst { .. } | Overrun::Drop | Overrun::Skip | Overrun::Slip => tick_ns,
        }
    }

    /// Whether ticks are due that have not been taken.
    #[inline]
    pub(super) const fn is_behind(&self, due: u64) -> bool {
        due > self.grid.passed()
    }

    /// Takes the ticks that are due by now; `None` if there is nothing to fire, and the next tick is to be waited for.
    ///
    /// `waited` says that the first of them was waited for. `ns` is asked for only by a slip.
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

    /// The most ticks that [`catch_up`](Self::catch_up) may take: none, unless periods are whole nanoseconds and a burst makes up
    /// for what has passed.
    pub(super) const fn catch_up_max(&self) -> u64 {
        match self.policy {
            Overrun::Burst { max } if self.grid.is_even() => max as u64,
            _ => 0,
        }
    }

    /// Takes so many ticks that nobody waited for and that all fire; together they take `ns`.
    #[inline]
    pub(super) fn catch_up(&mut self, behind: u64, ns: u64) -> Firings {
        let passed = self.grid.passed();
        self.overruns += behind;
        self.grid.pass_even(behind, ns);
        self.fire(passed, behind, 0)
    }

    /// What the policy makes of ticks of which one is late at least.
    #[inline(never)]
    fn overrun(&mut self, behind: u64, waited: bool, ns: impl FnOnce() -> u64) -> Option<Firings> {
        let (passed, batch) = (self.grid.passed(), self.grid.batch());
        // After a slip the others are not behind: their time is yet to come.
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
        // Those that come after a tick which fires are told with the next batch.
        let follow = self.policy == Overrun::Drop && fired > 0;
        self.untold += if follow { 0 } else { dropped };
        let firings = (fired > 0).then(|| self.fire(first, fired, coalesced));
        self.untold += if follow { dropped } else { 0 };
        firings
    }

    #[inline]
    fn fire(&mut self, first: u64, ticks: u64, coalesced: u64) -> Firings {
        let batch = self.grid.batch();
        self.coalesced += coalesced * batch;
        Firings {
            first: first * batch,
            count: ticks * batch,
            dropped: std::mem::take(&mut self.untold),
            coalesced: coalesced * batch,
            late_ns: None,
        }
    }
}

#[cfg(test)]
mod tests;
