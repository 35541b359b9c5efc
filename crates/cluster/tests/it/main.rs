//! Tests of the cluster through its public interface.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod conversation;
mod hostile;
#[cfg(feature = "zenoh")]
mod network;
mod pair;
mod session;
mod wire;
