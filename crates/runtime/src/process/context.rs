//! [`Context`]: the handle that the body of a process receives to act on itself and on other processes.

pub(crate) mod blocking;

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::links::bonds::LinkOptions;
use crate::links::registry::{RegisterError, SideTables};
use crate::links::signal::{Down, Exit, MonitorRef};
use crate::mailbox::message::Message;
use crate::mailbox::queue::Envelope;
use crate::mailbox::send::{SendOutcome, envelope, send_envelope, send_or_wait};
use crate::mailbox::unreceived::Wanted;
use crate::observe::inspect::ended::EndedBy;
use crate::process::error::{SpawnError, TrySendError};
use crate::process::exit::{ExitReason, Outcome};
use crate::process::header::{WAIT_SEND, WAIT_SLEEP};
use crate::process::pid::Pid;
use crate::process::running::{Running, Search};
use crate::process::table::Slot;
use crate::runtime::crashes::Called;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler;

/// A handle to the current process and its runtime, passed to the body of the process.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let sum = runtime.block_on(|ctx| async move {
///     let me = ctx.pid();
///     for number in 1..=3 {
///         ctx.spawn(move |ctx| async move { ctx.send(me, number).await });
///     }
///     ctx.receive_of::<i32>().await + ctx.receive_of::<i32>().await + ctx.receive_of::<i32>().await
/// });
/// assert_eq!(sum, 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// Methods panic when they are used outside the process that the context belongs to, for example after the context was
/// moved into another task. Such a use is always a bug.
pub struct Context {
    pid: Pid,
    /// Slot of the process. It is only compared: a cheap check that the process is the running one.
    slot: Slot,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({})", self.pid)
    }
}

impl Context {
    pub(crate) const fn new(pid: Pid, slot: Slot) -> Self {
        Self { pid, slot }
    }

