//! Code on a thread of its own, for the program's main thread.
//!
//! The thread pool of tokio panics if the system starts no thread; this is an error instead.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, ready};
use std::thread::Builder;

use tokio::sync::oneshot;

use crate::failure::{Failure, system};

/// Result of code that runs on a thread of its own.
#[derive(Debug)]
pub(crate) struct OwnThread<T> {
    what: &'static str,
    result: oneshot::Receiver<T>,
}

/// A thread that waits for code, which then runs even if the system starts no further thread.
#[derive(Debug)]
pub(crate) struct ReservedThread {
    code: Sender<Box<dyn FnOnce() + Send>>,
}

impl ReservedThread {
    /// Starts the thread; `what` says what needs it, in an error.
    pub(crate) fn start(what: &'static str) -> Result<Self, Failure> {
        let (code, given) = channel::<Box<dyn FnOnce() + Send>>();
        let run = move || given.into_iter().for_each(|code| code());
        Builder::new().name("rusm-command".to_owned()).spawn(run).map_err(system(what))?;
        Ok(Self { code })
    }

    /// Runs the code; `what` says what it does, in an error.
    pub(crate) fn run<T: Send + 'static>(
        self,
        what: &'static str,
        code: impl FnOnce() -> T + Send + 'static,
    ) -> OwnThread<T> {
        let (sender, result) = oneshot::channel();
        let reactor = tokio::runtime::Handle::current();
        let run = move || {
            let _entered = reactor.enter();
            drop(sender.send(code()));
        };
        // If the thread is gone, so is the sender, and the result says so.
        drop(self.code.send(Box::new(run)));
        OwnThread { what, result }
    }
}

impl<T: Send + 'static> OwnThread<T> {
    /// Starts the code; `what` says what it does, in an error.
    pub(crate) fn start(what: &'static str, code: impl FnOnce() -> T + Send + 'static) -> Result<Self, Failure> {
        ReservedThread::start(what).map(|thread| thread.run(what, code))
    }
}

impl<T> Future for OwnThread<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.result).poll(task));
        Poll::Ready(result.map_err(|_closed| system(self.what)(io::Error::other("its thread panicked"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_the_code_is_awaited_and_its_panic_is_an_error() {
        let reactor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result = reactor.block_on(async { OwnThread::start("count", || 7).unwrap().await });
        assert_eq!(result.unwrap(), 7);

        let panicked = reactor.block_on(async { OwnThread::start("count", || panic!("as ordered")).unwrap().await });
        let panicked: Result<(), Failure> = panicked;
        assert!(panicked.unwrap_err().to_string().starts_with("cannot count: its thread panicked"));
    }
}
