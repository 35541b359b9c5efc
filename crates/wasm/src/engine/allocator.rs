//! Configuration of the engine and of wasmtime's pooling instance allocator.

use std::fmt;
use std::num::ParseIntError;
use std::ops::Range;
use std::str::FromStr;

use rusm_runtime::observe::{MemoryRegion, MemoryUse};
use wasmtime::{Collector, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

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
fn base() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    // Enables all of WebAssembly 3.0, but not threads: they share memory, which processes must not.
    config.wasm_function_references(true).wasm_gc(true).wasm_exceptions(true).wasm_threads(false);
    // This collector also frees cycles, and yields between its steps. The other one frees a long list in one step.
    config.collector(Collector::Copying);
    config
}

/// The settings of an engine that its compiled code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeSettings {
    /// Address space in bytes of a memory, and of the guard behind it. `None` if a memory reserves nothing, and grows by
    /// moving.
    reserved: Option<(u64, u64)>,
    is_concurrent: bool,
}

impl CodeSettings {
    /// For memories that reserve nothing: the code checks each access against the current size.
    pub(crate) const GROWING: Self = Self { reserved: None, is_concurrent: false };

    pub(crate) fn config(self) -> Config {
        let mut config = base();
        config.concurrency_support(self.is_concurrent).guard_before_linear_memory(false);
        let (reservation_bytes, guard_bytes) = self.reserved.unwrap_or_default();
        config.memory_reservation(reservation_bytes).memory_guard_size(guard_bytes);
        if self.reserved.is_none() {
            config.memory_init_cow(false).memory_reservation_for_growth(0).memory_may_move(true);
        }
        config
    }
}

impl fmt::Display for CodeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_concurrent = u8::from(self.is_concurrent);
        match self.reserved {
            Some((reservation_bytes, guard_bytes)) => write!(f, "{is_concurrent},{reservation_bytes},{guard_bytes}"),
            None => write!(f, "{is_concurrent}"),
        }
    }
}

impl FromStr for CodeSettings {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let (is_concurrent, reserved) = text.split_once(',').map_or((text, None), |(first, rest)| (first, Some(rest)));
        let bytes = |text: &str| text.parse::<u64>();
        let reserved = match reserved.map(|sizes| sizes.split_once(',').unwrap_or((sizes, ""))) {
            Some((reservation_bytes, guard_bytes)) => Some((bytes(reservation_bytes)?, bytes(guard_bytes)?)),
            None => None,
        };
        Ok(Self { reserved, is_concurrent: bytes(is_concurrent)? == 1 })
    }
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
pub(crate) fn pool(config: &WasmConfig) -> wasmtime::Result<(Engine, CodeSettings, &'static str)> {
    if may_be_wide(config) {
        let wide = CodeSettings { reserved: Some((WIDE_BYTES, WIDE_GUARD_BYTES)), is_concurrent: false };
        match pool_of(wide, config) {
            Ok(engine) => return Ok((engine, wide, "pool")),
            Err(error) => {
                tracing::info!(
                    "memory accesses of guests are checked, because there is too little address space: {error:#}"
                );
            }
        }
    }
    let (engine, code) = checked_pool(config, false)?;
    Ok((engine, code, "checked pool"))
}

/// Creates an engine with a pool whose memories reserve only their maximum size.
pub(crate) fn checked_pool(config: &WasmConfig, is_concurrent: bool) -> wasmtime::Result<(Engine, CodeSettings)> {
    let code = CodeSettings { reserved: Some((memory_bytes(config), PAGE_BYTES)), is_concurrent };
    Ok((pool_of(code, config)?, code))
}

const fn may_be_wide(config: &WasmConfig) -> bool {
    (WIDE_BYTES + WIDE_GUARD_BYTES).saturating_mul(parts(config) as u64) <= ALL_WIDE_BYTES_MAX
}

fn pool_of(code: CodeSettings, config: &WasmConfig) -> wasmtime::Result<Engine> {
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
    let mut engine = code.config();
    engine
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
            [few, many].map(|config| pool(&config).map(|(_, _, allocator)| allocator).ok()),
            [Some("pool"), Some("checked pool")]
        );
    }

    #[test]
    fn code_of_the_same_settings_fits_every_engine() {
        let config = WasmConfig { capacity: 16, ..WasmConfig::default() };
        let hash = |engine: &Engine| {
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut hasher = DefaultHasher::new();
            engine.precompile_compatibility_hash().hash(&mut hasher);
            hasher.finish()
        };
        let (pool, wide, _) = pool(&config).unwrap();
        let (checked_pool, checked) = checked_pool(&config, true).unwrap();
        let (slabs, _) = crate::engine::slabs::Slabs::engine(&config).unwrap();

        for (engine, code) in [(pool, wide), (checked_pool, checked), (slabs, CodeSettings::GROWING)] {
            let parsed: CodeSettings = code.to_string().parse().unwrap();
            assert_eq!((parsed, hash(&Engine::new(&parsed.config()).unwrap())), (code, hash(&engine)));
        }
        assert!("".parse::<CodeSettings>().is_err() && "1,2".parse::<CodeSettings>().is_err());
    }
}
