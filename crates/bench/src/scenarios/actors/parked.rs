//! Processes that wait for a message: the cost of a million of them, and of starting and ending some meanwhile.
//!
//! ```text
//!   spawner ── spawn × 64 ── yield ── more than its share? a message to the oldest ──┐
//!      ▲────────────────────────────────────────────────────────────────────────────┘
//!   child: waits for a message ──▶ ends with it
//! ```
//!
//! A spawner remembers its children in the order of their start and releases all of them before it ends. If a spawner
//! is killed from outside, the driver process ends its children.

mod guests;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use rusm_protocol::Unit;
use rusm_runtime::{Config, Context, Pid, observe};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::defaults;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::scenario::{Scenario, ScenarioRun};
use guests::ParkedGuests;

/// Number of processes that a spawner starts or releases before it yields.
const BATCH: u64 = 64;
/// Interval at which a spawner that has nothing left to do checks the stop flag.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Scenario with processes that wait for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked;

impl Scenario for Parked {
    fn card(&self) -> Card {
        Card {
            id: "parked",
            family: Family::Actors,
            label: "Parked processes",
            description: "A large number of processes that wait for a message; new ones replace the oldest.",
            details: &[
                "One operation is a process that was spawned and now waits for a message. It counts when it has been \
                 spawned.",
                "Once the requested number is reached, each new process ends the oldest one by a message; the figure \
                 includes this.",
                "With renew=no the processes stay until the run is stopped, so that they can be looked at. After the \
                 last one nothing is counted any more, so a run without a screen has no figures.",
                "Latency is from before the spawn call to the child's first instruction, or to a guest's answer.",
                "With body=module a process is an instance of a WebAssembly module with a page of memory, with \
                 body=empty-module one without memory.",
                "Each instance must answer before it is ended, and those that are timed also after their start. One \
                 that does not answer is an error.",
                "The cost of one process is the resident memory, less that of an idle node, divided by the number of \
                 processes. The state of a process would add to it.",
                "Goal: at most 512 bytes for each native process.",
            ],
            ops_label: "spawns/s",
            latency_label: Some("spawn call to first instruction"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "processes",
                    description: "Processes that wait at the same time.",
                    kind: Kind::Count { min: 1_000, max: 10_000_000, default: defaults::PARKED },
                },
                Parameter {
                    name: "renew",
                    description: "yes: new processes keep replacing the oldest. no: all stay.",
                    kind: Kind::Choice { words: &["yes", "no"] },
                },
                Parameter {
                    name: "body",
                    description: "Kind of the processes: native, or WebAssembly instances with or without a page of \
                                  memory.",
                    kind: Kind::Choice { words: &["native", "module", "empty-module"] },
                },
            ],
            source_file: file!(),
            timed: "spawn",
            ops_per_timed: 1,
            sampling: 64,
        }
    }

    fn lacks(&self, runtime: &Config) -> Option<String> {
        let (processes, limit) = (defaults::PARKED, runtime.process_limit as u64);
        (processes >= limit).then(|| format!("{processes} processes need a higher --process-limit than {limit}"))
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let processes = context.params().number("processes");
            let renew = context.params().word("renew") == "yes";
            let workers = context.workers(None);
            let limit = observe::process_limit(context.runtime()) as u64;
            if context.live_before() + processes + workers.count >= limit {
                return Err(RunError::Lacks(format!(
                    "{processes} processes are too many for this node, which has room for {limit}: set --process-limit"
                )));
            }
            let parked_guests = match context.params().word("body") {
                "native" => None,
                "module" => Some(ParkedGuests::open(context, processes, 1).await?),
                _ => Some(ParkedGuests::open(context, processes, 0).await?),
            };
            context.prepared();
            let mut spawners = Vec::new();
            for index in 0..workers.count {
                let share = processes / workers.count + u64::from(index < processes % workers.count);
                let spawner = Spawner {
                    share,
                    renew,
                    parked_guests: parked_guests.clone(),
                    // Exactly what it needs: growing would take up to twice as much.
                    parked: VecDeque::with_capacity((share + BATCH) as usize),
                    recorder: context.recorder(),
                    pace: context.pace(index, workers.count, workers.duty),
                    stop: context.stop_flag(),
                };
                spawners.push(context.spawn_worker(|ctx| spawner.run(ctx))?);
            }
            let stopped = context.stopped().await;
            if stopped.is_err() {
                context.end_children_of(&spawners).await;
            }
            stopped?;
            context.ended().await
        })
    }
}

struct Spawner {
    share: u64,
    renew: bool,
    /// Set if the waiting processes are guests.
    parked_guests: Option<ParkedGuests>,
    /// Waiting processes, oldest first.
    parked: VecDeque<Pid>,
    recorder: Recorder,
    pace: Pace,
    stop: StopFlag,
}

impl Spawner {
    async fn run(mut self, ctx: Context) {
        ctx.set_label("spawner");
        while let Some(ops) = self.pace.next_batch(&ctx, self.room()).await {
            for _ in 0..ops {
                if self.parked_guests.is_some() {
                    self.spawn_guest(&ctx).await;
                } else {
                    self.spawn(&ctx);
                }
            }
            ctx.yield_now().await;
            self.let_go(&ctx, (self.parked.len() as u64).saturating_sub(self.share)).await;
            if self.room() == 0 {
                self.rest(&ctx).await;
            }
        }
        while !self.parked.is_empty() {
            self.let_go(&ctx, BATCH).await;
            ctx.yield_now().await;
        }
    }

    /// Returns the number of processes that may be started in the next turn.
    fn room(&self) -> u64 {
        if self.renew { BATCH } else { BATCH.min(self.share.saturating_sub(self.parked.len() as u64)) }
    }

    #[inline]
    fn spawn(&mut self, ctx: &Context) {
        let stamp = self.pace.begin(&mut self.recorder);
        let spawned = if stamp.is_timed() {
            let probe = self.recorder.probe();
            ctx.try_spawn(move |ctx| async move {
                probe.end(stamp);
                drop(ctx.receive().await);
            })
        } else {
            ctx.try_spawn(|ctx| async move { drop(ctx.receive().await) })
        };
        match spawned {
            Ok(pid) => {
                self.parked.push_back(pid);
                self.recorder.count(1);
            }
            Err(_) => self.recorder.fail(1),
        }
    }

    async fn spawn_guest(&mut self, ctx: &Context) {
        let stamp = self.pace.begin(&mut self.recorder);
        let Some(pid) = self.parked_guests.as_ref().and_then(|parked_guests| parked_guests.spawn(ctx)) else {
            return self.recorder.fail(1);
        };
        self.parked.push_back(pid);
        if stamp.is_timed() && !ParkedGuests::answers(ctx, pid).await {
            return self.recorder.fail(1);
        }
        self.recorder.end(stamp);
        self.recorder.count(1);
    }

    async fn let_go(&mut self, ctx: &Context, count: u64) {
        for _ in 0..count {
            let Some(pid) = self.parked.pop_front() else { return };
            // A child may already have been ended from outside: a failed send is not an error.
            if self.parked_guests.is_none() {
                drop(ctx.try_send(pid, ()));
                continue;
            }
            if !ParkedGuests::answers(ctx, pid).await {
                self.recorder.fail(1);
            }
            drop(ctx.try_send(pid, Bytes::new()));
        }
    }

    async fn rest(&self, ctx: &Context) {
        while !self.stop.is_set() {
            ctx.sleep(LOOK_EVERY).await;
        }
    }
}
