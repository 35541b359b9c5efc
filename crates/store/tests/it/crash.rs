//! State of a store after a crash: of the node, by `kill -9`, and of the whole machine, by a power cut.
//!
//! The page cache survives a killed process, so these tests show whether commits are atomic. A disk that loses
//! everything that was not synced shows whether an acknowledgement came too early.

#![expect(clippy::print_stdout, reason = "prints the number of cases, which is part of the result")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

use crate::disk::Disk;
use parking_lot::Mutex;
use rusm_fuzz::splitmix64;
use rusm_store::{Bucket, Durability, Store, StoreConfig, StoreError};

/// Path of the child's store. The child tests do nothing when it is not set.
const CHILD_PATH: &str = "RUSM_STORE_CHILD_PATH";
/// Directory in which the second kind of child creates stores.
const BIRTHS_PATH: &str = "RUSM_STORE_BIRTHS_PATH";
/// Number of times that a child is killed; 30 by default.
const KILLS: &str = "RUSM_STORE_KILLS";
/// Number of power cuts; 60 by default.
const CUTS: &str = "RUSM_STORE_CUTS";

/// Number of seeds with failing writes and syncs; 1,000 by default.
const FAULTS: &str = "RUSM_STORE_FAULTS";

/// Every tenth write of the eventual writer is durable immediately.
const PERIOD: u64 = 10;

fn times(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Kind of the writes of one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Writes one key, durably.
    Put,
    /// Writes the same key to two buckets in one durable transaction.
    Pair,
    /// Writes one key with eventual durability; every tenth write is durable immediately.
    Eventual,
    /// Writes one key without durability; every tenth write is durable immediately.
    Volatile,
}

const KINDS: [Kind; 4] = [Kind::Put, Kind::Pair, Kind::Eventual, Kind::Volatile];

impl Kind {
    fn buckets(self, store: &Store) -> (Bucket, Bucket) {
        let names = match self {
            Self::Put => ("put", "put"),
            Self::Pair => ("left", "right"),
            Self::Eventual => ("eventual", "eventual"),
            Self::Volatile => ("volatile", "volatile"),
        };
        (store.bucket(names.0).unwrap(), store.bucket(names.1).unwrap())
    }

    fn write(self, store: &Store, number: u64) -> Result<(), StoreError> {
        let (left, right) = self.buckets(store);
        let (key, value) = (number.to_be_bytes(), vec![number as u8; 100 + number as usize % 400]);
        match self {
            Self::Put => left.put(key, value).wait(),
            Self::Pair => store
                .transaction(move |tx| {
                    tx.put(&left, key, value.clone())?;
                    tx.put(&right, key, value)
                })
                .wait(),
            Self::Eventual | Self::Volatile => {
                let is_durable = number % PERIOD == PERIOD - 1;
                let weaker = if self == Self::Eventual { Durability::Eventual } else { Durability::None };
                let durability = if is_durable { Durability::Immediate } else { weaker };
                left.put(key, value).durability(durability).wait()
            }
        }
    }

    /// Returns the number of acknowledged writes that must survive.
    const fn safe(self, acknowledged: u64) -> u64 {
        match self {
            Self::Put | Self::Pair => acknowledged,
            Self::Eventual | Self::Volatile => acknowledged / PERIOD * PERIOD,
        }
    }
}

/// Returns the number of keys in a bucket; asserts that they are the numbers from 0 on without a gap.
fn count(bucket: &Bucket) -> u64 {
    let (mut next, mut after) = (0_u64, bytes::Bytes::new());
    loop {
        let page = bucket.scan("", &after, 1000).wait().unwrap();
        for row in page.rows {
            assert_eq!(row.key, next.to_be_bytes()[..], "{}: a hole", bucket.name());
            assert_eq!(row.value.len(), 100 + next as usize % 400);
            assert!(row.value.iter().all(|byte| *byte == next as u8), "{}: {next} is torn", bucket.name());
            next += 1;
        }
        match page.next {
            Some(next) => after = next,
            None => return next,
        }
    }
}

