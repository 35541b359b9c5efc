//! The guarantees of docs/semantics.md with a guest as the body, each test named by the sentence that it holds.

#![cfg(feature = "wasm")]
#![expect(clippy::unwrap_used, reason = "what helps a test fails like the test itself")]

#[path = "wasm_semantics/bonds.rs"]
mod bonds;
#[path = "wasm_semantics/family.rs"]
mod family;
#[path = "wasm/guests.rs"]
mod guests;
#[path = "wasm_semantics/signals.rs"]
mod signals;
#[path = "wasm_semantics/supervisors.rs"]
mod supervisors;

use rusm_runtime::ExitReason;
use rusm_runtime::wasm::Guest;

/// The end of a parent that tries these steps: normal if each held.
fn end_of(steps: &[String]) -> ExitReason {
    guests::Node::small().end_of(&family::family(steps), &Guest::default().profile("trusted"))
}
