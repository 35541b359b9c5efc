//! The process of a supervisor: carries out the decisions of its [`Family`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;

use crate::call::{Answer, Request};
use crate::context::Context;
use crate::exit::ExitReason;
use crate::message::Message;
use crate::panics;
use crate::pid::Pid;
use crate::signal::{Down, Exit, MonitorRef};
use crate::starting::{InitError, Starting};

use super::child::{Key, State, Wait};
use super::child_spec::{Arguments, Begun, ChildSpec, Shutdown, StartError};
use super::family::{Family, Verdict};
use super::order::{ChildRef, Order, OrderError, StartChildError, Told};
use super::reports;
use super::tree::Place;
use super::{FailedChild, Strategy, Supervisor};

/// Runs a supervisor: the body of its process.
pub(super) async fn run(supervisor: Supervisor, ctx: Context, starting: Starting) -> ExitReason {
    ctx.trap_exits(true);
    let family = match Family::new(supervisor) {
        Ok(family) => family,
        Err(error) => return starting.refuse(&ctx, error.into_exit()),
    };
    let mut keeper = Keeper::new(ctx, family);
    if let Err(failed) = keeper.start_all().await {
        keeper.stop_all().await;
        return starting.refuse(&keeper.ctx, failed.into_exit());
    }
    starting.acknowledge();
    let reason = keeper.keep().await;
    keeper.stop_all().await;
    reason
}

struct Keeper {
    ctx: Context,
    parent: Option<Pid>,
    /// State of the supervisor, where observers can see it.
    place: Place,
    template: Option<Arc<ChildSpec>>,
    /// True if a restart affects only the child itself.
    restarts_one: bool,
    /// True if restarts may be delayed.
    backs_off: bool,
    /// Restarts that are not due yet, the next first. An entry is ignored if its child no longer waits for it.
    waiting: BinaryHeap<Reverse<(Instant, Key)>>,
    /// Number of messages that arrived before a start failed and are handled before its next try: another child's end
    /// may be among them, and its restart may affect this child as well.
    ahead: u64,
    /// Time of the last report of restart pressure.
    strained: Option<Instant>,
}

/// Next event of a supervisor.
enum Event {
    Message(Message),
    /// The restart of a child may be due.
    Due(Key),
}

impl Keeper {
    fn new(ctx: Context, family: Family) -> Self {
        let (parent, template) = (ctx.parent(), family.template.clone());
        let restarts_one = matches!(family.strategy, Strategy::OneForOne | Strategy::SimpleOneForOne);
        let backs_off = family.backs_off();
        let place = Arc::clone(&ctx.running().local.shared.tree).enter(ctx.pid(), parent, family);
        let waiting = BinaryHeap::new();
        Self { ctx, parent, place, template, restarts_one, backs_off, waiting, ahead: 0, strained: None }
    }

    /// Gives `look` access to the state for a moment; `look` must not run user code.
    fn family<R>(&self, look: impl FnOnce(&mut Family) -> R) -> R {
        self.place.branch.with(look)
    }

    /// Supervises the children until there is a reason to end.
    async fn keep(&mut self) -> ExitReason {
        loop {
            let event = self.next().await;
            // Send the wake-up that the last start skipped: if this turn continues, the started process must not wait
            // for its end.
            self.ctx.running().local.pay_wake();
            let verdict = match event {
                Event::Due(key) => self.due(key).await,
                Event::Message(message) => match message.downcast::<Exit>() {
                    Ok(Exit { from, reason }) if from == Pid::NONE || Some(from) == self.parent => return reason,
                    Ok(Exit { from, reason }) => {
                        let moment = now();
                        self.family(|family| family.exited(from, reason, moment))
                    }
                    Err(message) => {
                        self.obey(message).await;
                        continue;
                    }
                },
            };
            match verdict {
                Verdict::Nothing => {}
                Verdict::Restart(key) => self.restart_or_wait(key).await,
                Verdict::GiveUp(key) => {
                    reports::gave_up(&self.ctx, key, self.family(|family| family.lost(key)));
                    return ExitReason::Shutdown;
                }
                Verdict::AutoShutdown => return ExitReason::Shutdown,
            }
        }
    }

