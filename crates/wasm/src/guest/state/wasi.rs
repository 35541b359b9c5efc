//! WASI state of a guest.

#[cfg(feature = "http")]
use std::sync::Arc;

#[cfg(feature = "http")]
use rusm_runtime::Pid;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::p1::WasiP1Ctx;

#[cfg(feature = "http")]
use crate::guest::guest_info::GuestInfo;
use crate::guest::state::resources::ResourceMemory;
use crate::wasi::name_lookups::GuestLookups;

/// Output of a guest that may go on in another process.
#[cfg(feature = "http")]
pub(crate) trait OutputLines: Send + Sync {
    /// Writes a line that has no end yet.
    fn flush_line(&self);

    /// Writes the lines for another process from now on.
    fn belong_to(&self, pid: Pid, info: &Arc<GuestInfo>);
}

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
    /// Memory of the resources in the table.
    pub(crate) memory: ResourceMemory,
    pub(crate) lookups: GuestLookups,
    #[cfg(feature = "http")]
    pub(crate) http: super::http::HttpState,
    /// Standard output and standard error.
    #[cfg(feature = "http")]
    pub(crate) lines: [Arc<dyn OutputLines>; 2],
}
