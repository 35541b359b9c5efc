//! Children that are guests and crash with a trap.
//!
//! ```text
//!   child: call with its number and the time ─────▶ driver: latency of its last crash, its turn ── reply ──▶ child
//!      ▲                                                                                                      │
//!      └── supervisor: exit signal, restart ◀── trap ◀── message with the time of the crash ◀─────────────────┘
//! ```
//!
//! Both times are read by the guests, so that the latency includes no message.

use bytes::Bytes;
use rusm_runtime::supervisor::{ChildSpec, Shutdown, Strategy, Supervisor};
use rusm_runtime::{Context, Down, ExitReason, InitError, Message, ReplyTo, Request};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

use super::checks::{LOOK_EVERY, LOOKS_MAX, PERIOD, faults_of};
use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::run::error::RunError;
use crate::run::flags::StopFlag;
use crate::run::profile::Workers;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES, number, words};

/// Starts the supervisors, each with a driver process.
pub(super) async fn start(
    context: &mut RunContext,
    strategy: Strategy,
    workers: Workers,
    children: u64,
) -> Result<(), RunError> {
    // A restarted child may start before the instance of its predecessor is gone.
    let capacity = u32::try_from(2 * workers.count * children).unwrap_or(u32::MAX);
    let config = WasmConfig { capacity, memory_max_bytes: PAGE_BYTES, parts_max: 1, ..WasmConfig::default() };
    let guests = Guests::start(context, config).await?;
    let module = guests.load(context, "crasher", Code::of(include_str!("../../wasm/guests/crasher.wat"), 1)).await?;
    context.prepared();
    for index in 0..workers.count {
        let driver = SupervisorDriver {
            strategy,
            wasm: guests.wasm.clone(),
            module: module.clone(),
            crashed: vec![None; children as usize],
            crashes: 0,
            pace: context.pace(index, workers.count, workers.duty),
            stop: context.stop_flag(),
            recorder: context.recorder(),
        };
        context.spawn_worker(|ctx| driver.run(ctx))?;
    }
    Ok(())
}

/// Starts one supervisor, tells its children when to crash, and shuts them down when the run is over.
struct SupervisorDriver {
    strategy: Strategy,
    wasm: Wasm,
    module: Module,
    /// Crash times of the children that have not come back, by the guests' clock.
    crashed: Vec<Option<u64>>,
    crashes: u64,
    pace: Pace,
    stop: StopFlag,
    recorder: Recorder,
}

impl SupervisorDriver {
    async fn run(mut self, ctx: Context) -> Result<(), InitError> {
        ctx.set_label("conductor");
        ctx.trap_exits(true);
        let mut tree = Supervisor::new(self.strategy).intensity(u32::MAX, PERIOD);
        for child in 0..self.crashed.len() {
            tree = tree.child(self.child(&ctx, child));
        }
        let supervisor = tree.start_link(&ctx).await?;
        let watched = ctx.monitor(supervisor.pid());
        while !self.stop.is_set() {
            if let Some(message) = ctx.receive_timeout(LOOK_EVERY).await
                && let Some(child) = self.take(message)
                && self.pace.next_batch(&ctx, 1).await.is_some()
            {
                self.pace.begin(&mut self.recorder);
                child.send(&ctx, Bytes::new());
            }
        }
        // No more crashes from here on; children that came back wait for the order.
        let mut waiting = Vec::new();
        let mut looks = 0;
        while looks < LOOKS_MAX {
            if let Some(message) = ctx.receive_timeout(LOOK_EVERY).await {
                waiting.extend(self.take(message));
                continue;
            }
            looks = if self.unrecovered() == 0 { LOOKS_MAX } else { looks + 1 };
        }
        let crashes = if self.strategy == Strategy::OneForOne { self.crashes } else { 0 };
        let faults = faults_of(&ctx, &supervisor, self.crashed.len() as u64, crashes).await;
        self.recorder.fail(self.unrecovered() + faults);
        ctx.exit(supervisor.pid(), ExitReason::Shutdown);
        let is_its_end =
            |message: &Message| message.downcast_ref::<Down>().is_some_and(|down| down.reference == watched);
        drop(ctx.receive_match(is_its_end).await);
        Ok(())
    }

    fn child(&self, ctx: &Context, child: usize) -> ChildSpec {
        // The child calls this process, which is not the process that starts it.
        let guest = GuestOptions::default().profile("trusted").args([number(ctx.pid()).to_string(), child.to_string()]);
        self.wasm.child(format!("child {child}"), &self.module, guest).shutdown(Shutdown::BrutalKill)
    }

    /// Handles a message of a child: it crashes now, or it runs and waits for the order to crash.
    fn take(&mut self, message: Message) -> Option<ReplyTo<Bytes>> {
        let message = match message.downcast::<Bytes>() {
            Ok(crash) => {
                let [child, at_ns] = words(&crash)?;
                *self.crashed.get_mut(child as usize)? = Some(at_ns);
                self.crashes += 1;
                return None;
            }
            Err(message) => message,
        };
        let Request { request, reply } = message.downcast::<Request<Bytes, Bytes>>().ok()?;
        let [child, at_ns] = words(&request)?;
        if let Some(crashed_ns) = self.crashed.get_mut(child as usize)?.take() {
            self.recorder.latency(at_ns.saturating_sub(crashed_ns));
            self.recorder.count(1);
        }
        Some(reply)
    }

    /// Returns the number of crashes from which no child has come back.
    fn unrecovered(&self) -> u64 {
        self.crashed.iter().flatten().count() as u64
    }
}
