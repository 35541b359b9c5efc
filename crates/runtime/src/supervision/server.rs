//! Servers: processes that keep a state and answer requests about it, like OTP's `gen_server`.
//!
//! ```text
//!   ServerRef::call ─▶ Request ─▶ handle_call ─▶ ReplyTo::send, now or later
//!   ServerRef::cast ─▶ Cast ────▶ handle_cast
//!   anything else ──────────────▶ handle_info ─▶ not handled: Unmatched::Warn, Drop or Crash
//!   ServerRef::stop, Flow::Stop, the parent's exit ─▶ terminate
//! ```
//!
//! A server traps exits only if its `init` asks for it. Then an exit signal of its parent ends it through `terminate`,
//! and other exit signals arrive in `handle_info`. A panic ends a server without `terminate`: cleanup that must happen
//! even then belongs in a `Drop` implementation.

use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::time::Duration;

use crate::links::signal::Exit;
use crate::mailbox::call::{CallError, Caller};
use crate::mailbox::message::Message;
use crate::mailbox::request::{ReplyTo, Request};
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::error::TrySendError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::start::Starting;
use crate::runtime::handle::Handle;
use crate::supervision::actor::{Next, Unmatched, UnmatchedLog};
use crate::supervision::state_query::{GetState, opaque};
use crate::supervision::supervisor::ChildSpec;

/// The next step of a server after it has handled a message.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ExitReason;
/// use rusm::server::Flow;
///
/// /// Ends after the last piece of work.
/// fn after(left: u32) -> Flow {
///     if left == 0 { Flow::Stop(ExitReason::Normal) } else { Flow::Continue }
/// }
/// # assert_eq!(after(1), Flow::Continue);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Waits for the next message.
    Continue,
    /// Calls `terminate` and ends with this reason.
    Stop(ExitReason),
}

/// A process that keeps a state and answers requests about it.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
/// use rusm::server::{Flow, Server, ServerRef};
/// use rusm::{Config, Context, ExitReason, ReplyTo, Runtime};
///
/// struct Counter(u64);
///
/// impl Server for Counter {
///     type Args = u64;
///     type Call = ();
///     type Reply = u64;
///     type Cast = u64;
///
///     async fn init(_: &Context, first: u64) -> Result<Self, ExitReason> {
///         Ok(Self(first))
///     }
///
///     async fn handle_call(&mut self, ctx: &Context, (): (), reply: ReplyTo<u64>) -> Flow {
///         reply.send(ctx, self.0);
///         Flow::Continue
///     }
///
///     async fn handle_cast(&mut self, _: &Context, more: u64) -> Flow {
///         self.0 += more;
///         Flow::Continue
///     }
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// let (give, take) = std::sync::mpsc::channel();
/// runtime.spawn(|ctx| async move {
///     let counter: ServerRef<Counter> = ServerRef::start_link(&ctx, 40).await.expect("it starts");
///     counter.cast(&ctx, 2).await;
///     give.send(counter.call(&ctx, (), Duration::from_secs(5)).await)
/// })?;
/// assert_eq!(take.recv()?, Ok(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Server: Sized + Send + 'static {
    /// Argument of `init`.
    type Args: Send + 'static;
    /// Type of requests that are answered.
    type Call: Send + 'static;
    /// Type of answers.
    type Reply: Send + 'static;
    /// Type of requests without an answer.
    type Cast: Send + 'static;

    /// Policy for messages that the server does not handle.
    const UNMATCHED: Unmatched = Unmatched::Warn;

    /// Creates the state. The process that starts the server waits until this returns.
    ///
    /// # Errors
    /// Returns the reason why the server does not start.
    fn init(ctx: &Context, args: Self::Args) -> impl Future<Output = Result<Self, ExitReason>> + Send;

    /// Answers a request, or keeps `reply` and answers later.
    fn handle_call(
        &mut self,
        ctx: &Context,
        request: Self::Call,
        reply: ReplyTo<Self::Reply>,
    ) -> impl Future<Output = Flow> + Send;

    /// Handles a request without an answer.
    fn handle_cast(&mut self, ctx: &Context, request: Self::Cast) -> impl Future<Output = Flow> + Send;

    /// Handles any other message, for example a [`Down`](crate::Down).
    ///
    /// # Errors
    /// Returns the message if the server does not handle it; [`UNMATCHED`](Self::UNMATCHED) then applies.
    fn handle_info(&mut self, ctx: &Context, message: Message) -> impl Future<Output = Result<Flow, Message>> + Send {
        let _ = (self, ctx);
        async { Err(message) }
    }

    /// Returns the state as text, for [`Context::state_of`]. The default implementation returns the name of the type.
    fn debug_state(&self) -> String {
        opaque::<Self>()
    }

    /// Cleans up before the server ends. Not called after a panic or an untrapped exit signal.
    fn terminate(self, ctx: &Context, reason: &ExitReason) -> impl Future<Output = ()> + Send {
        let _ = (self, ctx, reason);
        async {}
    }
}

