//! WebAssembly processes: a guest is another kind of process body.
//!
//! ```text
//!   bytes ─▶ Module (compiled, linked) ─▶ spawn ─▶ process: Context + Store + instance
//!                                                    │  calls of the guest are calls on its Context
//!             Ticker ── epochs ──────────────────────┘  a guest that runs too long yields to other processes
//! ```
//!
//! A guest has a pid, a mailbox, links, monitors, a supervisor and a row in the table like every process. Its
//! [profile](Profiles) lists what else it may do. The core of the runtime does not know about guests: a guest is an
//! `async` body, and its call into WebAssembly is polled like any other future.
//!
//! ```
//! # mod rusm { pub use rusm_runtime::*; pub use rusm_wasm as wasm; }
//! use rusm::wasm::{GuestOptions, Wasm, WasmConfig};
//! use rusm::{Config, ExitReason, Runtime};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let wasm = Wasm::start(WasmConfig { capacity: 10, ..WasmConfig::default() })?;
//! let module = wasm.load("noop", &wat::parse_str(r#"(module (func (export "run")))"#)?)?;
//! let pid = wasm.spawn(&runtime, &module, &GuestOptions::default())?;
//! # let ended = runtime.wait(pid);
//! # assert!(matches!(ended, ExitReason::Normal | ExitReason::NoProcess), "{ended}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariant: nothing that a guest does or passes can panic the node, block a scheduler for longer than two ticks, or
//! read or write data that does not belong to the guest.

mod bindings;
mod config;
mod engine;
mod guest;
mod host;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "store")]
mod kv;
mod module;
mod raw;
mod remote;
mod stats;
mod topics;
mod wasi;

pub use config::{InstanceAllocator, WasmConfig, defaults};
pub use engine::compiler::{Compiler, compile_if_asked};
pub use engine::error::EngineError;
pub use engine::inner::Wasm;
pub use guest::capability::{Capabilities, Capability, Folder, Profiles, SANDBOXED, TOPIC_BUCKETS, UnknownName};
pub use guest::limits::GuestLimits;
pub use guest::log_rate_limiter::LogRateLimiter;
pub use guest::spawn::{GuestError, GuestOptions};
pub use guest::traps::{MemoryLimit, Trap};
#[cfg(feature = "http")]
pub use http::{HttpGuest, HttpGuestError, InstanceReuse, REQUESTS_OF_POOLED};
pub use module::{Module, ModuleError};
pub use remote::{GuestCode, REMOTE_CODE_BYTES_MAX, RemoteGuestError, RemoteGuests};
pub use stats::{Slots, WasmStats};
