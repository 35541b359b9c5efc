//! Durable topics on disks that fail or undo commits, and on nodes that end midway: nothing that was reported as stored
//! is lost.

use std::time::Duration;

use crate::disk::Disk;
use crate::eventually::eventually;
use rusm_runtime::topic::{
    AckStatus, DeadLetter, Message, PublishError, PublisherConfig, Retention, Subscription, SubscriptionConfig, Topic,
    TopicConfig,
};
use rusm_runtime::{Config, ExitReason, Pid, Runtime, observe};
use rusm_store::{Durability, Store, StoreConfig};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap()
}

fn store_on(disk: &Disk, config: StoreConfig) -> Store {
    let disk = disk.clone();
    Store::open_on("a disk in memory", move || Ok(disk.clone()), config).unwrap()
}

fn open(runtime: &Runtime, store: &Store) -> Topic {
    store.open_topic(&runtime.topics(), "orders", TopicConfig::default()).unwrap()
}

fn workers(topic: &Topic) -> Subscription {
    let workers = topic.create_subscription("workers", SubscriptionConfig::default()).unwrap();
    workers.blocking_flush_acks().unwrap();
    workers
}

#[test]
fn a_topic_whose_last_commits_were_undone_says_so_and_opens_again_without_them() {
    let disk = Disk::default();
    let within = Duration::from_hours(1);
    let config = StoreConfig { durability: Durability::Eventual, eventual_within: within, ..StoreConfig::default() };
    let (store, runtime) = (store_on(&disk, config.clone()), runtime());
    let topic = open(&runtime, &store);
    let subscription = workers(&topic);
    topic.blocking_publish(Message::new("synced")).unwrap();
    store.sync().wait().unwrap();
    for _ in 0..3 {
        topic.blocking_publish(Message::new("not synced")).unwrap();
    }

    disk.set_room(Some(0));
    store.sync().wait().unwrap_err();
    disk.set_room(None);

    let mut said = Vec::new();
    eventually("the topic is closed", || match topic.blocking_publish(Message::new("after")).unwrap_err() {
        PublishError::NotStored { error, .. } => {
            said.push(error);
            false
        }
        error => matches!(error, PublishError::Closed { .. }),
    });
    let undone =
        "the store lost unsynced commits, so the topic is closed and its last messages are lost: open it again";
    assert_eq!(said.last().map(|error| &**error), Some(undone));
    topic.close();
    drop((topic, subscription));

    // The topic can be reopened at once, and also by another node.
    let mut topic = open(&runtime, &store);
    assert_eq!(topic.published(), 1);
    topic.blocking_publish(Message::new("again")).unwrap();
    drop((topic, runtime));
    store.close();
    let (store, runtime) = (store_on(&disk, config), self::runtime());
    topic = open(&runtime, &store);
    let mut consumer = workers(&topic).consumer();
    let payloads: Vec<_> =
        std::iter::from_fn(|| consumer.try_next().unwrap()).map(|lease| lease.message.into_payload()).collect();
    assert_eq!(payloads, ["synced", "again"]);
}

#[test]
fn a_dead_letter_that_the_disk_did_not_take_is_sent_again() {
    let disk = Disk::default();
    let (store, runtime) = (store_on(&disk, StoreConfig::default()), runtime());
    let kept = TopicConfig { retention: Retention::KeepAll, ..TopicConfig::default() };
    let dead = store.open_topic(&runtime.topics(), "dead", kept).unwrap();
    let topic = open(&runtime, &store);
    let dead_letter = Some(DeadLetter { topic: "dead".into(), attempts_max: 1 });
    let config = SubscriptionConfig { dead_letter, ..SubscriptionConfig::default() };
    let subscription = topic.create_subscription("workers", config).unwrap();
    subscription.blocking_flush_acks().unwrap();
    topic.blocking_publish(Message::new("x")).unwrap();
    let mut consumer = subscription.consumer();
    let lease = consumer.try_next().unwrap().unwrap();
    subscription.blocking_flush_acks().unwrap();

    disk.fail_syncs(true);
    assert_eq!(consumer.nack(lease.id), AckStatus::Done);
    eventually("a commit fails", || store.report().failures_total > 0);
    disk.fail_syncs(false);

    eventually("it is there", || dead.published() == 1);
    assert_eq!(subscription.account().dead_lettered, 1);
}

#[test]
fn a_dead_letter_whose_topic_is_closed_before_the_disk_took_it_is_counted_as_dropped() {
    let disk = Disk::default();
    let (store, runtime) = (store_on(&disk, StoreConfig::default()), runtime());
    let dead = store.open_topic(&runtime.topics(), "dead", TopicConfig::default()).unwrap();
    let kept = dead.create_subscription("graves", SubscriptionConfig::default()).unwrap();
    kept.blocking_flush_acks().unwrap();
    let topic = runtime.topics().create("orders").unwrap();
    let dead_letter = Some(DeadLetter { topic: "dead".into(), attempts_max: 1 });
    let config = SubscriptionConfig { dead_letter, ..SubscriptionConfig::default() };
    let subscription = topic.create_subscription("workers", config).unwrap();
    topic.blocking_publish(Message::new("x")).unwrap();
    let mut consumer = subscription.consumer();
    let lease = consumer.try_next().unwrap().unwrap();

    disk.fail_syncs(true);
    assert_eq!(consumer.nack(lease.id), AckStatus::Done);
    eventually("a commit fails", || store.report().failures_total > 0);
    dead.close();

    eventually("it is counted", || subscription.account().dropped == 1);
    let account = subscription.account();
    assert_eq!((account.published, account.dead_lettered, account.backlog, account.outstanding), (1, 0, 0, 0));
    disk.fail_syncs(false);
}

