//! The children of a supervisor: its whole state, and all of its decisions.
//!
//! Uses neither processes nor clocks, so its tests need no runtime. Children are found by pid in constant time,
//! whatever their number; their keys grow in the order of their start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::links::name::check_name;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::small_map::SmallMap;

use super::backoff::Backoff;
use super::child::{Child, DeferredDrops, Key, PendingRestart, RunState};
use super::child_spec::{Arguments, ChildSpec};
use super::command::{ChildInfo, ChildRef, ChildState, Counts};
use super::history::End;
use super::policy::{AutoShutdown, ChildType, Restart, Strategy};
use super::restart_window::{Intensity, RestartWindow};
use super::spec::{GaveUp, SignificantFailure, SpecError, Supervisor};

/// Consequence of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Nothing,
    /// The child must be restarted, and others as the strategy requires.
    Restart(Key),
    /// Too many restarts; this child needed the last of them.
    GiveUp(Key),
    /// Significant children have ended.
    AutoShutdown,
}

pub(super) type LostChild = (Key, Arc<str>, ExitReason);

/// State and decisions of a supervisor.
pub(super) struct SupervisorState {
    pub(super) strategy: Strategy,
    auto_shutdown: AutoShutdown,
    max_children: usize,
    pub(super) window: RestartWindow,
    backoff: Option<Backoff>,
    pub(super) template: Option<Arc<ChildSpec>>,
    pub(super) children: BTreeMap<Key, Child>,
    pub(super) by_pid: SmallMap<Pid, Key>,
    by_id: HashMap<Arc<str>, Key>,
    next: u64,
    /// Number of restarts of all children.
    pub(super) restarts_total: u64,
    /// Number of children that are supervisors.
    supervisors: usize,
    /// Number of children that wait for their restart.
    pub(super) waiting: usize,
    /// Child with a restart in progress, for observers.
    pub(super) restarting: Option<Key>,
    /// Child that was spawned and has not started.
    pub(super) starting: Option<(Key, Pid)>,
    /// Child that was told to stop and still runs.
    pub(super) stopping: Option<Key>,
    /// True while all children are being stopped.
    pub(super) ending: bool,
    /// The last abnormal end of a significant child.
    pub(super) significant_failure: Option<SignificantFailure>,
    pub(super) deferred_drops: DeferredDrops,
}

impl SupervisorState {
    /// Creates the state of a supervisor with its first children, which have not started yet.
    pub(super) fn new(supervisor: Supervisor) -> Result<Self, SpecError> {
        let Supervisor { strategy, intensity, auto_shutdown, backoff, children, template, name: _, max_children } =
            supervisor;
        let dynamic = strategy == Strategy::SimpleOneForOne;
        let mut state = Self {
            strategy,
            auto_shutdown,
            max_children,
            window: RestartWindow::new(intensity),
            backoff,
            template,
            children: BTreeMap::new(),
            by_pid: SmallMap::default(),
            by_id: HashMap::new(),
            next: 0,
            restarts_total: 0,
            supervisors: 0,
            waiting: 0,
            restarting: None,
            starting: None,
            stopping: None,
            ending: false,
            significant_failure: None,
            deferred_drops: DeferredDrops::default(),
        };
        if dynamic != state.template.is_some() || dynamic && !children.is_empty() {
            return Err(SpecError::NoTemplate);
        }
        if children.len() > max_children {
            return Err(SpecError::TooMany { children: children.len(), max_children });
        }
        if let Some(template) = &state.template {
            state.check(template)?;
        }
        for spec in children {
            state.check(&spec)?;
            if state.by_id.contains_key(&spec.id) {
                return Err(SpecError::Duplicate { id: spec.id });
            }
            state.add(Arc::new(spec), None);
        }
        Ok(state)
    }

    /// Checks that this supervisor can have a child with this specification.
    pub(super) fn check(&self, spec: &ChildSpec) -> Result<(), SpecError> {
        if spec.significant && (spec.restart == Restart::Permanent || self.auto_shutdown == AutoShutdown::Never) {
            return Err(SpecError::Significant { id: Arc::clone(&spec.id) });
        }
        if spec.is_once && spec.restart != Restart::Temporary {
            return Err(SpecError::Once { id: Arc::clone(&spec.id) });
        }
        if let Some(Err(error)) = spec.name.as_deref().map(|name| check_name("process", name)) {
            return Err(SpecError::Name { id: Arc::clone(&spec.id), error });
        }
        Ok(())
    }

