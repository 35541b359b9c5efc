//! An in-memory store that answers after a real delay, to measure the cost of a remote store.
//!
//! ```text
//!   call ──▶ queue: (due, waker), in order of due time ──▶ rusm-delay: sleeps until shortly before the first is due,
//!                                                         spins, wakes all that are due ──▶ the caller continues
//! ```
//!
//! All delays of a store are equal, so the queue is already in order of due times. No caller waits less than the delay,
//! and the measured delays are recorded.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use super::store::{Change, CounterStore, CounterStoreError, MemoryStore, Slot, StoreAccount};
use crate::process::header::WAIT_SLEEP;
use crate::runtime::panics;
use crate::scheduler::{self, Local};
use crate::time::nanos;
use crate::time::ticker::clock;

/// Time before the first due instant at which the thread wakes up and starts to spin, in nanoseconds: the duration of a
/// wake-up on a virtual machine. The thread therefore stays awake while many calls are in flight; with 4 µs, 32
/// concurrent calls of 50 µs reached half the throughput.
const SPIN_NS: u64 = 30_000;
/// Longest delay.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// An in-memory store with a fixed delay per call.
#[derive(Debug)]
pub struct DelayedStore {
    memory: MemoryStore,
    queue: Arc<DelayQueue>,
    thread: Option<JoinHandle<()>>,
}

struct DelayQueue {
    delay_ns: u64,
    waiting: Mutex<VecDeque<DelayedCall>>,
    /// Futex word that changes when a call enters an empty queue, or the store is dropped.
    wake_word: AtomicU32,
    stopped: AtomicBool,
    calls: AtomicU64,
    waited_ns: AtomicU64,
    waited_max_ns: AtomicU64,
}

struct DelayedCall {
    due_ns: u64,
    waker: Waker,
}

/// Measured delay of a store's calls, up to the wake-up of the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AchievedDelay {
    /// Number of calls.
    pub calls: u64,
    /// Mean delay.
    pub mean: Duration,
    /// Longest delay.
    pub max: Duration,
}

impl fmt::Debug for DelayQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue").field("delay_ns", &self.delay_ns).finish_non_exhaustive()
    }
}

impl DelayedStore {
    /// Starts a store with a `delay` per call, between zero and 10 s.
    ///
    /// # Errors
    /// If the delay is longer, or the system cannot start the timer thread.
    pub fn start(delay: Duration) -> io::Result<Self> {
        if delay > DELAY_MAX {
            let text = format!("a delay of {delay:?} is longer than {DELAY_MAX:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let queue = Arc::new(DelayQueue {
            delay_ns: nanos(delay),
            waiting: Mutex::default(),
            wake_word: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waited_max_ns: AtomicU64::new(0),
        });
        let shared = Arc::clone(&queue);
        let thread = (!delay.is_zero())
            .then(|| Builder::new().name("rusm-delay".to_owned()).spawn(move || shared.run()))
            .transpose()?;
        Ok(Self { memory: MemoryStore::new(), queue, thread })
    }

