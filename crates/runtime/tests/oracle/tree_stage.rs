//! rusm's side of the oracle for supervisors: a process that starts a tree, performs actions on it, and reports the
//! state of the tree after each action.
//!
//! ```text
//!   ok s[0+,1-,2+]2.1.2 2[3+]1.0.1 -1.shutdown,+0.2
//!   │  │ └ children in order, running  │  └ events of children: end by a signal, start for the second time
//!   │  │            └ count_children   └ the same for a child that is a supervisor
//!   └ result of the action
//! ```

#[path = "tree_faults.rs"]
mod tree_faults;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_runtime::supervisor::{
    AutoShutdown, ChildError, ChildInfo, ChildSpec, ChildState, ChildType, GaveUp, Restart, Shutdown,
    SignificantFailure, StartChildError, Strategy, Supervisor, SupervisorRef,
};
use rusm_runtime::{CallError, Config, Context, Exit, ExitReason, Pid, Runtime, Starting, Watch};
use tokio::sync::oneshot;

use crate::tree_script::{self as written, Action, Auto, Child, Id, Kind, Root, TreeScript, Why};

/// Maximum time for all scripts together.
const DEADLINE: Duration = Duration::from_mins(10);
/// Longer than any script, so no restart leaves the window.
const PERIOD: Duration = Duration::from_hours(1);
/// Reported for a tree that cannot be inspected and has not ended.
const MOVING: &str = "moving";
/// Number of equal pictures in a row after which the tree counts as idle.
const ALIKE: usize = 3;

/// Performs scripts and returns their traces in the same order.
pub(crate) fn act_all(scripts: &[TreeScript], bug: Option<TreeBug>) -> Vec<String> {
    let runtime = Runtime::start(Config { schedulers: 3, ..Config::default() }).unwrap();
    let (give, take) = mpsc::sync_channel(scripts.len());
    for (index, script) in scripts.iter().cloned().enumerate() {
        let give = give.clone();
        let act = move |ctx: Context| async move {
            let trace = TreeDriver::new(bug).act(&ctx, &script).await;
            give.send((index, trace)).unwrap();
        };
        runtime.spawn(act).unwrap();
    }
    let until = Instant::now() + DEADLINE;
    let mut traces = BTreeMap::new();
    while traces.len() < scripts.len() {
        let Ok((index, trace)) = take.recv_timeout(until.saturating_duration_since(Instant::now())) else {
            let unfinished = (0..).zip(scripts).find(|(index, _)| !traces.contains_key(index)).unwrap().1;
            panic!("seed {} does not come to an end: {unfinished}", unfinished.seed);
        };
        traces.insert(index, trace);
    }
    traces.into_values().collect()
}

/// A bug planted into rusm's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeBug {
    /// `rest_for_one` behaves like `one_for_all`.
    RestIsAll,
    /// One more restart than the limit is allowed.
    OneRestartTooMany,
    /// A normal end of a transient child counts as abnormal.
    TransientIsPermanent,
    /// A temporary child is restarted when it crashes.
    TemporaryIsTransient,
    /// Every child is killed instead of being asked to stop.
    StopIsBrutal,
    /// No child is significant.
    NobodyIsSignificant,
    /// A child that is told to end stays alive.
    TheDeadAreMissed,
    /// A supervisor treats a kill like any other exit signal.
    SupervisorsSurviveKills,
    /// The supervisor misses deaths while it is busy with another child.
    DeathsDuringARestartAreMissed,
    /// Children that ignore exit signals end when their supervisor dies.
    OrphansDie,
    /// A child cannot be ended while it starts.
    WhoStartsIsDeaf,
}

impl TreeBug {
    pub(crate) const ALL: [Self; 11] = [
        Self::RestIsAll,
        Self::OneRestartTooMany,
        Self::TransientIsPermanent,
        Self::TemporaryIsTransient,
        Self::StopIsBrutal,
        Self::NobodyIsSignificant,
        Self::TheDeadAreMissed,
        Self::SupervisorsSurviveKills,
        Self::DeathsDuringARestartAreMissed,
        Self::OrphansDie,
        Self::WhoStartsIsDeaf,
    ];
}

/// A request to a child.
enum Request {
    End(Why),
    /// Ends as well, but without notifying the supervisor.
    Slip(Why),
    Look(oneshot::Sender<()>),
}

