//! The `rusm` program from a user's point of view, one module per chapter, and the documents.
//!
//! Two test programs are separate: `architecture` runs cargo and does not need `rusm`, and the engine of `wasm_spec`
//! reserves address space and installs signal handlers for its whole process.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod bench;
mod commands;
mod compile;
mod documents;
mod loadtest;
mod run;
mod serve;
mod store_commands;
mod terminal;
