//! A store's journal: which records are replayed, which are rejected, and what happens when the disk is full.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::disk::Disk;
use rusm_store::{StorageBackend, Store, StoreConfig, StoreError};

const LONG: Duration = Duration::from_mins(1);
/// Start of the journal's second side, which is the capacity of one side.
const SIDE: usize = 16 * 1024 * 1024;
/// Offset of the checksum within the first sector of a record, in bytes.
const CHECKSUM: usize = 504;

fn open(path: &Path) -> Store {
    Store::open(path, StoreConfig::default()).unwrap()
}

fn on(disk: &Disk, journal: &Disk) -> Store {
    let (disk, journal) = (disk.clone(), journal.clone());
    let (disk, journal) = (move || Ok(disk.clone()), move || Ok(journal.clone()));
    Store::open_on_with_journal("a disk in memory", disk, journal, StoreConfig::default()).unwrap()
}

/// First bytes of a record.
const MAGIC: &[u8] = b"rusmjrn2";

fn put(store: &Store, key: u64, bytes: usize) -> Result<(), StoreError> {
    store.bucket("a").unwrap().put(key.to_be_bytes(), vec![key as u8; bytes]).wait()
}

/// Asserts that the store contains these keys and no others.
fn holds(store: &Store, keys: u64, bytes: usize) {
    let bucket = store.bucket("a").unwrap();
    for key in 0..keys {
        let value = bucket.get(key.to_be_bytes()).wait().unwrap();
        assert!(value.is_some_and(|value| value == vec![key as u8; bytes]), "{key} of {keys}");
    }
    assert_eq!(store.report().buckets.iter().map(|bucket| bucket.keys).sum::<u64>(), keys);
}

/// Copies both files as they are now, as after a crash that follows the last write; returns the paths of the copy and
/// of its journal.
fn stopped(path: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (file, journal) = (path.with_file_name(name), path.with_file_name(format!("{name}-journal")));
    fs::copy(path, &file).unwrap();
    fs::copy(format!("{}-journal", path.display()), &journal).unwrap();
    (file, journal)
}

fn refusal(path: &Path) -> String {
    let said = Store::open(path, StoreConfig::default()).unwrap_err().to_string();
    said.replace(&*path.to_string_lossy(), "FILE")
}

#[test]
fn a_journal_is_there_while_its_store_is_open_and_has_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let (path, journal) = (directory.path().join("a.redb"), directory.path().join("a.redb-journal"));
    let store = open(&path);
    put(&store, 0, 100).unwrap();
    assert!(journal.exists());

    let (copy, copied) = stopped(&path, "copy.redb");
    drop(store);
    assert!(!journal.exists(), "the file contains everything");
    holds(&open(&path), 1, 100);

    holds(&open(&copy), 1, 100);
    assert!(!copied.exists());
}

#[test]
fn what_only_the_journal_has_is_done_again() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    let written = disk.syncs();
    for key in 0..50 {
        put(&store, key, 1000).unwrap();
    }
    assert_eq!(disk.syncs(), written, "the file itself is not synced");

    let (left, journal) = (disk.cut(|| false), journal.cut(|| false));
    drop(store);

    holds(&on(&left, &journal), 50, 1000);
}

#[test]
fn sides_are_written_over_time_and_again_and_any_of_them_may_be_the_last() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    let (mut keys, mut turns, mut reach) = (0, 0, 0);
    while turns < 5 {
        put(&store, keys, 20_000).unwrap();
        keys += 1;
        let syncs = disk.syncs();
        turns += u32::from(syncs > reach);
        reach = syncs;
        if keys % 40 == 0 {
            let (left, journal) = (disk.image(), journal.image());
            holds(&on(&left, &journal), keys, 20_000);
        }
    }
    assert_eq!(journal.bytes(SIDE, MAGIC.len()), MAGIC, "both sides are used");
    assert!(journal.len_now() <= 2 * SIDE);
}

