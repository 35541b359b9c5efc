//! The guarantees of docs/semantics.md with guests as process bodies; each test is named after the sentence that it
//! checks.

mod bonds;
mod family;
mod signals;
mod supervisors;

use rusm_runtime::ExitReason;
use rusm_wasm::GuestOptions;

/// Runs a parent with these steps and returns its exit reason, which is normal if every step holds.
fn end_of(steps: &[String]) -> ExitReason {
    crate::guests::Node::small().end_of(&family::family(steps), &GuestOptions::default().profile("trusted"))
}
