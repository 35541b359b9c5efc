//! Tests of the console over its sockets: what clients send, what they receive, and what they must not be able to do.

#![expect(clippy::unwrap_used, reason = "a test helper may panic like the test itself")]

mod acting;
mod attach;
mod cluster;
mod hostile;
mod inspect;
mod lints;
mod past;
mod population;
mod probes;
mod schedulers;
mod serve;
mod sizes;
mod store;
mod support;
mod time;
mod tree;
mod views;
mod waits;
