//! A topic's log, who sleeps for want of messages and who for want of room, under every interleaving that loom can make of it.
//!
//! The files under test are compiled here over loom's parts. The places of a segment are loom cells: a cursor that reads one
//! too early is a failure by itself, and a wake-up that is lost is a deadlock. What publishers, subscribers and consumers do
//! around the log is as in `topic/publish.rs`, `topic/broadcast.rs` and `topic/consumer.rs`. Each second look is taken out once,
//! and loom must find out.

#![expect(unsafe_code, reason = "reads loom cells, which check every access")]
#![expect(unreachable_pub, reason = "in the product it is reached")]
#![expect(dead_code, reason = "the files under test have more than the models use")]

mod sync {
    use std::cell::Cell;

    use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::MutexGuard as LockGuard;

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

        /// How many places of a segment are filled.
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

    /// As in the product.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Dekker {
        Sleep,
        Park,
    }

    /// What is done wrong around the log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Plant {
        /// This second look is left out.
        LooksOnce(Dekker),
        /// A subscriber says whom to wake only when it sleeps already.
        WakerComesLate,
        /// A consumer takes what came while it looked for somebody else's.
        SleepsOverUnread,
        /// A publisher wakes nobody.
        WakesNobody,
        /// A message may be counted before it is there.
        FilledTooEarly,
    }

    thread_local! {
        // Loom runs the threads of a model on one thread of the system, so this belongs to one test.
        static PLANT: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    pub(crate) fn plant(fault: Option<Plant>) {
        PLANT.set(fault);
    }

    pub(crate) fn has(fault: Plant) -> bool {
        PLANT.get() == Some(fault)
    }

    pub(crate) fn looks_again(side: Dekker) -> bool {
        !has(Plant::LooksOnce(side))
    }

    /// As `parking_lot` has it.
    pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            self.0.lock().expect("nobody panics with it")
        }
    }

    /// A place that is written once, whose every access loom checks.
    pub(crate) struct Place<T>(UnsafeCell<Option<T>>);

    // SAFETY: loom says so if a reader and the writer meet.
    unsafe impl<T: Send + Sync> Sync for Place<T> {}

    impl<T> Place<T> {
        pub(crate) fn new() -> Self {
            Self(UnsafeCell::new(None))
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            // SAFETY: the one writer has the log's lock; loom checks it.
            self.0.with_mut(|place| match unsafe { &mut *place } {
                Some(_) => Err(value),
                empty => {
                    *empty = Some(value);
                    Ok(())
                }
            })
        }

        pub(crate) fn get(&self) -> Option<&T> {
            // SAFETY: what was written stays; loom checks that it was.
            self.0.with(|place| unsafe { (*place).as_ref() })
        }
    }
}
mod panics {
    pub(crate) fn wake(waker: std::task::Waker) {
        waker.wake();
    }
}
#[path = "../src/topic/cursor.rs"]
mod cursor;
#[path = "../src/topic/log.rs"]
mod log;
#[expect(clippy::unused_self, reason = "the messages of the product have what these have not")]
mod message {
    use std::sync::Arc;

    /// A number; what else messages have is none of the log's business.
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
#[path = "../src/topic/segment.rs"]
mod segment;
#[path = "../src/topic/shelf.rs"]
mod shelf;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::{Condvar, Mutex};
use loom::thread;

use cursor::Cursor;
use log::{Log, Refused, Rules, Sleeper, Unread};
use message::Message;
use sync::{Dekker, Lock, Plant};

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// The model fails with the fault, as it must if it looks at anything.
fn finds(fault: Plant, preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    sync::plant(Some(fault));
    let found = catch_unwind(AssertUnwindSafe(|| explore(preemptions, model))).is_err();
    sync::plant(None);
    assert!(found, "nobody misses what {fault:?} leaves out");
}

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct Bed {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bed {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().expect("nobody panics with it") = true;
        self.changed.notify_one();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bed = Arc::new(Bed::default());
    let waker = Waker::from(Arc::clone(&bed));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => {
                let mut woken = bed.woken.lock().expect("nobody panics with it");
                while !std::mem::take(&mut *woken) {
                    woken = bed.changed.wait(woken).expect("nobody panics with it");
                }
            }
        }
    }
}

/// A log with room for so many messages, each in a segment of its own.
fn log(messages: usize) -> Arc<Log> {
    Arc::new(Log::new(Rules { messages, bytes: 1 << 20, unread: Unread::Forget }, 0))
}

fn wake(log: &Log) {
    if !sync::has(Plant::WakesNobody) {
        for sleeper in log.take_woken() {
            sleeper.wake();
        }
    }
}

