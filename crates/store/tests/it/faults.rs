//! Disks that are full, fail or return wrong data; files that are damaged, already open, or belong to another
//! application. Each gives one clear error line.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};

use crate::disk::Disk;
use rusm_runtime::{Config, Runtime};
use rusm_store::{Durability, Store, StoreConfig, StoreError};

const LONG: Duration = Duration::from_mins(1);

fn store_on(disk: &Disk) -> Store {
    let disk = disk.clone();
    Store::open_on("a disk in memory", move || Ok(disk.clone()), StoreConfig::default()).unwrap()
}

/// Returns the error of opening a file, with its path replaced by `FILE`.
fn refusal(path: &Path) -> String {
    let said = Store::open(path, StoreConfig::default()).unwrap_err().to_string();
    assert!(said.contains(&*path.to_string_lossy()), "the error names the file: {said}");
    assert_eq!(said.lines().count(), 1);
    said.replace(&*path.to_string_lossy(), "FILE")
}

fn number(key: u64) -> [u8; 8] {
    key.to_be_bytes()
}

/// Retries a write until the store accepts it.
fn until_it_writes(store: &Store, key: u64) {
    let (bucket, started) = (store.bucket("a").unwrap(), Instant::now());
    while let Err(error) = bucket.put(number(key), "after").wait() {
        assert!(started.elapsed() < LONG, "still {error}");
        std::thread::yield_now();
    }
}

#[test]
fn a_full_disk_is_said_and_loses_nothing_and_the_store_goes_on_when_there_is_room() {
    let disk = Disk::default();
    let store = store_on(&disk);
    let bucket = store.bucket("a").unwrap();
    bucket.put(number(0), vec![0; 1000]).wait().unwrap();
    disk.set_room(Some(disk.len_now() + 100_000));

    let value = vec![7; 10_000];
    let mut acknowledged = 1;
    let error = loop {
        match bucket.put(number(acknowledged), value.clone()).wait() {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.to_string(), "the disk of the store is full");
    assert!(bucket.get(number(0)).wait().unwrap().is_some(), "it can be read while the disk is full");
    assert_eq!(store.report().last_error.as_deref(), Some("the disk of the store is full"));

    disk.set_room(None);
    until_it_writes(&store, u64::MAX);
    for key in 0..acknowledged {
        assert!(bucket.get(number(key)).wait().unwrap().is_some(), "{key} of {acknowledged}");
    }
    assert_eq!(bucket.get(number(acknowledged)).wait().unwrap(), None, "the failed write had no effect");
    assert!(store.report().failures_total >= 1);
}

#[test]
fn all_that_share_a_commit_hear_that_it_failed() {
    let disk = Disk::default();
    let store = store_on(&disk);
    let bucket = store.bucket("a").unwrap();
    bucket.put(number(0), "before").wait().unwrap();
    disk.close_gate();
    disk.fail_syncs(true);

    std::thread::scope(|scope| {
        let first = scope.spawn(|| bucket.put(number(1), "first").wait());
        disk.wait_for_a_sync();
        disk.open_gate();
        let said = first.join().unwrap().unwrap_err().to_string();
        assert_eq!(said, "the disk of the store failed: the disk does not answer");
    });
    disk.fail_syncs(false);
    until_it_writes(&store, 2);

    assert!(bucket.get(number(0)).wait().unwrap().is_some());
    assert!(store.report().is_open);
}

#[test]
fn weaker_writes_that_a_failure_undid_are_counted() {
    let disk = Disk::default();
    let store = store_on(&disk);
    let bucket = store.bucket("a").unwrap();
    bucket.put(number(0), "durable").wait().unwrap();
    for key in 1..=5 {
        bucket.put(number(key), "not durable").durability(Durability::None).wait().unwrap();
    }
    disk.fail_syncs(true);
    bucket.put(number(6), "durable").wait().unwrap_err();
    disk.fail_syncs(false);
    until_it_writes(&store, 7);

    let report = store.report();
    assert_eq!(report.undone_total, 5);
    let left = bucket.scan("", "", 100).wait().unwrap().rows.len() as u64;
    assert!(left >= 2, "the first and the last write");
    assert_eq!(report.buckets[0].keys, left);
}

#[test]
fn after_a_failure_weak_writes_are_synced_before_they_are_acknowledged() {
    let disk = Disk::default();
    let store = store_on(&disk);
    let bucket = store.bucket("a").unwrap();
    loop {
        let started = Instant::now();
        disk.fail_syncs(true);
        bucket.put(number(0), "durable").wait().unwrap_err();
        disk.fail_syncs(false);
        until_it_writes(&store, 1);
        disk.fail_syncs(true);

        let weak = bucket.put(number(2), "weak").durability(Durability::Eventual).wait();

        disk.fail_syncs(false);
        // On a machine that is slower than this the store may trust its disk again.
        if started.elapsed() < Duration::from_secs(5) {
            weak.unwrap_err();
            break;
        }
        until_it_writes(&store, 3);
    }
    assert_eq!(store.report().undone_total, 0);
}

#[test]
fn a_store_is_open_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.redb");
    let store = Store::open(&path, StoreConfig::default()).unwrap();

    assert_eq!(refusal(&path), "FILE is already open, in this process or in another one");

    store.close();
    drop(Store::open(&path, StoreConfig::default()).unwrap());
}

