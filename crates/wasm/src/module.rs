//! A compiled and linked module or component, ready to be started as a process.
//!
//! The exports of a file determine the kind of guest. A component with `run` is an actor of the rusm world, one with
//! `wasi:cli/run` a command. A core module with `run` uses the raw import table, one with `_start` is a WASI command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};

use rusm_text::escaped;
use thiserror::Error;
use wasmtime::component::{Component, types::ComponentItem};
use wasmtime::{Engine, ExternType, InstancePre, ModuleExport};
use wasmtime_wasi::p2::bindings::CommandPre;

use super::bindings::ActorPre;
use super::guest::state::GuestState;
use super::stats::ModuleCounters;
use super::{EngineInner, wasi};

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
    #[error("{} is not valid WebAssembly: {}", escaped(name), escaped(why))]
    Invalid {
        /// Name of the module.
        name: String,
        /// Description of the problem and its position.
        why: String,
    },
    /// It imports something that the node does not provide, or provides with another type.
    #[error("{} imports what this node does not have: {}", escaped(name), escaped(why))]
    Imports {
        /// Name of the module.
        name: String,
        /// The import.
        why: String,
    },
    /// It exports no function with which a process could start.
    #[error("{} {}", escaped(name), escaped(why))]
    NoEntry {
        /// Name of the module.
        name: String,
        /// The export that it would need.
        why: String,
    },
}

/// A compiled module or component; cheap to clone.
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

    /// Returns the kind of guest: `component`, `wasi component`, `module` or `wasi module`.
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
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Actor(_) => "component",
            Self::Command(_) => "wasi component",
            Self::Raw { .. } => "module",
            Self::Wasip1(_) => "wasi module",
        }
    }
}

/// Kind of a file, according to its first bytes.
enum Binary {
    Module,
    Component,
}

fn binary(name: &str, bytes: &[u8]) -> Result<Binary, ModuleError> {
    let invalid = |why: String| ModuleError::Invalid { name: name.to_owned(), why };
    match bytes {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Ok(Binary::Module),
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(Binary::Component),
        [0, b'a', b's', b'm', a, b, c, d, ..] => {
            let layer = if *c == 1 { "component" } else { "module" };
            let version = u16::from_le_bytes([*a, *b]);
            Err(invalid(format!(
                "{layer} version {version} (layer {}) is not supported by this node",
                u16::from_le_bytes([*c, *d])
            )))
        }
        _ if bytes.len() < 8 => Err(invalid(format!("{} bytes are too few for a header", bytes.len()))),
        _ if bytes.trim_ascii_start().starts_with(b"(") || bytes.starts_with(b";;") => {
            Err(invalid("it is text: translate it to binary first".to_owned()))
        }
        _ => Err(invalid("it does not begin with the bytes \\0asm".to_owned())),
    }
}

/// Compiles and links a module. Takes long, so it must not be called on a scheduler.
pub(crate) fn load(node: &EngineInner, name: Arc<str>, bytes: &[u8]) -> Result<Module, ModuleError> {
    let invalid = |error: wasmtime::Error| ModuleError::Invalid { name: name.to_string(), why: one_line(error) };
    let (code, needs_wasi) = match binary(&name, bytes)? {
        Binary::Component => {
            let component = node.code_cache.component(&node.engine, bytes).map_err(invalid)?;
            link_component(node, &name, &component)?
        }
        Binary::Module => {
            let module = node.code_cache.module(&node.engine, bytes).map_err(invalid)?;
            link_module(node, &name, &module)?
        }
    };
    Ok(Module(Arc::new(Loaded { name, code, needs_wasi, counters: ModuleCounters::default() })))
}

/// Maximum size of a module file.
const FILE_MAX_BYTES: u64 = 1 << 30;

/// Compiles and links a module from a file.
pub(crate) fn load_file(node: &EngineInner, name: Arc<str>, path: &Path) -> Result<Module, ModuleError> {
    let bytes = read(path).map_err(|error| ModuleError::Read { path: path.to_owned(), error })?;
    load(node, name, &bytes)
}

