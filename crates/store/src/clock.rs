//! The clock for keys that expire: the wall clock, because keys outlive the node, or one that a test advances.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that counts milliseconds since 1970 and never goes back while it is used.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use std::time::Duration;
///
/// use rusm::store::{Clock, Store, StoreConfig};
///
/// let clock = Clock::manual();
/// let config = StoreConfig { clock: clock.clone(), ..StoreConfig::default() };
/// let store = Store::open(&path, config)?;
/// let sessions = store.bucket("sessions")?;
/// sessions.put_for("ada", "token", Duration::from_secs(60)).wait()?;
///
/// clock.advance(Duration::from_secs(61)); // no test waits for a minute
/// assert_eq!(sessions.get("ada").wait()?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Clock {
    // Relaxed throughout: a slightly older time is good enough.
    latest_ms: Arc<AtomicU64>,
    is_wall: bool,
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("is_wall", &self.is_wall).finish_non_exhaustive()
    }
}

impl Clock {
    /// Returns the wall clock; if the system's clock is set back, this one stops until it has caught up.
    pub fn wall() -> Self {
        Self { latest_ms: Arc::default(), is_wall: true }
    }

    /// Returns a clock that changes only when it is [advanced](Self::advance).
    pub fn manual() -> Self {
        Self { latest_ms: Arc::new(AtomicU64::new(1)), is_wall: false }
    }

    /// Advances the clock; a wall clock, which advances by itself, stops until it has caught up.
    pub fn advance(&self, by: Duration) {
        self.latest_ms.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
    }

    #[expect(clippy::disallowed_methods, reason = "keys expire at a calendar time, even while no node runs")]
    pub(super) fn now_ms(&self) -> u64 {
        if !self.is_wall {
            return self.latest_ms.load(Ordering::Relaxed);
        }
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        self.latest_ms.fetch_max(now_ms, Ordering::Relaxed).max(now_ms)
    }
}

/// Returns the time at which something that starts now expires; never 0, which means that it does not expire.
pub(super) fn expiry_ms(now_ms: u64, within: Duration) -> u64 {
    now_ms.saturating_add(u64::try_from(within.as_millis()).unwrap_or(u64::MAX)).max(1)
}
