//! Services of the core for processes with a guest of an engine as their body.
//!
//! A guest is preempted, is started with its links, monitors and name set, sends short messages inline, and may be
//! confined to processes that it knows.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::links::bonds::LinkOptions;
use crate::links::registry::{RegisterError, SideTables};
pub use crate::mailbox::tagged::{Charge, ChargedBytes};
use crate::observe::BodyInfo;
use crate::observe::events::EventKind;
use crate::observe::extensions::engines::Engine;
use crate::process::error::SpawnError;
use crate::process::exit::Outcome;
use crate::process::header::{
    CONFINED, HAS_SIDE_TABLE, NAMED, READS_SHORT, TRAPS, WAIT_RECEIVE, WAIT_SEND, WAIT_SLEEP,
};
use crate::process::table::Slot;
use crate::runtime::shared::RuntimeShared;
use crate::runtime::{crashes, panics};
use crate::scheduler::{self, Local};
use crate::{Context, ExitReason, Handle, Message, MonitorRef, Pid, Watch};

/// Properties of a process that are set before its first instruction.
#[derive(Clone, Debug, Default)]
pub struct SpawnParams {
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

impl SpawnParams {
    fn flags(&self, shared: &RuntimeShared, mailbox: MailboxBounds) -> Result<u16, SpawnFailure> {
        let pinned = self.scheduler.map_or(Ok(0), |scheduler| shared.pin(scheduler)).map_err(SpawnFailure::Spawn)?;
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
            slot.header().capacity.store(capacity, Ordering::Relaxed);
        }
    }
}

/// Registers the name of a new process; kills the process if that fails.
fn name(shared: &RuntimeShared, slot: Slot, pid: Pid, options: &SpawnParams) -> Option<RegisterError> {
    let refused = shared.side_tables.register(slot, pid, options.name.as_deref()?).err()?;
    shared.exit(None, pid, ExitReason::Killed);
    Some(refused)
}

/// Reason why a process was not started.
#[derive(Debug)]
pub enum SpawnFailure {
    /// The runtime accepts no more processes.
    Spawn(SpawnError),
    /// The name is taken or not valid.
    Name(RegisterError),
}

/// Next step of a process for which no message was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveWait {
    /// Receive as usual.
    Receive,
    /// Return pending once: the wait is recorded already. Then receive as usual.
    Recorded,
}

/// Access of an engine to the process that runs a guest.
#[derive(Clone, Copy, Debug)]
pub struct GuestContext<'a>(pub &'a Context);

