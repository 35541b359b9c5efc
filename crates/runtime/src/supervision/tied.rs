//! Tasks of tokio that end with the process that started them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use tokio::task::JoinHandle;

use crate::process::context::Context;
use crate::process::exit::{ExitReason, panic_reason};

/// A task of tokio that is aborted when this is dropped, and so at the end of its process; see [`Context::tie`].
///
/// ```
/// # use rusm_runtime as rusm;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// runtime.block_on(|ctx| async move {
///     let (send, receive) = tokio::sync::oneshot::channel::<()>();
///     let tied = ctx.tie(async move {
///         std::future::pending::<()>().await;
///         send.send(())
///     });
///     drop(tied);
///     assert!(receive.await.is_err(), "the task has been aborted");
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the task is aborted if this is dropped"]
pub struct Tied<T>(JoinHandle<T>);

impl<T> fmt::Debug for Tied<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tied").field("is_finished", &self.0.is_finished()).finish()
    }
}

impl Context {
    /// Starts a task of tokio on this scheduler, and ties it to this process: it is aborted when the returned future is
    /// dropped: at the latest when the process ends, unless the future was given to other code. The future returns the value of the task, or its panic.
    ///
    /// It is for libraries that require a task. A task is no process: it has no mailbox, and observers do not see it.
    /// [`task`](Self::task) starts a process.
    ///
    /// ```
    /// # use rusm_runtime as rusm;
    /// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
    /// let sum = runtime.block_on(|ctx| async move { ctx.tie(async { 1 + 2 }).await });
    /// assert_eq!(sum, Ok(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tie<F>(&self, future: F) -> Tied<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // Also asserts that the process runs here, on the reactor of its scheduler.
        let _running = self.running();
        Tied(tokio::spawn(future))
    }
}

impl<T> Future for Tied<T> {
    type Output = Result<T, ExitReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|joined| joined.map_err(|error| error.try_into_panic().map_or(ExitReason::Killed, panic_reason)))
    }
}

impl<T> Drop for Tied<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
