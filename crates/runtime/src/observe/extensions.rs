//! Engines, stores and servers that other crates have attached to a runtime.

pub(crate) mod engines;
pub(crate) mod peers;
pub(crate) mod servers;
pub(crate) mod stores;
pub(crate) mod tables;

use std::sync::Arc;

use crate::observe::extensions::engines::EngineReport;
use crate::observe::extensions::servers::HttpServer;
use crate::observe::extensions::stores::{Storage, StorageReport};
use crate::observe::extensions::tables::{RegistryReport, TableReport};
use crate::runtime::handle::Handle;

/// Returns the reports of the engines that have started processes in this runtime, oldest first.
pub fn engines(runtime: &Handle) -> Vec<EngineReport> {
    // Call the engines without the lock: a report may take long.
    runtime.shared.engines.all().iter().map(|engine| engine.report()).collect()
}

/// Returns the figures of all stores of this runtime, in the order in which they were attached or shown.
pub fn stores(runtime: &Handle) -> Vec<StorageReport> {
    // Not under the lock: a report may take long.
    runtime.shared.stores.all().iter().map(|store| store.report()).collect()
}

/// Returns the store at an index of [`stores`].
pub fn storage(runtime: &Handle, index: usize) -> Option<Arc<dyn Storage>> {
    runtime.shared.stores.at(index)
}

/// Returns the servers of this runtime that still exist, oldest first.
pub fn servers(runtime: &Handle) -> Vec<Arc<dyn HttpServer>> {
    runtime.shared.servers.all()
}

/// Returns the figures of the tables of this runtime that still exist, oldest first.
pub fn tables(runtime: &Handle) -> Vec<TableReport> {
    runtime.shared.collections.tables().iter().map(|table| table.report()).collect()
}

/// Returns the figures of the registries of this runtime that still exist, oldest first.
pub fn registries(runtime: &Handle) -> Vec<RegistryReport> {
    runtime.shared.collections.registries().iter().map(|registry| registry.report()).collect()
}