    async fn next(&mut self) -> Event {
        let Some(Reverse((due, key))) = self.waiting.peek().copied() else {
            return Event::Message(self.ctx.receive().await);
        };
        let left = due.saturating_duration_since(now());
        if left.is_zero() {
            // Otherwise a child that fails at once would keep all others waiting.
            self.ctx.yield_now().await;
        }
        if !(left.is_zero() && self.ahead == 0)
            && let Some(message) = self.ctx.receive_timeout(left).await
        {
            self.ahead = self.ahead.saturating_sub(1);
            return Event::Message(message);
        }
        self.ahead = 0;
        self.waiting.pop();
        Event::Due(key)
    }

    /// Starts all children; stops at the first child that fails to start.
    async fn start_all(&mut self) -> Result<(), FailedChild> {
        for key in self.keys() {
            if let Err(error) = self.start(key).await {
                let id = self.family(|family| family.child(key).map(|child| Arc::clone(&child.id)));
                return Err(FailedChild { id: id.unwrap_or_default(), error: error.into_init() });
            }
        }
        Ok(())
    }

    fn keys(&self) -> Vec<Key> {
        self.family(|family| family.keys())
    }

    /// Starts a child that is not running.
    async fn start(&self, key: Key) -> Result<Pid, StartError> {
        match self.try_to_start(key).await {
            Ok(pid) => {
                self.family(|family| family.started(key, pid, now));
                Ok(pid)
            }
            Err(error) => {
                self.failed(key, &error);
                Err(error)
            }
        }
    }

    fn failed(&self, key: Key, error: &StartError) {
        let (moment, reason) = (now(), error.reason());
        self.family(|family| family.failed(key, reason, moment));
    }

    async fn try_to_start(&self, key: Key) -> Result<Pid, StartError> {
        // After a start the supervisor mostly has nothing left to do but wait.
        self.ctx.running().local.spawns_and_returns();
        let spec =
            self.family(|family| family.child(key).map(|child| (Arc::clone(&child.spec), child.arguments.clone())));
        let begun = match &spec {
            Some((spec, arguments)) => begin(&self.ctx, spec, arguments.as_ref())?,
            None => return Err(InitError::Ended(ExitReason::NoProcess).into()),
        };
        match begun {
            Begun::Started(pid) => Ok(pid),
            Begun::Starting(pid, started) => {
                self.family(|family| family.starting = Some((key, pid)));
                Ok(started.await.map(|()| pid).map_err(InitError::Ended)?)
            }
        }
    }

    /// Restarts a child, now or after its delay. The restart window has already counted the restart.
    async fn restart_or_wait(&mut self, key: Key) {
        let delay = self.delay(key);
        if delay.is_zero() {
            self.restart(key).await;
        } else {
            self.wait(key, delay, true);
        }
    }

    fn delay(&self, key: Key) -> Duration {
        if !self.backs_off {
            return Duration::ZERO;
        }
        self.family(|family| family.delay(key, now))
    }

    /// Restarts a child and the others that the strategy selects; a child that fails to start is tried again.
    async fn restart(&mut self, key: Key) {
        if self.restarts_one {
            self.start_again(key, true).await;
            return;
        }
        let concerned = self.family(|family| family.concerned(key));
        for key in concerned.iter().rev() {
            self.stop(*key).await;
            self.family(|family| family.owe(*key));
        }
        for other in concerned {
            // A temporary child has been removed.
            if self.family(|family| family.child(other).is_some()) && !self.start_again(other, other == key).await {
                return;
            }
        }
        self.family(|family| family.restarting = None);
    }

    /// Starts a child that has ended, or lets it wait for its next try; returns true if it runs.
    async fn start_again(&mut self, key: Key, ended_by_itself: bool) -> bool {
        match self.try_to_start(key).await {
            Ok(pid) => {
                let Self { ctx, place, strained, .. } = self;
                place.branch.with(|family| {
                    family.started(key, pid, now);
                    if ended_by_itself {
                        family.restarted(key);
                        reports::restarted(ctx, family, key, pid);
                        reports::spent(ctx, family, now, strained);
                    }
                });
                true
            }
            Err(error) => {
                self.failed(key, &error);
                let Self { ctx, place, strained, .. } = self;
                let id = place.branch.with(|family| {
                    reports::spent(ctx, family, now, strained);
                    family.child(key).map(|child| Arc::clone(&child.id))
                });
                reports::restart_failed(&self.ctx, id.unwrap_or_default(), error.into_init());
                let delay = self.delay(key);
                self.wait(key, delay, false);
                false
            }
        }
    }

