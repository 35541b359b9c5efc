//! Compiles and links modules and components, from bytes or files.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use rusm_text::read_regular;
use wasmtime::component::{Component, types::ComponentItem};
use wasmtime::{Engine, ExternType};
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p3::bindings::CommandPre as ConcurrentCommandPre;
#[cfg(feature = "http")]
use wasmtime_wasi_http::p2::bindings::ProxyPre;
#[cfg(feature = "http")]
use wasmtime_wasi_http::p3::bindings::ServicePre;

use super::{Code, Loaded, Module, ModuleError, foreign};
use crate::bindings::ActorPre;
#[cfg(feature = "http")]
use crate::bindings::http::ServicePre as RecordHandlerPre;
use crate::engine::compiler::CompilerError;
use crate::engine::counters::ModuleCounters;
use crate::engine::inner::EngineInner;
use crate::guest::traps::one_line;

/// Import module name of WASI preview 1 in core modules.
pub(crate) const P1: &str = "wasi_snapshot_preview1";

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
    let invalid = |error: wasmtime::Error| invalid(&name, error);
    let (code, needs_wasi) = match binary(&name, bytes)? {
        Binary::Component if is_concurrent(bytes) => concurrent(node, &name, bytes)?,
        Binary::Component => {
            let component = node.code_cache.component(&node.engine, node.code, bytes).map_err(invalid)?;
            link_component(node, &name, &component)?
        }
        Binary::Module => {
            let module = node.code_cache.module(&node.engine, node.code, bytes).map_err(invalid)?;
            link_module(node, &name, &module)?
        }
    };
    Ok(Module(Arc::new(Loaded { name, code, needs_wasi, counters: ModuleCounters::default() })))
}

fn invalid(name: &str, error: wasmtime::Error) -> ModuleError {
    let name = name.to_owned();
    match error.downcast_ref::<CompilerError>() {
        Some(error) => ModuleError::Compile { name, why: error.to_string() },
        None => ModuleError::Invalid { name, why: one_line(error) },
    }
}

/// Maximum size of a module file.
const FILE_MAX_BYTES: u64 = 1 << 30;

/// Compiles and links a module from a file. If its bytes were `counted`, no more are read: files of `/proc` are longer
/// than they say.
pub(crate) fn load_file(
    node: &EngineInner,
    name: Arc<str>,
    path: &Path,
    counted: Option<u64>,
) -> Result<Module, ModuleError> {
    let failed = |error| ModuleError::Read { path: path.to_owned(), error };
    let compiler = node.config.compiler.as_ref();
    let max_bytes = compiler.map_or(FILE_MAX_BYTES, |compiler| compiler.memory_max_bytes.min(FILE_MAX_BYTES));
    let bytes = match counted.filter(|bytes| *bytes < max_bytes) {
        Some(counted) => read_regular(path, counted).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => failed(io::Error::new(ErrorKind::FileTooLarge, "it grows while it is read")),
            _ => failed(error),
        })?,
        None => read_regular(path, max_bytes).map_err(failed)?,
    };
    load(node, name, &bytes)
}

/// Returns true if the bytes contain a name by which a component of WASI 0.3 exports its entry. Another component may
/// contain it too, as data.
fn is_concurrent(bytes: &[u8]) -> bool {
    const ENTRIES: [&[u8]; 2] = [b"wasi:http/handler@0.3", b"wasi:cli/run@0.3"];
    ENTRIES.iter().any(|entry| bytes.windows(entry.len()).any(|part| part == *entry))
}

