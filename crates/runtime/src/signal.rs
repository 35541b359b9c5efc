//! What processes tell each other about their ends: links, monitors, and the messages that come of them.
//!
//! ```text
//!   link      a ◀──────▶ b    one ends abnormally: the other gets an exit signal, and ends, or traps it as an [`Exit`]
//!   monitor   a ───────▶ b    b ends, however: a gets one [`Down`]
//! ```
//!
//! Each side of a bond stands in what its process holds. Who ends takes its own side first and then asks the other: only a
//! bond that stands on the other side too has an effect. So whoever takes its own side away, by `unlink` or `demonitor`, is
//! told nothing about it from then on. Both sides of a link come and go at once, under both locks: either process may make
//! or end it, and one side alone would stay for ever.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cell::{KILLED, TRAPS};
use crate::exit::ExitReason;
use crate::holdings::{Held, Locked};
use crate::mailbox::Letter;
use crate::pid::Pid;
use crate::post;
use crate::runtime::Shared;
use crate::scheduler::{self, Local, enqueue};
use crate::slab::Slot;

/// An exit signal as a process that traps exits receives it: a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Who ended, or sent the signal.
    pub from: Pid,
    /// Why.
    pub reason: ExitReason,
}

/// The end of a monitored process, as the one who monitors it receives it: a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// What [`monitor`](crate::Context::monitor) gave.
    pub reference: MonitorRef,
    /// Who ended.
    pub pid: Pid,
    /// Why; [`ExitReason::NoProcess`] if it had ended before it was monitored.
    pub reason: ExitReason,
}

/// One monitor, unlike every other of its runtime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MonitorRef(NonZeroU64);

impl MonitorRef {
    /// The reference of a number that [`number`](Self::number) gave, or somebody made up; none has 0.
    #[cfg(any(feature = "wasm", test))]
    pub(crate) fn numbered(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Its number, for those who keep numbers.
    #[cfg(feature = "wasm")]
    pub(crate) const fn number(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for MonitorRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#Ref<{}>", self.0)
    }
}

/// References that a scheduler takes at once, less the first.
const REFERENCES: u64 = 1 << 16;

/// Gives out references that never come twice: to schedulers those between two multiples of [`REFERENCES`], to other threads
/// the multiples.
#[derive(Default)]
pub(crate) struct References {
    taken: AtomicU64,
    outside: AtomicU64,
}

impl References {
    /// The last reference of a scheduler that must take some first.
    pub(crate) const USED_UP: u64 = REFERENCES - 1;

    pub(crate) fn next(&self) -> MonitorRef {
        let Some(local) = scheduler::local() else {
            return Self::after((self.outside.fetch_add(1, Ordering::Relaxed) + 1) * REFERENCES - 1);
        };
        let mut before = local.last_reference.get();
        if (before + 1).is_multiple_of(REFERENCES) {
            before = self.taken.fetch_add(REFERENCES, Ordering::Relaxed);
        }
        local.last_reference.set(before + 1);
        Self::after(before)
    }

    fn after(number: u64) -> MonitorRef {
        MonitorRef(NonZeroU64::MIN.saturating_add(number))
    }
}

/// What binds a process to the one that spawns it, from its first instant.
#[derive(Clone, Copy)]
pub(crate) struct Bond {
    pub(crate) link: bool,
    pub(crate) monitor: Option<MonitorRef>,
}

impl Bond {
    /// The side of the new process, in what it is to hold.
    pub(crate) fn bind_child(self, held: &mut Held, parent: Pid) {
        if self.link {
            held.links.insert(parent, ());
        }
        if let Some(reference) = self.monitor {
            held.monitored_by.insert(reference, parent);
        }
    }

    /// The side of the process that spawned it, which runs on this thread.
    pub(crate) fn bind_parent(self, own: Slot, pid: Pid, child: Pid) {
        if !self.link && self.monitor.is_none() {
            return;
        }
        let Some(mut locked) = Locked::of_live(own, pid) else { return };
        let held = locked.held();
        if self.link {
            held.links.insert(child, ());
        }
        if let Some(reference) = self.monitor {
            held.monitors.insert(reference, child);
        }
    }
}

/// An exit signal on its way, which its process cannot trap.
#[derive(Debug)]
pub(crate) struct ExitSignal {
    /// The link that it came through.
    pub(crate) link: Option<Pid>,
    pub(crate) reason: ExitReason,
}

impl Shared {
    pub(crate) fn locked(&self, pid: Pid) -> Option<Locked> {
        self.slab.slot(pid).and_then(|slot| Locked::of_live(slot, pid))
    }

