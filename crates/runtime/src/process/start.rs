//! Synchronous starts: the parent waits until the new process acknowledges its start, as with `proc_lib:start_link`.
//!
//! ```text
//!   parent: spawn, link, monitor ──▶ child: init .. Starting::acknowledge ──▶ parent continues
//!                                              └─ ends or refuses: Down ──▶ InitError
//! ```
//!
//! The acknowledgement is the reply to a call, with the spawn as its request. Therefore it needs no room in the
//! parent's mailbox, and the parent receives exactly one of the two: the acknowledgement or the child's end.
//!
//! Servers, state machines, actors and supervisors start this way. A supervisor uses the two steps of `begin_link`, so
//! that observers see the pid of a child that is still starting.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::links::bonds::LinkOptions;
use crate::mailbox::call::{PendingReply, Unanswered, reply_or_end};
use crate::mailbox::request::ReplyTo;
use crate::process::context::Context;
use crate::process::error::InitError;
use crate::process::exit::{ExitReason, Outcome};
use crate::process::pid::Pid;
use crate::process::spawn;
use crate::process::table::Slot;
use crate::runtime::handle::Handle;

impl Context {
    /// Starts a process that is linked to this one from its start, and waits until it has acknowledged that it has
    /// started, like `proc_lib:start_link`.
    ///
    /// # Errors
    /// [`InitError`] when it ended before that, or could not be spawned. This process also receives the end through the
    /// link, unless the new process [refused](Starting::refuse) to start.
    pub async fn start_link<B, F>(&self, body: B) -> Result<Pid, InitError>
    where
        B: FnOnce(Self, Starting) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let (pid, started) = self.begin_link(body)?;
        started.await.map(|()| pid).map_err(|why| InitError::Ended(why.into_reason()))
    }

    /// Like `start_link`, in two steps: returns the pid and a future that completes when the process has started.
    pub(crate) fn begin_link<B, F>(&self, body: B) -> Result<(Pid, PendingReply<'_, ()>), InitError>
    where
        B: FnOnce(Self, Starting) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.running();
        let shared = &running.local.shared;
        let search = running.search_from_end();
        let reference = shared.next_reference().for_start();
        let acknowledge = ReplyTo::process(shared.number, self.pid(), reference);
        let aborted = AbortedStart::default();
        let start = |ctx: Self| {
            let (parent, child, aborted) = (self.pid(), ctx.pid(), aborted.clone());
            let runtime = Handle::new(Arc::clone(shared));
            body(ctx, Starting(Some(Token { acknowledge, parent, child, runtime, aborted })))
        };
        let pid = running.spawn_linked(LinkOptions { link: true, monitor: Some(reference) }, start)?;
        if aborted.is_set() {
            kill_after_first_poll(&Handle::new(Arc::clone(shared)), pid);
        }
        Ok((pid, PendingReply::by(self, pid, reference, search)))
    }
}

impl Handle {
    /// Starts a process and waits until it has acknowledged that it has started.
    ///
    /// # Errors
    /// [`InitError`] when it ended before that, or could not be spawned.
    pub async fn start<B, F>(&self, body: B) -> Result<Pid, InitError>
    where
        B: FnOnce(Context, Starting) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let (acknowledge, started) = ReplyTo::outside();
        let aborted = AbortedStart::default();
        let token =
            |child| Token { acknowledge, parent: Pid::NONE, child, runtime: self.clone(), aborted: aborted.clone() };
        let slot = self.shared.take_slot()?;
        let mut end = None;
        let bind = |pid| end = Some(self.watch(pid));
        let start = |ctx: Context| {
            let child = ctx.pid();
            body(ctx, Starting(Some(token(child))))
        };
        let pid = spawn::spawn_external(slot, 0, bind, start);
        if aborted.is_set() {
            kill_after_first_poll(self, pid);
        }
        let mut end = end.unwrap_or_else(|| self.watch(pid));
        let _noted = NotedStart::of(self, pid);
        match reply_or_end(started, &mut end).await {
            Ok(()) => Ok(pid),
            Err(Unanswered::Ended(reason)) => Err(InitError::Ended(reason)),
            // The process will end, or is killed because it dropped its token.
            Err(Unanswered::Dropped) => Err(InitError::Ended(end.await)),
        }
    }
}

