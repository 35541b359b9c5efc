//! Time. Always there.

use std::time::Duration;

use crate::bindings::rusm::runtime::clock;

/// Since the node started; never goes back.
pub fn now() -> Duration {
    Duration::from_nanos(clock::now_ns())
}

/// Since 1970-01-01T00:00:00Z, as far as the machine knows.
pub fn since_1970() -> Duration {
    Duration::from_millis(clock::unix_ms())
}
