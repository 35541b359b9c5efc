//! Spawning: turns a closure into a scheduled process.

#![expect(unsafe_code, reason = "initialises a slot that the spawner owns until its gate opens")]

pub(crate) mod options;

use std::future::Future;
use std::sync::atomic::Ordering;

use crate::links::bonds::LinkOptions;
use crate::process::context::Context;
use crate::process::error::SpawnError;
use crate::process::exit::Outcome;
use crate::process::header::HAS_SIDE_TABLE;
use crate::process::pid::Pid;
use crate::process::running::Running;
use crate::process::side_table::SideTable;
use crate::process::table::Slot;
use crate::runtime::shared::{RuntimeShared, SpawnInProgress};
use crate::runtime::tear_down::end_late_spawn;

/// Returns the slot if the body's closure panics. The closure may have passed on the pid, which must never refer to
/// another process: so the generation is used up.
struct PendingSpawn<G: FnMut(Slot)>(Slot, G);

impl<G: FnMut(Slot)> Drop for PendingSpawn<G> {
    fn drop(&mut self) {
        let Self(slot, give) = self;
        let (next_generation, _) = slot.header().retire(slot.pid().generation());
        if next_generation != 0 {
            give(*slot);
        }
    }
}

/// Origin and flags of a new process.
#[derive(Clone, Copy)]
struct Origin {
    parent: Option<Pid>,
    spawned_ms: u64,
    flags: u16,
}

/// Fills a free slot with a process that is ready to run. The caller puts it into a run queue.
#[inline]
fn init_slot<B, F>(
    shared: &RuntimeShared,
    slot: Slot,
    origin: Origin,
    side_table: Option<Box<SideTable>>,
    body: B,
    give: impl FnMut(Slot),
) -> Pid
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let Origin { parent, spawned_ms, flags } = origin;
    let pid = slot.pid();
    let pending = PendingSpawn(slot, give);
    let future = body(Context::new(pid, slot));
    std::mem::forget(pending);
    // SAFETY: the slot comes from a free list, and no other thread accesses its body until the gate opens.
    let vtable = unsafe { slot.clear_body(parent, side_table) }.install(future);
    slot.header().activate(flags, vtable.heap_bytes, shared.config.mailbox_capacity, spawned_ms);
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
        let (slot, pid) = self.create_pending(flags, None, body)?;
        self.local.enqueue(slot, false);
        Ok(pid)
    }

    /// Starts a process that runs on this scheduler next: this process is about to wait for it.
    #[inline]
    pub(crate) fn spawn_next<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let (slot, pid) = self.create_pending(0, None, body)?;
        self.local.enqueue(slot, true);
        Ok(pid)
    }

    /// Starts a process that is linked to this one or monitored by it.
    pub(crate) fn spawn_linked<B, F>(&self, link_options: LinkOptions, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        // `ends_after_enqueue` applies only to the new process, not to what the closure of its body queues.
        let ends_after_enqueue = self.local.ends_after_enqueue.replace(false);
        let mut side_table = self.local.take_side_table();
        link_options.apply_to_child(&mut side_table, self.pid());
        let (slot, pid) = self.create_pending(HAS_SIDE_TABLE, Some(side_table), body)?;
        link_options.apply_to_parent(self.slot, self.pid(), pid);
        self.local.ends_after_enqueue.set(ends_after_enqueue);
        self.local.enqueue(slot, false);
        self.local.ends_after_enqueue.set(false);
        Ok(pid)
    }

    /// Starts a process with a side table. `begin` is called with it before its first poll, which comes after the poll
    /// of this process if this is a guest.
    pub(crate) fn spawn_initialised<B, F>(
        &self,
        by_guest: bool,
        flags: u16,
        side_table: Box<SideTable>,
        begin: impl FnOnce(Slot, Pid),
        body: B,
    ) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let ends_after_enqueue = self.local.ends_after_enqueue.replace(false);
        let (slot, pid) = self.create_pending(flags, Some(side_table), body)?;
        begin(slot, pid);
        if by_guest {
            self.local.hold_child(slot);
            return Ok(pid);
        }
        self.local.ends_after_enqueue.set(ends_after_enqueue);
        self.local.enqueue(slot, false);
        self.local.ends_after_enqueue.set(false);
        Ok(pid)
    }

    /// Creates a process that is not in a run queue yet, although its gate says so.
    #[inline]
    fn create_pending<B, F>(
        &self,
        flags: u16,
        side_table: Option<Box<SideTable>>,
        body: B,
    ) -> Result<(Slot, Pid), SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let local = self.local;
        let slot = local.take_slot().ok_or_else(|| local.shared.at_limit())?;
        let give = |slot| local.free_slot(slot);
        let origin = Origin { parent: Some(self.pid()), spawned_ms: local.now_ms(), flags };
        let pid = init_slot(&local.shared, slot, origin, side_table, body, give);
        local.count_spawn();
        Ok((slot, pid))
    }
}

/// Starts a process from a thread that is not a scheduler of this runtime. `bind` is called with its pid before it
/// runs.
pub(crate) fn spawn_external<B, F>(
    (slot, in_progress): (Slot, SpawnInProgress<'_>),
    flags: u16,
    bind: impl FnOnce(Pid),
    body: B,
) -> Pid
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let shared = in_progress.shared();
    let spawned_ms = shared.started.elapsed().as_millis() as u64;
    let order = shared.next_root();
    let origin = Origin { parent: None, spawned_ms, flags };
    let pid = init_slot(shared, slot, origin, None, body, |slot| shared.free_slot(slot));
    shared.outside_spawned.fetch_add(1, Ordering::Relaxed);
    shared.side_tables.add_root(slot, pid, order);
    bind(pid);
    shared.inject(slot);
    drop(in_progress);
    end_late_spawn(shared);
    pid
}

#[cfg(test)]
mod tests {
    use crate::process::header::ProcessHeader;

    #[test]
    fn the_time_of_a_spawn_is_known_after_years() {
        for spawned_ms in [0, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 10 * 365 * 86_400_000] {
            let header = ProcessHeader::free();
            header.activate(0, 0, 1, spawned_ms);
            assert_eq!(header.spawned_ms(), spawned_ms);
        }
    }
}
