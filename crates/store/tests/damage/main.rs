//! Damage in the files of a store: flipped bits and truncated files, after the store was closed or killed.
//!
//! A model of the acknowledged writes judges every case: a read returns the right value or an error that names the
//! damaged part, but never a wrong value and never "not found".

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]
#![expect(clippy::print_stdout, reason = "prints each failed case and a summary")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use rusm_fuzz::{Fuzz, splitmix64};
use rusm_store::inspection::Inspection;
use rusm_store::{Durability, Store, StoreConfig, StoreError};

/// Number of flipped bits; a quarter as many files are truncated.
const CASES: &str = "RUSM_DAMAGE_CASES";
/// Seed of the cases; it is printed.
const SEED: &str = "RUSM_DAMAGE_SEED";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts the panics that are shown; the runtime's hook passes on only those.
fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Relaxed);
            before(info);
        }));
    });
}

/// Acknowledged rows of each bucket.
type Model = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

const BUCKETS: [&str; 3] = ["accounts", "sessions", "topic/orders"];

/// Writes to every bucket in commits of many kinds and records the acknowledged rows.
fn fill(store: &Store, model: &mut Model, from: u64, rounds: u64) {
    for round in from..from + rounds {
        for (place, name) in BUCKETS.into_iter().enumerate() {
            let (bucket, rows) = (store.bucket(name).unwrap(), model.entry(name).or_default());
            let mut seed = round * 3 + place as u64;
            let batch: Vec<(Vec<u8>, Vec<u8>)> = (0..12)
                .map(|_| {
                    let key = format!("key {:05}", splitmix64(&mut seed) % 900).into_bytes();
                    let large = if splitmix64(&mut seed).is_multiple_of(40) { 9_000 } else { 300 };
                    (key, vec![seed as u8; (splitmix64(&mut seed) % large) as usize])
                })
                .collect();
            rows.extend(batch.iter().cloned());
            let gone = rows.keys().nth(round as usize % rows.len()).cloned().unwrap();
            rows.remove(&gone);
            let expires = place == 1;
            let write = store.transaction(move |tx| -> Result<(), StoreError> {
                for (key, value) in batch {
                    if expires {
                        tx.put_for(&bucket, key, value, Duration::from_hours(1))?;
                    } else {
                        tx.put(&bucket, key, value)?;
                    }
                }
                tx.delete(&bucket, gone)
            });
            write.durability(Durability::Immediate).wait().unwrap();
        }
    }
}

/// Undamaged files of a store, either closed or as a kill leaves them, with the acknowledged rows.
struct Sound {
    files: Vec<(PathBuf, Vec<u8>)>,
    model: Model,
}

fn closed(directory: &Path) -> Sound {
    let (path, mut model) = (directory.join("sound.redb"), Model::default());
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    fill(&store, &mut model, 0, 40);
    store.close();
    Sound { files: vec![("case.redb".into(), fs::read(path).unwrap())], model }
}

/// Returns both files as they are in the page cache, of a store that was opened twice.
fn killed(directory: &Path) -> Sound {
    let (path, mut model) = (directory.join("sound.redb"), Model::default());
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    fill(&store, &mut model, 0, 40);
    store.close();
    drop(store);
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    fill(&store, &mut model, 40, 6);
    let journal = fs::read(directory.join("sound.redb-journal")).unwrap();
    let used = journal.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert!(used > 100_000, "{used}");
    let file = fs::read(&path).unwrap();
    Sound { files: vec![("case.redb".into(), file), ("case.redb-journal".into(), journal)], model }
}

/// Number of cases by outcome.
#[derive(Debug, Default)]
struct Tally {
    unaffected: u64,
    refused: u64,
    damaged: u64,
    wrong: u64,
    lost: u64,
    panics: u64,
}

