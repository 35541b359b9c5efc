//! A compiled and linked module or component, ready to be started as a process.
//!
//! The exports of a file determine the kind of guest. A component with `run` is an actor of the rusm world, one with
//! `wasi:cli/run` a command, one with `wasi:http/incoming-handler` 0.2 or `wasi:http/handler` 0.3 answers requests. A
//! core module with `run` uses the raw import table, one with `_start` is a WASI command.

mod foreign;
pub(crate) mod load;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rusm_text::escaped;
use thiserror::Error;
use wasmtime::{Engine, InstancePre, ModuleExport};
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p3::bindings::CommandPre as ConcurrentCommandPre;
#[cfg(feature = "http")]
use wasmtime_wasi_http::p2::bindings::ProxyPre;
#[cfg(feature = "http")]
use wasmtime_wasi_http::p3::bindings::ServicePre;

use super::bindings::ActorPre;
#[cfg(feature = "http")]
use super::bindings::http::ServicePre as RecordHandlerPre;
use super::engine::counters::ModuleCounters;
use super::engine::inner::EngineInner;
use super::guest::state::GuestState;

/// Maximum length of a reason in the text of an error: a file may have names of any length.
const REASON_BYTES_MAX: usize = 2048;

/// Error returned if a file could not be loaded as a module.
#[derive(Debug, Error)]
pub enum ModuleError {
    /// The file could not be read.
    #[error("cannot read {}: {error}", escaped(path.display()))]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The bytes are not a module or component that this node supports: truncated, malformed, or too new.
    #[error("{} is not valid WebAssembly: {}", escaped(name), escaped(why).within(REASON_BYTES_MAX))]
    Invalid {
        /// Name of the module.
        name: String,
        /// Description of the problem and its position.
        why: String,
    },
    /// The program of [`WasmConfig::compiler`](crate::WasmConfig::compiler) did not compile it: it needs more memory than
    /// that may take, or the program failed.
    #[error("{} cannot be compiled: {}", escaped(name), escaped(why).within(REASON_BYTES_MAX))]
    Compile {
        /// Name of the module.
        name: String,
        /// The reason.
        why: String,
    },
    /// It imports something that the node does not provide, or provides with another type.
    #[error("{} imports what this node does not have: {}", escaped(name), escaped(why).within(REASON_BYTES_MAX))]
    Imports {
        /// Name of the module.
        name: String,
        /// The import.
        why: String,
    },
    /// It exports no function with which a process could start.
    #[error("{} {}", escaped(name), escaped(why).within(REASON_BYTES_MAX))]
    NoEntry {
        /// Name of the module.
        name: String,
        /// The export that it would need.
        why: String,
    },
}

/// A compiled module or component; cheap to clone.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{Wasm, WasmConfig};
///
/// let wasm = Wasm::start(WasmConfig { capacity: 10, ..WasmConfig::default() })?;
/// let module = wasm.load("noop", &wat::parse_str(r#"(module (func (export "run")))"#)?)?;
/// assert_eq!(module.name(), "noop");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Module(pub(crate) Arc<Loaded>);

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({}, {})", self.0.name, self.kind())
    }
}

impl Module {
    /// Returns the name under which it was loaded.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the kind of guest: `component`, `wasi component`, `http component`, `module` or `wasi module`.
    pub fn kind(&self) -> &'static str {
        self.0.code.kind()
    }
}

/// Content of a module.
pub(crate) struct Loaded {
    pub(crate) name: Arc<str>,
    pub(crate) code: Code,
    /// It imports a part of WASI.
    pub(crate) needs_wasi: bool,
    pub(crate) counters: ModuleCounters,
}

/// Linked code, by its entry point.
pub(crate) enum Code {
    /// A component with `run`.
    Actor(ActorPre<GuestState>),
    /// A component with `wasi:cli/run`.
    Command(CommandPre<GuestState>),
    /// A component with `wasi:cli/run` 0.3, compiled by the engine of concurrent components.
    ConcurrentCommand(ConcurrentCommandPre<GuestState>),
    /// A component with `wasi:http/incoming-handler`.
    #[cfg(feature = "http")]
    Http(ProxyPre<GuestState>),
    /// A component with `wasi:http/handler`, compiled by the engine of concurrent components.
    #[cfg(feature = "http")]
    Service(ServicePre<GuestState>),
    /// A component with `rusm:http/handler`.
    #[cfg(feature = "http")]
    Handler(RecordHandlerPre<GuestState>),
    /// A core module with `run`; its results are ignored.
    Raw {
        pre: InstancePre<GuestState>,
        /// Function to call first, for languages with constructors.
        initialize: Option<ModuleExport>,
        run: ModuleExport,
        results: usize,
    },
    /// A core module with `_start`.
    Wasip1(InstancePre<GuestState>),
}

impl Code {
    /// Returns the engine that has compiled it.
    pub(crate) fn engine<'a>(&'a self, node: &'a EngineInner) -> &'a Engine {
        match self {
            Self::ConcurrentCommand(pre) => pre.engine(),
            #[cfg(feature = "http")]
            Self::Service(pre) => pre.engine(),
            _ => &node.engine,
        }
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Actor(_) => "component",
            Self::Command(_) | Self::ConcurrentCommand(_) => "wasi component",
            #[cfg(feature = "http")]
            Self::Http(_) | Self::Service(_) | Self::Handler(_) => "http component",
            Self::Raw { .. } => "module",
            Self::Wasip1(_) => "wasi module",
        }
    }
}
