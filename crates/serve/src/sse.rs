//! Server-sent events: a response that goes on for as long as there are events.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html> defines the format.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::time::Instant;

use crate::body::Body;
use crate::connection::wait::LazyTimer;
use crate::request::Response;
use crate::upgrade::Continuation;

/// Time without an event after which a comment is sent, so that proxies keep the connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// An event.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::Event;
///
/// let event = Event::data("two\nlines").id("7").name("note");
/// assert_eq!(event.to_string(), "id: 7\nevent: note\ndata: two\ndata: lines\n\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    id: Option<String>,
    name: Option<String>,
    retry: Option<Duration>,
    data: String,
}

impl Event {
    /// Creates an event from its data, which may have several lines.
    pub fn data(data: impl Into<String>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// Sets the id, which a client repeats when it connects again. Line breaks and NUL are removed.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(one_line(id.into()));
        self
    }

    /// Sets the name of the event's type. Line breaks are removed.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(one_line(name.into()));
        self
    }

    /// Sets the time after which a client connects again.
    pub const fn retry(mut self, after: Duration) -> Self {
        self.retry = Some(after);
        self
    }
}

fn one_line(text: String) -> String {
    if text.contains(['\n', '\r', '\0']) { text.replace(['\n', '\r', '\0'], "") } else { text }
}

/// Writes the event in the format of the stream.
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(id) = &self.id {
            writeln!(f, "id: {id}")?;
        }
        if let Some(name) = &self.name {
            writeln!(f, "event: {name}")?;
        }
        if let Some(retry) = self.retry {
            writeln!(f, "retry: {}", retry.as_millis())?;
        }
        // A lone carriage return ends a line, too.
        for line in self.data.replace("\r\n", "\n").split(['\n', '\r']) {
            writeln!(f, "data: {line}")?;
        }
        f.write_char('\n')
    }
}

/// Creates a response that sends the events of a stream. Each event is sent at once; the stream is polled no faster
/// than the client reads. When the server drains, the streams of its clients end, spread over the drain.
pub fn events<S>(events: S) -> Response
where
    S: Stream<Item = Event> + Send + 'static,
{
    let events = events.map(|event| Bytes::from(event.to_string()));
    let start = (Box::pin(events), LazyTimer::default());
    let chunks = futures_util::stream::unfold(start, |(mut events, mut timer)| async {
        let mut deadline = None;
        let chunk = poll_fn(|task| match events.poll_next_unpin(task) {
            Poll::Ready(event) => Poll::Ready(event),
            Poll::Pending => {
                let deadline = *deadline.get_or_insert_with(|| Instant::now() + KEEP_ALIVE);
                timer.poll(deadline, task).map(|()| Some(Bytes::from_static(b":\n\n")))
            }
        });
        Some((Ok::<_, std::convert::Infallible>(chunk.await?), (events, timer)))
    });
    let mut response = Response::new(Body::stream(chunks));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.extensions_mut().insert(Continuation::events());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_forges_a_field_of_an_event() {
        let event = Event::data("a\r\nid: 1\rdata: x\n").id("1\n\ndata: y").name("n\rretry: 0");

        assert_eq!(
            event.to_string(),
            "id: 1data: y\nevent: nretry: 0\ndata: a\ndata: id: 1\ndata: data: x\ndata: \n\n"
        );
    }
}