    /// Returns the limit of children if it is reached.
    pub(super) fn full_at(&self) -> Option<usize> {
        (self.children.len() >= self.max_children).then_some(self.max_children)
    }

    pub(super) fn is_dynamic(&self) -> bool {
        self.template.is_some()
    }

    /// Adds a child after the others.
    pub(super) fn add(&mut self, spec: Arc<ChildSpec>, arguments: Option<Arguments>) -> Key {
        let key = Key(self.next);
        self.next += 1;
        if !self.is_dynamic() {
            self.by_id.insert(Arc::clone(&spec.id), key);
        }
        self.supervisors += usize::from(spec.child_type == ChildType::Supervisor);
        self.children.insert(key, Child::new(spec, arguments));
        key
    }

    /// Removes a child.
    pub(super) fn remove(&mut self, key: Key) {
        self.set_state(key, RunState::Ended);
        let Some(child) = self.children.remove(&key) else { return };
        self.supervisors -= usize::from(child.spec.child_type == ChildType::Supervisor);
        if !self.is_dynamic() {
            self.by_id.remove(&child.spec.id);
        }
        self.deferred_drops.children.push(child);
    }

    pub(super) fn child(&self, key: Key) -> Option<&Child> {
        self.children.get(&key)
    }

    pub(super) fn find(&self, child: &ChildRef) -> Option<Key> {
        match child {
            ChildRef::Id(id) => self.by_id.get(id).copied(),
            ChildRef::Pid(pid) => self.by_pid.get(pid).copied(),
            ChildRef::Key(key) => Some(Key(key.number())).filter(|key| self.children.contains_key(key)),
        }
    }

