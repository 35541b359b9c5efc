//! From those who write to the one writer: a bounded queue, and who waits for room in it.
//!
//! ```text
//!   push ──▶ room? ──▶ requests ──▶ take: all that wait, up to a group ──▶ writer
//!              └ no ─▶ blocked wakers ◀── one woken for each request taken
//! ```
//!
//! Invariant: while anybody is blocked there is something in the queue, or somebody who was woken for the room and has not
//! come yet; who gives up then wakes the next.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::work::Request;
use crate::panics;

/// What became of a request.
pub(super) enum Pushed {
    /// It is in the queue.
    In,
    /// There is no room; the waker is woken when there may be some, and the ticket takes it back.
    Blocked(Request, u64),
    /// The writer is gone.
    Closed,
}

/// Why the writer goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// There are requests.
    Requests,
    /// It is time for something else.
    Time,
    /// No more requests will come.
    Closed,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    bytes: usize,
    blocked: VecDeque<(u64, Waker)>,
    tickets: u64,
    is_closed: bool,
    /// How many requests the writer waits for; 0 if it does not.
    writer_waits: usize,
}

/// See the module.
pub(super) struct Queue {
    operations_max: usize,
    bytes_max: usize,
    state: Mutex<State>,
    arrived: Condvar,
    /// Requests in the queue, for who looks without the lock. Relaxed: whoever acts on it takes the lock.
    len: AtomicUsize,
}

impl Queue {
    pub(super) fn new(operations_max: usize, bytes_max: usize) -> Self {
        let (state, arrived) = Default::default();
        Self { operations_max, bytes_max, state, arrived, len: AtomicUsize::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, request: Request, waker: &Waker) -> Pushed {
        let mut state = self.state();
        if state.is_closed {
            return Pushed::Closed;
        }
        let fits = state.requests.is_empty()
            || (state.requests.len() < self.operations_max && state.bytes + request.bytes <= self.bytes_max);
        if !fits {
            state.tickets += 1;
            let ticket = state.tickets;
            state.blocked.push_back((ticket, waker.clone()));
            return Pushed::Blocked(request, ticket);
        }
        state.bytes += request.bytes;
        state.requests.push_back(request);
        self.len.store(state.requests.len(), Relaxed);
        let is_enough = (1..=state.requests.len()).contains(&state.writer_waits);
        if is_enough {
            state.writer_waits = 0;
        }
        drop(state);
        if is_enough {
            self.arrived.notify_one();
        }
        Pushed::In
    }

    /// Takes back a ticket: its holder comes again, or never.
    pub(super) fn leave(&self, ticket: u64, comes_again: bool) {
        let mut state = self.state();
        match state.blocked.iter().position(|(known, _)| *known == ticket) {
            Some(at) => _ = state.blocked.remove(at),
            // It was woken for room that it will not take.
            None if !comes_again => {
                let next = state.blocked.pop_front();
                drop(state);
                if let Some((_, waker)) = next {
                    panics::wake(waker);
                }
            }
            None => {}
        }
    }

    /// Moves up to `most` requests to `into`, without waiting.
    pub(super) fn take(&self, most: usize, into: &mut Vec<Request>) {
        let mut state = self.state();
        let count = state.requests.len().min(most);
        let before = into.len();
        into.extend(state.requests.drain(..count));
        self.len.store(state.requests.len(), Relaxed);
        state.bytes -= into[before..].iter().map(|request| request.bytes).sum::<usize>();
        let woken = state.blocked.len().min(count);
        let wakers: Vec<Waker> = state.blocked.drain(..woken).map(|(_, waker)| waker).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for so many requests, at most until `until`; does not sleep over the first `awake`.
    pub(super) fn wait(&self, most: usize, until: Option<Instant>, awake: Duration) -> Woken {
        let begun = Instant::now();
        while self.len.load(Relaxed) < most && begun.elapsed() < awake {
            (0..16).for_each(|_| std::hint::spin_loop());
        }
        let mut state = self.state();
        loop {
            if state.requests.len() >= most {
                state.writer_waits = 0;
                return Woken::Requests;
            }
            if state.is_closed {
                return Woken::Closed;
            }
            state.writer_waits = most;
            state = match until {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        state.writer_waits = 0;
                        return Woken::Time;
                    }
                    self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Requests that wait.
    pub(super) fn len(&self) -> usize {
        self.state().requests.len()
    }

    /// No more requests; the blocked hear of it.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        self.arrived.notify_one();
        for (_, waker) in blocked {
            panics::wake(waker);
        }
    }
}
