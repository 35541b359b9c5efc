//! Spawning: turns a closure into a scheduled process.

#![expect(unsafe_code, reason = "initialises a slot that the spawner owns until its gate opens")]

use std::future::Future;
use std::sync::atomic::Ordering;

use crate::cell::HOLDS;
use crate::context::Context;
use crate::error::SpawnError;
use crate::exit::Outcome;
use crate::holdings::Held;
use crate::pid::Pid;
use crate::running::Running;
use crate::runtime::Shared;
use crate::signal::Bond;

use crate::slab::Slot;

/// Returns the slot if the body's closure panics. The closure may have passed on the pid, which must never refer to
/// another process: so the generation is used up.
struct Unborn<G: FnMut(Slot)>(Slot, G);

impl<G: FnMut(Slot)> Drop for Unborn<G> {
    fn drop(&mut self) {
        let Self(slot, give) = self;
        let (next_generation, _) = slot.cell().retire(slot.pid().generation());
        if next_generation != 0 {
            give(*slot);
        }
    }
}

/// A process that an outside thread is creating. A shutdown waits for it.
pub(crate) struct Unsettled<'a>(&'a Shared);

impl<'a> Unsettled<'a> {
    pub(crate) fn begin(shared: &'a Shared) -> Self {
        // Increment before checking `closing`. A shutdown sets `closing` before it reads this counter: one side sees
        // the other.
        shared.unsettled.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        self.0.unsettled.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Origin and flags of a new process.
#[derive(Clone, Copy)]
struct Origin {
    parent: Option<Pid>,
    born_ms: u32,
    flags: u16,
}

/// Fills a free slot with a process that is ready to run. The caller puts it into a run queue.
#[inline]
fn settle<B, F>(
    shared: &Shared,
    slot: Slot,
    origin: Origin,
    held: Option<Box<Held>>,
    body: B,
    give: impl FnMut(Slot),
) -> Pid
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let Origin { parent, born_ms, flags } = origin;
    let pid = slot.pid();
    let unborn = Unborn(slot, give);
    let future = body(Context::new(pid, slot));
    std::mem::forget(unborn);
    // SAFETY: the slot comes from a free list, and no other thread accesses its body until the gate opens.
    let kind = unsafe { slot.clear_body(parent, held) }.install(future);
    slot.cell().admit(flags, kind.heap_bytes, shared.config.mailbox_capacity, born_ms);
    pid
}

impl Running<'_> {
    /// Starts a process on this scheduler, unless the flags pin it to another one.
    #[inline]
    pub(crate) fn spawn<B, F>(&self, flags: u16, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let (slot, pid) = self.unborn(flags, None, body)?;
        self.local.enqueue(slot, false);
        Ok(pid)
    }

    /// Starts a process that is linked to this one or monitored by it.
    pub(crate) fn spawn_bound<B, F>(&self, bond: Bond, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        // `brief` applies only to the new process, not to what the closure of its body queues.
        let brief = self.local.brief.replace(false);
        let mut held = self.local.take_held();
        bond.bind_child(&mut held, self.pid());
        let (slot, pid) = self.unborn(HOLDS, Some(held), body)?;
        bond.bind_parent(self.slot, self.pid(), pid);
        self.local.brief.set(brief);
        self.local.enqueue(slot, false);
        self.local.brief.set(false);
        Ok(pid)
    }

    /// Starts a process with a side table. `begin` is called with it before its first poll, which comes after the poll
    /// of this process if this is a guest.
    pub(crate) fn spawn_begun<B, F>(
        &self,
        by_guest: bool,
        flags: u16,
        held: Box<Held>,
        begin: impl FnOnce(Slot, Pid),
        body: B,
    ) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let brief = self.local.brief.replace(false);
        let (slot, pid) = self.unborn(flags, Some(held), body)?;
        begin(slot, pid);
        if by_guest {
            self.local.hold_child(slot);
            return Ok(pid);
        }
        self.local.brief.set(brief);
        self.local.enqueue(slot, false);
        self.local.brief.set(false);
        Ok(pid)
    }

    /// Creates a process that is not in a run queue yet, although its gate says so.
    #[inline]
    fn unborn<B, F>(&self, flags: u16, held: Option<Box<Held>>, body: B) -> Result<(Slot, Pid), SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let local = self.local;
        let slot = local.take_slot().ok_or_else(|| local.shared.at_limit())?;
        let give = |slot| local.give_slot(slot);
        let origin = Origin { parent: Some(self.pid()), born_ms: local.now_ms(), flags };
        let pid = settle(&local.shared, slot, origin, held, body, give);
        local.count_spawn();
        Ok((slot, pid))
    }
}

/// Starts a process from a thread that is not a scheduler of this runtime. `bind` is called with its pid before it
/// runs.
pub(crate) fn from_outside<B, F>(
    (slot, unsettled): (Slot, Unsettled<'_>),
    flags: u16,
    bind: impl FnOnce(Pid),
    body: B,
) -> Pid
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let shared = unsettled.0;
    let born_ms = shared.started.elapsed().as_millis() as u32;
    let order = shared.next_root();
    let origin = Origin { parent: None, born_ms, flags };
    let pid = settle(shared, slot, origin, None, body, |slot| shared.give_slot(slot));
    shared.outside_spawned.fetch_add(1, Ordering::Relaxed);
    shared.holdings.add_root(slot, pid, order);
    bind(pid);
    shared.inject(slot);
    pid
}
