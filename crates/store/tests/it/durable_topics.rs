//! Durable topics: what was acknowledged to a publisher or a consumer survives a power cut, within bounds, with exact
//! counters.

mod at_shutdown;
mod found;

use std::time::Duration;

use crate::disk::Disk;
use crate::eventually::eventually;
use rusm_runtime::topic::{
    AckId, AckStatus, Consumer, DeadLetter, Lease, Message, Overflow, PublishError, PublisherConfig, Retention,
    Subscription, SubscriptionConfig, Topic, TopicConfig,
};
use rusm_runtime::{Config, Runtime};
use rusm_store::{DurableError, Store, StoreConfig};

const LONG: Duration = Duration::from_mins(1);

/// A node with a store on a disk that can lose its power.
struct Node {
    runtime: Runtime,
    store: Store,
    disk: Disk,
}

impl Node {
    fn start(disk: Disk) -> Self {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let own = disk.clone();
        let store = Store::open_on("a disk in memory", move || Ok(own.clone()), StoreConfig::default()).unwrap();
        Self { runtime, store, disk }
    }

    fn topic(&self, config: TopicConfig) -> Topic {
        self.store.open_topic(&self.runtime.topics(), "orders", config).unwrap()
    }

    fn refusal(&self, config: TopicConfig) -> String {
        self.store.open_topic(&self.runtime.topics(), "orders", config).unwrap_err().to_string()
    }

    /// Cuts the power and starts a node with what is left of the disk.
    fn cut(self, survives: impl FnMut() -> bool) -> Self {
        let Self { runtime, store, disk } = self;
        let left = disk.cut(survives);
        drop((runtime, store));
        Self::start(left)
    }
}

fn numbered(number: u64) -> Message {
    Message::new(number.to_be_bytes().to_vec())
}

fn number(message: &Message) -> u64 {
    u64::from_be_bytes(message.payload()[..].try_into().unwrap())
}

fn workers(topic: &Topic) -> Subscription {
    let config = SubscriptionConfig { ack_deadline: Duration::from_mins(30), ..SubscriptionConfig::default() };
    topic.create_subscription("workers", config).unwrap()
}

/// Takes all available messages; returns their numbers and attempts.
fn all(consumer: &mut Consumer) -> Vec<(u64, u32)> {
    leases(consumer).iter().map(|lease| (number(&lease.message), lease.attempt)).collect()
}

fn leases(consumer: &mut Consumer) -> Vec<Lease> {
    std::iter::from_fn(|| consumer.try_next().unwrap()).collect()
}

#[test]
fn after_a_power_cut_everything_comes_again_that_was_published_and_not_acknowledged() {
    let node = Node::start(Disk::default());
    let topic = node.topic(TopicConfig::default());
    let workers_ = workers(&topic);
    workers_.blocking_flush_acks().unwrap();
    for number in 0..10 {
        topic.blocking_publish(numbered(number).with_key("ann").with_attribute("a", "b")).unwrap();
    }
    let mut consumer = workers_.consumer();
    let taken: Vec<_> = (0..6).map(|_| consumer.blocking_next().unwrap()).collect();
    for index in [0, 1, 3, 5] {
        assert_eq!(consumer.ack(taken[index].id), AckStatus::Done);
    }
    workers_.blocking_flush_acks().unwrap();

    let node = node.cut(|| false);
    let topic = node.topic(TopicConfig::default());
    assert_eq!((topic.published(), topic.view(0).messages), (10, 8), "the first two are settled");
    let workers_ = workers(&topic);
    let account = workers_.account();
    assert_eq!((account.published, account.acked, account.backlog), (10, 4, 6));
    assert!(account.is_exact(), "{account:?}");
    let mut consumer = workers_.consumer();
    let again = leases(&mut consumer);
    assert_eq!(again[0].message.attribute("a").zip(again[0].message.key()), Some(("b", "ann")));
    assert_eq!(again.iter().map(|lease| lease.position).collect::<Vec<_>>(), [2, 4, 6, 7, 8, 9]);
    let given: Vec<_> = again.iter().map(|lease| (number(&lease.message), lease.attempt)).collect();
    assert_eq!(given, [(2, 2), (4, 2), (6, 1), (7, 1), (8, 1), (9, 1)]);
    assert_eq!(consumer.subscription().ack_all(again.iter().map(|lease| lease.id)), 6);
    workers_.blocking_flush_acks().unwrap();

    let node = node.cut(|| true);
    let topic = node.topic(TopicConfig::default());
    let workers_ = workers(&topic);
    assert_eq!(all(&mut workers_.consumer()), []);
    let account = workers_.account();
    assert_eq!((account.published, account.acked, topic.view(0).messages), (10, 10, 0));
    topic.blocking_publish(numbered(10)).unwrap();
    assert_eq!(workers_.consumer().blocking_next().unwrap().position, 10);
}

