//! The LIFO slot of a scheduler, and the selection of sleeping schedulers, under every interleaving that loom explores.
//!
//! The files under test are compiled here over loom's atomics, as in `models.rs`, which models the gate of a process.

#![expect(unsafe_code, reason = "reads loom cells, which check every access")]
#![expect(dead_code, reason = "the models use only parts of the files under test")]

mod sync {
    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    }
    pub(crate) use crate::locks::Mutex;

    // The effect of the pair of barriers, expressed in the memory model.
    pub(crate) fn light_barrier() {
        atomic::fence(atomic::Ordering::SeqCst);
    }

    pub(crate) fn heavy_barrier() -> bool {
        atomic::fence(atomic::Ordering::SeqCst);
        true
    }
}
#[path = "../src/scheduler/lifo_slot.rs"]
mod lifo_slot;
#[path = "models/locks.rs"]
mod locks;
#[path = "../src/scheduler/parking.rs"]
mod parking;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use lifo_slot::LifoSlot;
use parking::{Parking, Sleep};

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Returns the address that represents the process with this number.
const fn address(process: usize) -> usize {
    (process + 1) * 64
}

/// The owner puts two processes and takes them between its polls, while the watchdog opens the slot and a thief steals.
fn next_is_taken_once(barrier: bool) {
    explore(move || {
        let place = Arc::new(LifoSlot::new(barrier));
        let in_poll = Arc::new(AtomicBool::new(true));
        let runs: Arc<[UnsafeCell<u32>; 2]> = Arc::new(std::array::from_fn(|_| UnsafeCell::new(0)));
        let run = |runs: &[UnsafeCell<u32>; 2], next: *mut u64| {
            if !next.is_null() {
                // SAFETY: only the thread that took the process runs it; loom checks it.
                runs[next.addr() / 64 - 1].with_mut(|runs| unsafe { *runs += 1 });
            }
        };
        let thief = {
            let (place, runs) = (Arc::clone(&place), Arc::clone(&runs));
            thread::spawn(move || run(&runs, place.steal()))
        };
        let watch = {
            let (place, in_poll) = (Arc::clone(&place), Arc::clone(&in_poll));
            thread::spawn(move || {
                place.share(|| in_poll.load(Ordering::Acquire));
                place.close();
            })
        };
        for process in 0..2 {
            assert!(place.put(std::ptr::without_provenance_mut(address(process))).is_null());
            in_poll.store(false, Ordering::Relaxed);
            let next = place.take();
            in_poll.store(true, Ordering::Release);
            run(&runs, next);
        }
        thief.join().expect("loom reports a panic itself");
        watch.join().expect("loom reports a panic itself");

        // SAFETY: the other threads have been joined; loom checks it.
        assert_eq!([0, 1].map(|process: usize| runs[process].with(|runs| unsafe { *runs })), [1, 1]);
    });
}

#[test]
fn the_next_to_run_is_taken_once_even_as_thieves_are_let_in() {
    next_is_taken_once(true);
}

#[test]
fn the_next_to_run_is_taken_once_where_the_system_has_no_barrier() {
    next_is_taken_once(false);
}

/// A queue that only records whether it has work, without any ordering of its own.
struct Queue(AtomicUsize);

impl Queue {
    fn push(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    fn has_work(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

#[test]
fn no_scheduler_sleeps_over_work_that_was_announced() {
    explore(|| {
        let parking = Arc::new(Parking::new());
        let queue = Arc::new(Queue(AtomicUsize::new(0)));
        let sleeper = {
            let (parking, queue) = (Arc::clone(&parking), Arc::clone(&queue));
            thread::spawn(move || {
                parking.search();
                if queue.has_work() {
                    parking.end_search();
                    return Sleep::Work;
                }
                parking.end_search();
                parking.sleep(0, || queue.has_work())
            })
        };
        queue.push();
        Parking::announce_work();
        let picked = parking.pick();
        let slept = sleeper.join().unwrap();

        // If it sleeps although the queue has work, it was picked, and the thread that picked it wakes it.
        assert!(slept != Sleep::Asleep || picked == Some(0), "{slept:?} {picked:?}");
        assert!(slept != Sleep::Picked || picked == Some(0), "{slept:?} {picked:?}");
    });
}

#[test]
fn no_scheduler_sleeps_over_a_process_that_only_it_may_run() {
    explore(|| {
        let parking = Arc::new(Parking::new());
        let queue = Arc::new(Queue(AtomicUsize::new(0)));
        let sleeper = {
            let (parking, queue) = (Arc::clone(&parking), Arc::clone(&queue));
            thread::spawn(move || parking.sleep(0, || queue.has_work()))
        };
        // Another thread picks a sleeper for other work at the same time.
        let other = {
            let parking = Arc::clone(&parking);
            thread::spawn(move || parking.pick().is_some())
        };
        queue.push();
        Parking::announce_work();
        let picked = parking.pick_this(0);
        let slept = sleeper.join().unwrap();
        let picked = u32::from(picked) + u32::from(other.join().unwrap());

        assert!(picked <= 1, "one mark, one wake-up");
        assert!(slept != Sleep::Asleep || picked == 1, "{slept:?}");
        assert!(slept != Sleep::Picked || picked == 1, "{slept:?}");
    });
}

#[test]
fn of_two_sleepers_and_two_announcements_somebody_always_works() {
    explore(|| {
        let parking = Arc::new(Parking::new());
        let queue = Arc::new(Queue(AtomicUsize::new(0)));
        let sleepers: Vec<_> = (0..2)
            .map(|id| {
                let (parking, queue) = (Arc::clone(&parking), Arc::clone(&queue));
                thread::spawn(move || parking.sleep(id, || queue.has_work()))
            })
            .collect();
        queue.push();
        Parking::announce_work();
        let picked = parking.pick();
        let slept: Vec<Sleep> = sleepers.into_iter().map(|sleeper| sleeper.join().unwrap()).collect();

        let awake = slept.iter().any(|slept| *slept != Sleep::Asleep);
        assert!(awake || picked.is_some(), "{slept:?} {picked:?}");
    });
}