/// Compiles and links a component of WASI 0.3, in the engine of concurrent components. One that only looks like it
/// runs in the engine of all others.
fn concurrent(node: &EngineInner, name: &str, bytes: &[u8]) -> Result<(Code, bool), ModuleError> {
    let invalid = |error: wasmtime::Error| invalid(name, error);
    let concurrent = node.concurrent.get().map_err(invalid)?;
    let component = node.code_cache.component(&concurrent.engine, concurrent.code, bytes).map_err(invalid)?;
    let kind = component.component_type();
    let no_entry = |why: String| ModuleError::NoEntry { name: name.to_owned(), why };
    let exports = |is_entry: fn(&str) -> bool| kind.exports(&concurrent.engine).any(|(export, _)| is_entry(export));
    let is_service = cfg!(feature = "http") && exports(foreign::is_service);
    if !is_service && !exports(foreign::is_concurrent_command) {
        if let Some(why) = foreign::component(&concurrent.engine, &kind) {
            return Err(no_entry(why));
        }
        let component = node.code_cache.component(&node.engine, node.code, bytes).map_err(invalid)?;
        return link_component(node, name, &component);
    }
    if let Some(why) = foreign::unsupported_import(&concurrent.engine, &kind) {
        return Err(no_entry(why));
    }
    let pre = concurrent.components.instantiate_pre(&component).map_err(|error| imports(name, &error))?;
    #[cfg(feature = "http")]
    if is_service {
        let service = ServicePre::new(pre)
            .map_err(|error| no_entry(format!("is not a component of wasi:http/service: {}", one_line(error))))?;
        return Ok((Code::Service(service), true));
    }
    let command = ConcurrentCommandPre::new(pre)
        .map_err(|error| no_entry(format!("is not a command of WASI 0.3: {}", one_line(error))))?;
    Ok((Code::ConcurrentCommand(command), true))
}

fn link_component(node: &EngineInner, name: &str, component: &Component) -> Result<(Code, bool), ModuleError> {
    let kind = component.component_type();
    let needs_wasi = kind.imports(&node.engine).any(|(import, _)| import.starts_with("wasi:"));
    let entry = entry_of(&node.engine, component);
    let no_entry = |why: String| ModuleError::NoEntry { name: name.to_owned(), why };
    // First: the imports of another world would be the lesser error.
    if entry.is_none()
        && let Some(why) = foreign::component(&node.engine, &kind)
    {
        return Err(no_entry(why));
    }
    let pre = node.components.instantiate_pre(component).map_err(|error| imports(name, &error))?;
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
        #[cfg(feature = "http")]
        Some(Entry::Http) => {
            let proxy = ProxyPre::new(pre)
                .map_err(|error| no_entry(format!("is not a component of wasi:http/proxy: {}", one_line(error))))?;
            Ok((Code::Http(proxy), true))
        }
        #[cfg(feature = "http")]
        Some(Entry::Handler) => {
            let handler = RecordHandlerPre::new(pre)
                .map_err(|error| no_entry(format!("is not a component of rusm:http/service: {}", one_line(error))))?;
            Ok((Code::Handler(handler), needs_wasi))
        }
        None => Err(no_entry(
            "exports neither `run` of rusm:runtime/actor nor wasi:cli/run: it was built for another world".to_owned(),
        )),
    }
}

enum Entry {
    Actor,
    Command,
    #[cfg(feature = "http")]
    Http,
    #[cfg(feature = "http")]
    Handler,
}

fn entry_of(engine: &Engine, component: &Component) -> Option<Entry> {
    let kind = component.component_type();
    let mut exports = kind.exports(engine);
    exports.find_map(|(name, item)| match item.ty {
        ComponentItem::ComponentFunc(_) if name == "run" => Some(Entry::Actor),
        ComponentItem::ComponentInstance(_) if name.starts_with("wasi:cli/run@") => Some(Entry::Command),
        #[cfg(feature = "http")]
        ComponentItem::ComponentInstance(_) if name.starts_with("wasi:http/incoming-handler@0.2.") => Some(Entry::Http),
        #[cfg(feature = "http")]
        ComponentItem::ComponentInstance(_) if name.starts_with("rusm:http/handler@0.1.") => Some(Entry::Handler),
        _ => None,
    })
}

fn link_module(node: &EngineInner, name: &str, module: &wasmtime::Module) -> Result<(Code, bool), ModuleError> {
    let needs_wasi = module.imports().any(|import| import.module() == P1);
    let no_entry = |why: String| ModuleError::NoEntry { name: name.to_owned(), why };
    if let Some(why) = foreign::module(module) {
        return Err(no_entry(why));
    }
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
