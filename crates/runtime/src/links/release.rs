//! What the end of a process means to others: its timers, groups, links, monitors, watchers and waiting senders.

use std::sync::Arc;

use crate::links::holdings::{Holders, Holding};
use crate::links::registry::{Released, SideTables};
use crate::mailbox::queue::Envelope;
use crate::mailbox::send;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::side_table::SideTable;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;

impl RuntimeShared {
    /// Frees what an ended process held, and notifies its links, monitors, watchers and waiting senders.
    ///
    /// Its names are free already. Returns the emptied box for reuse.
    pub(crate) fn release_side_table(
        &self,
        pid: Pid,
        mut released: Released,
        exit: Option<&ExitReason>,
    ) -> Box<SideTable> {
        let rare = released.rare.map(|mut rare| {
            self.timers.drop_ended(std::mem::take(&mut rare.timers));
            self.leave_all(pid, &rare.memberships);
            self.end_holdings(pid, std::mem::take(&mut rare.holdings));
            rare
        });
        self.propagate_exit(pid, &mut released.side_table, exit.unwrap_or(&ExitReason::Normal));
        let Some(rare) = rare else { return released.side_table };
        for watcher in rare.watchers {
            // A watcher that was dropped needs no answer.
            panics::contain(|| drop(watcher.send(exit.cloned().unwrap_or(ExitReason::Normal))));
        }
        for sender in rare.waiting_senders {
            panics::contain(|| sender.wake());
        }
        released.side_table
    }

    /// Lets a process hold something. Returns what `add` returns, which runs while the process cannot end; `None` if the
    /// process has ended.
    pub(crate) fn hold<R>(&self, pid: Pid, holding: Arc<dyn Holding>, add: impl FnOnce() -> R) -> Option<R> {
        SideTables::hold(self.table.slot(pid)?, pid, holding, add)
    }

    /// Undoes [`hold`](Self::hold).
    pub(crate) fn release_holding(&self, pid: Pid, holding: &Arc<dyn Holding>) {
        if let Some(slot) = self.table.slot(pid) {
            SideTables::release_holding(slot, pid, holding);
        }
    }

    fn end_holdings(&self, pid: Pid, holdings: Vec<Arc<dyn Holding>>) {
        for holding in holdings {
            // Drops values of the program.
            panics::contain(|| holding.holder_ended(self, pid));
        }
    }
}

impl Holders for RuntimeShared {
    fn pass_on(&self, to: Pid, holding: Arc<dyn Holding>) -> bool {
        self.hold(to, holding, || ()).is_some()
    }

    fn tell(&self, to: Pid, envelope: Envelope) {
        if let Some(slot) = self.table.slot(to).filter(|_| self.is_alive(to)) {
            send::force_send(slot, envelope, || ());
        }
    }
}
