//! A store and a durable topic on a disk that is full for a while: each writer gets a named error, reads continue, and
//! writes continue once there is room.
//!
//! A limit on file sizes simulates the full disk. The test does not ignore SIGXFSZ: the store must not receive that
//! signal. If `RUSM_TEST_SMALL_DISK` names a directory on a small file system, the test fills that file system instead;
//! see `tests/hostile/full_disk.sh`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusm_runtime::topic::{AckStatus, Message, PublishError, SubscriptionConfig, TopicConfig};
use rusm_runtime::{Config, Runtime};
use rusm_store::{Store, StoreConfig, StoreError};

const LONG: Duration = Duration::from_mins(1);
const WRITERS: u64 = 8;

/// A disk that can be filled and freed.
enum Disk {
    /// Files in this directory may not exceed a size limit.
    Limit(tempfile::TempDir),
    /// A large file fills the file system of this directory.
    Mount(PathBuf),
}

impl Disk {
    fn of_environment() -> Self {
        match std::env::var_os("RUSM_TEST_SMALL_DISK") {
            Some(dir) => Self::Mount(dir.into()),
            None => Self::Limit(tempfile::tempdir().unwrap()),
        }
    }

    fn dir(&self) -> &Path {
        match self {
            Self::Limit(dir) => dir.path(),
            Self::Mount(dir) => dir,
        }
    }

    fn fill(&self, store: &Path) {
        match self {
            Self::Limit(_) => crate::limit_files(Some(fs::metadata(store).unwrap().len())),
            Self::Mount(dir) => {
                let mut ballast = fs::File::create(dir.join("ballast")).unwrap();
                while ballast.write_all(&[0; 4096]).is_ok() {}
            }
        }
    }

    fn free(&self) {
        match self {
            Self::Limit(_) => crate::limit_files(None),
            Self::Mount(dir) => fs::remove_file(dir.join("ballast")).unwrap(),
        }
    }
}

fn is_named(error: &StoreError) -> bool {
    matches!(error, StoreError::Full | StoreError::Unavailable(_))
}

