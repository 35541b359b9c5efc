//! The supervisors of a runtime as a tree that others may look at while it grows and burns.
//!
//! ```text
//!   supervisor's process ──▶ Branch { Family }  ◀── observe::supervisor, observe::children, a page at a time
//!                                   ▲
//!                              Tree (pid → branch, weak; those at the top in the order of their start)
//! ```
//!
//! What a supervisor knows is behind a lock that it takes twice for a restart and never holds while it waits or runs
//! anybody else's code. Whoever looks holds it for as long as it takes to copy one page, so nobody waits long for anybody:
//! children are found by their place without being counted as long as none was forgotten, and else by a walk of some
//! nanoseconds for each.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxBuildHasher;

use crate::exit::ExitReason;
use crate::panics;
use crate::pid::Pid;

use super::Strategy;
use super::child::{Child, Key, State};
use super::child_spec::{ChildType, Restart, Shutdown};
use super::family::Family;
use super::history::End;
use super::restart_window::Intensity;

/// A supervisor in full, but for its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupervisorReport {
    /// The supervisor.
    pub pid: Pid,
    /// The process that started it, which may be none of a tree.
    pub parent: Option<Pid>,
    /// Who is restarted with a child.
    pub strategy: Strategy,
    /// What it forgives.
    pub intensity: Intensity,
    /// Restarts of the last period, which count against that.
    pub intensity_used: usize,
    /// Restarts of all of its children since it started.
    pub restarts_total: u64,
    /// Its children by what they do.
    pub counts: ChildCounts,
    /// It stops its children, and then ends.
    pub ending: bool,
}

/// Children of a supervisor by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildCounts {
    /// They run.
    pub running: usize,
    /// They wait for their restart.
    pub waiting: usize,
    /// They have ended for good, or are being restarted just now.
    pub ended: usize,
}

impl ChildCounts {
    /// All children.
    pub const fn total(self) -> usize {
        self.running + self.waiting + self.ended
    }
}

/// Names a child of one supervisor for as long as that knows it, through all of its restarts; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChildKey(u64);

impl ChildKey {
    /// The key of this number.
    pub const fn of(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// What a child does, as an observer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchState {
    /// It runs.
    Running(Pid),
    /// It has ended, and its restart is under way.
    Restarting,
    /// It was spawned, and has not said yet that it has started.
    Starting(Pid),
    /// It was told to stop, and runs.
    Stopping(Pid),
    /// It waits for its restart.
    Waiting {
        /// Time to its next try.
        left: Duration,
    },
    /// It has ended, and is not restarted by itself.
    Ended,
}

impl BranchState {
    /// The child's process, if there is one.
    pub const fn pid(self) -> Option<Pid> {
        match self {
            Self::Running(pid) | Self::Starting(pid) | Self::Stopping(pid) => Some(pid),
            Self::Restarting | Self::Waiting { .. } | Self::Ended => None,
        }
    }
}

/// A child of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildReport {
    /// Its name among its supervisor's children.
    pub key: ChildKey,
    /// Its id, or its template's.
    pub id: Arc<str>,
    /// What it does.
    pub state: BranchState,
    /// What it is.
    pub child_type: ChildType,
    /// When it is restarted.
    pub restart: Restart,
    /// How it is stopped.
    pub shutdown: Shutdown,
    /// Its end counts for its supervisor's.
    pub significant: bool,
    /// How often it was restarted because it had died.
    pub restarts_total: u64,
    /// Its last end by itself, or the last failure of its start.
    pub last_end: Option<ChildEnd>,
}

/// How a child ended once, or failed to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEnd {
    /// Since the start of the runtime.
    pub at: Duration,
    /// Who ended; `None` if it did not even start.
    pub pid: Option<Pid>,
    /// Why.
    pub reason: ExitReason,
}

/// A page of the children of a supervisor, in the order of their start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChildPage {
    /// All of its children.
    pub total: usize,
    /// Those of the page.
    pub children: Vec<ChildReport>,
}

/// A supervisor that can be looked at.
pub(crate) struct Branch {
    pid: Pid,
    parent: Option<Pid>,
    /// Its number among those at the top, if no supervisor has started it.
    top: Option<u64>,
    family: Mutex<Family>,
}