#[test]
fn a_subscription_that_has_not_come_back_keeps_its_messages_until_it_does() {
    let node = Node::start(Disk::default());
    let topic = node.topic(TopicConfig::default());
    let (fast, slow) = (workers(&topic), topic.create_subscription("slow", SubscriptionConfig::default()).unwrap());
    fast.blocking_flush_acks().unwrap();
    drop(slow);
    for number in 0..600 {
        topic.blocking_publish(numbered(number)).unwrap();
    }

    let node = node.cut(|| true);
    let topic = node.topic(TopicConfig::default());
    let fast = workers(&topic);
    let mut consumer = fast.consumer();
    for expected in 0..600 {
        let lease = consumer.blocking_next().unwrap();
        assert_eq!((number(&lease.message), consumer.ack(lease.id)), (expected, AckStatus::Done));
    }
    fast.blocking_flush_acks().unwrap();
    let slow = topic.create_subscription("slow", SubscriptionConfig::default()).unwrap();
    assert_eq!(slow.account().backlog, 600);
    let mut late = slow.consumer();
    for expected in 0..600 {
        let lease = late.blocking_next().unwrap();
        assert_eq!((number(&lease.message), late.ack(lease.id)), (expected, AckStatus::Done));
    }
    slow.blocking_flush_acks().unwrap();
    assert!(slow.account().is_exact());
    let bucket = node.store.bucket("topic/orders").unwrap();
    eventually("rows that nobody is to have are deleted", || bucket.scan("m", "", 1).wait().unwrap().rows.is_empty());

    slow.delete();
    fast.blocking_flush_acks().unwrap();
    let rows = bucket.scan("s", "", 10).wait().unwrap().rows;
    assert_eq!(rows.iter().map(|row| &row.key[..]).collect::<Vec<_>>(), [b"sworkers"]);
}

#[test]
fn a_topic_on_disk_is_bounded_and_its_publishers_wait() {
    let bounds = TopicConfig { messages: 8, bytes: 4096, retention: Retention::Forget };
    let node = Node::start(Disk::default());
    let topic = node.topic(bounds);
    let workers_ = workers(&topic);
    workers_.blocking_flush_acks().unwrap();
    let (publisher, account) = (topic.clone(), workers_.clone());
    let pid = node
        .runtime
        .spawn(move |_| async move {
            let mut messages = (0..100).map(numbered).collect();
            publisher.publish_all(&mut messages).await
        })
        .unwrap();
    let ended = node.runtime.watch(pid);
    eventually("the topic is full", || account.account().backlog == 8);

    let mut consumer = workers_.consumer();
    let first = consumer.blocking_next().unwrap();
    for expected in 1..8 {
        let lease = consumer.blocking_next().unwrap();
        assert_eq!((number(&lease.message), consumer.ack(lease.id)), (expected, AckStatus::Done));
    }
    workers_.blocking_flush_acks().unwrap();
    assert_eq!(topic.published(), 8, "the first message is not acknowledged, so the disk still holds all eight");
    assert_eq!(consumer.ack(first.id), AckStatus::Done);
    for expected in 8..100 {
        let lease = consumer.blocking_next().unwrap();
        assert_eq!((number(&lease.message), consumer.ack(lease.id)), (expected, AckStatus::Done));
    }
    assert_eq!(ended.wait(), rusm_runtime::ExitReason::Normal);
    for number in 0..5 {
        topic.blocking_publish(numbered(number)).unwrap();
    }

    let node = node.cut(|| false);
    assert_eq!(
        node.refusal(TopicConfig { messages: 4, ..bounds }),
        "topic \"orders\" has 5 messages on disk, more than its bound of 4"
    );
    let topic = node.topic(bounds);
    assert_eq!(workers(&topic).account().backlog, 5);
}

