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
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use thiserror::Error as ErrorText;
use wasmtime::{Engine, Error, format_err};

use super::allocator::CodeSettings;
use super::tick_checks;
use crate::guest::traps::one_line;

/// First argument of the child.
const MARK: &str = "rusm-compile-guest";
/// Second argument for a component.
const COMPONENT: &str = "component";
/// Exit code of a child that found the module wrong, and wrote why.
const REFUSED: u8 = 2;
/// Time after which a compilation is slow.
const SLOW: Duration = Duration::from_secs(1);
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
    /// Maximum processor time of one of these processes, of all its threads together; whole seconds.
    pub cpu_max: Duration,
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
    #[error("its compiler was killed: the memory of the machine, or of its control group, may be used up")]
    Killed,
    #[error("it takes more than {} s of processor time: raise engine.compile_time if it has to run", cpu_max.as_secs())]
    Time { cpu_max: Duration },
    #[error("the compiler failed: {0}")]
    Failed(String),
}

/// Logs that a compilation takes long, unless what is returned is dropped before.
fn tell_if_slow(kind: &'static str, bytes: usize) -> Sender<()> {
    let (finished, is_finished) = channel();
    let wait = move || {
        if is_finished.recv_timeout(SLOW) == Err(RecvTimeoutError::Timeout) {
            tracing::info!(kind, bytes, "compiles a module, which may take seconds");
        }
    };
    // Without a thread, nothing is told.
    drop(Builder::new().name("rusm-compiling".to_owned()).spawn(wait));
    finished
}

impl Compiler {
    /// Compiles a module or component; returns code in the format of `serialize`.
    pub(super) fn compile(&self, kind: Kind, code: CodeSettings, bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
        let limits = [self.memory_max_bytes, self.cpu_max.as_secs().max(1)].map(|limit| limit.to_string());
        let kind = if kind == Kind::Component { COMPONENT } else { "module" };
        let _finished = tell_if_slow(kind, bytes.len());
        let mut child = Command::new(&self.program)
            .args([MARK, kind, &code.to_string()])
            .args(limits)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| CompilerError::Start { program: self.program.clone(), error })?;
        // The child reads everything before it writes. A closed pipe is no error: the exit code says why it has ended.
        drop(child.stdin.take().map(|mut input| input.write_all(bytes)));
        let Output { status, stdout, .. } =
            child.wait_with_output().map_err(|error| CompilerError::Failed(error.to_string()))?;
        if status.success() { Ok(stdout) } else { Err(self.failure(status, &stdout)) }
    }

    fn failure(&self, status: ExitStatus, output: &[u8]) -> Error {
        let output = String::from_utf8_lossy(output);
        if status.code() == Some(REFUSED.into()) {
            return format_err!("{output}");
        }
        let error = match status.signal().and_then(Signal::from_named_raw) {
            Some(Signal::ABORT) => CompilerError::Memory { max_bytes: self.memory_max_bytes },
            Some(Signal::KILL) => CompilerError::Killed,
            Some(Signal::XCPU) => CompilerError::Time { cpu_max: self.cpu_max },
            _ if output.is_empty() => CompilerError::Failed(status.to_string()),
            _ => CompilerError::Failed(format!("{status}: {output}")),
        };
        error.into()
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
    let [kind, code, max_bytes, cpu_max_secs] = arguments else { return Err(format_err!("it has four arguments")) };
    let kind = if kind == COMPONENT { Kind::Component } else { Kind::Module };
    let code: CodeSettings = code.parse()?;
    confine(max_bytes.parse()?, cpu_max_secs.parse()?)?;
    let engine = Engine::new(&code.config())?;
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    Ok((engine, kind, bytes))
}

fn compile(engine: &Engine, kind: Kind, bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
    match kind {
        Kind::Module => tick_checks::compile(bytes, |bytes| engine.precompile_module(bytes)),
        Kind::Component => tick_checks::compile(bytes, |bytes| engine.precompile_component(bytes)),
    }
}

/// Limits what this process may take. If the system lacks memory all the same, it ends this process first.
fn confine(max_bytes: u64, cpu_max_secs: u64) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let data = max_bytes.saturating_add(threads * THREAD_BYTES);
    // At the lower limit on time, the signal says so; at the upper one it would be SIGKILL.
    let limits =
        [(Resource::Data, data, data), (Resource::Cpu, cpu_max_secs, cpu_max_secs + 1), (Resource::Core, 0, 0)];
    for (resource, current, maximum) in limits {
        // Only root may raise the limit that an administrator has set.
        let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let [current, maximum] = [current, maximum].map(|limit| Some(limit.min(allowed)));
        setrlimit(resource, Rlimit { current, maximum })?;
    }
    // Without /proc, the limit has to do.
    drop(fs::write("/proc/self/oom_score_adj", "1000"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_that_ended_a_compiler_says_why() {
        let compiler = Compiler { program: "rusm".into(), memory_max_bytes: 96 << 20, cpu_max: Duration::from_secs(1) };
        let failure = |signal| compiler.failure(ExitStatus::from_raw(signal), b"").to_string();

        assert!(failure(6).starts_with("it takes more than 96 MiB of memory"), "{}", failure(6));
        assert!(failure(9).starts_with("its compiler was killed"), "{}", failure(9));
        assert!(failure(24).starts_with("it takes more than 1 s of processor time"), "{}", failure(24));
    }
}
