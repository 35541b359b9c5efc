//! All that a scenario may touch.
//!
//! ```text
//!   conductor, a process ── Stage ──▶ crew: workers that the stage watches, each with a Recorder and a Pace
//!         ▲                             │ spawn what they like
//!         └── stop, or a crew's death ──┘
//! ```
//!
//! A run is over when its conductor has ended, and the conductor ends after the crew and all that the crew spawned.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use rusm_runtime::{Context, ExitReason, Handle, Outcome, Pid, observe};

use crate::meter::{Meter, Recorder};
use crate::orphans;
use crate::pace::Pace;
use crate::parameter::Params;
use crate::plan::Plan;
use crate::profile::{Share, Workers};
use crate::run::RunError;
use crate::schedule::{Rate, Schedule};
use crate::table::Tables;

/// How long what the crew spawned may take to end after the crew.
const QUIET_WITHIN: Duration = Duration::from_secs(2);

/// Tells workers to stop; cheap to look at.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Whether the run stops.
    #[inline]
    pub fn is_set(&self) -> bool {
        // Relaxed: nothing is handed over with the flag.
        self.0.load(Ordering::Relaxed)
    }

    /// Tells them.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Death = Pin<Box<dyn Future<Output = (Pid, ExitReason)> + Send>>;

/// Raised when a run's clock may start.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartLine(Arc<AtomicBool>);

impl StartLine {
    /// Whether everything is prepared.
    pub(crate) fn is_open(&self) -> bool {
        // Acquire: whoever reads the meter after this sees what was counted outside of it from the start.
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// All that a scenario may touch.
pub struct Stage {
    ctx: Context,
    handle: Handle,
    meter: Arc<Meter>,
    plan: Plan,
    cores: usize,
    stop: StopFlag,
    tables: Tables,
    start_line: StartLine,
    start: Instant,
    live_before: u64,
    crew: Vec<Pid>,
    deaths: FuturesUnordered<Death>,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("plan", &self.plan).field("crew", &self.crew).finish_non_exhaustive()
    }
}

impl Stage {
    pub(crate) fn new(
        ctx: Context,
        plan: Plan,
        meter: Arc<Meter>,
        stop: StopFlag,
        tables: Tables,
        start_line: StartLine,
        live_before: u64,
    ) -> Self {
        let handle = ctx.runtime();
        Self {
            cores: handle.config().schedulers,
            ctx,
            handle,
            meter,
            plan,
            stop,
            tables,
            start_line,
            start: Instant::now(),
            live_before,
            crew: Vec::new(),
            deaths: FuturesUnordered::new(),
        }
    }

    /// The runtime under load.
    pub const fn runtime(&self) -> &Handle {
        &self.handle
    }

    /// The meter.
    pub const fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// What was set about the scenario.
    pub const fn params(&self) -> &Params {
        &self.plan.params
    }

    /// The seed of everything random.
    pub const fn seed(&self) -> u64 {
        self.plan.seed
    }

    /// The scheduler threads of the runtime.
    pub const fn cores(&self) -> usize {
        self.cores
    }

    /// Processes that were alive before the run.
    pub const fn live_before(&self) -> u64 {
        self.live_before
    }

    /// How many workers to run, and how hard each works: as `given` says, or the profile.
    pub fn workers(&self, given: Option<u64>) -> Workers {
        match given {
            Some(count) => Workers { count, duty: self.duty() },
            None => self.plan.profile.workers(self.cores),
        }
    }

    /// How hard each of a given number of workers works.
    pub fn duty(&self) -> Share {
        self.plan.profile.duty()
    }

    /// Runs code that takes its time, such as a compiler, beside the schedulers.
    pub async fn blocking<T: Send + 'static>(&mut self, code: impl FnOnce() -> T + Send + 'static) -> T {
        self.ctx.spawn_blocking(code).await
    }

    /// Starts the clock of a run whose scenario [prepares](crate::Scenario::prepares) something; call it before the crew.
    pub fn prepared(&mut self) {
        self.start = Instant::now();
        self.start_line.open();
    }

    /// Where the run's tables are shown.
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A recorder for one worker.
    pub fn recorder(&self) -> Recorder {
        self.meter.recorder()
    }

