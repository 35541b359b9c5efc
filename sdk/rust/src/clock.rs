//! Time. Needs no capability.

use std::time::Duration;

use crate::bindings::rusm::runtime::clock;

/// Returns the time since the node started; never decreases.
pub fn now() -> Duration {
    Duration::from_nanos(clock::now_ns())
}

/// Returns the time since 1970-01-01T00:00:00Z, according to the machine's clock.
pub fn since_1970() -> Duration {
    Duration::from_millis(clock::unix_ms())
}
