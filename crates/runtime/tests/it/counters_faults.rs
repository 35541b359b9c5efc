//! Counters over failing stores, and processes that are killed during a store operation: each update counts once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::crew::run;
use rusm_runtime::counter::{
    AtomicCounter, BatchCounter, BatchOptions, Change, CommitOptions, Counter, CounterStore, CounterStoreError,
    Counters, Crdt, CrdtOptions, DelayedStore, MemoryStore, NoOptions, Slot, StoreAccount, Vsa,
};
use rusm_runtime::{Config, ExitReason, Runtime};

fn runtime() -> Runtime {
    Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("schedulers start")
}

/// Store that fails while `fails` is set, after it has done the operation if `after` is set; with `is_silent`, an add
/// never completes.
#[derive(Debug, Default)]
struct Moody {
    memory: MemoryStore,
    fails: AtomicBool,
    after: AtomicBool,
    is_silent: AtomicBool,
}

impl Moody {
    fn does(&self) -> bool {
        !self.fails.load(Ordering::Relaxed) || self.after.load(Ordering::Relaxed)
    }

    fn outcome(&self) -> Result<(), CounterStoreError> {
        if self.fails.load(Ordering::Relaxed) { Err(CounterStoreError::Storage("no mood".to_owned())) } else { Ok(()) }
    }
}

impl CounterStore for Moody {
    fn slot(&self, key: &str, initial: i64) -> Result<Slot, CounterStoreError> {
        self.memory.slot(key, initial)
    }

    async fn read(&self, slot: &Slot) -> Result<i64, CounterStoreError> {
        self.memory.read(slot).await
    }

    async fn add(&self, slot: &Slot, units: i64, events: u64) -> Result<(), CounterStoreError> {
        if self.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.does() {
            self.memory.add(slot, units, events).await?;
        }
        self.outcome()
    }

    async fn set(&self, slot: &Slot, value: i64) -> Result<(), CounterStoreError> {
        self.memory.set(slot, value).await
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), CounterStoreError> {
        if self.does() {
            self.memory.commit(changes).await?;
        }
        self.outcome()
    }

    fn account(&self) -> StoreAccount {
        self.memory.account()
    }
}

#[test]
fn a_commit_that_failed_is_made_up_for_whether_it_was_made_or_not() {
    let runtime = runtime();
    let counters = Counters::<Vsa, _>::start(&runtime, Moody::default(), CommitOptions::balanced())
        .expect("the options are valid");
    let store = Arc::clone(counters.store());
    let counter = counters.counter("key", 50).expect("the key is valid");
    let slot = store.slot("key", 0).expect("the key is valid");

    run(&runtime, move |_| async move {
        for after in [false, true] {
            store.after.store(after, Ordering::Relaxed);
            store.fails.store(true, Ordering::Relaxed);
            counter.add(5);
            let error = counters.flush().await.expect_err("the store was told to fail");
            assert_eq!(error.to_string(), "no mood");
            assert!(counters.failures() > 0);

            store.fails.store(false, Ordering::Relaxed);
            counters.flush().await.expect("the store no longer fails");
            assert_eq!(slot.value(), counter.available());
        }
        assert_eq!(slot.value(), 40);
        counters.stop().await.expect("the store no longer fails");
    });
}

#[test]
fn batches_that_the_store_refused_are_made_up_for_however_many_and_whether_they_were_stored_or_not() {
    const UNITS: i64 = 1 << 20;
    let runtime = runtime();
    let options = BatchOptions { size: 64, interval: Duration::from_mins(1) };
    let counters =
        Counters::<BatchCounter<_>, _>::start(&runtime, Moody::default(), options).expect("the options are valid");
    let store = Arc::clone(counters.store());
    let counter = counters.counter("key", 0).expect("the key is valid");
    let slot = store.slot("key", 0).expect("the key is valid");

    run(&runtime, move |_| async move {
        let mut taken = 0;
        for after in [false, true] {
            store.after.store(after, Ordering::Relaxed);
            store.fails.store(true, Ordering::Relaxed);
            // More updates than fit in the word of a stripe.
            for _ in 0..=(1 << 19) + 64 {
                counter.update(UNITS).await.expect("it is in a batch, or the keeper has it");
                taken += UNITS;
            }
            counters.flush().await.expect_err("the store was told to fail");
            for _ in 0..100 {
                counter.update(1).await.expect("it is in a batch, or the keeper has it");
                taken += 1;
            }

            store.fails.store(false, Ordering::Relaxed);
            counters.flush().await.expect("the store no longer fails");
            assert_eq!((slot.value(), counter.value()), (-taken, -taken), "after: {after}");
        }
        counters.stop().await.expect("the store no longer fails");
    });
}

