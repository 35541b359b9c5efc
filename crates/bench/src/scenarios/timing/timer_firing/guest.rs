//! The seven actors in a guest, which times itself. They are in `wasm/guests/actors.wat` and begin with the same
//! signals.

use bytes::Bytes;
use rusm_runtime::{Context, ExitReason};
use rusm_wasm::{GuestOptions, Module, Wasm};

use super::kernels::Signals;
use crate::scenarios::wasm::guests::{message, words};

/// Number of firings in a turn that are timed one by one.
pub(super) const SINGLE: u64 = 200;
/// Message that asks for the current signals.
const SIGNALS: u64 = 7;

/// The compiled guest.
#[derive(Clone)]
pub(super) struct GuestActors {
    pub(super) wasm: Wasm,
    pub(super) module: Module,
}

/// Result of an actor in the guest.
pub(super) struct Fired {
    pub(super) single_ns: Vec<u64>,
    pub(super) batch_ns: u64,
    /// Signals after the last firing, as in the guest's memory.
    pub(super) signals: Bytes,
}

impl GuestActors {
    /// Runs an actor in a new instance: [`SINGLE`] firings one by one, then a batch.
    pub(super) async fn fire(self, ctx: &Context, actor: u64, batch: u64) -> Result<Fired, String> {
        let spawned = self.wasm.spawn_from(ctx, &self.module, &GuestOptions::default().linked());
        let (guest, _) = spawned.map_err(|error| error.to_string())?;
        ctx.send(guest, Bytes::from(Signals::new().bytes())).await;
        let mut single_ns = Vec::new();
        for _ in 0..SINGLE {
            ctx.send(guest, message(&[actor, 1])).await;
            single_ns.extend(words(&ctx.receive_of::<Bytes>().await).map(|[ns]| ns));
        }
        ctx.send(guest, message(&[actor, batch])).await;
        let [batch_ns] = words(&ctx.receive_of::<Bytes>().await).ok_or("a guest sends a number")?;
        ctx.send(guest, message(&[SIGNALS, 0])).await;
        let signals = ctx.receive_of::<Bytes>().await;
        ctx.unlink(guest);
        ctx.exit(guest, ExitReason::Killed);
        Ok(Fired { single_ns, batch_ns, signals })
    }
}