/// Publishes as many messages, each with its number in it, and waits for room.
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
                    Err(Refused::Full) => {
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

/// Whom to wake for a cursor.
#[derive(Default)]
struct Seat(Mutex<Option<Waker>>);

impl Seat {
    fn note(&self, waker: &Waker) {
        *self.0.lock().expect("nobody panics with it") = Some(waker.clone());
    }
}

impl Sleeper for Seat {
    fn wake(&self) {
        let waker = self.0.lock().expect("nobody panics with it").take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// One that is to have every message.
struct Subscriber {
    log: Arc<Log>,
    seat: Arc<Seat>,
    sleeper: Arc<dyn Sleeper>,
    cursor: Cursor,
}

impl Subscriber {
    fn join(log: &Arc<Log>) -> Self {
        let seat = Arc::new(Seat::default());
        let sleeper: Arc<dyn Sleeper> = Arc::<Seat>::clone(&seat);
        Self { log: Arc::clone(log), cursor: Cursor::join(log, false, true, &sleeper), seat, sleeper }
    }

    /// The number of the next message; none when nothing comes any more.
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
                    self.seat.note(cx.waker());
                }
                let sleeps = self.cursor.park(&self.log, &self.sleeper);
                if sync::has(Plant::WakerComesLate) {
                    self.seat.note(cx.waker());
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
        self.cursor.leave(&self.log, &self.sleeper);
    }
}

/// A publisher of `count` messages and as many subscribers to each of them; nobody is woken by an end.
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

/// A topic that is closed while its subscriber reads or sleeps.
fn closes(count: u8) {
    let log = log(8);
    let mut subscriber = Subscriber::join(&log);
    let thread = thread::spawn(move || {
        subscriber.read(count);
        assert_eq!(subscriber.next(), None);
        subscriber.leave();
    });
    publish(&log, count);
    for sleeper in log.close() {
        sleeper.wake();
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
    finds(Plant::LooksOnce(Dekker::Sleep), 3, || streams(8, 1, 2));
    finds(Plant::WakerComesLate, 3, || streams(8, 1, 1));
    finds(Plant::WakesNobody, 3, || streams(8, 1, 1));
}

#[test]
fn it_matters_that_a_publisher_that_finds_no_room_looks_again() {
    finds(Plant::LooksOnce(Dekker::Park), 3, || streams(1, 1, 2));
}

#[test]
fn it_matters_that_a_message_is_there_before_it_is_counted() {
    finds(Plant::FilledTooEarly, 3, || streams(16, 1, 2));
}

/// Two publishers with one message each in a log with room for one.
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

/// What the consumers of a subscription share.
struct Desk {
    cursor: Cursor,
    waits: Option<Waker>,
}

/// Wakes whoever waits at the desk.
struct Bell(Lock<Option<Arc<Lock<Desk>>>>);

impl Sleeper for Bell {
    fn wake(&self) {
        let desk = self.0.lock().clone();
        let waker = desk.and_then(|desk| desk.lock().waits.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A consumer takes two messages that come while it looks and while it sleeps.
fn consumes() {
    let log = log(8);
    let bell = Arc::new(Bell(Lock::new(None)));
    let sleeper: Arc<dyn Sleeper> = Arc::<Bell>::clone(&bell);
    let cursor = Cursor::join(&log, false, true, &sleeper);
    let desk = Arc::new(Lock::new(Desk { cursor, waits: None }));
    *bell.0.lock() = Some(Arc::clone(&desk));
    let publisher = {
        let log = Arc::clone(&log);
        thread::spawn(move || publish(&log, 2))
    };
    for number in 0..2 {
        let taken = block_on(poll_fn(|cx| {
            let mut desk = desk.lock();
            if desk.cursor.ready(&log, &mut 0) > 0 {
                return Poll::Ready(desk.cursor.next().0);
            }
            desk.waits = Some(cx.waker().clone());
            let unread = log.head() > desk.cursor.position();
            let more = if sync::has(Plant::SleepsOverUnread) {
                !unread && !desk.cursor.park(&log, &sleeper)
            } else {
                unread || !desk.cursor.park(&log, &sleeper)
            };
            let waker = if more { desk.waits.take() } else { None };
            drop(desk);
            if let Some(waker) = waker {
                waker.wake();
            }
            Poll::Pending
        }));
        assert_eq!(taken, number);
    }
    publisher.join().expect("loom reports a panic itself");
    desk.lock().cursor.leave(&log, &sleeper);
    // They hold each other.
    *bell.0.lock() = None;
}

#[test]
fn a_consumer_sleeps_over_nothing_that_comes_while_it_looks() {
    explore(3, consumes);
    finds(Plant::SleepsOverUnread, 3, consumes);
}
