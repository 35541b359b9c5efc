//! The exporter's thread: one task for each signal, which sends and tries again.
//!
//! ```text
//!   metrics: interval ──▶ text ──▶ body ─┐
//!   logs, traces: first record, delay ───┴▶ POST ──▶ accepted │ rejected: dropped │ failed: pause, then again
//! ```

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep_until, timeout, timeout_at};

use crate::client::{Backoff, Client, Outcome};
use crate::config::{OtlpConfig, OtlpError};
use crate::metrics;
use crate::queue::{BATCH_MAX, Queue};
use crate::record::unix_ns;
use crate::resource::{resource, scope};
use crate::shared::{ExportCounters, Shared, Signal};

/// Minimum time between two log lines about failures: the collector decides how often it fails.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Instant at which the thread must have ended; `None` until the exporter is stopped.
type Stopping = watch::Receiver<Option<Instant>>;

/// The thread's body.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    stopping: Stopping,
    interval: Duration,
    delay: Duration,
    metrics: Option<Sender>,
    logs: Option<Sender>,
    traces: Option<Sender>,
}

impl Worker {
    pub(crate) fn new(config: &OtlpConfig, shared: Arc<Shared>, stopping: Stopping) -> Result<Self, OtlpError> {
        let resource = resource(config, shared.next_id());
        let sender = |is_on: bool, signal: Signal| {
            is_on.then(|| Sender::new(config, signal, &resource, &shared, &stopping)).transpose()
        };
        let metrics = sender(config.metrics, Signal::Metrics)?;
        let logs = sender(config.logs, Signal::Logs)?;
        let traces = sender(config.traces, Signal::Traces)?;
        let (interval, delay) = (config.interval, config.delay);
        Ok(Self { shared, stopping, interval, delay, metrics, logs, traces })
    }

    /// Exports until the exporter is stopped.
    pub(crate) fn run(self) {
        self.shared.own_thread();
        let reactor = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(reactor) => reactor,
            Err(error) => {
                tracing::error!(%error, "nothing is exported: the reactor of OTLP cannot be started");
                return;
            }
        };
        let stopping = self.stopping.clone();
        reactor.block_on(async {
            let work = async {
                tokio::join!(
                    export_metrics(self.metrics, &self.shared, self.interval),
                    export_records(self.logs, self.delay),
                    export_records(self.traces, self.delay),
                )
            };
            tokio::pin!(work);
            tokio::select! {
                _ = &mut work => {}
                deadline = deadline(stopping) => drop(timeout_at(deadline.into(), work).await),
            }
        });
        // A look-up of a name may block a thread for longer.
        reactor.shutdown_background();
        for queue in [&self.shared.logs, &self.shared.traces].into_iter().flatten() {
            queue.drop_unresolved();
        }
    }
}

/// Waits until the exporter is stopped, and returns the instant at which the thread must have ended.
async fn deadline(mut stopping: Stopping) -> Instant {
    // A dropped exporter has sent a deadline before.
    let stopped = stopping.wait_for(Option::is_some).await;
    stopped.ok().and_then(|deadline| *deadline).unwrap_or_else(Instant::now)
}

async fn export_metrics(sender: Option<Sender>, shared: &Shared, interval: Duration) {
    let Some(mut sender) = sender else { return };
    let mut next = Instant::now() + interval;
    loop {
        tokio::select! {
            () = sleep_until(next.into()) => {}
            _ = deadline(sender.stopping.clone()) => {}
        }
        let is_last = sender.is_stopped();
        let source = shared.source.lock().clone();
        let Some(text) = source.and_then(|source| source()) else {
            if is_last {
                return;
            }
            next = Instant::now() + interval;
            continue;
        };
        // Counters of the exporter come last, as further families.
        let text = format!("{}\n{}", text.trim_end().trim_end_matches("# EOF"), own_metrics(shared));
        let (metrics, points) = metrics::parse(&text, shared.started_ns.load(Relaxed), unix_ns());
        match sender.attempt(&metrics.join(","), points).await {
            // The next metrics contain these.
            Err(at) => next = at,
            Ok(()) => next = (next + interval).max(Instant::now()),
        }
        if is_last {
            return;
        }
    }
}

