//! Parked guests: each is asked whether it is still there before it is let go.

use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::wasm::{Guest, Module, Wasm, WasmConfig};
use rusm_runtime::{Context, Pid};

use crate::guests::{Code, Guests, PAGE_BYTES};
use crate::run::RunError;
use crate::stage::Stage;

/// Guests beyond those that wait: some end while others begin.
const CAPACITY_SPARE: u64 = 4_096;
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What starts guests that wait.
#[derive(Clone)]
pub(super) struct Hall {
    wasm: Wasm,
    module: Module,
    guest: Guest,
}

impl Hall {
    /// Makes room for so many, with so many pages of memory each.
    pub(super) async fn open(stage: &mut Stage, processes: u64, pages: u64) -> Result<Self, RunError> {
        let config = WasmConfig {
            capacity: u32::try_from(processes + CAPACITY_SPARE).unwrap_or(u32::MAX),
            memory_max_bytes: PAGE_BYTES,
            parts_max: 1,
            ..WasmConfig::default()
        };
        let guests = Guests::start(stage, config).await?;
        let module = guests.load(stage, "parked", Code::of(include_str!("../guests/parked.wat"), pages)).await?;
        Ok(Self { wasm: guests.wasm, module, guest: Guest::default() })
    }

    /// Starts one more; `None` if there is no room.
    pub(super) fn spawn(&self, ctx: &Context) -> Option<Pid> {
        self.wasm.spawn_from(ctx, &self.module, &self.guest).ok().map(|(pid, _)| pid)
    }

    /// Whether a guest answers.
    pub(super) async fn answers(ctx: &Context, pid: Pid) -> bool {
        ctx.call::<_, Bytes>(pid, Bytes::new(), ANSWER_WITHIN).await.is_ok()
    }
}
