//! Lints: warnings that the node raises by itself, detected among few candidates while an observer is attached.
//!
//! ```text
//!   polls that do not return ─────────▶ stuck ───┐
//!   processes inside a poll at a tick ─▶ busy ───┤
//!   run queues at a tick ──────────────▶ idle ───┤
//!   supervisors short of restarts ─▶ storms ─────┼──▶ findings ──▶ board: raised, held, cleared ──▶ Sample
//!   processes, met by the census ─▶ mailboxes, unreceived
//!   memory, limits, streams, topics ─▶ surveys ──┤   once a second, less often if that is expensive
//!   waits of processes ────────────────▶ waits ──┘   the same
//! ```
//!
//! No detector walks the process table at a tick: the census and the waits do that as rarely as their budgets require. Each
//! detector keeps a bounded number of candidates, and the board a bounded number of warnings. Detectors take values and
//! the time since the runtime's start as arguments, never a runtime or a clock, so their tests need no sleeping and are
//! deterministic. `docs/lints.md` describes each lint.

pub(crate) mod active_warnings;
mod busy;
mod config;
mod finding;
mod idle_schedulers;
pub(crate) mod levels;
mod mailboxes;
mod never_yields;
mod storms;
mod stuck;
mod surveys;
pub(crate) mod thresholds;
mod unreceived;
pub(crate) mod waits;

use std::time::Duration;

use rusm_protocol::Lint;

use super::sampler::sample::Sample;
use rusm_runtime::observe::{self, ProcessRef, ProcessState};
use rusm_runtime::{Handle, Pid};

pub(crate) use config::LintConfig;
pub use levels::{LintLevel, LintLevels};
pub use thresholds::LintThresholds;

use self::active_warnings::ActiveWarnings;
use self::busy::BusyProcesses;
use self::finding::{CHECK_INTERVAL, Finding};
use self::idle_schedulers::IdleSchedulers;
use self::mailboxes::Mailboxes;
use self::never_yields::{NeverYields, Observation};
use self::storms::RestartStorms;
use self::stuck::StuckPolls;
use self::surveys::Surveys;
use self::unreceived::Unreceived;
use self::waits::WaitTracker;

/// All detectors and the board of active warnings.
#[derive(Debug)]
pub(super) struct Lints {
    config: LintConfig,
    active: ActiveWarnings,
    stuck: StuckPolls,
    never_yields: NeverYields,
    busy: BusyProcesses,
    idle: IdleSchedulers,
    storms: RestartStorms,
    visitors: CensusVisitors,
    surveys: Surveys,
    waits: WaitTracker,
    looked: Duration,
    /// True while an observer is attached.
    awake: bool,
}

/// The detectors that look at every process of a census.
#[derive(Debug)]
pub(super) struct CensusVisitors {
    mailboxes: Mailboxes,
    unreceived: Unreceived,
}

impl CensusVisitors {
    /// Returns the part of the table at which the census begins.
    pub(super) fn first_part(&self, parts: usize) -> usize {
        self.mailboxes.first_part(parts)
    }

    /// Records a process that the census visits.
    #[inline]
    pub(super) fn meet(&mut self, seen: &ProcessRef<'_>) {
        self.mailboxes.meet(seen);
        self.unreceived.meet(seen);
    }
}

impl Lints {
    pub(super) fn new(config: LintConfig) -> Self {
        let thresholds = config.thresholds;
        Self {
            config,
            active: ActiveWarnings::default(),
            stuck: StuckPolls::default(),
            never_yields: NeverYields::new(thresholds.never_yields_poll),
            busy: BusyProcesses::new(thresholds),
            idle: IdleSchedulers::new(thresholds.idle_scheduler_after),
            storms: RestartStorms::new(thresholds.restart_storm_per_sec),
            visitors: CensusVisitors {
                mailboxes: Mailboxes::new(thresholds.mailbox_growing_len),
                unreceived: Unreceived::new(thresholds.unreceived_after),
            },
            surveys: Surveys::new(config),
            waits: WaitTracker::default(),
            looked: Duration::ZERO,
            awake: false,
        }
    }

