//! Export of the log, of spans and of the metrics to a collector, with the cargo feature `otlp`.

#[cfg(feature = "otlp")]
mod present {
    use std::sync::OnceLock;
    use std::time::Duration;

    use rusm_console::MetricsReader;
    use rusm_log::ExtraLayer;
    use rusm_otlp::Exporter;

    use crate::failure::Failure;
    use crate::settings::otlp::OtlpSettings;

    /// The exporter of this program, which has one log.
    static EXPORTER: OnceLock<Exporter> = OnceLock::new();

    /// Time limit for the console's thread to write the metrics.
    const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

    /// Starts the export, if the settings say so, and returns its part of the log.
    pub(crate) fn start(settings: Option<&OtlpSettings>) -> Result<Option<ExtraLayer>, Failure> {
        let Some(settings) = settings else { return Ok(None) };
        let exporter = Exporter::start(settings).map_err(|error| Failure::Usage(error.to_string()))?;
        let layer = exporter.layer();
        // Each command starts the log once.
        _ = EXPORTER.set(exporter);
        Ok(Some(Box::new(layer)))
    }

    /// Exports the metrics of a node from now on.
    pub(crate) fn export_metrics(reader: MetricsReader) {
        if let Some(exporter) = EXPORTER.get() {
            exporter.set_metrics(move || reader.text(METRICS_TIMEOUT));
        }
    }

    /// Reads the metrics for the last time, before the console closes.
    pub(crate) fn keep_metrics() {
        if let Some(exporter) = EXPORTER.get() {
            exporter.keep_metrics();
        }
    }

    /// Exports what waits, and waits up to `within` for it.
    pub(crate) fn stop(within: Duration) {
        if let Some(exporter) = EXPORTER.get() {
            // The log has said why records are lost.
            _ = exporter.stop(within);
        }
    }
}

#[cfg(not(feature = "otlp"))]
mod absent {
    use std::time::Duration;

    use rusm_console::MetricsReader;
    use rusm_log::ExtraLayer;

    use crate::failure::Failure;
    use crate::settings::otlp::OtlpSettings;

    #[expect(clippy::unnecessary_wraps, reason = "with the feature it may fail")]
    pub(crate) fn start(_: Option<&OtlpSettings>) -> Result<Option<ExtraLayer>, Failure> {
        Ok(None)
    }

    pub(crate) fn export_metrics(_: MetricsReader) {}

    pub(crate) fn keep_metrics() {}

    pub(crate) fn stop(_: Duration) {}
}

#[cfg(not(feature = "otlp"))]
pub(crate) use absent::{export_metrics, keep_metrics, start, stop};
#[cfg(feature = "otlp")]
pub(crate) use present::{export_metrics, keep_metrics, start, stop};
