//! A topic's log, with subscribers that wait for messages and publishers that wait for room, under every interleaving
//! that loom explores.
//!
//! The files under test are compiled here over loom's types. The places of a segment are loom cells: a cursor that
//! reads one too early fails by itself, and a lost wake-up is a deadlock. Publishers, subscribers and consumers use the
//! log as in `topic/publish.rs`, `topic/broadcast.rs` and `topic/consumer.rs`. Models also run without each second
//! check, and loom must detect that.

#![expect(unsafe_code, reason = "reads loom cells, which check every access")]
#![expect(unreachable_pub, reason = "reachable in the real crate")]
#![expect(dead_code, reason = "the models use only parts of the files under test")]

mod sync {
    use std::cell::Cell;

    use loom::cell::UnsafeCell;

    pub(crate) use crate::locks::{Mutex, MutexGuard};

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

        /// Number of filled places of a segment.
        pub(crate) struct AtomicUsize(loom::sync::atomic::AtomicUsize);

        impl AtomicUsize {
            pub(crate) fn new(value: usize) -> Self {
                Self(loom::sync::atomic::AtomicUsize::new(value))
            }

            pub(crate) fn load(&self, ordering: Ordering) -> usize {
                self.0.load(ordering)
            }

            pub(crate) fn store(&self, value: usize, ordering: Ordering) {
                let ordering = if super::has(super::Plant::FilledTooEarly) { Ordering::Relaxed } else { ordering };
                self.0.store(value, ordering);
            }
        }
    }

    /// Subset of `FenceSite` in `src/sync.rs`: the second checks of topics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum FenceSite {
        Sleep,
        Park,
    }

    /// Faults planted around the log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Plant {
        /// This second check is left out.
        LooksOnce(FenceSite),
        /// A subscriber stores its waker only after it has parked.
        WakerComesLate,
        /// A consumer sleeps even if there are unread messages.
        SleepsOverUnread,
        /// A publisher wakes no waiter.
        WakesNobody,
        /// A message may be counted before it is written.
        FilledTooEarly,
    }

    thread_local! {
        // Loom runs all threads of a model on one system thread, so each test has its own value.
        static PLANT: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    pub(crate) fn plant(fault: Option<Plant>) {
        PLANT.set(fault);
    }

    pub(crate) fn has(fault: Plant) -> bool {
        PLANT.get() == Some(fault)
    }

    pub(crate) fn rechecks_before_sleep(side: FenceSite) -> bool {
        !has(Plant::LooksOnce(side))
    }

    /// A place that is written once; loom checks every access.
    pub(crate) struct OnceSlot<T>(UnsafeCell<Option<T>>);

    // SAFETY: loom reports a failure if a read overlaps with the write.
    unsafe impl<T: Send + Sync> Sync for OnceSlot<T> {}

    impl<T> OnceSlot<T> {
        pub(crate) fn new() -> Self {
            Self(UnsafeCell::new(None))
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            // SAFETY: the only writer holds the lock of the log; loom checks it.
            self.0.with_mut(|place| match unsafe { &mut *place } {
                Some(_) => Err(value),
                empty => {
                    *empty = Some(value);
                    Ok(())
                }
            })
        }

        pub(crate) fn get(&self) -> Option<&T> {
            // SAFETY: a written value does not change; loom checks that it was written before.
            self.0.with(|place| unsafe { (*place).as_ref() })
        }
    }
}
#[path = "models/locks.rs"]
mod locks;
mod panics {
    pub(crate) fn wake(waker: std::task::Waker) {
        waker.wake();
    }
}

mod runtime {
    pub(crate) use crate::panics;
}
#[path = "../src/topic/cursor.rs"]
mod cursor;
#[path = "../src/topic/log.rs"]
mod log;
#[expect(clippy::unused_self, reason = "signatures of the real messages")]
mod message {
    use std::sync::Arc;

    /// A number; the log does not use other fields of messages.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Message(pub(crate) u8);

    impl Message {
        pub(crate) fn bytes(&self) -> usize {
            1
        }

        pub(crate) fn shared_key(&self) -> Option<&Arc<str>> {
            None
        }
    }
}
#[path = "../src/topic/retention.rs"]
mod retention;
#[path = "../src/topic/segment.rs"]
mod segment;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Condvar;
use loom::thread;

