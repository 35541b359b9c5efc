//! Threads that wait at a topic are woken as soon as there is space, receive every message, and notice the end of the
//! runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use crate::eventually::eventually;
use rusm_runtime::topic::{
    AckStatus, Message, Overflow, PublishError, PublisherConfig, Retention, SubscriptionConfig, Topic, TopicConfig,
};
use rusm_runtime::{Config, Handle, Runtime};

const MESSAGES: u64 = 16;

/// Starts a runtime with a topic of 16 messages, in segments of two.
fn small_topic() -> (Runtime, Topic) {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a scheduler starts");
    let config = TopicConfig { messages: MESSAGES as usize, bytes: 1 << 20, retention: Retention::Forget };
    let topic = runtime.topics().create_with("small", config).expect("a new name");
    (runtime, topic)
}

fn numbered(number: u64) -> Message {
    Message::new(number.to_be_bytes().to_vec())
}

fn number(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload()[..].try_into().expect("eight bytes"))
}

fn fill(topic: &Topic) {
    while topic.try_publish(Message::new("x")).is_ok() {}
    assert_eq!(topic.published(), MESSAGES);
}

#[test]
fn who_waits_for_room_comes_in_when_some_is_free_though_half_of_the_topic_never_is() {
    let (_runtime, topic) = small_topic();
    let mut reader = topic.subscribe(Overflow::Block);
    fill(&topic);
    let waits = || {
        let topic = topic.clone();
        std::thread::spawn(move || topic.blocking_publish(Message::new("waits")))
    };
    let waiting = [waits(), waits()];
    eventually("both wait", || topic.view(0).publishers_waiting == 2);

    // The reader frees a segment for each publisher.
    for (came_in, read) in [(1, 3), (2, 2)] {
        for _ in 0..read {
            reader.blocking_next().expect("there is more");
        }
        eventually("one comes in", || topic.published() >= MESSAGES + came_in);
    }

    for thread in waiting {
        assert_eq!(thread.join().expect("no panic"), Ok(()));
    }
}