/// Counts the keys of each kind after a crash; asserts that no acknowledged write is missing.
fn check(store: &Store, acknowledged: &BTreeMap<Kind, u64>, when: &str) -> BTreeMap<Kind, u64> {
    let found = |kind: Kind| {
        let (left, right) = kind.buckets(store);
        let found = count(&left);
        assert_eq!(found, count(&right), "{when}: a transaction was applied in part");
        let acknowledged = acknowledged.get(&kind).copied().unwrap_or(0);
        assert!(found >= kind.safe(acknowledged), "{when}: {kind:?} has {found} of {acknowledged} acknowledged");
        (kind, found)
    };
    let found = KINDS.map(found).into();
    for bucket in store.report().buckets {
        assert_eq!(bucket.keys, count(&store.bucket(&bucket.name).unwrap()), "{when}: keys of {}", bucket.name);
    }
    found
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let (mut seed, mut acknowledged) = (9, BTreeMap::new());
    let mut written = 0;

    for round in 0..times(KILLS, 30) {
        // Every round reads the whole store, so start a new file now and then.
        if round % 50 == 0 {
            written += acknowledged.values().sum::<u64>();
            acknowledged.clear();
        }
        let path = directory.path().join(format!("killed-{}.redb", round / 50));
        let child = kill_after(&path, 1 + splitmix64(&mut seed) % 200);
        for (kind, count) in child {
            acknowledged.insert(kind, count);
        }
        let store = Store::open(&path, StoreConfig::default()).unwrap();
        let found = check(&store, &acknowledged, &format!("after kill {round}"));
        acknowledged = found;
    }

    written += acknowledged.values().sum::<u64>();
    println!("{} kills, {written} writes found again", times(KILLS, 30));
    assert!(acknowledged.values().all(|count| *count > 0), "{acknowledged:?}");
}

/// Kills a child once it has acknowledged `lines` writes. Returns the number of acknowledged writes of each kind,
/// including those still in the pipe.
fn kill_after(path: &Path, lines: u64) -> BTreeMap<Kind, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::a_child_writes_until_it_is_killed", "--nocapture"])
        .env(CHILD_PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut acknowledged, mut heard) = (BTreeMap::new(), 0);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The last line may be incomplete.
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (Some("ack"), Some(kind), Some(number), Some(".")) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let kind = KINDS[kind.parse::<usize>().unwrap()];
        acknowledged.insert(kind, number.parse::<u64>().unwrap() + 1);
        heard += 1;
        if heard == lines {
            // SIGKILL. Lines that are already in the pipe still count.
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(heard >= lines, "the child ended by itself after {heard} lines");
    acknowledged
}