impl Branch {
    /// Gives the family to `look`, which must be quick and run nobody else's code.
    ///
    /// What the family has no more use for is dropped after its lock, and whatever that does harms nobody.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut Family) -> R) -> R {
        let mut family = self.family.lock();
        let found = look(&mut family);
        if !family.buried.is_empty() {
            let buried = std::mem::take(&mut family.buried);
            drop(family);
            panics::contain(|| drop(buried));
        }
        found
    }

    pub(crate) fn report(&self, now: Instant) -> SupervisorReport {
        let family = self.family.lock();
        SupervisorReport {
            pid: self.pid,
            parent: self.parent,
            strategy: family.strategy,
            intensity: family.window.intensity(),
            intensity_used: family.window.used(now),
            restarts_total: family.restarts_total,
            counts: family.states(),
            ending: family.ending,
        }
    }

    /// A page of its children.
    pub(crate) fn page(&self, offset: usize, most: usize, started: Instant, now: Instant) -> ChildPage {
        let family = self.family.lock();
        let child = |(key, child)| report(&family, key, child, started, now);
        let children = family.after_place(offset).take(most).map(child).collect();
        ChildPage { total: family.len(), children }
    }

    /// One child, and its ends, the newest first.
    pub(crate) fn child(&self, key: ChildKey, started: Instant, now: Instant) -> Option<(ChildReport, Vec<ChildEnd>)> {
        let family = self.family.lock();
        let child = family.child(Key(key.0))?;
        let ends = child.history.newest_first().map(|end| told(end, started)).collect();
        Some((report(&family, Key(key.0), child, started, now), ends))
    }

    /// Where these children stand; `keys` rise.
    pub(crate) fn places(&self, keys: &[ChildKey]) -> Vec<Option<usize>> {
        let family = self.family.lock();
        family.places(keys.iter().map(|key| Key(key.0)))
    }
}

/// How a family is looked at.
impl Family {
    fn len(&self) -> usize {
        self.children.len()
    }

    /// Children by what they do.
    fn states(&self) -> ChildCounts {
        let (running, waiting) = (self.by_pid.len(), self.waiting);
        ChildCounts { running, waiting, ended: self.len() - running - waiting }
    }

    /// The first child's key, if each child's place is what its key is more than that: nobody was ever forgotten between.
    fn dense_from(&self) -> Option<u64> {
        let (Key(first), _) = self.children.first_key_value()?;
        let (Key(last), _) = self.children.last_key_value()?;
        (last - first + 1 == self.children.len() as u64).then_some(*first)
    }

    /// The children behind so many others.
    fn after_place(&self, offset: usize) -> impl Iterator<Item = (Key, &Child)> {
        let from = match self.dense_from() {
            Some(first) => Some(Key(first.saturating_add(offset as u64))),
            None if offset <= self.len() / 2 => self.children.keys().nth(offset).copied(),
            None => self.len().checked_sub(offset + 1).and_then(|back| self.children.keys().nth_back(back).copied()),
        };
        from.into_iter().flat_map(|from| self.children.range(from..)).map(|(key, child)| (*key, child))
    }

    /// Whether a child is among those whom the restart that is under way concerns.
    fn is_restarting(&self, key: Key) -> bool {
        self.restarting.is_some_and(|victim| match self.strategy {
            Strategy::OneForOne | Strategy::SimpleOneForOne => key == victim,
            Strategy::OneForAll => true,
            Strategy::RestForOne => key >= victim,
        })
    }

    /// Where children stand whose keys rise.
    fn places(&self, keys: impl Iterator<Item = Key>) -> Vec<Option<usize>> {
        let dense = self.dense_from();
        let mut walk = self.children.keys().enumerate().peekable();
        let place = |key: Key| {
            if let Some(first) = dense {
                return self.children.contains_key(&key).then(|| (key.0 - first) as usize);
            }
            while walk.next_if(|(_, other)| **other < key).is_some() {}
            walk.peek().filter(|(_, other)| **other == key).map(|(place, _)| *place)
        };
        keys.map(place).collect()
    }
}