    /// Checks the few candidates of a tick. Without observers, discards all state and does nothing.
    pub(super) fn tick(&mut self, runtime: &Handle, sample: &mut Sample) {
        if sample.clients == 0 {
            if self.awake {
                *self = Self::new(self.config);
            }
            return;
        }
        self.awake = true;
        let now = sample.uptime;
        let mut found = self.stuck.check(&sample.stuck, runtime.config().stuck_after, now);
        let moves = |pid: &Pid| !sample.stuck.contains(pid);
        let polled: Vec<Pid> = observe::polled(runtime).into_iter().filter(moves).collect();
        found.extend(self.never_yields.check(&polled, |pid| observation(runtime, pid), now));
        let queues = observe::queues(runtime);
        let waiting = queues.iter().map(|queue| queue.waiting).sum();
        found.extend(self.busy.check(&polled, |pid| observation(runtime, pid), waiting, now));
        found.extend(self.idle.check(&queues, now));
        if now >= self.looked + CHECK_INTERVAL {
            self.looked = now;
            let supervision = sample.supervision;
            let restarts = supervision.restarts + supervision.restarts_failed;
            found.extend(self.storms.check(&observe::restart_pressure(runtime), restarts, now));
            self.active.sweep(now, |pid| observe::process_ref(runtime, pid).is_some());
        }
        sample.waits = self.waits.read(runtime, now);
        found.extend(self.waits.cycles(self.config.thresholds.wait_cycle_after, now));
        self.raise(runtime, found, now);
        sample.lints_total = self.active.len() as u64;
        sample.lints = self.active.most_urgent(rusm_protocol::LINTS_SHOWN);
    }

    /// Makes a survey if one is due and an observer is attached, and raises its findings. Surveys have a budget of their
    /// own.
    pub(super) fn survey(&mut self, runtime: &Handle, sample: &Sample) {
        if self.awake {
            let found = self.surveys.check(runtime, sample, sample.uptime);
            self.raise(runtime, found, sample.uptime);
        }
    }

    /// Returns the detectors that look at every process of a census, if an observer is attached.
    pub(super) fn begin_census(&mut self) -> Option<&mut CensusVisitors> {
        let wanted = self.config.warns(Lint::MailboxGrowing) || self.config.warns(Lint::Unreceived);
        (self.awake && wanted).then_some(&mut self.visitors)
    }

    /// Ends a census and raises its findings.
    pub(super) fn end_census(&mut self, runtime: &Handle, now: Duration) {
        if self.awake {
            let CensusVisitors { mailboxes, unreceived } = &mut self.visitors;
            let mut found = mailboxes.end_census(now);
            found.extend(unreceived.end_census(now));
            self.raise(runtime, found, now);
        }
    }

    fn raise(&mut self, runtime: &Handle, found: Vec<Finding>, now: Duration) {
        for finding in found.into_iter().filter(|found| self.config.warns(found.lint)) {
            let pid = finding.pid;
            // A supervisor close to its restart limit may have ended since.
            if pid != Pid::NONE && observe::process_ref(runtime, pid).is_none() {
                continue;
            }
            let name = || observe::display_name(runtime, &observe::process_ref(runtime, pid)?);
            self.active.raise(finding, now, name);
        }
    }
}

/// Returns the observation of a process that the detectors of busy processes need.
fn observation(runtime: &Handle, pid: Pid) -> Option<Observation> {
    let seen = observe::process_ref(runtime, pid)?;
    let waits = !matches!(seen.state(), ProcessState::Running | ProcessState::Runnable);
    Some(Observation { waits, busy_ns: seen.busy_ns(), polls: polls(&seen), messages: seen.messages() })
}

fn polls(seen: &ProcessRef<'_>) -> u64 {
    seen.reductions().saturating_sub(seen.messages())
}
