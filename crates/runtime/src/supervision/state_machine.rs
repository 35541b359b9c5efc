//! State machines: servers that handle an event according to their state, like OTP's `gen_statem` with `handle_event`.
//!
//! ```text
//!   message ─▶ event ─▶ postpones(state, event)? ─no─▶ handle(state, event) ─▶ Step::Keep      keep state and timeout
//!                 ▲         │ yes                                              Step::Next(s)   enter a state
//!                 │         ▼                                                  Step::Postpone  as if postponed
//!                 └──── postponed: again, in order, after the next change      Step::Unmatched: warn, drop or crash
//!                                                                              Step::Stop(why)
//! ```
//!
//! A state may have a timeout: when the machine has been in the state for that time, it receives [`Event::Timeout`]
//! once. The machine itself stores postponed events, outside of the mailbox limit. If a state postpones events sent by
//! untrusted processes, some state must answer them.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::time::Duration;

use tokio::time::Instant;

use crate::links::signal::Exit;
use crate::mailbox::call::{CallError, Caller};
use crate::mailbox::message::Message;
use crate::mailbox::request::{ReplyTo, Request};
use crate::process::context::Context;
use crate::process::error::{InitError, TrySendError};
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::start::Starting;
use crate::runtime::handle::Handle;
use crate::supervision::actor::{Next, Unmatched, UnmatchedLog};
use crate::supervision::server::{Flow, Stop};
use crate::supervision::state_query::{GetState, opaque};
use crate::supervision::supervisor::ChildSpec;

/// An event of a state machine.
///
/// The patterns of [`handle`](StateMachine::handle), here of a session that ends after 10 ms without a sign of life:
///
/// ```
/// # use rusm_runtime as rusm;
/// # use std::time::Duration;
/// use rusm::state_machine::{Event, StateMachine, Step};
/// # use rusm::state_machine::MachineRef;
/// # use rusm::{Config, Context, ExitReason, Runtime};
///
/// # struct Session;
/// # struct Alive;
/// impl StateMachine for Session {
/// #     type Args = ();
/// #     type State = Alive;
/// #     type Call = &'static str;
/// #     type Reply = usize;
/// #     type Cast = Alive;
/// #     async fn init(_: &Context, (): ()) -> Result<(Self, Alive), ExitReason> { Ok((Self, Alive)) }
/// #     fn timeout(&self, _: &Alive) -> Option<Duration> { Some(Duration::from_millis(10)) }
///     // …
///     async fn handle(&mut self, ctx: &Context, _: &Alive, event: Event<Self>) -> Step<Self> {
///         match event {
///             Event::Call(text, reply) => {
///                 reply.send(ctx, text.len());
///                 Step::Keep
///             }
///             Event::Cast(Alive) => Step::Next(Alive), // its timeout begins again
///             Event::Timeout => Step::Stop(ExitReason::other("no sign of life")),
///             Event::Info(message) => Step::Unmatched(message),
///         }
///     }
/// }
/// # let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// # runtime.block_on(|ctx| async move {
/// #     let session = MachineRef::<Session>::start(&ctx.runtime(), ()).await.expect("it starts");
/// #     let watch = ctx.monitor(session.pid());
/// #     session.cast(&ctx, Alive).await;
/// #     let down = ctx.receive_of::<rusm::Down>().await;
/// #     assert_eq!((down.reference, down.reason.to_string().contains("no sign of life")), (watch, true));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum Event<M: StateMachine> {
    /// A [`call`](Context::call) with an `M::Call`.
    Call(M::Call, ReplyTo<M::Reply>),
    /// A message that is an `M::Cast`.
    Cast(M::Cast),
    /// Any other message.
    Info(Message),
    /// The timeout of the state has passed.
    Timeout,
}

