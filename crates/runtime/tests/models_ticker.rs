//! The driver of tickers, and threads that add, await and drop tickers, under every interleaving that loom explores.
//!
//! The files under test are compiled here over loom's atomics and locks. A driver that sleeps past an added ticker, or
//! a process that no tick wakes, is a deadlock. The model also runs without each of the fences, and loom must detect
//! that.

#![expect(dead_code, reason = "the models use only parts of the files under test")]

mod sync {
    use std::cell::Cell;

    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    }
    pub(crate) use crate::locks::{Mutex, MutexGuard};

    /// Subset of `FenceSite` in `src/sync.rs`: the fences of tickers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum FenceSite {
        Arm,
        Doze,
    }

    thread_local! {
        // Loom runs all threads of a model on one system thread, so each test has its own value.
        static OMITTED_FENCE: Cell<Option<FenceSite>> = const { Cell::new(None) };
    }

    pub(crate) fn omit_fence(side: Option<FenceSite>) {
        OMITTED_FENCE.set(side);
    }

    pub(crate) fn store_load(side: FenceSite) {
        if OMITTED_FENCE.get() != Some(side) {
            atomic::fence(atomic::Ordering::SeqCst);
        }
    }
}
#[path = "models/locks.rs"]
mod locks;
#[path = "../src/time/ticker/sleep_word.rs"]
mod sleep_word;
#[path = "../src/time/ticker/wake_signal.rs"]
mod wake_signal;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Wake, Waker};

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use sleep_word::SleepWord;
use sync::FenceSite;
use wake_signal::WakeSignal;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A futex: a waiter checks the word once more, and misses no wake-up after that.
#[derive(Default)]
struct Futex {
    lock: Mutex<()>,
    changed: Condvar,
}

impl Futex {
    fn wait(&self, word: &AtomicU32, seen: u32) {
        let held = self.lock.lock().expect("it is not poisoned");
        if word.load(Ordering::Relaxed) == seen {
            drop(self.changed.wait(held).expect("it is not poisoned"));
        }
    }

    fn wake(&self) {
        drop(self.lock.lock().expect("it is not poisoned"));
        self.changed.notify_one();
    }
}

/// Minimal version of the driver's `Tickers`.
#[derive(Default)]
struct Tickers {
    inbox: Mutex<Vec<u64>>,
    sleep_word: SleepWord,
    futex: Futex,
}

impl Tickers {
    fn add(&self, at_ns: u64) {
        self.inbox.lock().expect("it is not poisoned").push(at_ns);
        if self.sleep_word.change(at_ns) {
            self.futex.wake();
        }
    }

    /// Takes in tickers until `wanted` of them have arrived, and sleeps without a deadline in between.
    fn take_in(&self, wanted: usize) {
        let mut taken = 0;
        loop {
            let word = self.sleep_word.load();
            taken += std::mem::take(&mut *self.inbox.lock().expect("it is not poisoned")).len();
            if taken == wanted {
                return;
            }
            self.sleep_word.sleep(u64::MAX, |on| self.futex.wait(on, word));
        }
    }
}

fn one_adds_while_the_driver_goes_to_sleep() {
    let tickers = Arc::new(Tickers::default());
    let added = Arc::clone(&tickers);
    let adds = thread::spawn(move || added.add(7));

    tickers.take_in(1);

    adds.join().expect("it adds");
}

#[test]
fn a_driver_never_sleeps_past_a_ticker_that_was_added() {
    explore(one_adds_while_the_driver_goes_to_sleep);
}

#[test]
fn two_that_add_at_once_are_both_taken_in() {
    explore(|| {
        let tickers = Arc::new(Tickers::default());
        let adds: Vec<_> = [3, 5]
            .into_iter()
            .map(|at_ns| {
                let tickers = Arc::clone(&tickers);
                thread::spawn(move || tickers.add(at_ns))
            })
            .collect();

        tickers.take_in(2);

        for one in adds {
            one.join().expect("it adds");
        }
    });
}

#[test]
fn without_either_fence_the_model_fails() {
    for side in [FenceSite::Arm, FenceSite::Doze] {
        let model = move || {
            sync::omit_fence(Some(side));
            one_adds_while_the_driver_goes_to_sleep();
        };

        let found = catch_unwind(AssertUnwindSafe(|| explore(model)));

        sync::omit_fence(None);
        assert!(found.is_err(), "the model passes without {side:?}");
    }
}

/// A process that sleeps until it is woken.
#[derive(Default)]
struct Sleeper {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleeper {
    fn sleep(&self) {
        let mut woken = self.woken.lock().expect("it is not poisoned");
        while !std::mem::take(&mut *woken) {
            woken = self.changed.wait(woken).expect("it is not poisoned");
        }
    }
}

impl Wake for Sleeper {
    fn wake(self: std::sync::Arc<Self>) {
        *self.woken.lock().expect("it is not poisoned") = true;
        self.changed.notify_one();
    }
}

#[test]
fn every_tick_wakes_the_process_that_waits_for_it() {
    explore(|| {
        let wake_signal = Arc::new(WakeSignal::default());
        let fired = Arc::clone(&wake_signal);
        let driver = thread::spawn(move || {
            fired.lock().fire(1);
            fired.lock().fire(2);
        });

        let sleeper = std::sync::Arc::new(Sleeper::default());
        let waker = Waker::from(std::sync::Arc::clone(&sleeper));
        let mut seen = 0;
        while seen < 2 {
            let mut state = wake_signal.lock();
            if state.due > seen {
                seen = state.due;
                continue;
            }
            state.wait(&waker);
            drop(state);
            sleeper.sleep();
        }

        driver.join().expect("it fires");
    });
}

#[test]
fn a_ticker_that_is_let_go_of_while_it_fires_keeps_no_waker() {
    explore(|| {
        let wake_signal = Arc::new(WakeSignal::default());
        let fired = Arc::clone(&wake_signal);
        let driver = thread::spawn(move || {
            let mut state = fired.lock();
            if !state.has_ended() {
                state.fire(1);
            }
        });

        let sleeper = std::sync::Arc::new(Sleeper::default());
        wake_signal.lock().wait(&Waker::from(std::sync::Arc::clone(&sleeper)));
        wake_signal.lock().end();

        driver.join().expect("it fires, or finds that it is over");
        assert_eq!(std::sync::Arc::strong_count(&sleeper), 1);
    });
}
