//! Parked guests: before a guest is released, it must answer a call.

use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::{Context, Pid};
use rusm_wasm::{GuestOptions, Module, Wasm, WasmConfig};

use crate::context::RunContext;
use crate::run::error::RunError;
use crate::scenarios::wasm::guests::{Code, Guests, PAGE_BYTES};

/// Extra instances beyond the waiting guests: some end while others start.
const CAPACITY_SPARE: u64 = 4_096;
/// Timeout of an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Starts waiting guests.
#[derive(Clone)]
pub(super) struct ParkedGuests {
    wasm: Wasm,
    module: Module,
    guest: GuestOptions,
}

impl ParkedGuests {
    /// Creates the engine for this number of guests, each with `pages` pages of memory.
    pub(super) async fn open(context: &mut RunContext, processes: u64, pages: u64) -> Result<Self, RunError> {
        let config = WasmConfig {
            capacity: u32::try_from(processes + CAPACITY_SPARE).unwrap_or(u32::MAX),
            memory_max_bytes: PAGE_BYTES,
            parts_max: 1,
            ..WasmConfig::default()
        };
        let guests = Guests::start(context, config).await?;
        let module =
            guests.load(context, "parked", Code::of(include_str!("../../wasm/guests/parked.wat"), pages)).await?;
        Ok(Self { wasm: guests.wasm, module, guest: GuestOptions::default() })
    }

    /// Starts a guest; `None` if it cannot be started.
    pub(super) fn spawn(&self, ctx: &Context) -> Option<Pid> {
        self.wasm.spawn_from(ctx, &self.module, &self.guest).ok().map(|(pid, _)| pid)
    }

    /// Returns true if a guest answers.
    pub(super) async fn answers(ctx: &Context, pid: Pid) -> bool {
        ctx.call::<_, Bytes>(pid, Bytes::new(), ANSWER_WITHIN).await.is_ok()
    }
}
