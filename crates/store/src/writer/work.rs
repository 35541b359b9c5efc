//! One operation in the writer: applied to a commit together with others, and notified when the commit ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::config::Durability;
use crate::error::StoreError;
use crate::writer::group::Group;
use rusm_runtime::ExitReason;
use rusm_runtime::embed::panics;

/// Maximum number of keys that one sweep removes.
pub(crate) const SWEEP_KEYS: usize = 512;

/// Receives the outcome of an operation from the writer.
pub(crate) type Reply<T, E = StoreError> = oneshot::Receiver<Result<T, E>>;

/// An operation that the writer performs within a commit.
pub(crate) trait Work: Send {
    /// Performs the operation; its writes become visible with the commit. Leaves the group unchanged if it fails by
    /// itself.
    fn apply(&mut self, group: &mut Group<'_>);

    /// Notifies the operation that the commit has ended.
    fn finish(self: Box<Self>, committed: &Result<(), StoreError>);
}

/// An operation in the queue.
pub(crate) struct Request {
    pub(crate) work: Box<dyn Work>,
    pub(crate) durability: Durability,
    /// Bytes that the operation holds in memory.
    pub(crate) bytes: usize,
    /// True for the store's own upkeep, false for a caller's write.
    pub(crate) is_maintenance: bool,
    /// True for a write that frees space later and may therefore grow the store on a disk that is nearly full.
    pub(crate) uses_reserve: bool,
}

impl Request {
    /// Creates a request that makes everything durable that was acknowledged before.
    pub(crate) fn sync() -> (Self, Reply<()>) {
        let (work, reply) = Operation::boxed(|group: &mut Group<'_>| {
            group.sync();
            Ok(())
        });
        (Self { work, durability: Durability::Immediate, bytes: 0, is_maintenance: true, uses_reserve: true }, reply)
    }
}

/// Code that runs in a commit, and the channel for its result.
pub(crate) struct Operation<F, T, E> {
    code: Option<F>,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Operation<F, T, E>
where
    F: FnOnce(&mut Group<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    pub(crate) fn boxed(code: F) -> (Box<dyn Work>, Reply<T, E>) {
        let (reply, replied) = oneshot::channel();
        (Box::new(Self { code: Some(code), outcome: None, reply }), replied)
    }
}

impl<F, T, E> Work for Operation<F, T, E>
where
    F: FnOnce(&mut Group<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn apply(&mut self, group: &mut Group<'_>) {
        self.outcome = self.code.take().map(|code| code(group));
    }

    fn finish(self: Box<Self>, committed: &Result<(), StoreError>) {
        let outcome = match (self.outcome, committed) {
            (Some(outcome), Ok(())) => outcome,
            (Some(Err(own)), Err(_)) => Err(own),
            (_, Err(error)) => Err(error.clone().into()),
            (None, Ok(())) => Err(StoreError::Failed(Arc::from("the operation was never started")).into()),
        };
        // The caller may have stopped waiting.
        drop(self.reply.send(outcome));
    }
}

/// Runs foreign code on the writer thread; converts a panic to an error.
pub(crate) fn catch_panic<T>(code: impl FnOnce() -> T) -> Result<T, StoreError> {
    panics::print_panics(|| catch_unwind(AssertUnwindSafe(code))).map_err(|payload| match panics::reason(payload) {
        ExitReason::Panic(info) => StoreError::Panicked(info.message.as_str().into()),
        other => StoreError::Panicked(other.to_string().into()),
    })
}
