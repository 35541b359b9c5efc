//! Publishers with their own batches and limits, on virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use rusm_runtime::topic::{
    Message, Overflow, PublishError, Publisher, PublisherConfig, Retention, Subscriber, Topic, TopicConfig,
};
use rusm_runtime::{Context, test};

const MS: Duration = Duration::from_millis(1);

fn topic(ctx: &Context, messages: usize) -> Topic {
    let config = TopicConfig { messages, bytes: 1 << 20, retention: Retention::KeepAll };
    ctx.topics().create_with("topic", config).expect("bounds in range")
}

fn publisher(topic: &Topic, batch: usize, outstanding: usize) -> Publisher {
    let config = PublisherConfig {
        batch_messages: batch,
        batch_delay: 10 * MS,
        outstanding_messages: outstanding,
        ..PublisherConfig::default()
    };
    topic.publisher(config).expect("in range")
}

fn numbered(number: u64) -> Message {
    Message::new(number.to_be_bytes().to_vec())
}

fn number(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload()[..].try_into().expect("eight bytes"))
}

#[test]
fn a_batch_goes_when_it_is_full_by_count_or_by_bytes_or_when_its_oldest_message_has_waited() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 1000);
        let config =
            PublisherConfig { batch_messages: 3, batch_bytes: 100, batch_delay: 10 * MS, ..PublisherConfig::default() };
        let publisher = topic.publisher(config).expect("in range");

        publisher.publish(numbered(0)).await.expect("taken");
        publisher.publish(numbered(1)).await.expect("taken");
        assert_eq!((topic.published(), publisher.account().outstanding), (0, 2), "no reader waits for them");
        publisher.publish(numbered(2)).await.expect("taken");
        assert_eq!((topic.published(), publisher.account().batches), (3, 1), "three are a batch");

        publisher.publish(Message::new(vec![0; 99])).await.expect("taken");
        assert_eq!(topic.published(), 3);
        publisher.publish(Message::new(vec![0; 1])).await.expect("taken");
        assert_eq!((topic.published(), publisher.account().batches), (5, 2), "a hundred bytes are a batch");

        publisher.publish(numbered(5)).await.expect("taken");
        tokio::time::sleep(5 * MS).await;
        publisher.publish(numbered(6)).await.expect("taken");
        tokio::time::sleep(4 * MS).await;
        assert_eq!(topic.published(), 5, "the oldest has waited for 9 ms");
        tokio::time::sleep(2 * MS).await;
        assert_eq!((topic.published(), publisher.account().batches), (7, 3), "and now for more than 10");
        assert!(publisher.account().is_exact());
    });
}

#[test]
fn nothing_is_held_back_while_somebody_has_nothing_to_read() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 1000);
        let publisher = publisher(&topic, 100, 1000);
        let mut reader = topic.subscribe(Overflow::Block);
        let begun = tokio::time::Instant::now();

        publisher.publish(numbered(0)).await.expect("taken");
        assert_eq!(topic.published(), 1, "the reader has nothing to read, so the message is published at once");
        publisher.publish(numbered(1)).await.expect("taken");
        assert_eq!(topic.published(), 1, "the reader has a message, so the next one is held back");
        assert_eq!(reader.next().await.map(number), Ok(0));
        assert_eq!(reader.next().await.map(number), Ok(1), "waiting for a message requests the rest of the batch");

        assert!(begun.elapsed() < 5 * MS, "{:?}", begun.elapsed());
    });
}

#[test]
fn who_does_not_wait_gets_the_message_back_at_the_limit_with_its_numbers() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 4);
        let publisher = publisher(&topic, 2, 3);

        for number in 0..7 {
            publisher.try_publish(numbered(number)).expect("four in the topic, three outstanding");
        }
        let error = publisher.try_publish(numbered(7)).expect_err("the limit");
        assert_eq!(
            error.to_string(),
            "a publisher to topic \"topic\" has 3 of 3 messages and 24 of 10000000 bytes outstanding"
        );
        let PublishError::Limit { message, .. } = error else { panic!("{error}") };
        assert_eq!(number(&message), 7);
        let account = publisher.account();
        assert_eq!((account.accepted, account.published, account.outstanding), (7, 4, 3));
        assert!(account.is_exact());
    });
}

