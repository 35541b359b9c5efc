//! Configuration of WebAssembly processes.

use std::path::PathBuf;
use std::time::Duration;

use super::engine::compiler::Compiler;
use super::engine::error::EngineError;
use super::guest::capability::Profiles;

/// Values of [`WasmConfig::default`], for help texts and documentation.
pub mod defaults {
    use std::time::Duration;

    /// Maximum number of live instances.
    pub const CAPACITY: u32 = 1_000;
    /// Maximum linear memory of one instance, in bytes.
    pub const MEMORY_MAX_BYTES: u64 = 16 << 20;
    /// Maximum number of elements of a table.
    pub const TABLE_MAX_ELEMENTS: u32 = 20_000;
    /// Maximum number of core instances, of memories and of tables per process.
    pub const PARTS_MAX: u32 = 16;
    /// Maximum length of a message that a guest sends, in bytes.
    pub const MESSAGE_MAX_BYTES: u32 = 16 << 20;
    /// Maximum number of bytes that a guest may have sent and that are not received yet.
    pub const SENT_MAX_BYTES: u64 = 16 << 20;
    /// Maximum number of log lines of a guest per second.
    pub const LOG_LINES_PER_SEC: u32 = 1_000;
    /// Maximum number of log bytes of a guest per second.
    pub const LOG_BYTES_PER_SEC: u64 = 256 << 10;
    /// Longest time that a guest runs before other processes get their turn.
    pub const TICK: Duration = Duration::from_millis(1);
    /// Maximum size of the cache of compiled code, in bytes.
    pub const CACHE_MAX_BYTES: u64 = 1 << 30;
    /// Largest capacity for which the pool is used; above it, slabs are.
    ///
    /// A pooled instance uses up to five memory maps, and Linux allows 65,530 per process.
    pub const POOL_CAPACITY_MAX: u32 = 8_192;
}

/// Allocator of instances.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{InstanceAllocator, WasmConfig};
///
/// // Many small guests.
/// let config = WasmConfig {
///     capacity: 100_000,
///     memory_max_bytes: 1 << 20,
///     allocator: InstanceAllocator::Slabs,
///     ..WasmConfig::default()
/// };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstanceAllocator {
    /// Chosen by capacity: the pool up to [`defaults::POOL_CAPACITY_MAX`], slabs above.
    #[default]
    ByCapacity,
    /// wasmtime's pool: fastest start, thousands of instances.
    Pool,
    /// One mapping for all stacks and one for all memories: hundreds of thousands of instances.
    Slabs,
}

