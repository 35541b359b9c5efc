//! Tasks: processes that compute one value for the process that started them.
//!
//! ```text
//!   Context::task ─▶ process ─▶ value ──▶ the task's future
//!                        └─ ends before ─▶ its exit reason
//!   task dropped, owner ended ─▶ kill
//!
//!   Handle::task ─▶ the same for code outside
//!   Context::tasks ─▶ a process for each of the next few items ─▶ values, in the order of the items
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use futures_core::Stream;
use tokio::sync::oneshot;

use crate::links::bonds::LinkOptions;
use crate::mailbox::call::{PendingReply, Unanswered};
use crate::mailbox::request::ReplyTo;
use crate::process::context::Context;
use crate::process::error::SpawnError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::handle::{Handle, Watch};

impl Context {
    /// Starts a process that computes a value, and returns the future of that value.
    ///
    /// If the process fails, the future returns its exit reason; this process goes on. If the future is dropped, or this
    /// process ends, the other process is killed.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// # use rusm::{Config, Runtime};
    /// # let runtime = Runtime::start(Config::default())?;
    /// # let (give, take) = std::sync::mpsc::channel();
    /// runtime.spawn(move |ctx| async move {
    ///     let squares: Vec<_> = (1..=3_u64).map(|n| ctx.task(move |_| async move { n * n })).collect();
    ///     let mut sum = 0;
    ///     for square in squares {
    ///         sum += square.expect("there is room for a process").await.expect("it does not fail");
    ///     }
    ///     give.send(sum)
    /// })?;
    /// assert_eq!(take.recv()?, 14);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached or the runtime is shutting down.
    pub fn task<T, B, F>(&self, body: B) -> Result<Task<'_, T>, SpawnError>
    where
        T: Send + 'static,
        B: FnOnce(Self) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let running = self.running();
        let shared = &running.local.shared;
        let search = running.search_from_end();
        let reference = shared.next_reference().for_call();
        let reply = ReplyTo::process(shared.number, self.pid(), reference);
        let runtime = Handle::new(Arc::clone(shared));
        let start = |ctx: Self| {
            let value = body(ctx);
            async move { drop(reply.send(&runtime, value.await)) }
        };
        let pid = running.spawn_linked(LinkOptions { link: false, monitor: Some(reference) }, start)?;
        Ok(Task { context: self, pid, answer: PendingReply::by(self, pid, reference, search), is_over: false })
    }

    /// Starts a [`task`](Self::task) for each item, at most `concurrency` of them at a time, and returns their values in the
    /// order of the items. A concurrency of 0 counts as 1.
    ///
    /// A further task starts when the value of the first one is taken: nothing is started for a caller that waits.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
    /// let lengths = runtime.block_on(|ctx| async move {
    ///     let pages = ["home", "about", "imprint"];
    ///     let mut tasks = ctx.tasks(2, pages, |_, page| async move { page.len() });
    ///     let mut lengths = Vec::new();
    ///     while let Some(length) = tasks.next().await {
    ///         lengths.push(length.expect("it does not fail"));
    ///     }
    ///     lengths
    /// });
    /// assert_eq!(lengths, [4, 5, 7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tasks<T, I, B, F>(&self, concurrency: usize, items: I, body: B) -> Tasks<'_, T, I::IntoIter, B>
    where
        T: Send + 'static,
        I: IntoIterator,
        B: FnMut(Self, I::Item) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let items = items.into_iter();
        Tasks { context: self, concurrency: concurrency.max(1), items: Some(items), body, started: VecDeque::new() }
    }
}

