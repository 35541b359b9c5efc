//! Topics: at-most-once and at-least-once delivery, with bounds, keys, deadlines and dead letters, on virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use rusm_runtime::topic::{
    AckStatus, CreateError, DeadLetter, Ended, Message, MessageError, Overflow, PublishError, Retention,
    SubscribeError, SubscriptionConfig, Topic, TopicConfig,
};
use rusm_runtime::{Config, Context, ExitReason, Runtime, test};

const SECOND: Duration = Duration::from_secs(1);

fn topic(ctx: &Context, name: &str) -> Topic {
    ctx.topics().create(name).expect("a new name")
}

fn bounded(ctx: &Context, messages: usize, bytes: usize, retention: Retention) -> Topic {
    ctx.topics().create_with("bounded", TopicConfig { messages, bytes, retention }).expect("bounds in range")
}

fn numbered(number: u64) -> Message {
    Message::new(number.to_be_bytes().to_vec())
}

fn number(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload()[..].try_into().expect("eight bytes"))
}

#[test]
fn every_subscriber_sees_every_message_in_order() {
    test::explore(0..50, |ctx| async move {
        let topic = topic(&ctx, "news");
        for _ in 0..3 {
            let (mut subscriber, me) = (topic.subscribe(Overflow::Block), ctx.pid());
            ctx.spawn(move |ctx| async move {
                for expected in 0..1000 {
                    assert_eq!(number(subscriber.next().await.expect("open")), expected);
                }
                assert_eq!(subscriber.next().await, Err(Ended::Closed));
                assert!(subscriber.account().is_exact());
                ctx.send(me, subscriber.account().delivered).await;
            });
        }
        for number in 0..1000 {
            topic.publish(numbered(number)).await.expect("open");
        }
        topic.close();
        for _ in 0..3 {
            assert_eq!(ctx.receive_of::<u64>().await, 1000);
        }
    });
}

#[test]
fn a_publisher_waits_for_the_slowest_and_loses_nothing() {
    test::explore(0..50, |ctx| async move {
        let topic = bounded(&ctx, 16, 1 << 20, Retention::Forget);
        let (mut slow, me) = (topic.subscribe(Overflow::Block), ctx.pid());
        ctx.spawn(move |ctx| async move {
            let mut seen = 0;
            while let Ok(message) = slow.next().await {
                assert_eq!(number(message), seen);
                seen += 1;
                ctx.sleep(Duration::from_millis(1)).await;
            }
            ctx.send(me, seen).await;
        });
        for number in 0..200 {
            topic.publish(numbered(number)).await.expect("open");
            assert!(topic.view(0).messages <= 16);
        }
        topic.close();
        assert_eq!(ctx.receive_of::<u64>().await, 200);
    });
}

#[test]
fn a_full_topic_hands_the_message_back_with_its_bounds() {
    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 4, 4096, Retention::Forget);
        let mut subscriber = topic.subscribe(Overflow::Block);

        for number in 0..4 {
            topic.try_publish(numbered(number)).expect("room");
        }
        let full = topic.try_publish(numbered(4)).expect_err("full");
        assert_eq!(full.to_string(), r#"topic "bounded" is full: it has 4 of 4 messages and 32 of 4096 bytes"#);
        let PublishError::Full { message, .. } = full else { panic!("{full}") };
        assert_eq!(number(&message), 4);

        for expected in 0..4 {
            assert_eq!(number(subscriber.next().await.expect("open")), expected);
        }
        assert_eq!(subscriber.try_next(), Ok(None));
        topic.try_publish(message).expect("room again");
    });
}

#[test]
fn bytes_are_a_bound_too() {
    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 1000, 4096, Retention::Forget);
        let mut subscriber = topic.subscribe(Overflow::Block);

        let half = || Message::new(vec![0; 2048]);
        topic.try_publish(half()).expect("room");
        topic.try_publish(half()).expect("room");
        assert!(matches!(topic.try_publish(half()), Err(PublishError::Full { bytes: 4096, .. })));
        let refused = topic.try_publish(Message::new(vec![0; 2049])).expect_err("never fits");
        assert_eq!(refused.to_string(), "payload of 2049 bytes is longer than 2048 bytes");

        // A message that was read frees its bytes, even if it is the only one in a segment that is not full.
        subscriber.next().await.expect("open");
        assert_eq!(subscriber.try_next().expect("open").map(Message::bytes), Some(2048));
        topic.try_publish(half()).expect("room again");
    });
}

