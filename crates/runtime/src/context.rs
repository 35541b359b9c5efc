//! What a process can do: the handle that its body gets.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::cell::{WAIT_SEND, WAIT_SLEEP};
use crate::error::{SpawnError, TrySendError};
use crate::exit::{ExitReason, Outcome};
use crate::handle::Handle;
use crate::holdings::{Holdings, RegisterError};
use crate::mailbox::Letter;
use crate::message::Message;
use crate::pid::Pid;
use crate::post::{Posted, letter, post, wait_to_post};
use crate::running::{Running, Search};
use crate::runtime::Shared;
use crate::scheduler;
use crate::signal::{Bond, Down, MonitorRef};
use crate::slab::Slot;

/// The handle of a process to itself and to its runtime; the body of a process gets it and keeps it.
///
/// # Panics
/// Every method panics when it is called outside of the process that the context belongs to: a context that was moved
/// into another task is a mistake that nothing can make work.
pub struct Context {
    pid: Pid,
    /// Where the process lives; only compared, to tell cheaply whether it is the one that runs.
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
            _ => self.stray(),
        }
    }

    /// Whether this thread runs the process.
    pub(crate) fn is_running(&self) -> bool {
        scheduler::local().is_some_and(|local| local.is_running(self.slot, self.pid.generation()))
    }

    #[cold]
    fn stray(&self) -> ! {
        panic!("the context of process {} was used outside of that process", self.pid)
    }

    /// The process's own pid.
    #[inline]
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// The process that spawned this one, if it was one.
    pub fn parent(&self) -> Option<Pid> {
        let (slot, generation) = self.running().slot.parent();
        (slot != 0).then(|| Pid::local(slot, generation))
    }

    /// The runtime that the process lives in.
    pub fn runtime(&self) -> Handle {
        Handle::new(Arc::clone(&self.running().local.shared))
    }

    /// Starts a process.
    ///
    /// # Panics
    /// When the process limit is reached, as [`try_spawn`](Self::try_spawn) reports it.
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

    /// Starts a process.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] when as many processes live as may.
    #[inline]
    pub fn try_spawn<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.running().spawn(0, body)
    }

    /// Starts a process that only the scheduler of this number runs, counted from 0.
    ///
    /// It is never stolen, so it shares no core with what runs elsewhere and waits when its scheduler is busy. For work
    /// that must keep to a core; others run sooner without.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] when as many processes live as may, [`SpawnError::NoScheduler`] for a number too high.
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
    /// A message to a process that has ended vanishes, as in Erlang: whoever needs to know monitors it.
    #[inline]
    pub fn send<T: Send + 'static>(&self, to: Pid, value: T) -> Sending<'_, T> {
        // Written where it will be read: a value that is moved from one place to the next stalls the processor.
        let letter = match scheduler::local() {
            Some(local) => letter(&local.shared, Some(local), to, value),
            None => self.stray(),
        };
        Sending { context: self, to, letter: Some(letter), kind: PhantomData }
    }

    /// Sends a value to a process, now or not at all.
    ///
    /// # Errors
    /// [`TrySendError`] hands the message back.
    #[inline]
    pub fn try_send<T: Send + 'static>(&self, to: Pid, value: T) -> Result<(), TrySendError> {
        let running = self.running();
        let local = running.local;
        {
            let letter = letter(&local.shared, Some(local), to, value);
            TrySendError::of(post(&local.shared, Some(local), to, letter), &local.shared, to)
        }
    }

    /// Waits for the next message.
    ///
    /// Dropping the future loses nothing: a message leaves the mailbox only by being returned.
    #[inline]
    pub fn receive(&self) -> Receive<'_> {
        Receive { context: self }
    }

    /// Waits for the next message, but not longer than `timeout`; zero only looks.
    pub async fn receive_timeout(&self, timeout: Duration) -> Option<Message> {
        self.within(timeout, self.receive()).await
    }

    /// Waits for the first message that `wanted` accepts; the others stay where they are.
    pub fn receive_match<'a>(&'a self, wanted: impl FnMut(&Message) -> bool + Send + 'a) -> ReceiveMatch<'a> {
        ReceiveMatch { context: self, wanted: Box::new(wanted), search: Search::START }
    }

    /// The same, but not longer than `timeout`.
    pub async fn receive_match_timeout(
        &self,
        timeout: Duration,
        wanted: impl FnMut(&Message) -> bool + Send,
    ) -> Option<Message> {
        self.within(timeout, self.receive_match(wanted)).await
    }

    /// Waits for the first message that carries a `T`; the others stay where they are.
    #[inline]
    pub fn receive_of<T: Send + 'static>(&self) -> ReceiveOf<'_, T> {
        ReceiveOf { context: self, search: Search::START, kind: PhantomData }
    }

    /// Waits for `duration`, to the millisecond.
    pub async fn sleep(&self, duration: Duration) {
        let mut sleep = pin!(tokio::time::sleep(duration));
        std::future::poll_fn(|cx| {
            self.running().waits_for(WAIT_SLEEP);
            sleep.as_mut().poll(cx)
        })
        .await;
    }

    /// Lets the other runnable processes go first.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            let running = self.running();
            running.yield_now();
            running.is_awaited_by(cx);
            Poll::Pending
        })
        .await;
    }

    /// Runs code that blocks on a thread of its own, so that no scheduler waits for it.
    ///
    /// # Panics
    /// With the code's own panic, if it panics.
    pub async fn spawn_blocking<T: Send + 'static>(&self, code: impl FnOnce() -> T + Send + 'static) -> T {
        match tokio::task::spawn_blocking(code).await {
            Ok(value) => value,
            Err(error) => match error.try_into_panic() {
                Ok(payload) => std::panic::resume_unwind(payload),
                Err(_) => unreachable!("blocking code is cancelled only after its process has ended"),
            },
        }
    }

    /// Gives this process a name that others find it by.
    ///
    /// # Errors
    /// [`RegisterError`] when another process has the name, or it is empty or too long.
    pub fn register(&self, name: &str) -> Result<(), RegisterError> {
        let running = self.running();
        running.local.shared.holdings.register(running.slot, self.pid, name)
    }

    /// The process that has a name.
    pub fn whereis(&self, name: &str) -> Option<Pid> {
        self.running().local.shared.holdings.whereis(name)
    }

    /// Tells observers what this process is about; unlike a name it need not be unique.
    ///
    /// Of a label longer than [`NAME_MAX_BYTES`](crate::NAME_MAX_BYTES) the beginning is kept.
    pub fn set_label(&self, label: impl Into<Arc<str>>) {
        let running = self.running();
        Holdings::set_label(running.slot, self.pid, label.into());
    }

    /// Sends an exit signal: the process ends with `reason`, or gets it as an [`Exit`](crate::Exit) if it traps exits.
    ///
    /// [`ExitReason::Killed`] cannot be trapped. [`ExitReason::Normal`] is ignored by another process that does not trap
    /// exits. A signal to oneself takes effect at the next await.
    pub fn exit(&self, pid: Pid, reason: ExitReason) {
        self.running().local.shared.exit(Some(self.pid), pid, reason);
    }

    /// Starts a process that is linked to this one from its first instant.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] when as many processes live as may.
    pub fn spawn_link<B, F>(&self, body: B) -> Result<Pid, SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.running().spawn_bound(Bond { link: true, monitor: None }, body)
    }

    /// Starts a process that this one monitors from its first instant.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] when as many processes live as may.
    pub fn spawn_monitor<B, F>(&self, body: B) -> Result<(Pid, MonitorRef), SpawnError>
    where
        B: FnOnce(Self) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.running();
        let reference = running.local.shared.references.next();
        let pid = running.spawn_bound(Bond { link: false, monitor: Some(reference) }, body)?;
        Ok((pid, reference))
    }

    /// Links this process to another: when one ends abnormally, the other gets an exit signal.
    ///
    /// Linking twice is linking once. A process that has ended already sends the signal [`ExitReason::NoProcess`].
    pub fn link(&self, other: Pid) {
        let running = self.running();
        running.local.shared.link(running.slot, self.pid, other);
    }

    /// Ends a link; no exit signal of it takes effect from here on, though an [`Exit`](crate::Exit) may lie in the mailbox
    /// already.
    pub fn unlink(&self, other: Pid) {
        let running = self.running();
        running.local.shared.unlink(running.slot, self.pid, other);
    }

    /// Watches another process: one [`Down`](crate::Down) comes when it ends, or at once if it has.
    ///
    /// A monitor on oneself is none: it has ended already, without a [`Down`](crate::Down).
    pub fn monitor(&self, target: Pid) -> MonitorRef {
        let running = self.running();
        running.local.shared.monitor(running.slot, self.pid, target)
    }

    /// Ends a monitor; false if its [`Down`](crate::Down) is in the mailbox, or was received.
    pub fn demonitor(&self, reference: MonitorRef) -> bool {
        let running = self.running();
        running.local.shared.demonitor(running.slot, self.pid, reference)
    }

    /// Ends a monitor and takes its [`Down`](crate::Down) out of the mailbox if it came; false if the monitor had ended, as
    /// [`demonitor`](Self::demonitor) says it.
    pub fn demonitor_flush(&self, reference: MonitorRef) -> bool {
        let ended = self.demonitor(reference);
        if !ended {
            let mut is_down =
                |message: &Message| message.downcast_ref::<Down>().is_some_and(|down| down.reference == reference);
            self.running().take_match(Search::START, &mut is_down);
        }
        ended
    }

    /// Decides whether exit signals come as [`Exit`](crate::Exit) messages instead of ending this process, and gives what was
    /// before. Signals that have come before are obeyed all the same.
    pub fn trap_exits(&self, trap: bool) -> bool {
        let running = self.running();
        Shared::trap_exits(running.slot, self.pid, trap)
    }
}