/// Puts keys one after the other until a write waits for the file to be synced. Returns the number of acknowledged keys
/// and a function that waits for that write.
fn until_the_file_must_be_synced(store: &Store, disk: &Disk) -> (u64, impl FnMut() -> Option<u64> + use<>) {
    put(store, 0, 20_000).unwrap();
    disk.close_gate();
    let ((ask, asked), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let writing = store.clone();
    std::thread::spawn(move || {
        asked.iter().all(|key| tell.send((key, put(&writing, key, 20_000).is_ok())).is_ok());
    });
    // Once the second side is full, no further write is acknowledged.
    let mut keys = 1;
    loop {
        ask.send(keys).unwrap();
        match told.recv_timeout(Duration::from_secs(3)) {
            Ok(_) if keys > 2_000 => panic!("a side is overwritten although the file was not synced"),
            Ok(_) => keys += 1,
            Err(_) => {
                let waits = move || {
                    let _asked = &ask;
                    told.recv().ok().filter(|(_, is_ok)| *is_ok).map(|(key, _)| key)
                };
                return (keys, waits);
            }
        }
    }
}

#[test]
fn a_side_is_not_written_over_before_the_file_is_safe() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    let (keys, _waits) = until_the_file_must_be_synced(&store, &disk);
    let (left, durable) = (disk.cut(|| false), journal.cut(|| false));

    assert!(keys > 100);
    holds(&on(&left, &durable), keys, 20_000);
}

#[test]
fn the_first_record_over_an_old_side_may_be_torn() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    let (keys, mut waits) = until_the_file_must_be_synced(&store, &disk);
    let old = journal.image().bytes(0, 5120);
    disk.open_gate();
    assert_eq!(waits(), Some(keys));

    let (left, durable) = (disk.image(), journal.image());
    assert_ne!(durable.bytes(0, 64), old[..64], "the record overwrote the side that was filled first");
    durable.put(4608, &old[4608..5120]);

    holds(&on(&left, &durable), keys, 20_000);
}

#[test]
fn a_file_that_forgets_what_it_could_not_write_gets_it_again() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    for key in 0..20 {
        put(&store, key, 20_000).unwrap();
    }
    disk.fail_syncs(true);
    store.close();
    disk.fail_syncs(false);
    // A second sync would succeed: the operating system reports the error once and drops the pages that it could not
    // write.
    assert!(journal.len_now() > 0, "the journal still has the records");

    drop(on(&disk, &journal));
    let (left, journal) = (disk.cut(|| false), journal.cut(|| false));
    holds(&on(&left, &journal), 20, 20_000);
}

#[test]
fn a_record_whose_sync_found_no_room_is_not_done_again() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    journal.fill_at_syncs(true);
    for key in 0..20 {
        put(&store, key, 1000).unwrap();
        put(&store, 0, 1000).unwrap();
    }

    // Everything that was written to the journal survives.
    let (left, journal) = (disk.cut(|| false), journal.cut(|| true));
    holds(&on(&left, &journal), 20, 1000);
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (path, journal) = (directory.path().join("app.db"), directory.path().join("app.db-journal"));
    for (bytes, beside) in [(&b"SQLite format 3"[..], &[0; 512][..]), (b"SQLite format 3", b"\xd9\xd5\x05\xf9 hot")] {
        fs::write(&path, bytes).unwrap();
        fs::write(&journal, beside).unwrap();
        refusal(&path);
        assert_eq!((fs::read(&path).unwrap(), fs::read(&journal).unwrap()), (bytes.to_vec(), beside.to_vec()));
    }

    fs::remove_file(&path).unwrap();
    let said = refusal(&path);
    assert!(said.ends_with("a file of another program has the name of its journal"), "{said}");
    assert!(fs::read(&journal).unwrap().starts_with(b"\xd9\xd5"));
}

