//! Values that each scheduler changes on a cache line of its own, so that schedulers do not wait for each other.

use crossbeam_utils::CachePadded;

use crate::scheduler;

/// Number of values; schedulers with higher numbers share them.
const LANES: usize = 8;

/// A value for each scheduler. Other threads use the first one.
///
/// A value may be changed by several threads, because a process can move to another scheduler while it is used.
#[derive(Debug, Default)]
pub struct PerScheduler<T>([CachePadded<T>; LANES]);

impl<T> PerScheduler<T> {
    /// Creates values, each by a call of `create`.
    pub fn new(mut create: impl FnMut() -> T) -> Self {
        Self(std::array::from_fn(|_| CachePadded::new(create())))
    }

    /// Returns the value of the scheduler that runs this thread.
    #[inline]
    pub fn here(&self) -> &T {
        &self.0[Self::index()]
    }

    /// Returns the index of the value of this thread.
    #[inline]
    pub fn index() -> usize {
        scheduler::local().map_or(0, |local| local.id) % LANES
    }

    /// Returns the value with this index.
    #[inline]
    pub fn at(&self, index: usize) -> &T {
        &self.0[index % LANES]
    }

    /// Returns all values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|value| &**value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::{Config, Runtime};

    #[test]
    fn each_scheduler_has_a_value_of_its_own() {
        let runtime = Runtime::start(Config { schedulers: 3, ..Config::default() }).unwrap();
        let counts = Arc::new(PerScheduler::<AtomicU64>::default());
        for scheduler in [0, 1, 1, 2] {
            let counts = Arc::clone(&counts);
            let count = move |_| async move {
                counts.here().fetch_add(1, Relaxed);
            };
            runtime.spawn_pinned(scheduler, count).unwrap();
        }

        while counts.iter().map(|count| count.load(Relaxed)).sum::<u64>() < 4 {
            std::thread::yield_now();
        }

        counts.here().fetch_add(10, Relaxed);
        let counts: Vec<_> = counts.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!(counts[..4], [11, 2, 1, 0]);
    }
}