/// A start from outside that the watchdog logs if it does not end.
struct NotedStart<'a> {
    runtime: &'a Handle,
    child: Pid,
}

impl<'a> NotedStart<'a> {
    fn of(runtime: &'a Handle, child: Pid) -> Self {
        runtime.shared.unreceived.note_start(child);
        Self { runtime, child }
    }
}

impl Drop for NotedStart<'_> {
    fn drop(&mut self) {
        self.runtime.shared.unreceived.forget_acknowledgement(self.child);
    }
}

impl Handle {
    fn has_not_run(&self, pid: Pid) -> bool {
        let has_run = |slot: Slot| slot.header().polls.load(Ordering::Relaxed) > 0;
        self.shared.is_alive(pid) && !self.shared.table.slot(pid).is_some_and(has_run)
    }
}

/// Token with which a process acknowledges its start to the process that waits for it.
///
/// A process that drops it without acknowledging is killed, so that its parent never waits forever.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Context, ExitReason, Runtime, Starting};
///
/// async fn open(ctx: Context, starting: Starting, is_there: bool) -> ExitReason {
///     if !is_there {
///         return starting.refuse(&ctx, ExitReason::other("no such file"));
///     }
///     starting.acknowledge();
///     ctx.receive_of::<()>().await;
///     ExitReason::Normal
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(|ctx| async move {
///     assert!(ctx.start_link(|ctx, starting| open(ctx, starting, true)).await.is_ok());
///     let refused = ctx.start_link(|ctx, starting| open(ctx, starting, false)).await;
///     assert!(refused.unwrap_err().to_string().contains("no such file"));
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the process that started this one waits for the acknowledgement"]
pub struct Starting(Option<Token>);

struct Token {
    acknowledge: ReplyTo<()>,
    parent: Pid,
    child: Pid,
    runtime: Handle,
    aborted: AbortedStart,
}

/// Set when the token is dropped, perhaps by the closure that creates the process: no signal reaches the process then.
#[derive(Clone, Default)]
struct AbortedStart(Arc<AtomicBool>);

impl AbortedStart {
    fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Kills a process that will never acknowledge its start, after its first poll: if it ends by itself until then, its
/// reason is more precise.
fn kill_after_first_poll(runtime: &Handle, child: Pid) {
    let end = move |ctx: Context| async move {
        while ctx.runtime().has_not_run(child) {
            ctx.yield_now().await;
        }
        ctx.exit(child, ExitReason::Killed);
    };
    if runtime.spawn(end).is_err() {
        runtime.exit(child, ExitReason::Killed);
    }
}

impl fmt::Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Starting({:?})", self.0.as_ref().map(|token| token.child))
    }
}

impl Starting {
    /// Acknowledges that the process has started.
    pub fn acknowledge(mut self) {
        if let Some(token) = self.0.take() {
            // A parent that has ended needs no answer.
            token.acknowledge.send(&token.runtime, ());
        }
    }

    /// Refuses to start: removes the link to the parent, so that `reason` reaches the parent only as the failed start.
    /// The process should then end with the returned reason.
    pub fn refuse(mut self, ctx: &Context, reason: ExitReason) -> ExitReason {
        if let Some(token) = self.0.take() {
            ctx.unlink(token.parent);
            token.acknowledge.forget();
        }
        reason
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(token) = self.0.take() {
            token.aborted.set();
            // The parent learns the exit reason of the child instead.
            token.acknowledge.forget();
            // If the process is already ending, its own exit reason is kept.
            token.runtime.exit(token.child, ExitReason::Killed);
        }
    }
}
