//! Families of metrics: a name, a kind, labels, and a bounded number of series with their atomics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use thiserror::Error;

/// Maximum number of metrics of a runtime.
pub const METRICS_MAX: usize = 1_000;
/// Maximum number of sets of label values of one metric.
pub const SERIES_MAX: usize = 1_000;
/// Value of each label of the series that counts everything beyond [`SERIES_MAX`].
pub const OTHER: &str = "other";
/// Maximum length of a label value, in bytes; longer ones are truncated.
pub const LABEL_BYTES_MAX: usize = 128;
/// Maximum number of bounds of a histogram.
pub const BOUNDS_MAX: usize = 64;
/// Bounds for durations, in seconds: from 0.1 ms to 10 s.
pub const SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Error returned if a metric cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetricError {
    /// A name of a metric or a label is not valid: letters, digits and `_` are, and no digit at the start. The names of
    /// the node begin with `rusm_` and `http_`, and those of the format with `__`.
    #[error("{name:?} is not a valid name: use letters, digits and _, and neither rusm_, http_ nor __ at the start")]
    Name {
        /// The name.
        name: String,
    },
    /// A label has the name of another one, or a histogram has the label `le`, which names its buckets.
    #[error("label {name:?} is there already: each label of a metric has a name of its own, and a histogram has le")]
    Label {
        /// Name of the label.
        name: String,
    },
    /// The name belongs to a metric of another kind, with other labels or bounds, or to a line of one: counters have lines
    /// that end in `_total` and `_created`, histograms in `_bucket`, `_count`, `_sum` and `_created`.
    #[error("metric {name:?}, or one with a line of that name, exists with another kind, other labels or bounds")]
    Taken {
        /// Name of the metric.
        name: String,
    },
    /// The bounds of a histogram are not ascending numbers, or too many.
    #[error("the bounds of histogram {name:?} are not 1 to {BOUNDS_MAX} ascending numbers")]
    Bounds {
        /// Name of the metric.
        name: String,
    },
    /// There are too many metrics. Use labels instead of names that are computed.
    #[error("{METRICS_MAX} metrics are registered")]
    Full,
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// A distribution of values.
    Histogram,
}

/// Values of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// Value of a counter.
    Counter(u64),
    /// Value of a gauge.
    Gauge(f64),
    /// Values of a histogram.
    Histogram {
        /// Sum of all values.
        sum: f64,
        /// Upper bounds with the number of values up to each of them and above the one before. The last bound is infinite.
        buckets: Vec<(f64, u64)>,
    },
}

/// One metric with all of its series.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its description.
    pub help: Arc<str>,
    /// Its kind.
    pub kind: MetricKind,
    /// Names of its labels.
    pub labels: Vec<Arc<str>>,
    /// Values of the labels, and of the metric.
    pub series: Vec<(Vec<Arc<str>>, MetricValue)>,
}

/// A number that only grows; cheap to clone.
///
/// ```
/// # use rusm_runtime as rusm;
/// let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let orders = runtime.metrics().counter("shop_orders", "Orders accepted")?;
///
/// orders.inc();
/// orders.add(2);
///
/// assert_eq!(orders.get(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Counter(pub(super) Arc<Cell>);

impl Counter {
    /// Adds 1.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds a number.
    #[inline]
    pub fn add(&self, number: u64) {
        self.0.first().fetch_add(number, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.first().load(Ordering::Relaxed)
    }
}

/// A number that grows and shrinks; cheap to clone.
///
/// ```
/// # use rusm_runtime as rusm;
/// let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let open = runtime.metrics().gauge("shop_baskets", "Baskets with something in them")?;
///
/// open.set(17.0);
/// open.add(-1.0);
///
/// assert_eq!(open.get(), 16.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gauge(pub(super) Arc<Cell>);

impl Gauge {
    /// Sets the number.
    #[inline]
    pub fn set(&self, number: f64) {
        self.0.first().store(number.to_bits(), Ordering::Relaxed);
    }

    /// Adds a number, which may be negative.
    #[inline]
    pub fn add(&self, number: f64) {
        add_float(self.0.first(), number);
    }

    /// Returns the number.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.first().load(Ordering::Relaxed))
    }
}

/// A distribution of values; cheap to clone.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::time::Duration;
///
/// use rusm::metrics::SECONDS;
///
/// let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let checkout = runtime.metrics().histogram("shop_checkout_seconds", "Time of a checkout", SECONDS)?;
///
/// checkout.observe_duration(Duration::from_millis(30));
///
/// assert_eq!(checkout.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Histogram(pub(super) Arc<Cell>);