    /// The pace of worker `index` of `workers`: an open loop's share of its rate, or a closed loop with its duty.
    pub fn pace(&self, index: u64, workers: u64, duty: Share) -> Pace {
        self.pace_of(index, workers, duty, self.plan.scenario.card().ops_per_timed)
    }

    /// The same, for a worker that begins so many operations at a time.
    pub fn pace_of(&self, index: u64, workers: u64, duty: Share, ops_per_begin: u64) -> Pace {
        match self.plan.rate {
            Some(rate) => {
                Pace::open(Schedule::new(rate.of_groups(ops_per_begin), self.start, index, workers), self.stop.clone())
            }
            None => Pace::closed(duty, self.stop.clone()),
        }
    }

    /// The rate of an open loop.
    pub(crate) const fn rate(&self) -> Option<Rate> {
        self.plan.rate
    }

    /// The flag that workers look at.
    pub fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }

    /// Starts a worker and watches it.
    ///
    /// # Errors
    /// [`RunError::Spawn`] at the process limit.
    pub fn crew<B, F>(&mut self, body: B) -> Result<Pid, RunError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.crew_at(None, body)
    }

    /// The same, on one scheduler only if a number is given.
    ///
    /// # Errors
    /// As [`crew`](Self::crew), and when there is no scheduler of that number.
    pub fn crew_at<B, F>(&mut self, scheduler: Option<usize>, body: B) -> Result<Pid, RunError>
    where
        B: FnOnce(Context) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let pid = match scheduler {
            Some(scheduler) => self.ctx.spawn_pinned(scheduler, body)?,
            None => self.ctx.try_spawn(body)?,
        };
        let handle = self.handle.clone();
        let mut death: Death = Box::pin(async move { (pid, handle.watch(pid).await) });
        // The watch begins with the first poll; a worker that ends before the next one must not be missed.
        if let Poll::Ready(early) = death.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            death = Box::pin(std::future::ready(early));
        }
        self.crew.push(pid);
        self.deaths.push(death);
        Ok(pid)
    }

    /// Waits until the run stops.
    ///
    /// # Errors
    /// [`RunError::Worker`] when one of the crew ended before that.
    pub async fn stopped(&mut self) -> Result<(), RunError> {
        poll_fn(|cx| {
            loop {
                if self.stop.is_set() {
                    return Poll::Ready(Ok(()));
                }
                if let Poll::Ready(Some((pid, reason))) = self.deaths.poll_next_unpin(cx) {
                    return Poll::Ready(Err(RunError::Worker { pid, reason }));
                }
                // Whoever stops a run sets the flag and then sends a message, which only wakes.
                if pin!(self.ctx.receive()).poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Waits until the crew has ended.
    ///
    /// # Errors
    /// [`RunError::Worker`] when one of the crew ended by a fault.
    pub async fn ended(&mut self) -> Result<(), RunError> {
        let mut outcome = Ok(());
        while let Some((pid, reason)) = self.deaths.next().await {
            if outcome.is_ok() && matches!(reason, ExitReason::Panic(_) | ExitReason::Other(_)) {
                outcome = Err(RunError::Worker { pid, reason });
            }
        }
        outcome
    }

    /// Ends workers and then all that they have spawned and not ended: what waits for a worker would wait for ever.
    pub(crate) async fn end_children_of(&mut self, workers: &[Pid]) {
        for worker in workers {
            self.ctx.exit(*worker, ExitReason::Killed);
        }
        // Their deaths are nobody's fault.
        drop(self.ended().await);
        let slots = workers.iter().map(|worker| worker.slot()).collect();
        for part in 0..observe::table_parts(&self.handle) {
            for pid in orphans::children(&self.handle, part, &slots, |parent| workers.contains(&parent)) {
                self.ctx.exit(pid, ExitReason::Killed);
            }
            self.ctx.yield_now().await;
        }
    }

    /// Ends what is left of the crew, and waits until what it spawned has ended.
    pub(crate) async fn close(mut self) -> Result<(), RunError> {
        self.stop.set();
        if !self.deaths.is_empty() {
            for pid in std::mem::take(&mut self.crew) {
                self.ctx.exit(pid, ExitReason::Killed);
            }
        }
        let outcome = self.ended().await;
        let deadline = Instant::now() + QUIET_WITHIN;
        while self.handle.process_count() > self.live_before + 1 && Instant::now() < deadline {
            self.ctx.sleep(Duration::from_millis(1)).await;
        }
        outcome
    }
}