    /// Returns the measured delay of the calls.
    pub fn achieved(&self) -> AchievedDelay {
        let calls = self.queue.calls.load(Ordering::Relaxed);
        let mean_ns = self.queue.waited_ns.load(Ordering::Relaxed).checked_div(calls).unwrap_or(0);
        AchievedDelay {
            calls,
            mean: Duration::from_nanos(mean_ns),
            max: Duration::from_nanos(self.queue.waited_max_ns.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for DelayedStore {
    fn drop(&mut self) {
        self.queue.stopped.store(true, Ordering::Release);
        self.queue.notify();
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported any panic of a waker.
            drop(thread.join());
        }
    }
}

impl DelayQueue {
    fn notify(&self) {
        self.wake_word.fetch_add(1, Ordering::Release);
        clock::wake(&self.wake_word);
    }

    async fn wait(&self) {
        if self.delay_ns == 0 {
            return;
        }
        let (mut due_ns, mut entered) = (None, None::<Waker>);
        poll_fn(|cx| {
            let now_ns = clock::now_ns();
            let due_ns = *due_ns.get_or_insert(now_ns + self.delay_ns);
            if now_ns >= due_ns {
                return Poll::Ready(());
            }
            if let Some(running) = scheduler::local().and_then(Local::running) {
                running.record_wait(WAIT_SLEEP);
            }
            // A call that is polled before its time is already queued, unless it has moved to another task.
            if !entered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                entered = Some(cx.waker().clone());
                self.enqueue(DelayedCall { due_ns, waker: cx.waker().clone() });
            }
            Poll::Pending
        })
        .await;
    }

    fn enqueue(&self, entry: DelayedCall) {
        let mut waiting = self.waiting.lock();
        // Not always the last: a call may be polled again before its time, or be preempted before it gets here.
        let index = waiting.iter().rposition(|other| other.due_ns <= entry.due_ns).map_or(0, |last| last + 1);
        let was_empty = waiting.is_empty();
        waiting.insert(index, entry);
        drop(waiting);
        if was_empty {
            self.notify();
        }
    }

    fn run(&self) {
        let _slack = clock::Slack::set(1);
        let mut due = Vec::new();
        loop {
            let wake_word = self.wake_word.load(Ordering::Acquire);
            let Some(first_ns) = self.waiting.lock().front().map(|first| first.due_ns) else {
                if self.stopped.load(Ordering::Acquire) {
                    return;
                }
                clock::wait_on(&self.wake_word, wake_word, None);
                continue;
            };
            if first_ns > clock::now_ns() + SPIN_NS {
                clock::sleep_until(first_ns - SPIN_NS);
            }
            let now_ns = clock::spin_until(first_ns, || false);
            let mut waiting = self.waiting.lock();
            let count = waiting.partition_point(|entry| entry.due_ns <= now_ns);
            due.extend(waiting.drain(..count));
            drop(waiting);
            for entry in due.drain(..) {
                let waited_ns = clock::now_ns() - entry.due_ns + self.delay_ns;
                self.calls.fetch_add(1, Ordering::Relaxed);
                self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
                self.waited_max_ns.fetch_max(waited_ns, Ordering::Relaxed);
                panics::wake(entry.waker);
            }
        }
    }
}

impl CounterStore for DelayedStore {
    fn slot(&self, key: &str, initial: i64) -> Result<Slot, CounterStoreError> {
        self.memory.slot(key, initial)
    }

    async fn read(&self, slot: &Slot) -> Result<i64, CounterStoreError> {
        self.queue.wait().await;
        self.memory.read(slot).await
    }

    async fn add(&self, slot: &Slot, units: i64, events: u64) -> Result<(), CounterStoreError> {
        self.queue.wait().await;
        self.memory.add(slot, units, events).await
    }

    async fn set(&self, slot: &Slot, value: i64) -> Result<(), CounterStoreError> {
        self.queue.wait().await;
        self.memory.set(slot, value).await
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), CounterStoreError> {
        self.queue.wait().await;
        self.memory.commit(changes).await
    }

    fn account(&self) -> StoreAccount {
        self.memory.account()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{Config, Runtime};

    #[test]
    fn no_call_takes_less_than_the_delay_and_many_wait_at_once() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let store = Arc::new(DelayedStore::start(Duration::from_millis(2)).unwrap());
        let slot = store.slot("key", 0).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..50 {
            let (store, slot, tell) = (Arc::clone(&store), slot.clone(), tell.clone());
            let body = move |_| async move {
                for _ in 0..4 {
                    let start = Instant::now();
                    store.add(&slot, 1, 1).await.unwrap();
                    tell.send(start.elapsed()).unwrap();
                }
            };
            runtime.spawn(body).unwrap();
        }
        drop(tell);

        assert!(told.iter().all(|took| took >= Duration::from_millis(2)));

        let achieved = store.achieved();
        assert_eq!((slot.value(), achieved.calls), (200, 200));
        assert!(achieved.mean >= Duration::from_millis(2) && achieved.max >= achieved.mean);
    }

    #[test]
    fn a_delay_of_hours_is_refused() {
        let error = DelayedStore::start(Duration::from_hours(2)).unwrap_err();

        assert_eq!(error.to_string(), "a delay of 7200s is longer than 10s");
    }
}
