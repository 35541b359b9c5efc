//! The process limit: exact for a single thread that spawns, and within the documented bound for several.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::eventually::eventually;
use rusm_runtime::{Config, Context, Pid, Runtime, SpawnError};

/// Returns the maximum number of processes that several threads can start together, as documented for the limit.
fn bound(limit: u64, schedulers: u64) -> u64 {
    let threads = schedulers + 1;
    limit + 5 * threads * (limit / (80 * threads)).clamp(1, 256)
}

fn spawn_until_refused(spawn: impl Fn() -> Result<Pid, SpawnError>) -> u64 {
    let mut spawned = 0;
    while spawn().is_ok() {
        spawned += 1;
    }
    spawned
}

#[test]
fn a_thread_that_spawns_alone_meets_the_process_limit_exactly() {
    for limit in [1, 2, 100, 1000, 1023, 5000] {
        let config = Config { schedulers: 2, process_limit: limit, ..Config::default() };
        let (outside, inside) = (Runtime::start(config.clone()).unwrap(), Runtime::start(config).unwrap());

        let alone = spawn_until_refused(|| outside.spawn(|_| std::future::pending::<()>()));
        let parent = inside.spawn(|ctx| async move {
            spawn_until_refused(|| ctx.try_spawn(|_| std::future::pending::<()>()));
            std::future::pending::<()>().await;
        });
        parent.unwrap();

        assert_eq!(alone, limit as u64);
        eventually("as many inside", || inside.process_count() == limit as u64);
    }
}

#[test]
fn threads_that_spawn_at_once_exceed_the_process_limit_by_no_more_than_is_documented() {
    for limit in [1, 100, 1000, 20_000] {
        let runtime = Runtime::start(Config { schedulers: 2, process_limit: limit, ..Config::default() }).unwrap();

        let outside: u64 = std::thread::scope(|scope| {
            let spawn = || spawn_until_refused(|| runtime.spawn(|_| std::future::pending::<()>()));
            let threads = [(); 3].map(|()| scope.spawn(spawn));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });

        assert!((limit as u64..=bound(limit as u64, 2)).contains(&outside), "{outside} of {limit}");
    }
}

#[test]
fn places_that_schedulers_keep_are_within_the_documented_bound() {
    let runtime = Runtime::start(Config { schedulers: 2, process_limit: 1000, ..Config::default() }).unwrap();
    let most = Arc::new(AtomicU64::new(0));
    let spawners: Vec<Pid> = (0..8)
        .map(|_| {
            let most = Arc::clone(&most);
            let spawner = move |ctx: Context| async move {
                for _ in 0..200 {
                    // Children that end at once leave their slots in the free list of the scheduler that ran them.
                    for _ in 0..50 {
                        _ = ctx.try_spawn(|ctx: Context| async move { ctx.yield_now().await });
                    }
                    most.fetch_max(ctx.runtime().process_count(), Ordering::Relaxed);
                    ctx.yield_now().await;
                }
            };
            runtime.spawn(spawner).unwrap()
        })
        .collect();

    for pid in spawners {
        runtime.wait(pid);
    }

    assert!(most.load(Ordering::Relaxed) <= bound(1000, 2), "{most:?}");
}
