//! The end of a process: frees what it held and its slot, and notifies its links, monitors and watchers.

#![expect(unsafe_code, reason = "destroys a process that this thread runs")]

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

/// Number of emptied side tables that a scheduler keeps for new processes.
const HELD_KEPT: usize = 256;

impl Local {
    /// Takes a free slot; `None` at the limit or when the runtime stops.
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
        // SAFETY: this thread runs the process; its future is pending.
        match unsafe { slot.body().drop_future() } {
            Ok(()) => self.end(slot, exit),
            Err(payload) => self.end(slot, &Some(Box::new(panics::reason(payload)))),
        }
    }

    /// Ends the process: frees what it held, and notifies its links, monitors and watchers.
    pub(super) fn end(&self, slot: Slot, exit: &Exit) {
        let cell = slot.cell();
        let pid = slot.pid();
        // Before other threads can see the exit: the processes that they start in its place must not exceed the limit.
        bump(&self.me.counters.closed, 1);
        // Dropping a message may send, spawn or panic; the process still exists for that code.
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
        // Dropped values may have written to rings.
        self.turn.end();
        bump(&self.me.counters.exited, 1);
        // A slot without unused generations is never given out again, so no pid is reused.
        if next_generation != 0 {
            self.give_slot(slot);
        }
    }

    /// Returns an empty side table for a new process.
    pub(crate) fn take_held(&self) -> Box<Held> {
        let mut boxes = self.held.take();
        let held = boxes.pop();
        self.held.set(boxes);
        held.unwrap_or_default()
    }

    /// Keeps the emptied side table of an ended process for another one.
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
        // A kill is deliberate, so it is not reported as a crash.
        if *reason != ExitReason::Killed {
            self.note(|| EventKind::Crash { pid, name, reason: reason.clone() });
        }
    }

    /// Records an event, unless there were too many in this slice.
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
        // SAFETY: this thread still owns the body: the gate is closed, and the slot is not in a free list.
        let body = unsafe { slot.body() };
        let mut backlog = body.backlog.replace(Backlog::EMPTY);
        while let Some(letter) = backlog.pop() {
            // Subtracted per message and never reset: a sender that finds the gate closed subtracts its own bytes.
            slot.cell().mail_bytes.fetch_sub(letter.heap(), Ordering::Relaxed);
            self.shared.release_mail(Some(self), letter.heap());
            panics::contain(|| drop(letter.open(&self.nodes)));
        }
        slot.cell().backlog.store(0, Ordering::Relaxed);
    }
}
