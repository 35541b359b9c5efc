//! State of `wasi:http` of a guest.

use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpHooks};

/// State of `wasi:http` of one guest.
#[derive(Default)]
pub(crate) struct HttpState {
    pub(crate) ctx: WasiHttpCtx,
    pub(crate) hooks: Hooks,
}

/// Sends requests as `wasmtime-wasi-http` does, after they were granted.
#[derive(Default)]
pub(crate) struct Hooks;

impl WasiHttpHooks for Hooks {}
