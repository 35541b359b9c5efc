//! Guests that end leave nothing: heap, table, names and timers are the same before and after many of them.

#![allow(dead_code, reason = "uses only a part of the helpers")]

#[path = "../../runtime/tests/common/heap.rs"]
mod heap;

use heap::leaves_nothing;
use rusm_runtime::{Down, ExitReason};
use rusm_wasm::{GuestOptions, Wasm, WasmConfig};

#[test]
fn guests_that_trap_return_or_are_killed_leave_nothing() {
    let wasm = Wasm::start(WasmConfig { capacity: 16, ..WasmConfig::default() }).expect("the engine starts");
    let text = |then: &str| {
        format!(
            r#"(module (import "rusm" "self" (func $self (result i64)))
            (import "rusm" "register" (func $register (param i32 i32) (result i32)))
            (import "rusm" "send" (func $send (param i64 i64 i32 i32) (result i32)))
            (import "rusm" "send_after" (func $after (param i64 i64 i64 i32 i32) (result i64)))
            (import "rusm" "monitor" (func $monitor (param i64) (result i64)))
            (memory (export "memory") 1) (data (i32.const 0) "name 0")
            (func (export "run") (if (call $register (i32.const 0) (i32.const 6)) (then (loop $lost (br $lost))))
                (drop (call $send (call $self) (i64.const 0) (i32.const 0) (i32.const 100)))
                (drop (call $after (i64.const 3600000) (call $self) (i64.const 0) (i32.const 0) (i32.const 100)))
                (drop (call $monitor (call $self)))
                {then}))"#
        )
    };
    let module = |name: &str, then: &str| {
        wasm.load(name, &wat::parse_str(text(then)).expect("it is a module")).expect("it is a guest")
    };
    let modules = [module("traps", "unreachable"), module("returns", ""), module("spins", "(loop $on (br $on))")];
    leaves_nothing(|times| {
        let (wasm, modules) = (wasm.clone(), modules.clone());
        Box::new(move |ctx| {
            Box::pin(async move {
                // A tenth of the cycles, because each spinning guest takes two ticks. Fewer than 2,000 guests would not
                // fill the buffers of recent events and traps.
                for number in 0..(times / 10).max(2_000) {
                    let guest = GuestOptions::default().profile("trusted").monitored();
                    let spins = number % 50 == 0;
                    let module = if spins { &modules[2] } else { &modules[number as usize % 2] };
                    let (pid, _) = wasm.spawn_from(&ctx, module, &guest).expect("there is room");
                    if spins {
                        ctx.yield_now().await;
                        ctx.exit(pid, ExitReason::Killed);
                    }
                    let ended = ctx.receive_of::<Down>().await.reason;
                    assert_eq!(ended == ExitReason::Killed, spins, "{ended}");
                }
            })
        })
    });
    assert_eq!(wasm.stats().live, 0);
}
