//! The process of a supervisor: carries out the decisions of its [`SupervisorState`].

mod reports;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxBuildHasher;

use crate::links::registry::RegisterError;
use crate::links::signal::{Down, Exit, MonitorRef};
use crate::mailbox::call::PendingReply;
use crate::mailbox::message::Message;
use crate::mailbox::request::Request;
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::exit::{ExitReason, panic_reason};
use crate::process::pid::Pid;
use crate::process::start::Starting;
use crate::runtime::handle::Handle;

use super::branch::TreeRegistration;
use super::child::{Key, PendingRestart, RunState};
use super::child_spec::{Arguments, BegunStart, ChildSpec, Start, StartError};
use super::command::{ChildError, ChildRef, Command, Reply, StartChildError, SupervisorRef};
use super::policy::{Shutdown, Strategy};
use super::spec::{FailedChild, GaveUp, SignificantFailure, Supervisor};
use super::state::{Decision, SupervisorState};
use crate::supervision::actor::{Unmatched, UnmatchedLog};

/// Runs a supervisor: the body of its process.
pub(super) async fn run(supervisor: Supervisor, ctx: Context, starting: Starting) -> ExitReason {
    ctx.trap_exits(true);
    if let Some(Err(error)) = supervisor.name.as_ref().map(|name| ctx.register(name)) {
        return starting.refuse(&ctx, error.into());
    }
    let state = match SupervisorState::new(supervisor) {
        Ok(state) => state,
        Err(error) => return starting.refuse(&ctx, error.into_exit()),
    };
    let mut supervisor_loop = SupervisorLoop::new(ctx, state);
    if let Err(failed) = supervisor_loop.start_all().await {
        supervisor_loop.stop_all().await;
        return starting.refuse(&supervisor_loop.ctx, failed.into_exit());
    }
    starting.acknowledge();
    let reason = supervisor_loop.supervise().await;
    supervisor_loop.stop_all().await;
    reason
}

impl Supervisor {
    /// Starts the supervisor, linked to the calling process, and waits until all of its children have started.
    ///
    /// # Errors
    /// [`InitError`] when a child did not start, or when the specification is not valid. The exit reason in it is a
    /// [`ShutdownWith`](ExitReason::ShutdownWith) that carries a [`FailedChild`] or a [`SpecError`](super::SpecError).
    pub async fn start_link(self, ctx: &Context) -> Result<SupervisorRef, InitError> {
        ctx.start_link(move |ctx, starting| run(self, ctx, starting)).await.map(SupervisorRef::of)
    }

    /// Starts the supervisor from outside. It ends when the runtime shuts down.
    ///
    /// # Errors
    /// As for [`start_link`](Self::start_link).
    pub async fn start(self, runtime: &Handle) -> Result<SupervisorRef, InitError> {
        runtime.start(move |ctx, starting| run(self, ctx, starting)).await.map(SupervisorRef::of)
    }
}

struct SupervisorLoop {
    ctx: Context,
    parent: Option<Pid>,
    /// State of the supervisor, where observers can see it.
    registration: TreeRegistration,
    template: Option<Arc<ChildSpec>>,
    /// True if a restart affects only the child itself.
    restarts_one: bool,
    /// True if restarts may be delayed.
    backs_off: bool,
    /// Restarts that are not due yet, the next first. An entry is ignored if its child no longer waits for it.
    waiting: BinaryHeap<Reverse<(Instant, Key)>>,
    /// Number of messages that arrived before a start failed and are handled before its next try: another child's end
    /// may be among them, and its restart may affect this child as well.
    messages_before_retry: u64,
    /// Time of the last report of restart pressure.
    last_report: Option<Instant>,
    unmatched: UnmatchedLog,
}

/// Next event of a supervisor.
enum Event {
    Message(Message),
    /// The restart of a child may be due.
    Due(Key),
}