impl Sound {
    /// Writes the files, applies one change to them, opens the store and checks all reads.
    fn judge(&self, directory: &Path, tally: &mut Tally, what: &str, change: impl FnOnce(&Path)) {
        let path = directory.join("case.redb");
        let _none = fs::remove_file(directory.join("case.redb-journal"));
        for (name, bytes) in &self.files {
            fs::write(directory.join(name), bytes).unwrap();
        }
        change(directory);
        let before = PANICS.load(Relaxed);
        match Store::open(&path, StoreConfig::default()) {
            Err(error) => {
                let said = error.to_string();
                assert!(said.lines().count() == 1 && said.contains("case.redb"), "{what}: {said}");
                tally.refused += 1;
            }
            Ok(store) => {
                let damage = store.damage().unwrap();
                let errors = self.read(&store, tally, what);
                assert!(damage.is_empty() || !matches!(write(&store), Ok(())), "{what}: a damaged store is writable");
                if damage.is_empty() {
                    assert_eq!(errors, 0, "{what}: errors in an undamaged store");
                    write(&store).unwrap();
                    store.close();
                    drop(store);
                    let again = Store::open(&path, StoreConfig::default()).unwrap();
                    assert_eq!((self.read(&again, tally, what), again.damage().unwrap().len()), (0, 0), "{what}");
                    tally.unaffected += 1;
                } else {
                    tally.damaged += 1;
                    store.close();
                }
            }
        }
        tally.panics += PANICS.load(Relaxed) - before;
    }

    /// Reads every key separately and scans each bucket; returns the number of failed reads.
    fn read(&self, store: &Store, tally: &mut Tally, what: &str) -> u64 {
        let mut errors = 0;
        for (name, rows) in &self.model {
            let bucket = store.bucket(name).unwrap();
            let absent = (0..20).map(|key| format!("key {key:05}x").into_bytes());
            for key in rows.keys().cloned().chain(absent) {
                match (bucket.get(&key).wait(), rows.get(&key)) {
                    (Ok(found), expected) if found.as_deref() == expected.map(|value| &**value) => {}
                    (Ok(None), Some(_)) => {
                        println!("{what}: {name} {} is lost", key.escape_ascii());
                        tally.lost += 1;
                    }
                    (Ok(_), _) => {
                        println!("{what}: {name} {} is wrong", key.escape_ascii());
                        tally.wrong += 1;
                    }
                    (Err(StoreError::Damaged(damage)), _) => {
                        assert_eq!(damage.bucket.as_deref(), Some(*name));
                        assert!(damage.range.contains(&key), "{what}: {damage} does not cover {}", key.escape_ascii());
                        errors += 1;
                    }
                    (Err(error), _) => panic!("{what}: {error}"),
                }
            }
            errors += scan(&bucket, rows, tally, what);
        }
        errors
    }
}

fn write(store: &Store) -> Result<(), StoreError> {
    store.bucket("another").unwrap().put("key", "value").wait()
}

fn scan(bucket: &rusm_store::Bucket, rows: &BTreeMap<Vec<u8>, Vec<u8>>, tally: &mut Tally, what: &str) -> u64 {
    let (mut after, mut errors, mut expected) = (Bytes::new(), 0, rows.clone());
    loop {
        match bucket.scan("", &after, 100).wait() {
            Ok(page) => {
                for row in page.rows {
                    if expected.remove(&*row.key).as_deref() != Some(&*row.value) {
                        println!("{what}: {} {} is wrong in a scan", bucket.name(), row.key.escape_ascii());
                        tally.wrong += 1;
                    }
                }
                match page.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
            Err(StoreError::Damaged(damage)) => {
                errors += 1;
                expected.retain(|key, _| !damage.range.contains(key));
                // Continue the scan at the end of the damaged range.
                match damage.range.upto {
                    Some(upto) => after = upto.into(),
                    None => break,
                }
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }
    if !expected.is_empty() {
        println!("{what}: {} lacks {} rows in a scan", bucket.name(), expected.len());
    }
    tally.lost += expected.len() as u64;
    errors
}

fn flip(path: &Path, bit: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit / 8).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (bit % 8))], bit / 8).unwrap();
}