    /// Links two processes, the first of which runs on this thread.
    pub(crate) fn link(&self, own: Slot, pid: Pid, other: Pid) {
        if pid == other {
            return;
        }
        // A process that runs on this thread is alive.
        let (Some(mut locked), peer) = self.locked_both(own, pid, other) else { return };
        if locked.held().links.insert(other, ()).is_some() {
            // Whoever has just ended will find the link and tell why.
            return;
        }
        if let Some(mut peer) = peer {
            peer.held().links.insert(pid, ());
            return;
        }
        drop(locked);
        self.exit_by_link(pid, other, &ExitReason::NoProcess);
    }

    /// Locks the process that runs on this thread and another.
    fn locked_both(&self, own: Slot, pid: Pid, other: Pid) -> (Option<Locked>, Option<Locked>) {
        match self.slab.slot(other) {
            Some(slot) => Locked::of_both((own, pid), (slot, other)),
            None => (Locked::of_live(own, pid), None),
        }
    }

    /// Ends a link; an exit signal that came through it and was not obeyed yet goes with it.
    pub(crate) fn unlink(&self, own: Slot, pid: Pid, other: Pid) {
        // Dropped after the locks: what a reason carries may need them as it goes.
        let mut forgotten = Vec::new();
        let (own, peer) = self.locked_both(own, pid, other);
        if let Some(mut own) = own {
            let held = own.held();
            held.links.remove(&other);
            forgotten.extend(held.exit_signals.extract_if(.., |signal| signal.link == Some(other)));
        }
        if let Some(mut peer) = peer {
            peer.held().links.remove(&pid);
        }
    }

    /// Monitors `target` for the process that runs on this thread; nobody is told of an end of its own.
    pub(crate) fn monitor(&self, own: Slot, pid: Pid, target: Pid) -> MonitorRef {
        let reference = self.references.next();
        if pid == target {
            return reference;
        }
        if let Some(mut locked) = Locked::of_live(own, pid) {
            locked.held().monitors.insert(reference, target);
        }
        match self.locked(target) {
            Some(mut locked) => drop(locked.held().monitored_by.insert(reference, pid)),
            None => self.down(pid, reference, target, &ExitReason::NoProcess),
        }
        reference
    }

    /// Ends the monitor `reference` of `pid` with a message in place of its [`Down`]; hands `value` back if the monitor has
    /// ended.
    pub(crate) fn answer<T, M: Send + 'static>(
        &self,
        pid: Pid,
        reference: MonitorRef,
        value: T,
        message: impl FnOnce(T) -> M,
    ) -> Option<T> {
        let Some(mut locked) = self.locked(pid) else { return Some(value) };
        if locked.held().monitors.remove(&reference).is_none() {
            return Some(value);
        }
        self.deliver_message(locked, pid, message(value));
        None
    }

    /// Takes the target's side of a monitor away that was answered.
    pub(crate) fn forget_monitor(&self, target: Pid, reference: MonitorRef) {
        if let Some(mut locked) = self.locked(target) {
            locked.held().monitored_by.remove(&reference);
        }
    }

    /// Ends a monitor; false if it has ended, because the target has.
    pub(crate) fn demonitor(&self, own: Slot, pid: Pid, reference: MonitorRef) -> bool {
        let target = Locked::of_live(own, pid).and_then(|mut locked| locked.held().monitors.remove(&reference));
        if let Some(target) = target {
            self.forget_monitor(target, reference);
        }
        target.is_some()
    }

