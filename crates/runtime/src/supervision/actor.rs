//! Typed actors: processes with one message type, a typed reference, and one reply type for each message.
//!
//! ```text
//!   #[actor] impl Cache { … } ─▶ enum CacheMessage, with a destination for each reply
//!                             ├▶ CacheRef: a method for each message ─▶ Address::send, Address::call
//!                             └▶ impl Actor for Cache: passes each message to its method
//!   any other message ─▶ handle_info ─▶ not handled: Unmatched::Warn, Drop or Crash
//! ```
//!
//! The crate `rusm` has the attribute `actor`, which writes the message type and the implementation. Both can be
//! written by hand; then [`Address`] sends the messages. A message of a wrong type does not compile.

mod address;
mod inbox;
mod next;
mod unmatched;

use std::future::Future;
use std::sync::Arc;

pub use address::{Address, CallTimeout};
pub use inbox::Inbox;
pub(crate) use next::Next;
pub use unmatched::Unmatched;
pub(crate) use unmatched::{UnmatchedLog, without_messages};

pub use crate::supervision::server::Flow;
#[doc(hidden)]
pub use crate::supervision::state_query::{ShowDebug, ShowName, Shown};

use crate::links::signal::Exit;
use crate::mailbox::call::Caller;
use crate::mailbox::message::Message;
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::start::Starting;
use crate::runtime::handle::Handle;
use crate::supervision::server::Stop;
use crate::supervision::state_query::{GetState, opaque};
use crate::supervision::supervisor::ChildSpec;

/// A process that keeps a state and handles messages of one type.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::actor::{Actor, Address, Flow};
/// use rusm::{Config, Context, ExitReason, ReplyTo, Runtime};
///
/// struct Counter(u64);
///
/// enum Count {
///     Add(u64),
///     Total(ReplyTo<u64>),
///     IsZero(ReplyTo<bool>),
/// }
///
/// impl Actor for Counter {
///     type Args = u64;
///     type Message = Count;
///     type Ref = Address<Count>;
///
///     async fn init(_: &Context, first: u64) -> Result<Self, ExitReason> {
///         Ok(Self(first))
///     }
///
///     async fn handle(&mut self, ctx: &Context, message: Count) -> Flow {
///         match message {
///             Count::Add(number) => self.0 += number,
///             Count::Total(reply) => _ = reply.send(ctx, self.0),
///             Count::IsZero(reply) => _ = reply.send(ctx, self.0 == 0),
///         }
///         Flow::Continue
///     }
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// let outside = tokio::runtime::Builder::new_current_thread().build()?;
/// outside.block_on(async {
///     let counter = Counter::start(&runtime, 40).await?;
///     counter.send(&*runtime, Count::Add(2)).await;
///     assert_eq!(counter.call(&*runtime, Count::Total).await?, 42);
///     assert_eq!(counter.call(&*runtime, Count::IsZero).await?, false);
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A message of another type does not compile:
///
/// ```compile_fail
/// # use rusm_runtime as rusm;
/// # use rusm::actor::Address;
/// # async fn wrong(ctx: &rusm::Context, counter: Address<u64>) {
/// counter.send(ctx, "forty-two").await;
/// # }
/// ```
pub trait Actor: Sized + Send + 'static {
    /// Argument of `init`.
    type Args: Send + 'static;
    /// Messages of the actor.
    type Message: Send + 'static;
    /// Typed reference to the actor, usually [`Address<Self::Message>`](Address).
    type Ref: From<Address<Self::Message>> + Send;

    /// Policy for messages that the actor does not handle.
    const UNMATCHED: Unmatched = Unmatched::Warn;

    /// Creates the state. The process that starts the actor waits until this returns.
    ///
    /// # Errors
    /// Returns the reason why the actor does not start.
    fn init(ctx: &Context, args: Self::Args) -> impl Future<Output = Result<Self, ExitReason>> + Send;

    /// Handles a message.
    fn handle(&mut self, ctx: &Context, message: Self::Message) -> impl Future<Output = Flow> + Send;

    /// Handles a message of another type, for example a [`Down`](crate::Down).
    ///
    /// # Errors
    /// Returns the message if the actor does not handle it; [`UNMATCHED`](Self::UNMATCHED) then applies.
    fn handle_info(&mut self, ctx: &Context, message: Message) -> impl Future<Output = Result<Flow, Message>> + Send {
        let _ = (self, ctx);
        async { Err(message) }
    }

    /// Returns the state as text, for [`Context::state_of`]. The default implementation returns the name of the type.
    fn debug_state(&self) -> String {
        opaque::<Self>()
    }

    /// Cleans up before the actor ends. Not called after a panic or an untrapped exit signal.
    fn terminate(self, ctx: &Context, reason: &ExitReason) -> impl Future<Output = ()> + Send {
        let _ = (self, ctx, reason);
        async {}
    }

    /// Starts the actor, linked to this process, and waits for its `init`.
    ///
    /// # Errors
    /// [`InitError`] with the reason returned by `init`.
    fn start_link(ctx: &Context, args: Self::Args) -> impl Future<Output = Result<Self::Ref, InitError>> + Send {
        async move { ctx.start_link(|ctx, starting| run::<Self>(ctx, starting, args)).await.map(reference::<Self>) }
    }

    /// Starts the actor from outside, and waits for its `init`.
    ///
    /// # Errors
    /// [`InitError`] with the reason returned by `init`.
    fn start(runtime: &Handle, args: Self::Args) -> impl Future<Output = Result<Self::Ref, InitError>> + Send {
        async move { runtime.start(|ctx, starting| run::<Self>(ctx, starting, args)).await.map(reference::<Self>) }
    }

    /// Returns the actor that is registered under a name. The type is not checked: an actor of another type handles each
    /// message by its policy for [`Unmatched`] ones, and a call gets [`CallError::Dropped`](crate::CallError::Dropped); a
    /// process that receives by [`Context::receive_of`] keeps the messages in its mailbox.
    fn whereis(by: &impl Caller, name: &str) -> Option<Self::Ref> {
        by.with_shared(|shared| shared.side_tables.whereis(name)).map(reference::<Self>)
    }

    /// Returns the specification of a permanent child that runs the actor, with a copy of `args` for each start. It has
    /// started when its `init` has returned.
    fn child(id: impl Into<Arc<str>>, args: Self::Args) -> ChildSpec
    where
        Self::Args: Clone + Sync,
    {
        Self::child_with(id, move || args.clone())
    }

    /// Like [`child`](Self::child), with arguments that a function creates for each start.
    fn child_with(id: impl Into<Arc<str>>, args: impl Fn() -> Self::Args + Send + Sync + 'static) -> ChildSpec {
        ChildSpec::acknowledged(id, move |ctx, starting| run::<Self>(ctx, starting, args()))
    }

    /// Returns the template of a dynamic supervisor's children, each of which runs the actor with its own arguments.
    fn template(id: impl Into<Arc<str>>) -> ChildSpec
    where
        Self::Args: Clone + Sync,
    {
        ChildSpec::acknowledged_template(id, run::<Self>)
    }
}

