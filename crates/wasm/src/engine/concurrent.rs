//! The place of a second engine, for components of WASI 0.3, which have asynchronous functions.
//!
//! An engine that runs them prepares each store for concurrent calls, which costs each guest several microseconds at its
//! start. So they have an engine of their own, which is started with the first of them. It shares the epochs, the limits
//! and the capacity of the other engine.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use wasmtime::{Engine, component};

use super::allocator::CodeSettings;

/// The engine of components of WASI 0.3, and what they may import.
pub(crate) struct ConcurrentEngine<T: 'static> {
    pub(crate) engine: Engine,
    pub(crate) code: CodeSettings,
    pub(crate) components: component::Linker<T>,
}

type Start<T> = Box<dyn Fn() -> wasmtime::Result<ConcurrentEngine<T>> + Send + Sync>;

/// The place of the engine, which is empty until the first component needs it.
pub(crate) struct ConcurrentCell<T: 'static>(Arc<Cell<T>>);

struct Cell<T: 'static> {
    engine: OnceLock<ConcurrentEngine<T>>,
    start: Mutex<Start<T>>,
}

impl<T> Clone for ConcurrentCell<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> ConcurrentCell<T> {
    pub(crate) fn new(start: impl Fn() -> wasmtime::Result<ConcurrentEngine<T>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Cell { engine: OnceLock::new(), start: Mutex::new(Box::new(start)) }))
    }

    /// Returns the engine, which the first call starts.
    pub(crate) fn get(&self) -> wasmtime::Result<&ConcurrentEngine<T>> {
        if let Some(engine) = self.0.engine.get() {
            return Ok(engine);
        }
        let start = self.0.start.lock();
        // Another thread may have started it meanwhile.
        if let Some(engine) = self.0.engine.get() {
            return Ok(engine);
        }
        let engine = start()?;
        Ok(self.0.engine.get_or_init(|| engine))
    }

    /// Ends the turn of its guests, if it is started.
    pub(crate) fn increment_epoch(&self) {
        if let Some(concurrent) = self.0.engine.get() {
            concurrent.engine.increment_epoch();
        }
    }
}