    #[inline]
    pub(crate) fn running(&self) -> Running<'_> {
        match scheduler::local() {
            Some(local) if local.is_running(self.slot, self.pid.generation()) => Running { slot: self.slot, local },
            _ => self.panic_outside_process(),
        }
    }

    /// Returns true if this thread is running the process.
    pub(crate) fn is_running(&self) -> bool {
        scheduler::local().is_some_and(|local| local.is_running(self.slot, self.pid.generation()))
    }

    #[cold]
    fn panic_outside_process(&self) -> ! {
        panic!("the context of process {} was used outside of that process", self.pid)
    }

    /// Returns the pid of this process.
    #[inline]
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns the name of this process for log lines.
    pub(crate) fn called(&self) -> Called {
        self.running().local.shared.called(self.pid)
    }

    /// Returns the pid of the process that spawned this one; `None` if it was spawned from outside.
    pub fn parent(&self) -> Option<Pid> {
        self.running().slot.parent_pid()
    }

    /// Spawns a process.
    ///
    /// # Panics
    /// If the process limit is reached; [`try_spawn`](Self::try_spawn) returns an error instead.
    #[inline]
    pub fn spawn<B, F>(&self, body: B) -> Pid
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        match self.try_spawn(body) {
            Ok(pid) => pid,
            Err(error) => panic!("{error}"),
        }
    }

    /// Spawns a process, without a panic at the process limit.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] if the process limit is reached.
    #[inline]
    pub fn try_spawn<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.running().spawn(0, body)
    }

    /// Spawns a process that runs only on one scheduler, given by its number from 0.
    ///
    /// Other schedulers never steal the process: it shares no core with the processes that they run, but it waits while
    /// its own scheduler is busy. Use it only for work that must stay on one core; an unpinned process runs sooner.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] if the process limit is reached, [`SpawnError::NoScheduler`] if the number is too high.
    pub fn spawn_pinned<B, F>(&self, scheduler: usize, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.running();
        running.spawn(running.local.shared.pin(scheduler)?, body)
    }

    /// Sends a value to a process, and waits while its mailbox is full.
    ///
    /// A message to a process that has ended is dropped without an error, as in Erlang. To learn of the end of the
    /// receiver, [`monitor`](Self::monitor) it.
    ///
    /// # Panics
    /// If the receiver is on another node and the type is not exported by both nodes; see
    /// [`Exports`](crate::remote::Exports). [`try_send`](Self::try_send) returns an error instead.
    #[inline]
    pub fn send<T: Send + 'static>(&self, to: Pid, value: T) -> Sending<'_, T> {
        // Write the value directly into its message node: moving a value that was just written stalls the processor.
        let envelope = match scheduler::local() {
            Some(local) => envelope(&local.shared, Some(local), to, value),
            None => self.panic_outside_process(),
        };
        Sending { context: self, to, envelope: Some(envelope), kind: PhantomData }
    }

    /// Sends a value to a process without waiting.
    ///
    /// # Errors
    /// [`TrySendError`], which returns the message, if the mailbox is full, the process has ended, or the message cannot
    /// be sent to its node.
    #[inline]
    pub fn try_send<T: Send + 'static>(&self, to: Pid, value: T) -> Result<(), TrySendError> {
        let running = self.running();
        let local = running.local;
        {
            let envelope = envelope(&local.shared, Some(local), to, value);
            TrySendError::of(send_envelope(&local.shared, Some(local), to, envelope), &local.shared, to)
        }
    }

    /// Waits for the next message.
    ///
    /// Dropping the future loses no message: a message leaves the mailbox only when the future returns it.
    #[inline]
    pub fn receive(&self) -> Receive<'_> {
        Receive { context: self }
    }

    /// Waits at most `timeout` for the next message. Zero does not wait: it only takes a message that is already there.
    pub async fn receive_timeout(&self, timeout: Duration) -> Option<Message> {
        self.within(timeout, self.receive()).await
    }

    /// Waits for the first message that `wanted` accepts; other messages stay in the mailbox.
    pub fn receive_match<'a>(&'a self, wanted: impl FnMut(&Message) -> bool + Send + 'a) -> ReceiveMatch<'a> {
        ReceiveMatch { context: self, wanted: Box::new(wanted), search: Search::START }
    }

    /// Waits at most `timeout` for the first message that `wanted` accepts.
    pub async fn receive_match_timeout(
        &self,
        timeout: Duration,
        wanted: impl FnMut(&Message) -> bool + Send,
    ) -> Option<Message> {
        self.within(timeout, self.receive_match(wanted)).await
    }

    /// Waits for the first message that carries a `T`; other messages stay in the mailbox.
    #[inline]
    pub fn receive_of<T: Send + 'static>(&self) -> ReceiveOf<'_, T> {
        ReceiveOf { context: self, search: Search::START, kind: PhantomData }
    }

    /// Sleeps for `duration`, with a resolution of one millisecond.
    pub async fn sleep(&self, duration: Duration) {
        let mut sleep = pin!(tokio::time::sleep(duration));
        std::future::poll_fn(|cx| {
            self.running().record_wait(WAIT_SLEEP);
            sleep.as_mut().poll(cx)
        })
        .await;
    }

    /// Lets the other runnable processes run first.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            let running = self.running();
            running.yield_now();
            running.register_waker(cx);
            Poll::Pending
        })
        .await;
    }

    /// Runs blocking code on a thread outside the schedulers, so that it blocks no scheduler. If the system starts no
    /// thread, the code waits until it does.
    ///
    /// # Panics
    /// If the code panics, with the same panic.
    pub async fn spawn_blocking<T: Send + 'static>(&self, code: impl FnOnce() -> T + Send + 'static) -> T {
        match blocking::run(code).await {
            Some(Ok(value)) => value,
            Some(Err(payload)) => std::panic::resume_unwind(payload),
            None => unreachable!("blocking code is cancelled only after its process has ended"),
        }
    }

    /// Registers a name for this process, by which other processes find it.
    ///
    /// # Errors
    /// [`RegisterError`] if another process has the name, or if the name is empty or too long.
    pub fn register(&self, name: &str) -> Result<(), RegisterError> {
        let running = self.running();
        running.local.shared.side_tables.register(running.slot, self.pid, name)
    }

    /// Returns the process that is registered under a name.
    pub fn whereis(&self, name: &str) -> Option<Pid> {
        self.running().local.shared.side_tables.whereis(name)
    }

    /// Sets the label that observers show for this process. Unlike a name, a label need not be unique.
    ///
    /// A label longer than [`NAME_MAX_BYTES`](crate::NAME_MAX_BYTES) is truncated.
    pub fn set_label(&self, label: impl Into<Arc<str>>) {
        let running = self.running();
        SideTables::set_label(running.slot, self.pid, label.into());
    }

    /// Sends an exit signal: the process ends with `reason`, or receives an [`Exit`](crate::Exit) if it traps exits.
    ///
    /// [`ExitReason::Killed`] cannot be trapped. Another process ignores [`ExitReason::Normal`] if it does not trap
    /// exits. If a process signals itself, it ends at its next await that has to
    /// wait; return instead to end at once.
    pub fn exit(&self, pid: Pid, reason: ExitReason) {
        let shared = &self.running().local.shared;
        if reason == ExitReason::Killed {
            // A kill does not carry its sender.
            shared.ended.note(pid, EndedBy::Process(self.pid));
        }
        shared.exit(Some(self.pid), pid, reason);
    }

    /// Ends this process at its next await that has to wait, also if it traps exits.
    pub(crate) fn end_by_itself(&self, reason: ExitReason) {
        self.running().local.shared.end_by_itself(self.pid, reason);
    }

    /// Notes that this process ends because of an exit signal that it has trapped, and not by itself.
    pub(crate) fn note_end(&self, exit: &Exit) {
        if exit.from != Pid::NONE && !exit.reason.is_normal() {
            self.running().local.shared.ended.note(self.pid, EndedBy::Link(exit.from));
        }
    }

    /// Spawns a process and links it to this one, atomically.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] if the process limit is reached.
    pub fn spawn_link<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.running().spawn_linked(LinkOptions { link: true, monitor: None }, body)
    }

    /// Spawns a process and monitors it, atomically.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] if the process limit is reached.
    pub fn spawn_monitor<B, F>(&self, body: B) -> Result<(Pid, MonitorRef), SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.running();
        let reference = running.local.shared.next_reference();
        let pid = running.spawn_linked(LinkOptions { link: false, monitor: Some(reference) }, body)?;
        Ok((pid, reference))
    }

    /// Links this process to another: when one ends abnormally, the other receives an exit signal.
    ///
    /// A second link between the same two processes changes nothing. If `other` has already ended, this process
    /// receives an exit signal with [`ExitReason::NoProcess`].
    pub fn link(&self, other: Pid) {
        let running = self.running();
        running.local.shared.link(running.slot, self.pid, other);
    }

    /// Removes a link. From this call on the link causes no exit signal, but an earlier [`Exit`](crate::Exit) may still
    /// be in the mailbox.
    pub fn unlink(&self, other: Pid) {
        let running = self.running();
        running.local.shared.unlink(running.slot, self.pid, other);
    }

    /// Monitors another process: this process receives one [`Down`](crate::Down) when the other ends, or at once if it
    /// has already ended.
    ///
    /// A process that monitors itself receives no [`Down`](crate::Down): such a monitor counts as ended from the start.
    pub fn monitor(&self, target: Pid) -> MonitorRef {
        let running = self.running();
        running.local.shared.monitor(running.slot, self.pid, target)
    }

    /// Ends a monitor. Returns false if its [`Down`](crate::Down) is already in the mailbox or was received.
    pub fn demonitor(&self, reference: MonitorRef) -> bool {
        let running = self.running();
        running.local.shared.demonitor(running.slot, self.pid, reference)
    }

    /// Ends a monitor and removes its [`Down`](crate::Down) from the mailbox if it is there. Returns false if the
    /// monitor had already ended, as [`demonitor`](Self::demonitor) does.
    pub fn demonitor_flush(&self, reference: MonitorRef) -> bool {
        let ended = self.demonitor(reference);
        if !ended {
            self.remove_down(reference);
        }
        ended
    }

    /// Removes the [`Down`](crate::Down) of a monitor from the mailbox. Returns false if it is not there.
    pub(crate) fn remove_down(&self, reference: MonitorRef) -> bool {
        let mut is_down =
            |message: &Message| message.downcast_ref::<Down>().is_some_and(|down| down.reference == reference);
        self.running().take_match(Search::START, &mut is_down).is_some()
    }

    /// Sets whether exit signals arrive as [`Exit`](crate::Exit) messages instead of ending this process, and returns
    /// the previous setting. Signals that arrived before the call still end the process.
    pub fn trap_exits(&self, trap: bool) -> bool {
        let running = self.running();
        RuntimeShared::trap_exits(running.slot, self.pid, trap)
    }
}