#[test]
fn what_is_not_kept_comes_back_with_the_reason_and_the_topic_goes_on() {
    let node = Node::start(Disk::default());
    let topic = node.topic(TopicConfig::default());
    let workers_ = workers(&topic);
    workers_.blocking_flush_acks().unwrap();

    let error = topic.try_publish(numbered(0)).unwrap_err();
    assert_eq!(error.to_string(), "topic \"orders\" is durable and accepts messages only from calls that wait");
    node.disk.set_room(Some(node.disk.len_now()));
    let error = topic.blocking_publish(Message::new(vec![0; 5_000_000])).unwrap_err();
    assert_eq!(error.to_string(), "topic \"orders\" could not store the message: the disk of the store is full");
    assert!(matches!(error, PublishError::NotStored { message, .. } if message.payload().len() == 5_000_000));
    node.disk.set_room(None);
    eventually("there is room again", || topic.blocking_publish(numbered(7)).is_ok());

    assert_eq!(number(&workers_.consumer().blocking_next().unwrap().message), 7);
    topic.close();
    assert!(matches!(topic.blocking_publish(numbered(8)), Err(PublishError::Closed { .. })));
}

#[test]
fn a_key_that_is_paused_takes_nothing_and_the_others_go_on() {
    let node = Node::start(Disk::default());
    let topic = node.topic(TopicConfig { bytes: 4096, ..TopicConfig::default() });
    let workers_ = workers(&topic);

    assert!(topic.blocking_publish(Message::new(vec![0; 3000]).with_key("ann")).is_err());
    assert!(matches!(topic.blocking_publish(numbered(0).with_key("ann")), Err(PublishError::Paused { .. })));
    topic.blocking_publish(numbered(1).with_key("bob")).unwrap();
    assert!(topic.resume("ann"));
    topic.blocking_publish(numbered(2).with_key("ann")).unwrap();

    assert_eq!(all(&mut workers_.consumer()), [(1, 1), (2, 1)]);
}

#[test]
fn a_publisher_with_batches_is_told_when_they_are_kept() {
    let node = Node::start(Disk::default());
    let topic = node.topic(TopicConfig::default());
    let workers_ = workers(&topic);
    workers_.blocking_flush_acks().unwrap();
    let config = PublisherConfig { batch_delay: LONG, outstanding_messages: 150, ..PublisherConfig::default() };
    let publisher = topic.publisher(config).unwrap();

    for number in 0..1000 {
        publisher.blocking_publish(numbered(number)).unwrap();
    }
    publisher.blocking_flush().unwrap();
    let account = publisher.account();
    assert_eq!((account.published, account.outstanding), (1000, 0));

    let node = node.cut(|| false);
    let workers_ = workers(&node.topic(TopicConfig::default()));
    let mut consumer = workers_.consumer();
    for expected in 0..1000 {
        let lease = consumer.blocking_next().unwrap();
        assert_eq!((number(&lease.message), consumer.ack(lease.id)), (expected, AckStatus::Done));
    }
}