/// Name, meaning and value of a counter.
type CounterFamily = (&'static str, &'static str, fn(&ExportCounters) -> u64);

/// Returns the counters of the exporter.
fn own_metrics(shared: &Shared) -> String {
    let signals = [("metrics", Signal::Metrics), ("logs", Signal::Logs), ("traces", Signal::Traces)];
    let counters = signals.map(|(name, signal)| (name, shared.counters(signal)));
    let mut text = String::new();
    let families: [CounterFamily; 3] = [
        ("rusm_otlp_records_exported", "Records that the collector has accepted", |counters| counters.exported),
        ("rusm_otlp_records_dropped", "Records dropped by a full queue or the collector", |counters| counters.dropped),
        ("rusm_otlp_requests_failed", "Failed requests to the collector", |counters| counters.failures),
    ];
    for (family, help, read) in families {
        // Writing to a string cannot fail.
        _ = writeln!(text, "# HELP {family} {help}\n# TYPE {family} counter");
        for (name, counters) in &counters {
            _ = writeln!(text, "{family}_total{{signal=\"{name}\"}} {}", read(counters));
        }
    }
    text
}

async fn export_records(sender: Option<Sender>, delay: Duration) {
    let Some(mut sender) = sender else { return };
    let shared = Arc::clone(&sender.shared);
    let Some(queue) = shared.queue(sender.signal) else { return };
    loop {
        wait_for_batch(queue, delay, sender.stopping.clone()).await;
        let batch = queue.take();
        if batch.is_empty() && sender.is_stopped() {
            return;
        }
        if !batch.is_empty() && !sender.send(&batch.join(","), batch.len() as u64).await {
            // Whatever else waits would fail, too.
            return;
        }
    }
}

/// Waits for a record and then for others, until there is a batch or the delay is over.
async fn wait_for_batch(queue: &Queue, delay: Duration, stopping: Stopping) {
    let filled = async {
        while queue.len() == 0 {
            queue.filled.notified().await;
        }
        let others = async {
            while queue.len() < BATCH_MAX {
                queue.filled.notified().await;
            }
        };
        // At the end of the delay, what is there is sent.
        drop(timeout(delay, others).await);
    };
    tokio::select! {
        () = filled => {}
        _ = deadline(stopping) => {}
    }
}

/// Sends the records of one signal.
struct Sender {
    signal: Signal,
    client: Client,
    /// The text before and after the records.
    frame: (String, &'static str),
    timeout: Duration,
    backoff: Backoff,
    shared: Arc<Shared>,
    stopping: Stopping,
    endpoint: String,
    is_failing: bool,
    /// The log says that the export fails.
    is_logged: bool,
    /// When the log last said so.
    logged: Option<Instant>,
}

impl Sender {
    fn new(
        config: &OtlpConfig,
        signal: Signal,
        resource: &Value,
        shared: &Arc<Shared>,
        stopping: &Stopping,
    ) -> Result<Self, OtlpError> {
        let (path, of_resource, of_scope, records) = match signal {
            Signal::Metrics => ("/v1/metrics", "resourceMetrics", "scopeMetrics", "metrics"),
            Signal::Logs => ("/v1/logs", "resourceLogs", "scopeLogs", "logRecords"),
            Signal::Traces => ("/v1/traces", "resourceSpans", "scopeSpans", "spans"),
        };
        let scope = scope();
        let before = format!(
            "{{\"{of_resource}\":[{{\"resource\":{resource},\"{of_scope}\":[{{\"scope\":{scope},\"{records}\":["
        );
        Ok(Self {
            signal,
            client: Client::new(config, path)?,
            frame: (before, "]}]}]}"),
            timeout: config.timeout,
            backoff: Backoff::new(config.first_pause),
            shared: Arc::clone(shared),
            stopping: stopping.clone(),
            endpoint: config.uri(path)?.to_string(),
            is_failing: false,
            is_logged: false,
            logged: None,
        })
    }

