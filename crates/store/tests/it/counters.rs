//! Counters on disk: contents of a reopened file, files that cannot be opened, and the loss caused by `kill -9`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::crew::{crew, run};
use rusm_runtime::counter::{
    AtomicCounter, CommitOptions, Counter, CounterStore, CounterStoreError, Counters, NoOptions, Vsa,
};
use rusm_runtime::{Config, Runtime};
use rusm_store::{Durability, DurableCounters, Store, StoreConfig};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

/// Opens a file, and retries while it is still open: the process with its last handle may have ended before the file
/// was closed.
fn reopened(path: &Path, durability: Durability) -> DurableCounters {
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        match Store::open(path, StoreConfig::default()) {
            Err(error) if error.to_string().contains("already") && Instant::now() < until => thread::yield_now(),
            store => return counters(&store.expect("the file opens"), durability),
        }
    }
}

fn counters(store: &Store, durability: Durability) -> DurableCounters {
    DurableCounters::open(store, "counters", durability).expect("the bucket holds counters")
}

fn opened(path: &Path) -> DurableCounters {
    counters(&Store::open(path, StoreConfig::default()).expect("the file opens"), Durability::Immediate)
}

#[test]
fn a_reopened_file_has_what_was_stored_with_every_durability() {
    let runtime = runtime();
    let directory = tempfile::tempdir().expect("there is room");
    for durability in Durability::ALL {
        let path = directory.path().join(durability.word());
        for round in 1..=3 {
            let store = reopened(&path, durability);
            let counters =
                Counters::<Vsa, _>::start(&runtime, store, CommitOptions::default()).expect("the options are valid");
            let counter = counters.counter("key", 1_000).expect("the key is valid");
            run(&runtime, move |_| async move {
                (0..100).for_each(|_| counter.add(2));
                counters.stop().await.expect("the disk has room");
                assert_eq!(counter.available(), 1_000 - 200 * round);
            });
        }
        let store = reopened(&path, durability);
        assert_eq!(store.slot("key", 0).expect("the key is valid").value(), 400);
    }
}

#[test]
fn writers_that_wait_together_share_a_transaction() {
    let runtime = runtime();
    let directory = tempfile::tempdir().expect("there is room");
    let store = opened(&directory.path().join("counters"));
    let counters = Counters::<AtomicCounter<_>, _>::start(&runtime, store, NoOptions).expect("there is room");
    let counter = counters.counter("key", 0).expect("the key is valid");
    crew(&runtime, 64, move |_, _| {
        let counter = Arc::clone(&counter);
        async move {
            for _ in 0..4 {
                counter.update(-1).await.expect("the disk has room");
            }
        }
    });

    let store = counters.store();
    assert_eq!(store.slot("key", 0).expect("the key is valid").value(), 256);
    let report = store.store().report();
    assert_eq!(report.commits_total, report.durable_commits_total);
    assert!(report.commits_total < 256, "{}", report.commits_total);
}

#[test]
fn a_second_opener_and_a_file_of_another_kind_are_refused_in_a_line() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("counters");
    let _first = opened(&path);
    let other = directory.path().join("letter");
    std::fs::write(&other, "Dear reader, this is no database.".repeat(100)).expect("there is room");

    for path in [&path, &other, &directory.path().join("nowhere/counters")] {
        let text = Store::open(path, StoreConfig::default()).expect_err("it cannot be opened").to_string();

        assert!(text.contains(&*path.to_string_lossy()) && !text.contains('\n'), "{text}");
    }
}

#[test]
fn counters_of_a_closed_store_and_of_a_bucket_with_other_rows_are_refused() {
    let runtime = runtime();
    let directory = tempfile::tempdir().expect("there is room");
    let store = Store::open(directory.path().join("node.redb"), StoreConfig::default()).expect("the file opens");
    let letters = store.bucket("letters").expect("the name is valid");
    letters.put("key", "Dear reader").wait().expect("the disk has room");
    let error = DurableCounters::open(&store, "letters", Durability::Immediate).expect_err("they are no counters");
    assert_eq!(error.to_string(), "the row key of bucket \"letters\" is not a counter");

    let counters = counters(&store, Durability::Immediate);
    let slot = counters.slot("key", 1).expect("the key is valid");
    store.close();
    run(&runtime, move |_| async move {
        assert_eq!(counters.read(&slot).await, Err(CounterStoreError::Closed));
        assert_eq!(counters.add(&slot, 1, 1).await, Err(CounterStoreError::Closed));
    });
}

const CHILD: &str = "RUSM_COUNTERS_CHILD";

/// Code of the child: counts and reports acknowledged values until it is killed.
#[test]
fn counts_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let runtime = runtime();
    let store = opened(Path::new(&path));
    let options = CommitOptions { interval: Duration::from_millis(1), ..CommitOptions::default() };
    let counters = Counters::<Vsa, _>::start(&runtime, store, options).expect("the options are valid");
    let counter = counters.counter("key", 0).expect("the key is valid");
    run(&runtime, move |_| async move {
        loop {
            (0..1_000).for_each(|_| counter.add(-1));
            // A successful flush has stored everything that was counted before it.
            let value = counter.available();
            counters.flush().await.expect("the disk has room");
            writeln!(std::io::stdout(), "stored {value}").expect("the test reads it");
        }
    });
}

#[test]
fn a_kill_loses_nothing_that_was_acknowledged_and_not_more_than_was_counted_since() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("counters");
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().expect("a test is a program"))
            .args(["--exact", "counters::counts_until_it_is_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
        let stored = |line: String| line.split_once("stored ").and_then(|(_, number)| number.parse::<i64>().ok());
        let deadline = Instant::now() + Duration::from_mins(2);
        let mut acknowledged = 0;
        for _ in 0..3 * round {
            acknowledged = lines.by_ref().find_map(stored).expect("it says so until it is killed");
            assert!(Instant::now() < deadline);
        }

        child.kill().expect("it runs");
        // Everything that the child reported before it was killed counts.
        acknowledged = lines.filter_map(stored).last().unwrap_or(acknowledged);
        child.wait().expect("it was killed");

        let store = opened(&path);
        let has = store.slot("key", 0).expect("the key is valid").value();
        // The child counts 1,000 between two flushes.
        assert!((acknowledged..=acknowledged + 2_000).contains(&has), "{acknowledged} acknowledged, {has} stored");
    }
}

#[test]
fn a_stored_key_is_free_again_when_its_set_is_dropped_and_a_bucket_is_opened_once() {
    let runtime = runtime();
    let directory = tempfile::tempdir().expect("there is room");
    let store = Store::open(directory.path().join("node.redb"), StoreConfig::default()).expect("the file opens");
    let kept = Arc::new(counters(&store, Durability::Immediate));
    let error = DurableCounters::open(&store, "counters", Durability::None).expect_err("it is open");
    assert_eq!(error.to_string(), "the counters of bucket \"counters\" are open already");
    let start = || {
        let options = CommitOptions::default();
        Counters::<Vsa, _>::with_store(&runtime, Arc::clone(&kept), options).expect("the options are valid")
    };
    let (one, other) = (start(), start());
    let stock = one.counter("stock", 10).expect("the key is free");
    assert!(stock.try_consume(7));
    let flusher = runtime.watch(one.flusher());
    drop(one);
    flusher.wait();
    drop(stock);

    assert_eq!(other.counter("stock", 10).map(|stock| Vsa::available(&stock)), Ok(3));
}