#[test]
fn dead_letters_go_from_one_topic_on_disk_to_another_also_those_that_killed_the_node() {
    let subscribe = |node: &Node| {
        let open = |name| node.store.open_topic(&node.runtime.topics(), name, TopicConfig::default()).unwrap();
        let (orders, failed) = (open("orders"), open("failed"));
        let graveyard = failed.create_subscription("all", SubscriptionConfig::default()).unwrap();
        let config = SubscriptionConfig {
            dead_letter: Some(DeadLetter { topic: "failed".into(), attempts_max: 2 }),
            ..SubscriptionConfig::default()
        };
        let workers = orders.create_subscription("workers", config).unwrap();
        (orders, workers, graveyard)
    };
    let node = Node::start(Disk::default());
    let (orders, workers, graveyard) = subscribe(&node);
    workers.blocking_flush_acks().unwrap();
    graveyard.blocking_flush_acks().unwrap();
    orders.blocking_publish(numbered(0)).unwrap();
    orders.blocking_publish(numbered(1)).unwrap();
    let mut consumer = workers.consumer();
    for _ in 0..2 {
        let lease = consumer.blocking_next().unwrap();
        assert_eq!((number(&lease.message), consumer.ack(lease.id)), (lease.position, AckStatus::Done));
        orders.blocking_publish(numbered(lease.position + 2)).unwrap();
    }
    let lease = consumer.blocking_next().unwrap();
    assert_eq!(consumer.nack(lease.id), AckStatus::Done);
    let leases = leases(&mut consumer);
    assert_eq!(
        leases.iter().map(|lease| (number(&lease.message), lease.attempt)).collect::<Vec<_>>(),
        [(2, 2), (3, 1)]
    );
    assert_eq!(consumer.nack(leases[0].id), AckStatus::Done);
    eventually("the dead letter is kept", || graveyard.account().published == 1);
    let bucket = node.store.bucket("topic/orders").unwrap();
    eventually("and done where it came from", || bucket.scan("m", "", 9).wait().unwrap().rows.len() == 1);

    // Message 3 is leased to a consumer at both power cuts.
    let node = node.cut(|| false);
    let (_orders, workers, graveyard) = subscribe(&node);
    assert_eq!(all(&mut graveyard.consumer()), [(2, 1)]);
    assert_eq!(workers.account().dead_lettered, 1);
    assert_eq!(all(&mut workers.consumer()), [(3, 2)]);
    workers.blocking_flush_acks().unwrap();
    let node = node.cut(|| false);
    let (_orders, workers, graveyard) = subscribe(&node);
    assert_eq!(all(&mut workers.consumer()), [], "the message was tried twice");
    // After a power cut between writing the dead letter and recording that it was written, the letter appears twice.
    eventually("it is given up", || graveyard.account().published >= 2);
    let letter = graveyard.consumer().blocking_next().unwrap().message;
    assert_eq!((number(&letter), letter.attribute("dead-letter-attempts")), (2, Some("2")));
    let account = workers.account();
    assert_eq!((account.published, account.acked, account.dead_lettered), (4, 2, 2));
    assert!(account.is_exact());
}

#[test]
fn what_nobody_is_to_have_is_not_written_and_readers_without_acknowledgements_get_it_all_the_same() {
    let node = Node::start(Disk::default());
    let topic = node.topic(TopicConfig { messages: 4, ..TopicConfig::default() });
    let mut reader = topic.subscribe(Overflow::Block);
    for expected in 0..20 {
        topic.blocking_publish(numbered(expected)).unwrap();
        assert_eq!(number(reader.blocking_next().unwrap()), expected);
    }
    let bucket = node.store.bucket("topic/orders").unwrap();
    assert!(bucket.scan("m", "", 1).wait().unwrap().rows.is_empty());

    let node = node.cut(|| false);
    let topic = node.topic(TopicConfig { retention: Retention::KeepAll, ..TopicConfig::default() });
    assert_eq!(topic.published(), 20);
    topic.blocking_publish(numbered(20)).unwrap();
    let node = node.cut(|| false);
    let topic = node.topic(TopicConfig { retention: Retention::KeepAll, ..TopicConfig::default() });
    let config = SubscriptionConfig { oldest: true, ..SubscriptionConfig::default() };
    let workers = topic.create_subscription("workers", config).unwrap();
    assert_eq!(all(&mut workers.consumer()), [(20, 1)], "the message was kept for the first subscription");
}

