//! Tables and registries of a runtime, as observers see them.
//!
//! A table or registry is listed for as long as it exists. A report is created on request, and costs nothing otherwise.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::process::pid::Pid;

/// Figures of a [`Table`](crate::table::Table). Counters that end in `_total` never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableReport {
    /// Its name.
    pub name: Arc<str>,
    /// Rust type of its keys.
    pub key_type: &'static str,
    /// Rust type of its values.
    pub value_type: &'static str,
    /// Process to which it belongs.
    pub owner: Option<Pid>,
    /// Process that owns it after the owner.
    pub heir: Option<Pid>,
    /// Number of entries.
    pub entries: u64,
    /// Size of one entry in the table, in bytes, without what it keeps alive on the heap.
    pub entry_bytes: u64,
    /// Number of reads.
    pub reads_total: u64,
    /// Number of writes.
    pub writes_total: u64,
}

/// Figures of a [`Registry`](crate::registry::Registry). Counters that end in `_total` never decrease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryReport {
    /// Its name.
    pub name: Arc<str>,
    /// True if a key belongs to one process at most.
    pub is_unique: bool,
    /// Rust type of its keys.
    pub key_type: &'static str,
    /// Rust type of the messages of its processes.
    pub message_type: &'static str,
    /// Number of keys.
    pub keys: u64,
    /// Number of processes with a key.
    pub processes: u64,
    /// Number of lookups.
    pub lookups_total: u64,
    /// Number of registrations and their removals.
    pub changes_total: u64,
}

/// A table that observers can read.
pub(crate) trait ObservedTable: Send + Sync {
    fn report(&self) -> TableReport;
}

/// A registry that observers can read.
pub(crate) trait ObservedRegistry: Send + Sync {
    fn report(&self) -> RegistryReport;
}

/// Tables and registries of a runtime, oldest first.
#[derive(Default)]
pub(crate) struct Collections {
    tables: Mutex<Vec<Weak<dyn ObservedTable>>>,
    registries: Mutex<Vec<Weak<dyn ObservedRegistry>>>,
}

impl Collections {
    pub(crate) fn show_table(&self, table: Weak<dyn ObservedTable>) {
        add(&self.tables, table);
    }

    pub(crate) fn show_registry(&self, registry: Weak<dyn ObservedRegistry>) {
        add(&self.registries, registry);
    }

    pub(super) fn tables(&self) -> Vec<Arc<dyn ObservedTable>> {
        alive(&self.tables)
    }

    pub(super) fn registries(&self) -> Vec<Arc<dyn ObservedRegistry>> {
        alive(&self.registries)
    }
}

fn add<T: ?Sized>(list: &Mutex<Vec<Weak<T>>>, new: Weak<T>) {
    let mut list = list.lock();
    if list.len() == list.capacity() {
        // Before the list grows, remove what no longer exists: tables may come and go with their processes.
        list.retain(|entry| entry.strong_count() > 0);
        let len = list.len();
        list.reserve(len.max(4));
    }
    list.push(new);
}

fn alive<T: ?Sized>(list: &Mutex<Vec<Weak<T>>>) -> Vec<Arc<T>> {
    list.lock().iter().filter_map(Weak::upgrade).collect()
}
