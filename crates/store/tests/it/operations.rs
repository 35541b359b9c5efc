//! Guarantees of a store to its callers, on a disk that can delay its syncs.

use std::sync::mpsc;
use std::time::Duration;

use crate::disk::Disk;
use crate::eventually::eventually;
use bytes::Bytes;
use rusm_runtime::{Config, ExitReason, Runtime, observe};
use rusm_store::{Durability, Store, StoreConfig, StoreError};

const LONG: Duration = Duration::from_mins(1);

fn store_on(disk: &Disk, config: StoreConfig) -> Store {
    let disk = disk.clone();
    Store::open_on("a disk in memory", move || Ok(disk.clone()), config).unwrap()
}

fn new_store() -> (Disk, Store) {
    let disk = Disk::default();
    let store = store_on(&disk, StoreConfig::default());
    (disk, store)
}

fn runtime(schedulers: usize) -> Runtime {
    Runtime::start(Config { schedulers, ..Config::default() }).unwrap()
}

#[test]
fn what_was_put_is_there_until_it_is_deleted() {
    let (_, store) = new_store();
    let (a, b) = (store.bucket("a").unwrap(), store.bucket("b").unwrap());

    a.put("key", "one").wait().unwrap();
    b.put("key", "two").wait().unwrap();
    assert_eq!(a.get("key").wait().unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(b.get("key").wait().unwrap().as_deref(), Some(&b"two"[..]));

    assert!(a.delete("key").wait().unwrap());
    assert!(!a.delete("key").wait().unwrap());
    assert_eq!(a.get("key").wait().unwrap(), None);
    assert_eq!(store.bucket("").unwrap_err().to_string().lines().count(), 1);
    assert_eq!(store.bucket("never written").unwrap().get("key").wait().unwrap(), None);
}

#[test]
fn buckets_that_are_empty_again_leave_nothing_behind_and_the_others_their_sizes() {
    let (disk, store) = new_store();
    store.bucket("kept").unwrap().put("key", "value").wait().unwrap();
    for number in 0..1100 {
        let bucket = store.bucket(&format!("b{number}")).unwrap();
        bucket.put("key", "value").durability(Durability::None).wait().unwrap();
        bucket.delete("key").durability(Durability::None).wait().unwrap();
    }
    drop(store);

    let store = store_on(&disk, StoreConfig::default());
    let sizes = || -> Vec<_> {
        store.report().buckets.into_iter().map(|bucket| (bucket.name, bucket.keys, bucket.bytes)).collect()
    };
    assert_eq!(sizes(), [("kept".into(), 1, 8)]);
    store.bucket("kept").unwrap().put("more", "of it").wait().unwrap();
    assert_eq!(sizes(), [("kept".into(), 2, 17)]);
}

#[test]
fn a_key_is_set_only_if_it_has_the_value_that_was_expected() {
    let (_, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    let set = |expected: Option<&'static str>, value: Option<&'static str>| {
        bucket.compare_and_set("key", expected.map(Bytes::from), value.map(Bytes::from)).wait().unwrap()
    };

    assert!(!set(Some("0"), Some("1")));
    assert!(set(None, Some("1")));
    assert!(!set(None, Some("2")));
    assert!(set(Some("1"), Some("2")));
    assert!(set(Some("2"), None));
    assert_eq!(bucket.get("key").wait().unwrap(), None);
}

#[test]
fn updates_of_one_key_from_many_threads_are_none_lost() {
    let (_, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    let add = |old: Option<Bytes>| {
        let old: u64 = old.map_or(0, |text| std::str::from_utf8(&text).unwrap().parse().unwrap());
        Some(Bytes::from((old + 1).to_string()))
    };

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(bucket.update("sum", add).wait().unwrap())));
        }
    });

    assert_eq!(bucket.get("sum").wait().unwrap().as_deref(), Some(&b"200"[..]));
}

