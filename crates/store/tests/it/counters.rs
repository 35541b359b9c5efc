//! Counters on disk: contents of a reopened file, files that cannot be opened, and the loss caused by `kill -9`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::crew::{crew, run};
use rusm_runtime::counter::{Atomic, CommitOptions, Counter, CounterStore, Counters, NoOptions, StoreError, Vsa};
use rusm_runtime::{Config, Runtime};
use rusm_store::counters::{CommitDurability, RedbStore};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 2, ..Config::default() }).expect("two schedulers start")
}

/// Opens a file, and retries while it is still open: the process with its last handle may have ended before the file
/// was closed.
fn reopened(path: &Path, durability: CommitDurability) -> RedbStore {
    let until = Instant::now() + Duration::from_mins(2);
    loop {
        match RedbStore::open(path, durability) {
            Err(StoreError::Storage(why)) if why.contains("is already open") && Instant::now() < until => {
                thread::yield_now();
            }
            opened => return opened.expect("the file opens"),
        }
    }
}

#[test]
fn a_reopened_file_has_what_was_stored_with_every_durability() {
    let runtime = runtime();
    let directory = tempfile::tempdir().expect("there is room");
    for durability in CommitDurability::ALL {
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
    let store =
        RedbStore::open(directory.path().join("counters"), CommitDurability::Immediate).expect("the file opens");
    let counters = Counters::<Atomic<_>, _>::start(&runtime, store, NoOptions).expect("there is room");
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
    assert_eq!(store.transactions(), store.durable_transactions());
    assert!(store.transactions() < 256, "{}", store.transactions());
}

#[test]
fn a_second_opener_and_a_file_of_another_kind_are_refused_in_a_line() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("counters");
    let _first = RedbStore::open(&path, CommitDurability::Immediate).expect("the file opens");
    let other = directory.path().join("letter");
    std::fs::write(&other, "Dear reader, this is no database.".repeat(100)).expect("there is room");

    for path in [&path, &other, &directory.path().join("nowhere/counters")] {
        let error = RedbStore::open(path, CommitDurability::Immediate).expect_err("it cannot be opened");

        let StoreError::Storage(text) = &error else { panic!("{error:?}") };
        assert!(text.contains(&*path.to_string_lossy()) && !text.contains('\n'), "{text}");
    }
}

const CHILD: &str = "RUSM_COUNTERS_CHILD";

/// Code of the child: counts and reports acknowledged values until it is killed.
#[test]
fn counts_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let runtime = runtime();
    let store = RedbStore::open(path, CommitDurability::Immediate).expect("the file opens");
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

        let store = RedbStore::open(&path, CommitDurability::Immediate).expect("the file opens");
        let has = store.slot("key", 0).expect("the key is valid").value();
        // The child counts 1,000 between two flushes.
        assert!((acknowledged..=acknowledged + 2_000).contains(&has), "{acknowledged} acknowledged, {has} stored");
    }
}