#[test]
fn a_place_that_cannot_be_written_is_said() {
    // Nothing can create a file there, not even root.
    assert_eq!(refusal(Path::new("/sys/rusm.redb")), "cannot access FILE: Permission denied (os error 13)");
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(
        refusal(&directory.path().join("missing/a.redb")),
        "cannot open FILE: No such file or directory (os error 2)"
    );
    assert_eq!(refusal(directory.path()), "cannot open FILE: Is a directory (os error 21)");
}

#[test]
fn a_disk_without_room_for_a_new_store_is_said() {
    let disk = Disk::default();
    disk.set_room(Some(1000));

    let said = Store::open_on("a.redb", move || Ok(disk.clone()), StoreConfig::default()).unwrap_err().to_string();

    assert_eq!(said, "the disk of a.redb is full: no storage space");
}

#[test]
fn a_file_that_is_damaged_is_said_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    fs::write(&text, "no store at all, but somebody's notes").unwrap();
    assert!(refusal(&text).starts_with("FILE is not a store or is damaged: "), "{}", refusal(&text));
    assert_eq!(fs::read_to_string(&text).unwrap(), "no store at all, but somebody's notes");

    let cut_off = directory.path().join("cut_off.redb");
    filled(&cut_off);
    let length = fs::metadata(&cut_off).unwrap().len();
    fs::OpenOptions::new().write(true).open(&cut_off).unwrap().set_len(length / 4).unwrap();
    let store = Store::open(&cut_off, StoreConfig::default()).unwrap();
    assert!(!store.damage().unwrap().is_empty());
    let said = store.bucket("a").unwrap().put("key", "value").wait().unwrap_err().to_string();
    let command = format!("run `rusm store repair {}`", cut_off.display());
    assert_eq!(said, format!("the store is damaged, so it accepts no writes: {command}"));
    drop(store);

    for len in [1, 100, 4095] {
        fs::OpenOptions::new().write(true).open(&cut_off).unwrap().set_len(len).unwrap();
        assert!(refusal(&cut_off).starts_with("FILE is not a store or is damaged: "), "{}", refusal(&cut_off));
    }
    fs::OpenOptions::new().write(true).open(&cut_off).unwrap().set_len(0).unwrap();
    assert_eq!(
        refusal(&cut_off),
        "FILE is empty (0 bytes), so it is not a store: restore it from a copy, or remove it to create a new store"
    );
    assert_eq!(fs::metadata(&cut_off).unwrap().len(), 0, "it is left as it is");
}

#[test]
fn a_pipe_is_neither_a_store_nor_a_journal() {
    let directory = tempfile::tempdir().unwrap();
    let make = |path: &Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let pipe = directory.path().join("pipe.redb");
    make(&pipe);
    assert_eq!(refusal(&pipe), "FILE is not a regular file but a pipe: choose another path");

    let path = directory.path().join("a.redb");
    drop(Store::open(&path, StoreConfig::default()).unwrap());
    make(&directory.path().join("a.redb-journal"));
    assert!(refusal(&path).ends_with("FILE-journal is not a regular file but a pipe"), "{}", refusal(&path));
    fs::remove_file(&path).unwrap();
    assert!(refusal(&path).ends_with("FILE-journal is not a regular file but a pipe"), "{}", refusal(&path));
    assert!(!path.exists());
}

/// Damage after the file was opened: pages that are read again are verified.
#[test]
fn damage_under_an_open_store_is_never_read_as_data() {
    let disk = Disk::default();
    let own = disk.clone();
    // The cache is so small that pages are read again.
    let config = StoreConfig { cache_bytes: 1, ..StoreConfig::default() };
    let store = Store::open_on("a disk in memory", move || Ok(own.clone()), config).unwrap();
    let bucket = store.bucket("a").unwrap();
    for key in 0..200 {
        bucket.put(number(key), vec![key as u8; 1000]).wait().unwrap();
    }
    let value = [77; 1000];
    let image = disk.bytes(0, disk.len_now());
    for at in (0..image.len() - 1000).filter(|at| image[*at..*at + 1000] == value) {
        disk.flip(at + 500);
    }

    let started = Instant::now();
    loop {
        match bucket.get(number(77)).wait() {
            Ok(found) => assert!(found.is_some_and(|found| found[..] == value), "{:?}", started.elapsed()),
            Err(StoreError::Damaged(damage)) => {
                assert!(damage.bucket.as_deref() == Some("a") && damage.range.contains(&number(77)));
                break;
            }
            Err(_) => assert!(started.elapsed() < LONG),
        }
    }
    assert!(bucket.get(number(10)).wait().unwrap().is_some(), "the rest is readable");
    assert!(matches!(bucket.put("b", "c").wait(), Err(StoreError::ReadOnly(_))));
}

