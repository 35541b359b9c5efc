//! WebAssembly processes, as native code and guests see them: the guarantees of processes with a guest as the body, what
//! guests may do, and what hostile ones get.

#![cfg(feature = "wasm")]
#![expect(clippy::unwrap_used, reason = "what helps a test fails like the test itself")]

mod bonds;
mod capabilities;
mod components;
mod facts;
mod family;
mod guests;
mod hostile;
#[cfg(feature = "store")]
mod kv;
mod limits;
mod messages;
mod paths;
mod quotas;
mod shares;
mod slabs;
mod streams;
mod topics;
mod wasi;
mod watched;
