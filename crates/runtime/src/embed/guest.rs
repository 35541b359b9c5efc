//! Services of the core for processes whose body is a guest of an engine.
//!
//! A guest is preempted, is started with its ties and name set, sends short messages inline, and may be confined to
//! processes that it knows.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::cell::{CONFINED, HOLDS, NAMED, READS_SHORT, TRAPS, WAIT_RECEIVE, WAIT_SEND, WAIT_SLEEP};
use crate::engines::Engine;
use crate::error::SpawnError;
use crate::events::EventKind;
use crate::exit::Outcome;
use crate::holdings::{Holdings, RegisterError};
use crate::observe::Extra;
use crate::runtime::Shared;
use crate::scheduler::{self, Local};
use crate::signal::Bond;
use crate::slab::Slot;
pub use crate::tagged::{Charge, ChargedBytes};
use crate::{Context, ExitReason, Handle, Message, MonitorRef, Pid};

/// Name, label and ties of a process, set before its first instruction.
#[derive(Clone, Debug, Default)]
pub struct Beginning {
    /// Name to register.
    pub name: Option<Arc<str>>,
    /// Label that observers show.
    pub label: Option<Arc<str>>,
    /// True if it is linked to its parent.
    pub link: bool,
    /// True if its parent monitors it.
    pub monitor: bool,
    /// Scheduler to which the process is pinned.
    pub scheduler: Option<usize>,
}

impl Beginning {
    fn flags(&self, shared: &Shared, mailbox: MailboxBounds) -> Result<u16, NotBegun> {
        let pinned = self.scheduler.map_or(Ok(0), |scheduler| shared.pin(scheduler)).map_err(NotBegun::Spawn)?;
        Ok(pinned | READS_SHORT | if mailbox.confined { CONFINED } else { 0 })
    }
}

/// Bounds of the mailbox of a guest, and of what it may send.
#[derive(Clone, Copy, Debug)]
pub struct MailboxBounds {
    /// The guest may send only to processes that it knows.
    pub confined: bool,
    /// Capacity of its mailbox, in messages; `None` for the default of the runtime.
    pub capacity: Option<u32>,
}

impl MailboxBounds {
    fn set_capacity(self, slot: Slot) {
        if let Some(capacity) = self.capacity {
            slot.cell().capacity.store(capacity, Ordering::Relaxed);
        }
    }
}

/// Registers the name of a new process; kills the process if that fails.
fn name(shared: &Shared, slot: Slot, pid: Pid, beginning: &Beginning) -> Option<RegisterError> {
    let refused = shared.holdings.register(slot, pid, beginning.name.as_deref()?).err()?;
    shared.exit(None, pid, ExitReason::Killed);
    Some(refused)
}

/// Reason why a process was not started.
#[derive(Debug)]
pub enum NotBegun {
    /// The runtime accepts no more processes.
    Spawn(SpawnError),
    /// The name is taken or not valid.
    Name(RegisterError),
}

/// Next step of a process for which no message was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Receive as usual.
    Ask,
    /// Return pending once: the wait is recorded already. Then receive as usual.
    Noted,
}

/// Access of an engine to the process that runs a guest.
#[derive(Clone, Copy, Debug)]
pub struct GuestContext<'a>(pub &'a Context);