    fn is_stopped(&self) -> bool {
        self.stopping.borrow().is_some()
    }

    /// Sends records until the collector has accepted or rejected them. Returns false if the exporter is stopped and the last
    /// try has failed.
    async fn send(&mut self, records: &str, count: u64) -> bool {
        loop {
            let was_stopped = self.is_stopped();
            let Err(at) = self.attempt(records, count).await else { return true };
            if was_stopped {
                return false;
            }
            tokio::select! {
                () = sleep_until(at.into()) => {}
                _ = deadline(self.stopping.clone()) => {}
            }
        }
    }

    /// Sends records once.
    ///
    /// # Errors
    /// The time of the next try.
    async fn attempt(&mut self, records: &str, count: u64) -> Result<(), Instant> {
        let body = Bytes::from(format!("{}{records}{}", self.frame.0, self.frame.1));
        let late = || Outcome::Retry { after: None, reason: "the collector did not answer in time".to_owned() };
        let outcome = timeout(self.timeout, self.client.post(body)).await.unwrap_or_else(|_| late());
        match outcome {
            Outcome::Accepted { rejected, reason } => {
                self.backoff.reset();
                let rejected = rejected.min(count);
                self.resolve(count - rejected, rejected);
                if rejected > 0 {
                    self.failed(&format!("the collector rejected {rejected} of {count} records: {reason}"));
                } else {
                    self.succeeded();
                }
                Ok(())
            }
            Outcome::Rejected { reason } => {
                self.backoff.reset();
                self.resolve(0, count);
                self.count_failure();
                self.failed(&reason);
                Ok(())
            }
            Outcome::Retry { after, reason } => {
                self.count_failure();
                self.failed(&reason);
                Err(self.backoff.next(after, self.shared.next_id()))
            }
        }
    }

    fn resolve(&self, exported: u64, dropped: u64) {
        if let Some(queue) = self.shared.queue(self.signal) {
            queue.resolve(exported, dropped);
        }
    }

    fn count_failure(&self) {
        if let Some(queue) = self.shared.queue(self.signal) {
            queue.failures.fetch_add(1, Relaxed);
        }
    }

    /// Logs the first of several failures; if another one was logged a moment ago, a later one.
    fn failed(&mut self, reason: &str) {
        self.is_failing = true;
        if !self.is_logged && self.logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            (self.logged, self.is_logged) = (Some(Instant::now()), true);
            let (signal, endpoint) = (self.signal, &self.endpoint);
            tracing::warn!(target: "rusm::otlp", ?signal, endpoint, reason, "export fails; this is said once until it works again");
        }
    }

    fn succeeded(&mut self) {
        if std::mem::replace(&mut self.is_failing, false) && std::mem::take(&mut self.is_logged) {
            let (signal, dropped) = (self.signal, self.shared.counters(self.signal).dropped);
            tracing::info!(target: "rusm::otlp", ?signal, dropped, "export works again");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_frame_around_records_is_valid_json() {
        let config = OtlpConfig { service_name: Some("a \"shop\"".to_owned()), ..OtlpConfig::new("http://host") };
        let exporter = crate::Exporter::start(&OtlpConfig { metrics: false, ..config.clone() }).unwrap();
        let (_stop, stopping) = watch::channel(None);
        let shared = exporter.layer().0;
        let sender = Sender::new(&config, Signal::Logs, &resource(&config, 7), &shared, &stopping).unwrap();
        let body: Value = serde_json::from_str(&format!("{}{{}}{}", sender.frame.0, sender.frame.1)).unwrap();

        let of_resource = &body["resourceLogs"][0];
        assert_eq!(of_resource["resource"]["attributes"][0]["value"]["stringValue"], "a \"shop\"");
        assert_eq!(of_resource["scopeLogs"][0]["scope"]["name"], "rusm");
        assert_eq!(of_resource["scopeLogs"][0]["logRecords"], json!([{}]));
    }
}
