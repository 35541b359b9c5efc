//! Conversion of a guest's error into an exit reason.

use std::fmt::{self, Display, Write};

use thiserror::Error;
use wasmtime::WasmBacktrace;

use rusm_runtime::{Detail, ExitReason};

/// A trap, stored in the [`Detail`] of an exit reason such as `trap: unreachable`.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_wasm as wasm; }
/// use rusm::wasm::{GuestOptions, Trap, Wasm, WasmConfig};
/// use rusm::{Config, Down, ExitReason, Runtime};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// let wasm = Wasm::start(WasmConfig { capacity: 10, ..WasmConfig::default() })?;
/// let module = wasm.load("broken", &wat::parse_str(r#"(module (func (export "run") unreachable))"#)?)?;
/// let down = runtime.block_on(|ctx| async move {
///     wasm.spawn_from(&ctx, &module, &GuestOptions::default().monitored())?;
///     Ok::<_, rusm::wasm::GuestError>(ctx.receive_of::<Down>().await)
/// })?;
/// let ExitReason::Other(detail) = down.reason else { unreachable!("the guest traps") };
/// assert_eq!(detail.value::<Trap>().map(|trap| trap.code), Some("unreachable"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Stable name of the trap: `unreachable`, `stack overflow`, `memory out of bounds`, …
    pub code: &'static str,
    /// Functions that were running, innermost first, as far as the module names them.
    pub backtrace: Vec<String>,
}

/// Error for linear memory that would exceed the process's limit: the exit reason `memory_limit(bytes)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("memory_limit({memory_max_bytes}{})", if *of_all_guests { " of all guests" } else { "" })]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub memory_max_bytes: u64,
    /// True for the limit on the memory of all guests together.
    pub of_all_guests: bool,
    /// Requested total in bytes.
    pub wanted_bytes: u64,
}

/// Label under which exceeded memory limits are counted.
const MEMORY_LIMIT: &str = "memory limit";

/// Names of all traps and of [`MemoryLimit`]; also the labels of their counters. Must contain every code that
/// [`exit_reason`] returns: a trap whose code is missing is neither counted nor kept as a fault.
pub(crate) const CODES: [&str; 15] = [
    "unreachable",
    "stack overflow",
    "memory out of bounds",
    "table out of bounds",
    "indirect call to null",
    "bad signature",
    "integer overflow",
    "integer division by zero",
    "bad conversion to integer",
    "misaligned access",
    "interrupt",
    "null reference",
    "cast failure",
    MEMORY_LIMIT,
    "other",
];

fn code(trap: wasmtime::Trap) -> &'static str {
    use wasmtime::Trap as T;
    match trap {
        T::UnreachableCodeReached => "unreachable",
        T::StackOverflow => "stack overflow",
        T::MemoryOutOfBounds => "memory out of bounds",
        T::TableOutOfBounds => "table out of bounds",
        T::IndirectCallToNull => "indirect call to null",
        T::BadSignature => "bad signature",
        T::IntegerOverflow => "integer overflow",
        T::IntegerDivisionByZero => "integer division by zero",
        T::BadConversionToInteger => "bad conversion to integer",
        T::HeapMisaligned => "misaligned access",
        T::Interrupt => "interrupt",
        T::NullReference => "null reference",
        T::CastFailure => "cast failure",
        _ => "other",
    }
}

/// Maximum number of frames in a backtrace.
const FRAMES_MAX: usize = 32;
/// Maximum length of the name of a function in a backtrace, in bytes: a module chooses its names.
const NAME_BYTES_MAX: usize = 256;

/// Returns the names of the functions in the backtrace of an error, innermost first; empty if it has no backtrace.
pub(crate) fn frames(error: &wasmtime::Error) -> Vec<String> {
    error.downcast_ref::<WasmBacktrace>().map(names).unwrap_or_default()
}

/// Returns the names of the functions in a backtrace, innermost first.
pub(crate) fn names(backtrace: &WasmBacktrace) -> Vec<String> {
    let name = |frame: &wasmtime::FrameInfo| match frame.func_name() {
        Some(name) => shown_name(name),
        None => format!("function {}", frame.func_index()),
    };
    backtrace.frames().iter().take(FRAMES_MAX).map(name).collect()
}