#[test]
fn what_makes_no_sense_is_refused_as_in_memory_and_leaves_nothing_on_disk() {
    let node = Node::start(Disk::default());
    let topic = node.topic(TopicConfig::default());
    let workers = workers(&topic);
    let refusal = |message: Message| topic.blocking_publish(message).unwrap_err().to_string();

    assert_eq!(
        refusal(Message::new(vec![0; 20_000_000]).with_key("ann")),
        "payload of 20000000 bytes is longer than 10000000 bytes"
    );
    assert!(refusal(numbered(1).with_key("ann")).starts_with("ordering key \"ann\" of topic \"orders\" is paused"));
    assert!(topic.resume("ann"));
    assert_eq!(
        refusal(numbered(1).with_key("k".repeat(1 << 20))),
        "ordering key of 1048576 bytes is longer than 1024 bytes"
    );
    let waits = topic.try_publish(numbered(2)).unwrap_err();
    assert!(matches!(&waits, PublishError::Waits { message, .. } if number(message) == 2), "{waits}");
    assert_eq!(
        topic.subscription("nobody").unwrap_err().to_string(),
        "topic \"orders\" has no subscription \"nobody\""
    );

    topic.blocking_publish(numbered(3).with_key("ann")).unwrap();
    topic.blocking_publish(numbered(4)).unwrap();
    let mut consumer = workers.consumer();
    let leases = leases(&mut consumer);
    assert_eq!(consumer.ack(leases[0].id), AckStatus::Done);
    assert_eq!(consumer.ack(leases[0].id), AckStatus::AlreadyAcked);
    assert_eq!(consumer.nack(leases[1].id), AckStatus::Done);
    assert_eq!(consumer.ack(leases[1].id), AckStatus::AlreadyNacked);
    assert_eq!(consumer.ack(AckId::from_u64(u64::MAX)), AckStatus::Unknown);
    workers.blocking_flush_acks().unwrap();
    drop((topic, workers, consumer));

    let node = node.cut(|| false);
    let topic = node.topic(TopicConfig::default());
    let workers = self::workers(&topic);
    assert_eq!((workers.account().published, workers.account().acked), (2, 1));
    assert_eq!(all(&mut workers.consumer()), [(4, 2)]);
}

#[test]
fn what_cannot_be_opened_is_said_in_one_line() {
    let node = Node::start(Disk::default());
    let refusal = |name: &str, config| match node.store.open_topic(&node.runtime.topics(), name, config) {
        Ok(topic) => panic!("{topic:?}"),
        Err(error) => error.to_string(),
    };
    let newest = TopicConfig { retention: Retention::KeepNewest, ..TopicConfig::default() };

    assert_eq!(
        refusal("orders", newest),
        "topic \"orders\" is durable and cannot use the policy KeepNewest: use Forget or KeepAll"
    );
    assert_eq!(refusal("", TopicConfig::default()), "the name of a topic has 1 to 255 bytes, not 0");
    let topic = node.topic(TopicConfig::default());
    let other = Runtime::start(Config::default()).unwrap();
    let error = node.store.open_topic(&other.topics(), "orders", TopicConfig::default()).unwrap_err();
    assert_eq!(error.to_string(), "topic \"orders\" of this store is already open");
    topic.close();
    drop(topic);
    let again = || node.store.open_topic(&node.runtime.topics(), "orders", TopicConfig::default());
    eventually("it is closed", || !matches!(again(), Err(DurableError::InUse { .. })));

    let bucket = node.store.bucket("topic/damaged").unwrap();
    bucket.put("h", vec![9, 9]).wait().unwrap();
    assert_eq!(
        refusal("damaged", TopicConfig::default()),
        "topic \"damaged\" is damaged on disk: its head is not valid"
    );
    let (topics, store) = (node.runtime.topics(), node.store.clone());
    let pid = node.runtime.spawn(move |_| async move {
        let error = store.open_topic(&topics, "inside", TopicConfig::default()).unwrap_err().to_string();
        assert_eq!(error, "a process must not block on the store: call the asynchronous function, and `.await` it");
    });
    node.runtime.wait(pid.unwrap());
}
