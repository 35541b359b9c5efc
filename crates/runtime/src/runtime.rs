//! A running runtime: its start, its threads and its shutdown.

pub(crate) mod backtrace;
pub mod cgroup;
pub(crate) mod config;
pub(crate) mod crashes;
pub(crate) mod descriptors;
pub(crate) mod directory;
pub(crate) mod file_limit;
pub(crate) mod handle;
pub(crate) mod held_wakes;
pub(crate) mod hooks;
pub(crate) mod panic_hook;
pub(crate) mod panics;
pub mod remote;
pub(crate) mod shared;
pub(crate) mod tear_down;

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::links::registry::{FIRST_ROOT, FIRST_SERVICE};
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::runtime::config::{Config, StartError};
use crate::runtime::handle::Handle;
use crate::runtime::shared::RuntimeShared;
use crate::runtime::tear_down::tear_down;
use crate::scheduler::Local;
use crate::scheduler::watchdog;

/// An actor runtime. Dropping it kills the remaining processes and ends its threads.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let (tell, told) = std::sync::mpsc::channel();
/// let echo = runtime.spawn(|ctx| async move {
///     let (from, text) = ctx.receive_of::<(rusm::Pid, String)>().await;
///     ctx.send(from, text).await;
/// })?;
/// runtime.spawn(move |ctx| async move {
///     ctx.send(echo, (ctx.pid(), "hello".to_owned())).await;
///     tell.send(ctx.receive_of::<String>().await)
/// })?;
/// assert_eq!(told.recv()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
}

/// Result of a shutdown.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::{Config, Runtime, ShutdownReport};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.spawn(|_| std::future::pending::<()>())?;
///
/// let report = runtime.shutdown(Duration::from_secs(5));
///
/// assert_eq!(report, ShutdownReport { killed: 0, stuck: Vec::new() }, "it ends when it is told to");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Number of processes that did not end before the deadline and were killed.
    pub killed: u64,
    /// Processes in a poll that did not return. The threads of their schedulers could not be ended.
    pub stuck: Vec<Pid>,
}

/// Time that killed processes have to end before their schedulers count as stuck.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// Time without the end of a process, after which a shutdown looks at the children of those that have ended.
const ROUND: Duration = Duration::from_millis(2);
/// Longest wait for a deadline, in effect unlimited.
const FAR_FUTURE: Duration = Duration::from_hours(30 * 365 * 24);
/// Number of checks with a yield in between before a waiting thread starts to sleep.
const YIELDING_CHECKS: u32 = 200;