/// The next step of a state machine after an event.
///
/// A printer without paper keeps its jobs until it is refilled:
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::state_machine::{Event, StateMachine, Step};
/// # use rusm::state_machine::MachineRef;
/// # use rusm::{Config, Context, ExitReason, Runtime};
///
/// # struct Printer { printed: usize }
/// # struct Refill;
/// enum Paper { Empty, Loaded }
///
/// impl StateMachine for Printer {
/// #     type Args = ();
/// #     type State = Paper;
/// #     type Call = &'static str;
/// #     type Reply = usize;
/// #     type Cast = Refill;
/// #     async fn init(_: &Context, (): ()) -> Result<(Self, Paper), ExitReason> {
/// #         Ok((Self { printed: 0 }, Paper::Empty))
/// #     }
///     // …
///     async fn handle(&mut self, ctx: &Context, paper: &Paper, event: Event<Self>) -> Step<Self> {
///         match (paper, event) {
///             (Paper::Empty, job @ Event::Call(..)) => Step::Postpone(job),
///             (Paper::Empty, Event::Cast(Refill)) => Step::Next(Paper::Loaded), // the jobs come again
///             (Paper::Loaded, Event::Call(text, reply)) => {
///                 self.printed += text.len();
///                 reply.send(ctx, self.printed);
///                 Step::Keep
///             }
///             (_, Event::Info(message)) => Step::Unmatched(message),
///             (_, _) => Step::Keep,
///         }
///     }
/// }
/// # let runtime = Runtime::start(Config::default())?;
/// # runtime.block_on(|ctx| async move {
/// #     let printer = MachineRef::<Printer>::start_link(&ctx, ()).await.expect("it starts");
/// #     let job = ctx.task(move |ctx| async move { printer.request(&ctx, "hello").await }).expect("there is room");
/// #     ctx.yield_now().await;
/// #     printer.cast(&ctx, Refill).await;
/// #     assert_eq!(job.await.expect("it does not fail"), Ok(5));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum Step<M: StateMachine> {
    /// Keeps the state, and the time that is left of its timeout.
    Keep,
    /// Enters another state, or the same state again.
    Next(M::State),
    /// Keeps the event until after the next change of state.
    Postpone(Event<M>),
    /// Keeps the state; [`UNMATCHED`](StateMachine::UNMATCHED) says what becomes of the message.
    Unmatched(Message),
    /// Ends the machine with this reason.
    Stop(ExitReason),
}

impl<M: StateMachine> fmt::Debug for Event<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(_, reply) => write!(f, "Call({reply:?})"),
            Self::Cast(_) => f.write_str("Cast"),
            Self::Info(message) => write!(f, "Info({message:?})"),
            Self::Timeout => f.write_str("Timeout"),
        }
    }
}

impl<M: StateMachine> fmt::Debug for Step<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("Keep"),
            Self::Next(_) => f.write_str("Next"),
            Self::Postpone(event) => write!(f, "Postpone({event:?})"),
            Self::Unmatched(message) => write!(f, "Unmatched({message:?})"),
            Self::Stop(reason) => write!(f, "Stop({reason})"),
        }
    }
}

