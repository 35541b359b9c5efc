//! The answer of `GET /readyz`, which the application sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The answer of `GET /readyz`, which the application sets; cheap to clone.
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use rusm::console::{ConsoleConfig, Readiness};
///
/// let readiness = Readiness::default();
/// readiness.set(false);
/// let config = ConsoleConfig { readiness: readiness.clone(), ..ConsoleConfig::named("shop") };
/// // … bind the console, start the application …
/// readiness.set(true);
/// assert!(config.readiness.is_ready());
/// ```
#[derive(Clone, Debug)]
pub struct Readiness(Arc<AtomicBool>);

/// Ready.
impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Readiness {
    /// Changes the answer.
    pub fn set(&self, is_ready: bool) {
        self.0.store(is_ready, Relaxed);
    }

    /// Returns true if the application is ready.
    pub fn is_ready(&self) -> bool {
        self.0.load(Relaxed)
    }
}
