//! The way of a response from the process that handles a request to the process of its connection.

use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::request::Response;

/// Holds at most one response, or the end of the process without one.
#[derive(Debug, Default)]
pub(crate) struct Reply(Mutex<State>);

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Answered(Response),
    Ended,
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting(None)
    }
}

impl Reply {
    pub(crate) fn send(&self, response: Response) {
        self.set(State::Answered(response));
    }

    /// Notes that the process has ended. A response that it has sent before stays.
    pub(crate) fn end(&self) {
        self.set(State::Ended);
    }

    fn set(&self, state: State) {
        let mut current = self.0.lock();
        if let State::Waiting(waker) = &mut *current {
            let waker = waker.take();
            *current = state;
            drop(current);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Returns the response, once; `None` if the process has ended without one.
    pub(crate) fn poll(&self, task: &mut Context<'_>) -> Poll<Option<Response>> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Waiting(waker) => {
                if waker.as_ref().is_none_or(|waker| !waker.will_wake(task.waker())) {
                    *waker = Some(task.waker().clone());
                }
                Poll::Pending
            }
            State::Answered(_) => match std::mem::replace(&mut *state, State::Ended) {
                State::Answered(response) => Poll::Ready(Some(response)),
                State::Waiting(_) | State::Ended => Poll::Ready(None),
            },
            State::Ended => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_received_once_also_after_the_end_of_its_process() {
        let reply = Reply::default();
        let mut task = Context::from_waker(Waker::noop());

        assert!(reply.poll(&mut task).is_pending());
        reply.send(Response::default());
        reply.end();
        assert!(matches!(reply.poll(&mut task), Poll::Ready(Some(_))));
        assert!(matches!(reply.poll(&mut task), Poll::Ready(None)));
    }

    #[test]
    fn a_process_that_ends_without_a_response_is_noticed() {
        let reply = Reply::default();

        reply.end();
        reply.send(Response::default());

        assert!(matches!(reply.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None)));
    }
}
