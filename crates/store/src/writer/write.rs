//! A write in flight: a future for processes, a blocking wait for threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::config::Durability;
use crate::core::Core;
use crate::error::StoreError;
use crate::writer::queue::PushResult;
use crate::writer::work::{Reply, Request};
use rusm_runtime::embed::{is_scheduler_thread, record_store_wait};

/// A write that is sent to the store only when it is awaited or [waited](Self::wait) for.
///
/// Once sent it is carried out, even if the caller stops waiting for it.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use rusm::store::{Durability, Store, StoreConfig};
///
/// let store = Store::open(&path, StoreConfig::default())?;
/// let cache = store.bucket("cache")?;
/// // A thread waits, a process awaits. This write does not wait for the disk.
/// cache.put("page", "…").durability(Durability::None).wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a write is sent only when it is awaited or `wait` is called"]
pub struct Write<T, E = StoreError> {
    core: Arc<Core>,
    state: WriteState<T, E>,
    /// True once it is included in the number of waiting writes.
    is_counted: bool,
}

enum WriteState<T, E> {
    Failed(E),
    NotSent(Request, Reply<T, E>),
    /// The queue was full; the last field is the queue's ticket.
    Blocked(Request, Reply<T, E>, u64),
    Sent(Reply<T, E>),
    Done,
}

impl<T, E> std::fmt::Debug for Write<T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.state {
            WriteState::Failed(_) => "refused",
            WriteState::NotSent(..) => "fresh",
            WriteState::Blocked(..) => "blocked",
            WriteState::Sent(_) => "sent",
            WriteState::Done => "over",
        };
        f.debug_struct("Write").field("state", &state).finish_non_exhaustive()
    }
}

impl<T, E: From<StoreError>> Write<T, E> {
    pub(crate) const fn new(core: Arc<Core>, request: Request, reply: Reply<T, E>) -> Self {
        Self { core, state: WriteState::NotSent(request, reply), is_counted: false }
    }

    pub(crate) const fn failed(core: Arc<Core>, error: E) -> Self {
        Self { core, state: WriteState::Failed(error), is_counted: false }
    }

    /// Sets the durability of this write, instead of the store's default.
    pub fn durability(mut self, durability: Durability) -> Self {
        if let WriteState::NotSent(request, _) = &mut self.state {
            request.durability = durability;
        }
        self
    }

    /// Blocks this thread until the write is acknowledged. Processes must use `.await` instead.
    ///
    /// # Errors
    /// [`StoreError`] if the write was not done, [`StoreError::OnScheduler`] if a process calls this.
    pub fn wait(self) -> Result<T, E> {
        wait(self)
    }

    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        loop {
            match std::mem::replace(&mut self.state, WriteState::Done) {
                WriteState::Failed(error) => return Poll::Ready(Err(error)),
                WriteState::Blocked(request, reply, ticket) => {
                    self.core.queue.withdraw(ticket, true);
                    self.state = WriteState::NotSent(request, reply);
                }
                WriteState::NotSent(request, reply) => {
                    if !std::mem::replace(&mut self.is_counted, true) {
                        self.core.waiting.fetch_add(1, Relaxed);
                    }
                    self.core.disk.prewake.set_target();
                    match self.core.queue.push(request, cx.waker()) {
                        PushResult::Queued => self.state = WriteState::Sent(reply),
                        PushResult::Closed => return Poll::Ready(Err(StoreError::Closed.into())),
                        PushResult::Blocked(request, ticket) => {
                            self.state = WriteState::Blocked(request, reply, ticket);
                            record_store_wait();
                            return Poll::Pending;
                        }
                    }
                }
                WriteState::Sent(mut reply) => {
                    let Poll::Ready(outcome) = Pin::new(&mut reply).poll(cx) else {
                        self.state = WriteState::Sent(reply);
                        record_store_wait();
                        return Poll::Pending;
                    };
                    // The reply is missing only if the writer has ended.
                    return Poll::Ready(outcome.unwrap_or_else(|_| Err(StoreError::Closed.into())));
                }
                WriteState::Done => unreachable!("a write is not polled after completion"),
            }
        }
    }
}

// No field is ever pinned.
impl<T, E> Unpin for Write<T, E> {}

impl<T, E: From<StoreError>> Future for Write<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_state(cx)
    }
}

impl<T, E> Drop for Write<T, E> {
    fn drop(&mut self) {
        if let WriteState::Blocked(_, _, ticket) = self.state {
            self.core.queue.withdraw(ticket, false);
        }
        if self.is_counted {
            self.core.waiting.fetch_sub(1, Relaxed);
        }
    }
}

/// Blocks this thread until a future ends; fails on a scheduler's thread.
pub(crate) fn wait<T, E: From<StoreError>>(future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    if is_scheduler_thread() {
        return Err(StoreError::OnScheduler.into());
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park(),
        }
    }
}