impl GuestContext<'_> {
    /// Returns true if this process started `pid`, and `pid` is alive.
    pub fn is_child(self, pid: Pid) -> bool {
        let shared = &self.0.running().local.shared;
        let own = (self.0.pid().slot(), self.0.pid().generation());
        pid.node() == 0 && shared.is_alive(pid) && shared.table.slot(pid).is_some_and(|slot| slot.parent() == own)
    }

    /// Removes the [`Down`](crate::Down) of a monitor from the mailbox. Returns false if it is not there.
    pub fn remove_down(self, reference: MonitorRef) -> bool {
        self.0.remove_down(reference)
    }

    /// Returns the oldest message. Without one, the process must wait for a message, or first for its turn.
    ///
    /// # Errors
    /// [`ReceiveWait`] with the next step.
    #[inline]
    pub fn try_receive(self) -> Result<Message, ReceiveWait> {
        let running = self.0.running();
        // A seeded schedule decides at each receive which process continues.
        if running.local.fuzzer.is_some() {
            return Err(ReceiveWait::Receive);
        }
        running.receive().ok_or_else(|| {
            running.record_wait(WAIT_RECEIVE);
            ReceiveWait::Recorded
        })
    }

    /// Returns true if `to` accepts messages in the form of short bytes, which only guests read. If it has ended
    /// meanwhile, the message is never read.
    #[inline]
    pub fn accepts_inline(self, to: Pid) -> bool {
        let Some(slot) = self.0.running().local.shared.table.slot(to) else { return false };
        let header = slot.header();
        // In this order: the flag is cleared before the generation is incremented.
        header.generation.load(Ordering::Acquire) == to.generation()
            && header.flags.load(Ordering::Relaxed) & READS_SHORT != 0
    }

    /// Returns true if `other` has introduced itself to this process.
    pub fn is_acquainted(self, other: Pid) -> bool {
        SideTables::is_acquainted(self.0.running().slot, self.0.pid(), other)
    }

    /// Introduces another process to this one.
    pub fn introduce(self, other: Pid) {
        let running = self.0.running();
        SideTables::introduce(running.slot, self.0.pid(), other, |pid| running.local.shared.is_alive(pid));
    }

    /// Returns true if the mailbox has room for something that is delivered without checking: a message, or an exit
    /// signal if `to` traps exits. The mailbox of a process that does not exist has room.
    pub fn mailbox_has_room(self, to: Pid, is_exit: bool) -> bool {
        let shared = &self.0.running().local.shared;
        let Some(slot) = shared.table.slot(to).filter(|_| shared.is_alive(to)) else { return true };
        let header = slot.header();
        let is_message = !is_exit || header.flags.load(Ordering::Relaxed) & TRAPS != 0;
        !is_message || shared.has_room(header, header.gate.pending(), 0)
    }

    /// Returns true if every process that monitors the group has room in its mailbox for an event, which is delivered
    /// without checking.
    pub fn group_monitors_have_room(self, group: &str) -> bool {
        let monitors = self.0.running().local.shared.group_monitors(group);
        monitors.into_iter().all(|pid| self.mailbox_has_room(pid, false))
    }

    /// Refuses a link by an exit signal, as for a process that does not exist. Kills this process if its mailbox is
    /// full: it keeps asking and never reads the refusals.
    pub fn refuse_link(self, other: Pid, text: String) {
        let shared = &self.0.running().local.shared;
        if self.mailbox_has_room(self.0.pid(), true) {
            shared.exit(Some(other), self.0.pid(), ExitReason::other(text));
        } else if !self.0.running().slot.header().gate.is_signalled() {
            // Once: the guest may ask again before it obeys the kill.
            if let Some(skipped) = shared.crash_log.notices.take() {
                let guest = shared.called(self.0.pid());
                panics::contain(|| crashes::log_full_of_refusals(&guest, skipped));
            }
            shared.exit(None, self.0.pid(), ExitReason::Killed);
        }
    }

    /// Number of names, group memberships and group monitors of this process.
    pub fn name_and_group_count(self) -> usize {
        SideTables::count(self.0.running().slot, self.0.pid())
    }

    /// Adds bytes that the body allocated outside of its control block to the memory of this process.
    pub fn account_memory(self, bytes: u64) {
        let running = self.0.running();
        let held = &running.slot.header().future_bytes;
        let all = u64::from(held.load(Ordering::Relaxed)).saturating_add(bytes);
        held.store(u32::try_from(all).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Makes a guest of the running process, which keeps its body: sets its description for observers and the bounds of
    /// its mailbox. Returns a context of the process for the guest.
    pub fn become_guest(self, mailbox: MailboxBounds, body_info: Arc<dyn BodyInfo>) -> Context {
        let running = self.0.running();
        SideTables::set_body_info(running.slot, self.0.pid(), body_info);
        mailbox.set_capacity(running.slot);
        if mailbox.confined {
            running.slot.header().flags.fetch_or(CONFINED, Ordering::Relaxed);
        }
        Context::new(self.0.pid(), running.slot)
    }

    /// Starts a process with its links, monitors and name set before its first instruction; `by_guest` if this process
    /// is a guest. `watched` is set to a watch on it.
    ///
    /// # Errors
    /// [`SpawnFailure`] with the reason.
    pub fn spawn_guest<B, F>(
        &self,
        by_guest: bool,
        options: &SpawnParams,
        mailbox: MailboxBounds,
        body_info: Arc<dyn BodyInfo>,
        watched: Option<&mut Option<Watch>>,
        body: B,
    ) -> Result<(Pid, Option<MonitorRef>), SpawnFailure>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.0.running();
        let shared = &running.local.shared;
        let mut flags = HAS_SIDE_TABLE | options.flags(shared, mailbox)?;
        let mut side_table = running.local.take_side_table();
        side_table.body_info = Some(body_info);
        if let Some(label) = &options.label {
            side_table.set_label(Arc::clone(label));
            flags |= NAMED;
        }
        let mut link_options = LinkOptions { link: options.link, monitor: None };
        if options.name.is_none() {
            link_options.monitor = options.monitor.then(|| shared.next_reference());
            link_options.apply_to_child(&mut side_table, self.0.pid());
        }
        let (mut monitor, mut refused) = (link_options.monitor, None);
        let begin = |slot, pid| {
            mailbox.set_capacity(slot);
            if let Some(end) = watched {
                *end = Some(Handle::new(Arc::clone(shared)).watch(pid));
            }
            if options.name.is_none() {
                return link_options.apply_to_parent(running.slot, self.0.pid(), pid);
            }
            refused = name(shared, slot, pid, options);
            if refused.is_none() {
                if options.link {
                    shared.link(running.slot, self.0.pid(), pid);
                }
                monitor = options.monitor.then(|| shared.monitor(running.slot, self.0.pid(), pid));
            }
        };
        let pid = running.spawn_initialised(by_guest, flags, side_table, begin, body).map_err(SpawnFailure::Spawn)?;
        refused.map_or(Ok((pid, monitor)), |refused| Err(SpawnFailure::Name(refused)))
    }

    /// Records that the process waits for room in a mailbox.
    pub fn waits_for_room(self) {
        self.0.running().record_wait(WAIT_SEND);
    }

    /// Records an event for observers; the closure runs only if events are recorded now.
    pub fn record_event(self, event: impl FnOnce() -> EventKind) {
        self.0.running().local.record_event(event);
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

/// Starts a process from outside the runtime, so without a parent.
///
/// # Errors
/// [`SpawnFailure`] with the reason.
pub fn spawn_guest_external<B, F>(
    runtime: &Handle,
    options: &SpawnParams,
    mailbox: MailboxBounds,
    body_info: Arc<dyn BodyInfo>,
    body: B,
) -> Result<Pid, SpawnFailure>
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let flags = options.flags(&runtime.shared, mailbox)?;
    let (slot, unsettled) = runtime.shared.take_slot().map_err(SpawnFailure::Spawn)?;
    let mut refused = None;
    let bind = |pid| {
        mailbox.set_capacity(slot);
        SideTables::set_body_info(slot, pid, body_info);
        if let Some(label) = &options.label {
            SideTables::set_label(slot, pid, Arc::clone(label));
        }
        refused = name(&runtime.shared, slot, pid, options);
    };
    let pid = crate::process::spawn::spawn_external((slot, unsettled), flags, bind, body);
    refused.map_or(Ok(pid), |refused| Err(SpawnFailure::Name(refused)))
}

/// A borrowed runtime.
#[derive(Clone, Copy)]
pub struct RuntimeRef<'a>(&'a Arc<RuntimeShared>);

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
        self.0.engines.register(engine);
        RuntimeGuard(Arc::downgrade(self.0))
    }

    /// Returns the limit on the bytes of the messages in all mailboxes.
    pub fn mailbox_total_bytes(self) -> u64 {
        self.0.config.mailbox_total_bytes
    }
}

/// Keeps the address of a runtime from being reused, without keeping the runtime alive.
#[derive(Clone, Debug, Default)]
pub struct RuntimeGuard(#[expect(dead_code, reason = "held for its address")] Weak<RuntimeShared>);

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
        running.record_wait(WAIT_SLEEP);
    }
}