/// Message sent by [`ServerRef::cast`].
struct Cast<T>(T);

/// Message that asks a server or an actor to stop.
pub(super) struct Stop(pub(super) ExitReason);

/// A typed reference to a server, as small as a pid.
///
/// ```
/// # use rusm_runtime as rusm;
/// # use rusm::server::{Flow, Server};
/// # use rusm::{Context, ExitReason, ReplyTo};
/// # struct Echo;
/// # impl Server for Echo {
/// #     type Args = ();
/// #     type Call = String;
/// #     type Reply = String;
/// #     type Cast = ();
/// #     async fn init(_: &Context, (): ()) -> Result<Self, ExitReason> { Ok(Self) }
/// #     async fn handle_call(&mut self, ctx: &Context, text: String, reply: ReplyTo<String>) -> Flow {
/// #         reply.send(ctx, text);
/// #         Flow::Continue
/// #     }
/// #     async fn handle_cast(&mut self, _: &Context, (): ()) -> Flow { Flow::Continue }
/// # }
/// use std::time::Duration;
///
/// use rusm::server::ServerRef;
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     // `Echo` is a `Server` that answers with what it was sent.
///     let echo = ServerRef::<Echo>::start_link(&ctx, ()).await.expect("it starts");
///     assert_eq!(echo.request(&ctx, "hello".to_owned()).await.as_deref(), Ok("hello"));
///     echo.stop(&ctx, ExitReason::Normal, Duration::from_secs(5)).await.expect("it stops");
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ServerRef<S> {
    pid: Pid,
    kind: PhantomData<fn() -> S>,
}

impl<S: Server> ServerRef<S> {
    /// Creates a reference to the server with this pid. If the process is not an `S`, it never answers.
    pub const fn of(pid: Pid) -> Self {
        Self { pid, kind: PhantomData }
    }

    /// Returns the pid of the server.
    pub const fn pid(self) -> Pid {
        self.pid
    }

    /// Starts a server that is linked to this process, and waits for its `init`.
    ///
    /// # Errors
    /// [`InitError`] with the reason returned by `init`.
    pub async fn start_link(ctx: &Context, args: S::Args) -> Result<Self, InitError> {
        ctx.start_link(|ctx, starting| serve::<S>(ctx, starting, args)).await.map(Self::of)
    }

    /// Starts a server from outside, and waits for its `init`.
    ///
    /// # Errors
    /// [`InitError`] with the reason returned by `init`.
    pub async fn start(runtime: &Handle, args: S::Args) -> Result<Self, InitError> {
        runtime.start(|ctx, starting| serve::<S>(ctx, starting, args)).await.map(Self::of)
    }

