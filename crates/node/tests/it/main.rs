//! The `rusm` program from a user's point of view, one module per chapter, and the documents.
//!
//! Apart from this binary are `architecture`, which runs cargo and needs no `rusm`, and `wasm_spec`, whose engine
//! reserves address space and installs handlers of signals for its whole process.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod bench;
mod commands;
mod documents;
mod loadtest;
mod run;
mod store_commands;
mod terminal;
