//! Counters and limiters through their public API: nothing is lost, nothing is counted twice, nothing is oversold.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::crew::{crew, run};
use rusm_runtime::counter::{
    AcquireError, Admission, AtomicCounter, BatchCounter, BatchOptions, BucketKind, BucketOptions, CommitOptions,
    Counter, CounterStore, CounterStoreError, Counters, Crdt, CrdtOptions, DelayedStore, KeyedLimiter, Limiter,
    MemoryStore, NoOptions, Quota, StoreAccount, StoredBucket, Vsa,
};
use rusm_runtime::{Config, ExitReason, Runtime};

fn runtime(schedulers: usize) -> Runtime {
    Runtime::start(Config { schedulers, ..Config::default() }).expect("schedulers start")
}

fn stop<C: Counter<S>, S: CounterStore>(runtime: &Runtime, counters: Counters<C, S>) -> Result<(), CounterStoreError> {
    let (tell, told) = std::sync::mpsc::channel();
    run(runtime, move |_| async move { tell.send(counters.stop().await).expect("the test waits") });
    told.recv().expect("it was sent")
}

/// Small random number generator, so that the workers do different things.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(below)) >> 64) as u64
    }
}

/// Lets workers update two keys at random while the flusher commits what is due, and checks the values in the store at
/// the end.
fn conserves<C: Counter<S>, S: CounterStore>(store: S, options: C::Options) -> StoreAccount {
    let runtime = runtime(2);
    let counters = Counters::<C, S>::start(&runtime, store, options).expect("the options are valid");
    let store = Arc::clone(counters.store());
    let keys = ["a", "b"].map(|key| counters.counter(key, 1_000).expect("the key is valid"));
    let truth = Arc::new([1_000, 1_000].map(AtomicI64::new));
    // Updates from threads other than schedulers count too.
    keys[0].update_by_now(7);
    truth[0].fetch_sub(7, Ordering::Relaxed);
    let (of_all, truly) = (keys.clone(), Arc::clone(&truth));
    crew(&runtime, 8, move |worker, ctx| {
        let (keys, truth) = (of_all.clone(), Arc::clone(&truly));
        async move {
            let mut chance = Chance(worker as u64 + 1);
            for step in 0..2_000 {
                let (key, units) = (chance.next(2) as usize, chance.next(9).cast_signed() - 4);
                let admission = keys[key].update_by(worker, units).await.expect("the store does not fail");
                assert_eq!(admission, Admission::Granted);
                truth[key].fetch_sub(units, Ordering::Relaxed);
                if step % 64 == 0 {
                    ctx.yield_now().await;
                }
            }
        }
    });
    let seen = keys.each_ref().map(|key| key.value());
    assert_eq!(stop(&runtime, counters), Ok(()));

    let truth = truth.each_ref().map(|value| value.load(Ordering::Relaxed));
    assert_eq!(seen, truth);
    assert_eq!(["a", "b"].map(|key| store.slot(key, 0).expect("the key is valid").value()), truth);
    store.account()
}

/// Blocking update, for threads that may block.
trait UpdateNow<S: CounterStore>: Counter<S> {
    fn update_by_now(&self, units: i64) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a reactor starts");
        runtime.block_on(self.update(units)).expect("the store does not fail");
    }
}

impl<S: CounterStore, C: Counter<S>> UpdateNow<S> for C {}

fn often() -> CommitOptions {
    CommitOptions { threshold: 16, low_threshold: 8, interval: Duration::from_millis(1), ..CommitOptions::default() }
}

#[test]
fn what_was_there_less_what_is_stored_less_what_is_not_is_the_truth_for_every_variant() {
    let vsa = conserves::<Vsa, _>(MemoryStore::new(), often());
    let atomic = conserves::<AtomicCounter<_>, _>(MemoryStore::new(), NoOptions);
    let batch =
        conserves::<BatchCounter<_>, _>(MemoryStore::new(), BatchOptions { size: 64, ..BatchOptions::default() });
    let crdt = conserves::<Crdt<_>, _>(MemoryStore::new(), CrdtOptions::default());

    assert!(vsa.events < 2_000, "{vsa:?}");
    assert_eq!((atomic.events, atomic.write_calls), (16_001, 16_001));
    assert_eq!(batch.events, 16_001);
    assert!(batch.write_calls < 2_000, "{batch:?}");
    assert!(crdt.events > 16_001, "{crdt:?}");
}