fn run(name: &str, sound: &Sound, flips: u64, cuts: u64) {
    count_panics();
    let directory = tempfile::tempdir().unwrap();
    let seed = number(SEED, 1);
    let mut state = seed;
    let mut tally = Tally::default();
    for case in 0..flips {
        // Every tenth flip hits the header or the label: they are small, and their bits matter most.
        let place = (splitmix64(&mut state) % 3) as usize % sound.files.len();
        let (file, bytes) = &sound.files[place];
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        let within = if case % 10 == 0 { 4096 } else { used };
        let bit = splitmix64(&mut state) % (within * 8);
        let what = format!("{name}, seed {seed}, case {case}: bit {bit} of {}", file.display());
        sound.judge(directory.path(), &mut tally, &what, |directory| flip(&directory.join(file), bit));
    }
    for case in 0..cuts {
        let place = (splitmix64(&mut state) % 3) as usize % sound.files.len();
        let (file, bytes) = &sound.files[place];
        let len = if case == 0 { 0 } else { splitmix64(&mut state) % bytes.len() as u64 };
        let what = format!("{name}, seed {seed}, case {case}: {} cut to {len}", file.display());
        sound.judge(directory.path(), &mut tally, &what, |directory| {
            OpenOptions::new().write(true).open(directory.join(file)).unwrap().set_len(len).unwrap();
        });
    }
    println!("{name}, seed {seed}: {flips} flips, {cuts} cuts: {tally:?}");
    assert_eq!((tally.wrong, tally.lost, tally.panics), (0, 0, 0), "{tally:?}");
    assert!(tally.unaffected > 0 && tally.damaged > 0, "{tally:?}");
}

#[test]
fn damage_of_a_closed_store_is_never_read_as_data() {
    let directory = tempfile::tempdir().unwrap();
    let cases = number(CASES, 150);
    run("closed", &closed(directory.path()), cases / 2, cases / 8);
}

#[test]
fn damage_of_a_killed_store_is_never_read_as_data() {
    let directory = tempfile::tempdir().unwrap();
    let cases = number(CASES, 150);
    run("killed", &killed(directory.path()), cases / 2, cases / 8);
}

/// Mutates one of the files of a store and leaves the other one unchanged. [`run`] covers truncated files.
///
/// Zeroing a whole record at the end of a journal is not tested: it looks like a record that was never written.
fn fuzz(name: &'static str, sound: &Sound, place: usize) {
    count_panics();
    let directory = tempfile::tempdir().unwrap();
    let (file, bytes) = &sound.files[place];
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut tally = Tally::default();
    let target = Fuzz::new(name).seed(&bytes[..used]).words(&["rusmlbl1", "rusmjrn2", "rusmsess", "redb\u{1a}\n"]);
    target.cases(60).run(|input| {
        let rest = bytes.get(input.len()..).unwrap_or_default();
        let changed = [input, rest].concat();
        sound.judge(directory.path(), &mut tally, name, |directory| {
            fs::write(directory.join(file), changed).unwrap();
            let inspected = Inspection::open(directory.join("case.redb"));
            drop(inspected.map(|inspection| inspection.check().and_then(|_| inspection.export(&mut |_| Ok(())))));
        });
        assert_eq!((tally.wrong, tally.lost, tally.panics), (0, 0, 0), "{tally:?}");
    });
    println!("{name}: {tally:?}");
}

#[test]
fn fuzz_files_of_stores() {
    let directory = tempfile::tempdir().unwrap();
    fuzz("store", &closed(directory.path()), 0);
}

#[test]
fn fuzz_journals() {
    let directory = tempfile::tempdir().unwrap();
    fuzz("journal", &killed(directory.path()), 1);
}