/// Events and processes recorded by the children.
#[derive(Default)]
struct EventLog {
    starts: BTreeMap<Id, u8>,
    pids: BTreeMap<Id, Pid>,
    names: BTreeMap<Pid, Id>,
    /// The ends of children that started since the driver last took them. They watch from the start on: a watch of a
    /// process that is about to end may be over before its links were notified.
    ends: Vec<(Pid, Watch)>,
    /// Id of the child to be held at its next start, and the channel that reports it.
    hold: Option<(Id, oneshot::Sender<Held>)>,
    events: Vec<String>,
}

/// A child that is held during its start, and the channel that releases it.
pub(crate) struct Held {
    pub(crate) pid: Pid,
    release: oneshot::Sender<()>,
}

/// State shared by the processes of one script.
#[derive(Clone)]
struct TreeUnderTest {
    bug: Option<TreeBug>,
    log: Arc<Mutex<EventLog>>,
}

impl TreeUnderTest {
    fn has(&self, bug: TreeBug) -> bool {
        self.bug == Some(bug)
    }

    fn supervisor(&self, root: &Root) -> Supervisor {
        let intensity = u32::from(root.intensity) + u32::from(self.has(TreeBug::OneRestartTooMany));
        let strategy = match root.strategy {
            written::Strategy::OneForOne => Strategy::OneForOne,
            written::Strategy::OneForAll => Strategy::OneForAll,
            written::Strategy::RestForOne if self.has(TreeBug::RestIsAll) => Strategy::OneForAll,
            written::Strategy::RestForOne => Strategy::RestForOne,
            written::Strategy::Simple => {
                return Supervisor::simple_one_for_one(self.template(&root.children[0])).intensity(intensity, PERIOD);
            }
        };
        let auto = match root.auto {
            Auto::Never => AutoShutdown::Never,
            Auto::Any => AutoShutdown::AnySignificant,
            Auto::All => AutoShutdown::AllSignificant,
        };
        let supervisor = Supervisor::new(strategy).intensity(intensity, PERIOD).auto_shutdown(auto);
        root.children.iter().fold(supervisor, |supervisor, child| supervisor.child(self.child(child)))
    }

    fn child(&self, child: &Child) -> ChildSpec {
        let (tree, id, kind) = (self.clone(), child.id, child.kind.clone());
        let spec = if let Kind::Supervisor(root) = &child.kind {
            ChildSpec::supervisor(id.to_string(), self.supervisor(root))
        } else {
            let body = move |ctx, starting| tree.clone().live(ctx, starting, id, kind.clone());
            ChildSpec::acknowledged(id.to_string(), body)
        };
        self.like(spec, child)
    }

    fn template(&self, child: &Child) -> ChildSpec {
        let (tree, kind) = (self.clone(), child.kind.clone());
        let body = move |ctx, starting, id: Id| tree.clone().live(ctx, starting, id, kind.clone());
        self.like(ChildSpec::acknowledged_template("template", body), child)
    }

    fn like(&self, spec: ChildSpec, child: &Child) -> ChildSpec {
        let restart = match child.restart {
            written::Restart::Transient if self.has(TreeBug::TransientIsPermanent) && !child.significant => {
                Restart::Permanent
            }
            written::Restart::Temporary if self.has(TreeBug::TemporaryIsTransient) => Restart::Transient,
            written::Restart::Permanent => Restart::Permanent,
            written::Restart::Transient => Restart::Transient,
            written::Restart::Temporary => Restart::Temporary,
        };
        let shutdown = match child.shutdown {
            _ if self.has(TreeBug::StopIsBrutal) => Shutdown::BrutalKill,
            written::Shutdown::Brutal => Shutdown::BrutalKill,
            written::Shutdown::Soon => Shutdown::Timeout(Duration::from_millis(5)),
            written::Shutdown::Infinity => Shutdown::Infinity,
        };
        let significant = child.significant && !self.has(TreeBug::NobodyIsSignificant);
        spec.restart(restart).shutdown(shutdown).significant(significant)
    }