    /// Decides whether the process that runs on this thread gets exit signals as messages, and gives what was before.
    ///
    /// Signals that have come before are obeyed all the same.
    pub(crate) fn trap_exits(own: Slot, pid: Pid, trap: bool) -> bool {
        let Some(_locked) = Locked::of_live(own, pid) else { return false };
        let flags = &own.cell().flags;
        let before =
            if trap { flags.fetch_or(TRAPS, Ordering::Relaxed) } else { flags.fetch_and(!TRAPS, Ordering::Relaxed) };
        before & TRAPS != 0
    }

    /// Sends an exit signal; `from` is who sends it, if a process does.
    pub(crate) fn exit(&self, from: Option<Pid>, pid: Pid, reason: ExitReason) {
        if let Some(locked) = self.locked(pid) {
            self.exit_locked(from, pid, reason, locked);
        }
    }

    pub(crate) fn exit_locked(&self, from: Option<Pid>, pid: Pid, reason: ExitReason, locked: Locked) {
        let slot = locked.slot();
        if reason == ExitReason::Killed {
            deliver_signal(slot, locked, ExitSignal { link: None, reason });
        } else if traps(slot) {
            self.deliver_message(locked, pid, Exit { from: from.unwrap_or(Pid::NONE), reason });
        } else if reason != ExitReason::Normal || from == Some(pid) {
            deliver_signal(slot, locked, ExitSignal { link: None, reason });
        }
    }

    /// Tells `pid` that `other`, which it was linked to, has ended.
    fn exit_by_link(&self, pid: Pid, other: Pid, reason: &ExitReason) {
        let Some(slot) = self.slab.slot(pid) else { return };
        let Some(mut locked) = Locked::of_live(slot, pid) else { return };
        if locked.held().links.remove(&other).is_none() {
            return;
        }
        if traps(slot) {
            self.deliver_message(locked, pid, Exit { from: other, reason: reason.clone() });
        } else if *reason != ExitReason::Normal {
            deliver_signal(slot, locked, ExitSignal { link: Some(other), reason: reason.clone() });
        }
    }

    /// Tells `pid` that `target`, which it monitors by `reference`, has ended.
    fn down(&self, pid: Pid, reference: MonitorRef, target: Pid, reason: &ExitReason) {
        let Some(slot) = self.slab.slot(pid) else { return };
        let Some(mut locked) = Locked::of_live(slot, pid) else { return };
        if locked.held().monitors.remove(&reference).is_some() {
            self.deliver_message(locked, pid, Down { reference, pid: target, reason: reason.clone() });
        }
    }

    fn deliver_message<T: Send + 'static>(&self, locked: Locked, pid: Pid, message: T) {
        deliver_letter(locked, post::letter(self, self.local(), pid, message));
    }

    /// This thread's scheduler, if it is one of this runtime.
    pub(crate) fn local<'a>(&self) -> Option<&'a Local> {
        scheduler::local().filter(|local| std::ptr::eq(&raw const *local.shared, self))
    }

    /// Tells everybody whom the end of `pid` concerns.
    pub(crate) fn part(&self, pid: Pid, held: &mut Held, reason: &ExitReason) {
        held.links.drain(|other, ()| self.exit_by_link(other, pid, reason));
        held.monitored_by.drain(|reference, watcher| self.down(watcher, reference, pid, reason));
        held.monitors.drain(|reference, target| self.forget_monitor(target, reference));
    }
}

/// Puts a letter into a mailbox whether it has room or not, and only then lets go of the lock: whoever takes the lock next
/// finds it delivered.
pub(crate) fn deliver_letter(locked: Locked, letter: Letter) {
    post::post_anyway(locked.slot(), letter, || drop(locked));
}

fn traps(slot: Slot) -> bool {
    slot.cell().flags.load(Ordering::Relaxed) & TRAPS != 0
}

/// Leaves an exit signal for a process, which obeys it when it runs next.
fn deliver_signal(slot: Slot, mut locked: Locked, signal: ExitSignal) {
    if signal.reason == ExitReason::Killed && signal.link.is_none() {
        // No box for it: a million processes may be killed at once.
        slot.cell().flags.fetch_or(KILLED, Ordering::Relaxed);
    } else {
        locked.held().exit_signals.push(signal);
    }
    drop(locked);
    if slot.cell().gate.signal() {
        enqueue(slot, false);
    }
}
