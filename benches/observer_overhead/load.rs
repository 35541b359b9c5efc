//! The loads under which the cost of observing is measured; both keep every scheduler busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rusm_runtime::{Handle, Pid, SpawnError, observe};

/// Number of processes of a storm that may be alive at once.
const STORM_IN_FLIGHT: u64 = 2_000;
const PAIRS: usize = 64;

/// A load that runs until it is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    count: Box<dyn Fn() -> u64 + Send>,
}

impl Load {
    /// Spawns processes that end at once; an operation is a process that has ended.
    pub(crate) fn spawn_storm(runtime: &Handle) -> Result<Self, SpawnError> {
        let stop = Arc::new(AtomicBool::new(false));
        let others = runtime.process_count();
        for _ in 0..runtime.config().schedulers {
            let (stop, handle) = (Arc::clone(&stop), runtime.clone());
            runtime.spawn(move |ctx| async move {
                while !stop.load(Relaxed) {
                    for _ in 0..64 {
                        ctx.spawn(|_| async {});
                    }
                    ctx.yield_now().await;
                    while handle.process_count() > others + STORM_IN_FLIGHT && !stop.load(Relaxed) {
                        ctx.yield_now().await;
                    }
                }
            })?;
        }
        let handle = runtime.clone();
        Ok(Self { stop, count: Box::new(move || observe::totals(&handle).exited) })
    }

    /// Runs pairs of processes that answer each other; an operation is a round trip.
    pub(crate) fn ping_pong(runtime: &Handle) -> Result<Self, SpawnError> {
        let stop = Arc::new(AtomicBool::new(false));
        let trips: Arc<Vec<AtomicU64>> = Arc::new((0..PAIRS * 16).map(|_| AtomicU64::new(0)).collect());
        for pair in 0..PAIRS {
            let (stop, trips) = (Arc::clone(&stop), Arc::clone(&trips));
            runtime.spawn(move |ctx| async move {
                let echo = ctx.spawn(|ctx| async move {
                    while let Ok((from, number)) = ctx.receive().await.downcast::<(Pid, u64)>() {
                        ctx.send(from, number).await;
                    }
                });
                let mut number = 0_u64;
                while !stop.load(Relaxed) {
                    number += 1;
                    ctx.send(echo, (ctx.pid(), number)).await;
                    drop(ctx.receive().await);
                    trips[pair * 16].store(number, Relaxed);
                }
                ctx.send(echo, ()).await;
            })?;
        }
        Ok(Self { stop, count: Box::new(move || trips.iter().map(|trips| trips.load(Relaxed)).sum()) })
    }

    /// Returns the number of operations since the start.
    pub(crate) fn operations(&self) -> u64 {
        (self.count)()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}