impl GuestContext<'_> {
    /// Returns true if this process started `pid`, and `pid` is alive.
    pub fn is_child(self, pid: Pid) -> bool {
        let shared = &self.0.running().local.shared;
        let own = (self.0.pid().slot(), self.0.pid().generation());
        pid.node() == 0 && shared.is_alive(pid) && shared.slab.slot(pid).is_some_and(|slot| slot.parent() == own)
    }

    /// Returns the oldest message. Without one, the process must wait for a message, or first for its turn.
    ///
    /// # Errors
    /// [`Pause`] with the next step.
    #[inline]
    pub fn take_now(self) -> Result<Message, Pause> {
        let running = self.0.running();
        // A seeded schedule decides at each receive which process continues.
        if running.local.chance.is_some() {
            return Err(Pause::Ask);
        }
        running.receive().ok_or_else(|| {
            running.waits_for(WAIT_RECEIVE);
            Pause::Noted
        })
    }

    /// Returns true if `to` accepts messages in the form of short bytes, which only guests read. If it has ended
    /// meanwhile, the message is never read.
    #[inline]
    pub fn reads_short(self, to: Pid) -> bool {
        let Some(slot) = self.0.running().local.shared.slab.slot(to) else { return false };
        let cell = slot.cell();
        // In this order: the flag is cleared before the generation is incremented.
        cell.generation.load(Ordering::Acquire) == to.generation()
            && cell.flags.load(Ordering::Relaxed) & READS_SHORT != 0
    }

    /// Returns true if `other` has introduced itself to this process.
    pub fn knows(self, other: Pid) -> bool {
        Holdings::knows(self.0.running().slot, self.0.pid(), other)
    }

    /// Introduces another process to this one.
    pub fn meet(self, other: Pid) {
        Holdings::introduce(self.0.running().slot, self.0.pid(), other);
    }

    /// Returns true if the mailbox has room for something that is delivered without checking: a message, or an exit
    /// signal if `to` traps exits. The mailbox of a process that does not exist has room.
    pub fn has_room_at(self, to: Pid, is_exit: bool) -> bool {
        let shared = &self.0.running().local.shared;
        let Some(slot) = shared.slab.slot(to).filter(|_| shared.is_alive(to)) else { return true };
        let cell = slot.cell();
        let is_message = !is_exit || cell.flags.load(Ordering::Relaxed) & TRAPS != 0;
        !is_message || shared.has_room(cell, cell.gate.pending(), 0)
    }

    /// Refuses a link by an exit signal, as for a process that does not exist. Kills this process if its mailbox is
    /// full: it keeps asking and never reads the refusals.
    pub fn be_refused(self, other: Pid, words: String) {
        let shared = &self.0.running().local.shared;
        if self.has_room_at(self.0.pid(), true) {
            shared.exit(Some(other), self.0.pid(), ExitReason::other(words));
        } else {
            tracing::warn!(pid = %self.0.pid(), "the mailbox of a guest is full of refusals: the guest is killed");
            shared.exit(None, self.0.pid(), ExitReason::Killed);
        }
    }

    /// Number of names, group memberships and group monitors of this process.
    pub fn holdings_count(self) -> usize {
        Holdings::count(self.0.running().slot, self.0.pid())
    }

    /// Adds bytes that the body allocated outside of its control block to the memory of this process.
    pub fn account_memory(self, bytes: u64) {
        let running = self.0.running();
        let held = &running.slot.cell().future_bytes;
        let all = u64::from(held.load(Ordering::Relaxed)).saturating_add(bytes);
        held.store(u32::try_from(all).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Starts a process with its ties and name set before its first instruction; `by_guest` if this process is a guest.
    ///
    /// # Errors
    /// [`NotBegun`] with the reason.
    pub fn spawn_begun<B, F>(
        &self,
        by_guest: bool,
        beginning: &Beginning,
        mailbox: MailboxBounds,
        extra: Arc<dyn Extra>,
        body: B,
    ) -> Result<(Pid, Option<MonitorRef>), NotBegun>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.0.running();
        let shared = &running.local.shared;
        let mut flags = HOLDS | beginning.flags(shared, mailbox)?;
        let mut held = running.local.take_held();
        held.extra = Some(extra);
        if let Some(label) = &beginning.label {
            held.set_label(Arc::clone(label));
            flags |= NAMED;
        }
        let mut bond = Bond { link: beginning.link, monitor: None };
        if beginning.name.is_none() {
            bond.monitor = beginning.monitor.then(|| shared.references.next());
            bond.bind_child(&mut held, self.0.pid());
        }
        let (mut monitor, mut refused) = (bond.monitor, None);
        let begin = |slot, pid| {
            mailbox.set_capacity(slot);
            if beginning.name.is_none() {
                return bond.bind_parent(running.slot, self.0.pid(), pid);
            }
            refused = name(shared, slot, pid, beginning);
            if refused.is_none() {
                if beginning.link {
                    shared.link(running.slot, self.0.pid(), pid);
                }
                monitor = beginning.monitor.then(|| shared.monitor(running.slot, self.0.pid(), pid));
            }
        };
        let pid = running.spawn_begun(by_guest, flags, held, begin, body).map_err(NotBegun::Spawn)?;
        refused.map_or(Ok((pid, monitor)), |refused| Err(NotBegun::Name(refused)))
    }

    /// Records that the process waits for room in a mailbox.
    pub fn waits_for_room(self) {
        self.0.running().waits_for(WAIT_SEND);
    }

    /// Records an event for observers; the closure runs only if events are recorded now.
    pub fn note(self, event: impl FnOnce() -> EventKind) {
        self.0.running().local.note(event);
    }

    /// Returns the time since the start of the runtime.
    pub fn elapsed(self) -> Duration {
        self.0.running().local.shared.started.elapsed()
    }

    /// Returns the runtime of the process.
    #[inline]
    pub fn runtime(&self) -> RuntimeRef<'_> {
        RuntimeRef(&self.0.running().local.shared)
    }
}

