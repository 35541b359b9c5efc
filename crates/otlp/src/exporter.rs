//! The handle of an exporter, which starts and stops its thread.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::{OtlpConfig, OtlpError};
use crate::layer::OtlpLayer;
use crate::record::unix_ns;
use crate::shared::{ExportCounters, Shared, Signal};
use crate::worker::Worker;

/// Time that a dropped exporter gets for its last records.
const LAST_RECORDS: Duration = Duration::from_secs(1);

/// Exports to a collector on a thread of its own. Dropping it sends what waits, for at most one second.
///
/// ```
/// # mod rusm { pub use rusm_otlp as otlp; }
/// use std::time::Duration;
///
/// use rusm::otlp::{Exporter, OtlpConfig};
///
/// let exporter = Exporter::start(&OtlpConfig::new("http://127.0.0.1:4318"))?;
/// exporter.set_metrics(|| Some("shop_orders_total 3\n".to_owned()));
/// // Returns false if not everything could be sent in time: here nothing listens.
/// exporter.stop(Duration::from_millis(1));
/// # Ok::<(), rusm::otlp::OtlpError>(())
/// ```
#[derive(Debug)]
pub struct Exporter {
    shared: Arc<Shared>,
    stop: watch::Sender<Option<Instant>>,
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Exporter {
    /// Starts the thread of an exporter.
    ///
    /// # Errors
    /// [`OtlpError`] if the configuration is not valid or the thread cannot be started. A collector that cannot be reached is
    /// not an error.
    pub fn start(config: &OtlpConfig) -> Result<Self, OtlpError> {
        config.check()?;
        let shared = Arc::new(Shared::new(config.logs, config.traces));
        let (stop, stopping) = watch::channel(None);
        let (end, ended) = mpsc::sync_channel(1);
        let worker = Worker::new(config, Arc::clone(&shared), stopping)?;
        let body = move || {
            worker.run();
            // The handle may be gone.
            _ = end.send(());
        };
        std::thread::Builder::new().name("rusm-otlp".to_owned()).spawn(body).map_err(OtlpError::Thread)?;
        Ok(Self { shared, stop, ended: Mutex::new(ended) })
    }

    /// Returns the layer that exports events as logs, and closed spans as traces.
    pub fn layer(&self) -> OtlpLayer {
        OtlpLayer(Arc::clone(&self.shared))
    }

    /// Exports the metrics that `text` returns in the format of `OpenMetrics`, once in each interval and at the end.
    /// They count since now. Without a text, nothing is exported.
    pub fn set_metrics(&self, text: impl Fn() -> Option<String> + Send + Sync + 'static) {
        self.shared.started_ns.store(unix_ns(), Relaxed);
        *self.shared.source.lock() = Some(Arc::new(text));
    }

    /// Reads the metrics for the last time: from now on, the same text is exported. For a program that exports its logs for
    /// longer than its metrics can be read.
    pub fn keep_metrics(&self) {
        let source = self.shared.source.lock().clone();
        if let Some(text) = source.and_then(|source| source()) {
            *self.shared.source.lock() = Some(Arc::new(move || Some(text.clone())));
        }
    }

    /// Returns the counters of a signal.
    pub fn counters(&self, signal: Signal) -> ExportCounters {
        self.shared.counters(signal)
    }

    /// Sends what waits and the last metrics, and ends the thread; waits up to `within` for it. Returns false if records
    /// were lost.
    pub fn stop(&self, within: Duration) -> bool {
        let dropped = || [Signal::Logs, Signal::Traces].map(|signal| self.counters(signal).dropped);
        let before = dropped();
        self.stop.send_if_modified(|deadline| {
            let is_first = deadline.is_none();
            *deadline = deadline.or_else(|| Some(Instant::now() + within));
            is_first
        });
        // The thread has the same deadline; it is abandoned only inside a call of the operating system.
        let has_ended = self.ended.lock().recv_timeout(within + Duration::from_millis(100)).is_ok();
        has_ended && dropped() == before
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if self.stop.borrow().is_none() {
            self.stop(LAST_RECORDS);
        }
    }
}
