//! Links and monitors: how processes learn about the ends of other processes, and the messages for that.
//!
//! ```text
//!   link      a ◀──────▶ b    one ends abnormally: the other gets an exit signal, and ends, or traps it as an [`Exit`]
//!   monitor   a ───────▶ b    b ends, for any reason: a gets one [`Down`]
//! ```
//!
//! Both processes store their side of a link or monitor in their side tables. A process that ends removes its own side
//! first, and then asks the other process: its end has an effect only if the other side is still there. So a process
//! that has removed its own side, by `unlink` or `demonitor`, receives nothing more from it. Both sides of a link are
//! added and removed together, under both locks: either process may create or remove the link, and a single side would
//! stay forever.

use std::sync::atomic::Ordering;

use crate::links::signal::{Down, Exit, ExitSignal, MonitorRef, NoReply};
use crate::mailbox::message::Message;
use crate::mailbox::queue::{Envelope, message_envelope};
use crate::mailbox::send;
use crate::process::exit::ExitReason;
use crate::process::header::{KILLED, TRAPS};
use crate::process::pid::Pid;
use crate::process::side_table::SideTable;
use crate::process::side_table_guard::SideTableGuard;
use crate::process::table::Slot;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::{self, Local, enqueue};

/// Relations of a process to its parent that exist from its start.
#[derive(Clone, Copy)]
pub(crate) struct LinkOptions {
    pub(crate) link: bool,
    pub(crate) monitor: Option<MonitorRef>,
}

impl LinkOptions {
    /// Adds the side of the new process to its side table.
    pub(crate) fn apply_to_child(self, side_table: &mut SideTable, parent: Pid) {
        if self.link {
            side_table.links.insert(parent, ());
        }
        if let Some(reference) = self.monitor {
            side_table.monitored_by.insert(reference, parent);
        }
    }

    /// Adds the side of the parent, which runs on this thread.
    pub(crate) fn apply_to_parent(self, own: Slot, pid: Pid, child: Pid) {
        if !self.link && self.monitor.is_none() {
            return;
        }
        let Some(mut locked) = SideTableGuard::lock_live(own, pid) else { return };
        let side_table = locked.side_table();
        if self.link {
            side_table.links.insert(child, ());
        }
        if let Some(reference) = self.monitor {
            side_table.monitors.insert(reference, child);
        }
    }
}

impl RuntimeShared {
    /// Returns a reference that no other monitor or call of this runtime has.
    pub(crate) fn next_reference(&self) -> MonitorRef {
        self.references.next(scheduler::local().map(|local| &local.last_reference))
    }

    pub(crate) fn lock_process(&self, pid: Pid) -> Option<SideTableGuard> {
        self.table.slot(pid).and_then(|slot| SideTableGuard::lock_live(slot, pid))
    }

    /// Links two processes, the first of which runs on this thread.
    pub(crate) fn link(&self, own: Slot, pid: Pid, other: Pid) {
        if pid == other {
            return;
        }
        // A process that runs on this thread is alive.
        let (Some(mut locked), peer) = self.lock_both(own, pid, other) else { return };
        if locked.side_table().links.insert(other, ()).is_some() {
            // If the other process has just ended, it will find the link and send its reason.
            return;
        }
        if let Some(mut peer) = peer {
            peer.side_table().links.insert(pid, ());
            return;
        }
        drop(locked);
        if other.node() != 0 {
            return self.link_remote(pid, other);
        }
        self.exit_by_link(pid, other, &ExitReason::NoProcess);
    }

    /// Locks the process that runs on this thread and another one.
    fn lock_both(&self, own: Slot, pid: Pid, other: Pid) -> (Option<SideTableGuard>, Option<SideTableGuard>) {
        match self.table.slot(other) {
            Some(slot) => SideTableGuard::lock_both((own, pid), (slot, other)),
            None => (SideTableGuard::lock_live(own, pid), None),
        }
    }

    /// Removes a link, and exit signals that came through it and were not obeyed yet.
    pub(crate) fn unlink(&self, own: Slot, pid: Pid, other: Pid) {
        // Drop the signals after the locks are released: dropping a reason may take the same locks.
        let mut forgotten = Vec::new();
        let (own, peer) = self.lock_both(own, pid, other);
        if let Some(mut own) = own {
            let side_table = own.side_table();
            side_table.links.remove(&other);
            forgotten.extend(side_table.exit_signals.extract_if(.., |signal| signal.link == Some(other)));
        }
        if other.node() != 0 {
            self.unlink_remote(pid, other);
        }
        if let Some(mut peer) = peer {
            peer.side_table().links.remove(&pid);
        }
    }