#[test]
fn what_is_too_large_is_refused_and_pauses_its_key() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "large");
        let refused = topic.try_publish(Message::new(vec![0; 20_000_000]).with_key("k")).expect_err("too large");
        assert_eq!(refused, PublishError::Message(MessageError::Payload { bytes: 20_000_000, max: 10_000_000 }));

        let paused = topic.try_publish(Message::new("next").with_key("k")).expect_err("paused");
        assert_eq!(
            paused.to_string(),
            r#"ordering key "k" of topic "large" is paused, because one of its messages was refused"#
        );
        topic.try_publish(Message::new("other").with_key("l")).expect("another key");
        assert!(topic.resume("k"));
        assert!(!topic.resume("k"));
        topic.try_publish(Message::new("next").with_key("k")).expect("resumed");

        let refused = topic.try_publish(Message::new("").with_key("k".repeat(1 << 20))).expect_err("too long");
        assert_eq!(refused.to_string(), "ordering key of 1048576 bytes is longer than 1024 bytes");
    });
}

#[test]
fn the_oldest_are_dropped_for_who_wants_the_newest_and_counted() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "ticker");
        let mut screen = topic.subscribe(Overflow::DropOldest { capacity: 3 });
        for number in 0..1000 {
            topic.publish(numbered(number)).await.expect("open");
        }

        let seen: Vec<u64> = screen.try_next_batch(10).expect("open").map(number).collect();

        assert_eq!(seen, [997, 998, 999]);
        assert_eq!((screen.dropped(), screen.account().delivered), (997, 3));
        assert!(screen.account().is_exact());
    });
}

#[test]
fn the_newest_are_dropped_for_who_wants_the_oldest_and_counted() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "queue");
        let mut subscriber = topic.subscribe(Overflow::DropNewest { capacity: 3 });
        for number in 0..10 {
            topic.publish(numbered(number)).await.expect("open");
        }
        assert_eq!(number(subscriber.next().await.expect("open")), 0);
        topic.publish(numbered(10)).await.expect("open");
        topic.close();

        let mut seen = Vec::new();
        while let Ok(message) = subscriber.next().await {
            seen.push(number(message));
        }

        assert_eq!(seen, [1, 2, 10]);
        assert_eq!((subscriber.dropped(), subscriber.account().delivered), (7, 4));
        assert!(subscriber.account().is_exact());
    });
}

#[test]
fn who_is_too_slow_is_disconnected_if_it_has_said_so() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "strict");
        let mut subscriber = topic.subscribe(Overflow::Disconnect { capacity: 3 });
        for number in 0..3 {
            topic.publish(numbered(number)).await.expect("open");
        }
        assert_eq!(number(subscriber.next().await.expect("open")), 0);
        for number in 3..6 {
            topic.publish(numbered(number)).await.expect("open");
        }

        assert_eq!(subscriber.next().await, Err(Ended::Disconnected));
        assert_eq!(subscriber.next().await, Err(Ended::Disconnected));
        assert_eq!(subscriber.account().dropped, 5);
        assert!(subscriber.account().is_exact());
    });
}

#[test]
fn a_full_topic_drops_for_those_who_may_lose_and_waits_for_the_others() {
    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 16, 1 << 20, Retention::Forget);
        let mut lossy = topic.subscribe(Overflow::DropOldest { capacity: 1000 });
        for number in 0..100 {
            topic.try_publish(numbered(number)).expect("the only slow subscriber may lose messages");
        }
        let first = number(lossy.next().await.expect("open"));
        assert!((84..=98).contains(&first), "{first}");
        assert_eq!(lossy.dropped(), first);
        assert!(lossy.account().is_exact());

        let _lossless = topic.subscribe(Overflow::Block);
        let full = (0..100).find(|number| topic.try_publish(numbered(*number)).is_err());
        assert_eq!(full, Some(16));
    });
}

