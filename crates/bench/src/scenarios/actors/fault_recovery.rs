//! Crash, notice, restart: the rate at which a supervisor restarts its children.
//!
//! ```text
//!   child: first instruction ── records the latency of the last crash ── waits for its turn ── crash
//!      ▲                                                                                         │
//!      └────────── supervisor: exit signal, decision, restart ◀──────────────────────────────────┘
//! ```
//!
//! The state that survives a child's crashes is in its slot, and only one incarnation at a time may take it. A child
//! returns the state however it ends, by a crash or by being stopped.

mod checks;
mod traps;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use parking_lot::Mutex;
use rusm_protocol::Unit;
use rusm_runtime::supervisor::{ChildSpec, Shutdown, Strategy, Supervisor, SupervisorRef};
use rusm_runtime::{Context, Down, ExitReason, InitError, observe};

use crate::card::{Card, Family};
use crate::context::RunContext;
use crate::measure::meter::{Recorder, Stamp};
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::run::flags::StopFlag;
use crate::scenario::{Scenario, ScenarioRun};

use checks::{LOOK_EVERY, LOOKS_MAX, PERIOD, faults_of};

/// The scenario `fault-recovery`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultRecovery;

impl Scenario for FaultRecovery {
    fn card(&self) -> Card {
        Card {
            id: "fault-recovery",
            family: Family::Actors,
            label: "Fault recovery",
            description: "Children that crash as soon as they run, and supervisors that restart them.",
            details: &[
                "One operation is a noticed crash and the restart of the child, until it runs again.",
                "Latency is from just before the crash to the first instruction of the restarted child.",
                "With cause=exit a child returns an error. With cause=panic it panics, which takes some microseconds \
                 longer because of unwinding. With cause=trap it is an instance of a WebAssembly module that traps.",
                "The supervisors are those of the runtime, with exit signals, a sliding window of restarts and an \
                 ordered list of children. The window is short, so that they never give up.",
                "Errors are crashes without a recovery at the end, failed restarts, and children that are lost or do \
                 not run at the end. With one-for-one a crash without a restart is an error, too.",
                "It does not measure how long a child takes to restore its state: these children have none.",
                "A good result: a high rate, a low latency and no errors.",
            ],
            ops_label: "recoveries/s",
            latency_label: Some("crash to first instruction"),
            unit: Unit::Count,
            parameters: &[
                Parameter {
                    name: "supervisors",
                    description: "Supervisors; auto is the profile's number of workers.",
                    kind: Kind::AutoCount { min: 1, max: 10_000 },
                },
                Parameter {
                    name: "children",
                    description: "Children of each supervisor.",
                    kind: Kind::Count { min: 1, max: 10_000, default: 1 },
                },
                Parameter {
                    name: "strategy",
                    description: "Children that are restarted with one that crashed.",
                    kind: Kind::Choice { words: &["one-for-one", "one-for-all", "rest-for-one"] },
                },
                Parameter {
                    name: "cause",
                    description: "Cause of a crash; with trap the children are guests.",
                    kind: Kind::Choice { words: &["exit", "panic", "trap"] },
                },
            ],
            source_file: file!(),
            timed: "recovery",
            ops_per_timed: 1,
            sampling: 8,
        }
    }

    fn prepares(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, context: &'a mut RunContext) -> ScenarioRun<'a> {
        Box::pin(async move {
            let workers = context.workers(context.params().auto_number("supervisors"));
            let children = context.params().number("children");
            let strategy = match context.params().word("strategy") {
                "one-for-all" => Strategy::OneForAll,
                "rest-for-one" => Strategy::RestForOne,
                _ => Strategy::OneForOne,
            };
            let cause = context.params().word("cause");
            let panics = cause == "panic";
            let all = workers.count * children;
            let before = observe::supervision(context.runtime());
            let mut recorder = context.recorder();
            let natives = if cause == "trap" {
                traps::start(context, strategy, workers, children).await?;
                0
            } else {
                context.prepared();
                workers.count
            };
            for index in 0..natives {
                let slots: Vec<ChildSlot> = (0..children)
                    .map(|child| {
                        let pace = context.pace(index * children + child, all, workers.duty);
                        Arc::new(Mutex::new(Some(SurvivingState {
                            recorder: context.recorder(),
                            pace,
                            crashed: None,
                            crashes: 0,
                        })))
                    })
                    .collect();
                let driver = SupervisorDriver {
                    strategy,
                    slots,
                    panics,
                    stop: context.stop_flag(),
                    recorder: context.recorder(),
                };
                context.spawn_worker(|ctx| driver.run(ctx))?;
                // A run of many supervisors can be ended while it begins.
                context.yield_now().await;
            }
            context.stopped().await?;
            let ended = context.ended().await;
            let after = observe::supervision(context.runtime());
            recorder.fail(after.restarts_failed - before.restarts_failed + after.children_lost - before.children_lost);
            ended
        })
    }
}

/// State of a child that survives its crashes.
struct SurvivingState {
    recorder: Recorder,
    pace: Pace,
    crashed: Option<Stamp>,
    crashes: u64,
}

/// Slot for the state of one child; empty while an incarnation holds the state.
type ChildSlot = Arc<Mutex<Option<SurvivingState>>>;

/// Guard of an incarnation that holds the state; dropping it puts the state back.
struct Lease<'a> {
    slot: &'a ChildSlot,
    state: Option<SurvivingState>,
}

