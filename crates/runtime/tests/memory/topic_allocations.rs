//! Allocations of topic operations: a message needs nothing but a slot, and each segment holds many slots.
//!
//! `cargo test --release -p rusm-runtime --test memory topic_allocations -- --nocapture` prints the figures.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::heap::{ALLOCATIONS, alone};
use bytes::Bytes;
use rusm_runtime::topic::{
    AckStatus, Lease, Message, Overflow, PublisherConfig, Retention, SubscriptionConfig, Topic, TopicConfig,
};
use rusm_runtime::{Config, Runtime};

const STEPS: usize = 10_000;

/// Asserts the average number of allocations per step; the first round grows the buffers.
fn each(what: &str, at_most: f64, mut steps: impl FnMut()) {
    steps();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    steps();
    let each = (ALLOCATIONS.load(Ordering::Relaxed) - before) as f64 / STEPS as f64;
    eprintln!("{each:>8.4} allocations: {what}");
    assert!(each <= at_most, "{what}: {each} allocations, at most {at_most}");
}

fn topic(runtime: &Runtime, name: &str) -> Topic {
    let config = TopicConfig { messages: 4 * STEPS, bytes: 64 << 20, retention: Retention::Forget };
    runtime.topics().create_with(name, config).expect("a new name")
}

#[test]
fn a_message_costs_a_share_of_a_segment_and_nothing_else() {
    let _alone = alone();
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("a runtime");
    let payload = Bytes::from(vec![7; 1024]);
    let message = || Message::new(payload.clone());
    // Slots, timestamps, the segment and its list entry for 256 messages, plus a little for the threads of the runtime.
    let share = 4.0 / 256.0 + 0.01;

    let alone = topic(&runtime, "alone");
    each("publish, nobody receives", share, || {
        (0..STEPS).for_each(|_| alone.try_publish(message()).expect("room"));
    });

    let read = topic(&runtime, "read");
    let mut subscriber = read.subscribe(Overflow::Block);
    each("publish and give to a subscriber", share, || {
        for _ in 0..STEPS / 100 {
            (0..100).for_each(|_| read.try_publish(message()).expect("room"));
            (0..100).for_each(|_| assert!(subscriber.try_next().expect("open").is_some()));
        }
    });

    let leased = topic(&runtime, "leased");
    let subscription = leased.create_subscription("work", SubscriptionConfig::default()).expect("a new name");
    let mut consumer = subscription.consumer();
    let mut held: Vec<Lease> = Vec::with_capacity(100);
    each("publish, lease and acknowledge, one by one", share, || {
        for _ in 0..STEPS {
            leased.try_publish(message()).expect("room");
            let lease = consumer.try_next().expect("open").expect("there");
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
        }
    });
    let mut batch: VecDeque<Message> = VecDeque::with_capacity(100);
    each("publish, lease and acknowledge, in batches of 100", share, || {
        for _ in 0..STEPS / 100 {
            batch.extend((0..100).map(|_| message()));
            leased.try_publish_all(&mut batch).expect("room");
            consumer.try_next_batch_into(&mut held, 100).expect("open");
            assert_eq!(subscription.ack_all(held.iter().map(|lease| lease.id)), 100);
        }
    });
    each("give back and lease again", 0.01, || {
        leased.try_publish(message()).expect("room");
        let mut lease = consumer.try_next().expect("open").expect("there");
        for _ in 0..STEPS {
            assert_eq!(consumer.nack(lease.id), AckStatus::Done);
            lease = consumer.try_next().expect("open").expect("there");
        }
        assert_eq!(consumer.ack(lease.id), AckStatus::Done);
    });

    let gathered = topic(&runtime, "gathered");
    let config = PublisherConfig { batch_delay: std::time::Duration::from_mins(1), ..PublisherConfig::default() };
    let publisher = gathered.publisher(config).expect("in range");
    // A batch has its own growing buffer and its own timer.
    each("take into a publisher, in batches of 100", share + 0.25, || {
        (0..STEPS).for_each(|_| publisher.try_publish(message()).expect("room"));
    });
}