impl Histogram {
    /// Adds a value. Negative ones and NaN are left out, because the format of `/metrics` excludes them.
    #[inline]
    pub fn observe(&self, value: f64) {
        if value.is_nan() || value < 0.0 {
            return;
        }
        let bucket = self.0.bounds.partition_point(|bound| *bound < value);
        self.0.words[bucket + 1].fetch_add(1, Ordering::Relaxed);
        add_float(self.0.first(), value);
    }

    /// Adds a duration, in seconds.
    #[inline]
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.words[1..].iter().map(|word| word.load(Ordering::Relaxed)).sum()
    }
}

fn add_float(word: &AtomicU64, number: f64) {
    let mut bits = word.load(Ordering::Relaxed);
    while let Err(now) = word.compare_exchange_weak(
        bits,
        (f64::from_bits(bits) + number).to_bits(),
        Ordering::Relaxed,
        Ordering::Relaxed,
    ) {
        bits = now;
    }
}

/// The atomics of one series: one of a counter or a gauge; the sum and the buckets of a histogram.
#[derive(Debug)]
pub(super) struct Cell {
    words: Box<[AtomicU64]>,
    /// Upper bounds of the buckets, without the infinite one.
    bounds: Arc<[f64]>,
}

impl Cell {
    #[inline]
    fn first(&self) -> &AtomicU64 {
        &self.words[0]
    }
}

/// A metric with labels; cheap to clone. `M` is [`Counter`], [`Gauge`] or [`Histogram`].
///
/// ```
/// # use rusm_runtime as rusm;
/// let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// let orders = runtime.metrics().counter_with("shop_orders", "Orders accepted", ["payment"])?;
/// let by_card = orders.with(["card"]);
///
/// by_card.inc();
/// orders.with(["invoice"]).inc();
///
/// assert_eq!((by_card.get(), orders.with(["invoice"]).get()), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Labelled<M, const N: usize> {
    pub(super) family: Arc<Family>,
    pub(super) wrap: fn(Arc<Cell>) -> M,
}

impl<M, const N: usize> Clone for Labelled<M, N> {
    fn clone(&self) -> Self {
        Self { family: Arc::clone(&self.family), wrap: self.wrap }
    }
}

impl<M, const N: usize> fmt::Debug for Labelled<M, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labelled").field("name", &self.family.name).finish_non_exhaustive()
    }
}

impl<M, const N: usize> Labelled<M, N> {
    /// Returns the series with these values of the labels, in the order of their names. Keep it where the values do not
    /// change: the lookup costs a lock.
    ///
    /// Beyond [`SERIES_MAX`] sets of values, all others share the series whose values are [`OTHER`].
    pub fn with(&self, values: [&str; N]) -> M {
        (self.wrap)(self.family.series(&values))
    }
}

/// A metric and its series.
pub(super) struct Family {
    name: Arc<str>,
    help: Arc<str>,
    kind: MetricKind,
    labels: Vec<Arc<str>>,
    bounds: Arc<[f64]>,
    series: RwLock<BTreeMap<Vec<Arc<str>>, Arc<Cell>>>,
}

impl Family {
    fn series(&self, values: &[&str]) -> Arc<Cell> {
        let values: Vec<Arc<str>> =
            values.iter().map(|value| value[..value.floor_char_boundary(LABEL_BYTES_MAX)].into()).collect();
        let found = self.series.read().get(&values).cloned();
        found.unwrap_or_else(|| self.add(values))
    }

    #[cold]
    fn add(&self, values: Vec<Arc<str>>) -> Arc<Cell> {
        let mut series = self.series.write();
        let is_full = series.len() >= SERIES_MAX && !series.contains_key(&values);
        let values = if is_full { vec![OTHER.into(); values.len()] } else { values };
        Arc::clone(series.entry(values).or_insert_with(|| Arc::new(self.cell())))
    }

    fn cell(&self) -> Cell {
        let words = if self.kind == MetricKind::Histogram { self.bounds.len() + 2 } else { 1 };
        Cell { words: (0..words).map(|_| AtomicU64::new(0)).collect(), bounds: Arc::clone(&self.bounds) }
    }

