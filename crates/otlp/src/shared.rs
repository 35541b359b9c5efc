//! The state that the layer, the thread and the handle of an exporter share.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::thread::ThreadId;

use parking_lot::Mutex;

use crate::queue::Queue;
use crate::record::unix_ns;

/// A kind of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Metrics; a record is a data point.
    Metrics,
    /// Logs; a record is an event of `tracing`.
    Logs,
    /// Traces; a record is a span.
    Traces,
}

/// Counters of one kind of telemetry since the start of the exporter.
///
/// ```
/// # mod rusm { pub use rusm_otlp as otlp; }
/// use std::time::Duration;
///
/// use rusm::otlp::{Exporter, OtlpConfig, Signal};
///
/// let exporter = Exporter::start(&OtlpConfig::new("http://127.0.0.1:4318"))?;
/// // … the program runs …
/// exporter.stop(Duration::from_millis(1));
/// let logs = exporter.counters(Signal::Logs);
/// assert_eq!((logs.exported, logs.dropped), (0, 0));
/// # Ok::<(), rusm::otlp::OtlpError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounters {
    /// Number of records that the collector has accepted.
    pub exported: u64,
    /// Number of records dropped because the queue was full, or because the collector rejected them.
    pub dropped: u64,
    /// Number of failed requests.
    pub failures: u64,
}

/// Reads the current metrics, as text in the format of `OpenMetrics`.
pub(crate) type MetricsSource = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// The state that the layer, the thread and the handle share.
pub(crate) struct Shared {
    pub(crate) metrics: Queue,
    /// `None` if the signal is off.
    pub(crate) logs: Option<Queue>,
    pub(crate) traces: Option<Queue>,
    pub(crate) source: Mutex<Option<MetricsSource>>,
    /// Time since which metrics count.
    pub(crate) started_ns: AtomicU64,
    thread: OnceLock<ThreadId>,
    seed: u64,
    ids: AtomicU64,
}

impl Shared {
    /// Creates the state. Identifiers begin with a random number.
    pub(crate) fn new(logs: bool, traces: bool) -> Self {
        let mut seed = [0; 8];
        // Without random bytes, other programs may use the same identifiers.
        let seed = getrandom::fill(&mut seed).map_or_else(|_| unix_ns(), |()| u64::from_le_bytes(seed));
        let queue = |is_on: bool| is_on.then(Queue::default);
        Self {
            metrics: Queue::default(),
            logs: queue(logs),
            traces: queue(traces),
            source: Mutex::new(None),
            started_ns: AtomicU64::new(unix_ns()),
            thread: OnceLock::new(),
            seed,
            ids: AtomicU64::new(0),
        }
    }

    /// Returns the queue of a signal, if it is on.
    pub(crate) const fn queue(&self, signal: Signal) -> Option<&Queue> {
        match signal {
            Signal::Metrics => Some(&self.metrics),
            Signal::Logs => self.logs.as_ref(),
            Signal::Traces => self.traces.as_ref(),
        }
    }

    pub(crate) fn counters(&self, signal: Signal) -> ExportCounters {
        self.queue(signal).map_or_else(ExportCounters::default, |queue| ExportCounters {
            exported: queue.exported.load(Relaxed),
            dropped: queue.dropped.load(Relaxed),
            failures: queue.failures.load(Relaxed),
        })
    }

    pub(crate) const fn has_records(&self) -> bool {
        self.logs.is_some() || self.traces.is_some()
    }

    /// Notes that this thread is the exporter's.
    pub(crate) fn own_thread(&self) {
        _ = self.thread.set(std::thread::current().id());
    }

    pub(crate) fn is_own_thread(&self) -> bool {
        self.thread.get().is_some_and(|own| *own == std::thread::current().id())
    }

    /// Returns an identifier that is not zero and differs from all earlier ones of this exporter.
    pub(crate) fn next_id(&self) -> u64 {
        // SplitMix64: different numbers give different identifiers.
        let number = self.ids.fetch_add(1, Relaxed).wrapping_add(1);
        let mut id = self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (id ^ (id >> 31)).max(1)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("logs", &self.logs).field("traces", &self.traces).finish_non_exhaustive()
    }
}
