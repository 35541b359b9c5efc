//! Limits the number of live processes in a storm: a spawner yields after each burst, and while too many processes
//! live.

use rusm_runtime::{Context, Handle};

use crate::context::RunContext;
use crate::measure::meter::Recorder;

/// Upper bound on the number of live processes during a storm.
#[derive(Clone, Debug)]
pub(crate) struct LiveCap {
    runtime: Handle,
    live_max: u64,
}

impl LiveCap {
    /// Creates a cap of `most` processes in addition to the spawners, and to those that existed before the run.
    pub(crate) fn beside_others(context: &RunContext, spawners: u64, most: u64) -> Self {
        Self { runtime: context.runtime().clone(), live_max: context.live_before() + spawners + most }
    }

    /// Yields if the burst is over, and as long as the cap is reached; returns true if it yielded.
    pub(crate) async fn gave_way(&self, ctx: &Context, recorder: &mut Recorder, burst_over: bool) -> bool {
        let mut gave_way = false;
        loop {
            let live = self.runtime.process_count();
            recorder.saw_live(live, || self.runtime.process_count());
            let is_full = live >= self.live_max;
            if is_full || (burst_over && !gave_way) {
                ctx.yield_now().await;
                gave_way = true;
            }
            if !is_full {
                return gave_way;
            }
        }
    }
}
