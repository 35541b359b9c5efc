//! A start that is over only when the process says so, as `proc_lib:start_link` has it.
//!
//! ```text
//!   parent: spawn, link, monitor ──▶ child: init .. Starting::acknowledge ──▶ parent goes on
//!                                              └─ ends or refuses: Down ──▶ InitError
//! ```
//!
//! The acknowledgement is the reply to a call whose request is the spawn, so it needs no room in the parent's mailbox, and
//! exactly one of it and the child's end arrives.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::call::{Answer, ReplyTo, reply_or_end};
use crate::context::Context;
use crate::error::SpawnError;
use crate::exit::{ExitReason, Outcome};
use crate::handle::Handle;
use crate::pid::Pid;
use crate::signal::Bond;
use crate::slab::Slot;
use crate::spawn;

impl Context {
    /// Starts a process that is linked to this one from its first instant, and waits until it has acknowledged that it has
    /// started, as `proc_lib:start_link` does.
    ///
    /// # Errors
    /// [`InitError`] when it ended before, or was never started. Its end reaches this process through the link too, unless
    /// it [refused](Starting::refuse) to start.
    pub async fn start_link<B, F>(&self, body: B) -> Result<Pid, InitError>
    where
        B: FnOnce(Self, Starting) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let (pid, started) = self.begin_link(body)?;
        started.await.map(|()| pid).map_err(InitError::Ended)
    }

    /// The same in two steps: what is to be awaited until the process has started.
    pub(crate) fn begin_link<B, F>(&self, body: B) -> Result<(Pid, Answer<'_, ()>), InitError>
    where
        B: FnOnce(Self, Starting) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let running = self.running();
        let shared = &running.local.shared;
        let search = running.search_from_here();
        let reference = shared.references.next();
        let acknowledge = ReplyTo::process(self.pid(), reference);
        let stillborn = Stillborn::default();
        let start = |ctx: Self| {
            let (parent, child, stillborn) = (self.pid(), ctx.pid(), stillborn.clone());
            let runtime = Handle::new(Arc::clone(shared));
            body(ctx, Starting(Some(Token { acknowledge, parent, child, runtime, stillborn })))
        };
        let pid = running.spawn_bound(Bond { link: true, monitor: Some(reference) }, start)?;
        if stillborn.is_noted() {
            end_soon(&Handle::new(Arc::clone(shared)), pid);
        }
        Ok((pid, Answer::by(self, pid, reference, search)))
    }
}

impl Handle {
    /// Starts a process and waits until it has acknowledged that it has started.
    ///
    /// # Errors
    /// [`InitError`] when it ended before, or was never started.
    pub async fn start<B, F>(&self, body: B) -> Result<Pid, InitError>
    where
        B: FnOnce(Context, Starting) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        let (acknowledge, started) = ReplyTo::outside();
        let stillborn = Stillborn::default();
        let token = |child| Token {
            acknowledge,
            parent: Pid::NONE,
            child,
            runtime: self.clone(),
            stillborn: stillborn.clone(),
        };
        let slot = self.shared.take_slot()?;
        let mut end = None;
        let bind = |pid| end = Some(self.watch(pid));
        let start = |ctx: Context| {
            let child = ctx.pid();
            body(ctx, Starting(Some(token(child))))
        };
        let pid = spawn::from_outside(slot, 0, bind, start);
        if stillborn.is_noted() {
            end_soon(self, pid);
        }
        let end = end.unwrap_or_else(|| self.watch(pid));
        reply_or_end(started, end).await.map(|()| pid).map_err(InitError::Ended)
    }
}

impl Handle {
    fn is_yet_to_run(&self, pid: Pid) -> bool {
        let has_run = |slot: Slot| slot.cell().polls.load(Ordering::Relaxed) > 0;
        self.shared.is_alive(pid) && !self.shared.slab.slot(pid).is_some_and(has_run)
    }
}

/// Why a process did not start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InitError {
    /// There was no room for it.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// It ended before it had started.
    #[error("ended while it started: {0}")]
    Ended(ExitReason),
}

impl InitError {
    /// A start that failed before there was a process.
    pub fn failed(error: &impl fmt::Display) -> Self {
        Self::Ended(ExitReason::other(error))
    }
}

/// What a process acknowledges its start with; whoever started it waits for that.
///
/// One that drops it without acknowledging is killed, so that nobody waits for ever.
#[must_use = "whoever started this process waits for its acknowledgement"]
pub struct Starting(Option<Token>);

struct Token {
    acknowledge: ReplyTo<()>,
    parent: Pid,
    child: Pid,
    runtime: Handle,
    stillborn: Stillborn,
}

/// Whether the token was dropped, perhaps by the closure that makes the process: then no signal reaches it yet.
#[derive(Clone, Default)]
struct Stillborn(Arc<AtomicBool>);

impl Stillborn {
    fn note(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_noted(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Ends a process that will never acknowledge its start, once it has run for the first time: what it ends with by then says
/// more.
fn end_soon(runtime: &Handle, child: Pid) {
    let end = move |ctx: Context| async move {
        while ctx.runtime().is_yet_to_run(child) {
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
    /// Tells that the process has started.
    pub fn acknowledge(mut self) {
        if let Some(token) = self.0.take() {
            // A parent that has ended needs no answer.
            token.acknowledge.send(&token.runtime, ());
        }
    }

    /// Gives up the start: the link to the parent is ended, so that `reason`, which the process should end with, reaches it
    /// as the failed start alone.
    pub fn refuse(mut self, ctx: &Context, reason: ExitReason) -> ExitReason {
        if let Some(token) = self.0.take() {
            ctx.unlink(token.parent);
        }
        reason
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(token) = self.0.take() {
            token.stillborn.note();
            // A process that is ending already ends by its own reason.
            token.runtime.exit(token.child, ExitReason::Killed);
        }
    }
}
