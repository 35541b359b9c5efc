//! Typed addresses of processes.

use std::fmt;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::time::Duration;

use crate::mailbox::call::{CallError, Caller};
use crate::mailbox::request::ReplyTo;
use crate::process::error::TrySendError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::config::defaults::CALL_TIMEOUT;
use crate::supervision::server::Stop;

/// The address of a process that receives messages of type `M`; as small as a [`Pid`], and as cheap to send to.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Context, ReplyTo, Runtime};
///
/// enum Shelf {
///     Put(&'static str),
///     Len(ReplyTo<usize>),
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// let shelf = runtime.spawn_typed(|ctx, mut inbox| async move {
///     let mut books = Vec::new();
///     loop {
///         match inbox.receive(&ctx).await {
///             Shelf::Put(book) => books.push(book),
///             Shelf::Len(reply) => _ = reply.send(&ctx, books.len()),
///         }
///     }
/// })?;
/// # let (tell, told) = std::sync::mpsc::channel();
/// runtime.spawn(move |ctx: Context| async move {
///     shelf.send(&ctx, Shelf::Put("Emma")).await;
///     let len = shelf.call(&ctx, Shelf::Len).await;
/// #   tell.send(len)
/// })?;
/// # assert_eq!(told.recv()?, Ok(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Address<M> {
    pid: Pid,
    kind: PhantomData<fn(M)>,
}

impl<M: Send + 'static> Address<M> {
    /// Creates the address of a process that is known to receive an `M`. If it is an actor, an inbox or a server of another
    /// type, it handles the messages by its policy for [`Unmatched`](super::Unmatched) ones. If it receives by
    /// [`Context::receive_of`](crate::Context::receive_of), they stay in its mailbox.
    pub const fn of(pid: Pid) -> Self {
        Self { pid, kind: PhantomData }
    }

    /// Returns the pid of the process.
    #[inline]
    pub const fn pid(self) -> Pid {
        self.pid
    }

    /// Sends a message, and waits while the mailbox is full. If the process has ended, the message is dropped.
    #[inline]
    pub fn send(self, by: &impl Caller, message: M) -> impl Future<Output = ()> + Send {
        by.deliver(self.pid, message)
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    /// [`TrySendError`], which returns the message, if the mailbox is full or the process has ended.
    pub fn try_send(self, by: &impl Caller, message: M) -> Result<(), TrySendError> {
        by.try_deliver(self.pid, message)
    }

    /// Sends the message that `make` creates with the destination of its reply, and waits at most
    /// [5 s](crate::defaults::CALL_TIMEOUT) for the reply.
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`](crate::Context::call).
    #[inline]
    pub fn call<R: Send + 'static>(
        self,
        by: &impl Caller,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> impl Future<Output = Result<R, CallError>> + Send {
        by.call_with(self.pid, CALL_TIMEOUT, make)
    }

    /// Like [`call`](Self::call), with a timeout; [`Duration::MAX`] waits forever.
    ///
    /// # Errors
    /// [`CallError`] as of [`Context::call`](crate::Context::call).
    #[inline]
    pub fn call_within<R: Send + 'static>(
        self,
        by: &impl Caller,
        timeout: Duration,
        make: impl FnOnce(ReplyTo<R>) -> M + Send,
    ) -> impl Future<Output = Result<R, CallError>> + Send {
        by.call_with(self.pid, timeout, make)
    }

    /// Asks an [`Actor`](super::Actor), or a process that receives from an [`Inbox`](super::Inbox), to end after it has handled
    /// all earlier messages, and waits for its end.
    ///
    /// # Errors
    /// [`CallError`] when it does not end in time, has already ended, or ends with another reason.
    pub async fn stop(self, by: &impl Caller, reason: ExitReason, timeout: Duration) -> Result<(), CallError> {
        match by.stop(self.pid, Stop(reason.clone()), timeout).await {
            Ok(ended) if ended != reason => Err(CallError::ended(self.pid, ended)),
            other => other.map(drop),
        }
    }
}

impl<M> Clone for Address<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Address<M> {}

impl<M> PartialEq for Address<M> {
    fn eq(&self, other: &Self) -> bool {
        self.pid == other.pid
    }
}

impl<M> Eq for Address<M> {}

impl<M> PartialOrd for Address<M> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<M> Ord for Address<M> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.pid.cmp(&other.pid)
    }
}

impl<M> Hash for Address<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pid.hash(state);
    }
}

impl<M> fmt::Debug for Address<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.pid)
    }
}

/// The timeout of calls through a typed reference, in milliseconds; small enough to copy with each reference.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::actor::CallTimeout;
///
/// assert_eq!(CallTimeout::default().get(), Duration::from_secs(5));
/// assert_eq!(CallTimeout::from(Duration::from_millis(250)).get(), Duration::from_millis(250));
/// assert_eq!(CallTimeout::from(Duration::MAX).get(), Duration::MAX);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallTimeout {
    /// In milliseconds; the maximum stands for no timeout.
    ms: u32,
}

impl CallTimeout {
    pub(crate) const fn of_ms(ms: u32) -> Self {
        Self { ms }
    }

    /// Returns the timeout.
    #[inline]
    pub const fn get(self) -> Duration {
        if self.ms == u32::MAX { Duration::MAX } else { Duration::from_millis(self.ms as u64) }
    }
}

/// [5 s](crate::defaults::CALL_TIMEOUT).
impl Default for CallTimeout {
    fn default() -> Self {
        CALL_TIMEOUT.into()
    }
}

/// Rounds up to whole milliseconds. More than 49 days means no timeout.
impl From<Duration> for CallTimeout {
    fn from(timeout: Duration) -> Self {
        Self { ms: u32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_never_shorter_than_asked_for() {
        for nanos in [0, 1, 999_999, 1_000_000, 1_000_001, 5_000_000_000] {
            let asked = Duration::from_nanos(nanos);
            let given = CallTimeout::from(asked).get();
            assert!(given >= asked && given < asked + Duration::from_millis(1), "{asked:?} {given:?}");
        }
        assert_eq!(CallTimeout::from(Duration::MAX).get(), Duration::MAX);
        assert_eq!(CallTimeout::from(Duration::from_hours(24 * 100)).get(), Duration::MAX);
    }

    #[test]
    fn an_address_is_as_small_as_a_pid() {
        assert_eq!(size_of::<Address<String>>(), size_of::<Pid>());
    }
}
