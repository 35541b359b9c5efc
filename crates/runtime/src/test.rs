//! Tests of whole applications: one thread, virtual time, and a schedule determined by a seed.
//!
//! ```text
//!   seed ──▶ which runnable process runs next, which one is preempted ──▶ one sequence of events, always the same
//!   no runnable process ──▶ the clock jumps to the next timer
//! ```
//!
//! ```
//! # use rusm_runtime as rusm;
//! use std::time::Duration;
//! use rusm::test;
//!
//! // An hour of waiting takes no time, and the seed 1 always gives the same.
//! let woken = test::run(1, |ctx| async move {
//!     ctx.sleep(Duration::from_secs(3600)).await;
//!     "woken"
//! });
//! assert_eq!(woken, "woken");
//!
//! // Whatever order the schedules of these seeds bring about, the assertion must hold.
//! test::explore(0..100, |ctx| async move {
//!     let me = ctx.pid();
//!     for number in [1, 2] {
//!         ctx.spawn(move |ctx| async move { ctx.send(me, number).await });
//!     }
//!     let sum = ctx.receive_of::<i32>().await + ctx.receive_of::<i32>().await;
//!     assert_eq!(sum, 3);
//! });
//! ```
//!
//! A seed reproduces a run only if the code under test is deterministic. It must not use other threads,
//! [`spawn_blocking`](crate::Context::spawn_blocking), sockets (use `tokio::io::duplex` instead), `std::time::Instant`
//! or the order of a `HashMap`'s keys, and every `tokio::select!` must be `biased`. Code between two awaits runs
//! without interruption: use loom to test concurrent access of threads to shared memory.
//!
//! Write such a test as a plain `#[test]`: it cannot run inside of a tokio runtime.

mod crashes;
mod report;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use thiserror::Error;

use crate::process::context::Context;
use crate::process::exit::{ExitReason, Outcome};
use crate::process::spawn;
use crate::runtime::config::Config;
use crate::runtime::handle::{Handle, Watch};
use crate::runtime::shared::RuntimeShared;
use crate::runtime::tear_down::tear_down;
use crate::runtime::{for_each_live, panic_hook};
use crate::scheduler;
use crate::scheduler::fuzzer::ScheduleFuzzer;
use crate::time::ticker;
use crate::time::timers;
use crashes::Crashes;
pub use report::{LiveProcess, RunReport};

/// Environment variable with the seed that [`explore`] and [`find`] run alone.
pub const SEED_VARIABLE: &str = "RUSM_SEED";

/// Runs an application with `body` as its first process, and returns the result of that process. All other processes
/// are then killed.
///
/// # Panics
/// With a [`Failure`] when the first process panics, is ended by an exit signal or never ends. Also inside of a tokio
/// runtime.
pub fn run<T, B, F>(seed: u64, body: B) -> T
where
    T: Send + 'static,
    B: FnOnce(Context) -> F,
    F: Future<Output = T> + Send + 'static,
{
    Simulation::default().run(seed, body).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs an application once for each seed, or only for the seed in `RUSM_SEED` if that is set.
///
/// # Panics
/// With the [`Failure`] of the first seed that fails, which names the seed. A run fails if its first process returns
/// another reason than [`Normal`](ExitReason::Normal), for example an error, or does not return: it panics, is ended by an
/// exit signal or never ends. Also panics if `RUSM_SEED` is not a number, and inside of a tokio runtime.
pub fn explore<B, F>(seeds: impl IntoIterator<Item = u64>, body: B)
where
    B: Fn(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    if let Some(failure) = find(seeds, body) {
        panic!("{failure}");
    }
}

/// Returns the first failure, with which [`explore`] would panic.
///
/// # Panics
/// If `RUSM_SEED` is not a number, and inside of a tokio runtime.
pub fn find<B, F>(seeds: impl IntoIterator<Item = u64>, body: B) -> Option<Failure>
where
    B: Fn(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let world = Simulation::default();
    let fails = |seed| world.drive(seed, &body).err();
    match seed_from_env() {
        Some(seed) => fails(seed),
        None => seeds.into_iter().find_map(fails),
    }
}

fn seed_from_env() -> Option<u64> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    Some(text.trim().parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE} of {text:?} is not a whole number")))
}