/// Future returned by [`Context::send`].
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let me = ctx.pid();
///     let sending = ctx.send(me, 7_u32); // nothing is sent yet
///     sending.await;
///     assert_eq!(ctx.receive_of::<u32>().await, 7);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited: the message is not sent"]
pub struct Sending<'a, T> {
    context: &'a Context,
    to: Pid,
    envelope: Option<Envelope>,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Sending<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sending({})", self.to)
    }
}

impl<T: Send + 'static> Future for Sending<'_, T> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let running = self.context.running();
        if running.is_preempted(cx) {
            return Poll::Pending;
        }
        let (local, to) = (running.local, self.to);
        let Some(envelope) = self.envelope.take() else { return Poll::Ready(()) };
        match send_envelope(&local.shared, Some(local), to, envelope) {
            SendOutcome::Sent => Poll::Ready(()),
            SendOutcome::NoProcess(envelope) => drop_unsent(&running, to, envelope, cx),
            SendOutcome::Full(envelope) => {
                self.envelope = send_or_wait(&local.shared, Some(local), to, envelope, cx.waker());
                if self.envelope.is_none() {
                    return Poll::Ready(());
                }
                running.record_wait(WAIT_SEND);
                if to == running.pid() {
                    running.note_wait(Wanted::Room);
                }
                Poll::Pending
            }
        }
    }
}