/// See [`Context::send`].
#[must_use = "a message is sent by awaiting this"]
pub struct Sending<'a, T> {
    context: &'a Context,
    to: Pid,
    letter: Option<Letter>,
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
        if running.strays(cx) {
            return Poll::Pending;
        }
        let (local, to) = (running.local, self.to);
        let Some(letter) = self.letter.take() else { return Poll::Ready(()) };
        match post(&local.shared, Some(local), to, letter) {
            Posted::Sent | Posted::NoProcess(_) => Poll::Ready(()),
            Posted::Full(letter) => {
                self.letter = wait_to_post(&local.shared, Some(local), to, letter, cx.waker());
                if self.letter.is_none() {
                    return Poll::Ready(());
                }
                running.waits_for(WAIT_SEND);
                Poll::Pending
            }
        }
    }
}

/// See [`Context::receive`].
#[must_use = "a message is received by awaiting this"]
#[derive(Debug)]
pub struct Receive<'a> {
    context: &'a Context,
}

impl Future for Receive<'_> {
    type Output = Message;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Message> {
        let running = self.context.running();
        if running.strays(cx) {
            return Poll::Pending;
        }
        if let Some(message) = running.receive() {
            return Poll::Ready(message);
        }
        running.waits_for_mail(cx);
        Poll::Pending
    }
}

/// See [`Context::receive_match`].
#[must_use = "a message is received by awaiting this"]
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
        if running.strays(cx) {
            return Poll::Pending;
        }
        if let Some(message) = running.receive_match(&mut this.search, &mut *this.wanted) {
            return Poll::Ready(message);
        }
        running.waits_for_mail(cx);
        Poll::Pending
    }
}

/// See [`Context::receive_of`].
#[must_use = "a message is received by awaiting this"]
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
        if running.strays(cx) {
            return Poll::Pending;
        }
        if let Some(value) = running.receive_of(&mut self.search) {
            return Poll::Ready(value);
        }
        running.waits_for_mail(cx);
        Poll::Pending
    }
}