#[test]
fn the_same_holds_over_a_store_that_takes_its_time() {
    let store = || DelayedStore::start(Duration::from_micros(50)).expect("a thread starts");

    conserves::<Vsa, _>(store(), often());
    conserves::<AtomicCounter<_>, _>(store(), NoOptions);
    conserves::<BatchCounter<_>, _>(store(), BatchOptions::default());
    conserves::<Crdt<_>, _>(store(), CrdtOptions::default());
}

#[test]
fn refunds_are_conserved_where_the_seed_lost_them() {
    let runtime = runtime(1);
    let counters = Counters::<Vsa, _>::start(&runtime, MemoryStore::new(), often()).expect("the options are valid");
    let store = Arc::clone(counters.store());
    let counter = counters.counter("key", 100).expect("the key is valid");

    run(&runtime, move |_| async move {
        counter.add(-10);
        counters.flush().await.expect("memory does not fail");
        assert_eq!((counter.state().scalar, counter.state().vector), (110, 0));
        counter.add(10);
        assert_eq!((counter.state().scalar, counter.state().vector), (110, 10));
        counters.stop().await.expect("memory does not fail");
        assert_eq!((counter.state().value(), counter.available()), (100, 100));
    });

    assert_eq!(store.slot("key", 0).expect("the key is valid").value(), 100);
}

#[test]
fn the_seeds_stall_does_not_come_back() {
    let runtime = runtime(2);
    let options = CommitOptions { max_age: Duration::ZERO, ..often() };
    let counters = Counters::<Vsa, _>::start(&runtime, MemoryStore::new(), options).expect("the options are valid");
    let store = Arc::clone(counters.store());
    let counter = counters.counter("key", 0).expect("the key is valid");
    let slot = store.slot("key", 0).expect("the key is valid");
    let start = Instant::now();

    // No negative updates, and far more updates than the threshold between two checks.
    run(&runtime, move |ctx| async move {
        for commits in 1..=20 {
            let before = slot.value();
            while slot.value() == before {
                (0..1_000).for_each(|_| counter.add(1));
                ctx.yield_now().await;
                assert!(start.elapsed() < Duration::from_mins(2), "no commit after the {commits}th");
            }
        }
    });

    assert!(store.account().events >= 20);
    assert_eq!(stop(&runtime, counters), Ok(()));
}

