//! Spawn, run, exit, reap: the rate at which processes can come and go.
//!
//! ```text
//!   spawner ── spawn × burst ── yield ── while the live cap is reached: yield ───────┐
//!      ▲─────────────────────────────────────────────────────────────────────────────┘
//!   child: returns at once ──▶ reaped ──▶ the runtime's count of ended processes ──▶ operations
//! ```
//!
//! A child that runs soon after it was spawned finds its memory in the cache; its latency is the wait in the run queue.
//! CPU time per operation and median latency by burst (two spawners on two cores, interleaved, median of 6, release):
//! 16: 47.3 ns and 0.4 µs; 64: 47.2 ns and 1.6 µs; 256: 50.3 ns and 6 µs; 1,000: 54.0 ns and 25 µs; only the cap of
//! 2,000: 51.3 ns and 33 µs. On the runtime alone (one scheduler, nothing timed, median of 5): 16: 29.8 ns; 32: 29.1 ns;
//! 60: 28.9 ns; 64: 33.4 ns; 256: 35.0 ns.

use rusm_protocol::Unit;
use rusm_runtime::{Context, observe};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::defaults;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::scenario::{Scenario, ScenarioRun};
use crate::scenarios::live_cap::LiveCap;

/// Number of processes that a spawner starts between two checks of the stop flag and the cap.
const BATCH: u64 = 64;

/// Scenario that spawns, runs and reaps processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpawnStorm;

impl Scenario for SpawnStorm {
    fn card(&self) -> Card {
        Card {
            id: "spawn-storm",
            family: Family::Actors,
            label: "Spawn storm",
            description: "Processes that end as soon as they run, as many as the spawners can start.",
            details: &[
                "One operation is a process spawned, run, exited and reaped: it counts when its slot is free again.",
                "The runtime counts ended processes: if the node runs anything else, that counts, too.",
                "Latency is from before the spawn call to the child's first instruction, so it includes the time in \
                 the run queue.",
                "A spawner yields after each burst, and for as long as the live cap is reached. With small bursts, the \
                 default, far fewer processes than the cap are alive. With a burst of the cap or more, children wait \
                 longer and each costs more.",
                "It does not measure processes that have state: these hold nothing and send nothing.",
                "A good result: a high rate without errors. Goal: at most 0.15 µs of CPU time for each process.",
            ],
            ops_label: "spawns/s",
            latency_label: Some("spawn call to first instruction"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "spawners",
                    description: "Processes that spawn; auto is the profile's number of workers.",
                    kind: Kind::AutoCount { min: 1, max: 1_024 },
                },
                Parameter {
                    name: "live-cap",
                    description: "Processes of the storm alive at once, for each core.",
                    kind: Kind::Count { min: BATCH, max: 1_000_000, default: defaults::LIVE_CAP_PER_CORE },
                },
                Parameter {
                    name: "burst",
                    description: "Processes that a spawner starts before it yields.",
                    kind: Kind::Count { min: 1, max: 1_000_000, default: defaults::SPAWN_BURST },
                },
            ],
            source_file: file!(),
            timed: "spawn",
            ops_per_timed: 1,
            sampling: 64,
        }
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let workers = context.workers(context.params().auto_number("spawners"));
            let most = context.params().number("live-cap") * context.schedulers() as u64;
            let live_cap = LiveCap::beside_others(context, workers.count, most);
            let burst = context.params().number("burst");
            let runtime = context.runtime().clone();
            context.meter().count_by(move || observe::totals(&runtime).exited);
            for index in 0..workers.count {
                let spawner = Spawner {
                    recorder: context.recorder(),
                    pace: context.pace(index, workers.count, workers.duty),
                    live_cap: live_cap.clone(),
                    burst,
                };
                context.spawn_worker(|ctx| spawner.run(ctx))?;
            }
            context.stopped().await?;
            context.ended().await
        })
    }
}

struct Spawner {
    recorder: Recorder,
    pace: Pace,
    live_cap: LiveCap,
    burst: u64,
}

impl Spawner {
    async fn run(mut self, ctx: Context) {
        ctx.set_label("spawner");
        let mut in_burst = 0;
        while let Some(ops) = self.pace.next_batch(&ctx, BATCH.min(self.burst - in_burst)).await {
            for _ in 0..ops {
                self.spawn(&ctx);
            }
            in_burst += ops;
            if self.live_cap.gave_way(&ctx, &mut self.recorder, in_burst == self.burst).await {
                in_burst = 0;
            }
        }
    }

    #[inline]
    fn spawn(&mut self, ctx: &Context) {
        let stamp = self.pace.begin(&mut self.recorder);
        let spawned = if stamp.is_timed() {
            let probe = self.recorder.probe();
            ctx.try_spawn(move |_| async move { probe.end(stamp) })
        } else {
            ctx.try_spawn(|_| async {})
        };
        if spawned.is_err() {
            self.recorder.fail(1);
        }
    }
}