    /// Body of a child.
    async fn live(self, ctx: Context, starting: Starting, id: Id, kind: Kind) -> ExitReason {
        if !self.starts(&ctx, id, &kind) {
            return starting.refuse(&ctx, ExitReason::other("failed"));
        }
        if let Some(go_on) = self.held(&ctx, id) {
            // The process that holds it may have ended.
            drop(go_on.await);
        }
        ctx.trap_exits(matches!(kind, Kind::Traps | Kind::Stubborn));
        starting.acknowledge();
        loop {
            match ctx.receive().await.downcast() {
                Ok(Request::End(_)) if self.has(TreeBug::TheDeadAreMissed) => {}
                Ok(Request::End(why)) => return reason(why),
                Ok(Request::Slip(why)) => {
                    ctx.parent().into_iter().for_each(|parent| ctx.unlink(parent));
                    return reason(why);
                }
                Ok(Request::Look(give)) => drop(give.send(())),
                Err(message) => {
                    let Ok(Exit { reason, .. }) = message.downcast() else { continue };
                    if self.has(TreeBug::OrphansDie) && reason == ExitReason::Killed {
                        return reason;
                    }
                    if kind == Kind::Traps {
                        self.log.lock().events.push(format!("-{id}.{reason}"));
                        return reason;
                    }
                }
            }
        }
    }

    /// Returns the channel on which a child must wait before it continues, if it is to be held.
    fn held(&self, ctx: &Context, id: Id) -> Option<oneshot::Receiver<()>> {
        let mut log = self.log.lock();
        let (_, tell) = log.hold.take_if(|hold| hold.0 == id)?;
        log.events.push(format!("={id}"));
        let (release, go_on) = oneshot::channel();
        tell.send(Held { pid: ctx.pid(), release }).ok()?;
        Some(go_on)
    }

    /// Records a start; returns false if it must fail.
    fn starts(&self, ctx: &Context, id: Id, kind: &Kind) -> bool {
        let mut log = self.log.lock();
        let start = log.starts.entry(id).or_default();
        *start += 1;
        let start = *start;
        if *kind == Kind::Fails(start) {
            log.events.push(format!("?{id}.{start}"));
            return false;
        }
        log.events.push(format!("+{id}.{start}"));
        log.pids.insert(id, ctx.pid());
        log.names.insert(ctx.pid(), id);
        log.ends.push((ctx.pid(), ctx.runtime().watch(ctx.pid())));
        true
    }
}

fn reason(why: Why) -> ExitReason {
    match why {
        Why::Normal => ExitReason::Normal,
        Why::Shutdown => ExitReason::Shutdown,
        Why::Kill | Why::Bad => ExitReason::other(why),
    }
}

/// Starts a tree and performs the actions of a script on it.
pub(crate) struct TreeDriver {
    tree: TreeUnderTest,
    root: Option<SupervisorRef>,
    end: Option<Watch>,
    /// Ends of children that are not known to be over.
    ends: BTreeMap<Pid, Watch>,
    /// Exit reason of the root.
    ended: Option<ExitReason>,
    /// Number of events already reported.
    told: usize,
}

impl TreeDriver {
    fn new(bug: Option<TreeBug>) -> Self {
        let tree = TreeUnderTest { bug, log: Arc::default() };
        Self { tree, root: None, end: None, ends: BTreeMap::new(), ended: None, told: 0 }
    }

    async fn act(&mut self, ctx: &Context, script: &TreeScript) -> String {
        ctx.trap_exits(true);
        let started = self.tree.supervisor(&script.root).start_link(ctx).await;
        self.root = started.ok();
        self.end = self.root.map(|root| ctx.runtime().watch(root.pid()));
        let mut steps = vec![self.state(ctx, if self.root.is_some() { "ok" } else { "failed" }).await];
        for action in &script.actions {
            let result = self.execute(ctx, action).await;
            steps.push(self.state(ctx, result).await);
        }
        if let Some(root) = self.root {
            ctx.exit(root.pid(), ExitReason::Killed);
        }
        for pid in self.pids() {
            ctx.exit(pid, ExitReason::Killed);
        }
        steps.join(";")
    }

    fn pids(&self) -> Vec<Pid> {
        self.tree.log.lock().names.keys().copied().collect()
    }

    fn child(&self, ctx: &Context, id: Id) -> Option<Pid> {
        let pid = self.tree.log.lock().pids.get(&id).copied();
        pid.filter(|pid| ctx.runtime().is_alive(*pid))
    }