#[test]
fn a_publisher_at_its_limit_waits_until_the_subscribers_have_made_room() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 4);
        let mut reader = topic.subscribe(Overflow::Block);
        let publisher = publisher(&topic, 2, 3);
        let (writes, account) = (publisher.clone(), publisher.clone());
        ctx.spawn(move |_| async move {
            for number in 0..100 {
                writes.publish(numbered(number)).await?;
            }
            writes.flush().await
        });
        tokio::time::sleep(100 * MS).await;
        assert!(account.account().accepted <= 7, "{:?}", account.account());

        for expected in 0..100 {
            assert_eq!(reader.next().await.map(number), Ok(expected));
            let account = account.account();
            assert!(account.outstanding <= 3 && account.is_exact(), "{account:?}");
        }
    });
}

#[test]
fn a_message_larger_than_the_limit_comes_when_it_is_alone() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 100);
        let config = PublisherConfig { outstanding_bytes: 10, batch_delay: 10 * MS, ..PublisherConfig::default() };
        let publisher = topic.publisher(config).expect("in range");

        publisher.try_publish(Message::new(vec![0; 50])).expect("alone");
        publisher.try_publish(Message::new(vec![0; 50])).expect("the first message is published to make room");
        assert_eq!((topic.published(), publisher.account().outstanding_bytes), (1, 50));
        publisher.flush().await.expect("room");
        assert_eq!(topic.published(), 2);
    });
}

#[test]
fn what_the_topic_refuses_after_it_was_taken_comes_back_and_nothing_is_taken_until_then() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 100);
        let publisher = publisher(&topic, 100, 100);
        publisher.publish(numbered(0).with_key("ann")).await.expect("taken");
        publisher.publish(numbered(1).with_key("bob")).await.expect("taken");
        let too_large = Message::new(vec![0; 20_000_000]).with_key("ann");
        let error = publisher.publish(too_large).await.expect_err("too large");
        assert_eq!(error.to_string(), "payload of 20000000 bytes is longer than 524288 bytes");

        let Err(PublishError::Paused { key, message, .. }) = publisher.flush().await else {
            panic!("the key is paused")
        };
        assert_eq!((key.as_str(), number(&message)), ("ann", 0));
        publisher.flush().await.expect("the others are published");
        publisher.publish(numbered(2).with_key("ann")).await.expect("taken");
        publisher.publish(numbered(3)).await.expect("taken");
        tokio::time::sleep(20 * MS).await;
        let error = publisher.try_publish(numbered(4)).expect_err("one was refused");
        assert_eq!(error.to_string(), "topic \"topic\" refused 1 messages of this publisher: take them back first");
        assert!(matches!(publisher.take_refused(), Some(PublishError::Paused { .. })));
        assert!(publisher.take_refused().is_none());
        topic.close();
        publisher.publish(numbered(5)).await.expect("taken");
        assert!(matches!(publisher.flush().await, Err(PublishError::Closed { .. })));
        let account = publisher.account();
        assert_eq!((account.accepted, account.published, account.refused), (5, 2, 3));
        assert!(account.is_exact());
    });
}

#[test]
fn what_was_taken_is_published_also_without_its_publisher() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 4);
        let publisher = publisher(&topic, 100, 100);
        for number in 0..10 {
            publisher.publish(numbered(number)).await.expect("taken");
        }
        drop(publisher);

        let mut reader = topic.subscribe_oldest(Overflow::Block);
        for expected in 0..10 {
            assert_eq!(reader.next().await.map(number), Ok(expected));
        }
    });
}

#[test]
fn values_out_of_their_range_are_named_with_their_number() {
    test::run(1, |ctx| async move {
        let topic = topic(&ctx, 4);
        let refusal = |config| topic.publisher(config).expect_err("out of range").to_string();

        assert_eq!(
            refusal(PublisherConfig { batch_messages: 0, ..PublisherConfig::default() }),
            "batch messages of 0 is not between 1 and 10000"
        );
        assert_eq!(
            refusal(PublisherConfig { batch_delay: Duration::from_hours(2), ..PublisherConfig::default() }),
            "batch delay in ms of 7200000 is not between 0 and 3600000"
        );
        assert_eq!(
            refusal(PublisherConfig { outstanding_bytes: 0, ..PublisherConfig::default() }),
            "outstanding bytes of 0 is not between 1 and 1099511627776"
        );
    });
}

