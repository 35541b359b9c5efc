//! The bounded queue from callers to the writer, and the callers that wait for room in it.
//!
//! ```text
//!   push ──▶ room? ──▶ requests ──▶ take: all that wait, up to a group ──▶ writer
//!              └ no ─▶ blocked wakers ◀── one woken for each request taken
//! ```
//!
//! Invariant: while a caller is blocked, the queue is not empty, or a caller woken for its room has not returned yet;
//! if that caller gives up, it wakes the next one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::writer::work::Request;
use parking_lot::{Condvar, Mutex};
use rusm_runtime::embed::panics;

/// Result of pushing a request.
pub(crate) enum PushResult {
    /// The request is in the queue.
    Queued,
    /// The queue is full. The waker is woken when there may be some; the ticket withdraws it.
    Blocked(Request, u64),
    /// The writer has ended.
    Closed,
}

/// Reason why the writer continues.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// There are requests.
    Requests,
    /// The deadline has passed.
    Time,
    /// The queue is closed.
    Closed,
}

#[derive(Default)]
struct QueueState {
    requests: VecDeque<Request>,
    bytes: usize,
    blocked: VecDeque<(u64, Waker)>,
    tickets: u64,
    is_closed: bool,
    /// Number of requests that the writer waits for; 0 if it does not wait.
    writer_waits_for: usize,
}

/// A bounded queue of requests with one consumer.
pub(crate) struct Queue {
    operations_max: usize,
    bytes_max: usize,
    state: Mutex<QueueState>,
    arrived: Condvar,
    /// Number of requests in the queue, readable without the lock. Relaxed: readers take the lock before acting on it.
    len: AtomicUsize,
}

impl Queue {
    pub(crate) fn new(operations_max: usize, bytes_max: usize) -> Self {
        let (state, arrived) = Default::default();
        Self { operations_max, bytes_max, state, arrived, len: AtomicUsize::new(0) }
    }

    pub(crate) fn push(&self, request: Request, waker: &Waker) -> PushResult {
        let mut state = self.state.lock();
        if state.is_closed {
            return PushResult::Closed;
        }
        // Requests that make later deletions possible do not wait for room: each source has few of them at a time.
        let fits = state.requests.is_empty()
            || request.uses_reserve
            || (state.requests.len() < self.operations_max && state.bytes + request.bytes <= self.bytes_max);
        if !fits {
            state.tickets += 1;
            let ticket = state.tickets;
            state.blocked.push_back((ticket, waker.clone()));
            return PushResult::Blocked(request, ticket);
        }
        state.bytes += request.bytes;
        state.requests.push_back(request);
        self.len.store(state.requests.len(), Relaxed);
        let is_enough = (1..=state.requests.len()).contains(&state.writer_waits_for);
        if is_enough {
            state.writer_waits_for = 0;
        }
        drop(state);
        if is_enough {
            self.arrived.notify_one();
        }
        PushResult::Queued
    }

    /// Withdraws a ticket; `will_retry` is true if its holder will push again.
    pub(crate) fn withdraw(&self, ticket: u64, will_retry: bool) {
        let mut state = self.state.lock();
        match state.blocked.iter().position(|(known, _)| *known == ticket) {
            Some(at) => _ = state.blocked.remove(at),
            // The holder was woken for room that it will not use: pass the wake-up on.
            None if !will_retry => {
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
    pub(crate) fn take(&self, most: usize, into: &mut Vec<Request>) {
        let mut state = self.state.lock();
        let count = state.requests.len().min(most);
        let before = into.len();
        into.extend(state.requests.drain(..count));
        self.len.store(state.requests.len(), Relaxed);
        state.bytes -= into[before..].iter().map(|request| request.bytes).sum::<usize>();
        let woken = state.blocked.len().min(count);
        let wakers: Vec<Waker> = state.blocked.drain(..woken).map(|(_, waker)| waker).collect();
        drop(state);
        wakers.into_iter().for_each(panics::wake);
    }

    /// Waits for `most` requests, at most until `until`; spins instead of sleeping for the first `spin_time`.
    pub(crate) fn wait(&self, most: usize, until: Option<Instant>, spin_time: Duration) -> WakeReason {
        let begun = Instant::now();
        while self.len.load(Relaxed) < most && begun.elapsed() < spin_time {
            (0..16).for_each(|_| std::hint::spin_loop());
        }
        let mut state = self.state.lock();
        loop {
            if state.requests.len() >= most {
                state.writer_waits_for = 0;
                return WakeReason::Requests;
            }
            if state.is_closed {
                return WakeReason::Closed;
            }
            state.writer_waits_for = most;
            match until {
                None => self.arrived.wait(&mut state),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        state.writer_waits_for = 0;
                        return WakeReason::Time;
                    }
                    self.arrived.wait_for(&mut state, left);
                }
            }
        }
    }

    /// Returns the number of requests in the queue.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().requests.len()
    }

    /// Closes the queue for new requests, and wakes the blocked callers.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let blocked = std::mem::take(&mut state.blocked);
        drop(state);
        self.arrived.notify_one();
        for (_, waker) in blocked {
            panics::wake(waker);
        }
    }
}