/// Error returned by a run that failed.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::test::{Cause, Failure, find};
///
/// // A process that waits for a message that no process sends.
/// let failure: Failure = find(0..10, |ctx| async move { drop(ctx.receive().await) }).expect("it never ends");
/// assert_eq!(failure.seed, 0);
/// assert!(matches!(failure.cause, Cause::OutOfTime(_)));
/// assert!(failure.to_string().starts_with("seed 0: "), "{failure}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("seed {seed}: {cause}; set {SEED_VARIABLE}={seed} to reproduce it{report}")]
pub struct Failure {
    /// Seed that reproduces the failure.
    pub seed: u64,
    /// Cause of the failure.
    pub cause: Cause,
    /// The last turns of the schedule, the crashes, and what the live processes wait for.
    pub report: RunReport,
}

/// Cause of a [`Failure`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The first process returned another reason than normal, or was ended before it returned.
    Ended(ExitReason),
    /// Virtual time ran out: processes wait for each other, or for an event from outside.
    OutOfTime(Duration),
    /// The polls ran out: processes keep running without end.
    OutOfPolls(u64),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(reason) => write!(f, "the first process ended: {reason}"),
            Self::OutOfTime(time) => write!(f, "the first process is still waiting after {time:?} of virtual time"),
            Self::OutOfPolls(polls) => write!(f, "the first process has not ended after {polls} polls"),
        }
    }
}

/// Settings of a run.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::test::Simulation;
///
/// let simulation = Simulation { time_max: Duration::from_secs(60), ..Simulation::default() };
/// // An hour of sleep takes no time, but it is longer than this run may last.
/// assert_eq!(simulation.run(1, |ctx| async move { ctx.sleep(Duration::from_secs(30)).await }), Ok(()));
/// let failure = simulation.run(1, |ctx| async move { ctx.sleep(Duration::from_secs(3_600)).await }).unwrap_err();
/// assert_eq!(failure.seed, 1);
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Settings of the runtime. Default: those of a runtime, with a limit of a million processes. `schedulers` is
    /// ignored: a run always has one.
    pub config: Config,
    /// Number of polls after which a run counts as endless. Default 5 million. A lower limit finds endless runs sooner,
    /// a higher one allows for larger applications.
    pub polls_max: u64,
    /// Virtual time after which a run counts as dead. Default 30 days. A run with only a ticker left needs one poll for
    /// each tick until then.
    pub time_max: Duration,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            config: Config { process_limit: 1_000_000, ..Config::default() },
            polls_max: 5_000_000,
            time_max: Duration::from_hours(30 * 24),
        }
    }
}

