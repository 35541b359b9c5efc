//! [`Handle`]: access to a runtime from outside its processes.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::oneshot;

use crate::links::registry::{RegisterError, SideTables};
use crate::mailbox::send::{SendOutcome, envelope, send_envelope, send_or_wait};
use crate::process::context::Context;
use crate::process::error::{SpawnError, TrySendError};
use crate::process::exit::{ExitReason, Outcome};
use crate::process::header::TRAPS;
use crate::process::pid::Pid;
use crate::process::spawn;
use crate::runtime::config::Config;
use crate::runtime::shared::RuntimeShared;

/// A handle to a runtime, usable from any thread; cheap to clone. It may safely outlive the runtime.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let handle: rusm::Handle = runtime.clone();
/// let printer = handle.spawn(|ctx| async move {
///     println!("{}", ctx.receive_of::<String>().await);
/// })?;
/// std::thread::spawn(move || handle.try_send(printer, "from a thread".to_owned()));
/// runtime.wait(printer);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(crate) shared: Arc<RuntimeShared>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Handle {
    pub(crate) const fn new(shared: Arc<RuntimeShared>) -> Self {
        Self { shared }
    }

    /// Returns the configuration that the runtime was started with.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Spawns a process.
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached or the runtime is shutting down.
    pub fn spawn<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let slot = self.shared.take_slot()?;
        Ok(spawn::spawn_external(slot, 0, |_| {}, body))
    }

    /// Spawns a process, and watches it from its start: the future returns its exit reason.
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached or the runtime is shutting down.
    pub fn spawn_monitored<B, F>(&self, body: B) -> Result<(Pid, Watch), SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let slot = self.shared.take_slot()?;
        let mut end = None;
        let pid = spawn::spawn_external(slot, 0, |pid| end = Some(self.watch(pid)), body);
        Ok((pid, end.unwrap_or_else(|| self.watch(pid))))
    }

    /// Spawns a process that runs only on one scheduler; see [`Context::spawn_pinned`].
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached, the number is too high, or the runtime is shutting down.
    pub fn spawn_pinned<B, F>(&self, scheduler: usize, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let flags = self.shared.pin(scheduler)?;
        let slot = self.shared.take_slot()?;
        Ok(spawn::spawn_external(slot, flags, |_| {}, body))
    }

    /// Spawns a process that traps exits from the start and may run on any scheduler.
    pub(crate) fn spawn_trapping<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let slot = self.shared.take_slot()?;
        Ok(spawn::spawn_external(slot, TRAPS, |_| {}, body))
    }

    /// Sends a value to a process, and waits while its mailbox is full. If the process has ended, the value is dropped.
    ///
    /// # Panics
    /// If the receiver is on another node and the type is not exported; see [`Context::send`].
    pub async fn send<T: Send + 'static>(&self, to: Pid, value: T) {
        let mut waiting = Some(envelope(&self.shared, None, to, value));
        poll_fn(|cx| {
            let Some(value) = waiting.take() else {
                return Poll::Ready(());
            };
            match send_envelope(&self.shared, None, to, value) {
                SendOutcome::Sent => Poll::Ready(()),
                SendOutcome::NoProcess(envelope) => {
                    self.shared.drop_unsent(to, envelope);
                    Poll::Ready(())
                }
                SendOutcome::Full(back) => {
                    waiting = send_or_wait(&self.shared, None, to, back, cx.waker());
                    if waiting.is_some() { Poll::Pending } else { Poll::Ready(()) }
                }
            }
        })
        .await;
    }

    /// Sends a value to a process without waiting.
    ///
    /// # Errors
    /// [`TrySendError`], which returns the message, if the mailbox is full or the process has ended.
    pub fn try_send<T: Send + 'static>(&self, to: Pid, value: T) -> Result<(), TrySendError> {
        TrySendError::of(
            send_envelope(&self.shared, None, to, envelope(&self.shared, None, to, value)),
            &self.shared,
            to,
        )
    }

    /// Sends an exit signal: the process ends with `reason`, or receives an [`Exit`](crate::Exit) if it traps exits.
    ///
    /// [`ExitReason::Killed`] cannot be trapped. A process that does not trap exits ignores [`ExitReason::Normal`].
    pub fn exit(&self, pid: Pid, reason: ExitReason) {
        self.shared.exit(None, pid, reason);
    }

    /// Returns true if the process is alive.
    pub fn is_alive(&self, pid: Pid) -> bool {
        self.shared.is_alive(pid)
    }

    /// Returns the number of live processes.
    pub fn process_count(&self) -> u64 {
        self.shared.live()
    }

    /// Returns the number of processes ever spawned.
    pub fn spawned(&self) -> u64 {
        self.shared.spawned()
    }

    /// Returns a future that waits for the end of a process. It watches from this call on, even before its first poll.
    pub fn watch(&self, pid: Pid) -> Watch {
        if pid.node() != 0 {
            return Watch(self.watch_remote(pid));
        }
        let (sender, receiver) = oneshot::channel();
        let slot = self.shared.table.slot(pid);
        let alive = slot.is_some_and(|slot| SideTables::watch(slot, pid, sender));
        Watch(alive.then_some(receiver))
    }

    /// Blocks this thread until a process ends, and returns the reason; [`ExitReason::NoProcess`] if it ended before.
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn wait(&self, pid: Pid) -> ExitReason {
        self.watch(pid).wait()
    }

    /// Registers a name for a process, by which other processes find it.
    ///
    /// # Errors
    /// [`RegisterError`] if another process has the name, the process has ended, or the name is empty or too long.
    pub fn register(&self, pid: Pid, name: &str) -> Result<(), RegisterError> {
        let slot = self.shared.table.slot(pid).ok_or(RegisterError::NoProcess { pid })?;
        self.shared.side_tables.register(slot, pid, name)
    }

    /// Removes a name from its process. Returns false if no process had the name.
    pub fn unregister(&self, name: &str) -> bool {
        self.shared.side_tables.unregister(name, |pid| self.shared.table.slot(pid))
    }

    /// Returns the process that is registered under a name.
    pub fn whereis(&self, name: &str) -> Option<Pid> {
        self.shared.side_tables.whereis(name)
    }
}

impl Context {
    /// Returns a handle to the runtime of this process.
    pub fn runtime(&self) -> Handle {
        Handle::new(Arc::clone(&self.running().local.shared))
    }
}

/// Future returned by [`Handle::watch`]: completes with the exit reason when the process ends, or at once with
/// [`ExitReason::NoProcess`] if the process had ended before the call.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let (_, end) = runtime.spawn_monitored(|_| async { rusm::ExitReason::Shutdown })?;
/// assert_eq!(end.wait(), rusm::ExitReason::Shutdown);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "await this, or call `wait`, to get the exit reason"]
pub struct Watch(Option<oneshot::Receiver<ExitReason>>);

impl Watch {
    /// Blocks this thread until the process ends, and returns the exit reason.
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn wait(self) -> ExitReason {
        self.0.and_then(|receiver| receiver.blocking_recv().ok()).unwrap_or(ExitReason::NoProcess)
    }
}

impl Future for Watch {
    type Output = ExitReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<ExitReason> {
        match &mut self.0 {
            Some(receiver) => Pin::new(receiver).poll(cx).map(|reason| reason.unwrap_or(ExitReason::NoProcess)),
            None => Poll::Ready(ExitReason::NoProcess),
        }
    }
}
