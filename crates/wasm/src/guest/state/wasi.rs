//! WASI state of a guest.

use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::p1::WasiP1Ctx;

/// WASI state of one guest.
pub(crate) enum Wasi {
    /// Preview 1, for core modules.
    Preview1(WasiP1Ctx),
    /// Preview 2, for components.
    Preview2(Preview2),
}

/// WASI state of a component.
pub(crate) struct Preview2 {
    pub(crate) ctx: WasiCtx,
    pub(crate) table: ResourceTable,
    #[cfg(feature = "http")]
    pub(crate) http: super::http::HttpState,
}
