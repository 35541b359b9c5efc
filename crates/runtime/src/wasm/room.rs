//! The room that instances live in: the settings of the engine for what the node is to hold.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::config::{Room, WasmConfig, defaults};

/// Bytes of a WebAssembly page.
pub(crate) const PAGE_BYTES: u64 = 65_536;
/// Stack of a pooled instance, of which guests use half; the rest is for what the node does in their calls.
const POOL_STACK_BYTES: usize = 256 << 10;
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

/// wasmtime's pool, tuned for instances that come and go.
pub(crate) fn pool(config: &WasmConfig) -> wasmtime::Result<Engine> {
    let parts = config.capacity.saturating_mul(config.parts_max);
    let memory_bytes = memory_bytes(config);
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
        .max_memory_size(memory_bytes as usize)
        .table_elements(config.table_max_elements as usize)
        .linear_memory_keep_resident(if scanned { KEEP_SCANNED_BYTES } else { KEEP_BYTES })
        .table_keep_resident(64 << 10)
        .async_stack_keep_resident(8 << 10)
        .pagemap_scan(if scanned { Enabled::Yes } else { Enabled::No });
    let mut engine = base();
    engine
        .memory_init_cow(true)
        .memory_reservation(memory_bytes)
        .memory_guard_size(PAGE_BYTES)
        .guard_before_linear_memory(false)
        .async_stack_size(POOL_STACK_BYTES)
        .max_wasm_stack(POOL_STACK_BYTES / 2)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&engine)
}
