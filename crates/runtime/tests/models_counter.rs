//! The stripes of a counter, and commits of their values, under every interleaving that loom explores.
//!
//! The file under test is compiled here over loom's atomics. Units that are granted beyond the budget, or lost or
//! counted twice on their way to a store, are a failure.

#![expect(dead_code, reason = "the models use only parts of the file under test")]

mod sync {
    pub(crate) mod atomic {
        pub(crate) use loom::sync::atomic::{AtomicI64, AtomicU64, Ordering};
    }
    pub(crate) use crate::locks::Mutex;
}
#[path = "models/locks.rs"]
mod locks;
#[path = "../src/counter/stripes.rs"]
mod stripes;

use loom::sync::Arc;
use loom::thread;

use stripes::{Stripe, Stripes};

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn two_schedulers_never_spend_more_than_there_is_and_all_of_it_if_they_want() {
    explore(3, || {
        let stripes = Arc::new(Stripes::new(2, 3));
        let other = {
            let stripes = Arc::clone(&stripes);
            thread::spawn(move || (0..2).filter(|_| stripes.spend(Stripe::Own(1), 1)).count())
        };

        let granted = (0..2).filter(|_| stripes.spend(Stripe::Own(0), 1)).count();
        let granted = granted + other.join().expect("loom reports a panic itself");

        assert_eq!(granted, 3);
        assert_eq!(stripes.taken(), 3);
    });
}

#[test]
fn what_is_given_back_is_there_for_others_and_counted_once() {
    explore(3, || {
        let stripes = Arc::new(Stripes::new(2, 1));
        let other = {
            let stripes = Arc::clone(&stripes);
            thread::spawn(move || {
                if stripes.spend(Stripe::Own(1), 1) {
                    assert_eq!(stripes.refund(Stripe::Own(1), 1), 1);
                }
            })
        };

        let granted = stripes.spend(Stripe::Own(0), 1);
        // Returns one unit even if the other stripe has moved the spent unit out of this local credit.
        let back = if granted { stripes.refund(Stripe::Own(0), 1) } else { 0 };
        other.join().expect("loom reports a panic itself");

        assert_eq!(back, u64::from(granted));
        assert_eq!(stripes.taken(), 0);
        assert!(stripes.spend(Stripe::Shared, 1) && !stripes.spend(Stripe::Shared, 1));
    });
}

#[test]
fn a_reading_never_shows_less_taken_than_was() {
    explore(3, || {
        let stripes = Arc::new(Stripes::new(2, 2));
        assert!(stripes.spend(Stripe::Own(0), 2));
        let other = {
            let stripes = Arc::clone(&stripes);
            // Moves the units that stripe 0 has spent out of its local credit, and refunds one of the two.
            thread::spawn(move || assert_eq!(stripes.refund(Stripe::Own(1), 1), 1))
        };

        assert!(stripes.taken() >= 1);
        let (_, settled) = stripes.totals();
        assert!((1..=2).contains(&settled));
        other.join().expect("loom reports a panic itself");

        assert_eq!(stripes.taken(), 1);
    });
}

#[test]
fn commits_during_updates_lose_nothing_and_count_nothing_twice() {
    explore(3, || {
        let stripes = Arc::new(Stripes::new(2, 0));
        let writers = [3, -5].into_iter().enumerate().map(|(number, units)| {
            let stripes = Arc::clone(&stripes);
            thread::spawn(move || {
                stripes.update(Stripe::Own(number), units);
                stripes.update(Stripe::Own(number), 1);
            })
        });
        let writers: Vec<_> = writers.collect();

        // Does the work of the flusher: stores what was taken since the last commit.
        let (mut committed, mut stored) = (0, 0);
        let mut commit = || {
            let (operations, taken) = stripes.totals();
            stored += taken - committed;
            committed = taken;
            (operations, taken)
        };
        let (operations, taken) = commit();
        // Units may become visible before their operation is counted, but never after it.
        assert!(operations < 4 || taken == 0, "{operations} {taken}");
        for writer in writers {
            writer.join().expect("loom reports a panic itself");
        }

        assert_eq!(commit(), (4, 0));
        assert_eq!(stored, 0);
    });
}