#[test]
fn a_journal_of_the_session_that_a_file_was_closed_in_is_not_needed_and_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.redb");
    let store = open(&path);
    put(&store, 0, 100).unwrap();
    let (copy, _) = stopped(&path, "copy.redb");
    put(&store, 1, 100).unwrap();
    drop(store);
    fs::copy(&path, &copy).unwrap();

    holds(&open(&copy), 2, 100);
}

#[test]
fn a_journal_of_another_file_or_of_another_state_is_refused_and_nothing_is_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("a.redb"), directory.path().join("other.redb"));
    drop(open(&other));
    let store = open(&path);
    put(&store, 0, 100).unwrap();
    drop(store);
    let before = directory.path().join("before.redb");
    fs::copy(&path, &before).unwrap();
    let store = open(&path);
    put(&store, 1, 100).unwrap();
    let (copy, journal) = stopped(&path, "copy.redb");

    for file in [&other, &before, &directory.path().join("new.redb")] {
        let beside = PathBuf::from(format!("{}-journal", file.display()));
        fs::copy(&journal, &beside).unwrap();
        let was = fs::read(file).ok();

        let said = if was.is_none() {
            "the journal exists but the file does not: restore the file, or move the journal away"
        } else {
            "the journal next to it belongs to another file, or to another state of this one: restore the matching \
             journal, or move the journal away"
        };
        assert_eq!(refusal(file), format!("FILE is not a store or is damaged: {said}"));
        assert_eq!((fs::read(file).ok(), fs::read(&beside).unwrap()), (was, fs::read(&journal).unwrap()));
        fs::remove_file(&beside).unwrap();
        drop(open(file));
    }
    let (_, foreign) = {
        let store = open(&other);
        put(&store, 1, 100).unwrap();
        stopped(&other, "other-copy.redb")
    };
    fs::copy(&foreign, &journal).unwrap();
    assert_eq!(
        refusal(&copy),
        "FILE is not a store or is damaged: its journal was replaced by that of another file: restore its own, or run \
         `rusm store repair` on the file, which loses what only its journal had"
    );
}

#[test]
fn beside_a_closed_file_no_other_journal_is_removed_whatever_is_damaged_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let (path, before) = (directory.path().join("a.redb"), directory.path().join("before.redb"));
    let store = open(&path);
    put(&store, 0, 100).unwrap();
    drop(store);
    fs::copy(&path, &before).unwrap();
    let store = open(&path);
    put(&store, 1, 100).unwrap();
    put(&store, 2, 100).unwrap();
    let (_, journal) = stopped(&path, "copy.redb");
    let (journal, closed) = (fs::read(journal).unwrap(), fs::read(&before).unwrap());
    let flipped = |at: usize| {
        let mut journal = journal.clone();
        journal[at] ^= 1;
        journal
    };
    let foreign = [&[0; 512][..], b"of another program"].concat();

    for beside in [flipped(0), flipped(100), flipped(505), foreign] {
        let name = PathBuf::from(format!("{}-journal", before.display()));
        fs::write(&name, &beside).unwrap();

        let said = refusal(&before);

        let is_refused = said.contains("belongs to another file") || said.contains("a file of another program");
        assert!(is_refused, "{said}");
        assert!(fs::read(&name).unwrap() == beside && fs::read(&before).unwrap() == closed);
    }
}