impl Handle {
    /// Runs a process, and blocks this thread until it ends: the main process of a program.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// use rusm::{Config, ExitReason, Runtime};
    ///
    /// fn main() -> Result<(), ExitReason> {
    ///     let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
    ///     let ended = runtime.run(|ctx| async move {
    ///         println!("process {}", ctx.pid());
    ///         "seven".parse::<u32>()?;
    ///         Ok(())
    ///     });
    ///     assert_eq!(ended, Err(ExitReason::other("invalid digit found in string")));
    ///     runtime.run(|_| async { Ok(()) })
    /// }
    /// ```
    ///
    /// # Errors
    /// The exit reason, unless it is [`ExitReason::Normal`]. If the process is linked to a supervisor that gives up, that is
    /// the reason of the supervisor.
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn run<B, F>(&self, body: B) -> Result<(), ExitReason>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output = Result<(), ExitReason>> + Send + 'static,
    {
        let (_, watch) = self.spawn_monitored(body)?;
        match watch.wait() {
            ExitReason::Normal => Ok(()),
            reason => Err(reason),
        }
    }

    /// Runs a process, and blocks this thread until it returns its value.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// use rusm::{Config, Runtime};
    ///
    /// let runtime = Runtime::start(Config::default())?;
    /// let sum = runtime.block_on(|ctx| async move {
    ///     let half = ctx.task(|_| async { 21 }).expect("there is room for a process");
    ///     half.await.expect("it does not fail") * 2
    /// });
    /// assert_eq!(sum, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the process cannot start or ends before it returns, with its exit reason; [`run`](Self::run) and
    /// [`task`](Self::task) return it instead. On a scheduler thread, which must not block.
    pub fn block_on<T, B, F>(&self, body: B) -> T
    where
        T: Send + 'static,
        B: FnOnce(Context) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        match self.task(body) {
            Ok(task) => {
                let pid = task.pid;
                let value = task.wait();
                value.unwrap_or_else(|reason| panic!("process {pid} ended before it returned its value: {reason}"))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Starts a process that computes a value, and returns the future of that value: [`Context::task`] from outside, for
    /// any executor.
    ///
    /// If the process fails, the future returns its exit reason. If the future is dropped, the process is killed.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// use rusm::{Config, Runtime};
    ///
    /// let runtime = Runtime::start(Config::default())?;
    /// let executor = tokio::runtime::Builder::new_current_thread().build()?;
    /// let square = runtime.task(|_| async { 7 * 7 })?;
    /// assert_eq!(executor.block_on(square), Ok(49));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached or the runtime is shutting down.
    pub fn task<T, B, F>(&self, body: B) -> Result<OutsideTask<T>, SpawnError>
    where
        T: Send + 'static,
        B: FnOnce(Context) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let (give, value) = oneshot::channel();
        let run = |ctx: Context| {
            let value = body(ctx);
            async move { drop(give.send(value.await)) }
        };
        let (pid, end) = self.spawn_monitored(run)?;
        Ok(OutsideTask { runtime: self.clone(), pid, end: Some(end), value, is_over: false })
    }
}

/// Future of the value that a process computes for code outside; see [`Handle::task`].
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let task = runtime.task(|ctx| async move { ctx.receive_of::<u64>().await })?;
/// runtime.try_send(task.pid(), 5_u64)?;
/// let executor = tokio::runtime::Builder::new_current_thread().build()?;
/// assert_eq!(executor.block_on(task), Ok(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the process is killed if its task is dropped"]
pub struct OutsideTask<T> {
    runtime: Handle,
    pid: Pid,
    /// Until the process has ended.
    end: Option<Watch>,
    value: oneshot::Receiver<T>,
    is_over: bool,
}

impl<T> OutsideTask<T> {
    /// Returns the pid of the process.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Blocks this thread until the process has ended, and returns its value.
    ///
    /// # Errors
    /// The exit reason of a process that ended before it returned, for example because a tree that is linked to it gave up.
    ///
    /// # Panics
    /// On a scheduler thread, which must not block.
    pub fn wait(mut self) -> Result<T, ExitReason> {
        let reason = self.end.take().map_or(ExitReason::NoProcess, Watch::wait);
        self.take_value(reason)
    }

    fn take_value(&mut self, reason: ExitReason) -> Result<T, ExitReason> {
        self.is_over = true;
        self.value.try_recv().map_err(|_no_value| reason)
    }
}

impl<T> fmt::Debug for OutsideTask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutsideTask({})", self.pid)
    }
}