/// Damage at any place: it is detected when the store is opened or read, or it hit unused bytes.
#[test]
fn damage_inside_is_an_error_and_never_the_end_of_the_node() {
    let directory = tempfile::tempdir().unwrap();
    let sound = directory.path().join("sound.redb");
    filled(&sound);
    let bytes = fs::read(&sound).unwrap();

    let mut noticed = 0;
    for place in 0..24 {
        let path = directory.path().join(format!("{place}.redb"));
        let mut damaged = bytes.clone();
        let from = 4096 * place + 17;
        damaged[from..from + 512].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fs::write(&path, damaged).unwrap();
        let Ok(store) = Store::open(&path, StoreConfig::default()) else {
            noticed += 1;
            continue;
        };
        let bucket = store.bucket("a").unwrap();
        let reads = (0..200).all(|key| bucket.get(number(key)).wait().is_ok());
        let writes = (0..200).all(|key| bucket.put(number(key), "new").wait().is_ok());
        noticed += u32::from(!(reads && writes));
    }
    assert!(noticed > 0);
}

fn filled(path: &Path) {
    let store = Store::open(path, StoreConfig::default()).unwrap();
    let bucket = store.bucket("a").unwrap();
    let fill = store.transaction(move |tx| (0..200).try_for_each(|key| tx.put(&bucket, number(key), vec![7; 1000])));
    fill.wait().unwrap();
}

#[test]
fn files_of_newer_versions_and_of_others_are_told_from_damage() {
    const FORMATS: redb::TableDefinition<'_, (), u64> = redb::TableDefinition::new("rusm.format");
    const OTHERS: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("invoices");
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, code: &dyn Fn(&redb::WriteTransaction)| {
        let path = directory.path().join(name);
        let database = redb::Database::create(&path).unwrap();
        let txn = database.begin_write().unwrap();
        code(&txn);
        txn.commit().unwrap();
        path
    };

    let newer = write("newer.redb", &|txn| drop(txn.open_table(FORMATS).unwrap().insert((), 7).unwrap()));
    assert_eq!(refusal(&newer), "FILE has format 7, but this version supports only formats up to 1");
    let others = write("others.redb", &|txn| drop(txn.open_table(OTHERS).unwrap().insert("a", 1).unwrap()));
    assert_eq!(refusal(&others), "FILE belongs to another application: it has the table `invoices`");

    // The format version of redb itself is at the start of both its commit slots.
    let of_newer_redb = directory.path().join("redb.redb");
    filled(&of_newer_redb);
    let mut bytes = fs::read(&of_newer_redb).unwrap();
    assert_eq!((bytes[64], bytes[192]), (3, 3));
    (bytes[64], bytes[192]) = (9, 9);
    fs::write(&of_newer_redb, bytes).unwrap();
    assert_eq!(refusal(&of_newer_redb), "FILE has format 9, but this version supports only formats up to 3");
}

#[test]
fn an_error_of_the_store_can_be_told_by_its_kind() {
    let disk = Disk::default();
    let store = store_on(&disk);

    assert!(matches!(store.bucket(""), Err(StoreError::Name(_))));
}

