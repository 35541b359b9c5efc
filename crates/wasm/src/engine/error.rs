//! Error of starting the engine.

use thiserror::Error;

/// Error returned when WebAssembly processes cannot be started.
#[derive(Debug, Error)]
pub enum EngineError {
    /// A setting is out of its range.
    #[error("{name} of {value} is not between {min} and {max}")]
    OutOfRange {
        /// Name of the field of [`WasmConfig`](crate::WasmConfig).
        name: &'static str,
        /// Value of the setting.
        value: u64,
        /// Smallest valid value.
        min: u64,
        /// Largest valid value.
        max: u64,
    },
    /// The address space or another system limit is too small for the capacity.
    #[error("no room for {capacity} instances of {memory_max_bytes} bytes: {why}; lower capacity or memory_max_bytes")]
    OutOfAddressSpace {
        /// Number of requested instances.
        capacity: u32,
        /// Size of each instance, in bytes.
        memory_max_bytes: u64,
        /// Error of the system.
        why: String,
    },
    /// The system cannot create a thread.
    #[error("cannot start the epoch thread: {0}")]
    Thread(#[from] std::io::Error),
}