use cursor::Cursor;
use log::Log;
use message::Message;
use retention::{AppendError, LogLimits, Retention, Waiter};
use sync::{FenceSite, Mutex, Plant};

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Checks that the model fails once `fault` is planted.
fn finds(fault: Plant, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    sync::plant(Some(fault));
    let found = catch_unwind(AssertUnwindSafe(|| explore(preemptions, model))).is_err();
    sync::plant(None);
    assert!(found, "the model passes with {fault:?}");
}

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct ParkedThread {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let parked = Arc::new(ParkedThread::default());
    let waker = Waker::from(Arc::clone(&parked));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => {
                let mut woken = parked.woken.lock();
                while !std::mem::take(&mut *woken) {
                    woken = parked.changed.wait(woken).expect("it is not poisoned");
                }
            }
        }
    }
}

/// Creates a log with room for `messages` messages, each in a segment of its own.
fn log(messages: usize) -> Arc<Log> {
    Arc::new(Log::new(LogLimits { messages, bytes: 1 << 20, retention: Retention::Forget }, 0))
}

fn wake(log: &Log) {
    if !sync::has(Plant::WakesNobody) {
        for waiter in log.take_woken() {
            waiter.wake();
        }
    }
}

/// Publishes `count` messages that contain their number, and waits for room.
fn publish(log: &Log, count: u8) {
    for number in 0..count {
        let (mut message, mut ticket) = (Some(Message(number)), 0);
        block_on(poll_fn(|cx| {
            loop {
                let (outcome, wakes) = log.append(&mut message, || 0);
                if wakes {
                    wake(log);
                }
                match outcome {
                    Ok(()) => return Poll::Ready(()),
                    Err(AppendError::Full) => {
                        if message.as_ref().is_some_and(|message| log.wait(message, cx.waker(), &mut ticket)) {
                            return Poll::Pending;
                        }
                    }
                    Err(refused) => panic!("{refused:?}"),
                }
            }
        }));
    }
}

/// Waker for a cursor.
#[derive(Default)]
struct SubscriberState(Mutex<Option<Waker>>);

impl SubscriberState {
    fn note(&self, waker: &Waker) {
        *self.0.lock() = Some(waker.clone());
    }
}

impl Waiter for SubscriberState {
    fn wake(&self) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A subscriber that must receive every message.
struct Subscriber {
    log: Arc<Log>,
    state: Arc<SubscriberState>,
    waiter: Arc<dyn Waiter>,
    cursor: Cursor,
}

impl Subscriber {
    fn join(log: &Arc<Log>) -> Self {
        let state = Arc::new(SubscriberState::default());
        let waiter: Arc<dyn Waiter> = Arc::<SubscriberState>::clone(&state);
        Self { log: Arc::clone(log), cursor: Cursor::join(log, false, true, &waiter), state, waiter }
    }

    /// Returns the number of the next message, or `None` at the end of the topic.
    fn next(&mut self) -> Option<u8> {
        let ready = block_on(poll_fn(|cx| {
            loop {
                if self.cursor.ready(&self.log, &mut 0) > 0 {
                    return Poll::Ready(true);
                }
                if self.log.is_closed() && self.cursor.position() == self.log.head() {
                    return Poll::Ready(false);
                }
                if !sync::has(Plant::WakerComesLate) {
                    self.state.note(cx.waker());
                }
                let sleeps = self.cursor.park(&self.log, &self.waiter);
                if sync::has(Plant::WakerComesLate) {
                    self.state.note(cx.waker());
                }
                if sleeps && !self.log.is_closed() {
                    return Poll::Pending;
                }
            }
        }));
        ready.then(|| self.cursor.next().0)
    }

    fn read(&mut self, count: u8) {
        for number in 0..count {
            assert_eq!(self.next(), Some(number));
        }
    }