impl<'a> Lease<'a> {
    fn take(slot: &'a ChildSlot) -> Option<Self> {
        let state = slot.lock().take()?;
        Some(Self { slot, state: Some(state) })
    }
}

impl Deref for Lease<'_> {
    type Target = SurvivingState;

    fn deref(&self) -> &SurvivingState {
        self.state.as_ref().unwrap_or_else(|| unreachable!("taken only by drop"))
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut SurvivingState {
        self.state.as_mut().unwrap_or_else(|| unreachable!("taken only by drop"))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        *self.slot.lock() = self.state.take();
    }
}

/// Body of a child: records the recovery from the last crash, waits for its turn, and crashes.
async fn live(ctx: Context, slot: ChildSlot, panics: bool) -> ExitReason {
    let Some(mut lease) = Lease::take(&slot) else {
        return ExitReason::other("two incarnations of one child");
    };
    if let Some(crashed) = lease.crashed.take() {
        lease.recorder.end(crashed);
        lease.recorder.count(1);
    }
    let state = &mut *lease;
    if state.pace.next_batch(&ctx, 1).await.is_none() {
        drop(lease);
        return std::future::pending().await;
    }
    state.crashed = Some(state.pace.begin(&mut state.recorder));
    state.crashes += 1;
    drop(lease);
    assert!(!panics, "a crash as ordered");
    ExitReason::other("a crash as ordered")
}

/// Driver of one supervisor: starts it, and checks its children at the end of the run.
struct SupervisorDriver {
    strategy: Strategy,
    slots: Vec<ChildSlot>,
    panics: bool,
    stop: StopFlag,
    recorder: Recorder,
}

impl SupervisorDriver {
    async fn run(mut self, ctx: Context) -> Result<(), InitError> {
        ctx.set_label("conductor");
        ctx.trap_exits(true);
        let panics = self.panics;
        let mut tree = Supervisor::new(self.strategy).intensity(u32::MAX, PERIOD);
        for (number, slot) in self.slots.iter().enumerate() {
            let slot = Arc::clone(slot);
            let child = ChildSpec::new(format!("child {number}"), move |ctx| live(ctx, Arc::clone(&slot), panics));
            tree = tree.child(child.shutdown(Shutdown::BrutalKill));
        }
        let supervisor = tree.start_link(&ctx).await?;
        let watched = ctx.monitor(supervisor.pid());
        while !self.stop.is_set() {
            ctx.sleep(LOOK_EVERY).await;
        }
        for _ in 0..LOOKS_MAX {
            if self.unrecovered() == 0 {
                break;
            }
            ctx.sleep(LOOK_EVERY).await;
        }
        let faults = self.faults(&ctx, supervisor).await;
        self.recorder.fail(faults);
        ctx.exit(supervisor.pid(), ExitReason::Shutdown);
        let is_its_end = |message: &rusm_runtime::Message| {
            message.downcast_ref::<Down>().is_some_and(|down| down.reference == watched)
        };
        drop(ctx.receive_match(is_its_end).await);
        Ok(())
    }

    /// Returns the number of faults at the end of the run.
    async fn faults(&self, ctx: &Context, supervisor: SupervisorRef) -> u64 {
        let crashes = if self.strategy == Strategy::OneForOne { self.crashes() } else { 0 };
        self.unrecovered() + faults_of(ctx, &supervisor, self.slots.len() as u64, crashes).await
    }

    /// Returns the number of crashes of all children.
    fn crashes(&self) -> u64 {
        let of = |slot: &ChildSlot| slot.lock().as_ref().map_or(0, |state| state.crashes);
        self.slots.iter().map(of).sum()
    }

    /// Returns the number of children that have not come back from a crash.
    fn unrecovered(&self) -> u64 {
        let is_open = |slot: &&ChildSlot| slot.lock().as_ref().is_none_or(|state| state.crashed.is_some());
        self.slots.iter().filter(is_open).count() as u64
    }
}
