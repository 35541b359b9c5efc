//! What can be set about WebAssembly processes.

use std::path::PathBuf;
use std::time::Duration;

use super::EngineError;
use super::capability::Profiles;

/// The values of [`WasmConfig::default`], for help texts and documents.
pub mod defaults {
    use std::time::Duration;

    /// Instances that may live at once.
    pub const CAPACITY: u32 = 1_000;
    /// Linear memory that one instance may have, in bytes.
    pub const MEMORY_MAX_BYTES: u64 = 16 << 20;
    /// Elements that the tables of one instance may have.
    pub const TABLE_MAX_ELEMENTS: u32 = 20_000;
    /// Core instances, memories and tables that one process may consist of.
    pub const PARTS_MAX: u32 = 16;
    /// Bytes of one message that a guest sends.
    pub const MESSAGE_MAX_BYTES: u32 = 16 << 20;
    /// Bytes of messages that a guest may have sent that are not received yet.
    pub const SENT_MAX_BYTES: u64 = 16 << 20;
    /// Lines that a guest may write to the log in a second.
    pub const LOG_LINES_PER_SEC: u32 = 1_000;
    /// Bytes that a guest may write to the log in a second.
    pub const LOG_BYTES_PER_SEC: u64 = 256 << 10;
    /// How long a guest runs before others get their turn.
    pub const TICK: Duration = Duration::from_millis(1);
    /// Bytes of compiled code kept on disk.
    pub const CACHE_MAX_BYTES: u64 = 1 << 30;
    /// The largest capacity that is served by the pool; above it, by slabs.
    ///
    /// A pooled instance takes up to five memory maps, and Linux allows 65,530 of them.
    pub const POOL_CAPACITY_MAX: u32 = 8_192;
}

/// Where instances live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// By capacity: the pool up to [`defaults::POOL_CAPACITY_MAX`], else slabs.
    #[default]
    ByCapacity,
    /// wasmtime's pool: the fastest start, thousands of instances.
    Pool,
    /// One mapping each for all stacks and memories: hundreds of thousands of instances.
    Slabs,
}

/// What can be set about WebAssembly processes.
#[derive(Clone, Debug)]
pub struct WasmConfig {
    /// Instances that may live at once, 1 or more. Default 1,000. Address space, not memory, is set aside for each.
    pub capacity: u32,
    /// Where instances live. Default: by capacity.
    pub room: Room,
    /// Linear memory that one instance may have, in bytes, up to 4 GiB. Default 16 MiB. Address space is set aside for
    /// all of it, times capacity and parts; in the pool for 4 GiB of each, as long as that fits into 64 TiB, half of what a
    /// program has.
    pub memory_max_bytes: u64,
    /// Elements that one table may have. Default 20,000.
    pub table_max_elements: u32,
    /// Core instances, memories and tables that one process may consist of. Default 16: a component of a language with a runtime of its own has a dozen.
    pub parts_max: u32,
    /// Bytes of one message that a guest sends. Default 16 MiB.
    pub message_max_bytes: u32,
    /// Bytes of messages that one guest, with all that it starts, may have sent that are not received yet. Default 16 MiB. All
    /// guests together may have half of the runtime's [`mailbox_total_bytes`](crate::Config::mailbox_total_bytes).
    pub sent_max_bytes: u64,
    /// Lines that one guest may write to the log in a second, to standard output and error too. Default 1,000. All guests
    /// together may write 16 times as much; lines beyond are cut and counted.
    pub log_lines_per_sec: u32,
    /// Bytes of these lines, after escaping. Default 256 KiB.
    pub log_bytes_per_sec: u64,
    /// How long a guest runs before others get their turn. Default 1 ms. Shorter is fairer, and costs more switches.
    pub tick: Duration,
    /// Where compiled code is kept between runs. Default: nowhere.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of compiled code kept there. Default 1 GiB; the entries used longest ago go first.
    pub cache_max_bytes: u64,
    /// Whether a guest may start modules by a path, not only by the names that the node gave them. Default: no.
    pub spawn_by_path: bool,
    /// What guests may do, by name. Default: `sandboxed`, `network` and `trusted`.
    pub profiles: Profiles,
    /// Whether guests with the capability `topics` may use the topics of the runtime that they were granted. Default: no, and
    /// guests that import them do not load.
    pub topics: bool,
    /// The store that guests with the capability `kv` use. Default: none, and guests that import it do not load.
    #[cfg(feature = "store")]
    pub store: Option<crate::store::Store>,
}

impl Default for WasmConfig {
    fn default() -> Self {
        Self {
            capacity: defaults::CAPACITY,
            room: Room::default(),
            memory_max_bytes: defaults::MEMORY_MAX_BYTES,
            table_max_elements: defaults::TABLE_MAX_ELEMENTS,
            parts_max: defaults::PARTS_MAX,
            message_max_bytes: defaults::MESSAGE_MAX_BYTES,
            sent_max_bytes: defaults::SENT_MAX_BYTES,
            log_lines_per_sec: defaults::LOG_LINES_PER_SEC,
            log_bytes_per_sec: defaults::LOG_BYTES_PER_SEC,
            tick: defaults::TICK,
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