    fn leave(mut self) {
        self.cursor.leave(&self.log, &self.waiter);
    }
}

/// Runs a publisher of `count` messages, and `subscribers` that each read all of them. The topic is never closed, which
/// would also wake waiters.
fn streams(room: usize, subscribers: usize, count: u8) {
    let log = log(room);
    let threads: Vec<_> = (0..subscribers)
        .map(|_| {
            let mut subscriber = Subscriber::join(&log);
            thread::spawn(move || {
                subscriber.read(count);
                subscriber.leave();
            })
        })
        .collect();
    publish(&log, count);
    for thread in threads {
        thread.join().expect("loom reports a panic itself");
    }
}

/// Closes a topic while its subscriber reads or sleeps.
fn closes(count: u8) {
    let log = log(8);
    let mut subscriber = Subscriber::join(&log);
    let thread = thread::spawn(move || {
        subscriber.read(count);
        assert_eq!(subscriber.next(), None);
        subscriber.leave();
    });
    publish(&log, count);
    for waiter in log.close() {
        waiter.wake();
    }
    thread.join().expect("loom reports a panic itself");
}

#[test]
fn a_subscriber_that_sleeps_and_a_publisher_that_waits_for_room_wake_each_other() {
    explore(3, || streams(1, 1, 2));
    explore(2, || streams(2, 1, 4));
}

#[test]
fn a_topic_that_ends_wakes_who_sleeps() {
    explore(3, || closes(1));
}

#[test]
fn a_publisher_waits_for_the_slower_of_two() {
    explore(2, || streams(1, 2, 2));
}

#[test]
fn it_matters_that_sleepers_look_again_and_say_whom_to_wake_before() {
    finds(Plant::LooksOnce(FenceSite::Sleep), 3, || streams(8, 1, 2));
    finds(Plant::WakerComesLate, 3, || streams(8, 1, 1));
    finds(Plant::WakesNobody, 3, || streams(8, 1, 1));
}

#[test]
fn it_matters_that_a_publisher_that_finds_no_room_looks_again() {
    finds(Plant::LooksOnce(FenceSite::Park), 3, || streams(1, 1, 2));
}

#[test]
fn it_matters_that_a_message_is_there_before_it_is_counted() {
    finds(Plant::FilledTooEarly, 3, || streams(16, 1, 2));
}

/// Runs two publishers of one message each on a log with room for one.
fn publishers_share_the_room() {
    let log = log(1);
    let subscriber = Subscriber::join(&log);
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let log = Arc::clone(&log);
            thread::spawn(move || publish(&log, 1))
        })
        .collect();
    let mut subscriber = subscriber;
    assert_eq!((subscriber.next(), subscriber.next()), (Some(0), Some(0)));
    for thread in threads {
        thread.join().expect("loom reports a panic itself");
    }
    subscriber.leave();
}

#[test]
fn two_publishers_that_wait_both_get_their_turn() {
    explore(2, publishers_share_the_room);
}

/// State of a subscription that its consumers share.
struct SubscriptionState {
    cursor: Cursor,
    waits: Option<Waker>,
}

/// Wakes the consumer that waits for the subscription.
struct ConsumerWaiter(Mutex<Option<Arc<Mutex<SubscriptionState>>>>);

impl Waiter for ConsumerWaiter {
    fn wake(&self) {
        let state = self.0.lock().clone();
        let waker = state.and_then(|state| state.lock().waits.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Runs a consumer that takes two messages, which arrive while it checks or while it sleeps.
fn consumes() {
    let log = log(8);
    let consumer_waiter = Arc::new(ConsumerWaiter(Mutex::new(None)));
    let waiter: Arc<dyn Waiter> = Arc::<ConsumerWaiter>::clone(&consumer_waiter);
    let cursor = Cursor::join(&log, false, true, &waiter);
    let state = Arc::new(Mutex::new(SubscriptionState { cursor, waits: None }));
    *consumer_waiter.0.lock() = Some(Arc::clone(&state));
    let publisher = {
        let log = Arc::clone(&log);
        thread::spawn(move || publish(&log, 2))
    };
    for number in 0..2 {
        let taken = block_on(poll_fn(|cx| {
            let mut state = state.lock();
            if state.cursor.ready(&log, &mut 0) > 0 {
                return Poll::Ready(state.cursor.next().0);
            }
            state.waits = Some(cx.waker().clone());
            let unread = log.head() > state.cursor.position();
            let more = if sync::has(Plant::SleepsOverUnread) {
                !unread && !state.cursor.park(&log, &waiter)
            } else {
                unread || !state.cursor.park(&log, &waiter)
            };
            let waker = if more { state.waits.take() } else { None };
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
            Poll::Pending
        }));
        assert_eq!(taken, number);
    }
    publisher.join().expect("loom reports a panic itself");
    state.lock().cursor.leave(&log, &waiter);
    // Break the reference cycle between consumer_waiter and state.
    *consumer_waiter.0.lock() = None;
}

#[test]
fn a_consumer_sleeps_over_nothing_that_comes_while_it_looks() {
    explore(3, consumes);
    finds(Plant::SleepsOverUnread, 3, consumes);
}
