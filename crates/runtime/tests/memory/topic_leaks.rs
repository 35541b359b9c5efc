//! Publishers, subscribers and subscriptions that are gone leave no memory behind, and neither do messages that were
//! read.

use std::sync::atomic::Ordering;

use crate::heap::{LIVE_BYTES, alone};

use rusm_runtime::topic::{AckStatus, Message, Overflow, PublisherConfig, SubscriptionConfig};
use rusm_runtime::{Config, Runtime};

#[test]
fn ten_thousand_that_came_and_went_leave_nothing() {
    let _alone = alone();
    let runtime = Runtime::start(Config::default()).expect("a runtime");
    let topic = runtime.topics().create("churn").expect("a new name");
    let mut steady = topic.subscribe(Overflow::Block);
    let mut cycle = |number: u32| {
        let mut subscriber = topic.subscribe(Overflow::Block);
        let subscription =
            topic.create_subscription(&number.to_string(), SubscriptionConfig::default()).expect("a new name");
        let mut consumer = subscription.consumer();
        for _ in 0..3 {
            topic.try_publish(Message::new(vec![0; 100])).expect("room");
        }
        let publisher = topic.publisher(PublisherConfig::default()).expect("in range");
        publisher.blocking_publish(Message::new(vec![0; 100])).expect("room");
        publisher.blocking_flush().expect("room");
        for _ in 0..2 {
            subscriber.blocking_next().expect("open");
            let lease = consumer.blocking_next().expect("open");
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
        }
        for _ in 0..4 {
            steady.blocking_next().expect("open");
        }
        // Leave one message unread and another one leased.
        consumer.blocking_next().expect("open");
        drop(consumer);
        subscription.delete();
    };
    (0..1000).for_each(&mut cycle);
    let before = LIVE_BYTES.load(Ordering::Relaxed);

    (1000..11_000).for_each(&mut cycle);

    let after = LIVE_BYTES.load(Ordering::Relaxed);
    assert!(after < before + 64 * 1024, "{before} bytes became {after}");
    assert_eq!(topic.view(10).subscriptions.len(), 1);
}
