//! Interface of a scenario to its run.
//!
//! ```text
//!   driver process ── RunContext ──▶ workers that the context monitors, each with a Recorder and a Pace
//!         ▲                           │ spawn further processes
//!         └── stop, or a worker ends ─┘
//! ```
//!
//! A run is over when its driver process has ended. The driver ends after the workers, and waits for a while for all
//! processes that they spawned.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use rusm_runtime::{Context, ExitReason, Handle, Outcome, Pid, observe};

use crate::measure::meter::{Meter, Recorder};
use crate::measure::pace::Pace;
use crate::measure::schedule::{Rate, Schedule};
use crate::parameter::Params;
use crate::report::table::Tables;
use crate::run::error::RunError;
use crate::run::flags::{StartLine, StopFlag};
use crate::run::orphans;
use crate::run::profile::{Profile, Share, Workers};

/// Maximum time from the end of the workers to the end of the processes that they spawned.
const QUIET_WITHIN: Duration = Duration::from_secs(2);

type Death = Pin<Box<dyn Future<Output = (Pid, ExitReason)> + Send>>;

/// Settings of the run that a scenario sees.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings {
    pub(crate) profile: Profile,
    pub(crate) params: Params,
    /// Rate of an open loop; `None` is a closed loop.
    pub(crate) rate: Option<Rate>,
    pub(crate) seed: u64,
    /// Number of operations in one timed interval, from the card.
    pub(crate) ops_per_timed: u64,
}

/// Interface of a scenario to its run.
pub struct RunContext {
    ctx: Context,
    handle: Handle,
    meter: Arc<Meter>,
    settings: RunSettings,
    schedulers: usize,
    stop: StopFlag,
    tables: Tables,
    start_line: StartLine,
    start: Instant,
    live_before: u64,
    workers: Vec<Pid>,
    deaths: FuturesUnordered<Death>,
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("settings", &self.settings)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

impl RunContext {
    pub(crate) fn new(
        ctx: Context,
        settings: RunSettings,
        meter: Arc<Meter>,
        stop: StopFlag,
        tables: Tables,
        start_line: StartLine,
        live_before: u64,
    ) -> Self {
        let handle = ctx.runtime();
        Self {
            schedulers: handle.config().schedulers,
            ctx,
            handle,
            meter,
            settings,
            stop,
            tables,
            start_line,
            start: Instant::now(),
            live_before,
            workers: Vec::new(),
            deaths: FuturesUnordered::new(),
        }
    }

    /// Returns the runtime under load.
    pub const fn runtime(&self) -> &Handle {
        &self.handle
    }

    /// Returns the meter.
    pub const fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// Returns the parameters of the scenario.
    pub const fn params(&self) -> &Params {
        &self.settings.params
    }

    /// Returns the seed of all random numbers.
    pub const fn seed(&self) -> u64 {
        self.settings.seed
    }

    /// Returns the number of scheduler threads of the runtime.
    pub const fn schedulers(&self) -> usize {
        self.schedulers
    }

    /// Returns the number of processes that were alive before the run.
    pub const fn live_before(&self) -> u64 {
        self.live_before
    }

    /// Returns the number of workers and their duty: `given` workers, or as many as the profile says.
    pub fn workers(&self, given: Option<u64>) -> Workers {
        match given {
            Some(count) => Workers { count, duty: self.duty() },
            None => self.settings.profile.workers(self.schedulers),
        }
    }

    /// Returns the duty of a worker for a given number of workers: it does not depend on that number.
    pub fn duty(&self) -> Share {
        self.settings.profile.duty()
    }

    /// Runs slow code, such as a compiler, on a thread outside the schedulers.
    pub async fn blocking<T: Send + 'static>(&mut self, code: impl FnOnce() -> T + Send + 'static) -> T {
        self.ctx.spawn_blocking(code).await
    }

    /// Starts the clock of the run again. A scenario that [prepares](crate::Scenario::prepares) something calls it before
    /// it starts workers.
    pub fn prepared(&mut self) {
        self.start = Instant::now();
        self.start_line.open();
    }

    /// Returns the tables of the run.
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Creates a recorder for one worker.
    pub fn recorder(&self) -> Recorder {
        self.meter.recorder()
    }

    /// Returns the pace of worker `index` of `workers`: its share of an open loop's rate, or a closed loop with this
    /// duty.
    pub fn pace(&self, index: u64, workers: u64, duty: Share) -> Pace {
        self.pace_of(index, workers, duty, self.settings.ops_per_timed)
    }

