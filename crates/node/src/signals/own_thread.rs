//! Code on a thread of its own, for the program's main thread.
//!
//! The thread pool of tokio panics if the system starts no thread; this is an error instead.

use std::future::Future;
use std::io;
use std::pin::Pin;
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

impl<T: Send + 'static> OwnThread<T> {
    /// Starts the code; `what` says what it does, in an error.
    pub(crate) fn start(what: &'static str, code: impl FnOnce() -> T + Send + 'static) -> Result<Self, Failure> {
        let (sender, result) = oneshot::channel();
        let reactor = tokio::runtime::Handle::current();
        let run = move || {
            let _entered = reactor.enter();
            drop(sender.send(code()));
        };
        Builder::new().name("rusm-command".to_owned()).spawn(run).map_err(system(what))?;
        Ok(Self { what, result })
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
