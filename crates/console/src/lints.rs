//! Lints: warnings that the node raises by itself, detected among few candidates while an observer is attached.
//!
//! ```text
//!   polls that do not return ─────────▶ stuck ───┐
//!   processes inside a poll at a tick ─▶ hogs ───┤
//!   supervisors short of restarts ─▶ storms ─────┼──▶ findings ──▶ board: raised, held, cleared ──▶ Sample
//!   long mailboxes, met by the census ─▶ mailboxes
//! ```
//!
//! No detector walks the process table: the census does that anyway, as rarely as its own budget requires. Each
//! detector keeps a bounded number of candidates, and the board a bounded number of warnings. Detectors take values and
//! the time since the runtime's start as arguments, never a runtime or a clock, so their tests need no sleeping and are
//! deterministic. `docs/lints.md` describes each lint.

pub(crate) mod active_warnings;
mod finding;
pub(crate) mod levels;
mod mailboxes;
mod never_yields;
mod storms;
mod stuck;

use std::time::Duration;

use rusm_protocol::Lint;

use super::sampler::sample::Sample;
use rusm_runtime::observe::{self, ProcessRef, ProcessState};
use rusm_runtime::{Handle, Pid};

pub use levels::{LintLevel, LintLevels};

use self::active_warnings::ActiveWarnings;
use self::finding::{CHECK_INTERVAL, Finding};
use self::mailboxes::Mailboxes;
use self::never_yields::{NeverYields, Observation};
use self::storms::RestartStorms;
use self::stuck::StuckPolls;

/// All detectors and the board of active warnings.
#[derive(Debug)]
pub(super) struct Lints {
    levels: LintLevels,
    active: ActiveWarnings,
    stuck: StuckPolls,
    never_yields: NeverYields,
    storms: RestartStorms,
    mailboxes: Mailboxes,
    looked: Duration,
    /// True while an observer is attached.
    awake: bool,
}

impl Lints {
    pub(super) fn new(levels: LintLevels) -> Self {
        Self {
            levels,
            active: ActiveWarnings::default(),
            stuck: StuckPolls::default(),
            never_yields: NeverYields::default(),
            storms: RestartStorms::default(),
            mailboxes: Mailboxes::default(),
            looked: Duration::ZERO,
            awake: false,
        }
    }

    /// Checks the few candidates of a tick. Without observers, discards all state and does nothing.
    pub(super) fn tick(&mut self, runtime: &Handle, sample: &mut Sample) {
        if sample.clients == 0 {
            if self.awake {
                *self = Self::new(self.levels);
            }
            return;
        }
        self.awake = true;
        let now = sample.uptime;
        let mut found = self.stuck.check(&sample.stuck, runtime.config().stuck_after, now);
        let moves = |pid: &Pid| !sample.stuck.contains(pid);
        let polled: Vec<Pid> = observe::polled(runtime).into_iter().filter(moves).collect();
        found.extend(self.never_yields.check(&polled, |pid| observation(runtime, pid), now));
        if now >= self.looked + CHECK_INTERVAL {
            self.looked = now;
            let supervision = sample.supervision;
            let restarts = supervision.restarts + supervision.restarts_failed;
            found.extend(self.storms.check(&observe::restart_pressure(runtime), restarts, now));
            self.active.sweep(now, |pid| observe::process_ref(runtime, pid).is_some());
        }
        self.raise(runtime, found, now);
        sample.lints_total = self.active.len() as u64;
        sample.lints = self.active.most_urgent(rusm_protocol::LINTS_SHOWN);
    }

    /// Returns the detector that looks at every process of a census, if an observer is attached.
    pub(super) fn begin_census(&mut self) -> Option<&mut Mailboxes> {
        let wanted = self.awake && self.levels.level(Lint::MailboxGrowing) == LintLevel::Warn;
        wanted.then_some(&mut self.mailboxes)
    }

    /// Ends a census and raises its findings.
    pub(super) fn end_census(&mut self, runtime: &Handle, now: Duration) {
        if self.awake {
            let found = self.mailboxes.end_census(now);
            self.raise(runtime, found, now);
        }
    }

    fn raise(&mut self, runtime: &Handle, found: Vec<Finding>, now: Duration) {
        for finding in found.into_iter().filter(|found| self.levels.level(found.lint) == LintLevel::Warn) {
            let pid = finding.pid;
            // A supervisor close to its restart limit may have ended since.
            if pid != Pid::NONE && observe::process_ref(runtime, pid).is_none() {
                continue;
            }
            let name = || {
                let (name, label) = observe::names(&observe::process_ref(runtime, pid)?);
                name.or(label)
            };
            self.active.raise(finding, now, name);
        }
    }
}

/// Returns the observation of a process that the detector of hogs needs.
fn observation(runtime: &Handle, pid: Pid) -> Option<Observation> {
    let seen = observe::process_ref(runtime, pid)?;
    let waits = !matches!(seen.state(), ProcessState::Running | ProcessState::Runnable);
    Some(Observation { waits, busy_ns: seen.busy_ns(), polls: polls(&seen) })
}

fn polls(seen: &ProcessRef<'_>) -> u64 {
    seen.reductions().saturating_sub(seen.messages())
}