    /// Like [`pace`](Self::pace), for a worker that begins `ops_per_begin` operations at a time.
    pub fn pace_of(&self, index: u64, workers: u64, duty: Share, ops_per_begin: u64) -> Pace {
        match self.settings.rate {
            Some(rate) => {
                Pace::open(Schedule::new(rate.of_groups(ops_per_begin), self.start, index, workers), self.stop.clone())
            }
            None => Pace::closed(duty, self.stop.clone()),
        }
    }

    /// Returns the rate of an open loop.
    pub(crate) const fn rate(&self) -> Option<Rate> {
        self.settings.rate
    }

    /// Returns the flag that tells workers to stop.
    pub fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }

    /// Starts a worker and monitors it.
    ///
    /// # Errors
    /// [`RunError::Spawn`] at the process limit; [`RunError::Aborted`] if the run was ended from outside.
    pub fn spawn_worker<B, F>(&mut self, body: B) -> Result<Pid, RunError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.spawn_worker_on(None, body)
    }

    /// Like [`spawn_worker`](Self::spawn_worker), but pins the worker to a scheduler if a number is given.
    ///
    /// # Errors
    /// As [`spawn_worker`](Self::spawn_worker), and if the scheduler does not exist.
    pub fn spawn_worker_on<B, F>(&mut self, scheduler: Option<usize>, body: B) -> Result<Pid, RunError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        // A scenario may start a million workers before it waits for anything.
        if self.stop.is_aborted() {
            return Err(RunError::Aborted);
        }
        let pid = match scheduler {
            Some(scheduler) => self.ctx.spawn_pinned(scheduler, body)?,
            None => self.ctx.try_spawn(body)?,
        };
        let handle = self.handle.clone();
        let mut death: Death = Box::pin(async move { (pid, handle.watch(pid).await) });
        // Monitoring begins with the first poll: poll now so that a worker that ends early is not missed.
        if let Poll::Ready(early) = death.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            death = Box::pin(std::future::ready(early));
        }
        self.workers.push(pid);
        self.deaths.push(death);
        Ok(pid)
    }

    /// Waits until the run stops.
    ///
    /// # Errors
    /// [`RunError::Worker`] if a worker ended before that.
    pub async fn stopped(&mut self) -> Result<(), RunError> {
        poll_fn(|cx| {
            loop {
                if self.stop.is_set() {
                    return Poll::Ready(Ok(()));
                }
                if let Poll::Ready(Some((pid, reason))) = self.deaths.poll_next_unpin(cx) {
                    return Poll::Ready(Err(RunError::Worker { pid, reason }));
                }
                // To stop a run, its owner sets the flag and then sends a message that only wakes this process.
                if pin!(self.ctx.receive()).poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    /// [`RunError::Worker`] if a worker failed.
    pub async fn ended(&mut self) -> Result<(), RunError> {
        let mut outcome = Ok(());
        while let Some((pid, reason)) = self.deaths.next().await {
            if outcome.is_ok() && matches!(reason, ExitReason::Panic(_) | ExitReason::Other(_)) {
                outcome = Err(RunError::Worker { pid, reason });
            }
        }
        outcome
    }

    /// Lets other processes run; the driver of a run that is ended from outside does not come back.
    pub(crate) async fn yield_now(&mut self) {
        self.ctx.yield_now().await;
    }

    /// Kills workers and then the live processes that they spawned, which might otherwise wait for the workers forever.
    pub(crate) async fn end_children_of(&mut self, workers: &[Pid]) {
        for worker in workers {
            self.ctx.exit(*worker, ExitReason::Killed);
        }
        // The workers were killed on purpose: ignore their exit reasons.
        drop(self.ended().await);
        let slots = workers.iter().map(|worker| worker.slot()).collect();
        for part in 0..observe::table_parts(&self.handle) {
            for pid in orphans::children(&self.handle, part, &slots, |parent| workers.contains(&parent)) {
                self.ctx.exit(pid, ExitReason::Killed);
            }
            self.ctx.yield_now().await;
        }
    }

    /// Kills the remaining workers and waits until the processes that they spawned have ended, for a limited time.
    pub(crate) async fn close(mut self) -> Result<(), RunError> {
        self.stop.set();
        if !self.deaths.is_empty() {
            for pid in std::mem::take(&mut self.workers) {
                self.ctx.exit(pid, ExitReason::Killed);
            }
        }
        let outcome = self.ended().await;
        let deadline = Instant::now() + QUIET_WITHIN;
        // One more than before: the driver.
        while self.handle.process_count() > self.live_before + 1 && Instant::now() < deadline {
            self.ctx.sleep(Duration::from_millis(1)).await;
        }
        outcome
    }
}
