//! Starts a node and a guest with default settings, because no list of limits can guarantee that this works.

use rusm_runtime::{Config, ExitReason, Runtime};
use rusm_text::grouped;
use rusm_wasm::{GuestOptions, Wasm, WasmConfig};

use crate::doctor::check::Check;
use crate::doctor::check_threads;
use crate::failure::Failure;

/// A guest that ends at once.
const GUEST: &str = r#"(module (memory (export "memory") 1) (func (export "run")))"#;

pub(super) fn checks() -> Vec<Check> {
    let started = check_threads().and_then(|()| Runtime::start(Config::default()).map_err(Failure::from));
    let runtime = match started {
        Ok(runtime) => runtime,
        Err(error) => return vec![node(&Err(error.to_string())), wasm(&Err("no node to run it on".to_owned()))],
    };
    let checks = vec![node(&native(&runtime)), wasm(&guest(&runtime))];
    runtime.shutdown(std::time::Duration::from_secs(1));
    checks
}

fn native(runtime: &Runtime) -> Result<(), String> {
    let pid = runtime.spawn(|_| async {}).map_err(|error| error.to_string())?;
    ended_well(&runtime.wait(pid))
}

fn guest(runtime: &Runtime) -> Result<(), String> {
    let wasm = Wasm::start(WasmConfig::default()).map_err(|error| error.to_string())?;
    let bytes = wat::parse_str(GUEST).map_err(|error| error.to_string())?;
    let module = wasm.load("doctor", &bytes).map_err(|error| error.to_string())?;
    let pid = wasm.spawn(runtime, &module, &GuestOptions::default()).map_err(|error| error.to_string())?;
    ended_well(&runtime.wait(pid))
}

/// Checks that a process ended normally. `NoProcess` means that it had ended before the wait began, which is fine too.
fn ended_well(reason: &ExitReason) -> Result<(), String> {
    match reason {
        ExitReason::Normal | ExitReason::NoProcess => Ok(()),
        reason => Err(reason.to_string()),
    }
}

fn node(tried: &Result<(), String>) -> Check {
    let seen = tried.as_ref().map_or_else(|error| format!("does not start: {error}"), |()| "starts".to_owned());
    let limit = grouped(rusm_runtime::defaults::PROCESS_LIMIT as u64);
    let means = format!("a trial start of the schedulers and of a table for {limit} processes");
    Check::of("a node", tried.is_ok(), seen, means, "raise the limit that the error above names").vital()
}

fn wasm(tried: &Result<(), String>) -> Check {
    let seen = tried.as_ref().map_or_else(|error| format!("does not start: {error}"), |()| "starts".to_owned());
    let capacity = grouped(rusm_wasm::defaults::CAPACITY.into());
    let means = format!("a trial start of an engine for {capacity} guests at once (engine.capacity), and of one guest");
    Check::of("wasm", tried.is_ok(), seen, means, "ulimit -v unlimited, or lower engine.capacity or limits.memory_max")
        .vital()
}
