//! WebAssembly processes as seen by native code and by guests: the guarantees of processes with guests as bodies, the
//! capabilities of guests, and the consequences of hostile ones.

#![cfg(feature = "store")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

mod bonds;
mod capabilities;
mod components;
mod facts;
mod family;
mod guests;
mod hostile;
mod kv;
mod limits;
mod messages;
mod paths;
mod prebuilt;
mod quotas;
mod semantics;
mod shares;
mod slabs;
mod streams;
mod topics;
mod wasi;
mod watched;