/// Reads a file of bounded size.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let about = std::fs::metadata(path)?;
    let unfit = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    if !about.is_file() {
        return Err(unfit("it is not a regular file".to_owned()));
    }
    if about.len() > FILE_MAX_BYTES {
        return Err(unfit(format!("it has {} bytes, which is over the limit of {FILE_MAX_BYTES}", about.len())));
    }
    std::fs::read(path)
}

fn link_component(node: &EngineInner, name: &str, component: &Component) -> Result<(Code, bool), ModuleError> {
    let kind = component.component_type();
    let needs_wasi = kind.imports(&node.engine).any(|(import, _)| import.starts_with("wasi:"));
    let entry = entry_of(&node.engine, component);
    let pre = node.components.instantiate_pre(component).map_err(|error| imports(name, &error))?;
    let no_entry = |why: String| ModuleError::NoEntry { name: name.to_owned(), why };
    match entry {
        Some(Entry::Actor) => {
            let actor = ActorPre::new(pre).map_err(|error| {
                no_entry(format!(
                    "exports `run` with a type other than that of rusm:runtime/actor: {}",
                    one_line(error)
                ))
            })?;
            Ok((Code::Actor(actor), needs_wasi))
        }
        Some(Entry::Command) => {
            let command = CommandPre::new(pre)
                .map_err(|error| no_entry(format!("is not a WASI command: {}", one_line(error))))?;
            Ok((Code::Command(command), needs_wasi))
        }
        None => Err(no_entry(
            "exports neither `run` of rusm:runtime/actor nor wasi:cli/run: it was built for another world".to_owned(),
        )),
    }
}

enum Entry {
    Actor,
    Command,
}

fn entry_of(engine: &Engine, component: &Component) -> Option<Entry> {
    let kind = component.component_type();
    let mut exports = kind.exports(engine);
    exports.find_map(|(name, item)| match item.ty {
        ComponentItem::ComponentFunc(_) if name == "run" => Some(Entry::Actor),
        ComponentItem::ComponentInstance(_) if name.starts_with("wasi:cli/run@") => Some(Entry::Command),
        _ => None,
    })
}

fn link_module(node: &EngineInner, name: &str, module: &wasmtime::Module) -> Result<(Code, bool), ModuleError> {
    let needs_wasi = module.imports().any(|import| import.module() == wasi::P1);
    let no_entry = |why: String| ModuleError::NoEntry { name: name.to_owned(), why };
    let pre = node.modules.instantiate_pre(module).map_err(|error| imports(name, &error))?;
    let plain = |export: &str| match module.get_export(export) {
        Some(ExternType::Func(kind)) => Some((kind.params().len(), kind.results().len())),
        _ => None,
    };
    let has_memory = matches!(module.get_export("memory"), Some(ExternType::Memory(_)));
    if module.imports().len() != 0 && !has_memory {
        return Err(no_entry("imports functions but exports no memory called `memory` for them to use".to_owned()));
    }
    match (plain("run"), plain("_start")) {
        (Some((0, results)), _) => match module.get_export_index("run") {
            Some(run) => {
                let initialize = plain("_initialize")
                    .filter(|kind| *kind == (0, 0))
                    .and_then(|_| module.get_export_index("_initialize"));
                Ok((Code::Raw { pre, initialize, run, results }, needs_wasi))
            }
            None => Err(no_entry("exports no function `run`".to_owned())),
        },
        (_, Some((0, 0))) => Ok((Code::Wasip1(pre), needs_wasi)),
        (Some(_), _) => {
            Err(no_entry("exports `run` with parameters: a core module reads its arguments with `arg_read`".to_owned()))
        }
        _ => Err(no_entry("exports neither a function `run` nor the `_start` of a WASI command".to_owned())),
    }
}

fn imports(name: &str, error: &wasmtime::Error) -> ModuleError {
    ModuleError::Imports { name: name.to_owned(), why: one_line(error) }
}

/// Formats an error with its causes on one line.
pub(super) fn one_line(error: impl fmt::Display) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}