    fn wait(&mut self, key: Key, delay: Duration, spent: bool) {
        let due = now() + delay.min(FAR);
        self.family(|family| family.wait(key, Wait { due, spent }));
        self.ahead = self.ctx.running().slot.cell().mailbox_len();
        self.waiting.push(Reverse((due, key)));
    }

    /// Handles a due restart, if the child still waits for it.
    async fn due(&mut self, key: Key) -> Verdict {
        let moment = now();
        let verdict = self.family(|family| match family.child(key).map(|child| child.state) {
            Some(State::Restarting(wait)) if wait.due <= moment && wait.spent => {
                family.restarting = Some(key);
                Verdict::Restart(key)
            }
            Some(State::Restarting(wait)) if wait.due <= moment => family.forgive(key, moment),
            _ => Verdict::Nothing,
        });
        if let Verdict::Restart(key) = verdict {
            self.restart(key).await;
            return Verdict::Nothing;
        }
        verdict
    }

    /// Stops a child, whatever its state.
    async fn stop(&self, key: Key) {
        let running = self.family(|family| match family.child(key).map(|child| (child.state, child.spec.shutdown)) {
            Some((State::Running(pid), shutdown)) => {
                family.stopping = Some(key);
                Some((pid, shutdown))
            }
            _ => None,
        });
        if let Some((pid, shutdown)) = running {
            stop_process(&self.ctx, pid, shutdown).await;
        }
        self.family(|family| family.stopped(key));
    }

    /// Stops all children in reverse order; those of a dynamic supervisor all at once.
    async fn stop_all(&self) {
        self.family(|family| family.ending = true);
        if let Some(template) = &self.template {
            return self.stop_together(template.shutdown).await;
        }
        for key in self.keys().into_iter().rev() {
            self.stop(key).await;
        }
    }

    async fn stop_together(&self, shutdown: Shutdown) {
        let pids: Vec<Pid> = self.family(|family| family.pids().collect());
        let mut left: HashMap<MonitorRef, Pid, FxBuildHasher> =
            pids.into_iter().map(|pid| (self.ctx.monitor(pid), pid)).collect();
        for pid in left.values() {
            self.ctx.exit(*pid, shutdown.signal());
        }
        if let Shutdown::Timeout(timeout) = shutdown {
            if self.ctx.within(timeout, all_down(&self.ctx, &mut left)).await.is_some() {
                return;
            }
            for pid in left.values() {
                self.ctx.exit(*pid, ExitReason::Killed);
            }
        }
        all_down(&self.ctx, &mut left).await;
    }

    /// Executes a request; any other message is dropped.
    async fn obey(&mut self, message: Message) {
        match message.downcast::<Request<Order, Told>>() {
            Ok(Request { request, reply }) => {
                let told = match request {
                    Order::Start(spec) => Told::Started(self.start_child(*spec).await),
                    Order::StartOne(arguments) => Told::Started(self.start_one(arguments).await),
                    Order::Terminate(child) => Told::Done(self.terminate(&child).await),
                    Order::Restart(child) => Told::Restarted(self.restart_ended(&child).await),
                    Order::Delete(child) => {
                        let key = self.ended(&child);
                        Told::Done(key.map(|key| self.family(|family| family.remove(key))))
                    }
                    Order::Which => {
                        let moment = now();
                        Told::Children(self.family(|family| family.list(moment)))
                    }
                    Order::Count => Told::Counts(self.family(|family| family.counts())),
                };
                // The caller may have ended meanwhile.
                drop(reply.send(&self.ctx, told));
            }
            Err(message) => tracing::debug!(supervisor = %self.ctx.pid(), ?message, "unexpected message"),
        }
    }

    async fn start_child(&self, spec: ChildSpec) -> Result<Pid, StartChildError> {
        if self.template.is_some() {
            return Err(StartChildError::WrongKind);
        }
        let there = self.family(|family| {
            family.check(&spec)?;
            let there = family.find(&ChildRef::Id(Arc::clone(&spec.id)));
            Ok::<_, StartChildError>(there.and_then(|key| family.child(key)).map(|child| child.state))
        });
        match there? {
            Some(State::Running(pid)) => return Err(StartChildError::AlreadyStarted(Some(pid))),
            Some(State::Restarting(_)) => return Err(StartChildError::AlreadyStarted(None)),
            Some(State::Ended) => return Err(StartChildError::AlreadyPresent),
            None => {}
        }
        self.start_new(Arc::new(spec), None).await
    }