    /// Sends a request and waits for the reply, at most for `timeout`; see [`Context::call`].
    ///
    /// # Errors
    /// [`CallError`] if the server is dead or ends before it replies, if it is the calling process, or after the
    /// timeout.
    #[inline]
    pub fn call(
        self,
        by: &impl Caller,
        request: S::Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<S::Reply, CallError>> + Send {
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
        request: S::Call,
    ) -> impl Future<Output = Result<S::Reply, CallError>> + Send {
        by.request(self.pid, request)
    }

    /// Sends a request without an answer, and waits while the server's mailbox is full. If the server has ended, the
    /// request is dropped.
    pub async fn cast(self, by: &impl Caller, request: S::Cast) {
        by.deliver(self.pid, Cast(request)).await;
    }

    /// Sends a request without an answer, and never waits.
    ///
    /// # Errors
    /// [`TrySendError`] with the reason why the request was not sent.
    pub fn try_cast(self, by: &impl Caller, request: S::Cast) -> Result<(), TrySendError> {
        by.try_deliver(self.pid, Cast(request))
    }

    /// Asks the server to end after it has handled all earlier messages, and waits for its end.
    ///
    /// # Errors
    /// [`CallError`] when the server does not end in time, has already ended, or ends with another reason.
    pub async fn stop(self, by: &impl Caller, reason: ExitReason, timeout: Duration) -> Result<(), CallError> {
        match by.stop(self.pid, Stop(reason.clone()), timeout).await {
            Ok(ended) if ended != reason => Err(CallError::ended(self.pid, ended)),
            other => other.map(drop),
        }
    }
}

impl<S> Clone for ServerRef<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for ServerRef<S> {}

impl<S> PartialEq for ServerRef<S> {
    fn eq(&self, other: &Self) -> bool {
        self.pid == other.pid
    }
}

impl<S> Eq for ServerRef<S> {}

impl<S> Hash for ServerRef<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pid.hash(state);
    }
}

impl<S> fmt::Debug for ServerRef<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerRef({})", self.pid)
    }
}

impl ChildSpec {
    /// Creates a permanent worker that runs a server. It counts as started when its `init` has returned.
    pub fn server<S: Server<Args: Clone + Sync>>(id: impl Into<std::sync::Arc<str>>, args: S::Args) -> Self {
        Self::acknowledged(id, move |ctx, starting| serve::<S>(ctx, starting, args.clone()))
    }
}

/// Body of a server.
async fn serve<S: Server>(ctx: Context, starting: Starting, args: S::Args) -> ExitReason {
    let mut server = match S::init(&ctx, args).await {
        Ok(server) => server,
        Err(reason) => return starting.refuse(&ctx, reason),
    };
    starting.acknowledge();
    let parent = ctx.parent().unwrap_or(Pid::NONE);
    let mut unmatched = UnmatchedLog::of::<S>();
    loop {
        let flow = match Next::<Request<S::Call, S::Reply>>::of(&ctx).await {
            Ok(Request { request, reply }) => server.handle_call(&ctx, request, reply).await,
            Err(message) => handle_other(&mut server, &ctx, parent, message, &mut unmatched).await,
        };
        if let Flow::Stop(reason) = flow {
            server.terminate(&ctx, &reason).await;
            return reason;
        }
    }
}

/// Passes a message other than a call to its handler.
async fn handle_other<S: Server>(
    server: &mut S,
    ctx: &Context,
    parent: Pid,
    message: Message,
    unmatched: &mut UnmatchedLog,
) -> Flow {
    let message = match message.downcast::<Cast<S::Cast>>() {
        Ok(Cast(request)) => return server.handle_cast(ctx, request).await,
        Err(message) => message,
    };
    let message = match message.downcast::<Stop>() {
        Ok(Stop(reason)) => return Flow::Stop(reason),
        Err(message) => message,
    };
    let message = match message.downcast::<GetState>() {
        Ok(asked) => {
            asked.answer(ctx, server.debug_state());
            return Flow::Continue;
        }
        Err(message) => message,
    };
    match message.downcast_ref::<Exit>() {
        Some(exit) if exit.from == parent || exit.from == Pid::NONE => {
            ctx.note_end(exit);
            Flow::Stop(exit.reason.clone())
        }
        _ => match server.handle_info(ctx, message).await {
            Ok(flow) => flow,
            Err(message) => unmatched.handle(S::UNMATCHED, ctx, &message),
        },
    }
}