    /// Returns the keys of all children, in the order of their start.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.children.keys().copied().collect()
    }

    /// Returns the processes of the running children.
    pub(super) fn pids(&self) -> impl Iterator<Item = Pid> {
        self.children.values().filter_map(|child| match child.state {
            RunState::Running(pid) => Some(pid),
            _ => None,
        })
    }

    /// Returns the limit of the restart window.
    pub(super) const fn intensity(&self) -> Intensity {
        self.window.intensity()
    }

    /// Returns the number of restarts that count, if it is over half of the limit.
    pub(super) fn pressure(&self) -> Option<u32> {
        self.window.pressure()
    }

    /// Returns true if restarts may be delayed.
    pub(super) const fn backs_off(&self) -> bool {
        self.backoff.is_some()
    }

    /// Returns the children that stop and start again when `key` is restarted, in the order of their start.
    pub(super) fn affected(&self, key: Key) -> Vec<Key> {
        match self.strategy {
            Strategy::OneForOne | Strategy::SimpleOneForOne => vec![key],
            Strategy::OneForAll => self.keys(),
            Strategy::RestForOne => self.children.range(key..).map(|(key, _)| *key).collect(),
        }
    }

    /// Handles a process that ended by itself.
    pub(super) fn exited(&mut self, pid: Pid, reason: ExitReason, now: Instant) -> Decision {
        let Some(key) = self.by_pid.remove(&pid) else { return Decision::Nothing };
        let Some(child) = self.children.get_mut(&key) else { return Decision::Nothing };
        child.state = RunState::Ended;
        child.previous_pid = Some(pid);
        let restarted = child.spec.restart.after(&reason);
        let oldest = child.history.record(End { at: now, pid: Some(pid), reason: reason.clone() });
        self.deferred_drops.reason(oldest);
        let significant = child.spec.significant;
        if significant && !restarted && !reason.is_normal() {
            let failure = SignificantFailure { child: Arc::clone(&child.id), reason: reason.clone() };
            self.deferred_drops.reason(self.significant_failure.replace(failure).map(|before| before.reason));
        }
        self.deferred_drops.reason(child.last_exit.replace(reason));
        if restarted {
            return self.spend_restart(key, now);
        }
        if self.is_removed_on_end(key) {
            self.remove(key);
        }
        if significant && self.ends_with_significant() { Decision::AutoShutdown } else { Decision::Nothing }
    }

    /// Spends a restart for a child; gives up if none is left.
    pub(super) fn spend_restart(&mut self, key: Key, now: Instant) -> Decision {
        if !self.window.spend(now) {
            return Decision::GiveUp(key);
        }
        self.restarting = Some(key);
        Decision::Restart(key)
    }

    /// Records that a child that ended by itself runs again.
    pub(super) fn restarted(&mut self, key: Key) {
        self.restarts_total += 1;
        if let Some(child) = self.children.get_mut(&key) {
            child.restarts_total += 1;
        }
    }

    /// Records that a child was stopped for a restart, which must start it again.
    pub(super) fn mark_awaiting_restart(&mut self, key: Key) {
        if let Some(child) = self.children.get_mut(&key) {
            child.awaits_restart = true;
        }
    }

    /// Returns true if the end of a significant child just now must end its supervisor.
    fn ends_with_significant(&self) -> bool {
        let lives = |child: &Child| child.spec.significant && child.state != RunState::Ended;
        match self.auto_shutdown {
            AutoShutdown::Never => false,
            AutoShutdown::AnySignificant => true,
            AutoShutdown::AllSignificant => !self.children.values().any(lives),
        }
    }

    /// Returns true if a child is removed when it has ended for good.
    fn is_removed_on_end(&self, key: Key) -> bool {
        self.is_dynamic() || self.child(key).is_some_and(|child| child.spec.restart == Restart::Temporary)
    }

    /// Counts a restart, and returns the delay before it.
    pub(super) fn delay(&mut self, key: Key, now: impl FnOnce() -> Instant) -> Duration {
        let (Some(backoff), Some(child)) = (self.backoff, self.children.get_mut(&key)) else { return Duration::ZERO };
        if child.started.take().is_some_and(|started| now().saturating_duration_since(started) >= backoff.limit) {
            child.consecutive_restarts = 0;
        }
        child.consecutive_restarts = child.consecutive_restarts.saturating_add(1);
        backoff.delay(child.consecutive_restarts)
    }

    /// Records that a child has started.
    pub(super) fn started(&mut self, key: Key, pid: Pid, now: impl FnOnce() -> Instant) {
        self.starting = None;
        if self.restarting == Some(key) && matches!(self.strategy, Strategy::OneForOne | Strategy::SimpleOneForOne) {
            self.restarting = None;
        }
        let started = self.backoff.is_some().then(now);
        if let Some(child) = self.children.get_mut(&key) {
            child.started = started;
            child.awaits_restart = false;
            self.waiting -= usize::from(matches!(child.state, RunState::Restarting(_)));
            child.state = RunState::Running(pid);
            self.by_pid.insert(pid, key);
        }
    }

    /// Records that a child failed to start.
    pub(super) fn failed(&mut self, key: Key, reason: ExitReason, now: Instant) {
        let pid = self.starting.take().map(|(_, pid)| pid);
        if let Some(child) = self.children.get_mut(&key) {
            let oldest = child.history.record(End { at: now, pid, reason });
            self.deferred_drops.reason(oldest);
        }
    }

    /// Records that a child waits for its restart.
    pub(super) fn wait(&mut self, key: Key, wait: PendingRestart) {
        self.restarting = None;
        self.set_state(key, RunState::Restarting(wait));
    }

    /// Records that a child was stopped.
    pub(super) fn stopped(&mut self, key: Key) {
        self.stopping = None;
        self.set_state(key, RunState::Ended);
        if self.is_removed_on_end(key) {
            self.remove(key);
        }
    }

    /// Records that a child was stopped and is started again at once.
    pub(super) fn stopped_to_start_again(&mut self, key: Key) {
        self.stopping = None;
        self.set_state(key, RunState::Ended);
    }

    fn set_state(&mut self, key: Key, state: RunState) {
        let Some(child) = self.children.get_mut(&key) else { return };
        child.awaits_restart = false;
        self.waiting += usize::from(matches!(state, RunState::Restarting(_)));
        match std::mem::replace(&mut child.state, state) {
            RunState::Running(pid) => {
                child.previous_pid = Some(pid);
                self.by_pid.remove(&pid);
            }
            RunState::Restarting(_) => self.waiting -= 1,
            RunState::Ended => {}
        }
    }

    /// Returns the children that are not restarted because `key` exceeds the limit, with the reasons of their ends.
    pub(super) fn lost(&self, key: Key) -> Vec<LostChild> {
        let waits = |child: &Child| child.awaits_restart || matches!(child.state, RunState::Restarting(_));
        let lost = self.children.iter().filter(|(other, child)| **other == key || waits(child));
        lost.map(|(key, child)| (*key, Arc::clone(&child.id), child.ended_with())).collect()
    }

    /// Returns why the supervisor gives up after the end of `key`.
    pub(super) fn why_gave_up(&self, key: Key) -> Option<GaveUp> {
        let child = self.children.get(&key)?;
        let mut ends: Vec<ExitReason> = child.history.newest_first().map(|end| end.reason.clone()).collect();
        if ends.is_empty() {
            ends.push(child.ended_with());
        }
        Some(GaveUp { child: Arc::clone(&child.id), intensity: self.intensity(), ends })
    }

    /// Removes all children: the supervisor has ended.
    pub(super) fn clear(&mut self) {
        let children = std::mem::take(&mut self.children);
        self.by_pid = SmallMap::default();
        self.by_id.clear();
        (self.supervisors, self.waiting) = (0, 0);
        self.deferred_drops.children.extend(children.into_values());
        self.deferred_drops.template = self.template.take();
    }

    /// Returns the public information about all children.
    pub(super) fn list(&self, now: Instant) -> Vec<ChildInfo> {
        let state = |state| match state {
            RunState::Running(pid) => ChildState::Running(pid),
            RunState::Restarting(wait) => ChildState::Restarting { left: wait.due.saturating_duration_since(now) },
            RunState::Ended => ChildState::Ended,
        };
        let info = |child: &Child| ChildInfo {
            id: Arc::clone(&child.id),
            state: state(child.state),
            child_type: child.kind,
            restart: child.restart,
            restarts_total: child.restarts_total,
            last_exit: child.last_exit.clone(),
        };
        self.children.values().map(info).collect()
    }

    pub(super) fn counts(&self) -> Counts {
        let (specs, supervisors) = (self.children.len(), self.supervisors);
        Counts { specs, active: self.by_pid.len(), supervisors, workers: specs - supervisors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::name::NameError;
    use crate::supervision::supervisor::policy::Shutdown;

    fn spec(id: &str) -> ChildSpec {
        ChildSpec::new(id, |_| async {}).shutdown(Shutdown::BrutalKill)
    }

    fn pid(number: u32) -> Pid {
        Pid::local(number, 1)
    }

    /// Creates children a, b, … that run as processes 1, 2, …
    fn running(supervisor: Supervisor) -> SupervisorState {
        let mut state = SupervisorState::new(supervisor).unwrap();
        for (key, number) in state.keys().into_iter().zip(1..) {
            state.started(key, pid(number), Instant::now);
        }
        state
    }

    fn crash() -> ExitReason {
        ExitReason::other("crash")
    }

    #[test]
    fn each_restart_type_has_its_own_idea_of_an_end() {
        for (restart, normal, shutdown, abnormal) in [
            (Restart::Permanent, true, true, true),
            (Restart::Transient, false, false, true),
            (Restart::Temporary, false, false, false),
        ] {
            let restarted = |reason| {
                let mut state = running(Supervisor::new(Strategy::OneForOne).child(spec("a").restart(restart)));
                let decision = state.exited(pid(1), reason, Instant::now());
                assert_eq!(state.counts().specs, usize::from(restart != Restart::Temporary));
                decision == Decision::Restart(Key(0))
            };

            assert_eq!(restarted(ExitReason::Normal), normal, "{restart:?}");
            assert_eq!(restarted(ExitReason::Shutdown), shutdown, "{restart:?}");
            assert_eq!(restarted(ExitReason::ShutdownWith("why".into())), shutdown, "{restart:?}");
            assert_eq!(restarted(crash()), abnormal, "{restart:?}");
        }
    }

    #[test]
    fn each_strategy_concerns_other_children() {
        for (strategy, affected) in [
            (Strategy::OneForOne, vec![Key(1)]),
            (Strategy::OneForAll, vec![Key(0), Key(1), Key(2)]),
            (Strategy::RestForOne, vec![Key(1), Key(2)]),
        ] {
            let state = running(Supervisor::new(strategy).child(spec("a")).child(spec("b")).child(spec("c")));

            assert_eq!(state.affected(Key(1)), affected);
        }
    }

    #[test]
    fn a_process_that_is_no_child_any_more_means_nothing() {
        let mut state = running(Supervisor::new(Strategy::OneForOne).child(spec("a")));
        state.stopped(Key(0));

        assert_eq!(state.exited(pid(1), crash(), Instant::now()), Decision::Nothing);
        assert_eq!(state.exited(pid(9), crash(), Instant::now()), Decision::Nothing);
        assert_eq!(state.counts(), Counts { specs: 1, active: 0, supervisors: 0, workers: 1 });
    }

    #[test]
    fn significant_children_end_their_supervisor_one_or_all() {
        let child = |id| spec(id).restart(Restart::Transient).significant(true);
        for (auto_shutdown, first, second) in [
            (AutoShutdown::AnySignificant, Decision::AutoShutdown, Decision::AutoShutdown),
            (AutoShutdown::AllSignificant, Decision::Nothing, Decision::AutoShutdown),
        ] {
            let supervisor = Supervisor::new(Strategy::OneForOne).auto_shutdown(auto_shutdown);
            let mut state = running(supervisor.child(child("a")).child(child("b")).child(spec("c")));

            assert_eq!(state.exited(pid(1), ExitReason::Normal, Instant::now()), first);
            assert_eq!(state.exited(pid(2), ExitReason::Normal, Instant::now()), second);
        }
    }

    #[test]
    fn specs_that_make_no_sense_are_refused() {
        let twice = Supervisor::new(Strategy::OneForOne).child(spec("a")).child(spec("a"));
        assert_eq!(SupervisorState::new(twice).err(), Some(SpecError::Duplicate { id: "a".into() }));

        let permanent = Supervisor::new(Strategy::OneForOne).auto_shutdown(AutoShutdown::AnySignificant);
        let permanent = permanent.child(spec("a").significant(true));
        assert_eq!(SupervisorState::new(permanent).err(), Some(SpecError::Significant { id: "a".into() }));

        let never = Supervisor::new(Strategy::OneForOne).child(spec("a").restart(Restart::Transient).significant(true));
        assert_eq!(SupervisorState::new(never).err(), Some(SpecError::Significant { id: "a".into() }));

        let bare = Supervisor::new(Strategy::SimpleOneForOne);
        assert_eq!(SupervisorState::new(bare).err(), Some(SpecError::NoTemplate));

        let crowded = Supervisor::new(Strategy::OneForOne).max_children(1).child(spec("a")).child(spec("b"));
        assert_eq!(SupervisorState::new(crowded).err(), Some(SpecError::TooMany { children: 2, max_children: 1 }));

        let unnamed = Supervisor::new(Strategy::OneForOne).child(spec("a")).child(spec("b").named(""));
        let error = NameError { what: "process", bytes: 0 };
        assert_eq!(SupervisorState::new(unnamed).err(), Some(SpecError::Name { id: "b".into(), error }));
    }

    #[test]
    fn a_long_life_forgets_the_delays_before_it() {
        let second = Duration::from_secs(1);
        let supervisor = Supervisor::new(Strategy::OneForOne).backoff(Backoff { first: second, limit: 4 * second });
        let mut state = running(supervisor.child(spec("a")));
        let now = Instant::now();

        let mut delays = vec![state.delay(Key(0), || now), state.delay(Key(0), || now)];
        for lived in [3, 4] {
            state.started(Key(0), pid(2), || now);
            delays.push(state.delay(Key(0), || now + lived * second));
        }

        assert_eq!(delays, [second, 2 * second, 4 * second, second]);
    }
}
