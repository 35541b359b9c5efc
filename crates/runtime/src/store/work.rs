//! One operation on its way through the writer: applied to a commit with others, told of its end.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::oneshot;

use super::config::Durability;
use super::core::Core;
use super::error::StoreError;
use super::group::Group;

/// Keys that one sweep takes away.
pub(super) const SWEEP_KEYS: usize = 512;

/// What comes back from the writer.
pub(super) type Reply<T, E = StoreError> = oneshot::Receiver<Result<T, E>>;

/// Something that the writer does within a commit.
pub(super) trait Work: Send {
    /// Does it; what it writes becomes visible with the commit. Does nothing to the group if it fails by itself.
    fn apply(&mut self, group: &mut Group<'_>);

    /// Says that the commit has ended.
    fn finish(self: Box<Self>, committed: &Result<(), StoreError>);
}

/// An operation in the queue.
pub(super) struct Request {
    pub(super) work: Box<dyn Work>,
    pub(super) durability: Durability,
    /// Bytes that it holds in memory.
    pub(super) bytes: usize,
    /// Whether it is the store's own, and nobody's write.
    pub(super) is_upkeep: bool,
}

impl Request {
    /// Makes everything durable that was acknowledged before.
    pub(super) fn sync() -> (Self, Reply<()>) {
        let (work, reply) = Operation::boxed(|group: &mut Group<'_>| {
            group.sync();
            Ok(())
        });
        (Self { work, durability: Durability::Immediate, bytes: 0, is_upkeep: true }, reply)
    }

    /// Takes away some of the keys whose time is over; how many, and whether there are more that will expire.
    pub(super) fn sweep(core: Arc<Core>) -> (Self, Reply<(u64, bool)>) {
        let (work, reply) = Operation::boxed(move |group: &mut Group<'_>| {
            let (swept, is_left) = group.sweep(&core.buckets, SWEEP_KEYS)?;
            core.counters.expired.fetch_add(swept, Relaxed);
            Ok((swept, is_left))
        });
        (Self { work, durability: Durability::Eventual, bytes: 0, is_upkeep: true }, reply)
    }
}

/// Code that runs in a commit, and who waits for what it returns.
pub(super) struct Operation<F, T, E> {
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
    pub(super) fn boxed(code: F) -> (Box<dyn Work>, Reply<T, E>) {
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
            (None, Ok(())) => Err(StoreError::Failed(Arc::from("it was never begun")).into()),
        };
        // Who does not wait any more does not want to know.
        drop(self.reply.send(outcome));
    }
}
