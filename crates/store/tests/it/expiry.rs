//! Expiring keys: when they become invisible and when they are removed.

use std::time::Duration;

use crate::disk::Disk;
use crate::eventually::eventually;
use rusm_store::{Clock, Durability, Store, StoreConfig, StoreError};

fn store_on(disk: &Disk, config: StoreConfig) -> Store {
    let disk = disk.clone();
    Store::open_on("a disk in memory", move || Ok(disk.clone()), config).unwrap()
}

#[test]
fn a_key_whose_time_is_over_is_invisible_at_once_and_removed_a_few_at_a_time() {
    let disk = Disk::default();
    let clock = Clock::manual();
    let config = StoreConfig { clock: clock.clone(), sweep_every: Duration::from_hours(1), ..StoreConfig::default() };
    let store = store_on(&disk, config.clone());
    let bucket = store.bucket("a").unwrap();
    let all = bucket.clone();
    let second = Duration::from_secs(1);
    let filled = store.transaction(move |tx| {
        for number in 0..1000_u32 {
            tx.put_for(&all, number.to_be_bytes(), "short", second)?;
        }
        tx.put_for(&all, "long", "long", 2 * second)?;
        tx.put_for(&all, "kept", "for a second", second)?;
        Ok::<(), StoreError>(())
    });
    filled.wait().unwrap();
    bucket.put("kept", "for good").wait().unwrap();

    clock.advance(Duration::from_millis(999));
    assert!(bucket.get(7_u32.to_be_bytes()).wait().unwrap().is_some());
    clock.advance(Duration::from_millis(1));

    assert_eq!(bucket.get(7_u32.to_be_bytes()).wait().unwrap(), None);
    assert!(!bucket.delete(7_u32.to_be_bytes()).wait().unwrap());
    assert!(bucket.compare_and_set(8_u32.to_be_bytes(), None, Some("again".into())).wait().unwrap());
    assert_eq!(bucket.scan("", "", 10).wait().unwrap().rows.len(), 3, "the keys again, kept and long");
    // The expiry time persists across a restart of the store.
    store.close();
    drop((bucket, store));
    let store = store_on(&disk, config);
    let bucket = store.bucket("a").unwrap();
    assert_eq!(bucket.scan("", "", 10).wait().unwrap().rows.len(), 3);
    assert_eq!(store.report().buckets[0].keys, 1001);
    let swept: Vec<u64> = (0..3).map(|_| store.sweep().wait().unwrap()).collect();
    assert_eq!(swept, [512, 486, 0]);
    assert_eq!((store.report().buckets[0].keys, store.report().expired_total), (3, 998));
}

#[test]
fn the_store_sweeps_by_itself() {
    let disk = Disk::default();
    let clock = Clock::manual();
    let sweep_every = Duration::from_millis(5);
    let store = store_on(&disk, StoreConfig { clock: clock.clone(), sweep_every, ..StoreConfig::default() });
    let bucket = store.bucket("a").unwrap();
    bucket.put_for("key", "value", Duration::from_secs(1)).wait().unwrap();

    clock.advance(Duration::from_secs(2));

    eventually("it is swept", || store.report().buckets[0].keys == 0);
    assert_eq!((store.report().expired_total, store.report().operations_total), (1, 1));
}

#[test]
fn what_is_written_in_the_same_commit_as_a_sweep_is_swept_in_its_time() {
    let disk = Disk::default();
    let clock = Clock::manual();
    let sweep_every = Duration::from_millis(1);
    let store = store_on(&disk, StoreConfig { clock: clock.clone(), sweep_every, ..StoreConfig::default() });
    let bucket = store.bucket("a").unwrap();
    let second = Duration::from_secs(1);
    bucket.put_for("swept", "value", second).wait().unwrap();
    disk.close_gate();

    // A sweep is due when the commit at the gate ends; it takes the waiting write into its own commit.
    std::thread::scope(|scope| {
        scope.spawn(|| bucket.put("stays", "value").wait().unwrap());
        disk.wait_for_a_sync();
        clock.advance(second * 2);
        scope.spawn(|| bucket.put_for("late", "value", second).wait().unwrap());
        eventually("it waits", || store.report().queued == 1);
        std::thread::park_timeout(sweep_every);
        disk.open_gate();
    });
    eventually("the first is swept", || store.report().buckets[0].keys == 2);
    clock.advance(second * 2);

    eventually("the late one is swept", || store.report().buckets[0].keys == 1);
}

#[test]
fn writes_that_come_while_the_store_syncs_and_sweeps_by_itself_are_told_of() {
    let disk = Disk::default();
    let often = Duration::from_millis(1);
    let config = StoreConfig { eventual_within: often, sweep_every: often, ..StoreConfig::default() };
    let store = store_on(&disk, StoreConfig { durability: Durability::Eventual, ..config });
    let bucket = store.bucket("a").unwrap();

    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let bucket = &bucket;
            scope.spawn(move || {
                for number in 0..1_000_u64 {
                    bucket.put_for((number * 4 + writer).to_be_bytes(), "value", often).wait().unwrap();
                }
            });
        }
    });

    assert_eq!(store.report().operations_total, 4_000);
    eventually("all is swept", || store.report().buckets[0].keys == 0);
}
