//! The interface of a variant of counters.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::backend::Backend;
use super::store::{CounterStore, CounterStoreError, Slot};

/// A variant of counters, on top of a store.
///
/// Code that works with every variant takes the variant as a type parameter:
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::sync::Arc;
///
/// use rusm::counter::{AtomicCounter, Counter, CounterStore, CounterStoreError, Counters, MemoryStore, NoOptions};
/// use rusm::{Config, Runtime};
///
/// async fn sell<C: Counter<S>, S: CounterStore>(stock: Arc<C>, units: i64) -> Result<i64, CounterStoreError> {
///     stock.update(units).await?;
///     Ok(stock.value())
/// }
///
/// let runtime = Runtime::start(Config::default())?;
/// let stock = Counters::<AtomicCounter<_>, _>::start(&runtime, MemoryStore::new(), NoOptions)?;
/// let apples = stock.counter("apples", 100)?;
/// assert_eq!(runtime.block_on(|_| sell(apples, 30)), Ok(70));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Counter<S: CounterStore>: fmt::Debug + Send + Sync + Sized + 'static {
    /// Options of the variant.
    type Options: Clone + Send + Sync + 'static;
    /// Error returned for invalid options.
    type OptionsError: std::error::Error + Send + Sync + 'static;

    /// Checks that options are valid.
    ///
    /// # Errors
    /// For the first option that is not valid.
    fn check(options: &Self::Options) -> Result<(), Self::OptionsError>;

    /// Creates a counter with its value in `slot`; applications use [`Counters::counter`](super::Counters::counter).
    fn open(backend: &Backend<S>, options: &Self::Options, slot: Slot) -> Self;

    /// Takes units; negative units are given.
    fn update(&self, units: i64) -> impl Future<Output = Result<Admission, CounterStoreError>> + Send;

    /// Takes units on behalf of a worker, for variants that distinguish workers.
    fn update_by(
        &self,
        worker: usize,
        units: i64,
    ) -> impl Future<Output = Result<Admission, CounterStoreError>> + Send {
        let _ = worker;
        self.update(units)
    }

    /// Returns the true value, as far as this counter knows it at the moment.
    fn value(&self) -> i64;

    /// Returns the time between two calls of [`maintain`](Self::maintain); `None` if the variant needs no calls.
    fn interval(options: &Self::Options) -> Option<Duration> {
        let _ = options;
        None
    }

    /// Does the due work of all counters of a set; the `last` call does all work that is left.
    ///
    /// # Errors
    /// The error of the store. Units that could not be stored are retried.
    fn maintain(
        backend: &Backend<S>,
        options: &Self::Options,
        counters: &[Arc<Self>],
        last: bool,
    ) -> impl Future<Output = Result<(), CounterStoreError>> + Send {
        let _ = (backend, options, counters, last);
        std::future::ready(Ok(()))
    }
}

/// Result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The operation was applied.
    Granted,
    /// The operation was not applied: a limit is reached.
    Denied,
}

/// Options of a variant without options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoOptions;

/// Error that never occurs, for variants without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoOptionsError {}