impl Simulation {
    /// Runs an application as [`run`] does.
    ///
    /// # Errors
    /// [`Failure`] when the first process panics, is ended by an exit signal or never ends.
    ///
    /// # Panics
    /// Inside of a tokio runtime, and if a value of the config is out of its range.
    pub fn run<T, B, F>(&self, seed: u64, body: B) -> Result<T, Failure>
    where
        T: Send + 'static,
        B: FnOnce(Context) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let returned = Arc::new(Mutex::new(None));
        let give = Arc::clone(&returned);
        self.drive(seed, |ctx| {
            let body = body(ctx);
            async move {
                let value = body.await;
                *give.lock() = Some(value);
            }
        })?;
        let value = returned.lock().take();
        Ok(value.expect("the body has returned"))
    }

    /// Runs an application until its first process ends, then ends the other processes.
    fn drive<B, F>(&self, seed: u64, body: B) -> Result<(), Failure>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let crashes = Crashes::default();
        let on_crash = Some(crashes.hook(self.config.on_crash.clone()));
        let config = Config { schedulers: 1, log_crashes: false, on_crash, ..self.config.clone() };
        let (shared, mut queues) = RuntimeShared::new(config).unwrap_or_else(|error| panic!("{error}"));
        panic_hook::install();
        let teardown = TeardownGuard(Arc::clone(&shared));
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(1)
            .start_paused(true)
            .build()
            .unwrap_or_else(|error| panic!("cannot create the reactor: {error}"));
        let queue = queues.pop().expect("there is one scheduler");
        let slot = shared.take_slot().unwrap_or_else(|error| panic!("{error}"));
        let has_returned = Arc::new(AtomicBool::new(false));
        let returns = Arc::clone(&has_returned);
        let first = spawn::spawn_external(
            slot,
            0,
            |_| {},
            |ctx| {
                let body = body(ctx);
                async move {
                    let value = body.await;
                    returns.store(true, Ordering::Relaxed);
                    value
                }
            },
        );
        let ended = Handle::new(Arc::clone(&shared)).watch(first);
        let fuzzer = Some(ScheduleFuzzer::new(seed, self.polls_max));
        let run = self.run_first(&shared, ended, &has_returned);
        let failed = scheduler::Local::drive(&shared, 0, queue, fuzzer, &reactor, run);
        drop((reactor, teardown));
        let Some((cause, mut report)) = failed else { return Ok(()) };
        report.crashes = crashes.without(first);
        Err(Failure { seed, cause, report })
    }

    /// Waits for the end of the first process, then ends the other processes and the scheduler.
    async fn run_first(
        &self,
        shared: &Arc<RuntimeShared>,
        ended: Watch,
        has_returned: &AtomicBool,
    ) -> Option<(Cause, RunReport)> {
        let timers = tokio::spawn(timers::drive_virtual(Arc::clone(shared)));
        let tickers = tokio::spawn(ticker::drive_virtual(Arc::clone(shared)));
        let cause = match tokio::time::timeout(self.time_max, first_of(ended)).await {
            // A signal may have ended the process before it returned, for example the shutdown of a tree that gave up.
            Ok(Some(ExitReason::Normal)) if has_returned.load(Ordering::Relaxed) => None,
            Ok(Some(reason)) => Some(Cause::Ended(reason)),
            Ok(None) => Some(Cause::OutOfPolls(self.polls_max)),
            Err(_) => Some(Cause::OutOfTime(self.time_max)),
        };
        let failed = cause.map(|cause| (cause, RunReport::of(&Handle::new(Arc::clone(shared)))));
        end_all(shared).await;
        timers.abort();
        tickers.abort();
        shared.stop();
        failed
    }
}

/// Frees everything that a run has left behind, also if the run could not begin.
struct TeardownGuard(Arc<RuntimeShared>);

impl Drop for TeardownGuard {
    fn drop(&mut self) {
        tear_down(&self.0);
    }
}

/// Returns the exit reason of the first process, or `None` if the polls are used up before it ends.
async fn first_of(mut ended: Watch) -> Option<ExitReason> {
    poll_fn(|cx| {
        if let Poll::Ready(reason) = Pin::new(&mut ended).poll(cx) {
            return Poll::Ready(Some(reason));
        }
        let fuzzer = scheduler::local().and_then(|local| local.fuzzer.as_ref());
        if fuzzer.is_some_and(|fuzzer| fuzzer.is_exhausted(cx.waker())) { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// Number of times that the remaining processes are killed: a value's `drop` may spawn new ones.
const KILLS: u32 = 100;
/// Least number of polls that a scheduler makes between two turns of its reactor while it has work.
const POLLS_A_TURN: u64 = 64;

async fn end_all(shared: &RuntimeShared) {
    for _ in 0..KILLS {
        let live = shared.live();
        if let Some(fuzzer) = scheduler::local().and_then(|local| local.fuzzer.as_ref()) {
            fuzzer.refill(2 * live + 1_000);
        }
        for_each_live(shared, |pid| shared.exit(None, pid, ExitReason::Killed));
        for _ in 0..=2 * live / POLLS_A_TURN + 2 {
            if shared.live() == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}
