//! Options of a spawn: the capacity of the mailbox, the label, a link and a scheduler, all set before the first poll.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::links::bonds::LinkOptions;
use crate::links::registry::SideTables;
use crate::process::context::Context;
use crate::process::error::SpawnError;
use crate::process::exit::Outcome;
use crate::process::header::{HAS_SIDE_TABLE, NAMED};
use crate::process::pid::Pid;
use crate::process::side_table_guard::SideTableGuard;
use crate::process::spawn;
use crate::process::table::Slot;
use crate::runtime::handle::Handle;
use crate::runtime::shared::RuntimeShared;

/// Properties of a new process, for [`Context::spawn_with`] and [`Handle::spawn_with`].
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime, SpawnOptions, TrySendError};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let options = SpawnOptions::default().mailbox_capacity(2).label("slow");
///     let slow = ctx.spawn_with(&options, |ctx| async move { ctx.sleep(std::time::Duration::from_secs(3600)).await })?;
///     for number in 0..2 {
///         ctx.send(slow, number).await;
///     }
///     // `send` would wait for room now.
///     assert!(matches!(ctx.try_send(slow, 3), Err(TrySendError::Full { .. })));
///     Ok::<(), rusm::SpawnError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SpawnOptions {
    mailbox_capacity: Option<u32>,
    label: Option<Arc<str>>,
    link: bool,
    scheduler: Option<usize>,
}

impl SpawnOptions {
    /// Sets the maximum number of messages in the mailbox, at least 1. Default: that of the [`Config`](crate::Config).
    ///
    /// If the mailbox is full, `send` waits, and `try_send` returns the message. Replies, exit signals and the ends of
    /// monitors are delivered regardless.
    pub fn mailbox_capacity(self, messages: u32) -> Self {
        Self { mailbox_capacity: Some(messages), ..self }
    }

    /// Sets the label that observers show.
    pub fn label(self, label: impl Into<Arc<str>>) -> Self {
        Self { label: Some(label.into()), ..self }
    }

    /// Links the process to its parent. A process without a parent ignores it.
    pub fn link(self) -> Self {
        Self { link: true, ..self }
    }

    /// Pins the process to a scheduler; see [`Context::spawn_pinned`].
    pub fn pinned(self, scheduler: usize) -> Self {
        Self { scheduler: Some(scheduler), ..self }
    }

    fn pin(&self, shared: &RuntimeShared) -> Result<u16, SpawnError> {
        self.scheduler.map_or(Ok(0), |scheduler| shared.pin(scheduler))
    }
}

impl Context {
    /// Spawns a process with options.
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached, or the scheduler does not exist.
    pub fn spawn_with<B, F>(&self, options: &SpawnOptions, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.running();
        let mut flags = HAS_SIDE_TABLE | options.pin(&running.local.shared)?;
        let mut side_table = running.local.take_side_table();
        if let Some(label) = &options.label {
            side_table.set_label(Arc::clone(label));
            flags |= NAMED;
        }
        let link_options = LinkOptions { link: options.link, monitor: None };
        link_options.apply_to_child(&mut side_table, self.pid());
        let begin = |slot, pid| {
            set_capacity(slot, options.mailbox_capacity);
            link_options.apply_to_parent(running.slot, self.pid(), pid);
        };
        running.spawn_initialised(false, flags, side_table, begin, body)
    }

    /// Sets the maximum number of messages in the mailbox of this process, at least 1; see
    /// [`SpawnOptions::mailbox_capacity`]. Messages that are there already stay.
    pub fn set_mailbox_capacity(&self, messages: u32) {
        RuntimeShared::set_mailbox_capacity(self.running().slot, self.pid(), messages);
    }
}

impl Handle {
    /// Spawns a process with options.
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached, the scheduler does not exist, or the runtime is shutting down.
    pub fn spawn_with<B, F>(&self, options: &SpawnOptions, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let flags = options.pin(&self.shared)?;
        let (slot, in_progress) = self.shared.take_slot()?;
        let bind = |pid| {
            set_capacity(slot, options.mailbox_capacity);
            if let Some(label) = &options.label {
                SideTables::set_label(slot, pid, Arc::clone(label));
            }
        };
        Ok(spawn::spawn_external((slot, in_progress), flags, bind, body))
    }

    /// Sets the capacity of the mailbox of a process. Without effect if the process has ended.
    pub(crate) fn set_mailbox_capacity(&self, pid: Pid, messages: u32) {
        if let Some(slot) = self.shared.table.slot(pid) {
            RuntimeShared::set_mailbox_capacity(slot, pid, messages);
        }
    }
}

/// Sets the capacity of a mailbox, before other processes know the process.
fn set_capacity(slot: Slot, messages: Option<u32>) {
    if let Some(messages) = messages {
        slot.header().capacity.store(messages.max(1), Ordering::Relaxed);
    }
}

impl RuntimeShared {
    /// Sets the capacity of the mailbox of a process that may run.
    pub(crate) fn set_mailbox_capacity(slot: Slot, pid: Pid, messages: u32) {
        // The lock keeps the slot from being given to another process meanwhile.
        let Some(locked) = SideTableGuard::lock_live(slot, pid) else { return };
        slot.header().capacity.store(messages.max(1), Ordering::Relaxed);
        drop(locked);
        // The new capacity may have room for senders that wait. Those without room wait again.
        Self::wake_waiting_senders(slot, pid);
    }
}