#[test]
fn a_damaged_journal_is_refused_and_one_whose_last_record_is_torn_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.redb");
    let store = open(&path);
    for key in 0..20 {
        put(&store, key, 100).unwrap();
    }
    let (copy, journal) = stopped(&path, "copy.redb");
    let (bytes, file) = (fs::read(&journal).unwrap(), fs::read(&copy).unwrap());
    let heads: Vec<usize> = (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(MAGIC)).collect();
    assert!(heads.len() > 2);

    let mut cuts: Vec<Vec<u8>> = heads.iter().map(|head| bytes[..*head].to_vec()).collect();
    for head in &heads {
        let mut damaged = bytes.clone();
        damaged[head + CHECKSUM] ^= 1;
        cuts.push(damaged);
    }
    for damaged in cuts {
        fs::write(&journal, damaged).unwrap();
        let said =
            "FILE is not a store or is damaged: its journal is damaged or truncated, so the latest writes are missing";
        assert!(refusal(&copy).starts_with(said), "{}", refusal(&copy));
        assert_eq!(fs::read(&copy).unwrap(), file);
    }

    // A record torn by a power cut during its sync, before it was acknowledged.
    let mut torn = bytes;
    let last = heads[heads.len() - 1];
    torn[last + 512..last + 1024].fill(0);
    fs::write(&journal, torn).unwrap();
    holds(&open(&copy), 19, 100);
}

#[test]
fn a_journal_that_is_cut_anywhere_is_refused_when_both_sides_of_it_are_used_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.redb");
    let store = open(&path);
    // Until the second side of the journal has just begun, and the records of the first one do not tell of it.
    let has_begun = || {
        let journal = fs::read(directory.path().join("a.redb-journal")).unwrap_or_default();
        journal.get(SIDE..).is_some_and(|side| side.starts_with(MAGIC))
    };
    let mut keys = 0;
    while !has_begun() {
        (keys..keys + 5).for_each(|key| put(&store, key, 50_000).unwrap());
        keys += 5;
        assert!(keys < 250);
    }
    let (copy, journal) = stopped(&path, "copy.redb");
    let (bytes, file) = (fs::read(&journal).unwrap(), fs::read(&copy).unwrap());

    for len in (0..bytes.len()).step_by(512 << 10).chain([bytes.len() - 1]) {
        fs::write(&journal, &bytes[..len]).unwrap();
        let said = refusal(&copy);
        assert!(said.contains("its journal is damaged or truncated"), "{len}: {said}");
        assert!(fs::read(&copy).unwrap() == file, "{len}");
    }
    fs::write(&journal, &bytes).unwrap();
    holds(&open(&copy), keys, 50_000);
}

#[test]
fn the_first_record_after_one_that_was_synced_where_it_lies_may_be_torn() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    put(&store, 0, 15_000_000).unwrap();
    put(&store, 1, 15_000_000).unwrap();
    let bucket = store.bucket("a").unwrap();
    let both = store.transaction(move |tx| {
        tx.put(&bucket, 0_u64.to_be_bytes(), vec![0; 15_000_000])?;
        tx.put(&bucket, 1_u64.to_be_bytes(), vec![1; 15_000_000])
    });
    both.wait().map_err(|error: StoreError| error).unwrap();
    let left = disk.image();
    put(&store, 2, 1000).unwrap();

    let torn = journal.image();
    torn.put(512, &[0; 512]);
    holds(&on(&left, &torn), 2, 15_000_000);
}

#[test]
fn without_room_for_a_journal_the_file_itself_is_synced() {
    let (disk, journal) = (Disk::default(), Disk::default());
    journal.set_room(Some(0));
    let store = on(&disk, &journal);
    let before = disk.syncs();
    for key in 0..20 {
        put(&store, key, 100).unwrap();
    }

    assert!(disk.syncs() >= before + 20);
    let (left, journal) = (disk.cut(|| false), journal.cut(|| false));
    holds(&on(&left, &journal), 20, 100);
}

#[test]
fn what_is_larger_than_a_journal_is_synced_where_it_lies_and_what_follows_is_not_undone() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    put(&store, 0, 9_000_000).unwrap();
    let bucket = store.bucket("a").unwrap();
    let both = store.transaction(move |tx| {
        tx.put(&bucket, 1_u64.to_be_bytes(), vec![1; 9_000_000])?;
        tx.put(&bucket, 2_u64.to_be_bytes(), vec![2; 9_000_000])
    });
    both.wait().map_err(|error: StoreError| error).unwrap();
    holds(&on(&disk.image(), &journal.image()), 3, 9_000_000);
    put(&store, 3, 9_000_000).unwrap();

    let (left, journal) = (disk.cut(|| false), journal.cut(|| false));
    holds(&on(&left, &journal), 4, 9_000_000);
}