#[test]
fn a_store_whose_last_handle_goes_with_a_transaction_ends_by_itself() {
    let disk = Disk::default();
    let own = disk.clone();
    let store = Store::open_on("a disk in memory", move || Ok(own.clone()), StoreConfig::default()).unwrap();
    let bucket = store.bucket("a").unwrap();
    let write = store.transaction(move |tx| tx.put(&bucket, "key", "value"));
    drop(store);

    write.wait().unwrap();

    let store = Store::open_on("the same disk", move || Ok(disk.clone()), StoreConfig::default()).unwrap();
    assert_eq!(store.bucket("a").unwrap().get("key").wait().unwrap().as_deref(), Some(&b"value"[..]));
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_panic_of_what_a_transaction_gave_to_nobody_does_not_end_the_store() {
    let disk = Disk::default();
    let store = store_on(&disk);
    let bucket = store.bucket("a").unwrap();
    disk.close_gate();

    std::thread::scope(|scope| {
        let first = scope.spawn(|| bucket.put("a", "1").wait());
        disk.wait_for_a_sync();
        let mut write = store.transaction(|_| Ok::<_, StoreError>(Bomb));
        let polled = Future::poll(Pin::new(&mut write), &mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        drop(write);
        disk.open_gate();
        first.join().unwrap().unwrap();
    });

    bucket.put("b", "2").wait().unwrap();
}

/// An error type that panics when it is converted from a [`StoreError`].
#[derive(Debug)]
struct Picky;

impl From<StoreError> for Picky {
    fn from(error: StoreError) -> Self {
        panic!("not of {error}");
    }
}

#[test]
fn a_panic_of_an_error_that_is_converted_does_not_end_the_store() {
    let disk = Disk::default();
    let store = store_on(&disk);
    disk.fail_syncs(true);

    let (writing, bucket) = (store.clone(), store.bucket("a").unwrap());
    let write = std::thread::spawn(move || {
        let puts = writing.transaction(move |tx| {
            tx.put(&bucket, "x", "y").unwrap();
            Ok::<_, Picky>(())
        });
        puts.wait().is_ok()
    });
    assert!(write.join().is_err(), "the waiting thread panics, too");
    disk.fail_syncs(false);

    until_it_writes(&store, 0);
}

#[test]
fn reads_come_back_by_themselves_after_one_that_failed() {
    let disk = Disk::default();
    let own = disk.clone();
    let config = StoreConfig { cache_bytes: 1, ..StoreConfig::default() };
    let store = Store::open_on("a disk in memory", move || Ok(own.clone()), config).unwrap();
    let bucket = store.bucket("a").unwrap();
    for key in 0..500 {
        bucket.put(number(key), vec![0; 500]).durability(Durability::None).wait().unwrap();
    }
    store.sync().wait().unwrap();

    disk.fail_reads(true);
    let failed = bucket.get(number(7)).wait().unwrap_err().to_string();
    disk.fail_reads(false);

    assert_eq!(failed, "the disk of the store failed: the disk does not answer");
    let started = Instant::now();
    loop {
        match bucket.get(number(7)).wait() {
            Ok(value) => break assert_eq!(value.map(|value| value.len()), Some(500)),
            Err(error) => assert!(started.elapsed() < LONG, "still {error}"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_store_that_was_slow_is_found_to_be_quick_again() {
    const KEYS: u64 = 100;
    const READS: u32 = 5_000;
    let disk = Disk::default();
    let store = store_on(&disk);
    for key in 0..KEYS {
        store.bucket("a").unwrap().put(number(key), vec![0; 500]).durability(Durability::None).wait().unwrap();
    }
    store.close();
    drop(store);
    disk.slow_reads(Duration::from_millis(1));
    let store = store_on(&disk);
    let bucket = store.bucket("a").unwrap();
    for key in 0..KEYS {
        assert!(bucket.get(number(key)).wait().unwrap().is_some());
    }
    disk.slow_reads(Duration::ZERO);

    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let (away, read_away) = (Arc::new(AtomicU32::new(0)), store.report().slow_reads_total);
    let counted = Arc::clone(&away);
    let reader = runtime.spawn(move |_| async move {
        for round in 0..READS {
            let mut read = bucket.get(number(u64::from(round) % KEYS));
            let mut is_first = true;
            let value = std::future::poll_fn(|cx| {
                let polled = Pin::new(&mut read).poll(cx);
                counted.fetch_add(u32::from(polled.is_pending() && is_first), Relaxed);
                is_first = false;
                polled
            });
            assert!(value.await.unwrap().is_some());
        }
    });

    runtime.wait(reader.unwrap());
    assert_eq!(store.report().slow_reads_total, read_away, "every page was in the cache");
    let away = away.load(Relaxed);
    assert!((1..READS / 2).contains(&away), "{away} of {READS} reads on another thread");
}

#[test]
fn who_closes_a_store_once_more_waits_for_what_is_written() {
    let disk = Disk::default();
    let store = store_on(&disk);
    let bucket = store.bucket("a").unwrap();
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    disk.close_gate();

    std::thread::scope(|scope| {
        let write = scope.spawn(|| bucket.put("a", "1").wait());
        disk.wait_for_a_sync();
        let closing = store.clone();
        let (tell, told) = mpsc::channel();
        let tells = tell.clone();
        let first = runtime.spawn(move |_| async move {
            closing.close();
            tells.send(0).unwrap();
        });
        first.unwrap();
        assert_eq!(told.recv(), Ok(0), "a process does not wait for the store to close");
        let (store, disk) = (&store, &disk);
        scope.spawn(move || {
            store.close();
            tell.send(disk.syncs()).unwrap();
        });
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "closed although a write waits for the disk");
        disk.open_gate();
        assert!(told.recv().unwrap() > 0);
        write.join().unwrap().unwrap();
    });
}
