//! The trace that a request belongs to, as the header field `traceparent` carries it.
//!
//! ```text
//!   client ── traceparent: 00-TRACE-PARENT-01 ──▶ request: TRACE, PARENT, a span of its own
//!                                                    └── traceparent: 00-TRACE-SPAN-01 ──▶ what it requests itself
//! ```
//!
//! <https://www.w3.org/TR/trace-context/> defines the format.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::HeaderValue;
use http::header::HeaderName;

/// Name of the header field.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Bytes of the field in version 00.
const FIELD_BYTES: usize = 55;

/// The trace of a request, and the request's own span in it.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Request, TRACEPARENT, http};
///
/// async fn order(request: Request) -> String {
///     let Some(trace) = request.trace() else { return "the client sent no trace\n".to_owned() };
///     // A request to another server continues the trace.
///     let onward = http::Request::get("http://stock.example.org/").header(TRACEPARENT, trace.outgoing());
///     // … send it …
/// #   drop(onward);
///     format!("trace {}, span {}\n", trace.trace_id(), trace.span_id())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    parent: u64,
    span: u64,
    flags: u8,
}

/// Id of a trace, as 32 hexadecimal digits.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::TraceId;
///
/// assert_eq!(TraceId(0xbeef).to_string(), "0000000000000000000000000000beef");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(pub u128);

/// Id of a span, as 16 hexadecimal digits.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::SpanId;
///
/// assert_eq!(SpanId(0xbeef).to_string(), "000000000000beef");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanId(pub u64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TraceContext {
    /// Reads the header field of a client. `span` becomes the id of the request's own span.
    ///
    /// A field that is not valid is `None`: the standard demands that it is ignored.
    pub(crate) fn parse(field: &HeaderValue, span: u64) -> Option<Self> {
        let text = field.to_str().ok()?;
        let is_lower_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let head = text.get(..FIELD_BYTES)?;
        let mut parts = head.split('-');
        let mut part = |bytes: usize| parts.next().filter(|part| part.len() == bytes && is_lower_hex(part));
        let (version, trace, parent, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // A later version may add fields after a dash, and has the same ones before it.
        let is_whole = match version {
            "ff" => false,
            "00" => text.len() == FIELD_BYTES,
            _ => text.len() == FIELD_BYTES || text.as_bytes()[FIELD_BYTES] == b'-',
        };
        let trace = u128::from_str_radix(trace, 16).ok().filter(|trace| *trace != 0)?;
        let parent = u64::from_str_radix(parent, 16).ok().filter(|parent| *parent != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        is_whole.then_some(Self { trace, parent, span, flags })
    }

    /// Returns the id of the trace.
    pub const fn trace_id(&self) -> TraceId {
        TraceId(self.trace)
    }

    /// Returns the id of the client's span.
    pub const fn parent_id(&self) -> SpanId {
        SpanId(self.parent)
    }

    /// Returns the id of the request's own span.
    pub const fn span_id(&self) -> SpanId {
        SpanId(self.span)
    }

    /// Returns true if the client may have recorded the trace.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// Returns the field for requests that this request sends to other servers: the same trace, with the request's own
    /// span as the parent. Its name is [`TRACEPARENT`].
    ///
    /// # Panics
    /// Never: digits and dashes are valid in a field.
    pub fn outgoing(&self) -> HeaderValue {
        // Of the flags, version 00 knows this one.
        let text = format!("00-{}-{}-{:02x}", self.trace_id(), self.span_id(), self.flags & 1);
        HeaderValue::from_str(&text).expect("digits and dashes are valid")
    }
}

/// Creates ids of spans.
#[derive(Debug, Default)]
pub(crate) struct SpanIds {
    /// Keys that the operating system has chosen at random.
    random: RandomState,
    count: AtomicU64,
}

impl SpanIds {
    /// Returns an id, which is not 0.
    pub(crate) fn next_id(&self) -> u64 {
        self.random.hash_one(self.count.fetch_add(1, Relaxed)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<TraceContext> {
        TraceContext::parse(&HeaderValue::from_str(text).unwrap(), 0xabc)
    }

    #[test]
    fn a_trace_goes_on_with_the_span_of_the_request_as_parent() {
        let trace = parsed("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();

        assert_eq!(trace.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.parent_id().to_string(), "00f067aa0ba902b7");
        assert!(trace.is_sampled());
        assert_eq!(trace.outgoing(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000abc-01");
    }

    #[test]
    fn a_field_that_is_not_valid_is_ignored_and_one_of_a_later_version_is_read() {
        let ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
        for text in [
            String::new(),
            format!("00-{ids}"),
            format!("00-{ids}-0"),
            format!("00-{ids}-01-more"),
            format!("ff-{ids}-01"),
            format!("00-{}-01", ids.to_uppercase()),
            format!("00-{}-01", ids.replace("4bf", "+bf")),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16)),
            format!("cc-{ids}-01.more"),
        ] {
            assert_eq!(parsed(&text), None, "{text}");
        }
        assert!(parsed(&format!("cc-{ids}-01")).is_some());
        assert!(parsed(&format!("cc-{ids}-00-more")).is_some_and(|trace| !trace.is_sampled()));
    }

    #[test]
    fn ids_of_spans_differ() {
        let ids = SpanIds::default();

        assert_ne!(ids.next_id(), ids.next_id());
    }
}