fn reference<A: Actor>(pid: Pid) -> A::Ref {
    Address::of(pid).into()
}

/// Body of an actor.
async fn run<A: Actor>(ctx: Context, starting: Starting, args: A::Args) -> ExitReason {
    let mut actor = match A::init(&ctx, args).await {
        Ok(actor) => actor,
        Err(reason) => return starting.refuse(&ctx, reason),
    };
    starting.acknowledge();
    let mut unmatched = UnmatchedLog::default();
    loop {
        let flow = match Next::<A::Message>::of(&ctx).await {
            Ok(message) => actor.handle(&ctx, message).await,
            Err(message) => handle_other(&mut actor, &ctx, message, &mut unmatched).await,
        };
        if let Flow::Stop(reason) = flow {
            actor.terminate(&ctx, &reason).await;
            return reason;
        }
    }
}

async fn handle_other<A: Actor>(actor: &mut A, ctx: &Context, message: Message, unmatched: &mut UnmatchedLog) -> Flow {
    let message = match message.downcast::<Stop>() {
        Ok(Stop(reason)) => return Flow::Stop(reason),
        Err(message) => message,
    };
    let message = match message.downcast::<GetState>() {
        Ok(asked) => {
            asked.answer(ctx, actor.debug_state());
            return Flow::Continue;
        }
        Err(message) => message,
    };
    match message.downcast_ref::<Exit>() {
        Some(exit) if exit.from == ctx.parent().unwrap_or(Pid::NONE) || exit.from == Pid::NONE => {
            ctx.note_end(exit);
            Flow::Stop(exit.reason.clone())
        }
        _ => match actor.handle_info(ctx, message).await {
            Ok(flow) => flow,
            Err(message) => unmatched.handle(A::UNMATCHED, ctx, &message),
        },
    }
}
