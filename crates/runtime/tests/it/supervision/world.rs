//! A runtime, a thread that sends requests, and children that log their events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_runtime::supervisor::{ChildInfo, ChildSpec, ChildState, Counts, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{Config, Context, Exit, ExitReason, Pid, Runtime, Starting};

pub(crate) const LONG: Duration = Duration::from_mins(2);

/// A short pause of the machine must not mark a process as stuck.
const NEVER_STUCK: Duration = Duration::from_mins(10);

/// A runtime, a thread that sends requests, and a log of the children's events.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    outside: tokio::runtime::Runtime,
    pub(crate) log: Log,
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, line: &(impl ToString + ?Sized)) {
        self.0.lock().push(line.to_string());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            runtime: Runtime::start(Config { schedulers: 2, stuck_after: NEVER_STUCK, ..Config::default() })
                .expect("two schedulers start"),
            outside: tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it builds"),
            log: Log::default(),
        }
    }

    pub(crate) fn on<T>(&self, future: impl Future<Output = T>) -> T {
        self.outside.block_on(async { tokio::time::timeout(LONG, future).await.expect("it answers") })
    }

    pub(crate) fn start(&self, supervisor: Supervisor) -> SupervisorRef {
        self.on(supervisor.start(&self.runtime)).expect("all children start")
    }

    /// Waits for the next lines of the log.
    pub(crate) fn lines<const N: usize>(&self) -> [String; N] {
        eventually("so many lines", || self.log.len() >= N);
        self.log.take().try_into().expect("no more lines than that")
    }

    /// A child that logs `+id` when it starts, ends with the reason that it is sent, and logs `-id` when its parent
    /// stops it.
    pub(crate) fn child(&self, id: &'static str) -> ChildSpec {
        let log = self.log.clone();
        ChildSpec::acknowledged(id, move |ctx, starting| obedient(ctx, Some(starting), log.clone(), id))
    }

    pub(crate) fn children(&self, supervisor: SupervisorRef) -> Vec<ChildInfo> {
        self.on(supervisor.which_children(&*self.runtime)).expect("the supervisor is alive")
    }

    pub(crate) fn pid(&self, supervisor: SupervisorRef, id: &str) -> Pid {
        let children = self.children(supervisor);
        match children.iter().find(|child| *child.id == *id).map(|child| child.state) {
            Some(ChildState::Running(pid)) => pid,
            state => panic!("{id} is {state:?}"),
        }
    }

    /// Returns the pid of a child if it is running.
    pub(crate) fn pid_or_none(&self, supervisor: SupervisorRef, id: &str) -> Option<Pid> {
        self.children(supervisor).iter().find(|child| *child.id == *id).and_then(|child| match child.state {
            ChildState::Running(pid) => Some(pid),
            _ => None,
        })
    }

    /// Ends a child with a reason.
    pub(crate) fn end(&self, supervisor: SupervisorRef, id: &str, reason: ExitReason) {
        self.runtime.try_send(self.pid(supervisor, id), reason).expect("there is room");
    }

    pub(crate) fn counts(&self, supervisor: SupervisorRef) -> Counts {
        self.on(supervisor.count_children(&*self.runtime)).expect("the supervisor is alive")
    }

    /// Ends a supervisor from outside and waits for its end.
    pub(crate) fn stop(&self, supervisor: SupervisorRef) -> ExitReason {
        let end = self.runtime.watch(supervisor.pid());
        self.runtime.exit(supervisor.pid(), ExitReason::Shutdown);
        self.on(end)
    }
}

pub(crate) async fn obedient(ctx: Context, starting: Option<Starting>, log: Log, id: &str) -> ExitReason {
    ctx.trap_exits(true);
    log.note(&format!("+{id}"));
    if let Some(starting) = starting {
        starting.acknowledge();
    }
    loop {
        let message = match ctx.receive().await.downcast::<Exit>() {
            Ok(exit) => {
                log.note(&format!("-{id}"));
                return exit.reason;
            }
            Err(message) => message,
        };
        if let Ok(reason) = message.downcast::<ExitReason>() {
            return reason;
        }
    }
}

pub(crate) fn eventually(what: &str, done: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}

pub(crate) fn crash() -> ExitReason {
    ExitReason::other("crash")
}

pub(crate) fn plenty(strategy: Strategy) -> Supervisor {
    Supervisor::new(strategy).intensity(1000, LONG)
}

/// Returns true if an exit reason says that a supervisor gave up.
pub(crate) fn gave_up(reason: &ExitReason) -> bool {
    let ExitReason::ShutdownWith(detail) = reason else { return false };
    detail.value::<rusm_runtime::supervisor::GaveUp>().is_some()
}