impl<T: Send + 'static> Future for OutsideTask<T> {
    type Output = Result<T, ExitReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let reason = match &mut self.end {
            Some(end) => ready!(Pin::new(end).poll(cx)),
            None => ExitReason::NoProcess,
        };
        self.end = None;
        Poll::Ready(self.take_value(reason))
    }
}

impl<T> Drop for OutsideTask<T> {
    fn drop(&mut self) {
        if !self.is_over {
            self.runtime.exit(self.pid, ExitReason::Killed);
        }
    }
}

/// Future of the value that a process computes; see [`Context::task`].
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let task = ctx.task(|_| async { 6 * 7 }).expect("there is room for a process");
///     assert_eq!(task.await, Ok(42));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the process is killed if its task is dropped"]
pub struct Task<'a, T: 'static> {
    context: &'a Context,
    pid: Pid,
    answer: PendingReply<'a, T>,
    is_over: bool,
}

impl<T> Task<'_, T> {
    /// Returns the pid of the process.
    pub const fn pid(&self) -> Pid {
        self.pid
    }
}

impl<T> fmt::Debug for Task<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", self.pid)
    }
}

impl<T: Send + 'static> Future for Task<'_, T> {
    type Output = Result<T, ExitReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(cx);
        self.is_over |= answer.is_ready();
        answer.map_err(Unanswered::into_reason)
    }
}

/// Values of the tasks for several items, in the order of the items; see [`Context::tasks`]. Also a stream.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let mut halves = ctx.tasks(2, [4, 7], |_, number: u32| async move {
///         assert!(number.is_multiple_of(2), "{number} is odd");
///         number / 2
///     });
///     assert_eq!(halves.next().await, Some(Ok(2)));
///     // A task that fails is the result of its item alone.
///     assert!(halves.next().await.is_some_and(|half| half.is_err()));
///     assert_eq!(halves.next().await, None);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the processes are killed if their tasks are dropped"]
pub struct Tasks<'a, T: 'static, I, B> {
    context: &'a Context,
    concurrency: usize,
    /// `None` after the last item.
    items: Option<I>,
    body: B,
    /// In the order of the items, with what could not be started.
    started: VecDeque<Result<Task<'a, T>, SpawnError>>,
}

impl<T, I, B, F> Tasks<'_, T, I, B>
where
    T: Send + 'static,
    I: Iterator,
    B: FnMut(Context, I::Item) -> F,
    F: Future<Output = T> + Send + 'static,
{
    /// Returns the value for the next item; `None` after the last one.
    ///
    /// # Errors
    /// The exit reason of a process that failed, or the reason why it could not start. Other items are not affected.
    pub async fn next(&mut self) -> Option<Result<T, ExitReason>> {
        poll_fn(|cx| self.poll_value(cx)).await
    }

    fn poll_value(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<T, ExitReason>>> {
        while self.started.len() < self.concurrency
            && let Some(items) = &mut self.items
        {
            match items.next() {
                Some(item) => self.started.push_back(self.context.task(|ctx| (self.body)(ctx, item))),
                None => self.items = None,
            }
        }
        let value = match self.started.front_mut() {
            None => return Poll::Ready(None),
            Some(Ok(task)) => ready!(Pin::new(task).poll(cx)),
            Some(Err(error)) => Err(ExitReason::other(*error)),
        };
        self.started.pop_front();
        Poll::Ready(Some(value))
    }
}

impl<T, I, B, F> Stream for Tasks<'_, T, I, B>
where
    T: Send + 'static,
    I: Iterator + Unpin,
    B: FnMut(Context, I::Item) -> F + Unpin,
    F: Future<Output = T> + Send + 'static,
{
    type Item = Result<T, ExitReason>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_value(cx)
    }
}

impl<T, I, B> fmt::Debug for Tasks<'_, T, I, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tasks").field(&self.started).finish()
    }
}

impl<T> Drop for Task<'_, T> {
    fn drop(&mut self) {
        // If a stopped runtime drops its processes, it drops this one too.
        if !self.is_over && self.context.is_running() {
            self.context.exit(self.pid, ExitReason::Killed);
        }
    }
}