impl Runtime {
    /// Starts the schedulers.
    ///
    /// # Errors
    /// [`StartError`] for a config value out of its range, or when the system cannot create a thread.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let (shared, queues) = RuntimeShared::new(config)?;
        directory::add(&shared);
        panic_hook::install();
        let mut runtime = Self { handle: Handle::new(Arc::clone(&shared)), threads: Vec::new() };
        for (id, queue) in queues.into_iter().enumerate() {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1).build()?;
            let shared = Arc::clone(&shared);
            let body = move || Local::run(&shared, id, queue, &reactor);
            runtime.threads.push(Builder::new().name(format!("rusm-sched-{id}")).spawn(body)?);
        }
        let body = move || watchdog::run(&shared);
        runtime.threads.push(Builder::new().name("rusm-watch".to_owned()).spawn(body)?);
        Ok(runtime)
    }

    /// Ends all processes, and the schedulers: those started from outside, and supervisors that have outlived the process
    /// that started them, one by one in reverse order of their start, and then all others. Children of a process that traps
    /// exits, such as a supervisor, are left to it. Processes that serve others, such as the writer of a durable topic, end
    /// last.
    ///
    /// Processes first receive the exit signal `shutdown`. If one of them does not end, all others receive it when nine
    /// tenths of `deadline` are over. Those still alive after `deadline` are killed.
    pub fn shutdown(mut self, deadline: Duration) -> ShutdownReport {
        self.end(deadline)
    }

    /// Like [`shutdown`](Self::shutdown), without blocking the thread that polls the future. If it is dropped, the
    /// shutdown goes on.
    pub async fn shutdown_async(self, deadline: Duration) -> ShutdownReport {
        let (give, take) = tokio::sync::oneshot::channel();
        // If the system has no thread left, the runtime ends here and now.
        let runtime = Arc::new(parking_lot::Mutex::new(Some(self)));
        let theirs = Arc::clone(&runtime);
        let end = move |runtime: &parking_lot::Mutex<Option<Self>>| {
            let runtime = runtime.lock().take();
            runtime.map(|runtime| runtime.shutdown(deadline)).unwrap_or_default()
        };
        match Builder::new().name("rusm-shutdown".to_owned()).spawn(move || drop(give.send(end(&theirs)))) {
            Ok(_) => take.await.unwrap_or_default(),
            Err(_) => end(&runtime),
        }
    }

    fn end(&mut self, deadline: Duration) -> ShutdownReport {
        let shared = Arc::clone(&self.handle.shared);
        if self.threads.is_empty() {
            return ShutdownReport::default();
        }
        shared.closing.store(true, Ordering::SeqCst);
        let deadline = deadline.min(FAR_FUTURE);
        let start = Instant::now();
        let (in_order_until, until) = (start + deadline / 10 * 9, start + deadline);
        // Wait only for a limited time: creating a process may take long, and its closure may itself end this runtime.
        wait_until(Instant::now() + KILL_GRACE, || shared.spawns_in_progress.load(Ordering::SeqCst) == 0);
        end_in_order(&shared, FIRST_ROOT, in_order_until);
        end_those_without_keeper(&shared, in_order_until);
        end_in_order(&shared, FIRST_SERVICE, in_order_until);
        for_each_live(&shared, |pid| shared.exit(None, pid, ExitReason::Shutdown));
        wait_until(until, || shared.live() == 0);
        let killed = shared.live();
        for_each_live(&shared, |pid| shared.exit(None, pid, ExitReason::Killed));
        wait_until(Instant::now() + KILL_GRACE, || shared.live() == 0);
        shared.stop();
        let mut threads = std::mem::take(&mut self.threads);
        threads.extend(shared.timers.stop());
        threads.extend(shared.tickers.stop());
        let ended = wait_until(Instant::now() + KILL_GRACE, || threads.iter().all(JoinHandle::is_finished));
        panics::contain(|| shared.crash_log.finish(shared.now_ns(), |cause| shared.causes.text(cause)));
        if !ended {
            // A thread inside an endless poll cannot be ended. It keeps the shared state, so nothing may be freed.
            return ShutdownReport {
                killed,
                stuck: shared.schedulers.iter().filter_map(|scheduler| scheduler.running()).collect(),
            };
        }
        for thread in threads {
            // Schedulers catch the panics of processes. The panic hook has reported a panic of the scheduler itself.
            drop(thread.join());
        }
        tear_down(&shared);
        panics::contain(|| shared.crash_log.tell_left_out(true));
        ShutdownReport { killed, stuck: Vec::new() }
    }
}

/// Ends the processes that were spawned from outside one by one, newest first, down to one with the order `last`.
fn end_in_order(shared: &RuntimeShared, last: u64, until: Instant) {
    while let Some(next) = shared.newest_to_end(last) {
        shared.exit(None, next, ExitReason::Shutdown);
        if !wait_until(until, || !shared.is_alive(next) && shared.newest_to_end(last) != Some(next)) {
            break;
        }
    }
}

/// Ends processes in any order, except services, and the children of a process that traps exits: it ends them itself, or
/// they follow it.
fn end_those_without_keeper(shared: &RuntimeShared, until: Instant) {
    let services = shared.side_tables.services();
    let live = || shared.live().saturating_sub(services.iter().filter(|pid| shared.is_alive(**pid)).count() as u64);
    let mut trapping: HashSet<Pid> = services.iter().copied().collect();
    while live() > 0 && Instant::now() < until {
        let mut told = Vec::new();
        for_each_live(shared, |pid| {
            let parent = shared.table.slot(pid).and_then(Slot::parent_pid);
            if !trapping.contains(&pid) && !parent.is_some_and(|parent| shared.traps_exits(parent)) {
                shared.exit(None, pid, ExitReason::Shutdown);
                told.extend(shared.traps_exits(pid).then_some(pid));
            }
        });
        trapping.extend(told);
        let mut left = u64::MAX;
        while live() < left && Instant::now() < until {
            left = live();
            wait_until(until.min(Instant::now() + ROUND), || live() == 0);
        }
    }
}

pub(crate) fn for_each_live(shared: &RuntimeShared, mut act: impl FnMut(Pid)) {
    for slot in shared.table.slots() {
        if !slot.header().gate.is_closed() {
            act(slot.pid());
        }
    }
}

/// Waits for `done`, first by yielding (it mostly takes microseconds), then by checking every millisecond. Returns
/// false after a timeout.
fn wait_until(until: Instant, done: impl Fn() -> bool) -> bool {
    let mut checks = 0;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        if checks < YIELDING_CHECKS {
            checks += 1;
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}
