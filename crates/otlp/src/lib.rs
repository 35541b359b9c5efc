//! Export of metrics, logs and traces to an OpenTelemetry collector.
//!
//! ```text
//!   tracing event, closed span ──▶ layer ──▶ bounded queues ──▶ thread `rusm-otlp` ──▶ POST /v1/logs, /v1/traces
//!   text of /metrics, once in an interval ─────────────────────────────┘          └──▶ POST /v1/metrics
//! ```
//!
//! The format is OTLP over HTTP with JSON, which collectors accept on port 4318. Only the exporter's own thread waits
//! for the collector. While the collector is down or slow, records wait in queues of at most
//! [`QUEUE_RECORDS_MAX`] records; further ones are dropped and counted. The log says once that an export fails, and once that it
//! works again.
//!
//! ```no_run
//! # mod rusm { pub use rusm_otlp as otlp; }
//! use rusm::otlp::{Exporter, OtlpConfig};
//! use tracing_subscriber::layer::SubscriberExt;
//! use tracing_subscriber::util::SubscriberInitExt;
//!
//! // Reads OTEL_EXPORTER_OTLP_ENDPOINT and the other standard variables.
//! let config = OtlpConfig::new("http://127.0.0.1:4318").with_environment()?;
//! let exporter = Exporter::start(&config)?;
//! tracing_subscriber::registry().with(tracing_subscriber::EnvFilter::new("info")).with(exporter.layer()).init();
//! tracing::info!(orders = 3, "the shop is open");
//! exporter.stop(std::time::Duration::from_secs(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod config;
mod exporter;
mod layer;
mod metrics;
mod queue;
mod record;
mod resource;
mod shared;
mod worker;

pub use crate::config::{OtlpConfig, OtlpError, VARIABLES, parse_pairs};
pub use crate::exporter::Exporter;
pub use crate::layer::OtlpLayer;
pub use crate::queue::QUEUE_RECORDS_MAX;
pub use crate::shared::{ExportCounters, Signal};
