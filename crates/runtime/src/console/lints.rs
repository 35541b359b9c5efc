//! Lints: what the node warns of by itself, looked for among few candidates while somebody watches.
//!
//! ```text
//!   polls that do not return ─────────▶ stuck ───┐
//!   processes inside a poll at a tick ─▶ hogs ───┤
//!   supervisors short of restarts ─▶ storms ─────┼──▶ findings ──▶ board: raised, held, cleared ──▶ Sample
//!   long mailboxes, met by the census ─▶ mailboxes
//! ```
//!
//! No detector walks through the process table: the census does that anyway, as seldom as its own budget wants. Every
//! detector keeps a bounded number of candidates, and the board a bounded number of warnings. Detectors see values and no
//! runtime, and the time since its start is an argument, so their tests need neither sleeping nor luck. `docs/lints.md`
//! says what each of them means.

mod board;
mod hogs;
mod levels;
mod mailboxes;
mod storms;
mod stuck;

use std::time::Duration;

use rusm_protocol::Lint;

use super::sampler::Sample;
use crate::observe::{self, Glimpse, ProcessState};
use crate::{Handle, Pid};

pub use levels::{LintLevel, LintLevels};

use self::board::Board;
pub(super) use self::board::Warning;
use self::hogs::{Hogs, Sight};
use self::mailboxes::Mailboxes;
use self::storms::Storms;
use self::stuck::StuckPolls;

/// How often detectors look that need no more, and how often the board is swept.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a warning stands after the last finding, at least.
const HOLD: Duration = Duration::from_secs(5);

/// What a detector found, again each time that it looks, as long as it is so.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    lint: Lint,
    /// [`Pid::NONE`] for the node as a whole.
    pid: Pid,
    value: f64,
    text: String,
    /// How long the warning stands if this is not found again.
    hold: Duration,
}

/// See the module's picture.
#[derive(Debug)]
pub(super) struct Lints {
    levels: LintLevels,
    board: Board,
    stuck: StuckPolls,
    hogs: Hogs,
    storms: Storms,
    mailboxes: Mailboxes,
    looked: Duration,
    /// Somebody is attached.
    awake: bool,
}

impl Lints {
    pub(super) fn new(levels: LintLevels) -> Self {
        Self {
            levels,
            board: Board::default(),
            stuck: StuckPolls::default(),
            hogs: Hogs::default(),
            storms: Storms::default(),
            mailboxes: Mailboxes::default(),
            looked: Duration::ZERO,
            awake: false,
        }
    }

    /// Looks at the few candidates of a tick. Without observers everything is forgotten, and nothing done.
    pub(super) fn tick(&mut self, runtime: &Handle, sample: &mut Sample) {
        if sample.clients == 0 {
            if self.awake {
                *self = Self::new(self.levels);
            }
            return;
        }
        self.awake = true;
        let now = sample.uptime;
        let mut found = self.stuck.look(&sample.stuck, runtime.config().stuck_after, now);
        let moves = |pid: &Pid| !sample.stuck.contains(pid);
        let polled: Vec<Pid> = observe::polled(runtime).into_iter().filter(moves).collect();
        found.extend(self.hogs.look(&polled, |pid| sight(runtime, pid), now));
        if now >= self.looked + LOOK_EVERY {
            self.looked = now;
            let supervision = sample.supervision;
            let restarts = supervision.restarts + supervision.restarts_failed;
            found.extend(self.storms.look(&observe::strained(runtime), restarts, now));
            self.board.sweep(now, |pid| observe::glimpse_of(runtime, pid).is_some());
        }
        self.raise(runtime, found, now);
        sample.lints_total = self.board.len() as u64;
        sample.lints = self.board.most_urgent(rusm_protocol::LINTS_SHOWN);
    }

    /// The detector that looks at every process of a census, if somebody watches.
    pub(super) fn begin_census(&mut self) -> Option<&mut Mailboxes> {
        let wanted = self.awake && self.levels.level(Lint::MailboxGrowing) == LintLevel::Warn;
        wanted.then_some(&mut self.mailboxes)
    }

    /// A census is over.
    pub(super) fn end_census(&mut self, runtime: &Handle, now: Duration) {
        if self.awake {
            let found = self.mailboxes.end_census(now);
            self.raise(runtime, found, now);
        }
    }

    fn raise(&mut self, runtime: &Handle, found: Vec<Finding>, now: Duration) {
        for finding in found.into_iter().filter(|found| self.levels.level(found.lint) == LintLevel::Warn) {
            let pid = finding.pid;
            // A supervisor that ran short may have ended since.
            if pid != Pid::NONE && observe::glimpse_of(runtime, pid).is_none() {
                continue;
            }
            let name = || {
                let (name, label) = observe::names(&observe::glimpse_of(runtime, pid)?);
                name.or(label)
            };
            self.board.affirm(finding, now, name);
        }
    }
}

/// What the detector of hogs wants to know of a process.
fn sight(runtime: &Handle, pid: Pid) -> Option<Sight> {
    let seen = observe::glimpse_of(runtime, pid)?;
    let waits = !matches!(seen.state(), ProcessState::Running | ProcessState::Runnable);
    Some(Sight { waits, busy_ns: seen.busy_ns(), polls: polls(&seen) })
}

fn polls(seen: &Glimpse<'_>) -> u64 {
    seen.reductions().saturating_sub(seen.messages())
}
