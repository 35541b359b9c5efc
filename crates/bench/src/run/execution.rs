//! A run: a plan in execution on a runtime.
//!
//! ```text
//!   start ──▶ driver process ──▶ Scenario::run
//!   tick  ──▶ sampler, every 100 ms, called by the owner of the run
//!   stop  ──▶ flag + message ──▶ driver ends workers and children ──▶ outcome
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_runtime::{ExitReason, Handle, Pid};

use crate::context::RunContext;
use crate::defaults;
use crate::measure::clock::ClockCost;
use crate::measure::meter::Meter;
use crate::measure::sampler::Sampler;
use crate::measure::steady::SteadyRule;
use crate::report::table::Tables;
use crate::run::error::{END_WITHIN, RunError};
use crate::run::flags::{StartLine, StopFlag};
use crate::run::orphans;
use crate::run::plan::Plan;

type Outcome = Arc<Mutex<Option<Result<(), RunError>>>>;

/// Ends a run from another thread.
#[derive(Debug)]
pub(crate) struct Abort {
    handle: Handle,
    driver: Pid,
    stop: StopFlag,
    outcome: Outcome,
}

impl Abort {
    /// Ends the run with this error, and all of its processes, without waiting for them. A run that has ended stays as it
    /// is.
    pub(crate) fn end(&self, error: RunError) {
        self.outcome.lock().get_or_insert(Err(error));
        self.stop.abort();
        self.handle.exit(self.driver, ExitReason::Killed);
        orphans::end(&self.handle, self.driver);
    }
}

/// Wakes the driver process: first to begin, once its end is monitored, and later to check the stop flag.
struct Wake;

/// A plan in execution.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) meter: Arc<Meter>,
    pub(crate) sampler: Sampler,
    pub(crate) tables: Tables,
    pub(crate) started: Instant,
    handle: Handle,
    rule: SteadyRule,
    clock: ClockCost,
    start_line: StartLine,
    is_started: bool,
    stop: StopFlag,
    driver: Pid,
    death: Pin<Box<dyn Future<Output = ExitReason> + Send>>,
    outcome: Outcome,
    over: Option<Result<(), RunError>>,
    told_to_stop: bool,
    peak_live: u64,
    live_before: u64,
    next_tick: Instant,
    /// Number of intervals expected.
    expected: usize,
}

impl Run {
    /// Starts a plan.
    pub(crate) fn start(handle: &Handle, plan: Plan, rule: SteadyRule) -> Result<Self, RunError> {
        let card = plan.scenario.card();
        let clock = ClockCost::measure();
        let meter = Arc::new(Meter::new(handle.config().schedulers, card.sampling, plan.seed));
        let (stop, outcome, tables) = (StopFlag::default(), Outcome::default(), Tables::default());
        let (started, start_line) = (Instant::now(), StartLine::default());
        if !plan.scenario.prepares() {
            start_line.open();
        }
        // A rate that changes by design is never steady, so do not wait for it.
        let rule = if plan.scenario.takes_turns() { SteadyRule { max: rule.min, ..rule } } else { rule };
        let sampler = Sampler::new(Arc::clone(&meter), rule, clock, card.ops_per_timed, started);
        let live_before = handle.process_count();
        let driver = {
            let (plan, meter, stop, outcome) = (plan.clone(), Arc::clone(&meter), stop.clone(), Arc::clone(&outcome));
            let (tables, start_line) = (tables.clone(), start_line.clone());
            handle.spawn(move |ctx| async move {
                ctx.set_label(card.id);
                drop(ctx.receive().await);
                let scenario = plan.scenario;
                let mut context = RunContext::new(ctx, plan.settings(), meter, stop, tables, start_line, live_before);
                let ran = scenario.run(&mut context).await;
                let closed = context.close().await;
                outcome.lock().get_or_insert(ran.and(closed));
            })?
        };
        let watch = handle.clone();
        let mut run = Self {
            plan,
            meter,
            sampler,
            tables,
            started,
            handle: handle.clone(),
            rule,
            clock,
            is_started: start_line.is_open(),
            start_line,
            stop,
            driver,
            death: Box::pin(async move { watch.watch(driver).await }),
            outcome,
            over: None,
            told_to_stop: false,
            peak_live: 0,
            live_before,
            next_tick: started + defaults::INTERVAL,
            expected: 0,
        };
        // Monitoring begins with the first poll: poll before the driver process may begin.
        run.is_over();
        run.wake();
        Ok(run)
    }

    /// Returns the time of the next tick.
    pub(crate) const fn next_tick(&self) -> Instant {
        self.next_tick
    }

    /// Pauses the workers and the clock, or lets them go on.
    pub(crate) fn set_paused(&mut self, paused: bool, now: Instant) {
        if self.sampler.is_paused() == paused {
            return;
        }
        self.stop.set_paused(paused);
        if paused {
            self.sampler.pause(now);
        } else {
            self.sampler.go_on(now);
        }
    }