/// Writes different keys from several threads until each has failed; returns for each the number of keys written and
/// its error.
fn write_until_full(store: &Store) -> Vec<(u64, StoreError)> {
    let writer = |writer: u64| {
        let bucket = store.bucket("a").unwrap();
        let mut written = 0;
        loop {
            match bucket.put(key(writer, written), vec![7; 10_000]).wait() {
                Ok(()) => written += 1,
                Err(error) => return (written, error),
            }
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || writer(number))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

fn key(writer: u64, number: u64) -> Vec<u8> {
    [writer.to_be_bytes(), number.to_be_bytes()].concat()
}

#[test]
fn a_full_disk_is_told_to_each_writer_and_is_over_when_there_is_room() {
    let _alone = crate::alone();
    let disk = Disk::of_environment();
    let path = disk.dir().join("node.redb");
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let topic = store.open_topic(&runtime.topics(), "orders", TopicConfig::default()).unwrap();
    let subscription = topic.create_subscription("workers", SubscriptionConfig::default()).unwrap();
    subscription.blocking_flush_acks().unwrap();
    topic.blocking_publish(Message::new("before")).unwrap();
    let bucket = store.bucket("a").unwrap();
    bucket.put("before", "kept").wait().unwrap();

    disk.fill(&path);
    let ends = write_until_full(&store);
    let refused = (0..10_000).find_map(|_| topic.blocking_publish(Message::new(vec![7; 1000])).err());
    let read = bucket.get("before").wait();
    disk.free();

    assert!(ends.iter().all(|(_, error)| is_named(error)), "{ends:?}");
    assert!(ends.iter().any(|(_, error)| *error == StoreError::Full), "{ends:?}");
    let Some(PublishError::NotStored { error, .. }) = refused else { panic!("{refused:?}") };
    assert!(error.contains("is full") || error.contains("not available"), "{error}");
    assert_eq!(read.unwrap().as_deref(), Some(&b"kept"[..]), "reads work while the disk is full");
    let started = Instant::now();
    while let Err(error) = bucket.put("after", "kept").wait() {
        assert!(is_named(&error) && started.elapsed() < LONG, "still {error}");
        std::thread::yield_now();
    }
    while let Err(error) = topic.blocking_publish(Message::new("after")) {
        assert!(matches!(error, PublishError::NotStored { .. }) && started.elapsed() < LONG, "still {error}");
        std::thread::yield_now();
    }
    for (writer, (written, _)) in (0..).zip(&ends) {
        assert!((0..*written).all(|number| bucket.get(key(writer, number)).wait().unwrap().is_some()));
        assert_eq!(bucket.get(key(writer, *written)).wait().unwrap(), None, "a refused write did not happen");
    }
    let mut consumer = subscription.consumer();
    let first = consumer.try_next().unwrap().unwrap();
    assert_eq!(first.message.into_payload(), "before");
}

/// Needs a small file system: a limit on file sizes says nothing about free space.
#[test]
fn a_topic_that_fills_the_disk_is_drained_by_its_consumer() {
    let Disk::Mount(directory) = Disk::of_environment() else { return };
    let _alone = crate::alone();
    let path = directory.join("topic.redb");
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let rules = TopicConfig { messages: 1_000_000, bytes: 1 << 30, ..TopicConfig::default() };
    let topic = store.open_topic(&runtime.topics(), "orders", rules).unwrap();
    let subscription = topic.create_subscription("workers", SubscriptionConfig::default()).unwrap();
    subscription.blocking_flush_acks().unwrap();
    let mut consumer = subscription.consumer();

    for _ in 0..3 {
        let mut published = 0;
        while topic.blocking_publish(Message::new(vec![7; 1000])).is_ok() {
            published += 1;
        }
        assert!(published > 100, "{published}");
        let mut acked = 0;
        while let Some(lease) = consumer.try_next().unwrap() {
            assert_eq!(consumer.ack(lease.id), AckStatus::Done);
            acked += 1;
            if acked % 100 == 0 {
                subscription.blocking_flush_acks().unwrap();
            }
        }
        subscription.blocking_flush_acks().unwrap();
        assert_eq!(acked, published);
    }
    drop((consumer, subscription, topic, runtime, store));
    fs::remove_file(path).unwrap();
}

/// Needs a small file system, as above.
#[test]
fn a_commit_that_fails_on_a_full_disk_gives_its_space_back() {
    let Disk::Mount(directory) = Disk::of_environment() else { return };
    let _alone = crate::alone();
    let path = directory.join("space.redb");
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    let bucket = store.bucket("a").unwrap();
    bucket.put("first", "kept").wait().unwrap();
    // Another program takes the space before the store looks at its disk again.
    let free = |directory: &Path| rustix::fs::statvfs(directory).map(|about| about.f_bavail * about.f_frsize).unwrap();
    let ballast = directory.join("ballast");
    fs::write(&ballast, vec![1; free(&directory) as usize - 2_500_000]).unwrap();
    bucket.put("large", vec![7; 2_000_000]).wait().unwrap();
    bucket.put("first", "again").wait().unwrap();
    let left = free(&directory);
    assert_eq!(bucket.put("larger", vec![7; 2_000_000]).wait(), Err(StoreError::Full));

    assert!(free(&directory) >= left, "{} of {left} are left", free(&directory));
    let started = Instant::now();
    while let Err(error) = bucket.put("first", "kept").wait() {
        assert!(is_named(&error) && started.elapsed() < LONG, "still {error}");
        std::thread::yield_now();
    }
    assert_eq!(bucket.delete("large").wait(), Ok(true));
    assert_eq!(bucket.get("first").wait().unwrap().as_deref(), Some(&b"kept"[..]));
    drop(store);
    fs::remove_file(path).unwrap();
    fs::remove_file(ballast).unwrap();
}

#[test]
fn a_store_whose_file_was_moved_does_not_go_on_in_another_file() {
    let _alone = crate::alone();
    let directory = tempfile::tempdir().unwrap();
    let (path, moved) = (directory.path().join("node.redb"), directory.path().join("moved.redb"));
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    let bucket = store.bucket("a").unwrap();
    bucket.put("before", "kept").wait().unwrap();
    fs::rename(&path, &moved).unwrap();

    crate::limit_files(Some(fs::metadata(&moved).unwrap().len()));
    let ends = write_until_full(&store);
    crate::limit_files(None);

    assert!(ends.iter().all(|(_, error)| is_named(error)), "{ends:?}");
    let error = bucket.put("after", "lost").wait().unwrap_err();
    assert!(is_named(&error), "{error}");
    assert!(!path.exists(), "no new file was created");
}
