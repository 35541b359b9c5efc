//! Whole applications in a test: one thread, virtual time, and a schedule that a seed decides.
//!
//! ```text
//!   seed ──▶ which runnable process runs next, who lets others go first ──▶ one course of events, the same every time
//!   nothing left to run ──▶ the clock jumps to the next timer
//! ```
//!
//! ```
//! use std::time::Duration;
//! use rusm_runtime::test;
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
//! The same seed gives the same course of events as long as the code under test asks nobody else: no other threads, no
//! [`spawn_blocking`](crate::Context::spawn_blocking), no sockets (`tokio::io::duplex` stands in for them), no
//! `std::time::Instant`, no order of a `HashMap`'s keys, and `biased` in every `tokio::select!`. Code between two awaits runs
//! in one piece, so what two threads do to shared memory at the same instant is found by loom, not here.
//!
//! A test of this kind is a plain `#[test]`: inside of a tokio runtime there is no thread to drive.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use thiserror::Error;

use crate::chance::Chance;
use crate::config::Config;
use crate::context::Context;
use crate::exit::{ExitReason, Outcome};
use crate::handle::{Handle, Watch};
use crate::runtime::{Shared, bury, for_each_live};
use crate::{scheduler, spawn, ticker, timers};

/// The environment variable with the seed to run again.
pub const SEED_VARIABLE: &str = "RUSM_SEED";

/// Runs an application from its first process on, and gives what that returns; all other processes are killed then.
///
/// # Panics
/// With a [`Failure`] when the first process ends by a panic or an exit signal, or never; and inside of a tokio runtime.
pub fn run<T, B, F>(seed: u64, body: B) -> T
where
    T: Send + 'static,
    B: FnOnce(Context) -> F,
    F: Future<Output = T> + Send + 'static,
{
    World::default().run(seed, body).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs an application by the schedule of each seed, or only by that of `RUSM_SEED` if it is set.
///
/// # Panics
/// With the [`Failure`] of the first seed that fails, which names the seed: the first process ended abnormally, as by an
/// error that it returned, or never. Also when `RUSM_SEED` is no number.
pub fn explore<B, F>(seeds: impl IntoIterator<Item = u64>, body: B)
where
    B: Fn(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    if let Some(failure) = find(seeds, body) {
        panic!("{failure}");
    }
}

/// Gives the first failure that [`explore`] would panic with.
///
/// # Panics
/// When `RUSM_SEED` is no number, and inside of a tokio runtime.
pub fn find<B, F>(seeds: impl IntoIterator<Item = u64>, body: B) -> Option<Failure>
where
    B: Fn(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let world = World::default();
    let fails = |seed| world.drive(seed, &body).err();
    match seed_asked_for() {
        Some(seed) => fails(seed),
        None => seeds.into_iter().find_map(fails),
    }
}

fn seed_asked_for() -> Option<u64> {
    let text = std::env::var(SEED_VARIABLE).ok()?;
    Some(text.trim().parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE} of {text:?} is no whole number")))
}

/// A run that did not go well.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("seed {seed}: {cause}; {SEED_VARIABLE}={seed} explores it again")]
pub struct Failure {
    /// The seed that brings it about every time.
    pub seed: u64,
    /// What happened.
    pub cause: Cause,
}

/// Why a run did not go well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The first process ended abnormally.
    Ended(ExitReason),
    /// Virtual time ran out: processes wait for each other, or for something outside.
    OutOfTime(Duration),
    /// Processes go on without end.
    OutOfPolls(u64),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(reason) => write!(f, "the first process ended: {reason}"),
            Self::OutOfTime(time) => write!(f, "the first process still waits after {time:?} of virtual time"),
            Self::OutOfPolls(polls) => write!(f, "the first process has not ended after {polls} polls"),
        }
    }
}

/// What a run happens in.
#[derive(Clone, Debug)]
pub struct World {
    /// The runtime's settings. Default: those of a runtime, with up to a million processes. There is one scheduler,
    /// whatever it says.
    pub config: Config,
    /// Polls until a run counts as endless. Default 5 million; less finds it sooner, more allows for larger applications.
    pub polls_max: u64,
    /// Virtual time until a run counts as dead. Default 30 days; a run in which nothing but ticks happens takes as many
    /// polls as there are.
    pub time_max: Duration,
}