/// Returns the name of a function as the source has it, up to the limit.
fn shown_name(name: &str) -> String {
    let name = start_of(name, 4 * NAME_BYTES_MAX);
    let mut shown = Bounded(String::new());
    // A short name may stand for a long one: nothing beyond the limit is written. The alternate form omits the crate hash.
    if write!(shown, "{:#}", rustc_demangle::demangle(name)).is_err() {
        shown.0.push('…');
    }
    shown.0
}

/// Returns the start of a text, up to a number of bytes.
fn start_of(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// A text that refuses to grow beyond [`NAME_BYTES_MAX`].
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let part_max = NAME_BYTES_MAX - self.0.len();
        self.0.push_str(start_of(part, part_max));
        if part.len() <= part_max { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Returns the cause of an error. `refused` is the last memory limit that the guest exceeded. If that stopped a GC heap
/// from growing, the engine reports only that the heap is full; then the cause is the limit.
pub(crate) fn cause(error: wasmtime::Error, refused: Option<MemoryLimit>) -> wasmtime::Error {
    match refused {
        Some(limit) if error.is::<wasmtime::GcHeapOutOfMemory<()>>() => limit.into(),
        _ => error,
    }
}

/// Returns the exit reason for an error that ended a guest, and the label of its counter if it is a trap or a limit. `panic`
/// is the message of the panic that trapped.
pub(crate) fn exit_reason(error: &wasmtime::Error, panic: Option<&str>) -> (ExitReason, Option<&'static str>) {
    if let Some(limit) = error.downcast_ref::<MemoryLimit>() {
        return (ExitReason::Other(Detail::with(limit, *limit)), Some(MEMORY_LIMIT));
    }
    if let Some(trap) = error.downcast_ref::<wasmtime::Trap>() {
        let (code, words) = (code(*trap), trap.to_string());
        let trap = Trap { code, backtrace: frames(error) };
        let text = match panic {
            Some(panic) if code == "unreachable" => format!("trap: {panic}"),
            _ if code == "other" => format!("trap: {}", words.trim_start_matches("wasm trap: ")),
            _ => format!("trap: {code}"),
        };
        return (ExitReason::Other(Detail::with(text, trap)), Some(code));
    }
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return (
            if exit.0 == 0 { ExitReason::Normal } else { ExitReason::other(format_args!("exit({})", exit.0)) },
            None,
        );
    }
    if let Some(full) = error.downcast_ref::<wasmtime::PoolConcurrencyLimitError>() {
        return (
            ExitReason::other(format_args!("no room for the instance ({full}): raise capacity or parts_max")),
            None,
        );
    }
    if error.downcast_ref::<WasmBacktrace>().is_some() {
        // An invalid argument of a component is detected outside of its code; report it as a trap.
        let trap = Trap { code: "other", backtrace: frames(error) };
        let text = format!("trap: {}", one_line(error.root_cause()));
        return (ExitReason::Other(Detail::with(text, trap)), Some("other"));
    }
    (ExitReason::other(one_line(error)), None)
}

/// Formats an error with its causes on one line.
pub(crate) fn one_line(error: impl Display) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_function_is_shown_as_in_the_source_up_to_a_limit() {
        assert_eq!(shown_name("_ZN4rusm5guest3run17h0123456789abcdefE"), "rusm::guest::run");
        assert_eq!(shown_name("run"), "run");

        let long = shown_name(&"é".repeat(1 << 20));
        assert!(long.ends_with('…') && long.len() <= NAME_BYTES_MAX + '…'.len_utf8(), "{} bytes", long.len());
        // A back reference to a tuple of back references: each level doubles the text.
        let mut levels = String::new();
        for level in 0..20 {
            write!(levels, "TB{level:x}_B{level:x}_E").unwrap();
        }
        assert!(shown_name(&format!("_RINvC1a1b{levels}E")).len() <= NAME_BYTES_MAX + '…'.len_utf8());
    }
}