/// A process that is in one of several states.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
/// use rusm::state_machine::{Event, MachineRef, StateMachine, Step};
/// use rusm::{Config, Context, ExitReason, Runtime};
///
/// /// A door that closes by itself.
/// struct Door;
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum State { Open, Closed }
///
/// impl StateMachine for Door {
///     type Args = ();
///     type State = State;
///     type Call = ();
///     type Reply = State;
///     type Cast = State;
///
///     async fn init(_: &Context, (): ()) -> Result<(Self, State), ExitReason> {
///         Ok((Self, State::Closed))
///     }
///
///     async fn handle(&mut self, ctx: &Context, state: &State, event: Event<Self>) -> Step<Self> {
///         match event {
///             Event::Call((), reply) => {
///                 reply.send(ctx, *state);
///             }
///             Event::Cast(state) => return Step::Next(state),
///             Event::Timeout => return Step::Next(State::Closed),
///             Event::Info(message) => return Step::Unmatched(message),
///         }
///         Step::Keep
///     }
///
///     fn timeout(&self, state: &State) -> Option<Duration> {
///         (*state == State::Open).then_some(Duration::from_secs(10))
///     }
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// let state = runtime.block_on(|ctx| async move {
///     let door = MachineRef::<Door>::start_link(&ctx, ()).await.expect("it starts");
///     door.cast(&ctx, State::Open).await;
///     door.request(&ctx, ()).await
/// });
/// assert_eq!(state, Ok(State::Open));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait StateMachine: Sized + Send + 'static {
    /// Argument of `init`.
    type Args: Send + 'static;
    /// Type of the states. Data shared by all states belongs in `self`.
    type State: Send + Sync + 'static;
    /// Type of requests that are answered.
    type Call: Send + 'static;
    /// Type of answers.
    type Reply: Send + 'static;
    /// Type of requests without an answer.
    type Cast: Send + 'static;

    /// Policy for messages that the machine does not handle in the state in which they come: [`Step::Unmatched`].
    const UNMATCHED: Unmatched = Unmatched::Warn;

    /// Creates the machine and its first state. The process that starts it waits until this returns.
    ///
    /// # Errors
    /// Returns the reason why the machine does not start.
    fn init(ctx: &Context, args: Self::Args) -> impl Future<Output = Result<(Self, Self::State), ExitReason>> + Send;

    /// Returns true if an event must wait for the next change of state. It is then kept as it is, and comes again. The
    /// default implementation postpones nothing.
    fn postpones(&self, state: &Self::State, event: &Event<Self>) -> bool {
        let _ = (state, event);
        false
    }

    /// Handles an event in a state, and decides the next step.
    fn handle(
        &mut self,
        ctx: &Context,
        state: &Self::State,
        event: Event<Self>,
    ) -> impl Future<Output = Step<Self>> + Send;

    /// Returns the longest time in a state before [`Event::Timeout`]. The default implementation returns none: no
    /// timeout.
    fn timeout(&self, state: &Self::State) -> Option<Duration> {
        let _ = state;
        None
    }

    /// Returns the state as text, for [`Context::state_of`]. The default implementation returns the name of the type.
    fn debug_state(&self, state: &Self::State) -> String {
        let _ = state;
        opaque::<Self>()
    }

    /// Cleans up before the machine ends. Not called after a panic or an untrapped exit signal.
    fn terminate(self, ctx: &Context, state: Self::State, reason: &ExitReason) -> impl Future<Output = ()> + Send {
        let _ = (self, ctx, state, reason);
        async {}
    }
}

/// A typed reference to a state machine, as small as a pid.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::state_machine::MachineRef;
/// # use rusm::state_machine::{Event, StateMachine, Step};
/// use rusm::{Config, ExitReason, Runtime};
/// # use rusm::Context;
/// # #[derive(Clone, Copy, Debug, PartialEq)]
/// # enum Light { Red, Green }
/// # struct Signal;
/// # impl StateMachine for Signal {
/// #     type Args = Light;
/// #     type State = Light;
/// #     type Call = ();
/// #     type Reply = Light;
/// #     type Cast = Light;
/// #     async fn init(_: &Context, light: Light) -> Result<(Self, Light), ExitReason> { Ok((Self, light)) }
/// #     async fn handle(&mut self, ctx: &Context, light: &Light, event: Event<Self>) -> Step<Self> {
/// #         match event {
/// #             Event::Call((), reply) => { reply.send(ctx, *light); Step::Keep }
/// #             Event::Cast(light) => Step::Next(light),
/// #             Event::Timeout => Step::Keep,
/// #             Event::Info(message) => Step::Unmatched(message),
/// #         }
/// #     }
/// # }
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     // `Signal` is a `StateMachine` that begins in the state of its argument.
///     let signal = MachineRef::<Signal>::start_link(&ctx, Light::Red).await?;
///     signal.cast(&ctx, Light::Green).await;
///     assert_eq!(signal.call(&ctx, (), Duration::from_secs(1)).await?, Light::Green);
///     signal.stop(&ctx, ExitReason::Normal, Duration::from_secs(1)).await?;
///     assert!(signal.request(&ctx, ()).await.is_err(), "it has ended");
///     Ok::<(), ExitReason>(())
/// })?;
/// # Ok::<(), ExitReason>(())
/// ```
pub struct MachineRef<M> {
    pid: Pid,
    kind: PhantomData<fn() -> M>,
}

impl<M: StateMachine> MachineRef<M> {
    /// Creates a reference to the machine with this pid. If the process is not an `M`, it never answers.
    pub const fn of(pid: Pid) -> Self {
        Self { pid, kind: PhantomData }
    }

    /// Returns the pid of the machine.
    pub const fn pid(self) -> Pid {
        self.pid
    }