#[test]
fn nothing_is_oversold_and_all_that_is_there_is_sold() {
    let runtime = runtime(2);
    let counters = Counters::<Vsa, _>::start(&runtime, MemoryStore::new(), often()).expect("the options are valid");
    let counter = counters.counter("seats", 10_000).expect("the key is valid");
    let (granted, returned) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (sells, sold, back) = (Arc::clone(&counter), Arc::clone(&granted), Arc::clone(&returned));
    crew(&runtime, 16, move |worker, ctx| {
        let (counter, granted, returned) = (Arc::clone(&sells), Arc::clone(&sold), Arc::clone(&back));
        async move {
            let mut chance = Chance(worker as u64 + 1);
            for step in 0..3_000 {
                let units = 1 + chance.next(3);
                if counter.try_consume(units) {
                    granted.fetch_add(units, Ordering::Relaxed);
                    if chance.next(3) == 0 {
                        assert_eq!(counter.refund(units), units);
                        returned.fetch_add(units, Ordering::Relaxed);
                    }
                }
                if step % 16 == 0 {
                    ctx.yield_now().await;
                }
            }
            // Take single units until none are left.
            while counter.try_consume(1) {
                granted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });

    let sold = granted.load(Ordering::Relaxed) - returned.load(Ordering::Relaxed);
    // Units refunded after the other workers' last attempt are left over.
    assert_eq!(counter.available(), 10_000 - sold.cast_signed());
    assert!(counter.available() >= 0 && counter.available() < 100, "{}", counter.available());
    assert_eq!(counter.refund(u64::MAX), sold);
    assert_eq!(counter.available(), 10_000);
    assert_eq!(stop(&runtime, counters), Ok(()));
}

#[test]
fn a_keeper_that_is_asked_to_end_stores_everything_first() {
    let runtime = runtime(1);
    let options = CommitOptions { threshold: 1_000, low_threshold: 1, max_age: Duration::ZERO, ..often() };
    let counters = Counters::<Vsa, _>::start(&runtime, MemoryStore::new(), options).expect("the options are valid");
    let counter = counters.counter("key", 0).expect("the key is valid");
    counter.add(-9);

    runtime.exit(counters.flusher(), ExitReason::Shutdown);
    runtime.wait(counters.flusher());

    assert_eq!(counters.store().slot("key", 0).expect("the key is valid").value(), 9);
    assert_eq!(stop(&runtime, counters), Err(CounterStoreError::Closed));
}

#[test]
fn a_key_has_one_set_of_counters_at_a_time() {
    let runtime = runtime(1);
    let store = Arc::new(MemoryStore::new());
    let start =
        || Counters::<Vsa, _>::with_store(&runtime, Arc::clone(&store), often()).expect("the options are valid");
    let (one, other) = (start(), start());
    let stock = one.counter("stock", 10).expect("the key is free");

    // Two sets of counters would each sell all ten.
    let refused = other.counter("stock", 10).expect_err("the first has it");
    assert_eq!(refused.to_string(), "the key \"stock\" is in use by another set of counters");
    assert!(stock.try_consume(7));

    // A dropped set stores its updates. Its keys are free once all handles to their counters are dropped.
    let keeper = runtime.watch(one.flusher());
    drop(one);
    assert_eq!(keeper.wait(), ExitReason::Shutdown);
    assert_eq!(store.slot("stock", 0).map(|slot| slot.value()), Ok(3));
    assert!(other.counter("stock", 10).is_err(), "its counter may still be used");
    drop(stock);
    assert_eq!(other.counter("stock", 10).map(|stock| Vsa::available(&stock)), Ok(3));
}

#[test]
fn one_key_is_one_counter_and_wrong_options_are_refused() {
    let runtime = runtime(1);
    let wrong = CommitOptions { threshold: 10, low_threshold: 10, ..often() };
    let error = Counters::<Vsa, _>::start(&runtime, MemoryStore::new(), wrong).expect_err("10 is not below 10");
    assert_eq!(error.to_string(), "low threshold of 10 is not below the threshold of 10");
    let error = Counters::<BatchCounter<_>, _>::start(
        &runtime,
        MemoryStore::new(),
        BatchOptions { size: 0, ..Default::default() },
    );
    assert_eq!(error.expect_err("0 is invalid").to_string(), "batch size of 0 is not between 1 and 65536");
    let options = CrdtOptions { replicas: 0, ..CrdtOptions::default() };
    let error = Counters::<Crdt<_>, _>::start(&runtime, MemoryStore::new(), options).expect_err("0 is invalid");
    assert_eq!(error.to_string(), "0 replicas are not between 1 and 1024");

    let counters = Counters::<Vsa, _>::start(&runtime, MemoryStore::new(), often()).expect("the options are valid");
    let first = counters.counter("key", 5).expect("the key is valid");

    assert!(Arc::ptr_eq(&first, &counters.counter("key", 99).expect("the key is valid")));
    assert_eq!(
        counters.counter("", 0).expect_err("the key is empty").to_string(),
        "a key of 0 bytes is not between 1 and 1024 bytes long"
    );
    assert_eq!(stop(&runtime, counters), Ok(()));
}

#[test]
fn replicas_know_of_each_other_when_they_have_merged() {
    let runtime = runtime(1);
    let options = CrdtOptions { replicas: 3, merge_interval: Duration::from_mins(1) };
    let counters = Counters::<Crdt<_>, _>::start(&runtime, MemoryStore::new(), options).expect("the options are valid");
    let counter = counters.counter("key", 10).expect("the key is valid");

    run(&runtime, move |_| async move {
        for (worker, units) in [(0, -5), (1, 2), (4, 1)] {
            counter.update_by(worker, units).await.expect("memory does not fail");
        }
        assert_eq!([0, 1, 2].map(|replica| counter.value_at(replica)), [15, 7, 10]);
        counters.flush().await.expect("memory does not fail");
        assert_eq!([0, 1, 2].map(|replica| counter.value_at(replica)), [12, 12, 12]);
        assert_eq!(counter.value(), 12);
        counters.stop().await.expect("memory does not fail");
    });
}

#[test]
fn buckets_admit_their_burst_and_what_they_hold_lies_in_the_store() {
    let runtime = runtime(1);
    for (kind, start, end) in [(BucketKind::Token, 3, 0), (BucketKind::Leaky, 0, 3)] {
        let quota = Quota::per_sec(1e-4, 3).expect("one in some hours");
        let counters =
            Counters::<StoredBucket<_>, _>::start(&runtime, MemoryStore::new(), BucketOptions { kind, quota })
                .expect("the options are valid");
        let bucket = counters.counter("key", 0).expect("the key is valid");
        assert_eq!(bucket.value(), start);

        run(&runtime, move |_| async move {
            let mut granted = 0;
            for _ in 0..10 {
                granted += u32::from(bucket.update(1).await == Ok(Admission::Granted));
            }
            assert_eq!((granted, bucket.value()), (3, end));
            let account = counters.store().account();
            assert_eq!((account.reads, account.write_calls), (10, 10));
            assert_eq!(counters.store().slot("key", 0).expect("the key is valid").value(), end);
            counters.stop().await.expect("memory does not fail");
        });
    }
}

#[test]
fn who_acquires_waits_for_its_turn_and_no_shorter() {
    let runtime = runtime(2);
    let limiter = Limiter::new(Quota::per_sec(500.0, 2).expect("the quota is valid"));
    let start = Instant::now();
    let waits = limiter.clone();

    crew(&runtime, 22, move |_, _| {
        let limiter = waits.clone();
        async move { limiter.acquire(1).await.expect("one is not more than two") }
    });

    // Two at once, then one every 2 ms.
    assert!(start.elapsed() >= Duration::from_millis(40), "{:?}", start.elapsed());
    let error = limiter.try_acquire(3).expect_err("3 are more than 2");
    assert_eq!(error.to_string(), "3 units at once are more than the burst of 2");
}

#[test]
fn who_gives_up_waiting_leaves_its_turn_to_others() {
    let runtime = runtime(1);
    let limiter = Limiter::new(Quota::per_sec(0.01, 1).expect("one in 100 s"));
    let waits = limiter.clone();
    let pid = runtime.spawn(move |_| async move {
        waits.acquire(1).await.expect("it is there");
        // Due in 100 s; the process is killed before.
        waits.acquire(1).await.ok();
    });
    let pid = pid.expect("there is room");
    let deadline = Instant::now() + Duration::from_mins(1);
    let after = || match limiter.try_acquire(1) {
        Err(AcquireError::Later { after }) => after,
        other => panic!("there is nothing left: {other:?}"),
    };
    while limiter.available() > 0 || after() < Duration::from_secs(110) {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }

    runtime.exit(pid, ExitReason::Killed);
    runtime.wait(pid);

    assert!(after() <= Duration::from_secs(100));
}

#[test]
fn keys_are_limited_apart_and_idle_ones_make_room() {
    let quota = Quota::per_sec(1e-4, 1).expect("one in some hours");
    let limiter = KeyedLimiter::new(quota, 1_000);
    let admitted = (0..10_000).filter(|key| limiter.try_acquire(&format!("key {key}"), 1).is_ok()).count();

    let kept = limiter.keys();
    assert_eq!(kept, admitted);
    assert!((500..=1_024).contains(&kept), "{kept}");
    assert!(matches!(limiter.try_acquire("another", 1), Err(AcquireError::Keys { .. }) | Ok(())));

    // At this rate each key regains its burst at once and becomes idle, so there is always room.
    let limiter = KeyedLimiter::new(Quota::per_sec(1e8, 1).expect("the quota is valid"), 32);
    for key in 0..10_000_u64 {
        while limiter.try_acquire(&format!("key {key}"), 1).is_err() {
            std::thread::yield_now();
        }
    }
    assert!(limiter.keys() <= 32);
}