    async fn supervisor(&self, ctx: &Context, own: written::Supervisor) -> Option<SupervisorRef> {
        let root = self.root.filter(|root| ctx.runtime().is_alive(root.pid()))?;
        let Some(id) = own else { return Some(root) };
        let below = below(ctx, root).await.ok()?;
        below.into_iter().find(|(name, _)| **name == id.to_string()).map(|(_, supervisor)| supervisor)
    }

    async fn execute(&mut self, ctx: &Context, action: &Action) -> &'static str {
        let own = match action {
            Action::ExitSupervisor(own, why) => return self.exit_supervisor(ctx, *own, *why).await,
            Action::During(id, why, actions) => return self.during(ctx, *id, *why, actions).await,
            Action::End(id, _) | Action::Exit(id, _) => {
                let Some(pid) = self.child(ctx, *id) else { return "nobody" };
                match action {
                    Action::Exit(_, Why::Kill) => ctx.exit(pid, ExitReason::Killed),
                    Action::Exit(_, why) => ctx.exit(pid, reason(*why)),
                    Action::End(_, why) => ctx.send(pid, Request::End(*why)).await,
                    _ => unreachable!("only these two actions get here"),
                }
                return "ok";
            }
            Action::Stop => {
                let Some(root) = self.root else { return "nobody" };
                ctx.exit(root.pid(), ExitReason::Shutdown);
                return "ok";
            }
            Action::TerminateOne(_, id) if self.child(ctx, *id).is_none() => return "nobody",
            Action::Start(own, _)
            | Action::StartOne(own, _)
            | Action::Terminate(own, _)
            | Action::TerminateOne(own, _)
            | Action::Restart(own, _)
            | Action::Delete(own, _) => *own,
        };
        let Some(supervisor) = self.supervisor(ctx, own).await else { return "nobody" };
        self.ask(ctx, supervisor, action).await
    }

    async fn ask(&self, ctx: &Context, supervisor: SupervisorRef, action: &Action) -> &'static str {
        match action {
            Action::Start(_, child) => started(&supervisor.start_child(ctx, self.tree.child(child)).await),
            Action::StartOne(_, id) => started(&supervisor.start_one(ctx, *id).await),
            Action::Terminate(_, id) => done(&supervisor.terminate_child(ctx, &*id.to_string()).await),
            Action::TerminateOne(_, id) => match self.child(ctx, *id) {
                Some(pid) => done(&supervisor.terminate_child(ctx, pid).await),
                None => "nobody",
            },
            Action::Restart(_, id) => done(&supervisor.restart_child(ctx, &*id.to_string()).await),
            Action::Delete(_, id) => done(&supervisor.delete_child(ctx, &*id.to_string()).await),
            Action::End(..) | Action::Exit(..) | Action::ExitSupervisor(..) | Action::During(..) | Action::Stop => {
                unreachable!("these actions do not call a supervisor")
            }
        }
    }

    /// Returns the state of the tree once it is idle.
    async fn state(&mut self, ctx: &Context, result: &str) -> String {
        let picture = self.settle(ctx).await;
        let log = self.tree.log.lock();
        let events = log.events[self.told..].join(",");
        self.told = log.events.len();
        format!("{result} {picture} {events}")
    }

    /// Inspects the tree until it is idle.
    async fn settle(&mut self, ctx: &Context) -> String {
        let mut before = (String::new(), 0);
        let mut alike = 0;
        // On a slow machine, a supervisor that is about to end may be seen this many times before it has ended.
        while alike < if before.0 == MOVING { ALIKE * 1_000 } else { ALIKE } {
            self.ends.extend(std::mem::take(&mut self.tree.log.lock().ends));
            let pids: Vec<Pid> = self.ends.keys().copied().collect();
            for pid in pids {
                if !is_idle(ctx, pid).await
                    && let Some(end) = self.ends.get_mut(&pid)
                {
                    end.await;
                    self.ends.remove(&pid);
                }
            }
            let now = (self.picture(ctx).await, self.tree.log.lock().events.len());
            alike = if now == before { alike + 1 } else { 0 };
            before = now;
        }
        before.0
    }

    async fn picture(&mut self, ctx: &Context) -> String {
        let Some(root) = self.root else { return "-".to_owned() };
        match self.look(ctx, root).await {
            Ok(picture) => picture,
            Err(_) if ctx.runtime().is_alive(root.pid()) => MOVING.to_owned(),
            Err(_) => {
                if let Some(end) = self.end.take() {
                    self.ended = Some(end.await);
                }
                match self.ended.as_ref().unwrap() {
                    // Erlang's supervisors say nothing about the cause.
                    ExitReason::ShutdownWith(why)
                        if why.value::<GaveUp>().is_some() || why.value::<SignificantFailure>().is_some() =>
                    {
                        "!shutdown".to_owned()
                    }
                    reason => format!("!{reason}"),
                }
            }
        }
    }

    async fn look(&self, ctx: &Context, root: SupervisorRef) -> Result<String, CallError> {
        let children = root.which_children(ctx).await?;
        let mut picture = vec![format!("s{}", self.family(ctx, root, &children).await?)];
        for (id, supervisor) in below(ctx, root).await? {
            let own = supervisor.which_children(ctx).await?;
            picture.push(format!("{id}{}", self.family(ctx, supervisor, &own).await?));
        }
        Ok(picture.join(" "))
    }

    async fn family(
        &self,
        ctx: &Context,
        supervisor: SupervisorRef,
        children: &[ChildInfo],
    ) -> Result<String, CallError> {
        let counts = supervisor.count_children(ctx).await?;
        let dynamic = children.iter().all(|child| &*child.id == "template");
        let mut names: Vec<String> = children.iter().map(|child| self.name(child)).collect();
        if dynamic {
            names.sort();
        }
        let numbers = [counts.active, counts.supervisors, counts.workers];
        let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        Ok(format!("[{}]{}", names.join(","), numbers.join(".")))
    }

    fn name(&self, child: &ChildInfo) -> String {
        match (&*child.id, &child.state) {
            ("template", ChildState::Running(pid)) => format!("{}+", self.tree.log.lock().names[pid]),
            ("template", _) => "~".to_owned(),
            (id, ChildState::Running(_)) => format!("{id}+"),
            (id, ChildState::Ended) => format!("{id}-"),
            (id, ChildState::Restarting { .. }) => format!("{id}~"),
        }
    }
}

