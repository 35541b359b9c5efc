//! The guarantees of docs/semantics.md with guests as process bodies; each test is named after the sentence that it
//! checks.

#![cfg(feature = "wasm")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

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

/// Runs a parent with these steps and returns its exit reason, which is normal if every step holds.
fn end_of(steps: &[String]) -> ExitReason {
    guests::Node::small().end_of(&family::family(steps), &Guest::default().profile("trusted"))
}