#[test]
fn an_operation_that_is_too_large_for_a_batch_and_was_refused_is_not_counted_whether_it_was_stored_or_not() {
    let runtime = runtime();
    let options = BatchOptions { size: 64, interval: Duration::from_mins(1) };
    let counters =
        Counters::<BatchCounter<_>, _>::start(&runtime, Moody::default(), options).expect("the options are valid");
    let store = Arc::clone(counters.store());
    let counter = counters.counter("key", 7).expect("the key is valid");
    let slot = store.slot("key", 0).expect("the key is valid");

    run(&runtime, move |_| async move {
        for after in [false, true] {
            store.after.store(after, Ordering::Relaxed);
            store.fails.store(true, Ordering::Relaxed);
            counter.update(1 << 30).await.expect_err("the store was told to fail");
            store.fails.store(false, Ordering::Relaxed);
            counters.flush().await.expect("the store no longer fails");
            assert_eq!((slot.value(), counter.value()), (7, 7), "after: {after}");
        }
    });
}

#[test]
fn a_process_that_is_killed_while_it_stores_a_batch_takes_nothing_of_others_along() {
    let runtime = runtime();
    let store = DelayedStore::start(Duration::from_millis(300)).expect("a thread starts");
    let options = BatchOptions { size: 4, interval: Duration::from_mins(1) };
    let counters =
        Counters::<BatchCounter<DelayedStore>, _>::start(&runtime, store, options).expect("the options are valid");
    let counter = counters.counter("key", 100).expect("the key is valid");
    let slot = counters.store().slot("key", 100).expect("the key is valid");
    let others = Arc::clone(&counter);
    run(&runtime, move |_| async move {
        for _ in 0..3 {
            others.update(10).await.expect("it is in a batch");
        }
    });

    let fills = Arc::clone(&counter);
    let (tell, told) = std::sync::mpsc::channel();
    let fourth = runtime.spawn(move |_| async move {
        let mut stores = Box::pin(fills.update(1));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(stores.as_mut().poll(cx).is_pending())).await;
        tell.send(polled).expect("the test waits");
        std::future::pending::<()>().await;
    });
    let fourth = fourth.expect("there is room");
    assert_eq!(told.recv(), Ok(true), "it waits for the store");
    runtime.exit(fourth, ExitReason::Killed);
    runtime.wait(fourth);
    run(&runtime, move |_| async move { counters.stop().await.expect("memory does not fail") });

    assert_eq!((slot.value(), counter.value()), (69, 69));
}

/// Returns two values of a counter of 100: during an update that takes 30, and after that update was killed and the
/// flusher has flushed.
fn killed_while_it_is_stored<C: Counter<Moody>>(options: C::Options) -> [i64; 2] {
    let runtime = runtime();
    let counters = Counters::<C, _>::start(&runtime, Moody::default(), options).expect("the options are valid");
    let counter = counters.counter("key", 100).expect("the key is valid");
    counters.store().is_silent.store(true, Ordering::Relaxed);

    let takes = Arc::clone(&counter);
    let (tell, told) = std::sync::mpsc::channel();
    let killed = runtime.spawn(move |_| async move {
        let mut stores = Box::pin(takes.update(30));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(stores.as_mut().poll(cx).is_pending())).await;
        assert!(polled, "it waits for the store");
        tell.send(takes.value()).expect("the test waits");
        stores.await.expect("it never answers");
    });
    let killed = killed.expect("there is room");
    let meanwhile = told.recv().expect("it was sent");
    runtime.exit(killed, ExitReason::Killed);
    runtime.wait(killed);
    run(&runtime, move |_| async move { counters.flush().await.expect("commits do not fail") });

    [meanwhile, counter.value()]
}

#[test]
fn an_update_that_is_killed_while_it_is_stored_is_counted_only_if_it_was_stored() {
    assert_eq!(killed_while_it_is_stored::<AtomicCounter<_>>(NoOptions), [70, 100]);
    assert_eq!(killed_while_it_is_stored::<Crdt<_>>(CrdtOptions::default()), [70, 100]);
}
