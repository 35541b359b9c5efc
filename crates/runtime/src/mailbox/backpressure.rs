//! Back-pressure: the bytes of messages count against the budget of the runtime, and senders wait while a mailbox has
//! no room.

#![expect(unsafe_code, reason = "accesses the body of the process that this thread runs")]

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;

use crate::links::registry::SideTables;
use crate::mailbox::gate::{Arrivals, PENDING_MAX, Push};
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::{self, Local};

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

    /// Records that the running process waits for room in its own mailbox, which only its receive makes: a request at its own
    /// gate would keep it from parking. `None` for other processes, and while the gate can count no further messages.
    pub(crate) fn request_own_room(&self, slot: Slot, to: Pid) -> Option<Push> {
        let local = scheduler::local().filter(|local| ptr::eq(&raw const *local.shared, self))?;
        let (header, pending) = (slot.header(), slot.header().gate.pending());
        if local.running_pid() != Some(to) || pending >= PENDING_MAX {
            return None;
        }
        // SAFETY: this thread runs the process.
        unsafe { slot.body() }.backpressured.set(true);
        // Others may have freed the budget, or raised the capacity, since the message was refused.
        Some(if self.is_below_low_watermark(header, pending) { Push::Queued } else { Push::Full })
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

impl Local {
    /// Moves the messages, signals and wake-ups found at the gate to the process.
    pub(crate) fn take_arrivals(&self, slot: Slot, taken: Arrivals) {
        let mut is_below_low_watermark = false;
        if taken.newest() != 0 {
            let header = slot.header();
            // SAFETY: this thread runs the process, and the chain comes from its gate.
            unsafe {
                let body = slot.body();
                let mut backlog = body.backlog.get();
                let (count, dropped) = backlog.append(taken.newest(), header.generation.load(Ordering::Relaxed));
                body.backlog.set(backlog);
                header.backlog.store(header.backlog.load(Ordering::Relaxed) + count, Ordering::Relaxed);
                if dropped != 0 {
                    header.mail_bytes.fetch_sub(dropped, Ordering::Relaxed);
                    self.shared.release_mail(Some(self), dropped);
                    is_below_low_watermark = body.backpressured.get();
                }
            }
        }
        if taken.backpressure() || is_below_low_watermark {
            // SAFETY: this thread runs the process.
            unsafe { slot.body() }.backpressured.set(true);
            self.wake_senders_if_room(slot);
        }
        if taken.signal() {
            self.signalled.set(true);
        }
        if taken.woken() {
            self.woken.set(true);
        }
    }

    /// Wakes the senders that wait for room, when half of the mailbox is free.
    #[cold]
    pub(crate) fn wake_senders_if_room(&self, slot: Slot) {
        let header = slot.header();
        if self.shared.is_below_low_watermark(header, header.gate.pending()) {
            // SAFETY: this thread runs the process.
            unsafe { slot.body() }.backpressured.set(false);
            RuntimeShared::wake_waiting_senders(slot, slot.pid());
        }
    }
}