/// Waits until a child has handled its earlier requests. Returns false if it has ended, or is about to.
async fn is_idle(ctx: &Context, pid: Pid) -> bool {
    let (give, take) = oneshot::channel();
    ctx.send(pid, Request::Look(give)).await;
    take.await.is_ok()
}

/// Returns all supervisors below one, each before those below itself.
async fn below(ctx: &Context, root: SupervisorRef) -> Result<Vec<(Arc<str>, SupervisorRef)>, CallError> {
    let mut all = Vec::new();
    let mut next = vec![(Arc::from("s"), root)];
    while let Some((id, above)) = next.pop() {
        let children = above.which_children(ctx).await?;
        all.push((id, above));
        next.extend(children.iter().rev().filter_map(|child| Some((Arc::clone(&child.id), supervisor(child)?))));
    }
    all.remove(0);
    Ok(all)
}

fn supervisor(child: &ChildInfo) -> Option<SupervisorRef> {
    match (child.child_type, child.state) {
        (ChildType::Supervisor, ChildState::Running(pid)) => Some(SupervisorRef::of(pid)),
        _ => None,
    }
}

fn started(started: &Result<Pid, StartChildError>) -> &'static str {
    match started {
        Ok(_) => "ok",
        Err(StartChildError::AlreadyStarted(_)) => "already_started",
        Err(StartChildError::AlreadyPresent) => "already_present",
        Err(StartChildError::Call(_)) => "gone",
        Err(_) => "failed",
    }
}

fn done<T>(done: &Result<T, ChildError>) -> &'static str {
    match done {
        Ok(_) => "ok",
        Err(ChildError::NotFound) => "not_found",
        Err(ChildError::Running) => "running",
        Err(ChildError::Restarting) => "restarting",
        Err(ChildError::Once) => "once",
        Err(ChildError::Dynamic) => "simple_one_for_one",
        Err(ChildError::Init(_)) => "failed",
        Err(ChildError::Call(_)) => "gone",
    }
}