#[test]
fn what_nobody_is_to_have_is_forgotten_or_kept_as_the_topic_says() {
    test::run(1, |ctx| async move {
        for retention in [Retention::Forget, Retention::KeepNewest, Retention::KeepAll] {
            let topic = bounded(&ctx, 16, 1 << 20, retention);
            let published = (0..50).take_while(|number| topic.try_publish(numbered(*number)).is_ok()).count();
            let mut late = topic.subscribe_oldest(Overflow::Block);
            let first = late.try_next().expect("open").map(number);
            match retention {
                Retention::Forget => assert!(first.is_none_or(|first| first >= 48), "{first:?}"),
                Retention::KeepNewest => assert!(published == 50 && matches!(first, Some(34..=38)), "{first:?}"),
                Retention::KeepAll => assert_eq!((published, first), (16, Some(0))),
            }
            topic.close();
        }
    });
}

#[test]
fn unknown_names_and_wrong_values_are_said() {
    test::run(1, |ctx| async move {
        let topics = ctx.topics();
        assert_eq!(topics.find("nowhere").expect_err("unknown").to_string(), r#"topic "nowhere" does not exist"#);
        assert_eq!(topics.create("").expect_err("empty").to_string(), "the name of a topic has 1 to 255 bytes, not 0");
        let topic = topic(&ctx, "t");
        assert_eq!(topics.create("t").expect_err("taken"), CreateError::Taken { name: "t".into() });
        let bounds = TopicConfig { messages: 0, ..TopicConfig::default() };
        assert_eq!(
            topics.create_with("u", bounds).expect_err("zero").to_string(),
            "a bound of 0 messages is not between 1 and 16777216"
        );
        assert_eq!(topic.subscription("s").expect_err("unknown").to_string(), r#"topic "t" has no subscription "s""#);
        let create = |config| topic.create_subscription("s", config).map(drop);
        let dead = |name: &str| SubscriptionConfig {
            dead_letter: Some(DeadLetter { topic: name.into(), attempts_max: 5 }),
            ..SubscriptionConfig::default()
        };
        assert_eq!(create(dead("nowhere")).expect_err("unknown").to_string(), r#"topic "nowhere" does not exist"#);
        assert_eq!(create(dead("t")), Err(SubscribeError::OwnDeadLetters { topic: "t".into() }));
        let config = SubscriptionConfig { ack_deadline: 2 * 3600 * SECOND, ..SubscriptionConfig::default() };
        assert_eq!(
            create(config).expect_err("too long").to_string(),
            "ack deadline in ms of 7200000 is not between 1 and 3600000"
        );
        create(SubscriptionConfig::default()).expect("a new name");
        assert_eq!(
            create(SubscriptionConfig::default()).expect_err("taken").to_string(),
            r#"topic "t" already has a subscription "s""#
        );
        topic.close();
        assert_eq!(topic.try_publish(Message::new("")).expect_err("closed").to_string(), r#"topic "t" is closed"#);
        topics.create("t").expect("the name is free again");
    });
}

#[test]
fn a_batch_that_holds_one_that_is_too_large_is_published_up_to_it() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "batch");
        let mut subscriber = topic.subscribe(Overflow::Block);
        let mut batch: VecDeque<Message> = (0..3).map(numbered).collect();
        batch.insert(2, Message::new(vec![0; 11_000_000]));

        let refused = topic.publish_all(&mut batch).await.expect_err("too large");

        assert_eq!(refused.to_string(), "payload of 11000000 bytes is longer than 10000000 bytes");
        assert_eq!(batch.len(), 1);
        topic.publish_all(&mut batch).await.expect("the rest");
        let seen: Vec<u64> = subscriber.next_batch(10).await.expect("open").map(number).collect();
        assert_eq!(seen, [0, 1, 2]);
    });
}

#[test]
fn what_comes_after_one_that_is_too_large_is_left_also_when_nobody_waits_any_more() {
    fn batch() -> VecDeque<Message> {
        [numbered(0), Message::new(vec![0; 600]), numbered(2)].into()
    }

    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 1, 1024, Retention::KeepAll);
        topic.publish(numbered(0)).await.expect("room");
        let (mut full, mut refused) = (batch(), batch());

        let waited = tokio::time::timeout(SECOND, topic.publish_all(&mut full)).await;
        topic.close();
        let closed = topic.publish_all(&mut refused).await;

        assert!(waited.is_err());
        assert_eq!(full, batch());
        assert!(matches!(closed, Err(PublishError::Closed { .. })), "{closed:?}");
        assert_eq!(refused, Vec::from(batch()).split_off(1));
    });
}

