//! State of `wasi:http` of a guest.

use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpHooks};

/// Maximum size of the fields of one resource, in bytes: room for the largest head that a server accepts.
const FIELDS_BYTES_MAX: usize = 32 * 1024;

/// State of `wasi:http` of one guest.
pub(crate) struct HttpState {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

impl Default for HttpState {
    fn default() -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(FIELDS_BYTES_MAX);
        Self { ctx, hooks: Hooks }
    }
}

/// Sends requests as `wasmtime-wasi-http` does, after they were granted.
#[derive(Default)]
pub(crate) struct Hooks;

impl WasiHttpHooks for Hooks {}