#[test]
fn a_transaction_happens_whole_or_not_at_all_and_sees_what_it_wrote() {
    let (_, store) = new_store();
    let (a, b) = (store.bucket("a").unwrap(), store.bucket("b").unwrap());
    a.put("x", "old").wait().unwrap();

    let (first, second) = (a.clone(), b.clone());
    let seen = store.transaction(move |tx| {
        tx.put(&first, "x", "new")?;
        tx.put(&second, "y", "there")?;
        tx.delete(&first, "z")?;
        tx.get(&first, "x")
    });
    assert_eq!(seen.wait().unwrap().as_deref(), Some(&b"new"[..]));

    let (first, second) = (a.clone(), b.clone());
    let given_up = store.transaction(move |tx| {
        tx.put(&first, "x", "half")?;
        tx.delete(&second, "y")?;
        assert_eq!(tx.get(&second, "y")?, None);
        Err::<(), _>(StoreError::Full)
    });
    assert_eq!(given_up.wait(), Err(StoreError::Full));
    assert_eq!(a.get("x").wait().unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(b.get("y").wait().unwrap().as_deref(), Some(&b"there"[..]));
}

#[test]
fn a_transaction_refuses_a_bucket_of_another_store() {
    let ((_, store), (_, other)) = (new_store(), new_store());
    let (own, foreign) = (store.bucket("a").unwrap(), other.bucket("a").unwrap());

    let (first, second) = (own.clone(), foreign.clone());
    let refused = store.transaction(move |tx| {
        tx.put(&first, "x", "own")?;
        tx.put(&second, "x", "foreign")
    });

    assert_eq!(refused.wait(), Err(StoreError::OtherStore { bucket: "a".to_owned() }));
    assert_eq!((own.get("x").wait(), foreign.get("x").wait()), (Ok(None), Ok(None)));
}

#[test]
fn a_transaction_that_panics_takes_nobody_with_it() {
    let (disk, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    disk.close_gate();
    let (done, ended) = mpsc::channel();

    // The first commit waits at the gate, so the other two share the second commit.
    std::thread::scope(|scope| {
        scope.spawn(|| bucket.put("first", "1").wait().unwrap());
        disk.wait_for_a_sync();
        scope.spawn(|| done.send(bucket.put("beside", "1").wait()).unwrap());
        let (inside, again) = (bucket.clone(), store.clone());
        scope.spawn(move || {
            let broken = again.transaction(move |tx| {
                tx.put(&inside, "half", "1")?;
                panic!("broken code");
                #[expect(unreachable_code, reason = "gives the closure its return type")]
                Ok::<(), StoreError>(())
            });
            assert_eq!(broken.wait(), Err(StoreError::Panicked("broken code".into())));
        });
        eventually("both wait", || store.report().queued == 2);
        disk.open_gate();
    });

    assert_eq!(ended.recv_timeout(LONG).unwrap(), Ok(()));
    assert_eq!(bucket.get("half").wait().unwrap(), None);
    assert_eq!(store.report().failures_total, 0);
}

#[test]
fn sixty_four_that_wait_share_one_sync() {
    let (disk, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    disk.close_gate();
    let runtime = runtime(2);
    let (tell, told) = mpsc::channel();

    let spawn = |number: u64| {
        let (bucket, tell) = (bucket.clone(), tell.clone());
        runtime
            .spawn(move |_| async move {
                bucket.put(number.to_be_bytes(), "value").await.unwrap();
                tell.send(number).unwrap();
            })
            .unwrap()
    };
    spawn(0);
    disk.wait_for_a_sync();
    (1..=64).for_each(|number| _ = spawn(number));
    eventually("all wait", || store.report().queued == 64);
    let before = disk.syncs();
    assert!(told.try_recv().is_err(), "no write is acknowledged before the sync");
    disk.open_gate();
    (0..=64).for_each(|_| _ = told.recv_timeout(LONG).unwrap());

    assert_eq!(disk.syncs() - before, 2, "one sync for the first write, one for all others");
    let report = store.report();
    assert_eq!((report.operations_total, report.commits_total, report.durable_commits_total), (65, 2, 2));
    eventually("nobody waits", || store.report().waiting == 0);
}

#[test]
fn without_group_commit_each_write_has_its_own_sync() {
    let disk = Disk::default();
    let store = store_on(&disk, StoreConfig { group_operations: 1, ..StoreConfig::default() });
    let bucket = store.bucket("a").unwrap();
    let before = disk.syncs();

    std::thread::scope(|scope| {
        for number in 0..8_u64 {
            let bucket = &bucket;
            scope.spawn(move || bucket.put(number.to_be_bytes(), "value").wait().unwrap());
        }
    });

    assert_eq!(disk.syncs() - before, 8);
}

#[test]
fn a_full_queue_holds_writers_back_and_takes_all_of_them_in_the_end() {
    let disk = Disk::default();
    let store = store_on(&disk, StoreConfig { queue_operations: 4, ..StoreConfig::default() });
    let bucket = store.bucket("a").unwrap();
    disk.close_gate();
    let runtime = runtime(2);
    let (tell, told) = mpsc::channel();

    let spawn = |number: u64| {
        let (bucket, tell) = (bucket.clone(), tell.clone());
        runtime
            .spawn(move |_| async move {
                bucket.put(number.to_be_bytes(), "value").await.unwrap();
                tell.send(()).unwrap();
            })
            .unwrap()
    };
    spawn(0);
    disk.wait_for_a_sync();
    let pids: Vec<_> = (1..=20).map(spawn).collect();
    eventually("all wait", || store.report().waiting == 21);
    assert_eq!((store.report().queued, store.report().queue_capacity), (4, 4));
    // Writers that give up release the queue slot for which they were woken.
    pids[10..].iter().for_each(|pid| runtime.exit(*pid, ExitReason::Killed));
    eventually("ten have given up", || store.report().waiting == 11 || store.report().queued < 4);
    disk.open_gate();

    let mut count = 0;
    eventually("those are told that were not killed", || {
        count += told.try_iter().count();
        store.report().waiting == 0 && count >= 11
    });
}

#[test]
fn a_scheduler_runs_others_while_a_write_waits_for_the_disk() {
    let (disk, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    disk.close_gate();
    let runtime = runtime(1);
    let (tell, told) = mpsc::channel();

    let (writer, tell_written) = (bucket.clone(), tell.clone());
    runtime
        .spawn(move |_| async move {
            writer.put("key", "value").await.unwrap();
            tell_written.send("written").unwrap();
        })
        .unwrap();
    disk.wait_for_a_sync();
    runtime
        .spawn(move |_| async move {
            assert_eq!(bucket.get("key").await.unwrap(), None, "a reader does not wait for a commit");
            tell.send("ran").unwrap();
        })
        .unwrap();

    assert_eq!(told.recv_timeout(LONG), Ok("ran"));
    disk.open_gate();
    assert_eq!(told.recv_timeout(LONG), Ok("written"));
}

#[test]
fn a_process_that_would_block_its_scheduler_is_refused() {
    let (_, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    let runtime = runtime(1);
    let (tell, told) = mpsc::channel();

    runtime.spawn(move |_| async move { tell.send(bucket.put("key", "value").wait()).unwrap() }).unwrap();

    assert_eq!(told.recv_timeout(LONG), Ok(Err(StoreError::OnScheduler)));
}

#[test]
fn pages_follow_each_other_and_keep_to_their_prefix() {
    let (_, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    let all = bucket.clone();
    let filled = store.transaction(move |tx| {
        for number in 0..300 {
            tx.put(&all, format!("user/{number:03}"), number.to_string())?;
        }
        tx.put(&all, "user0", "after the prefix")?;
        tx.put(&all, "use", "before it")
    });
    filled.wait().unwrap();

    let (mut seen, mut after) = (Vec::new(), Bytes::new());
    loop {
        let page = bucket.scan("user/", &after, 128).wait().unwrap();
        assert!(page.rows.len() <= 128);
        seen.extend(page.rows.into_iter().map(|row| row.key));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }

    let expected: Vec<String> = (0..300).map(|number| format!("user/{number:03}")).collect();
    assert_eq!(seen, expected);
    assert_eq!(bucket.scan("", "user/299", 9).wait().unwrap().rows[0].key, "user0");
    assert_eq!(bucket.scan("user/", "zzz", 9).wait().unwrap().rows, []);
    assert_eq!(bucket.scan("", "", 0).wait().unwrap_err().to_string(), "a limit of 0 rows is not between 1 and 10000");
}

#[test]
fn a_process_waits_for_a_page_that_is_read_beside_its_scheduler() {
    let (_, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    let all = bucket.clone();
    let filled =
        store.transaction(move |tx| (0..1000).try_for_each(|number| tx.put(&all, format!("{number:04}"), "value")));
    filled.wait().unwrap();
    let runtime = runtime(1);
    let (tell, told) = mpsc::channel();

    runtime
        .spawn(move |_| async move {
            let mut rows = 0;
            // Occasionally the other thread finishes a page before its first poll, but not in every round.
            for _ in 0..50 {
                rows += bucket.scan("", "", 1000).await.unwrap().rows.len();
            }
            tell.send(rows).unwrap();
        })
        .unwrap();

    assert_eq!(told.recv_timeout(LONG), Ok(50 * 1000));
}

#[test]
fn what_is_out_of_its_limits_is_refused_with_the_number() {
    let disk = Disk::default();
    let store = store_on(&disk, StoreConfig { value_bytes_max: 10, ..StoreConfig::default() });
    let bucket = store.bucket("a").unwrap();
    let said = |outcome: Result<(), StoreError>| outcome.unwrap_err().to_string();

    assert_eq!(said(bucket.put("", "v").wait()), "a key of 0 bytes is not between 1 and 4096");
    assert_eq!(said(bucket.put([0; 4097], "v").wait()), "a key of 4097 bytes is not between 1 and 4096");
    assert_eq!(said(bucket.put("k", "12345678901").wait()), "a value of 11 bytes is over the limit of 10");
    let set = |expected: &'static str| bucket.compare_and_set("k", Some(Bytes::from(expected)), None).wait().map(drop);
    assert_eq!(said(set("12345678901")), "a value of 11 bytes is over the limit of 10");
    assert_eq!(
        said(bucket.update("k", |_| Some(vec![0; 12].into())).wait().map(drop)),
        "a value of 12 bytes is over the limit of 10"
    );
    let all = bucket.clone();
    let many = store.transaction(move |tx| (0..10_001_u32).try_for_each(|n| tx.put(&all, n.to_be_bytes(), "v")));
    assert_eq!(said(many.wait()), "a transaction of 10001 operations is over the limit of 10000");
    assert_eq!(
        store.bucket(&"a".repeat(256)).unwrap_err().to_string(),
        "the name of a bucket has 1 to 255 bytes, not 256"
    );
    let held: Vec<_> = (1..1024).map(|number| store.bucket(&format!("b{number}")).unwrap()).collect();
    assert_eq!(
        store.bucket("one-more").unwrap_err().to_string(),
        "a store has at most 1024 buckets: delete all keys of one that is not needed"
    );
    // Empty buckets without a handle no longer count towards the limit.
    held[0].put("key", "v").wait().unwrap();
    drop(held);
    assert!((0..2000).all(|number| store.bucket(&format!("c{number}")).is_ok()));
    assert!(store.report().buckets.iter().any(|bucket| &*bucket.name == "b1" && bucket.keys == 1));
}

#[test]
fn buckets_know_how_many_keys_and_bytes_they_have() {
    let (disk, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    bucket.put("key", "12345").wait().unwrap();
    bucket.put("other", "1").wait().unwrap();
    bucket.put("key", "12").wait().unwrap();
    bucket.delete("other").wait().unwrap();
    bucket.get("key").wait().unwrap();

    let report = store.report();
    let seen = &report.buckets[0];
    assert_eq!((&*seen.name, seen.keys, seen.bytes, seen.reads_total, seen.writes_total), ("a", 1, 5, 1, 4));
    assert_eq!(report.file_bytes, disk.len_now() as u64);
    store.close();
    drop((bucket, store));
    let store = store_on(&disk, StoreConfig::default());
    assert_eq!((store.report().buckets[0].keys, store.report().buckets[0].bytes), (1, 5));
}

#[test]
fn an_eventual_write_is_synced_in_time_and_a_write_without_durability_with_the_next_or_at_the_end() {
    let disk = Disk::default();
    let config = StoreConfig { eventual_within: Duration::from_millis(5), ..StoreConfig::default() };
    let store = store_on(&disk, config);
    let bucket = store.bucket("a").unwrap();
    let before = disk.syncs();

    bucket.put("none", "1").durability(Durability::None).wait().unwrap();
    assert_eq!(bucket.get("none").wait().unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(disk.syncs(), before, "no sync is requested");
    bucket.put("eventual", "1").durability(Durability::Eventual).wait().unwrap();
    eventually("it is synced", || disk.syncs() > before);
    let after = disk.cut(|| false);
    let found = store_on(&after, StoreConfig::default());
    let bucket = found.bucket("a").unwrap();
    assert_eq!(bucket.scan("", "", 9).wait().unwrap().rows.len(), 2);

    bucket.put("last", "1").durability(Durability::None).wait().unwrap();
    found.close();
    let again = store_on(&after.cut(|| false), StoreConfig::default());
    assert!(again.bucket("a").unwrap().get("last").wait().unwrap().is_some());
}

#[test]
fn a_store_that_is_closed_says_so() {
    let (_, store) = new_store();
    let bucket = store.bucket("a").unwrap();
    store.close();

    assert_eq!(bucket.put("key", "value").wait(), Err(StoreError::Closed));
    assert_eq!(bucket.get("key").wait(), Err(StoreError::Closed));
    assert!(!store.report().is_open);
}

#[test]
fn a_runtime_has_the_store_that_was_attached_first() {
    let (_, store) = new_store();
    let runtime = runtime(1);
    assert!(Store::of(&runtime).is_none());

    store.attach(&runtime);
    store.attach(&runtime);

    store.bucket("a").unwrap().put("key", "value").wait().unwrap();
    let own = Store::of(&runtime).unwrap();
    assert_eq!(own.bucket("a").unwrap().get("key").wait().unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(rusm_runtime::observe::stores(&runtime).len(), 1);
}

#[test]
fn a_store_that_is_only_shown_is_for_observers_and_for_no_process() {
    let runtime = runtime(1);
    let (_disk, shown) = new_store();

    shown.show(&runtime);

    assert!(Store::of(&runtime).is_none());
    assert_eq!(observe::stores(&runtime).len(), 1);
    shown.hide(&runtime);
    assert!(observe::stores(&runtime).is_empty());
    shown.show(&runtime);
    shown.attach(&runtime);
    assert!(Store::of(&runtime).is_some() && observe::stores(&runtime).len() == 1, "shown once");
}

#[test]
fn a_caller_with_a_prefix_leaves_buckets_to_others() {
    let disk = Disk::default();
    let store = store_on(&disk, StoreConfig::default());
    let held: Vec<_> = (0..768).map(|number| store.bucket_by_prefix(&format!("c/{number}")).unwrap()).collect();

    assert_eq!(
        store.bucket_by_prefix("c/more").unwrap_err().to_string(),
        "the store has 768 buckets, and keeps the others for names that are granted without a star"
    );
    assert!(store.bucket_by_prefix("c/0").is_ok(), "a bucket that exists is not a further one");
    store.bucket("mine").unwrap().put("key", "value").wait().unwrap();
    drop(held);
    assert!(store.bucket_by_prefix("c/more").is_ok());
}
