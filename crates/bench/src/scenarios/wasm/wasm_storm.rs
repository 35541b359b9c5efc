//! Instances that end after one call: the common part of module-storm and component-storm.
//!
//! ```text
//!   spawner ── guest × burst ── yield ── take results of timed guests ─────┐
//!      ▲───────────────────────────────────────────────────────────────────┘
//!   guest: store, instance, call, drop ──▶ the engine's count of ended instances ──▶ operations
//! ```
//!
//! Only timed guests are monitored: the spawner waits for the message that any requester of a result would wait for,
//! and the other guests do not pay for it. The engine counts the faults of all guests.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use rusm_runtime::{Context, Down, MonitorRef};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

use crate::context::RunContext;
use crate::defaults;
use crate::measure::meter::{Recorder, Stamp};
use crate::measure::pace::Pace;
use crate::parameter::{Kind, Parameter};
use crate::run::error::RunError;
use crate::scenarios::live_cap::LiveCap;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES};

/// Cost of monitoring an instance, receiving its end and finding its stamp.
const MONITOR_NS: u32 = 400;
/// Maximum time that a spawner waits at the end for outstanding results.
const RESULTS_WITHIN: Duration = Duration::from_secs(30);

/// Parameters of a storm of instances.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "spawners",
        description: "Processes that start instances; auto is the profile's number of workers.",
        kind: Kind::AutoCount { min: 1, max: 1_024 },
    },
    Parameter {
        name: "live-cap",
        description: "Instances alive at once, for each core.",
        kind: Kind::Count { min: 1, max: 100_000, default: defaults::LIVE_CAP_PER_CORE },
    },
    Parameter {
        name: "burst",
        description: "Instances that a spawner starts before it yields.",
        kind: Kind::Count { min: 1, max: 100_000, default: defaults::WASM_BURST },
    },
    Parameter {
        name: "memory",
        description: "Pages of 64 KiB that an instance has.",
        kind: Kind::Choice { words: &["1", "0", "17"] },
    },
];

/// Returns the number of memory pages of an instance.
pub(crate) fn pages(context: &RunContext) -> u64 {
    context.params().word("memory").parse().unwrap_or_else(|_| unreachable!("the words are numbers"))
}

/// Runs a storm of one guest.
pub(crate) async fn run(context: &mut RunContext, name: &'static str, code: Code) -> Result<(), RunError> {
    let workers = context.workers(context.params().auto_number("spawners"));
    let (live_cap, burst) =
        (context.params().number("live-cap") * context.schedulers() as u64, context.params().number("burst"));
    let config = WasmConfig {
        // A spawner checks the cap after each burst.
        capacity: u32::try_from(live_cap + workers.count * burst).unwrap_or(u32::MAX),
        memory_max_bytes: MEMORY_MAX_BYTES,
        parts_max: 1,
        ..WasmConfig::default()
    };
    let guests = Guests::start(context, config).await?;
    let module = guests.load(context, name, code).await?;
    let counted = guests.wasm.clone();
    context.meter().count_by(move || {
        let stats = counted.stats();
        stats.started_total.saturating_sub(u64::from(stats.live) + stats.failed_total)
    });
    let counted = guests.wasm.clone();
    context.meter().fail_by(move || counted.stats().failed_total);
    context.meter().timing_costs(MONITOR_NS);
    context.prepared();
    for index in 0..workers.count {
        let spawner = Spawner {
            wasm: guests.wasm.clone(),
            module: module.clone(),
            guest: GuestOptions::default(),
            monitored: GuestOptions::default().monitored(),
            recorder: context.recorder(),
            pace: context.pace(index, workers.count, workers.duty),
            live_cap: LiveCap::beside_others(context, workers.count, live_cap),
            burst,
            asked: HashMap::new(),
        };
        context.spawn_worker(|ctx| spawner.run(ctx))?;
    }
    context.stopped().await?;
    context.ended().await
}

/// Memory limit of an instance: somewhat above the largest parameter value.
const MEMORY_MAX_BYTES: u64 = 32 * PAGE_BYTES;

struct Spawner {
    wasm: Wasm,
    module: Module,
    guest: GuestOptions,
    monitored: GuestOptions,
    recorder: Recorder,
    pace: Pace,
    live_cap: LiveCap,
    burst: u64,
    /// Results that have not arrived yet.
    asked: HashMap<MonitorRef, Stamp>,
}

impl Spawner {
    async fn run(mut self, ctx: Context) {
        ctx.set_label("spawner");
        let mut in_burst = 0;
        while let Some(ops) = self.pace.next_batch(&ctx, self.burst - in_burst).await {
            for _ in 0..ops {
                self.spawn(&ctx);
            }
            in_burst += ops;
            if self.live_cap.gave_way(&ctx, &mut self.recorder, in_burst == self.burst).await {
                in_burst = 0;
            }
            self.take_results(&ctx).await;
        }
        while !self.asked.is_empty() {
            match ctx.receive_timeout(RESULTS_WITHIN).await {
                Some(message) => self.end(message.downcast::<Down>().ok()),
                None => return self.recorder.fail(self.asked.len() as u64),
            }
        }
    }

    fn spawn(&mut self, ctx: &Context) {
        let stamp = self.pace.begin(&mut self.recorder);
        let guest = if stamp.is_timed() { &self.monitored } else { &self.guest };
        match self.wasm.spawn_from(ctx, &self.module, guest) {
            Ok((_, Some(monitor))) => drop(self.asked.insert(monitor, stamp)),
            Ok((_, None)) => {}
            Err(_) => self.recorder.fail(1),
        }
    }

    async fn take_results(&mut self, ctx: &Context) {
        while !self.asked.is_empty() {
            match poll_fn(|cx| Poll::Ready(pin!(ctx.receive()).poll(cx))).await {
                Poll::Ready(message) => self.end(message.downcast::<Down>().ok()),
                Poll::Pending => return,
            }
        }
    }

    fn end(&mut self, down: Option<Down>) {
        if let Some(stamp) = down.and_then(|down| self.asked.remove(&down.reference)) {
            self.recorder.end(stamp);
        }
    }
}