impl Default for World {
    fn default() -> Self {
        Self {
            config: Config { process_limit: 1_000_000, ..Config::default() },
            polls_max: 5_000_000,
            time_max: Duration::from_hours(30 * 24),
        }
    }
}

impl World {
    /// Runs an application as [`run`] does.
    ///
    /// # Errors
    /// [`Failure`] when the first process ends by a panic or an exit signal, or never.
    ///
    /// # Panics
    /// Inside of a tokio runtime, and for a config whose values are out of their ranges.
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
                *give.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            }
        })?;
        let value = returned.lock().unwrap_or_else(PoisonError::into_inner).take();
        // An exit signal of `normal` ends a process without what it would have returned.
        value.ok_or(Failure { seed, cause: Cause::Ended(ExitReason::Normal) })
    }

    /// Runs an application until its first process ends, and ends the others.
    fn drive<B, F>(&self, seed: u64, body: B) -> Result<(), Failure>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let config = Config { schedulers: 1, ..self.config.clone() };
        let (shared, mut queues) = Shared::new(config).unwrap_or_else(|error| panic!("{error}"));
        let grave = Grave(Arc::clone(&shared));
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .event_interval(1)
            .start_paused(true)
            .build()
            .unwrap_or_else(|error| panic!("no reactor: {error}"));
        let queue = queues.pop().expect("there is one scheduler");
        let slot = shared.take_slot().unwrap_or_else(|error| panic!("{error}"));
        let first = spawn::from_outside(slot, 0, |_| {}, body);
        let ended = Handle::new(Arc::clone(&shared)).watch(first);
        let chance = Some(Chance::new(seed, self.polls_max));
        let cause = scheduler::Local::drive(&shared, 0, queue, chance, &reactor, self.lead(&shared, ended));
        drop((reactor, grave));
        cause.map_or(Ok(()), |cause| Err(Failure { seed, cause }))
    }

    /// Waits for the end of the first process, then ends the others and the scheduler.
    async fn lead(&self, shared: &Arc<Shared>, ended: Watch) -> Option<Cause> {
        let timers = tokio::spawn(timers::attend(Arc::clone(shared)));
        let tickers = tokio::spawn(ticker::attend(Arc::clone(shared)));
        let cause = match tokio::time::timeout(self.time_max, first_of(ended)).await {
            Ok(Some(reason)) => (!reason.is_normal()).then_some(Cause::Ended(reason)),
            Ok(None) => Some(Cause::OutOfPolls(self.polls_max)),
            Err(_) => Some(Cause::OutOfTime(self.time_max)),
        };
        end_all(shared).await;
        timers.abort();
        tickers.abort();
        shared.stop();
        cause
    }
}

/// Frees what a run has left, also when it could not begin.
struct Grave(Arc<Shared>);

impl Drop for Grave {
    fn drop(&mut self) {
        bury(&self.0);
    }
}

/// The reason of the first process's end; `None` if the polls are used up before.
async fn first_of(mut ended: Watch) -> Option<ExitReason> {
    poll_fn(|cx| {
        if let Poll::Ready(reason) = Pin::new(&mut ended).poll(cx) {
            return Poll::Ready(Some(reason));
        }
        let chance = scheduler::local().and_then(|local| local.chance.as_ref());
        if chance.is_some_and(|chance| chance.is_spent(cx.waker())) { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// Times that the rest is killed: what a value does in its drop may start processes again.
const KILLS: u32 = 100;
/// Polls that a scheduler makes at least between two turns of its reactor, if it has them.
const POLLS_A_TURN: u64 = 64;

async fn end_all(shared: &Shared) {
    for _ in 0..KILLS {
        let live = shared.live();
        if let Some(chance) = scheduler::local().and_then(|local| local.chance.as_ref()) {
            chance.refill(2 * live + 1_000);
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