    async fn start_one(&self, arguments: Arguments) -> Result<Pid, StartChildError> {
        let template = self.template.clone().ok_or(StartChildError::WrongKind)?;
        self.start_new(template, Some(arguments)).await
    }

    async fn start_new(&self, spec: Arc<ChildSpec>, arguments: Option<Arguments>) -> Result<Pid, StartChildError> {
        let key = self.family(|family| family.add(spec, arguments));
        self.start(key).await.map_err(|error| {
            self.family(|family| family.remove(key));
            match error {
                StartError::Init(error) => StartChildError::Init(error),
                StartError::Arguments => StartChildError::WrongKind,
            }
        })
    }

    async fn terminate(&self, child: &ChildRef) -> Result<(), OrderError> {
        let key = self.family(|family| family.find(child)).ok_or(OrderError::NotFound)?;
        self.stop(key).await;
        Ok(())
    }

    async fn restart_ended(&self, child: &ChildRef) -> Result<Pid, OrderError> {
        let key = self.ended(child)?;
        self.start(key).await.map_err(|error| OrderError::Init(error.into_init()))
    }

    /// Finds a child that has ended and is not restarted automatically.
    fn ended(&self, child: &ChildRef) -> Result<Key, OrderError> {
        if self.template.is_some() {
            return Err(OrderError::Dynamic);
        }
        let found = self.family(|family| {
            let key = family.find(child)?;
            family.child(key).map(|child| (key, child.state))
        });
        match found {
            Some((_, State::Running(_))) => Err(OrderError::Running),
            Some((_, State::Restarting(_))) => Err(OrderError::Restarting),
            Some((key, State::Ended)) => Ok(key),
            None => Err(OrderError::NotFound),
        }
    }
}

/// Longer than any restart delay in practice; an instant this far in the future is still valid.
const FAR: Duration = Duration::from_hours(30 * 365 * 24);

const WRONG_ARGUMENTS: &str = "the arguments have a different type than the template's";

/// Returns the time of the clock that sleeps use, which may be virtual in a test.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Begins the start of a child; a panic of its closure counts as a failed start.
fn begin<'a>(ctx: &'a Context, spec: &ChildSpec, arguments: Option<&Arguments>) -> Result<Begun<'a>, StartError> {
    catch_unwind(AssertUnwindSafe(|| spec.start.begin(ctx, arguments)))
        .unwrap_or_else(|payload| Err(InitError::Ended(panics::reason(payload)).into()))
}

/// Stops a process and waits for its end, which the monitor reports even if the process has unlinked itself.
async fn stop_process(ctx: &Context, pid: Pid, shutdown: Shutdown) {
    let mut end = Answer::<()>::of(ctx, pid);
    ctx.exit(pid, shutdown.signal());
    if let Shutdown::Timeout(timeout) = shutdown {
        if ctx.within(timeout, &mut end).await.is_some() {
            return;
        }
        ctx.exit(pid, ExitReason::Killed);
    }
    drop(end.await);
}

/// Waits until all processes have ended; any other message is dropped.
async fn all_down(ctx: &Context, left: &mut HashMap<MonitorRef, Pid, FxBuildHasher>) {
    while !left.is_empty() {
        if let Ok(down) = ctx.receive().await.downcast::<Down>() {
            left.remove(&down.reference);
        }
    }
}

impl Shutdown {
    const fn signal(self) -> ExitReason {
        match self {
            Self::BrutalKill => ExitReason::Killed,
            Self::Timeout(_) | Self::Infinity => ExitReason::Shutdown,
        }
    }
}

impl StartError {
    fn reason(&self) -> ExitReason {
        match self {
            Self::Init(InitError::Ended(reason)) => reason.clone(),
            Self::Init(error @ InitError::Spawn(_)) => ExitReason::other(error),
            Self::Arguments => ExitReason::other(WRONG_ARGUMENTS),
        }
    }

    fn into_init(self) -> InitError {
        match self {
            Self::Init(error) => error,
            Self::Arguments => InitError::Ended(ExitReason::other(WRONG_ARGUMENTS)),
        }
    }
}
