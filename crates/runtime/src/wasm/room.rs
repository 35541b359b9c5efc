//! The room that instances live in: the settings of the engine for what the node is to hold.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::config::{Room, WasmConfig, defaults};

/// Bytes of a WebAssembly page.
pub(crate) const PAGE_BYTES: u64 = 65_536;
/// Stack of a pooled instance, of which guests use half; the rest is for what the node does in their calls.
const POOL_STACK_BYTES: usize = 256 << 10;
/// Address space for each memory, where there is enough: all that an address in a register names.
const WIDE_BYTES: u64 = 4 << 30;
/// What may be added to such an address in an instruction without a check.
const WIDE_GUARD_BYTES: u64 = 32 << 20;
/// Address space that all memories together may take for that: half of what a process has.
const ALL_WIDE_BYTES_MAX: u64 = 1 << 46;
/// Dirty memory that is cleared in place when an instance ends, if the system can say which pages are dirty.
const KEEP_SCANNED_BYTES: usize = 2 << 20;
/// The same where it cannot.
const KEEP_BYTES: usize = 4096;

/// Settings that all rooms share.
pub(super) fn base() -> Config {
    let mut config = Config::new();
    config.concurrency_support(false).epoch_interruption(true);
    // All of WebAssembly 3.0; threads share memory, which processes do not.
    config.wasm_function_references(true).wasm_gc(true).wasm_exceptions(true).wasm_threads(false);
    config
}

/// Where instances live for these settings.
pub(crate) const fn of(config: &WasmConfig) -> Room {
    match config.room {
        Room::ByCapacity if config.capacity <= defaults::POOL_CAPACITY_MAX => Room::Pool,
        Room::ByCapacity => Room::Slabs,
        room => room,
    }
}

/// Bytes that a memory may have, in whole pages.
pub(crate) const fn memory_bytes(config: &WasmConfig) -> u64 {
    config.memory_max_bytes.next_multiple_of(PAGE_BYTES)
}

/// Memories, tables and core instances of all guests.
const fn parts(config: &WasmConfig) -> u32 {
    config.capacity.saturating_mul(config.parts_max)
}

/// wasmtime's pool, tuned for instances that come and go.
///
/// Address space costs nothing until it is touched, but a system may grant less of it, and other engines take theirs: then
/// memories have what they may grow to, every access is checked, and the second value is `"checked pool"`.
pub(crate) fn pool(config: &WasmConfig) -> wasmtime::Result<(Engine, &'static str)> {
    if may_be_wide(config) {
        match pool_of(config, WIDE_BYTES, WIDE_GUARD_BYTES) {
            Ok(engine) => return Ok((engine, "pool")),
            Err(error) => {
                tracing::info!("guests' accesses to memory are checked, for want of address space: {error:#}");
            }
        }
    }
    Ok((pool_of(config, memory_bytes(config), PAGE_BYTES)?, "checked pool"))
}

const fn may_be_wide(config: &WasmConfig) -> bool {
    (WIDE_BYTES + WIDE_GUARD_BYTES).saturating_mul(parts(config) as u64) <= ALL_WIDE_BYTES_MAX
}

fn pool_of(config: &WasmConfig, reservation_bytes: u64, guard_bytes: u64) -> wasmtime::Result<Engine> {
    let parts = parts(config);
    let scanned = PoolingAllocationConfig::is_pagemap_scan_available();
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(config.capacity)
        .total_core_instances(parts)
        .total_memories(parts)
        .total_tables(parts)
        .total_stacks(config.capacity)
        .total_gc_heaps(config.capacity)
        .max_core_instances_per_component(config.parts_max)
        .max_memories_per_component(config.parts_max)
        .max_tables_per_component(config.parts_max)
        .max_memories_per_module(config.parts_max)
        .max_tables_per_module(config.parts_max)
        .max_memory_size(memory_bytes(config) as usize)
        .table_elements(config.table_max_elements as usize)
        .linear_memory_keep_resident(if scanned { KEEP_SCANNED_BYTES } else { KEEP_BYTES })
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(8 << 10)
        .pagemap_scan(if scanned { Enabled::Yes } else { Enabled::No });
    let mut engine = base();
    engine
        .memory_init_cow(true)
        .memory_reservation(reservation_bytes)
        .memory_guard_size(guard_bytes)
        .guard_before_linear_memory(false)
        .async_stack_size(POOL_STACK_BYTES)
        .max_wasm_stack(POOL_STACK_BYTES / 2)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_wide_by_default_and_not_where_they_would_take_most_of_the_address_space() {
        let config = WasmConfig::default();
        let many = WasmConfig { capacity: defaults::POOL_CAPACITY_MAX, ..config.clone() };

        let few = WasmConfig { capacity: 16, ..config.clone() };

        assert!(may_be_wide(&config));
        assert_eq!(
            [few, many].map(|config| pool(&config).map(|(_, room)| room).ok()),
            [Some("pool"), Some("checked pool")]
        );
    }
}