impl SupervisorLoop {
    fn new(ctx: Context, state: SupervisorState) -> Self {
        let (parent, template) = (ctx.parent(), state.template.clone());
        let restarts_one = matches!(state.strategy, Strategy::OneForOne | Strategy::SimpleOneForOne);
        let backs_off = state.backs_off();
        let registration = TreeRegistration::new(&ctx, state);
        let waiting = BinaryHeap::new();
        Self {
            ctx,
            parent,
            registration,
            template,
            restarts_one,
            backs_off,
            waiting,
            messages_before_retry: 0,
            last_report: None,
            unmatched: UnmatchedLog::default(),
        }
    }

    /// Passes the state to `access` for a moment; `access` must not run user code.
    fn with_state<R>(&self, access: impl FnOnce(&mut SupervisorState) -> R) -> R {
        self.registration.branch.with(access)
    }

    /// Supervises the children until there is a reason to end.
    async fn supervise(&mut self) -> ExitReason {
        loop {
            let event = self.next().await;
            // Send the wake-up that the last start skipped: if this turn continues, the started process must not wait
            // for its end.
            self.ctx.running().local.send_deferred_wake();
            let decision = match event {
                Event::Due(key) => self.due(key).await,
                Event::Message(message) => match message.downcast::<Exit>() {
                    Ok(exit) if exit.from == Pid::NONE || Some(exit.from) == self.parent => {
                        self.ctx.note_end(&exit);
                        return exit.reason;
                    }
                    Ok(Exit { from, reason }) => {
                        let at = now();
                        self.with_state(|state| state.exited(from, reason, at))
                    }
                    Err(message) => {
                        self.execute(message).await;
                        continue;
                    }
                },
            };
            match decision {
                Decision::Nothing => {}
                Decision::Restart(key) => self.restart_or_wait(key).await,
                Decision::GiveUp(key) => {
                    let (lost, why) = self.with_state(|state| (state.lost(key), state.why_gave_up(key)));
                    reports::gave_up(&self.ctx, key, lost, why.as_ref());
                    return why.map_or(ExitReason::Shutdown, GaveUp::into_exit);
                }
                Decision::AutoShutdown => {
                    let failure = self.with_state(|state| state.significant_failure.take());
                    return failure.map_or(ExitReason::Shutdown, SignificantFailure::into_exit);
                }
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
        if !(left.is_zero() && self.messages_before_retry == 0)
            && let Some(message) = self.ctx.receive_timeout(left).await
        {
            self.messages_before_retry = self.messages_before_retry.saturating_sub(1);
            return Event::Message(message);
        }
        self.messages_before_retry = 0;
        self.waiting.pop();
        Event::Due(key)
    }

    /// Starts all children; stops at the first child that fails to start.
    async fn start_all(&mut self) -> Result<(), FailedChild> {
        for key in self.keys() {
            if let Err(error) = self.start(key).await {
                let id = self.with_state(|state| state.child(key).map(|child| Arc::clone(&child.id)));
                return Err(FailedChild { id: id.unwrap_or_default(), error: error.into_init() });
            }
        }
        Ok(())
    }

    fn keys(&self) -> Vec<Key> {
        self.with_state(|state| state.keys())
    }

    /// Starts a child that is not running.
    async fn start(&self, key: Key) -> Result<Pid, StartError> {
        match self.try_to_start(key).await {
            Ok(pid) => {
                self.with_state(|state| state.started(key, pid, now));
                Ok(pid)
            }
            Err(error) => {
                self.failed(key, &error);
                Err(error)
            }
        }
    }

    fn failed(&self, key: Key, error: &StartError) {
        let (at, reason) = (now(), error.reason());
        self.with_state(|state| state.failed(key, reason, at));
    }

    async fn try_to_start(&self, key: Key) -> Result<Pid, StartError> {
        // After a start the supervisor mostly has nothing left to do but wait.
        self.ctx.running().local.defer_wake_for_spawn();
        let spec =
            self.with_state(|state| state.child(key).map(|child| (Arc::clone(&child.spec), child.arguments.clone())));
        let Some((spec, arguments)) = spec else { return Err(InitError::Ended(ExitReason::NoProcess).into()) };
        let begun = begin(&self.ctx, &spec, arguments.as_ref())?;
        match begun {
            BegunStart::Started(pid) => self.introduce(&spec, pid).await.map(|()| pid),
            BegunStart::Starting(pid, started) => {
                self.introduce(&spec, pid).await?;
                self.with_state(|state| state.starting = Some((key, pid)));
                Ok(started.await.map(|()| pid).map_err(|why| InitError::Ended(why.into_reason()))?)
            }
        }
    }

    /// Bounds the mailbox of the new process of a child, and makes it known: by its name, and in its slot. If the name is
    /// taken, the process is stopped.
    #[inline]
    async fn introduce(&self, spec: &ChildSpec, pid: Pid) -> Result<(), StartError> {
        if let Some(slot) = &spec.slot {
            slot.fill(pid);
        }
        if let Some(messages) = spec.mailbox_capacity {
            self.ctx.runtime().set_mailbox_capacity(pid, messages);
        }
        let Some(name) = &spec.name else { return Ok(()) };
        match self.ctx.runtime().register(pid, name) {
            // The end of a process that has ended already is handled as usual.
            Ok(()) | Err(RegisterError::NoProcess { .. }) => Ok(()),
            Err(error) => {
                self.ctx.unlink(pid);
                stop_process(&self.ctx, pid, Shutdown::BrutalKill).await;
                Err(InitError::Ended(error.into()).into())
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
        self.with_state(|state| state.delay(key, now))
    }

    /// Restarts a child and the others that the strategy selects; a child that fails to start is tried again.
    async fn restart(&mut self, key: Key) {
        if self.restarts_one {
            self.start_again(key, true).await;
            return;
        }
        let affected = self.with_state(|state| state.affected(key));
        for key in affected.iter().rev() {
            self.stop(*key).await;
            self.with_state(|state| state.mark_awaiting_restart(*key));
        }
        for other in affected {
            // A temporary child has been removed.
            if self.with_state(|state| state.child(other).is_some()) && !self.start_again(other, other == key).await {
                return;
            }
        }
        self.with_state(|state| state.restarting = None);
    }

    /// Starts a child that has ended, or lets it wait for its next try; returns true if it runs.
    async fn start_again(&mut self, key: Key, ended_by_itself: bool) -> bool {
        match self.try_to_start(key).await {
            Ok(pid) => {
                let Self { ctx, registration, last_report, .. } = self;
                registration.branch.with(|state| {
                    state.started(key, pid, now);
                    if ended_by_itself {
                        state.restarted(key);
                        reports::restarted(ctx, state, key, pid);
                        reports::pressure(ctx, state, now, last_report);
                    }
                });
                true
            }
            Err(error) => {
                self.failed(key, &error);
                let Self { ctx, registration, last_report, .. } = self;
                let id = registration.branch.with(|state| {
                    reports::pressure(ctx, state, now, last_report);
                    state.child(key).map(|child| Arc::clone(&child.id))
                });
                reports::restart_failed(&self.ctx, id.unwrap_or_default(), error.into_init());
                let delay = self.delay(key);
                self.wait(key, delay, false);
                false
            }
        }
    }

    fn wait(&mut self, key: Key, delay: Duration, is_counted: bool) {
        let due = now() + delay.min(FAR_FUTURE);
        self.with_state(|state| state.wait(key, PendingRestart { due, is_counted }));
        self.messages_before_retry = self.ctx.running().slot.header().mailbox_len();
        self.waiting.push(Reverse((due, key)));
    }

    /// Handles a due restart, if the child still waits for it.
    async fn due(&mut self, key: Key) -> Decision {
        let at = now();
        let decision = self.with_state(|state| match state.child(key).map(|child| child.state) {
            Some(RunState::Restarting(wait)) if wait.due <= at && wait.is_counted => {
                state.restarting = Some(key);
                Decision::Restart(key)
            }
            Some(RunState::Restarting(wait)) if wait.due <= at => state.spend_restart(key, at),
            _ => Decision::Nothing,
        });
        if let Decision::Restart(key) = decision {
            self.restart(key).await;
            return Decision::Nothing;
        }
        decision
    }

    /// Stops a child, whatever its state.
    async fn stop(&self, key: Key) {
        self.stop_running(key).await;
        self.with_state(|state| state.stopped(key));
    }

    /// Stops the process of a child, if it runs.
    async fn stop_running(&self, key: Key) {
        let running = self.with_state(|state| match state.child(key).map(|child| (child.state, child.spec.shutdown)) {
            Some((RunState::Running(pid), shutdown)) => {
                state.stopping = Some(key);
                Some((pid, shutdown))
            }
            _ => None,
        });
        if let Some((pid, shutdown)) = running {
            stop_process(&self.ctx, pid, shutdown).await;
        }
    }

    /// Stops a child, if it runs, and starts it again.
    async fn replace(&mut self, child: &ChildRef) -> Result<Pid, ChildError> {
        let key = self.with_state(|state| state.find(child)).ok_or(ChildError::NotFound)?;
        if self.with_state(|state| state.child(key).is_some_and(|child| child.spec.is_once)) {
            return Err(ChildError::Once);
        }
        self.stop_running(key).await;
        self.with_state(|state| state.stopped_to_start_again(key));
        self.start_again(key, false).await;
        match self.with_state(|state| state.child(key).map(|child| child.state)) {
            Some(RunState::Running(pid)) => Ok(pid),
            _ => Err(ChildError::Restarting),
        }
    }

    /// Stops all children in reverse order; those of a dynamic supervisor all at once.
    async fn stop_all(&self) {
        self.with_state(|state| state.ending = true);
        if let Some(template) = &self.template {
            return self.stop_together(template.shutdown).await;
        }
        for key in self.keys().into_iter().rev() {
            self.stop(key).await;
        }
    }

    async fn stop_together(&self, shutdown: Shutdown) {
        let pids: Vec<Pid> = self.with_state(|state| state.pids().collect());
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

    /// Executes a request; any other message is dropped, with a warning.
    async fn execute(&mut self, message: Message) {
        match message.downcast::<Request<Command, Reply>>() {
            Ok(Request { request, reply }) => {
                let response = match request {
                    Command::Start(spec) => Reply::Started(self.start_child(*spec).await),
                    Command::StartOne(arguments) => Reply::Started(self.start_one(arguments).await),
                    Command::Terminate(child) => Reply::Done(self.terminate(&child).await),
                    Command::Restart(child) => Reply::Restarted(self.restart_ended(&child).await),
                    Command::Replace(child) => Reply::Restarted(self.replace(&child).await),
                    Command::Delete(child) => {
                        let key = self.ended(&child);
                        Reply::Done(key.map(|key| self.with_state(|state| state.remove(key))))
                    }
                    Command::Which => {
                        let at = now();
                        Reply::Children(self.with_state(|state| state.list(at)))
                    }
                    Command::Count => Reply::Counts(self.with_state(|state| state.counts())),
                };
                // The caller may have ended meanwhile.
                drop(reply.send(&self.ctx, response));
            }
            Err(message) => drop(self.unmatched.handle(Unmatched::Warn, &self.ctx, &message)),
        }
    }

    async fn start_child(&self, spec: ChildSpec) -> Result<Pid, StartChildError> {
        if self.template.is_some() {
            let how = "this supervisor starts children from a template: use start_one or start_once";
            return Err(StartChildError::WrongKind(how.into()));
        }
        let existing = self.with_state(|state| {
            state.check(&spec)?;
            let existing = state.find(&ChildRef::Id(Arc::clone(&spec.id)));
            Ok::<_, StartChildError>(existing.and_then(|key| state.child(key)).map(|child| child.state))
        });
        match existing? {
            Some(RunState::Running(pid)) => return Err(StartChildError::AlreadyStarted(Some(pid))),
            Some(RunState::Restarting(_)) => return Err(StartChildError::AlreadyStarted(None)),
            Some(RunState::Ended) => return Err(StartChildError::AlreadyPresent),
            None => {}
        }
        self.start_new(Arc::new(spec), None).await
    }

    async fn start_one(&self, arguments: Arguments) -> Result<Pid, StartChildError> {
        let how = || StartChildError::WrongKind("this supervisor has no template: use start_child".into());
        let template = self.template.clone().ok_or_else(how)?;
        self.start_new(template, Some(arguments)).await
    }

    async fn start_new(&self, spec: Arc<ChildSpec>, arguments: Option<Arguments>) -> Result<Pid, StartChildError> {
        if let Some(limit) = self.with_state(|state| state.full_at()) {
            return Err(StartChildError::MaxChildren { limit });
        }
        let key = self.with_state(|state| state.add(spec, arguments));
        self.start(key).await.map_err(|error| {
            self.with_state(|state| state.remove(key));
            match error {
                StartError::Init(error) => StartChildError::Init(error),
                StartError::Arguments(wanted, by) => {
                    let how = format!("the template of this supervisor takes a value of type {wanted}, from {by}");
                    StartChildError::WrongKind(how.into())
                }
            }
        })
    }

    async fn terminate(&self, child: &ChildRef) -> Result<(), ChildError> {
        let key = self.with_state(|state| state.find(child)).ok_or(ChildError::NotFound)?;
        self.stop(key).await;
        Ok(())
    }

    async fn restart_ended(&self, child: &ChildRef) -> Result<Pid, ChildError> {
        let key = self.ended(child)?;
        self.start(key).await.map_err(|error| ChildError::Init(error.into_init()))
    }

    /// Finds a child that has ended and is not restarted automatically.
    fn ended(&self, child: &ChildRef) -> Result<Key, ChildError> {
        if self.template.is_some() {
            return Err(ChildError::Dynamic);
        }
        let found = self.with_state(|state| {
            let key = state.find(child)?;
            state.child(key).map(|child| (key, child.state))
        });
        match found {
            Some((_, RunState::Running(_))) => Err(ChildError::Running),
            Some((_, RunState::Restarting(_))) => Err(ChildError::Restarting),
            Some((key, RunState::Ended)) => Ok(key),
            None => Err(ChildError::NotFound),
        }
    }
}

/// Longer than any restart delay in practice; an instant this far in the future is still valid.
const FAR_FUTURE: Duration = Duration::from_hours(30 * 365 * 24);

const WRONG_ARGUMENTS: &str = "the arguments have a different type than the template's";

/// Returns the time of the clock that sleeps use, which may be virtual in a test.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Begins the start of a child; a panic of its closure counts as a failed start.
fn begin<'a>(ctx: &'a Context, spec: &ChildSpec, arguments: Option<&Arguments>) -> Result<BegunStart<'a>, StartError> {
    let start = || match &spec.start {
        Start::Function(start) => start(ctx, arguments),
        Start::Supervisor(nested) => {
            let (pid, started) = ctx.begin_link(|ctx, starting| run(nested.supervisor(), ctx, starting))?;
            Ok(BegunStart::Starting(pid, started))
        }
    };
    catch_unwind(AssertUnwindSafe(start)).unwrap_or_else(|payload| Err(InitError::Ended(panic_reason(payload)).into()))
}

/// Stops a process and waits for its end, which the monitor reports even if the process has unlinked itself.
async fn stop_process(ctx: &Context, pid: Pid, shutdown: Shutdown) {
    let mut end = PendingReply::<()>::of(ctx, pid);
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

impl StartError {
    fn reason(&self) -> ExitReason {
        match self {
            Self::Init(InitError::Ended(reason)) => reason.clone(),
            Self::Init(error @ InitError::Spawn(_)) => ExitReason::other(error),
            Self::Arguments(..) => ExitReason::other(WRONG_ARGUMENTS),
        }
    }

    fn into_init(self) -> InitError {
        match self {
            Self::Init(error) => error,
            Self::Arguments(..) => InitError::Ended(ExitReason::other(WRONG_ARGUMENTS)),
        }
    }
}
