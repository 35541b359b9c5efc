//! Services of the core that only guests use.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cell::{CONFINED, HOLDS, NAMED, READS_SHORT, TRAPS, WAIT_RECEIVE};
use crate::error::SpawnError;
use crate::exit::Outcome;
use crate::holdings::{Holdings, RegisterError};
use crate::observe::Extra;
use crate::runtime::Shared;
use crate::signal::Bond;
use crate::slab::Slot;
use crate::{Context, ExitReason, Handle, Message, MonitorRef, Pid};

/// Name, label and ties of a process, set before its first instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) link: bool,
    pub(crate) monitor: bool,
    /// Scheduler to which the process is pinned.
    pub(crate) scheduler: Option<usize>,
}

impl Beginning {
    fn flags(&self, shared: &Shared, post: Post) -> Result<u16, NotBegun> {
        let pinned = self.scheduler.map_or(Ok(0), |scheduler| shared.pin(scheduler)).map_err(NotBegun::Spawn)?;
        Ok(pinned | READS_SHORT | if post.confined { CONFINED } else { 0 })
    }
}

/// Bounds of the messages of a guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Post {
    /// The guest may send only to processes that it knows.
    pub(crate) confined: bool,
    /// Capacity of its mailbox, in messages; `None` for the default of the runtime.
    pub(crate) capacity: Option<u32>,
}

impl Post {
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
pub(crate) enum NotBegun {
    Spawn(SpawnError),
    Name(RegisterError),
}

/// Next step of a process for which no message was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Receive as usual.
    Ask,
    /// Return pending once: the wait is recorded already. Then receive as usual.
    Noted,
}

impl Context {
    /// Returns true if this process started `pid`, and `pid` is alive.
    pub(crate) fn is_child(&self, pid: Pid) -> bool {
        let shared = &self.running().local.shared;
        let own = (self.pid().slot(), self.pid().generation());
        pid.node() == 0 && shared.is_alive(pid) && shared.slab.slot(pid).is_some_and(|slot| slot.parent() == own)
    }

    /// Returns the oldest message. Without one, the process must wait for a message, or first for its turn.
    #[inline]
    pub(crate) fn take_now(&self) -> Result<Message, Pause> {
        let running = self.running();
        // A seeded schedule decides at each receive which process continues.
        if running.local.chance.is_some() {
            return Err(Pause::Ask);
        }
        running.receive().ok_or_else(|| {
            running.waits_for(WAIT_RECEIVE);
            Pause::Noted
        })
    }

    /// Returns true if `to` accepts messages in the form of [`ShortBytes`](super::short::ShortBytes). If it has ended
    /// meanwhile, the message is never read.
    #[inline]
    pub(crate) fn reads_short(&self, to: Pid) -> bool {
        let Some(slot) = self.running().local.shared.slab.slot(to) else { return false };
        let cell = slot.cell();
        // In this order: the flag is cleared before the generation is incremented.
        cell.generation.load(Ordering::Acquire) == to.generation()
            && cell.flags.load(Ordering::Relaxed) & READS_SHORT != 0
    }

    /// Returns true if `other` has introduced itself to this process.
    pub(crate) fn knows(&self, other: Pid) -> bool {
        Holdings::knows(self.running().slot, self.pid(), other)
    }

    /// Introduces another process to this one.
    pub(crate) fn meet(&self, other: Pid) {
        Holdings::introduce(self.running().slot, self.pid(), other);
    }

    /// Returns true if the mailbox has room for something that is delivered without checking: a message, or an exit
    /// signal if `to` traps exits. The mailbox of a process that does not exist has room.
    pub(crate) fn has_room_at(&self, to: Pid, is_exit: bool) -> bool {
        let shared = &self.running().local.shared;
        let Some(slot) = shared.slab.slot(to).filter(|_| shared.is_alive(to)) else { return true };
        let cell = slot.cell();
        let is_message = !is_exit || cell.flags.load(Ordering::Relaxed) & TRAPS != 0;
        !is_message || shared.has_room(cell, cell.gate.pending(), 0)
    }