    /// Starts a machine that is linked to this process, and waits for its `init`.
    ///
    /// # Errors
    /// [`InitError`] with the reason returned by `init`.
    pub async fn start_link(ctx: &Context, args: M::Args) -> Result<Self, InitError> {
        start_link::<M>(ctx, args).await.map(Self::of)
    }

    /// Starts a machine from outside, and waits for its `init`.
    ///
    /// # Errors
    /// [`InitError`] with the reason returned by `init`.
    pub async fn start(runtime: &Handle, args: M::Args) -> Result<Self, InitError> {
        start::<M>(runtime, args).await.map(Self::of)
    }

    /// Sends a request and waits for the reply, at most for `timeout`; see [`Context::call`].
    ///
    /// # Errors
    /// [`CallError`] if the machine is dead or ends before it replies, if it is the calling process, or after the
    /// timeout.
    #[inline]
    pub fn call(
        self,
        by: &impl Caller,
        request: M::Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<M::Reply, CallError>> + Send {
        by.call(self.pid, request, timeout)
    }

    /// Like [`call`](Self::call), with a timeout of [5 s](crate::defaults::CALL_TIMEOUT).
    ///
    /// # Errors
    /// [`CallError`] as of [`call`](Self::call).
    #[inline]
    pub fn request(
        self,
        by: &impl Caller,
        request: M::Call,
    ) -> impl Future<Output = Result<M::Reply, CallError>> + Send {
        by.request(self.pid, request)
    }

    /// Sends a request without an answer, and waits while the mailbox is full. If the machine has ended, the request is
    /// dropped.
    pub async fn cast(self, by: &impl Caller, request: M::Cast) {
        by.deliver(self.pid, request).await;
    }

    /// Sends a request without an answer, and never waits.
    ///
    /// # Errors
    /// [`TrySendError`] with the reason why the request was not sent.
    pub fn try_cast(self, by: &impl Caller, request: M::Cast) -> Result<(), TrySendError> {
        by.try_deliver(self.pid, request)
    }

    /// Asks the machine to end after it has handled all earlier messages, and waits for its end. It drops the events that
    /// are still postponed.
    ///
    /// # Errors
    /// [`CallError`] when the machine does not end in time, has already ended, or ends with another reason.
    pub async fn stop(self, by: &impl Caller, reason: ExitReason, timeout: Duration) -> Result<(), CallError> {
        match by.stop(self.pid, Stop(reason.clone()), timeout).await {
            Ok(ended) if ended != reason => Err(CallError::ended(self.pid, ended)),
            other => other.map(drop),
        }
    }
}

impl<M> Clone for MachineRef<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for MachineRef<M> {}

impl<M> PartialEq for MachineRef<M> {
    fn eq(&self, other: &Self) -> bool {
        self.pid == other.pid
    }
}

impl<M> Eq for MachineRef<M> {}

impl<M> Hash for MachineRef<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pid.hash(state);
    }
}

impl<M> fmt::Debug for MachineRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MachineRef({})", self.pid)
    }
}

/// Starts a machine that is linked to this process, and waits for its `init`.
///
/// # Errors
/// [`InitError`] with the reason returned by `init`.
pub async fn start_link<M: StateMachine>(ctx: &Context, args: M::Args) -> Result<Pid, InitError> {
    ctx.start_link(|ctx, starting| run::<M>(ctx, starting, args)).await
}

/// Starts a machine from outside, and waits for its `init`.
///
/// # Errors
/// [`InitError`] with the reason returned by `init`.
pub async fn start<M: StateMachine>(runtime: &Handle, args: M::Args) -> Result<Pid, InitError> {
    runtime.start(|ctx, starting| run::<M>(ctx, starting, args)).await
}

impl ChildSpec {
    /// Creates a permanent worker that runs a state machine. It counts as started when its `init` has returned.
    pub fn state_machine<M: StateMachine<Args: Clone + Sync>>(
        id: impl Into<std::sync::Arc<str>>,
        args: M::Args,
    ) -> Self {
        Self::acknowledged(id, move |ctx, starting| run::<M>(ctx, starting, args.clone()))
    }
}

