//! Back-pressure: the bytes of messages count against the budget of the runtime, and senders wait while a mailbox has
//! no room.

use std::cell::Cell;

use crate::links::registry::SideTables;
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::Local;

#[inline]
fn unsettled(local: Option<&Local>) -> Option<&Cell<i64>> {
    local.map(|local| &local.unsettled_mail)
}

impl RuntimeShared {
    /// Counts the heap bytes of a message that entered a mailbox.
    #[inline]
    pub(crate) fn charge_mail(&self, local: Option<&Local>, heap: u32) {
        if heap != 0
            && let Some(bytes) = self.mailboxes.due(unsettled(local), i64::from(heap))
        {
            // Bytes settled in the same sum may have made room; the end of the slice checks again.
            self.mailboxes.add(bytes);
        }
    }

    /// Counts the heap bytes of a message that left a mailbox. May wake senders: no lock of a process may be held.
    #[inline]
    pub(crate) fn release_mail(&self, local: Option<&Local>, heap: u32) {
        if heap != 0
            && let Some(bytes) = self.mailboxes.due(unsettled(local), -i64::from(heap))
            && self.mailboxes.settle(bytes)
        {
            self.resume_senders();
        }
    }

    /// Adds the bytes that this scheduler has counted but not settled, at the end of its slice.
    #[inline]
    pub(crate) fn settle_mail(&self, local: &Local) {
        let bytes = local.unsettled_mail.replace(0);
        if (bytes != 0 || self.mailboxes.is_full()) && self.mailboxes.settle(bytes) {
            self.resume_senders();
        }
    }

    /// If the budget is full, registers the senders of `to` to be woken when it has room again.
    pub(crate) fn wait_for_budget(&self, to: Pid) {
        if self.mailboxes.is_full() {
            self.mailboxes.block(to);
        }
    }

    #[cold]
    fn resume_senders(&self) {
        for pid in self.mailboxes.take_blocked() {
            if let Some(slot) = self.table.slot(pid) {
                Self::wake_waiting_senders(slot, pid);
            }
        }
    }

    /// Wakes all senders that wait for room in a mailbox, in the order of their arrival.
    pub(crate) fn wake_waiting_senders(slot: Slot, pid: Pid) {
        for sender in SideTables::take_waiting_senders(slot, pid) {
            // The waker may belong to a foreign executor.
            panics::contain(|| sender.wake());
        }
    }
}
