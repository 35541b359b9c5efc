//! Pairs of guests: a caller process tells a pinger how many round trips to make, and counts them.
//!
//! ```text
//!   caller ── call: at most 64 round trips ──▶ pinger ◀── messages ──▶ ponger      both are instances
//!      ▲── time of the last, number of wrong ones ───────┘
//! ```

use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{Context, ExitReason};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::measure::pace::Pace;
use crate::run::error::RunError;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES, message, number, words};

/// Bytes of a message before its payload: the pinger's pid, and a number.
const HEAD_BYTES: u64 = 16;
/// Address of the message in the pinger's memory.
const MESSAGE_PLACE: u64 = 64;
/// Timeout of one batch of round trips.
const CALL_WITHIN: Duration = Duration::from_secs(10);

/// Runs the scenario with guests, with at most `batch` round trips per call.
pub(super) async fn run(context: &mut RunContext, batch: u64) -> Result<(), RunError> {
    if context.params().word("placement") != "free" {
        return Err(RunError::Lacks("placement is not supported with body=module: leave placement=free".into()));
    }
    let workers = context.workers(context.params().auto_number("pairs"));
    let bytes = HEAD_BYTES + context.params().number("payload");
    let pages = (MESSAGE_PLACE + bytes).div_ceil(PAGE_BYTES);
    let config = WasmConfig {
        capacity: 2 * workers.count as u32,
        memory_max_bytes: pages * PAGE_BYTES,
        parts_max: 1,
        ..WasmConfig::default()
    };
    let guests = Guests::start(context, config).await?;
    let asks = guests.load(context, "pinger", Code::of(include_str!("../../wasm/guests/pinger.wat"), pages)).await?;
    let answers = guests.load(context, "ponger", Code::of(include_str!("../../wasm/guests/ponger.wat"), pages)).await?;
    context.prepared();
    for index in 0..workers.count {
        let caller = Caller {
            wasm: guests.wasm.clone(),
            asks: asks.clone(),
            answers: answers.clone(),
            bytes,
            batch,
            recorder: context.recorder(),
            pace: context.pace(index, workers.count, workers.duty),
        };
        context.spawn_worker(|ctx| caller.run(ctx))?;
    }
    context.stopped().await?;
    context.ended().await
}

struct Caller {
    wasm: Wasm,
    asks: Module,
    answers: Module,
    bytes: u64,
    /// Maximum number of round trips per call.
    batch: u64,
    recorder: Recorder,
    pace: Pace,
}

impl Caller {
    async fn run(mut self, ctx: Context) -> Result<(), RunError> {
        ctx.set_label("clerk");
        let start = |module: &Module, label| {
            // The caller sends the ponger's pid to the pinger.
            let started =
                self.wasm.spawn_from(&ctx, module, &GuestOptions::default().profile("trusted").linked().label(label));
            started.map(|(pid, _)| pid).map_err(|error| RunError::Lacks(error.to_string()))
        };
        let (asking, answering) = (start(&self.asks, "pinger")?, start(&self.answers, "ponger")?);
        while let Some(rounds) = self.pace.next_batch(&ctx, self.batch).await {
            let stamp = self.pace.begin_batch(&mut self.recorder, rounds);
            let row = message(&[rounds, number(answering) as u64, self.bytes]);
            let said = ctx.call::<_, Bytes>(asking, row, CALL_WITHIN).await;
            match said.ok().and_then(|said| words(&said)) {
                Some([last_ns, wrong]) => {
                    if self.pace.is_open() {
                        self.recorder.end(stamp);
                    } else {
                        self.recorder.latency(last_ns);
                    }
                    self.recorder.count(2 * (rounds - wrong.min(rounds)));
                    self.recorder.fail(wrong);
                }
                None => self.recorder.fail(rounds),
            }
        }
        for pid in [asking, answering] {
            ctx.unlink(pid);
            ctx.exit(pid, ExitReason::Killed);
        }
        Ok(())
    }
}