/// A machine between two events.
struct StateMachineLoop<M: StateMachine> {
    handler: M,
    state: M::State,
    /// Deadline of the state's timeout; none after it has passed.
    until: Option<Instant>,
    /// Events for the next state, the oldest first.
    postponed: VecDeque<Event<M>>,
    /// Events that were postponed in an earlier state and come again in this one.
    replayed: VecDeque<Event<M>>,
}

/// Body of a state machine.
async fn run<M: StateMachine>(ctx: Context, starting: Starting, args: M::Args) -> ExitReason {
    let (handler, state) = match M::init(&ctx, args).await {
        Ok(initial) => initial,
        Err(reason) => return starting.refuse(&ctx, reason),
    };
    starting.acknowledge();
    let parent = ctx.parent().unwrap_or(Pid::NONE);
    let until = deadline(&handler, &state);
    let mut machine = StateMachineLoop { handler, state, until, postponed: VecDeque::new(), replayed: VecDeque::new() };
    let mut unmatched = UnmatchedLog::of::<M>();
    let reason = loop {
        let event = match machine.next(&ctx).await {
            Event::Info(message) => {
                if let Some(reason) = stop_reason(&ctx, &message, parent) {
                    break reason;
                }
                match message.downcast::<GetState>() {
                    Ok(asked) => {
                        asked.answer(&ctx, machine.handler.debug_state(&machine.state));
                        continue;
                    }
                    Err(message) => Event::Info(message),
                }
            }
            event => event,
        };
        if machine.handler.postpones(&machine.state, &event) {
            machine.postponed.push_back(event);
            continue;
        }
        match machine.handler.handle(&ctx, &machine.state, event).await {
            Step::Keep => {}
            Step::Next(state) => machine.enter(state),
            Step::Postpone(event) => machine.postponed.push_back(event),
            Step::Unmatched(message) => {
                if let Flow::Stop(reason) = unmatched.handle(M::UNMATCHED, &ctx, &message) {
                    break reason;
                }
            }
            Step::Stop(reason) => break reason,
        }
    };
    machine.handler.terminate(&ctx, machine.state, &reason).await;
    reason
}

/// Returns the reason of a message that ends the machine: a request to stop, or an exit signal of its parent.
fn stop_reason(ctx: &Context, message: &Message, parent: Pid) -> Option<ExitReason> {
    if let Some(Stop(reason)) = message.downcast_ref() {
        return Some(reason.clone());
    }
    let exit = message.downcast_ref::<Exit>()?;
    (exit.from == parent || exit.from == Pid::NONE).then(|| {
        ctx.note_end(exit);
        exit.reason.clone()
    })
}

fn deadline<M: StateMachine>(handler: &M, state: &M::State) -> Option<Instant> {
    handler.timeout(state).and_then(|timeout| Instant::now().checked_add(timeout))
}

impl<M: StateMachine> StateMachineLoop<M> {
    /// Returns the next event: a postponed one, the timeout, or the next message.
    async fn next(&mut self, ctx: &Context) -> Event<M> {
        if let Some(event) = self.replayed.pop_front() {
            return event;
        }
        let Some(until) = self.until else {
            return match Next::<Request<M::Call, M::Reply>>::of(ctx).await {
                Ok(Request { request, reply }) => Event::Call(request, reply),
                Err(message) => message.downcast::<M::Cast>().map_or_else(Event::Info, Event::Cast),
            };
        };
        let left = until.saturating_duration_since(Instant::now());
        if !left.is_zero()
            && let Some(message) = ctx.receive_timeout(left).await
        {
            return event(message);
        }
        self.until = None;
        Event::Timeout
    }

    fn enter(&mut self, state: M::State) {
        self.until = deadline(&self.handler, &state);
        self.state = state;
        // Events postponed in the state before are older than those that still come again, so they come first.
        self.postponed.append(&mut self.replayed);
        self.replayed = std::mem::take(&mut self.postponed);
    }
}

fn event<M: StateMachine>(message: Message) -> Event<M> {
    let message = match message.downcast::<Request<M::Call, M::Reply>>() {
        Ok(Request { request, reply }) => return Event::Call(request, reply),
        Err(message) => message,
    };
    message.downcast::<M::Cast>().map_or_else(Event::Info, Event::Cast)
}