#[test]
fn saved_is_said_when_the_last_of_very_many_subscriptions_is() {
    const MANY: usize = 1600;
    let disk = Disk::default();
    let (store, runtime) = (store_on(&disk, StoreConfig::default()), runtime());
    let topic = open(&runtime, &store);
    let other = store.bucket("other").unwrap();
    disk.close_gate();

    let left = std::thread::scope(|scope| {
        scope.spawn(|| other.put("a", "b").wait());
        disk.wait_for_a_sync();
        let subscriptions: Vec<_> = (0..MANY)
            .map(|n| topic.create_subscription(&format!("{n:04}"), SubscriptionConfig::default()).unwrap())
            .collect();
        let disk = &disk;
        let saved = scope.spawn(move || {
            subscriptions[MANY - 1].blocking_flush_acks().unwrap();
            disk.cut(|| false)
        });
        disk.open_gate();
        saved.join().unwrap()
    });

    let store = store_on(&left, StoreConfig::default());
    let rows = store.bucket("topic/orders").unwrap().scan("s", "", 10_000).wait().unwrap().rows;
    assert_eq!(rows.len(), MANY);
}

#[test]
fn what_was_acknowledged_before_a_clean_end_does_not_come_again() {
    let disk = Disk::default();
    let (store, runtime) = (store_on(&disk, StoreConfig::default()), runtime());
    let topic = open(&runtime, &store);
    let mut consumer = workers(&topic).consumer();
    for _ in 0..100 {
        topic.blocking_publish(Message::new("x")).unwrap();
    }
    let ids: Vec<_> = std::iter::from_fn(|| consumer.try_next().unwrap()).map(|lease| lease.id).collect();

    assert_eq!(consumer.subscription().ack_all(ids), 100);
    drop((consumer, topic, runtime));
    store.close();

    let (store, runtime) = (store_on(&disk, StoreConfig::default()), self::runtime());
    let account = workers(&open(&runtime, &store)).account();
    assert_eq!((account.acked, account.backlog), (100, 0));
}

#[test]
fn a_message_that_no_room_is_enough_for_does_not_stop_a_topic_on_disk() {
    let (store, runtime) = (store_on(&Disk::default(), StoreConfig::default()), runtime());
    let bounds = TopicConfig { messages: 8, bytes: 1024, retention: Retention::Forget };
    let topic = store.open_topic(&runtime.topics(), "orders", bounds).unwrap();
    let _workers = workers(&topic);

    let large = Message::new("x").with_attribute("a", "y".repeat(1024));
    let said = topic.blocking_publish(large).unwrap_err().to_string();

    assert_eq!(
        said,
        "message of 1026 bytes, key and attributes included, is larger than its topic, which holds 1024 bytes"
    );
    topic.blocking_publish(Message::new("small")).unwrap();
}

/// Returns the process that writes the topic.
fn keeper(runtime: &Runtime) -> Pid {
    let mut found = None;
    for part in 0..observe::table_parts(runtime) {
        observe::for_each_process(runtime, part, |seen| {
            if observe::names(&seen).1.as_deref() == Some("topic orders") {
                found = Some(seen.pid());
            }
        });
    }
    found.unwrap()
}

/// Kills the writer process during the commit of a publication, and returns the result of the publication.
fn killed_in_the_middle(publish: impl FnOnce(&Topic) -> Result<(), PublishError> + Send) -> Result<(), PublishError> {
    let disk = Disk::default();
    let (store, runtime) = (store_on(&disk, StoreConfig::default()), runtime());
    let topic = open(&runtime, &store);
    let _workers = workers(&topic);
    disk.close_gate();

    let outcome = std::thread::scope(|scope| {
        let published = scope.spawn(|| publish(&topic));
        disk.wait_for_a_sync();
        runtime.exit(keeper(&runtime), ExitReason::Killed);
        published.join().unwrap()
    });

    disk.open_gate();
    let next = topic.blocking_publish(Message::new("after")).unwrap_err();
    assert!(matches!(next, PublishError::Closed { .. }), "{next}");
    outcome
}

#[test]
fn whoever_publishes_hears_that_the_keeper_was_killed_in_the_middle_of_the_commit() {
    let ended = "the writer process of the topic ended before the outcome of the commit was known";

    let direct = killed_in_the_middle(|topic| topic.blocking_publish(Message::new("direct")));
    let gathered = killed_in_the_middle(|topic| {
        let publisher = topic.publisher(PublisherConfig::default()).unwrap();
        publisher.blocking_publish(Message::new("gathered")).unwrap();
        let flushed = publisher.blocking_flush();
        assert!(publisher.account().is_exact() && publisher.account().outstanding == 0, "{:?}", publisher.account());
        flushed
    });

    for (outcome, payload) in [(direct, "direct"), (gathered, "gathered")] {
        let Err(PublishError::NotStored { error, message, .. }) = outcome else {
            panic!("the outcome was {outcome:?}")
        };
        assert_eq!((&*error, &message.payload()[..]), (ended, payload.as_bytes()));
    }
}
