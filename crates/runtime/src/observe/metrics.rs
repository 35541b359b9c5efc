//! Metrics of the application: counters, gauges and histograms that are shown beside those of the node.
//!
//! ```text
//!   Handle::metrics ─▶ Metrics: name ─▶ family ─▶ series, one for each set of label values ─▶ one or more atomics
//!                                                                      ▲                         │
//!   application: add, set, observe ────────────────────────────────────┘   observe::metrics ◀────┘  GET /metrics
//! ```
//!
//! A metric is found once by its name, and then costs one relaxed atomic for each change. The number of families and of
//! series is bounded: label values beyond it are counted together, so that labels from outside cannot fill the memory.

pub(crate) mod family;

use std::fmt;
use std::sync::Arc;

pub use family::{
    BOUNDS_MAX, Counter, Gauge, Histogram, LABEL_BYTES_MAX, Labelled, METRICS_MAX, MetricError, MetricKind,
    MetricReport, MetricValue, OTHER, SECONDS, SERIES_MAX,
};

use crate::process::context::Context;
use crate::runtime::handle::Handle;
use family::Cell;

/// Registers metrics of the application in a runtime; cheap to clone.
///
/// A name may be registered again with the same kind and labels; it is then the same metric.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::metrics::{self, MetricValue};
/// use rusm::{Config, Runtime, observe};
///
/// let runtime = Runtime::start(Config::default())?;
/// let metrics = runtime.metrics();
/// let orders = metrics.counter_with("shop_orders", "Orders accepted", ["payment"])?;
/// let open = metrics.gauge("shop_baskets", "Baskets with something in them")?;
/// let checkout = metrics.histogram("shop_checkout_seconds", "Time of a checkout", metrics::SECONDS)?;
///
/// orders.with(["card"]).inc();
/// open.set(17.0);
/// checkout.observe_duration(std::time::Duration::from_millis(30));
///
/// let reports = observe::metrics(&runtime);
/// assert_eq!(&*reports[2].name, "shop_orders");
/// assert_eq!(reports[2].series[0].1, MetricValue::Counter(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Metrics(Handle);

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(metrics(&self.0).iter().map(|report| &report.name)).finish()
    }
}

impl Handle {
    /// Returns the metrics of the application, which a console shows in `GET /metrics`.
    pub fn metrics(&self) -> Metrics {
        Metrics(self.clone())
    }
}

impl Context {
    /// Returns the metrics of the application; see [`Handle::metrics`].
    pub fn metrics(&self) -> Metrics {
        self.runtime().metrics()
    }
}

impl Metrics {
    /// Registers a counter. Its name in `/metrics` ends in `_total`.
    ///
    /// # Errors
    /// [`MetricError`] if the name is not valid or taken, or if there are too many metrics.
    pub fn counter(&self, name: &str, help: &str) -> Result<Counter, MetricError> {
        self.counter_with(name, help, []).map(|counter| counter.with([]))
    }

    /// Registers a counter with labels.
    ///
    /// # Errors
    /// [`MetricError`] as of [`counter`](Self::counter).
    pub fn counter_with<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
    ) -> Result<Labelled<Counter, N>, MetricError> {
        // The format adds this suffix, so it is the same metric with and without it.
        let name = name.strip_suffix("_total").unwrap_or(name);
        self.labelled(name, help, MetricKind::Counter, labels, &[], Counter)
    }

    /// Registers a gauge.
    ///
    /// # Errors
    /// [`MetricError`] as of [`counter`](Self::counter).
    pub fn gauge(&self, name: &str, help: &str) -> Result<Gauge, MetricError> {
        self.gauge_with(name, help, []).map(|gauge| gauge.with([]))
    }

    /// Registers a gauge with labels.
    ///
    /// # Errors
    /// [`MetricError`] as of [`counter`](Self::counter).
    pub fn gauge_with<const N: usize>(
        &self,
        name: &str,
        help: &str,
        labels: [&str; N],
    ) -> Result<Labelled<Gauge, N>, MetricError> {
        self.labelled(name, help, MetricKind::Gauge, labels, &[], Gauge)
    }

    /// Registers a histogram with these upper bounds, for example [`SECONDS`].
    ///
    /// # Errors
    /// [`MetricError`] as of [`counter`](Self::counter), and if the bounds are not 1 to 64 ascending numbers.
    pub fn histogram(&self, name: &str, help: &str, bounds: &[f64]) -> Result<Histogram, MetricError> {
        self.histogram_with(name, help, bounds, []).map(|histogram| histogram.with([]))
    }

    /// Registers a histogram with labels.
    ///
    /// # Errors
    /// [`MetricError`] as of [`histogram`](Self::histogram).
    pub fn histogram_with<const N: usize>(
        &self,
        name: &str,
        help: &str,
        bounds: &[f64],
        labels: [&str; N],
    ) -> Result<Labelled<Histogram, N>, MetricError> {
        let is_ascending =
            bounds.windows(2).all(|pair| pair[0] < pair[1]) && bounds.iter().all(|bound| bound.is_finite());
        if bounds.is_empty() || bounds.len() > BOUNDS_MAX || !is_ascending {
            return Err(MetricError::Bounds { name: name.to_owned() });
        }
        self.labelled(name, help, MetricKind::Histogram, labels, bounds, Histogram)
    }

    fn labelled<M, const N: usize>(
        &self,
        name: &str,
        help: &str,
        kind: MetricKind,
        labels: [&str; N],
        bounds: &[f64],
        wrap: fn(Arc<Cell>) -> M,
    ) -> Result<Labelled<M, N>, MetricError> {
        let family = self.0.shared.metrics.family(name, help, kind, &labels, bounds)?;
        Ok(Labelled { family, wrap })
    }
}

/// Returns the metrics of the application, sorted by name.
pub fn metrics(runtime: &Handle) -> Vec<MetricReport> {
    runtime.shared.metrics.reports()
}
