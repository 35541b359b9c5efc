//! A layer of `tracing`: events become log records, and closed spans become spans of a trace.
//!
//! Invariant: events of the exporter's own thread are not exported, because each failed export would cause the next one.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::record::{Fields, attribute, unix_ns};
use crate::shared::Shared;

/// The layer of an [`Exporter`](crate::Exporter), for a subscriber with a registry; cheap to clone.
///
/// ```
/// # mod rusm { pub use rusm_otlp as otlp; }
/// use rusm::otlp::{Exporter, OtlpConfig};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let exporter = Exporter::start(&OtlpConfig::new("http://127.0.0.1:4318"))?;
/// let subscriber = tracing_subscriber::registry().with(exporter.layer());
/// // A program calls `subscriber.init()`, so that it holds for all threads.
/// tracing::subscriber::with_default(subscriber, || {
///     let _span = tracing::info_span!("order", number = 7).entered(); // exported when it is closed
///     tracing::info!("paid"); // a log record, with the ids of the span
/// });
/// # exporter.stop(std::time::Duration::from_millis(1));
/// # Ok::<(), rusm::otlp::OtlpError>(())
/// ```
#[derive(Clone, Debug)]
pub struct OtlpLayer(pub(crate) Arc<Shared>);

/// The exported part of an open span.
struct OpenSpan {
    trace: String,
    span: String,
    parent: Option<String>,
    started_ns: u64,
    fields: Fields,
}

impl<S> Layer<S> for OtlpLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        // Log records name their span, too.
        let Some(span) = ctx.span(id).filter(|_| self.0.has_records()) else { return };
        let parent = span.parent().and_then(|parent| {
            let extensions = parent.extensions();
            extensions.get::<OpenSpan>().map(|parent| (parent.trace.clone(), parent.span.clone()))
        });
        let (trace, parent) = match parent {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (format!("{:016x}{:016x}", self.0.next_id(), self.0.next_id()), None),
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let id = format!("{:016x}", self.0.next_id());
        span.extensions_mut().insert(OpenSpan { trace, span: id, parent, started_ns: unix_ns(), fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let Some(span) = ctx.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let Some(logs) = self.0.logs.as_ref().filter(|_| !self.0.is_own_thread()) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (metadata, time) = (event.metadata(), unix_ns().to_string());
        let (number, word) = severity(*metadata.level());
        let target = fields.target.as_deref().unwrap_or_else(|| metadata.target());
        fields.attributes.push(attribute("target", target));
        let mut record = json!({
            "timeUnixNano": time,
            "observedTimeUnixNano": time,
            "severityNumber": number,
            "severityText": word,
            "body": { "stringValue": fields.message.unwrap_or_default() },
            "attributes": fields.attributes,
            "droppedAttributesCount": fields.dropped,
        });
        if let Some(span) = ctx.event_span(event)
            && let Some(open) = span.extensions().get::<OpenSpan>()
        {
            record["traceId"] = Value::from(open.trace.as_str());
            record["spanId"] = Value::from(open.span.as_str());
        }
        logs.push(record.to_string());
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(traces) = self.0.traces.as_ref().filter(|_| !self.0.is_own_thread()) else { return };
        let Some(span) = ctx.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        let metadata = span.metadata();
        let mut attributes = open.fields.attributes;
        attributes.push(attribute("target", metadata.target()));
        let mut record = json!({
            "traceId": open.trace,
            "spanId": open.span,
            "name": metadata.name(),
            // An operation within the program.
            "kind": 1,
            "startTimeUnixNano": open.started_ns.to_string(),
            "endTimeUnixNano": unix_ns().max(open.started_ns).to_string(),
            "attributes": attributes,
            "droppedAttributesCount": open.fields.dropped,
            "status": {},
        });
        if let Some(parent) = open.parent {
            record["parentSpanId"] = Value::from(parent);
        }
        traces.push(record.to_string());
    }
}

/// Returns the number and the word of a level.
const fn severity(level: Level) -> (u8, &'static str) {
    match level {
        Level::TRACE => (1, "TRACE"),
        Level::DEBUG => (5, "DEBUG"),
        Level::INFO => (9, "INFO"),
        Level::WARN => (13, "WARN"),
        Level::ERROR => (17, "ERROR"),
    }
}
