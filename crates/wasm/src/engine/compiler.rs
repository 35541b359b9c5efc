//! Compiles modules in a process of its own.
//!
//! ```text
//!   node ── bytes of a module ──▶ child: limit on memory, compile ── code ──▶ node: load
//! ```
//!
//! Compiling can take thousands of times as much memory as the module is long, which nothing bounds from inside a program.
//! A child that needs more than it may have ends, and the node goes on.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus, Output, Stdio};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use thiserror::Error as ErrorText;
use wasmtime::{Engine, Error, format_err};

use super::allocator::CodeSettings;
use crate::guest::traps::one_line;

/// First argument of the child.
const MARK: &str = "rusm-compile-guest";
/// Second argument for a component.
const COMPONENT: &str = "component";
/// Exit code of a child that found the module wrong, and wrote why.
const REFUSED: u8 = 2;
/// Memory that each thread of the child may take besides: its stack, and the allocator's first pages.
const THREAD_BYTES: u64 = 4 << 20;

/// A program that compiles modules in processes of its own: see [`WasmConfig::compiler`](crate::WasmConfig::compiler).
#[derive(Clone, Debug)]
pub struct Compiler {
    /// A program that calls [`compile_if_asked`] first, usually `/proc/self/exe`. What it writes runs as machine code of this
    /// process.
    pub program: PathBuf,
    /// Maximum memory of one of these processes, in bytes.
    pub memory_max_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Module,
    Component,
}

/// Error of a compiler that found nothing wrong with the module.
#[derive(Debug, ErrorText)]
pub(crate) enum CompilerError {
    #[error("cannot start {}: {error}", program.display())]
    Start { program: PathBuf, error: io::Error },
    #[error("it takes more than {} MiB of memory: raise engine.compile_memory if it has to run", max_bytes >> 20)]
    Memory { max_bytes: u64 },
    #[error("the compiler failed: {0}")]
    Failed(String),
}

impl Compiler {
    /// Compiles a module or component; returns code in the format of `serialize`.
    pub(super) fn compile(&self, kind: Kind, code: CodeSettings, bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
        let max_bytes = self.memory_max_bytes;
        let kind = if kind == Kind::Component { COMPONENT } else { "module" };
        let mut child = Command::new(&self.program)
            .args([MARK, kind, &code.to_string(), &max_bytes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| CompilerError::Start { program: self.program.clone(), error })?;
        // The child reads everything before it writes. A closed pipe is no error: the exit code says why it has ended.
        drop(child.stdin.take().map(|mut input| input.write_all(bytes)));
        let Output { status, stdout, .. } =
            child.wait_with_output().map_err(|error| CompilerError::Failed(error.to_string()))?;
        if status.success() { Ok(stdout) } else { Err(failure(status, &stdout, max_bytes)) }
    }
}

fn failure(status: ExitStatus, output: &[u8], max_bytes: u64) -> Error {
    const ABORTED: [i32; 2] = [Signal::ABORT.as_raw(), Signal::KILL.as_raw()];
    let output = String::from_utf8_lossy(output);
    if status.code() == Some(REFUSED.into()) {
        return format_err!("{output}");
    }
    let is_memory = status.signal().is_some_and(|signal| ABORTED.contains(&signal));
    if is_memory {
        CompilerError::Memory { max_bytes }.into()
    } else {
        CompilerError::Failed(format!("{status}: {output}")).into()
    }
}

/// Compiles a module and returns the exit code of the process, if this process was started by a [`Compiler`]. Call it first
/// in `main`. Otherwise it does nothing.
pub fn compile_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != MARK {
        return None;
    }
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into()).collect();
    let (code, output) = match prepare(&arguments).map(|(engine, kind, bytes)| compile(&engine, kind, &bytes)) {
        Ok(Ok(code)) => (ExitCode::SUCCESS, code),
        Ok(Err(error)) => (ExitCode::from(REFUSED), one_line(error).into_bytes()),
        Err(error) => (ExitCode::FAILURE, one_line(error).into_bytes()),
    };
    Some(if io::stdout().write_all(&output).is_ok() { code } else { ExitCode::FAILURE })
}

/// Limits this process, and reads the module.
fn prepare(arguments: &[String]) -> wasmtime::Result<(Engine, Kind, Vec<u8>)> {
    let [kind, code, max_bytes] = arguments else { return Err(format_err!("it has three arguments")) };
    let kind = if kind == COMPONENT { Kind::Component } else { Kind::Module };
    let code: CodeSettings = code.parse()?;
    confine(max_bytes.parse()?)?;
    let engine = Engine::new(&code.config())?;
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok((engine, kind, bytes))
}

fn compile(engine: &Engine, kind: Kind, bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
    match kind {
        Kind::Module => engine.precompile_module(bytes),
        Kind::Component => engine.precompile_component(bytes),
    }
}

/// Limits what this process may take. If the system lacks memory all the same, it ends this process first.
fn confine(max_bytes: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    for (resource, limit) in [(Resource::Data, max_bytes.saturating_add(threads * THREAD_BYTES)), (Resource::Core, 0)] {
        // Only root may raise the limit that an administrator has set.
        let limit = Some(getrlimit(resource).maximum.map_or(limit, |maximum| limit.min(maximum)));
        setrlimit(resource, Rlimit { current: limit, maximum: limit })?;
    }
    // Without /proc, the limit has to do.
    drop(fs::write("/proc/self/oom_score_adj", "1000"));
    Ok(())
}
