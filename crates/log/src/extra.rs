//! A destination of events and spans beside the log.

use tracing_subscriber::Registry;
use tracing_subscriber::layer::Layer;

/// A further destination of the enabled events and spans, beside the lines.
pub type ExtraLayer = Box<dyn Layer<Registry> + Send + Sync>;