#[test]
fn a_sync_of_the_journal_that_fails_is_said_and_the_store_goes_on() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    put(&store, 0, 100).unwrap();
    journal.fail_syncs(true);
    assert!(matches!(put(&store, 1, 100), Err(StoreError::Failed(_))));
    journal.fail_syncs(false);

    let started = Instant::now();
    while let Err(error) = put(&store, 1, 100) {
        assert!(started.elapsed() < LONG, "still {error}");
        std::thread::yield_now();
    }
    let (left, journal) = (disk.cut(|| false), journal.cut(|| false));
    holds(&on(&left, &journal), 2, 100);
}

#[test]
fn a_file_that_cannot_be_synced_is_said_before_its_journal_is_written_over() {
    let (disk, journal) = (Disk::default(), Disk::default());
    let store = on(&disk, &journal);
    put(&store, 0, 20_000).unwrap();
    disk.fail_syncs(true);
    let (keys, error) = (1..).find_map(|key| put(&store, key, 20_000).err().map(|error| (key, error))).unwrap();
    assert!(matches!(error, StoreError::Failed(_)), "{error}");

    let (left, journal) = (disk.cut(|| false), journal.cut(|| false));
    let store = on(&left, &journal);
    let found = store.report().buckets[0].keys;
    assert!(found == keys || found == keys + 1, "{found} of {keys} acknowledged keys");
    holds(&store, found, 20_000);
    assert!(left.len().unwrap() > 0);
}

#[test]
fn a_journal_that_another_store_has_open_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("node.redb"), directory.path().join("other.redb"));
    drop(Store::open(&other, StoreConfig::default()).unwrap());
    let store = Store::open(&path, StoreConfig::default()).unwrap();
    let journals = [&path, &other].map(|path| format!("{}-journal", path.display()));
    fs::hard_link(&journals[0], &journals[1]).unwrap();

    let refused = Store::open(&other, StoreConfig::default()).unwrap_err().to_string();

    assert!(refused.contains("its journal: another store has it open"), "{refused}");
    store.bucket("a").unwrap().put("key", "value").wait().unwrap();
    drop(store);
    let again = Store::open(&path, StoreConfig::default()).unwrap();
    assert!(again.bucket("a").unwrap().get("key").wait().unwrap().is_some());
}

#[test]
fn a_link_to_a_file_that_does_not_exist_is_refused_and_nothing_is_created() {
    let directory = tempfile::tempdir().unwrap();
    let (link, target) = (directory.path().join("node.redb"), directory.path().join("disk.redb"));
    std::os::unix::fs::symlink(&target, &link).unwrap();

    let refused = Store::open(&link, StoreConfig::default()).unwrap_err().to_string();

    assert!(refused.ends_with("mount the disk of that file, or remove the link"), "{refused}");
    assert!(!target.exists() && std::fs::read_dir(directory.path()).unwrap().count() == 1);
}

#[test]
fn a_journal_on_a_disk_that_is_not_mounted_is_not_inspected_as_if_there_were_none() {
    let directory = tempfile::tempdir().unwrap();
    let (path, journal) = (directory.path().join("node.redb"), directory.path().join("node.redb-journal"));
    drop(Store::open(&path, StoreConfig::default()).unwrap());
    drop(std::fs::remove_file(&journal));
    std::os::unix::fs::symlink(directory.path().join("disk"), &journal).unwrap();

    let refused = rusm_store::inspection::Inspection::open(&path).unwrap_err().to_string();

    assert!(refused.ends_with("mount the disk of that file, or remove the link"), "{refused}");
}