#[test]
fn threads_that_wait_at_a_topic_hear_that_the_runtime_has_ended() {
    let (runtime, full) = small_topic();
    let _reader = full.subscribe(Overflow::Block);
    fill(&full);
    let empty = runtime.topics().create("empty").expect("a new name");
    let mut subscriber = empty.subscribe(Overflow::Block);
    let subscription = empty.create_subscription("workers", SubscriptionConfig::default()).expect("a new name");
    let mut consumer = subscription.consumer();

    let publishes = {
        let full = full.clone();
        std::thread::spawn(move || full.blocking_publish(Message::new("waits")))
    };
    let reads = std::thread::spawn(move || subscriber.blocking_next().is_err());
    let works = std::thread::spawn(move || consumer.blocking_next().is_err());
    eventually("the publisher waits", || full.view(0).publishers_waiting == 1);
    drop(subscription);
    drop(runtime);

    let error = publishes.join().expect("no panic").expect_err("the topic is closed");
    assert!(matches!(error, PublishError::Closed { .. }), "{error}");
    assert!(reads.join().expect("no panic"), "the topic is closed");
    assert!(works.join().expect("no panic"), "the topic is closed");
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    /// Polls once; returns true if the future is pending.
    fn waits<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> bool {
        let waker = Waker::from(Arc::clone(self));
        Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending()
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn a_consumer_waits_on_when_another_takes_what_came() {
    let (_runtime, topic) = small_topic();
    let config = SubscriptionConfig { outstanding_max: 1, ..SubscriptionConfig::default() };
    let subscription = topic.create_subscription("orders", config).expect("a new name");
    let (mut one, mut other) = (subscription.consumer(), subscription.consumer());
    topic.try_publish(Message::new("0")).expect("there is room");
    let first = one.try_next().expect("it is open").expect("it is there");
    let woken = Arc::new(Woken::default());
    let mut next = Box::pin(one.next());
    assert!(woken.waits(&mut next), "its credit is used up");

    topic.try_publish(Message::new("1")).expect("there is room");
    let second = other.try_next().expect("it is open").expect("it is there");
    assert_eq!((subscription.ack(second.id), subscription.ack(first.id)), (AckStatus::Done, AckStatus::Done));
    drop(other);
    topic.try_publish(Message::new("2")).expect("there is room");

    eventually("it hears of the next", || woken.times() > 0);
}

#[test]
fn room_is_not_lost_with_a_publisher_that_gives_up() {
    let (_runtime, topic) = small_topic();
    let mut reader = topic.subscribe(Overflow::Block);
    fill(&topic);
    let wakers = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let mut first = Box::pin(topic.publish(Message::new("first")));
    let mut second = Box::pin(topic.publish(Message::new("second")));
    assert!(wakers[0].waits(&mut first) && wakers[1].waits(&mut second));
    for _ in 0..3 {
        reader.blocking_next().expect("there is more");
    }
    assert_eq!((wakers[0].times(), wakers[1].times()), (1, 0));

    drop(first);

    assert_eq!(wakers[1].times(), 1);
}

#[test]
fn who_waits_for_the_first_subscriber_comes_in_if_that_one_may_miss_messages() {
    let (runtime, _topic) = small_topic();
    let config = TopicConfig { messages: MESSAGES as usize, bytes: 1 << 20, retention: Retention::KeepAll };
    let topic = runtime.topics().create_with("all", config).expect("a new name");
    fill(&topic);
    let woken = Arc::new(Woken::default());
    let mut waits = Box::pin(topic.publish(Message::new("waits")));
    assert!(woken.waits(&mut waits));

    let reader = topic.subscribe_oldest(Overflow::DropOldest { capacity: 100 });

    assert_eq!(woken.times(), 1);
    drop(reader);
}

#[test]
fn the_end_of_the_runtime_is_heard_of_while_somebody_has_a_handle() {
    let (runtime, topic) = small_topic();
    let handle = Handle::clone(&runtime);
    let mut reader = topic.subscribe(Overflow::Block);
    let reads = std::thread::spawn(move || {
        let ended = reader.blocking_next().is_err();
        drop(handle);
        ended
    });

    drop(runtime);

    assert!(reads.join().expect("no panic"));
}

#[test]
fn a_publisher_that_waits_for_room_hears_of_the_end_of_the_runtime() {
    let (runtime, topic) = small_topic();
    let _reader = topic.subscribe(Overflow::Block);
    fill(&topic);
    let publisher = topic.publisher(PublisherConfig::default()).expect("the numbers are right");
    publisher.blocking_publish(Message::new("waits")).expect("the message is added to a batch");
    let flushes = std::thread::spawn(move || publisher.blocking_flush().is_err());
    eventually("it waits", || topic.view(0).publishers_waiting == 1);

    drop(runtime);

    assert!(flushes.join().expect("no panic"));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker of a foreign executor");
    }
}

#[test]
fn a_waker_that_panics_is_not_the_publishers_and_the_next_subscriber_is_woken() {
    let (_runtime, topic) = small_topic();
    let (mut panics, mut reads) = (topic.subscribe(Overflow::Block), topic.subscribe(Overflow::Block));
    let mut bad = Box::pin(panics.next());
    let waker = Waker::from(Arc::new(Panics));
    assert!(bad.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let woken = Arc::new(Woken::default());
    let mut good = Box::pin(reads.next());
    assert!(woken.waits(&mut good));

    assert_eq!(topic.try_publish(Message::new("x")), Ok(()));

    assert_eq!(woken.times(), 1);
    assert!(!woken.waits(&mut good) && !woken.waits(&mut bad));
}

#[test]
fn threads_publish_and_receive() {
    let runtime = Runtime::start(Config::default()).expect("a runtime");
    let topic =
        runtime.topics().create_with("threads", TopicConfig { messages: 64, ..TopicConfig::default() }).expect("new");
    let mut subscriber = topic.subscribe(Overflow::Block);
    let workers = topic.create_subscription("workers", SubscriptionConfig::default()).expect("new");
    let mut consumer = workers.consumer();
    let publisher = std::thread::spawn({
        let topic = topic.clone();
        move || {
            for number in 0..10_000 {
                topic.blocking_publish(numbered(number)).expect("open");
            }
            topic.close();
        }
    });
    let consuming = std::thread::spawn(move || {
        let mut sum = 0;
        while let Ok(lease) = consumer.blocking_next() {
            sum += number(&lease.message);
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
        }
        sum
    });

    let mut expected = 0;
    while let Ok(message) = subscriber.blocking_next() {
        assert_eq!(number(message), expected);
        expected += 1;
    }

    assert_eq!(expected, 10_000);
    assert_eq!(consuming.join().expect("no panic"), 10_000 * 9_999 / 2);
    publisher.join().expect("no panic");
    assert_eq!(workers.account().acked, 10_000);
}

#[test]
fn a_consumer_gets_what_was_published_just_before_the_topic_was_closed() {
    let runtime = Runtime::start(Config::default()).expect("a runtime");
    for round in 0..2_000 {
        let topic = runtime.topics().create(&format!("short-{round}")).expect("new");
        let workers = topic.create_subscription("workers", SubscriptionConfig::default()).expect("new");
        let mut consumer = workers.consumer();
        let publisher = std::thread::spawn(move || {
            topic.blocking_publish(numbered(0)).expect("open");
            // Publish the others while the consumer looks for its next message.
            while workers.account().acked == 0 {
                std::hint::spin_loop();
            }
            (0..round % 64).for_each(|_| std::hint::spin_loop());
            (1..4).for_each(|number| topic.blocking_publish(numbered(number)).expect("open"));
            topic.close();
        });

        let mut leased = 0;
        while let Ok(lease) = consumer.blocking_next() {
            assert_eq!(number(&lease.message), leased);
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
            leased += 1;
        }

        assert_eq!(leased, 4, "in round {round}");
        publisher.join().expect("no panic");
    }
}
