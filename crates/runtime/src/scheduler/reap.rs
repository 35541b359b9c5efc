//! The end of a process: everything that it held goes back, its slot too, and whoever watches is told.

#![expect(unsafe_code, reason = "takes a process apart that this thread runs")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Local;
use crate::cell::bump;
use crate::events::EventKind;
use crate::exit::ExitReason;
use crate::gate::Taken;
use crate::holdings::{Held, Released};
use crate::mailbox::Backlog;
use crate::panics;
use crate::pid::Pid;
use crate::slab::Slot;
use crate::task::Exit;

/// Boxes that a scheduler keeps for processes which will hold something.
const HELD_KEPT: usize = 256;

impl Local {
    /// A free slot; `None` at the limit or when the runtime stops.
    #[inline]
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        self.slots.take().or_else(|| self.restock())
    }

    #[cold]
    fn restock(&self) -> Option<Slot> {
        self.shared.slab.restock(&self.shared, &self.slots);
        self.slots.take()
    }

    #[inline]
    pub(crate) fn give_slot(&self, slot: Slot) {
        self.slots.keep(slot, &self.shared.slots);
    }

    pub(super) fn end_early(&self, slot: Slot, exit: &Exit) {
        // SAFETY: this thread runs the process, whose future is pending.
        match unsafe { slot.body().drop_future() } {
            Ok(()) => self.end(slot, exit),
            Err(payload) => self.end(slot, &Some(Box::new(panics::reason(payload)))),
        }
    }

    /// Ends the process: everything that it held goes back, and whoever watches is told.
    pub(super) fn end(&self, slot: Slot, exit: &Exit) {
        let cell = slot.cell();
        let pid = slot.pid();
        // Before others can learn of the end: what they start in its place must not meet the limit.
        bump(&self.me.counters.closed, 1);
        // What a value does in its drop may send, spawn or panic; the process still exists for it.
        let taken = cell.gate.close();
        if taken.newest() != 0 || cell.backlog.load(Ordering::Relaxed) != 0 {
            self.drop_mail(slot, taken);
        }
        let (next_generation, holds) = cell.retire(pid.generation());
        let released = if holds { self.shared.holdings.release(slot, pid) } else { None };
        if let Some(reason) = exit.as_deref().filter(|reason| !reason.is_normal()) {
            bump(&self.me.counters.crashed, 1);
            self.report_crash(pid, released.as_ref().and_then(Released::name), reason);
        }
        if let Some(released) = released {
            self.give_held(self.shared.part_with(pid, released, exit.as_deref()));
        }
        // What was dropped may have written to rings.
        self.turn.end();
        bump(&self.me.counters.exited, 1);
        // A slot whose generations are used up is never given to anybody again, so no pid can come twice.
        if next_generation != 0 {
            self.give_slot(slot);
        }
    }

    /// An empty box for what a new process is to hold.
    pub(crate) fn take_held(&self) -> Box<Held> {
        let mut boxes = self.held.take();
        let held = boxes.pop();
        self.held.set(boxes);
        held.unwrap_or_default()
    }

    /// Keeps the emptied box of a process that has ended for another one.
    fn give_held(&self, mut held: Box<Held>) {
        held.reset();
        let mut boxes = self.held.take();
        if boxes.len() < HELD_KEPT {
            boxes.push(held);
        }
        self.held.set(boxes);
    }

    #[cold]
    fn report_crash(&self, pid: Pid, name: Option<Arc<str>>, reason: &ExitReason) {
        tracing::debug!(%pid, %reason, "process ended abnormally");
        // Whoever is killed is not news.
        if *reason != ExitReason::Killed {
            self.note(|| EventKind::Crash { pid, name, reason: reason.clone() });
        }
    }

    /// Notes an event, as long as there are not too many.
    pub(crate) fn note(&self, kind: impl FnOnce() -> EventKind) {
        let left = self.events_left.get();
        if left == 0 {
            return bump(&self.me.counters.events_dropped, 1);
        }
        self.events_left.set(left - 1);
        self.shared.events.note(kind);
    }

    #[cold]
    fn drop_mail(&self, slot: Slot, taken: Taken) {
        self.take_in(slot, taken);
        // SAFETY: this thread still owns the body: the gate is closed and the slot in no stock.
        let body = unsafe { slot.body() };
        let mut backlog = body.backlog.replace(Backlog::EMPTY);
        while let Some(letter) = backlog.pop() {
            // Added by senders and taken away per message, never reset: a sender that lost the race takes back its own.
            slot.cell().mail_bytes.fetch_sub(letter.heap(), Ordering::Relaxed);
            self.shared.release_mail(Some(self), letter.heap());
            panics::contain(|| drop(letter.open(&self.nodes)));
        }
        slot.cell().backlog.store(0, Ordering::Relaxed);
    }
}