#[test]
fn a_child_writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD_PATH) else { return };
    let store = Store::open(path, StoreConfig::default()).unwrap();
    std::thread::scope(|scope| {
        for (place, kind) in KINDS.into_iter().enumerate() {
            let store = &store;
            scope.spawn(move || {
                for number in count(&kind.buckets(store).0).. {
                    kind.write(store, number).unwrap();
                    let line = format!("ack {place} {number} .\n");
                    // Write the line in one call, past the buffer of the test harness.
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_file_that_was_being_made_is_opened_after_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..times(KILLS, 30) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::a_child_makes_files_until_it_is_killed", "--nocapture"])
            .env(BIRTHS_PATH, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let made = lines.map(Result::unwrap).filter(|line| line.ends_with(" made."));
        assert_eq!(made.take(1 + round as usize % 3).count(), 1 + round as usize % 3);
        // Let the child get some way into creating the next file.
        std::thread::park_timeout(Duration::from_micros(100 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let paths: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "redb")) {
            Store::open(path, StoreConfig::default()).unwrap().bucket("a").unwrap().put("b", "c").wait().unwrap();
        }
        // Remove journals as well, but only after their stores were opened, and temporary files that were not renamed
        // yet.
        for path in paths {
            let _gone = std::fs::remove_file(path);
        }
    }
}

#[test]
fn a_child_makes_files_until_it_is_killed() {
    let Some(directory) = std::env::var_os(BIRTHS_PATH) else { return };
    for number in 0.. {
        drop(Store::open(Path::new(&directory).join(format!("{number}.redb")), StoreConfig::default()).unwrap());
        std::io::stdout().lock().write_all(format!("{number} made.\n").as_bytes()).unwrap();
    }
}

#[test]
fn of_those_who_make_a_file_at_once_one_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new.redb");
    let (start, end) = (Barrier::new(4), Barrier::new(4));

    let opened = std::thread::scope(|scope| {
        let open = || {
            start.wait();
            let opened = Store::open(&path, StoreConfig::default());
            end.wait();
            opened.map(drop).map_err(|error| error.to_string())
        };
        [(); 4].map(|()| scope.spawn(open)).map(|thread| thread.join().unwrap())
    });

    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1, "{opened:?}");
    let mut refused = opened.iter().filter_map(|opened| opened.as_ref().err());
    assert!(refused.all(|error| error.contains("is already open")), "{opened:?}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["new.redb"]);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut() {
    power_cuts(times(CUTS, 60), |disk, _| {
        let disk = disk.clone();
        Store::open_on("a disk in memory", move || Ok(disk.clone()), StoreConfig::default()).unwrap()
    });
}

#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut_with_a_journal() {
    power_cuts(times(CUTS, 60) / 4, |disk, journal| {
        let (disk, journal) = (disk.clone(), journal.clone());
        let storage = move || Ok(disk.clone());
        let journal = move || Ok(journal.clone());
        Store::open_on_with_journal("a disk in memory", storage, journal, StoreConfig::default()).unwrap()
    });
}

/// Repeatedly cuts the power of a store's file and of its journal.
fn power_cuts(rounds: u64, open: impl Fn(&Disk, &Disk) -> Store) {
    for round in 0..rounds {
        let mut seed = round;
        let mut acknowledged = BTreeMap::new();
        let (mut disk, cuts) = (Disk::default(), 1 + splitmix64(&mut seed) % 3);
        let mut journal = disk.beside();
        for cut in 0..cuts {
            let store = open(&disk, &journal);
            let when = format!("round {round}, after cut {cut}");
            acknowledged = check(&store, &acknowledged, &when);
            disk.die_after(splitmix64(&mut seed) % 2000);
            write_until_it_fails(&store, &mut acknowledged);
            store.close();
            // Share of the unsynced writes that survives, from none to all.
            let share = [0, 10, 50, 90, 100][(splitmix64(&mut seed) % 5) as usize];
            let mut survives = || splitmix64(&mut seed) % 100 < share;
            let left = disk.cut(&mut survives);
            journal = journal.cut(survives).wired_to(&left);
            disk = left;
        }

        let store = open(&disk, &journal);
        let found = check(&store, &acknowledged, &format!("round {round}, at the end"));
        for (kind, count) in found {
            kind.write(&store, count).unwrap();
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_writes_and_syncs_fail() {
    let (seeds, threads) = (times(FAULTS, 1000), 4);
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || (first..seeds).step_by(threads as usize).for_each(fail_writes_and_syncs));
        }
    });
    println!("{seeds} seeds of failing writes and syncs");
}

/// Writes to a disk on which some writes and syncs fail, cuts its power, and checks what is left.
fn fail_writes_and_syncs(seed: u64) {
    let (mut state, mut acknowledged) = (seed, BTreeMap::new());
    let disk = Disk::default();
    let journal = disk.beside();
    // Use a journal, as every store on a real file has one: after a failed sync the disk drops the pages, and only the
    // journal still has them.
    let open = |disk: &Disk, journal: &Disk| {
        let (disk, journal) = (disk.clone(), journal.clone());
        let (disk, journal) = (move || Ok(disk.clone()), move || Ok(journal.clone()));
        Store::open_on_with_journal("a disk in memory", disk, journal, StoreConfig::default()).unwrap()
    };
    let store = open(&disk, &journal);
    disk.fail_now_and_then(seed, 5 + splitmix64(&mut state) % 200);
    let until = 20 + splitmix64(&mut state) % 200;
    let mut next = [0; KINDS.len()];
    for _ in 0..until {
        let place = (splitmix64(&mut state) % KINDS.len() as u64) as usize;
        // Repeat a write that failed: the numbers must stay without a gap.
        if KINDS[place].write(&store, next[place]).is_ok() {
            next[place] += 1;
        }
    }
    disk.fail_never();
    for (kind, next) in KINDS.into_iter().zip(next) {
        acknowledged.insert(kind, next);
    }
    store.close();
    drop(store);
    let (left, journal) = (
        disk.cut(|| splitmix64(&mut state).is_multiple_of(2)),
        journal.cut(|| splitmix64(&mut state).is_multiple_of(2)),
    );
    let store = open(&left, &journal.wired_to(&left));
    let damage = store.damage().unwrap();
    assert!(damage.is_empty(), "seed {seed}: {}", damage[0]);
    // Non-durable writes may be undone, which leaves gaps, so check only the durable kinds.
    for kind in [Kind::Put, Kind::Pair] {
        let (left, right) = kind.buckets(&store);
        let (found, acknowledged) = (count(&left), acknowledged[&kind]);
        assert_eq!(found, count(&right), "seed {seed}: a transaction was applied in part");
        assert!(found >= acknowledged, "seed {seed}: {kind:?} has {found} of {acknowledged}");
    }
}

/// Writes with all kinds concurrently until the disk fails.
fn write_until_it_fails(store: &Store, acknowledged: &mut BTreeMap<Kind, u64>) {
    let counts = Mutex::new(acknowledged);
    std::thread::scope(|scope| {
        for kind in KINDS {
            let counts = &counts;
            scope.spawn(move || {
                let first = counts.lock().get(&kind).copied().unwrap_or(0);
                let failed = (first..u64::MAX).find(|number| kind.write(store, *number).is_err());
                counts.lock().insert(kind, failed.unwrap());
            });
        }
    });
}
