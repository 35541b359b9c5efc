//! Hooks: functions of the program that are called when processes start, end, crash, or do not give way.
//!
//! ```text
//!   first poll ─▶ on_spawn      poll longer than `slow_poll` ─▶ on_slow_poll      end ─▶ on_exit, on_crash
//! ```
//!
//! A hook that is not set costs nothing: schedulers test one byte in each poll for all of them and the trace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::panics;

/// Function that a runtime calls with events of type `E`.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use rusm::{Config, Hook, Runtime};
///
/// let (polls, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
/// let (seen_polls, seen_ends) = (Arc::clone(&polls), Arc::clone(&ends));
/// let runtime = Runtime::start(Config {
///     on_exit: Some(Hook::new(move |exit: &rusm::ProcessExit| {
///         seen_polls.fetch_add(exit.polls, Ordering::Relaxed);
///         seen_ends.fetch_add(1, Ordering::Relaxed);
///     })),
///     ..Config::default()
/// })?;
/// runtime.block_on(|ctx| async move { ctx.yield_now().await });
/// runtime.shutdown(std::time::Duration::from_secs(1));
/// assert_eq!(ends.load(Ordering::Relaxed), 1);
/// assert!(polls.load(Ordering::Relaxed) >= 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Hook<E>(Arc<dyn Fn(&E) + Send + Sync>);

impl<E> Hook<E> {
    /// Creates a hook. It runs on the scheduler of the process, so it must be quick and must not block. A panic in it is
    /// caught.
    pub fn new(hook: impl Fn(&E) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    pub(crate) fn call(&self, event: &E) {
        panics::contain(|| (self.0)(event));
    }
}

impl<E> Clone for Hook<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E> fmt::Debug for Hook<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A process that begins its first poll.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Hook, ProcessSpawn, Runtime, SpawnOptions};
///
/// let (tell, told) = std::sync::mpsc::channel();
/// let config = Config {
///     on_spawn: Some(Hook::new(move |spawn: &ProcessSpawn| drop(tell.send(spawn.clone())))),
///     ..Config::default()
/// };
/// let runtime = Runtime::start(config)?;
/// let pid = runtime.spawn_with(&SpawnOptions::default().label("import"), |_ctx| async {})?;
/// let spawn = told.recv()?;
/// assert_eq!((spawn.pid, spawn.parent, spawn.label.as_deref()), (pid, None, Some("import")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessSpawn {
    /// Pid of the process.
    pub pid: Pid,
    /// Process that spawned it.
    pub parent: Option<Pid>,
    /// Label that was given at its spawn, or else its id as a child, if its supervisor has recorded it: another scheduler may
    /// run the child first.
    pub label: Option<Arc<str>>,
    /// Rust type of its future.
    pub future_type: &'static str,
    /// Time since the runtime started.
    pub at: Duration,
}

/// A process that has ended, for whatever reason.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, ExitReason, Hook, ProcessExit, Runtime};
///
/// let (tell, told) = std::sync::mpsc::channel();
/// let config = Config {
///     on_exit: Some(Hook::new(move |exit: &ProcessExit| drop(tell.send(exit.clone())))),
///     ..Config::default()
/// };
/// let runtime = Runtime::start(config)?;
/// let pid = runtime.spawn(|ctx| async move { drop(ctx.receive().await) })?;
/// runtime.try_send(pid, "go")?;
/// let exit = told.recv()?;
/// assert_eq!((exit.pid, exit.reason, exit.messages), (pid, ExitReason::Normal, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessExit {
    /// Pid of the process.
    pub pid: Pid,
    /// First registered name.
    pub name: Option<Arc<str>>,
    /// Label, or else its id as a child.
    pub label: Option<Arc<str>>,
    /// Rust type of its future.
    pub future_type: &'static str,
    /// Exit reason.
    pub reason: ExitReason,
    /// Time since its spawn, with a resolution of one millisecond.
    pub age: Duration,
    /// Time inside its polls, as far as it was measured: polls of less than some microseconds are sampled. It is wall time;
    /// once a poll has taken 250 µs or more, only the CPU time of further such polls counts.
    pub busy: Duration,
    /// Number of polls.
    pub polls: u64,
    /// Number of messages received.
    pub messages: u64,
    /// Time since the runtime started.
    pub at: Duration,
}

/// A poll that took longer than [`Config::slow_poll`](crate::Config::slow_poll). Other processes of its scheduler have
/// waited for it.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::{Config, Hook, Runtime, SlowPoll};
///
/// let (tell, told) = std::sync::mpsc::channel();
/// let config = Config {
///     slow_poll: Duration::from_millis(5),
///     on_slow_poll: Some(Hook::new(move |slow: &SlowPoll| tell.send(slow.took).expect("it is received"))),
///     ..Config::default()
/// };
/// let runtime = Runtime::start(config)?;
/// runtime.spawn(|_ctx| async { std::thread::sleep(Duration::from_millis(20)) })?;
/// assert!(told.recv()? >= Duration::from_millis(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlowPoll {
    /// Pid of the process.
    pub pid: Pid,
    /// First registered name.
    pub name: Option<Arc<str>>,
    /// Label, or else its id as a child.
    pub label: Option<Arc<str>>,
    /// Rust type of its future.
    pub future_type: &'static str,
    /// Duration of the poll.
    pub took: Duration,
}