    /// Refuses a link by an exit signal, as for a process that does not exist. Kills this process if its mailbox is
    /// full: it keeps asking and never reads the refusals.
    pub(crate) fn be_refused(&self, other: Pid, words: String) {
        let shared = &self.running().local.shared;
        if self.has_room_at(self.pid(), true) {
            shared.exit(Some(other), self.pid(), ExitReason::other(words));
        } else {
            tracing::warn!(pid = %self.pid(), "the mailbox of a guest is full of refusals: the guest is killed");
            shared.exit(None, self.pid(), ExitReason::Killed);
        }
    }

    /// Number of names, group memberships and group monitors of this process.
    pub(crate) fn holdings_count(&self) -> usize {
        Holdings::count(self.running().slot, self.pid())
    }

    /// Adds bytes that the body allocated outside of its control block to the memory of this process.
    pub(crate) fn account_memory(&self, bytes: u64) {
        let running = self.running();
        let held = &running.slot.cell().future_bytes;
        let all = u64::from(held.load(Ordering::Relaxed)).saturating_add(bytes);
        held.store(u32::try_from(all).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Starts a process with its ties and name set before its first instruction; `by_guest` if this process is a guest.
    pub(crate) fn spawn_begun<B, F>(
        &self,
        by_guest: bool,
        beginning: &Beginning,
        post: Post,
        extra: Arc<dyn Extra>,
        body: B,
    ) -> Result<(Pid, Option<MonitorRef>), NotBegun>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.running();
        let shared = &running.local.shared;
        let mut flags = HOLDS | beginning.flags(shared, post)?;
        let mut held = running.local.take_held();
        held.extra = Some(extra);
        if let Some(label) = &beginning.label {
            held.set_label(Arc::clone(label));
            flags |= NAMED;
        }
        let mut bond = Bond { link: beginning.link, monitor: None };
        if beginning.name.is_none() {
            bond.monitor = beginning.monitor.then(|| shared.references.next());
            bond.bind_child(&mut held, self.pid());
        }
        let (mut monitor, mut refused) = (bond.monitor, None);
        let begin = |slot, pid| {
            post.set_capacity(slot);
            if beginning.name.is_none() {
                return bond.bind_parent(running.slot, self.pid(), pid);
            }
            refused = name(shared, slot, pid, beginning);
            if refused.is_none() {
                if beginning.link {
                    shared.link(running.slot, self.pid(), pid);
                }
                monitor = beginning.monitor.then(|| shared.monitor(running.slot, self.pid(), pid));
            }
        };
        let pid = running.spawn_begun(by_guest, flags, held, begin, body).map_err(NotBegun::Spawn)?;
        refused.map_or(Ok((pid, monitor)), |refused| Err(NotBegun::Name(refused)))
    }
}

impl Handle {
    /// Starts a process from outside the runtime, so without ties.
    pub(crate) fn spawn_begun<B, F>(
        &self,
        beginning: &Beginning,
        post: Post,
        extra: Arc<dyn Extra>,
        body: B,
    ) -> Result<Pid, NotBegun>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let flags = beginning.flags(&self.shared, post)?;
        let (slot, unsettled) = self.shared.take_slot().map_err(NotBegun::Spawn)?;
        let mut refused = None;
        let bind = |pid| {
            post.set_capacity(slot);
            Holdings::set_extra(slot, pid, extra);
            if let Some(label) = &beginning.label {
                Holdings::set_label(slot, pid, Arc::clone(label));
            }
            refused = name(&self.shared, slot, pid, beginning);
        };
        let pid = crate::spawn::from_outside((slot, unsettled), flags, bind, body);
        refused.map_or(Ok(pid), |refused| Err(NotBegun::Name(refused)))
    }
}
