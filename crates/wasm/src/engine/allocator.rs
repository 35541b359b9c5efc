//! Configuration of the engine and of wasmtime's pooling instance allocator.

use std::ops::Range;

use rusm_runtime::observe::{MemoryRegion, MemoryUse};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::config::{InstanceAllocator, WasmConfig, defaults};

/// Size of a WebAssembly page in bytes.
pub(crate) const PAGE_BYTES: u64 = 65_536;
/// Size of the stack of a pooled instance. Guests may use half of it; the rest is for host calls.
const POOL_STACK_BYTES: usize = 256 << 10;
/// Address space per memory, if there is enough: all that a 32-bit address can reach.
const WIDE_BYTES: u64 = 4 << 30;
/// Guard behind it: offsets up to this size in an instruction need no bounds check.
const WIDE_GUARD_BYTES: u64 = 32 << 20;
/// Maximum address space of all memories together for that: half of a process's address space.
const ALL_WIDE_BYTES_MAX: u64 = 1 << 46;
/// Amount of dirty memory cleared in place when an instance ends, if the system can report dirty pages.
const KEEP_SCANNED_BYTES: usize = 2 << 20;
/// Amount cleared in place if the system cannot report dirty pages.
const KEEP_BYTES: usize = 4096;

/// Returns the settings that all allocators share.
pub(crate) fn base() -> Config {
    let mut config = Config::new();
    config.concurrency_support(false).epoch_interruption(true);
    // Enables all of WebAssembly 3.0, but not threads: they share memory, which processes must not.
    config.wasm_function_references(true).wasm_gc(true).wasm_exceptions(true).wasm_threads(false);
    config
}

/// Returns the instance allocator for this configuration.
pub(crate) const fn choose(config: &WasmConfig) -> InstanceAllocator {
    match config.allocator {
        InstanceAllocator::ByCapacity if config.capacity <= defaults::POOL_CAPACITY_MAX => InstanceAllocator::Pool,
        InstanceAllocator::ByCapacity => InstanceAllocator::Slabs,
        allocator => allocator,
    }
}

/// Maximum size of a memory in bytes, rounded up to whole pages.
pub(crate) const fn memory_bytes(config: &WasmConfig) -> u64 {
    config.memory_max_bytes.next_multiple_of(PAGE_BYTES)
}

/// Maximum number of memories, of tables and of core instances, over all guests.
const fn parts(config: &WasmConfig) -> u32 {
    config.capacity.saturating_mul(config.parts_max)
}

/// Describes the address ranges of a pool to observers.
pub(crate) fn regions(config: &WasmConfig, ranges: &[Range<usize>]) -> Vec<MemoryRegion> {
    let linear_max_bytes = memory_bytes(config) as usize;
    let used_for = MemoryUse::Pool { stack_bytes: POOL_STACK_BYTES, linear_max_bytes };
    ranges.iter().map(|range| MemoryRegion { used_for, start: range.start, bytes: range.len() }).collect()
}

/// Creates an engine with wasmtime's pool, tuned for short-lived instances.
///
/// Reserved address space costs nothing, but a system may limit it, and other engines use some. In that case each
/// memory reserves only its maximum size, every access is checked, and the second value is `"checked pool"`.
pub(crate) fn pool(config: &WasmConfig) -> wasmtime::Result<(Engine, &'static str)> {
    if may_be_wide(config) {
        match pool_of(base(), config, WIDE_BYTES, WIDE_GUARD_BYTES) {
            Ok(engine) => return Ok((engine, "pool")),
            Err(error) => {
                tracing::info!(
                    "memory accesses of guests are checked, because there is too little address space: {error:#}"
                );
            }
        }
    }
    Ok((checked_pool(base(), config)?, "checked pool"))
}

/// Creates an engine with a pool whose memories reserve only their maximum size.
pub(crate) fn checked_pool(settings: Config, config: &WasmConfig) -> wasmtime::Result<Engine> {
    pool_of(settings, config, memory_bytes(config), PAGE_BYTES)
}

const fn may_be_wide(config: &WasmConfig) -> bool {
    (WIDE_BYTES + WIDE_GUARD_BYTES).saturating_mul(parts(config) as u64) <= ALL_WIDE_BYTES_MAX
}

fn pool_of(
    mut engine: Config,
    config: &WasmConfig,
    reservation_bytes: u64,
    guard_bytes: u64,
) -> wasmtime::Result<Engine> {
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
            [few, many].map(|config| pool(&config).map(|(_, allocator)| allocator).ok()),
            [Some("pool"), Some("checked pool")]
        );
    }
}