#[test]
fn a_message_that_no_room_is_enough_for_is_refused_and_holds_up_nobody() {
    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 8, 1024, Retention::KeepAll);
        let large = Message::new("x").with_attribute("a", "y".repeat(1023));
        let largest = Message::new("x").with_attribute("a", "y".repeat(1022));
        let mut batch = VecDeque::from([large.clone(), largest]);

        let said =
            "message of 1025 bytes, key and attributes included, is larger than its topic, which holds 1024 bytes";
        assert_eq!(topic.publish(large.clone()).await.expect_err("too large").to_string(), said);
        assert_eq!(topic.try_publish(large).expect_err("too large").to_string(), said);
        assert_eq!(topic.publish_all(&mut batch).await.expect_err("too large").to_string(), said);
        topic.publish_all(&mut batch).await.expect("as large as the topic");
    });
}

#[test]
fn publishers_that_ended_or_gave_up_wait_no_more_and_one_waits_once() {
    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 1, 1024, Retention::KeepAll);
        topic.publish(numbered(0)).await.expect("room");
        let waiting = |topic: &Topic| topic.view(0).publishers_waiting;

        let killed = topic.clone();
        let killed = ctx.spawn(move |_| async move { drop(killed.publish(numbered(1)).await) });
        let mut first = Box::pin(topic.publish(numbered(2)));
        let mut second = Box::pin(topic.publish(numbered(3)));
        for _ in 0..20 {
            assert!(tokio::time::timeout(SECOND, &mut first).await.is_err());
            assert!(tokio::time::timeout(SECOND, &mut second).await.is_err());
        }
        assert_eq!(waiting(&topic), 3);
        ctx.exit(killed, ExitReason::Killed);
        drop(first);
        ctx.sleep(SECOND).await;
        assert_eq!(waiting(&topic), 1);

        // The dropped future of the same process takes no wake-up with it.
        let mut subscriber = topic.subscribe_oldest(Overflow::Block);
        assert_eq!(subscriber.next().await.map(number), Ok(0));
        let (published, next) = tokio::join!(second, async { subscriber.next().await.map(number) });
        assert_eq!((published, next, waiting(&topic)), (Ok(()), Ok(3), 0));
    });
}

#[test]
fn a_closed_topic_is_freed_though_somebody_subscribed_to_it_since() {
    struct Payload(std::sync::Arc<[u8]>);
    impl AsRef<[u8]> for Payload {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    let alive: std::sync::Arc<[u8]> = std::sync::Arc::from([7]);
    let payload = Payload(std::sync::Arc::clone(&alive));

    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 8, 1024, Retention::KeepNewest);
        topic.publish(Message::new(bytes::Bytes::from_owner(payload))).await.expect("room");
        topic.close();
        drop(topic.create_subscription("late", SubscriptionConfig::default()).expect("a new name"));
    });

    assert_eq!(std::sync::Arc::strong_count(&alive), 1);
}

#[test]
fn every_message_wakes_whoever_waits_for_it() {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("a runtime");
    let topics = runtime.topics();
    let (there, back) = (topics.create("there").expect("new"), topics.create("back").expect("new"));
    let mut consumer = there.create_subscription("s", SubscriptionConfig::default()).expect("new").consumer();
    let mut answers = back.subscribe(Overflow::Block);
    let answering = runtime.spawn(|_| async move {
        while let Ok(lease) = consumer.next().await {
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
            back.publish(lease.message).await.expect("open");
        }
    });

    let asking = runtime.spawn(|_| async move {
        for number in 0..5_000 {
            there.publish(numbered(number)).await.expect("open");
            assert_eq!(self::number(answers.next().await.expect("open")), number);
        }
        there.close();
    });

    assert_eq!(runtime.wait(asking.expect("room")), ExitReason::Normal);
    assert!(matches!(runtime.wait(answering.expect("room")), ExitReason::Normal | ExitReason::NoProcess));
}

#[test]
fn an_observer_sees_who_is_slow() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, "watched");
        let me = ctx.pid();
        let mut slow = topic.subscribe(Overflow::Block);
        let mut quick = topic.subscribe(Overflow::Block);
        let slow_pid = ctx.spawn(move |ctx| async move {
            slow.next().await.expect("open");
            ctx.send(me, ()).await;
            ctx.receive().await;
        });
        ctx.yield_now().await;
        ctx.sleep(Duration::from_millis(1)).await;
        for number in 0..100 {
            topic.publish(numbered(number)).await.expect("open");
            quick.next().await.expect("open");
        }
        ctx.receive_of::<()>().await;
        ctx.sleep(5 * SECOND).await;

        let view = topic.view(1);

        assert_eq!((view.published_total, view.subscribers, view.subscriptions.len()), (100, 2, 1));
        let slowest = &view.subscriptions[0];
        assert_eq!((slowest.slowest, slowest.backlog, slowest.delivered_total), (Some(slow_pid), 99, 1));
        assert_eq!(slowest.oldest_ns / 1_000_000_000, 5);
    });
}

