//! What time it is for keys that expire: the wall clock, because they outlive the node, or one that a test turns.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that counts milliseconds since 1970 and never goes back while it is used.
#[derive(Clone)]
pub struct Clock {
    // Relaxed throughout: a time that is read a moment late is as good.
    latest_ms: Arc<AtomicU64>,
    is_wall: bool,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("is_wall", &self.is_wall).finish_non_exhaustive()
    }
}

impl Clock {
    /// The wall clock; when somebody sets it back, time stands still until it has caught up.
    pub fn wall() -> Self {
        Self { latest_ms: Arc::default(), is_wall: true }
    }

    /// A clock that stands still until it is [advanced](Self::advance).
    pub fn manual() -> Self {
        Self { latest_ms: Arc::new(AtomicU64::new(1)), is_wall: false }
    }

    /// Lets time pass; of a wall clock, whose time passes by itself, nothing changes until it gets there.
    pub fn advance(&self, by: Duration) {
        self.latest_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }

    #[expect(clippy::disallowed_methods, reason = "keys expire at a time of the calendar, also while no node runs")]
    pub(super) fn now_ms(&self) -> u64 {
        if !self.is_wall {
            return self.latest_ms.load(Ordering::Relaxed);
        }
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        self.latest_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms)
    }
}

/// When something expires whose time begins now; never 0, which is for those that do not.
pub(super) fn expiry_ms(now_ms: u64, within: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(within.as_millis()).unwrap_or(u64::MAX)).max(1)
}