/// Drops a message to a process that has ended. No mailbox holds up a process that sends those in a loop, so it uses up
/// the budget of its turn.
#[cold]
#[inline(never)]
fn drop_unsent(running: &Running<'_>, to: Pid, envelope: Envelope, cx: &TaskContext<'_>) -> Poll<()> {
    running.local.shared.drop_unsent(to, envelope);
    if running.consume_budget(cx) { Poll::Ready(()) } else { Poll::Pending }
}

/// Future returned by [`Context::receive`].
///
/// It takes the oldest message, of any type:
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     ctx.send(ctx.pid(), "tea").await;
///     ctx.send(ctx.pid(), 7_u32).await;
///     let message = ctx.receive().await;
///     assert_eq!(message.downcast::<&str>().ok(), Some("tea"));
///     assert!(ctx.receive().await.is::<u32>());
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited: no message is received"]
#[derive(Debug)]
pub struct Receive<'a> {
    context: &'a Context,
}

impl Future for Receive<'_> {
    type Output = Message;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Message> {
        let running = self.context.running();
        if running.is_preempted(cx) {
            return Poll::Pending;
        }
        if let Some(message) = running.receive() {
            return Poll::Ready(message);
        }
        running.record_wait_for_message(cx);
        Poll::Pending
    }
}

/// Future returned by [`Context::receive_match`].
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     for number in [3_u32, 40, 5] {
///         ctx.send(ctx.pid(), number).await;
///     }
///     let large = ctx.receive_match(|message| message.downcast_ref::<u32>().is_some_and(|number| *number > 9)).await;
///     assert_eq!(large.downcast::<u32>().ok(), Some(40));
///     // The others stay in the mailbox, in their order.
///     assert_eq!(ctx.receive_of::<u32>().await, 3);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited: no message is received"]
pub struct ReceiveMatch<'a> {
    context: &'a Context,
    wanted: Box<dyn FnMut(&Message) -> bool + Send + 'a>,
    search: Search,
}

impl fmt::Debug for ReceiveMatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiveMatch({})", self.context.pid)
    }
}

impl Future for ReceiveMatch<'_> {
    type Output = Message;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Message> {
        let this = &mut *self;
        let running = this.context.running();
        if running.is_preempted(cx) {
            return Poll::Pending;
        }
        if let Some(message) = running.receive_match(&mut this.search, &mut *this.wanted) {
            return Poll::Ready(message);
        }
        running.record_wait_for_message(cx);
        running.note_unreceived(Wanted::Match);
        Poll::Pending
    }
}

/// Future returned by [`Context::receive_of`].
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     ctx.send(ctx.pid(), "tea").await;
///     ctx.send(ctx.pid(), 7_u32).await;
///     assert_eq!(ctx.receive_of::<u32>().await, 7);
///     // Messages of other types stay in the mailbox.
///     assert_eq!(ctx.receive_of::<&str>().await, "tea");
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "futures do nothing unless awaited: no message is received"]
pub struct ReceiveOf<'a, T> {
    context: &'a Context,
    search: Search,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for ReceiveOf<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReceiveOf({})", self.context.pid)
    }
}

impl<T: Send + 'static> Future for ReceiveOf<'_, T> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        let running = self.context.running();
        if running.is_preempted(cx) {
            return Poll::Pending;
        }
        if let Some(value) = running.receive_of(&mut self.search) {
            return Poll::Ready(value);
        }
        running.record_wait_for_message(cx);
        running.note_unreceived(Wanted::Type(type_name::<T>));
        Poll::Pending
    }
}
