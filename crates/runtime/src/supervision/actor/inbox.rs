//! The typed mailbox of a process that is a function.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use super::address::Address;
use super::next::NextForInbox;
use super::unmatched::{Unmatched, UnmatchedLog};
use crate::process::context::Context;
use crate::process::error::SpawnError;
use crate::process::exit::Outcome;
use crate::runtime::handle::Handle;
use crate::supervision::server::Stop;

/// The mailbox of a process that receives messages of type `M`; see [`Address`].
///
/// A message of another type is handled as [`Unmatched`] says. [`Down`](crate::Down) and [`Exit`](crate::Exit) stay in the mailbox, where
/// [`Context::receive_of`] finds them.
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// use rusm::actor::Inbox;
///
/// runtime.block_on(|ctx| async move {
///     let mut inbox = Inbox::<u32>::new();
///     inbox.address(&ctx).send(&ctx, 7).await;
///     assert_eq!(inbox.receive(&ctx).await, 7);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Inbox<M> {
    policy: Unmatched,
    unmatched: UnmatchedLog,
    kind: PhantomData<fn() -> M>,
}

impl<M> fmt::Debug for Inbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> Inbox<M> {
    /// Creates an inbox that warns of messages of another type.
    pub fn new() -> Self {
        Self { policy: Unmatched::Warn, unmatched: UnmatchedLog::default(), kind: PhantomData }
    }

    /// Sets what happens to messages of another type.
    pub fn unmatched(self, policy: Unmatched) -> Self {
        Self { policy, ..self }
    }
}

impl<M: Send + 'static> Inbox<M> {
    /// Returns the address of this process.
    pub fn address(&self, ctx: &Context) -> Address<M> {
        Address::of(ctx.pid())
    }

    /// Waits at most `timeout` for the next message. Zero does not wait: it only takes a message that is already there.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
    /// use std::time::Duration;
    ///
    /// use rusm::actor::Inbox;
    ///
    /// let lines = runtime.block_on(|ctx| async move {
    ///     let mut inbox = Inbox::<&str>::new();
    ///     for line in ["one", "two", "three"] {
    ///         inbox.address(&ctx).send(&ctx, line).await;
    ///     }
    ///     // All that is there, to write it at once.
    ///     let mut lines = vec![inbox.receive(&ctx).await];
    ///     while let Some(line) = inbox.receive_timeout(&ctx, Duration::ZERO).await {
    ///         lines.push(line);
    ///     }
    ///     lines
    /// });
    /// assert_eq!(lines, ["one", "two", "three"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn receive_timeout(&mut self, ctx: &Context, timeout: Duration) -> Option<M> {
        ctx.within(timeout, self.receive(ctx)).await
    }

    /// Waits for the next message.
    ///
    /// Dropping the future loses no message. [`Address::stop`] ends the process here, and so does a message of another type with
    /// [`Unmatched::Crash`], also if it traps exits.
    pub async fn receive(&mut self, ctx: &Context) -> M {
        loop {
            match NextForInbox::of(ctx).await {
                Ok(message) => return message,
                Err(message) => {
                    let reason = match message.downcast::<Stop>() {
                        Ok(Stop(reason)) => Some(reason),
                        Err(message) => self.unmatched.record(self.policy, ctx, &message),
                    };
                    if let Some(reason) = reason {
                        ctx.end_by_itself(reason);
                        // The signal takes effect here.
                        ctx.yield_now().await;
                    }
                }
            }
        }
    }
}

impl Context {
    /// Spawns a process that receives messages of type `M`, and returns its address.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] if the process limit is reached.
    pub fn spawn_typed<M, B, F>(&self, body: B) -> Result<Address<M>, SpawnError>
    where
        M: Send + 'static,
        B: FnOnce(Self, Inbox<M>) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.try_spawn(|ctx| body(ctx, Inbox::new())).map(Address::of)
    }

    /// Like [`spawn_typed`](Self::spawn_typed), linked to this process.
    ///
    /// # Errors
    /// [`SpawnError::Limit`] if the process limit is reached.
    pub fn spawn_typed_link<M, B, F>(&self, body: B) -> Result<Address<M>, SpawnError>
    where
        M: Send + 'static,
        B: FnOnce(Self, Inbox<M>) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.spawn_link(|ctx| body(ctx, Inbox::new())).map(Address::of)
    }
}

impl Handle {
    /// Spawns a process that receives messages of type `M`, and returns its address; see [`Address`].
    ///
    /// # Errors
    /// [`SpawnError`] if the process limit is reached or the runtime is shutting down.
    pub fn spawn_typed<M, B, F>(&self, body: B) -> Result<Address<M>, SpawnError>
    where
        M: Send + 'static,
        B: FnOnce(Context, Inbox<M>) -> F,
        F: Future<Output: Outcome> + Send + 'static,
    {
        self.spawn(|ctx| body(ctx, Inbox::new())).map(Address::of)
    }
}