fn report(family: &Family, key: Key, child: &Child, started: Instant, now: Instant) -> ChildReport {
    let starting = family.starting.filter(|(starting, _)| *starting == key);
    let state = match (child.state, starting) {
        (State::Running(pid), _) if family.ending || family.stopping == Some(key) => BranchState::Stopping(pid),
        (State::Running(pid), _) => BranchState::Running(pid),
        (_, Some((_, pid))) => BranchState::Starting(pid),
        (State::Restarting(wait), None) => BranchState::Waiting { left: wait.due.saturating_duration_since(now) },
        (State::Ended, None) if family.is_restarting(key) => BranchState::Restarting,
        (State::Ended, None) => BranchState::Ended,
    };
    ChildReport {
        key: ChildKey(key.0),
        id: Arc::clone(&child.id),
        state,
        child_type: child.kind,
        restart: child.restart,
        shutdown: child.spec.shutdown,
        significant: child.spec.significant,
        restarts_total: child.restarts_total,
        last_end: child.history.newest_first().next().map(|end| told(end, started)),
    }
}

fn told(end: &End, started: Instant) -> ChildEnd {
    ChildEnd { at: end.at.saturating_duration_since(started), pid: end.pid, reason: end.reason.clone() }
}

/// All supervisors of a runtime.
#[derive(Default)]
pub(crate) struct Tree(RwLock<Branches>);

#[derive(Default)]
struct Branches {
    by_pid: HashMap<Pid, Weak<Branch>, FxBuildHasher>,
    /// Those that no supervisor has started.
    top: BTreeMap<u64, Pid>,
    next: u64,
}

/// A supervisor's place in the tree, given up when it ends, however it does.
pub(super) struct Place {
    tree: Arc<Tree>,
    pub(super) branch: Arc<Branch>,
}

impl Tree {
    /// Shows a supervisor to those who look.
    pub(super) fn enter(self: Arc<Self>, pid: Pid, parent: Option<Pid>, family: Family) -> Place {
        let mut branches = self.0.write();
        let supervised = parent.is_some_and(|parent| branches.by_pid.contains_key(&parent));
        let top = (!supervised).then(|| {
            let number = branches.next;
            branches.next += 1;
            branches.top.insert(number, pid);
            number
        });
        let branch = Arc::new(Branch { pid, parent, top, family: Mutex::new(family) });
        branches.by_pid.insert(pid, Arc::downgrade(&branch));
        drop(branches);
        Place { tree: self, branch }
    }

    pub(crate) fn branch(&self, pid: Pid) -> Option<Arc<Branch>> {
        self.0.read().by_pid.get(&pid)?.upgrade()
    }

    /// How many supervisors are at the top, and some of them in the order of their start.
    pub(crate) fn top(&self, offset: usize, most: usize) -> (usize, Vec<Pid>) {
        let branches = self.0.read();
        let pids = match branches.dense_from() {
            Some(first) => {
                branches.top.range(first.saturating_add(offset as u64)..).take(most).map(|(_, pid)| *pid).collect()
            }
            None => branches.top.values().skip(offset).take(most).copied().collect(),
        };
        (branches.top.len(), pids)
    }

    /// Those of these supervisors that are at the top, with their places there, which rise.
    pub(crate) fn top_places(&self, pids: impl Iterator<Item = Pid>) -> Vec<(usize, Pid)> {
        let branches = self.0.read();
        let number = |pid: Pid| Some((branches.by_pid.get(&pid)?.upgrade()?.top?, pid));
        let mut numbers: Vec<(u64, Pid)> = pids.filter_map(number).collect();
        numbers.sort_unstable();
        if let Some(first) = branches.dense_from() {
            return numbers.into_iter().map(|(number, pid)| ((number - first) as usize, pid)).collect();
        }
        let mut walk = branches.top.keys().enumerate();
        let place = |(number, pid)| walk.find(|(_, other)| **other == number).map(|(place, _)| (place, pid));
        numbers.into_iter().filter_map(place).collect()
    }
}

impl Branches {
    /// The first number, if each supervisor's place is what its number is more than that: none has ended between.
    fn dense_from(&self) -> Option<u64> {
        let ((first, _), (last, _)) = (self.top.first_key_value()?, self.top.last_key_value()?);
        (last - first + 1 == self.top.len() as u64).then_some(*first)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Here and not where the last of those who look lets go of the branch: dropping it may run anybody's code.
        self.branch.with(Family::dissolve);
        let mut branches = self.tree.0.write();
        branches.by_pid.remove(&self.branch.pid);
        if let Some(number) = self.branch.top {
            branches.top.remove(&number);
        }
    }
}
