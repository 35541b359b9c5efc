//! Resources of a component count in the bound of all guests.

use wasmtime::component::ResourceTable;

use crate::guest::state::GuestState;
use crate::guest::state::resources::{RESOURCE_BYTES, ResourceMemory};
use crate::guest::state::wasi::{Preview2, Wasi};

/// Maximum number of resources, such as sockets and pollables, per component: they use memory of the node.
pub(crate) const RESOURCES_MAX: usize = 1_024;

impl GuestState {
    fn resources(&mut self) -> (&mut ResourceTable, &mut ResourceMemory) {
        match self.wasi.as_deref_mut() {
            Some(Wasi::Preview2(Preview2 { table, memory, .. })) => (table, memory),
            _ => unreachable!("a component that imports WASI gets it at its start"),
        }
    }

    /// Takes room for what a call may add to its resources, besides the resource itself.
    ///
    /// # Errors
    /// The limit, if all guests together have too much memory.
    pub(crate) fn hold_resources(&mut self, bytes: u64) -> wasmtime::Result<()> {
        let (table, memory) = self.resources();
        if memory.add(bytes) {
            memory.count(table);
        }
        if self.hold_small(0).is_ok() {
            return Ok(());
        }
        // The figure may be too high.
        let (table, memory) = self.resources();
        memory.count(table);
        memory.add(bytes);
        let bytes = memory.bytes();
        self.hold_small(0).map_err(|full| self.exceeded(full.max_bytes, true, bytes))
    }

    /// Takes room for the list of a folder with this number of names.
    ///
    /// # Errors
    /// As [`hold_resources`](Self::hold_resources).
    pub(crate) fn hold_list(&mut self, names: u64) -> wasmtime::Result<()> {
        // Lists that were dropped make room.
        let (table, memory) = self.resources();
        memory.count(table);
        memory.list(names);
        let held = self.hold_resources(0);
        if held.is_err() {
            self.resources().1.forget_list(names);
        }
        held
    }

    /// Counts a call that adds at most one resource, of no content. Without room for what there is, the next one that adds
    /// a resource fails.
    #[inline]
    pub(crate) fn count_call(&mut self) {
        let (_, memory) = self.resources();
        if memory.add(RESOURCE_BYTES) {
            let has_room = self.hold_resources(0).is_ok();
            self.resources().0.set_max_capacity(if has_room { RESOURCES_MAX } else { 0 });
        }
    }
}
