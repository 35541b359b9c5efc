//! A runtime as seen from outside of its processes; cheap to clone.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use crate::cell::TRAPS;
use crate::config::Config;
use crate::context::Context;
use crate::error::{SpawnError, TrySendError};
use crate::exit::{ExitReason, Outcome};
use crate::holdings::{Holdings, RegisterError};
use crate::pid::Pid;
use crate::post::{Posted, letter, post, wait_to_post};
use crate::runtime::Shared;
use crate::spawn;

/// A handle to a runtime; it works from any thread and outlives the runtime harmlessly.
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// What the runtime was started with.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Starts a process.
    ///
    /// # Errors
    /// [`SpawnError`] at the process limit and when the runtime shuts down.
    pub fn spawn<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let slot = self.shared.take_slot()?;
        Ok(spawn::from_outside(slot, 0, |_| {}, body))
    }

    /// Starts a process that only the scheduler of this number runs; see [`Context::spawn_pinned`].
    ///
    /// # Errors
    /// [`SpawnError`] at the process limit, for a number too high, and when the runtime shuts down.
    pub fn spawn_pinned<B, F>(&self, scheduler: usize, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let flags = self.shared.pin(scheduler)?;
        let slot = self.shared.take_slot()?;
        Ok(spawn::from_outside(slot, flags, |_| {}, body))
    }

    /// The same, anywhere, of a process that traps exits from its first instant.
    pub(crate) fn spawn_trapping<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let slot = self.shared.take_slot()?;
        Ok(spawn::from_outside(slot, TRAPS, |_| {}, body))
    }

    /// Sends a value to a process, and waits while its mailbox is full; to a process that has ended it vanishes.
    pub async fn send<T: Send + 'static>(&self, to: Pid, value: T) {
        let mut waiting = Some(letter(&self.shared, None, to, value));
        poll_fn(|cx| {
            let Some(value) = waiting.take() else {
                return Poll::Ready(());
            };
            match post(&self.shared, None, to, value) {
                Posted::Sent | Posted::NoProcess(_) => Poll::Ready(()),
                Posted::Full(back) => {
                    waiting = wait_to_post(&self.shared, None, to, back, cx.waker());
                    if waiting.is_some() { Poll::Pending } else { Poll::Ready(()) }
                }
            }
        })
        .await;
    }

    /// Sends a value to a process, now or not at all.
    ///
    /// # Errors
    /// [`TrySendError`] hands the message back.
    pub fn try_send<T: Send + 'static>(&self, to: Pid, value: T) -> Result<(), TrySendError> {
        TrySendError::of(post(&self.shared, None, to, letter(&self.shared, None, to, value)), &self.shared, to)
    }

    /// Asks a process to end with `reason`; [`ExitReason::Killed`] cannot be refused, [`ExitReason::Normal`] is ignored.
    pub fn exit(&self, pid: Pid, reason: ExitReason) {
        self.shared.exit(None, pid, reason);
    }

    /// Whether the process lives.
    pub fn is_alive(&self, pid: Pid) -> bool {
        self.shared.is_alive(pid)
    }

    /// Processes alive.
    pub fn process_count(&self) -> u64 {
        self.shared.live()
    }

    /// Processes ever spawned.
    pub fn spawned(&self) -> u64 {
        self.shared.spawned()
    }

    /// Watches for the end of a process, from this call on.
    pub fn watch(&self, pid: Pid) -> Watch {
        let (tell, told) = oneshot::channel();
        let slot = self.shared.slab.slot(pid);
        let alive = slot.is_some_and(|slot| Holdings::watch(slot, pid, tell));
        Watch(alive.then_some(told))
    }

    /// Waits, blocking this thread, for the end of a process; [`ExitReason::NoProcess`] at once if it has ended.
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn wait(&self, pid: Pid) -> ExitReason {
        self.watch(pid).wait()
    }

    /// Gives a process a name that others find it by.
    ///
    /// # Errors
    /// [`RegisterError`] when another process has the name, the process has ended, or the name is empty or too long.
    pub fn register(&self, pid: Pid, name: &str) -> Result<(), RegisterError> {
        let slot = self.shared.slab.slot(pid).ok_or(RegisterError::NoProcess { pid })?;
        self.shared.holdings.register(slot, pid, name)
    }

    /// Takes a name away; false if nobody had it.
    pub fn unregister(&self, name: &str) -> bool {
        self.shared.holdings.unregister(name, |pid| self.shared.slab.slot(pid))
    }

    /// The process that has a name.
    pub fn whereis(&self, name: &str) -> Option<Pid> {
        self.shared.holdings.whereis(name)
    }
}

/// The coming end of a process, with its reason; [`ExitReason::NoProcess`] if it had ended before the watch began.
#[derive(Debug)]
#[must_use = "the reason comes by awaiting this, or by `wait`"]
pub struct Watch(Option<oneshot::Receiver<ExitReason>>);

impl Watch {
    /// Waits, blocking this thread.
    ///
    /// # Panics
    /// On a scheduler's thread, which must not block.
    pub fn wait(self) -> ExitReason {
        self.0.and_then(|told| told.blocking_recv().ok()).unwrap_or(ExitReason::NoProcess)
    }
}

impl Future for Watch {
    type Output = ExitReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<ExitReason> {
        match &mut self.0 {
            Some(told) => Pin::new(told).poll(cx).map(|reason| reason.unwrap_or(ExitReason::NoProcess)),
            None => Poll::Ready(ExitReason::NoProcess),
        }
    }
}