/// Configuration of WebAssembly processes.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{Wasm, WasmConfig};
///
/// // At most 50 guests, each with up to 1 MiB.
/// let wasm = Wasm::start(WasmConfig { capacity: 50, memory_max_bytes: 1 << 20, ..WasmConfig::default() })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WasmConfig {
    /// Maximum number of live instances, at least 1. Default 1,000. Reserves address space, not memory, for each.
    pub capacity: u32,
    /// Allocator of instances. Default: chosen by capacity.
    pub allocator: InstanceAllocator,
    /// Maximum linear memory of one instance in bytes, up to 4 GiB. Default 16 MiB. Reserves address space for all of
    /// it, times capacity and parts. The pool reserves 4 GiB each, as long as the total fits into 64 TiB, half of a
    /// process's address space.
    pub memory_max_bytes: u64,
    /// Maximum memory of all guests together in bytes: linear memory from the start, used or not, streams and timers.
    /// Growing beyond it ends the guest. Default: no bound besides `capacity` and `memory_max_bytes`.
    pub guests_memory_max_bytes: u64,
    /// Maximum number of elements of one table. Default 20,000.
    pub table_max_elements: u32,
    /// Maximum number of core instances, of memories and of tables per process. Default 16: a component of a language
    /// with its own runtime has about a dozen.
    pub parts_max: u32,
    /// Maximum length of a message that a guest sends, in bytes. Default 16 MiB.
    pub message_max_bytes: u32,
    /// Maximum number of bytes that one guest, with all guests that it starts, may have sent and that are not received
    /// yet. Default 16 MiB. All guests together may use half of the runtime's
    /// [`mailbox_total_bytes`](rusm_runtime::Config::mailbox_total_bytes).
    pub sent_max_bytes: u64,
    /// Maximum number of lines per second that one guest may write to the log, standard output and standard error.
    /// Default 1,000. All guests together may write 16 times as many. Further lines are cut and counted.
    pub log_lines_per_sec: u32,
    /// Maximum number of bytes per second of these lines, after escaping. Default 256 KiB.
    pub log_bytes_per_sec: u64,
    /// Longest time that a guest runs before other processes get their turn. Default 1 ms. Shorter is fairer, but
    /// switches more often.
    pub tick: Duration,
    /// Program that compiles modules in processes of its own, with limited memory. Default: none, and the process that
    /// loads a module compiles it, which can take all memory of the machine.
    pub compiler: Option<Compiler>,
    /// Directory of the cache of compiled code. Default: no cache.
    pub cache_dir: Option<PathBuf>,
    /// Maximum size of that cache in bytes. Default 1 GiB; the least recently used entries are removed first.
    pub cache_max_bytes: u64,
    /// Allow guests to start modules by path, not only by the names that the node registered. Default: false.
    pub spawn_by_path: bool,
    /// Named sets of capabilities for guests. Default: `sandboxed`, `network` and `trusted`.
    pub profiles: Profiles,
    /// Give guests with the capability `topics` access to the granted topics of the runtime. Default: false, and
    /// guests that import topics do not load.
    pub topics: bool,
    /// Store for guests with the capability `kv`. Default: none, and guests that import the store do not load.
    #[cfg(feature = "store")]
    pub store: Option<rusm_store::Store>,
}

impl Default for WasmConfig {
    fn default() -> Self {
        Self {
            capacity: defaults::CAPACITY,
            allocator: InstanceAllocator::default(),
            memory_max_bytes: defaults::MEMORY_MAX_BYTES,
            guests_memory_max_bytes: u64::MAX,
            table_max_elements: defaults::TABLE_MAX_ELEMENTS,
            parts_max: defaults::PARTS_MAX,
            message_max_bytes: defaults::MESSAGE_MAX_BYTES,
            sent_max_bytes: defaults::SENT_MAX_BYTES,
            log_lines_per_sec: defaults::LOG_LINES_PER_SEC,
            log_bytes_per_sec: defaults::LOG_BYTES_PER_SEC,
            tick: defaults::TICK,
            compiler: None,
            cache_dir: None,
            cache_max_bytes: defaults::CACHE_MAX_BYTES,
            spawn_by_path: false,
            profiles: Profiles::default(),
            topics: false,
            #[cfg(feature = "store")]
            store: None,
        }
    }
}

impl WasmConfig {
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let ranges = [
            ("capacity", u64::from(self.capacity), 1, 16_000_000),
            ("memory_max_bytes", self.memory_max_bytes, 1, 4 << 30),
            ("table_max_elements", u64::from(self.table_max_elements), 1, 10_000_000),
            ("parts_max", u64::from(self.parts_max), 1, 1_000),
            ("message_max_bytes", u64::from(self.message_max_bytes), 1, u64::from(u32::MAX)),
            ("sent_max_bytes", self.sent_max_bytes, 1, u64::MAX),
            ("log_lines_per_sec", u64::from(self.log_lines_per_sec), 1, u64::from(u32::MAX)),
            ("log_bytes_per_sec", self.log_bytes_per_sec, 1, u64::MAX),
            ("tick in microseconds", self.tick.as_micros() as u64, 100, 1_000_000),
        ];
        match ranges.into_iter().find(|(_, value, min, max)| !(min..=max).contains(&value)) {
            Some((name, value, min, max)) => Err(EngineError::OutOfRange { name, value, min, max }),
            None => Ok(()),
        }
    }
}