    /// Returns true in a pause.
    pub(crate) const fn is_paused(&self) -> bool {
        self.sampler.is_paused()
    }

    /// Takes a reading. Returns true while the run goes on.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        if self.is_started {
            self.sampler.tick(now);
        } else {
            self.prepare(now);
        }
        let live = self.handle.process_count();
        if live > self.peak_live {
            // Count twice and keep the lower value: a count is too high if this thread is preempted while counting.
            self.peak_live = self.peak_live.max(live.min(self.handle.process_count()));
        }
        while self.next_tick <= now {
            self.next_tick += defaults::INTERVAL;
        }
        !self.is_over()
    }

    /// Starts the clock when the scenario reports that it is prepared.
    fn prepare(&mut self, now: Instant) {
        if self.start_line.is_open() {
            let paused = self.is_paused();
            self.is_started = true;
            self.started = now;
            let ops_per_timed = self.plan.scenario.card().ops_per_timed;
            self.sampler = Sampler::new(Arc::clone(&self.meter), self.rule, self.clock, ops_per_timed, now);
            self.sampler.reserve(self.expected);
            if paused {
                self.sampler.pause(now);
            }
        }
    }

    /// Reserves memory for a run of this length.
    pub(crate) fn expect(&mut self, duration: Duration) {
        self.expected = (duration.as_millis() / defaults::INTERVAL.as_millis()) as usize + 1;
        self.sampler.reserve(self.expected);
    }

    pub(crate) const fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the number of processes that were alive before the run.
    pub(crate) const fn live_before(&self) -> u64 {
        self.live_before
    }

    /// Returns the number of live processes.
    pub(crate) fn live(&self) -> u64 {
        self.handle.process_count()
    }

    /// Returns the peak number of live processes.
    pub(crate) fn peak_live(&self) -> u64 {
        self.peak_live.max(self.meter.sums().peak_live)
    }

    /// Returns true if the driver process has ended.
    fn is_over(&mut self) -> bool {
        if self.over.is_some() {
            return true;
        }
        let Poll::Ready(reason) = self.death.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) else {
            return false;
        };
        let outcome = self.outcome.lock().take();
        self.over = Some(match outcome {
            Some(Ok(())) if !self.told_to_stop => Err(RunError::EndedEarly { after: self.started.elapsed() }),
            Some(outcome) => outcome,
            None => {
                self.stop.set();
                orphans::end(&self.handle, self.driver);
                Err(RunError::Scenario { reason })
            }
        });
        true
    }

    /// Returns what ends the run from another thread.
    pub(crate) fn abort(&self) -> Abort {
        let outcome = Arc::clone(&self.outcome);
        Abort { handle: self.handle.clone(), driver: self.driver, stop: self.stop.clone(), outcome }
    }

    fn wake(&self) {
        // This fails only if the driver process has just ended: then it needs no wake-up.
        drop(self.handle.try_send(self.driver, Wake));
    }

    /// Returns a closure that counts the errors since the last reading: those that a scenario finds at its end.
    pub(crate) fn late_errors(&self) -> impl FnOnce() -> u64 + use<> {
        let (meter, before) = (Arc::clone(&self.meter), self.sampler.last().sums.errors);
        move || meter.sums().errors.saturating_sub(before)
    }

    /// Stops the run and waits until everything that it started has ended.
    pub(crate) fn finish(mut self) -> Result<(), RunError> {
        if !self.is_over() {
            self.told_to_stop = true;
            self.stop.set();
            self.wake();
        }
        // A million guests take long to end: extend the deadline while their number falls.
        let (mut fewest, mut deadline) = (u64::MAX, Instant::now() + END_WITHIN);
        while !self.is_over() {
            let left = self.handle.process_count();
            if left < fewest {
                (fewest, deadline) = (left, Instant::now() + END_WITHIN);
            }
            if Instant::now() >= deadline {
                self.handle.exit(self.driver, ExitReason::Killed);
                return Err(RunError::Stuck);
            }
            thread::park_timeout(Duration::from_millis(1));
        }
        self.over.take().unwrap_or(Err(RunError::Stuck))
    }
}

#[cfg(test)]
mod tests {
    use rusm_runtime::{Config, Runtime};

    use super::*;
    use crate::run::plan::Request;

    #[test]
    fn a_run_that_is_ended_from_outside_takes_its_processes_along_and_has_the_error() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let (handle, scenario) = (Handle::clone(&runtime), "ping-pong".to_owned());
        let plan = Plan::of(&Request { scenario, ..Request::default() }).unwrap();
        let run = Run::start(&handle, plan, SteadyRule::default()).unwrap();
        while run.live() < 3 {
            thread::yield_now();
        }

        run.abort().end(RunError::Lacks("as ordered".to_owned()));

        assert_eq!(run.finish(), Err(RunError::Lacks("as ordered".to_owned())));
        while handle.process_count() > 0 {
            thread::yield_now();
        }
    }
}
