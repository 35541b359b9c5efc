//! What the end of a process means to others: its timers, groups, links, monitors, watchers and waiting senders.

use crate::links::registry::Released;
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
            self.drop_timers(std::mem::take(&mut rare.timers));
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
}