    /// Monitors `target` for the process that runs on this thread. A process that monitors itself receives nothing.
    pub(crate) fn monitor(&self, own: Slot, pid: Pid, target: Pid) -> MonitorRef {
        self.monitor_by(self.next_reference(), own, pid, target)
    }

    /// Monitors `target` for a call of the process that runs on this thread. Observers recognise such a monitor.
    pub(crate) fn monitor_for_call(&self, own: Slot, pid: Pid, target: Pid) -> MonitorRef {
        self.monitor_by(self.next_reference().for_call(), own, pid, target)
    }

    #[inline]
    fn monitor_by(&self, reference: MonitorRef, own: Slot, pid: Pid, target: Pid) -> MonitorRef {
        if pid == target {
            return reference;
        }
        if let Some(mut locked) = SideTableGuard::lock_live(own, pid) {
            locked.side_table().monitors.insert(reference, target);
        }
        match self.lock_process(target) {
            Some(mut locked) => drop(locked.side_table().monitored_by.insert(reference, pid)),
            None if target.node() != 0 => self.monitor_remote(pid, reference, target),
            None => self.down(pid, reference, target, &ExitReason::NoProcess),
        }
        reference
    }

    /// Ends the monitor `reference` of `pid` with a message instead of its [`Down`]. Returns `value` if the monitor has
    /// already ended.
    pub(crate) fn deliver_reply<T, M: Send + 'static>(
        &self,
        pid: Pid,
        reference: MonitorRef,
        value: T,
        message: impl FnOnce(T) -> M,
    ) -> Option<T> {
        let Some(mut locked) = self.lock_process(pid) else { return Some(value) };
        if locked.side_table().monitors.remove(&reference).is_none() {
            return Some(value);
        }
        self.deliver_message(locked, pid, message(value));
        None
    }

    /// Like [`deliver_reply`](Self::deliver_reply), for a message that exists already.
    pub(crate) fn deliver_reply_message(&self, pid: Pid, reference: MonitorRef, message: Message) {
        let Some(mut locked) = self.lock_process(pid) else { return };
        if locked.side_table().monitors.remove(&reference).is_some() {
            deliver_envelope(locked, message_envelope(pid.generation(), message));
        }
    }

    /// Tells a process that its call gets no reply, if it still waits for one.
    pub(crate) fn deliver_no_reply(&self, caller: Pid, reference: MonitorRef) {
        self.deliver_reply(caller, reference, (), |()| NoReply { reference });
    }

    /// Returns true if `parent` waits until the process that runs on this thread has acknowledged its start.
    pub(crate) fn awaits_start(&self, own: Slot, pid: Pid, parent: Pid) -> bool {
        let start = SideTableGuard::lock_live(own, pid).and_then(|mut locked| {
            let monitored_by = &locked.get()?.monitored_by;
            monitored_by.iter().find(|(reference, by)| reference.is_start() && **by == parent).map(|(start, _)| *start)
        });
        // The acknowledgement removes the parent's side of the monitor.
        start.is_some_and(|start| {
            self.lock_process(parent).is_some_and(|mut locked| locked.side_table().monitors.get(&start).is_some())
        })
    }

    /// Removes the target's side of a monitor that was answered.
    pub(crate) fn remove_monitored_by(&self, target: Pid, reference: MonitorRef) {
        if let Some(mut locked) = self.lock_process(target) {
            locked.side_table().monitored_by.remove(&reference);
        } else if target.node() != 0 {
            self.demonitor_remote(target, reference);
        }
    }

    /// Removes a monitor. Returns false if it has ended, because the target has.
    pub(crate) fn demonitor(&self, own: Slot, pid: Pid, reference: MonitorRef) -> bool {
        let target =
            SideTableGuard::lock_live(own, pid).and_then(|mut locked| locked.side_table().monitors.remove(&reference));
        if let Some(target) = target {
            self.remove_monitored_by(target, reference);
        }
        target.is_some()
    }

    /// Sets whether the process that runs on this thread receives exit signals as messages. Returns the previous
    /// setting.
    ///
    /// Earlier signals are obeyed regardless.
    pub(crate) fn trap_exits(own: Slot, pid: Pid, trap: bool) -> bool {
        let Some(_locked) = SideTableGuard::lock_live(own, pid) else { return false };
        let flags = &own.header().flags;
        let before =
            if trap { flags.fetch_or(TRAPS, Ordering::Relaxed) } else { flags.fetch_and(!TRAPS, Ordering::Relaxed) };
        before & TRAPS != 0
    }

    /// Sends an exit signal; `from` is the sending process, if there is one.
    pub(crate) fn exit(&self, from: Option<Pid>, pid: Pid, reason: ExitReason) {
        if let Some(locked) = self.lock_process(pid) {
            self.exit_locked(from, pid, reason, locked);
        } else if pid.node() != 0 {
            self.exit_remote(from, pid, &reason);
        }
    }

    /// Ends a process at its next await that has to wait, also if it traps exits.
    pub(crate) fn end_by_itself(&self, pid: Pid, reason: ExitReason) {
        if let Some(locked) = self.lock_process(pid) {
            deliver_signal(locked.slot(), locked, ExitSignal { link: None, from: Some(pid), reason });
        }
    }

    pub(crate) fn exit_locked(&self, from: Option<Pid>, pid: Pid, reason: ExitReason, locked: SideTableGuard) {
        let slot = locked.slot();
        if reason == ExitReason::Killed {
            deliver_signal(slot, locked, ExitSignal { link: None, from, reason });
        } else if traps(slot) {
            self.deliver_message(locked, pid, Exit { from: from.unwrap_or(Pid::NONE), reason });
        } else if reason != ExitReason::Normal || from == Some(pid) {
            deliver_signal(slot, locked, ExitSignal { link: None, from, reason });
        }
    }

    /// Notifies `pid` that `other`, to which it was linked, has ended.
    pub(crate) fn exit_by_link(&self, pid: Pid, other: Pid, reason: &ExitReason) {
        let Some(slot) = self.table.slot(pid) else {
            self.link_exit_remote(pid, other, reason);
            return;
        };
        let Some(mut locked) = SideTableGuard::lock_live(slot, pid) else { return };
        if locked.side_table().links.remove(&other).is_none() {
            return;
        }
        if traps(slot) {
            self.deliver_message(locked, pid, Exit { from: other, reason: reason.clone() });
        } else if *reason != ExitReason::Normal {
            deliver_signal(slot, locked, ExitSignal { link: Some(other), from: None, reason: reason.clone() });
        }
    }

    /// Notifies `pid` that `target`, which it monitors by `reference`, has ended.
    pub(crate) fn down(&self, pid: Pid, reference: MonitorRef, target: Pid, reason: &ExitReason) {
        let Some(slot) = self.table.slot(pid) else {
            self.down_remote(pid, reference, target, reason);
            return;
        };
        let Some(mut locked) = SideTableGuard::lock_live(slot, pid) else { return };
        if locked.side_table().monitors.remove(&reference).is_some() {
            self.deliver_message(locked, pid, Down { reference, pid: target, reason: reason.clone() });
        }
    }

    fn deliver_message<T: Send + 'static>(&self, locked: SideTableGuard, pid: Pid, message: T) {
        deliver_envelope(locked, send::envelope(self, self.local(), pid, message));
    }

    /// Returns the scheduler of this thread, if it belongs to this runtime.
    pub(crate) fn local<'a>(&self) -> Option<&'a Local> {
        scheduler::local().filter(|local| std::ptr::eq(&raw const *local.shared, self))
    }

    /// Notifies all processes that are linked to `pid` or monitor it of its end, and removes its own monitors.
    pub(crate) fn propagate_exit(&self, pid: Pid, side_table: &mut SideTable, reason: &ExitReason) {
        side_table.links.drain(|other, ()| self.exit_by_link(other, pid, reason));
        side_table.monitored_by.drain(|reference, watcher| self.down(watcher, reference, pid, reason));
        side_table.monitors.drain(|reference, target| self.remove_monitored_by(target, reference));
    }
}

/// Puts an envelope into a mailbox even if that is full, and releases the lock only then: the next holder of the lock
/// finds it delivered.
pub(crate) fn deliver_envelope(locked: SideTableGuard, envelope: Envelope) {
    send::force_send(locked.slot(), envelope, || drop(locked));
}

fn traps(slot: Slot) -> bool {
    slot.header().flags.load(Ordering::Relaxed) & TRAPS != 0
}

/// Leaves an exit signal for a process, which obeys it when it runs next.
fn deliver_signal(slot: Slot, mut locked: SideTableGuard, signal: ExitSignal) {
    if signal.reason == ExitReason::Killed && signal.link.is_none() {
        // No side table for this: a million processes may be killed at once.
        slot.header().flags.fetch_or(KILLED, Ordering::Relaxed);
    } else {
        locked.side_table().exit_signals.push(signal);
    }
    drop(locked);
    if slot.header().gate.signal() {
        enqueue(slot, false);
    }
}
