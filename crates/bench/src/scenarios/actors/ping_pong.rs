//! A message there and a message back: the cost of passing a message between two processes.
//!
//! ```text
//!   pinger ── ping (number, payload) ──▶ ponger
//!      ▲────── pong (the same) ────────────┘        one in flight per pair
//! ```

mod guests;

use rusm_protocol::Unit;
use rusm_runtime::{Context, Pid};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioRun};

/// Number of round trips between two checks of the stop flag.
const BATCH: u64 = 64;

/// Scenario that sends a message there and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingPong;

impl Scenario for PingPong {
    fn card(&self) -> Card {
        Card {
            id: "ping-pong",
            family: Family::Actors,
            label: "Ping-pong",
            description: "Pairs of processes that send one message back and forth.",
            details: &[
                "One operation is a delivered message; a round trip is two.",
                "Latency is the round trip, from before the ping is sent to after the pong is received.",
                "Each pair has one message in flight, so with one pair the rate is the inverse of the latency.",
                "The pinger writes the payload and the ponger reads it, byte by byte; it moves without a copy. A wrong \
                 byte counts as an error.",
                "The runtime moves a pair to the same scheduler. With placement=other the two are pinned to different \
                 schedulers, and the figure is the cost of a message between cores.",
                "With body=module both processes of a pair are guests. A message is copied into and out of their \
                 memories, and the payload is carried but not read.",
                "A pinger that is a guest times the last round trip of each group of at most 64. In an open loop the \
                 latency is that of the group.",
                "A good result: a high rate and a short round trip. Goal: one pair is at least twice as fast as on \
                 tokio's current-thread runtime.",
            ],
            ops_label: "messages/s",
            latency_label: Some("round trip"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "pairs",
                    description: "Pairs of processes; auto is the profile's number of workers.",
                    kind: Kind::AutoCount { min: 1, max: 100_000 },
                },
                Parameter {
                    name: "payload",
                    description: "Bytes that each message carries in addition to its number.",
                    kind: Kind::Bytes { min: 0, max: 1 << 20, default: 0 },
                },
                Parameter {
                    name: "placement",
                    description: "Schedulers of a pair: free is the runtime's choice, same is one, other is two.",
                    kind: Kind::Choice { words: &["free", "same", "other"] },
                },
                Parameter {
                    name: "body",
                    description: "Kind of the processes: native, or instances of a WebAssembly module.",
                    kind: Kind::Choice { words: &["native", "module"] },
                },
            ],
            source_file: file!(),
            timed: "round trip",
            ops_per_timed: 2,
            sampling: 32,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            if context.params().word("body") == "module" {
                return guests::run(context, BATCH).await;
            }
            context.prepared();
            let workers = context.workers(context.params().auto_number("pairs"));
            let payload = context.params().number("payload") as usize;
            let apart = match context.params().word("placement") {
                "free" => None,
                "same" => Some(0),
                _ if context.schedulers() < 2 => {
                    return Err(RunError::Lacks(
                        "placement=other needs two schedulers and this node has one: start it with --schedulers 2"
                            .into(),
                    ));
                }
                _ => Some(1),
            };
            for index in 0..workers.count {
                let [here, there] = places(apart, index as usize, context.schedulers());
                let recorder = context.recorder();
                let ponger = if payload == 0 {
                    context.spawn_worker_on(there, pong)?
                } else {
                    let recorder = context.recorder();
                    context.spawn_worker_on(there, |ctx| pong_payload(ctx, recorder))?
                };
                let sender = Pinger { ponger, recorder, pace: context.pace(index, workers.count, workers.duty) };
                if payload == 0 {
                    context.spawn_worker_on(here, |ctx| sender.run(ctx))?;
                } else {
                    context.spawn_worker_on(here, move |ctx| sender.run_payload(ctx, payload))?;
                }
            }
            context.stopped().await
        })
    }
}

/// Returns the schedulers of a pair, `apart` positions from each other; `None` leaves placement to the runtime.
fn places(apart: Option<usize>, pair: usize, schedulers: usize) -> [Option<usize>; 2] {
    [0, 1].map(|side| apart.map(|apart| (pair + side * apart) % schedulers))
}

type Ping = (Pid, u64);
type PingPayload = (Pid, u64, Vec<u8>);
type Pong = (u64, Vec<u8>);

async fn pong(ctx: Context) {
    ctx.set_label("ponger");
    loop {
        let (from, number): Ping = ctx.receive_of().await;
        ctx.send(from, number).await;
    }
}

async fn pong_payload(ctx: Context, mut recorder: Recorder) {
    ctx.set_label("ponger");
    loop {
        let (from, number, payload): PingPayload = ctx.receive_of().await;
        if payload.iter().any(|byte| *byte != number as u8) {
            recorder.fail(1);
        }
        ctx.send(from, (number, payload)).await;
    }
}

struct Pinger {
    ponger: Pid,
    recorder: Recorder,
    pace: Pace,
}

impl Pinger {
    async fn run(mut self, ctx: Context) {
        ctx.set_label("pinger");
        let mut number = 0;
        while let Some(ops) = self.pace.next_batch(&ctx, BATCH).await {
            for _ in 0..ops {
                number += 1;
                let stamp = self.pace.begin(&mut self.recorder);
                ctx.send(self.ponger, (ctx.pid(), number)).await;
                let answer: u64 = ctx.receive_of().await;
                self.recorder.end(stamp);
                self.count(answer == number);
            }
        }
    }

    async fn run_payload(mut self, ctx: Context, bytes: usize) {
        ctx.set_label("pinger");
        let mut number = 0;
        let mut payload = vec![0; bytes];
        while let Some(ops) = self.pace.next_batch(&ctx, BATCH).await {
            for _ in 0..ops {
                number += 1;
                let stamp = self.pace.begin(&mut self.recorder);
                payload.fill(number as u8);
                ctx.send(self.ponger, (ctx.pid(), number, payload)).await;
                let answer: Pong = ctx.receive_of().await;
                payload = answer.1;
                self.recorder.end(stamp);
                self.count(answer.0 == number);
            }
        }
    }

    #[inline]
    fn count(&mut self, right: bool) {
        if right {
            self.recorder.count(2);
        } else {
            self.recorder.fail(1);
        }
    }
}
