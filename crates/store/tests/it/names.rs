//! Names follow one rule on every medium: 1 to 255 bytes with any characters, checked where they are given.

use std::time::Duration;

use rusm_runtime::counter::CounterStoreError;
use rusm_runtime::topic::{CreateError, Message, Retention, SubscribeError, SubscriptionConfig, TopicConfig};
use rusm_runtime::{Config, GroupError, NAME_MAX_BYTES, NameError, RegisterError, Runtime};
use rusm_store::jobs::{Enqueued, Jobs, NewJob};
use rusm_store::{Durability, DurableCounters, DurableError, Store, StoreConfig, StoreError};

use crate::disk::Disk;
use crate::eventually::eventually;

/// Gives a name to something new.
type Give = fn(&Runtime, &Store, &str) -> Result<(), NameError>;

const MEDIA: [(&str, Give); 9] = [
    ("process", |runtime, _, name| {
        let pid = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
        runtime.register(pid, name).map_err(|error| match error {
            RegisterError::Name(error) => error,
            other => panic!("{other}"),
        })?;
        assert_eq!(runtime.whereis(name), Some(pid));
        Ok(())
    }),
    ("group", |runtime, _, name| {
        let pid = runtime.spawn(|_| std::future::pending::<()>()).unwrap();
        runtime.join(pid, name).map_err(|error| match error {
            GroupError::Name(error) => error,
            other => panic!("{other}"),
        })?;
        assert_eq!(runtime.members(name), [pid]);
        Ok(())
    }),
    ("topic", |runtime, _, name| create(runtime, &ending_in(name, "m"), TopicConfig::default())),
    ("topic", |runtime, _, name| {
        let newest = TopicConfig { retention: Retention::KeepNewest, ..TopicConfig::default() };
        create(runtime, &ending_in(name, "n"), newest)
    }),
    ("topic", |runtime, store, name| {
        let name = &ending_in(name, "d");
        let topic = store.open_topic(&runtime.topics(), name, TopicConfig::default()).map_err(|error| match error {
            DurableError::Create(CreateError::Name(error)) => error,
            other => panic!("{other}"),
        })?;
        topic.create_subscription(name, SubscriptionConfig::default()).unwrap().blocking_flush_acks().unwrap();
        topic.blocking_publish(Message::new("kept")).unwrap();
        Ok(())
    }),
    ("subscription", |runtime, _, name| {
        let topic = runtime.topics().find_or_create("with subscriptions").unwrap();
        let created = topic.create_subscription(name, SubscriptionConfig::default()).map_err(|error| match error {
            SubscribeError::Name(error) => error,
            other => panic!("{other}"),
        });
        created.map(drop)
    }),
    ("bucket", |_, store, name| {
        let bucket = store.bucket(name).map_err(of_store)?;
        bucket.put("key", "value").wait().unwrap();
        Ok(())
    }),
    ("bucket", |_, store, name| match DurableCounters::open(store, &ending_in(name, "+"), Durability::Immediate) {
        Ok(_) => Ok(()),
        // Counters work on any store, so the error of this one is a text.
        Err(CounterStoreError::Storage(line)) => {
            let error = NameError { what: "bucket", bytes: name.len() };
            assert_eq!(line, error.to_string());
            Err(error)
        }
        Err(error) => panic!("{error}"),
    }),
    ("queue", |_, store, name| {
        let jobs = Jobs::open(store, name).map_err(of_store)?;
        jobs.blocking_enqueue(NewJob::new("work").unique("key")).unwrap();
        Ok(())
    }),
];

/// Replaces the last byte of a name, so that several media of one kind have different names of the same length.
fn ending_in(name: &str, last: &str) -> String {
    match name.char_indices().next_back() {
        Some((end, c)) if c.len_utf8() == 1 => format!("{}{last}", &name[..end]),
        _ => name.to_owned(),
    }
}

fn create(runtime: &Runtime, name: &str, config: TopicConfig) -> Result<(), NameError> {
    let created = runtime.topics().create_with(name, config).map_err(|error| match error {
        CreateError::Name(error) => error,
        other => panic!("{other}"),
    });
    created.map(drop)
}

fn of_store(error: StoreError) -> NameError {
    match error {
        StoreError::Name(error) => error,
        other => panic!("{other}"),
    }
}

fn open(disk: &Disk) -> Store {
    let own = disk.clone();
    Store::open_on("a disk in memory", move || Ok(own.clone()), StoreConfig::default()).unwrap()
}

#[test]
fn a_name_is_valid_on_every_medium_or_on_none() {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let store = open(&Disk::default());
    let (longest, wide) = ("x".repeat(NAME_MAX_BYTES), format!("{}.", "é".repeat(NAME_MAX_BYTES / 2)));
    let too_long = "x".repeat(NAME_MAX_BYTES + 1);

    for (what, give) in MEDIA {
        for name in ["a", "with spaces, and 北京?", "a/b:c", "line\nbreak", &longest, &wide] {
            assert_eq!(give(&runtime, &store, name), Ok(()), "{what} {name:?}");
        }
        for name in ["", &too_long] {
            let error = give(&runtime, &store, name).unwrap_err();
            assert_eq!(error, NameError { what, bytes: name.len() });
            let line = format!("the name of a {what} has 1 to 255 bytes, not {}", name.len());
            assert_eq!(error.to_string(), line);
        }
    }
}

#[test]
fn what_has_the_longest_name_on_disk_is_there_after_a_restart() {
    let disk = Disk::default();
    let longest = "x".repeat(NAME_MAX_BYTES);
    {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let store = open(&disk);
        store.bucket(&longest).unwrap().put("key", "value").wait().unwrap();
        Jobs::open(&store, &longest).unwrap().blocking_enqueue(NewJob::new("work").unique("key")).unwrap();
        let topic = store.open_topic(&runtime.topics(), &longest, TopicConfig::default()).unwrap();
        let kept = topic.create_subscription(&longest, SubscriptionConfig::default()).unwrap();
        kept.blocking_flush_acks().unwrap();
        topic.blocking_publish(Message::new("kept")).unwrap();
    }

    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let store = open(&disk);
    let value = store.bucket(&longest).unwrap().get("key").wait().unwrap();
    let topic = store.open_topic(&runtime.topics(), &longest, TopicConfig::default()).unwrap();
    let mut consumer = topic.create_subscription(&longest, SubscriptionConfig::default()).unwrap().consumer();

    assert_eq!(value.as_deref(), Some(&b"value"[..]));
    assert_eq!(consumer.blocking_next().unwrap().message.payload(), "kept");
    let again = Jobs::open(&store, &longest).unwrap().blocking_enqueue(NewJob::new("work").unique("key")).unwrap();
    assert_eq!(again, Enqueued::Exists);
    // A caller cannot reach the bucket of the topic: its keys never expire, and its name has more than 255 bytes.
    let inside = format!("topic/{longest}");
    assert_eq!(store.bucket(&inside).unwrap_err(), StoreError::Name(NameError { what: "bucket", bytes: inside.len() }));
}

#[test]
fn keys_of_the_bucket_with_the_longest_name_expire() {
    let disk = Disk::default();
    let store = open(&disk);
    let bucket = store.bucket(&"x".repeat(NAME_MAX_BYTES)).unwrap();

    bucket.put_for("key", "value", Duration::from_millis(1)).wait().unwrap();

    eventually("the key expires", || bucket.get("key").wait().unwrap().is_none());
}