#[derive(Clone, Debug)]
enum Step {
    Publish(usize, usize),
    Read(usize),
    Sleep(u64),
    Flush(usize),
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..PUBLISHERS, 0..40_usize).prop_map(|(publisher, bytes)| Step::Publish(publisher, bytes)),
        4 => (1..6_usize).prop_map(Step::Read),
        2 => (1..15_u64).prop_map(Step::Sleep),
        1 => (0..PUBLISHERS).prop_map(Step::Flush),
        1 => (0..PUBLISHERS).prop_map(Step::Drop),
    ]
}

const PUBLISHERS: usize = 3;

struct World {
    topic: Topic,
    config: PublisherConfig,
    publishers: Vec<Publisher>,
    reader: Subscriber,
    /// Messages that each publisher accepted and the reader has not read.
    unread: Vec<VecDeque<u64>>,
    next: u64,
}

impl World {
    fn new(ctx: &Context, batch: usize) -> Self {
        let topic = topic(ctx, 8);
        let config = PublisherConfig {
            batch_messages: batch,
            batch_bytes: 100,
            batch_delay: 10 * MS,
            outstanding_messages: 5,
            outstanding_bytes: 150,
        };
        let publishers = (0..PUBLISHERS).map(|_| topic.publisher(config).expect("in range")).collect();
        let reader = topic.subscribe(Overflow::Block);
        Self { topic, config, publishers, reader, unread: vec![VecDeque::new(); PUBLISHERS], next: 0 }
    }

    async fn act(&mut self, step: Step) {
        match step {
            Step::Publish(publisher, bytes) => {
                let mut payload = vec![publisher as u8];
                payload.extend(self.next.to_be_bytes());
                payload.resize(payload.len() + bytes, 0);
                if self.publishers[publisher].try_publish(Message::new(payload)).is_ok() {
                    self.unread[publisher].push_back(self.next);
                }
                self.next += 1;
            }
            Step::Read(most) => {
                for _ in 0..most {
                    self.read();
                }
            }
            Step::Sleep(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Flush(publisher) => {
                let publisher = &self.publishers[publisher];
                let flushed = tokio::time::timeout(20 * MS, publisher.flush()).await;
                let account = publisher.account();
                assert!(flushed.is_err() || account.outstanding == 0, "{account:?}");
            }
            Step::Drop(publisher) => {
                self.publishers[publisher] = self.topic.publisher(self.config).expect("in range");
            }
        }
        for publisher in &self.publishers {
            let account = publisher.account();
            assert!(account.is_exact() && account.outstanding <= 5 && account.outstanding_bytes <= 150, "{account:?}");
        }
    }

    /// Reads the next message; asserts that its publisher accepted it and that it was not read before.
    fn read(&mut self) -> Option<u64> {
        let message = self.reader.try_next().expect("open")?.clone();
        let payload = message.payload();
        let number = u64::from_be_bytes(payload[1..9].try_into().expect("a number"));
        // Messages of a replaced publisher may be interleaved with those of its successor.
        let unread = &mut self.unread[payload[0] as usize];
        let at = unread.iter().position(|other| *other == number).expect("accepted, and not read before");
        unread.remove(at);
        Some(number)
    }

    async fn end(mut self) {
        while self.unread.iter().any(|unread| !unread.is_empty()) {
            let had = self.read();
            if had.is_none() {
                // No message is held back for longer than the delay, and freed space is usable at once.
                tokio::time::sleep(11 * MS).await;
                assert!(self.read().is_some(), "lost: {:?}", self.unread);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_taken_is_read_once_within_the_limits_and_within_the_delay(
        seed in any::<u64>(),
        batch in 1..5_usize,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        test::run(seed, move |ctx| async move {
            let mut world = World::new(&ctx, batch);
            for step in steps {
                world.act(step).await;
            }
            world.end().await;
        });
    }
}