#[test]
fn what_a_subscriber_that_never_reads_has_lost_is_seen_at_once() {
    test::run(1, |ctx| async move {
        let topic = ctx.topics().create("news").expect("a new name");
        let mut oldest = topic.subscribe(Overflow::DropOldest { capacity: 10 });
        let mut cut_off = topic.subscribe(Overflow::Disconnect { capacity: 10 });
        let mut newest = topic.subscribe(Overflow::DropOldest { capacity: 0 });
        for number in 0..100 {
            topic.publish(numbered(number)).await.expect("open");
        }

        let accounts = [oldest.account(), cut_off.account(), newest.account()];
        assert_eq!(accounts.map(|account| (account.published, account.delivered)), [(100, 0); 3]);
        assert_eq!(accounts.map(|account| (account.backlog, account.dropped)), [(10, 90), (0, 100), (1, 99)]);
        assert_eq!(topic.view(3).dropped_total, 289);

        assert_eq!(number(oldest.next().await.expect("open")), 90);
        assert_eq!(number(newest.next().await.expect("open")), 99, "a capacity of 0 counts as 1");
        assert!(cut_off.next().await.is_err());
        let accounts = [oldest.account(), cut_off.account(), newest.account()];
        assert_eq!(accounts.map(|account| (account.backlog, account.dropped)), [(9, 90), (0, 100), (0, 99)]);
        drop((oldest, cut_off, newest));
        assert_eq!(topic.view(3).dropped_total, 289);
    });
}

#[test]
fn what_a_full_topic_took_from_a_subscriber_that_never_read_is_counted() {
    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 16, 1 << 20, Retention::Forget);
        let subscribers = [Overflow::DropOldest { capacity: 1_000 }, Overflow::Disconnect { capacity: 1_000 }];
        let subscribers = subscribers.map(|overflow| topic.subscribe(overflow));
        for number in 0..100 {
            topic.publish(numbered(number)).await.expect("open");
        }
        let left = topic.view(3).messages;
        drop(subscribers);

        // A disconnected subscriber gets nothing more.
        assert_eq!(topic.view(3).dropped_total, 100 - left + 100);
    });
}

#[test]
fn one_that_drops_the_newest_holds_no_more_than_its_topic_may() {
    test::run(1, |ctx| async move {
        let topic = bounded(&ctx, 8, 10_000, Retention::Forget);
        let mut listeners = [usize::MAX, 2].map(|capacity| topic.subscribe(Overflow::DropNewest { capacity }));

        for _ in 0..4 {
            topic.publish(Message::new(vec![7; 3_000])).await.expect("open");
        }
        let accounts = [listeners[0].account(), listeners[1].account()];
        assert_eq!(accounts.map(|account| (account.backlog, account.dropped)), [(3, 1), (2, 2)]);

        // Messages that were read free capacity, in bytes and in messages.
        listeners[0].next().await.expect("open");
        for _ in 0..20 {
            topic.publish(Message::new(vec![7; 3])).await.expect("open");
        }
        let account = listeners[0].account();
        assert_eq!((account.backlog, account.is_exact()), (8, true), "{account:?}");
    });
}

#[test]
fn publishers_that_wait_for_a_first_subscriber_go_on_whatever_it_does_when_it_is_full() {
    test::explore(0..50, |ctx| async move {
        let topic = bounded(&ctx, 2, 1 << 20, Retention::KeepAll);
        let (publisher, me) = (topic.clone(), ctx.pid());
        ctx.spawn(move |ctx| async move {
            for number in 0..5 {
                publisher.publish(numbered(number)).await.expect("open");
            }
            ctx.send(me, "published").await;
        });
        ctx.sleep(SECOND).await;
        let subscriber = topic.subscribe(Overflow::DropNewest { capacity: 1 });
        assert_eq!(ctx.receive_of::<&str>().await, "published");
        drop(subscriber);
    });
}