/// Starts a process from outside the runtime, so without ties.
///
/// # Errors
/// [`NotBegun`] with the reason.
pub fn spawn_from_outside<B, F>(
    runtime: &Handle,
    beginning: &Beginning,
    mailbox: MailboxBounds,
    extra: Arc<dyn Extra>,
    body: B,
) -> Result<Pid, NotBegun>
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let flags = beginning.flags(&runtime.shared, mailbox)?;
    let (slot, unsettled) = runtime.shared.take_slot().map_err(NotBegun::Spawn)?;
    let mut refused = None;
    let bind = |pid| {
        mailbox.set_capacity(slot);
        Holdings::set_extra(slot, pid, extra);
        if let Some(label) = &beginning.label {
            Holdings::set_label(slot, pid, Arc::clone(label));
        }
        refused = name(&runtime.shared, slot, pid, beginning);
    };
    let pid = crate::spawn::from_outside((slot, unsettled), flags, bind, body);
    refused.map_or(Ok(pid), |refused| Err(NotBegun::Name(refused)))
}

/// A borrowed runtime.
#[derive(Clone, Copy)]
pub struct RuntimeRef<'a>(&'a Arc<Shared>);

impl std::fmt::Debug for RuntimeRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RuntimeRef").field(&Arc::as_ptr(self.0)).finish()
    }
}

impl<'a> From<&'a Handle> for RuntimeRef<'a> {
    fn from(runtime: &'a Handle) -> Self {
        Self(&runtime.shared)
    }
}

impl RuntimeRef<'_> {
    /// Returns the address of the runtime, which no other runtime has while a [`RuntimeGuard`] of it exists.
    #[inline]
    pub fn address(self) -> usize {
        Arc::as_ptr(self.0).addr()
    }

    /// Shows an engine to the observers of the runtime.
    pub fn show_engine(self, engine: Weak<dyn Engine>) -> RuntimeGuard {
        self.0.engines.show(engine);
        RuntimeGuard(Arc::downgrade(self.0))
    }

    /// Returns the limit on the bytes of the messages in all mailboxes.
    pub fn mailbox_total_bytes(self) -> u64 {
        self.0.config.mailbox_total_bytes
    }
}

/// Keeps the address of a runtime from being reused, without keeping the runtime alive.
#[derive(Clone, Debug, Default)]
pub struct RuntimeGuard(#[expect(dead_code, reason = "held for its address")] Weak<Shared>);

/// Returns the number of this thread's scheduler; 0 on other threads.
#[inline]
pub fn scheduler_number() -> usize {
    scheduler::local().map_or(0, Local::number)
}

/// Records that the running process used up its time slice, so that it queues behind ready processes.
#[inline]
pub fn poll_is_long() {
    if let Some(local) = scheduler::local() {
        local.poll_is_long();
    }
}

/// Queues the guests that the running guest has spawned, at the end of its poll.
#[inline]
pub fn start_children() {
    if let Some(local) = scheduler::local() {
        local.start_children();
    }
}

/// Records that the running process sleeps.
pub fn waits_for_time() {
    if let Some(running) = scheduler::local().and_then(Local::running) {
        running.waits_for(WAIT_SLEEP);
    }
}