    fn value(&self, cell: &Cell) -> MetricValue {
        let word = |index: usize| cell.words[index].load(Ordering::Relaxed);
        match self.kind {
            MetricKind::Counter => MetricValue::Counter(word(0)),
            MetricKind::Gauge => MetricValue::Gauge(f64::from_bits(word(0))),
            MetricKind::Histogram => {
                let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
                let buckets = bounds.enumerate().map(|(index, bound)| (bound, word(index + 1))).collect();
                MetricValue::Histogram { sum: f64::from_bits(word(0)), buckets }
            }
        }
    }

    pub(super) fn report(&self) -> MetricReport {
        let series = self.series.read();
        let cells: Vec<_> = series.iter().map(|(values, cell)| (values.clone(), Arc::clone(cell))).collect();
        drop(series);
        MetricReport {
            name: Arc::clone(&self.name),
            help: Arc::clone(&self.help),
            kind: self.kind,
            labels: self.labels.clone(),
            series: cells.into_iter().map(|(values, cell)| (values, self.value(&cell))).collect(),
        }
    }

    fn is_as(&self, kind: MetricKind, labels: &[&str], bounds: &[f64]) -> bool {
        self.kind == kind
            && self.labels.iter().map(|label| &**label).eq(labels.iter().copied())
            && *self.bounds == *bounds
    }
}

/// Metrics of a runtime, by name.
#[derive(Default)]
pub(crate) struct MetricsRegistry(Mutex<BTreeMap<Arc<str>, Arc<Family>>>);

impl MetricsRegistry {
    pub(super) fn family(
        &self,
        name: &str,
        help: &str,
        kind: MetricKind,
        labels: &[&str],
        bounds: &[f64],
    ) -> Result<Arc<Family>, MetricError> {
        check_name(name)?;
        labels.iter().try_for_each(|label| check_name(label))?;
        check_labels(kind, labels)?;
        let mut families = self.0.lock();
        if let Some(family) = families.get(name) {
            let is_same = family.is_as(kind, labels, bounds);
            return if is_same { Ok(Arc::clone(family)) } else { Err(MetricError::Taken { name: name.to_owned() }) };
        }
        if lines_clash(&families, name, kind) {
            return Err(MetricError::Taken { name: name.to_owned() });
        }
        if families.len() >= METRICS_MAX {
            return Err(MetricError::Full);
        }
        let family = Arc::new(Family {
            name: name.into(),
            // The format has one line for it.
            help: help.replace(['\n', '\r'], " ").into(),
            kind,
            labels: labels.iter().map(|label| Arc::from(*label)).collect(),
            bounds: bounds.into(),
            series: RwLock::default(),
        });
        families.insert(name.into(), Arc::clone(&family));
        Ok(family)
    }
}

impl MetricsRegistry {
    /// Returns all metrics, sorted by name.
    pub(super) fn reports(&self) -> Vec<MetricReport> {
        let families: Vec<_> = self.0.lock().values().cloned().collect();
        families.iter().map(|family| family.report()).collect()
    }
}

/// Returns what the names of a metric's lines end in, apart from its own.
const fn line_suffixes(kind: MetricKind) -> &'static [&'static str] {
    match kind {
        MetricKind::Counter => &["_total", "_created"],
        MetricKind::Gauge => &[],
        MetricKind::Histogram => &["_bucket", "_count", "_sum", "_created"],
    }
}

/// Returns true if a line of the new metric would have the name of another metric, or the other way round.
fn lines_clash(families: &BTreeMap<Arc<str>, Arc<Family>>, name: &str, kind: MetricKind) -> bool {
    let is_family = |suffix: &&str| families.contains_key(format!("{name}{suffix}").as_str());
    let is_line = |suffix: &&str| {
        let family = name.strip_suffix(suffix).and_then(|stem| families.get(stem));
        family.is_some_and(|family| line_suffixes(family.kind).contains(suffix))
    };
    let all = [MetricKind::Counter, MetricKind::Histogram].map(line_suffixes);
    line_suffixes(kind).iter().any(is_family) || all.into_iter().flatten().any(is_line)
}

fn check_labels(kind: MetricKind, labels: &[&str]) -> Result<(), MetricError> {
    let reserved = if kind == MetricKind::Histogram { &["le"][..] } else { &[] };
    for (at, label) in labels.iter().enumerate() {
        if labels[..at].contains(label) || reserved.contains(label) {
            return Err(MetricError::Label { name: (*label).to_owned() });
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), MetricError> {
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let is_valid = starts && name.len() <= 128 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_valid && !["rusm_", "http_", "__"].iter().any(|reserved| name.starts_with(reserved)) {
        return Ok(());
    }
    Err(MetricError::Name { name: name.to_owned() })
}
