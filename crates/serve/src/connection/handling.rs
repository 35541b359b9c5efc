//! The process that handles a request: it runs the handler, and goes on with a stream of chunks or a WebSocket.
//!
//! ```text
//!   handler ──▶ response ──▶ reply to the connection
//!                  └─ After: chunks of a body │ events │ WebSocket │ work after the response
//! ```

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use rusm_runtime::{Context, Pid};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::timeout;

use crate::body::{Body, Produced};
use crate::connection::rest::Rest;
use crate::connection::state::ConnectionState;
use crate::connection::wait::rarely;
use crate::limits::Limit;
use crate::limits::client::Share;
use crate::limits::memory::{Held, counted};
use crate::request::{Request, Response, plain};
use crate::stats::record::RequestRecord;
use crate::stats::{LiveEntry, ServerStats};
use crate::upgrade::Continuation;

/// Number of chunks of a streamed response that may wait for the client.
const CHUNKS_WAITING: usize = 2;
/// Size up to which a chunk of an HTTP/2 response is sent as a whole. A client must accept that much in `write_timeout`.
pub(crate) const PIECE_BYTES: usize = 16 * 1024;

/// Resources of a request until its process ends: its connection, which is not idle, a permit of those in flight, and a
/// place in the table of live requests. Dropped without a response, it tells the connection so.
#[derive(Debug)]
pub(crate) struct Handling {
    pub(crate) inner: Arc<ConnectionState>,
    pub(crate) record: Arc<RequestRecord>,
    live: Option<LiveEntry>,
    is_in_flight: bool,
    is_active: bool,
}

impl Handling {
    /// Begins a request of a connection.
    pub(crate) fn new(inner: Arc<ConnectionState>, record: Arc<RequestRecord>) -> Self {
        inner.activity.begin_request();
        Self { inner, record, live: None, is_in_flight: false, is_active: true }
    }

    /// Takes over a permit of those in flight.
    pub(crate) const fn begin_flight(&mut self) {
        self.is_in_flight = true;
    }

    /// Returns true if observers see the request.
    pub(crate) const fn is_shown(&self) -> bool {
        self.live.is_some()
    }

    /// Shows the request to observers as handled by a process.
    pub(crate) fn enter(&mut self, pid: Pid) {
        self.leave();
        self.live = Some(self.inner.shared.stats.enter(Arc::clone(&self.record), pid));
    }

    fn leave(&mut self) {
        if let Some(live) = self.live.take() {
            self.inner.shared.stats.leave(&live);
        }
    }

    /// Lets another request be handled.
    pub(crate) fn end_flight(&mut self) {
        if std::mem::take(&mut self.is_in_flight) {
            self.inner.shared.in_flight.add_permits(1);
        }
    }

    /// Lets the connection be idle again. `is_noted` is true if the connection itself notes the time.
    pub(crate) fn end_activity(&mut self, is_noted: bool) {
        if std::mem::take(&mut self.is_active) {
            let activity = &self.inner.activity;
            if is_noted { activity.end_request_silently() } else { activity.end_request() }
        }
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        self.end_flight();
        self.end_activity(false);
        self.leave();
        self.record.reply.end();
    }
}

/// Returns the future of the process that handles a request. The handler's own state is dropped with the response, so
/// an open socket or stream holds none of it.
pub(crate) fn process(mut handling: Handling, request: Request) -> impl Future<Output = ()> + Send {
    let handled = Box::pin(async move {
        let context = Arc::clone(&request.context);
        context.set_label(handling.record.route.stats().process_label());
        handling.enter(context.pid());
        let record = Arc::clone(&handling.record);
        let response = record.route.handler.handle(request).await;
        let (response, after) = split(response);
        record.reply.send(response);
        match after {
            None => {
                handling.end_activity(true);
                None
            }
            Some(after) => Some(go_on(after, handling, context)),
        }
    });
    async move {
        if let Some(rest) = handled.await {
            rest.await;
        }
    }
}

/// Returns the future of what remains after the head of a response.
pub(crate) fn go_on(
    after: After,
    handling: Handling,
    context: Arc<Context>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(after.run(handling, context))
}

/// Work that remains after the head of a response.
pub(crate) struct After {
    /// The body, with the channel to the connection; `None` if the connection has the body already.
    body: Option<(Body, mpsc::Sender<Produced>)>,
    continuation: Option<Continuation>,
    rest: Option<Rest>,
}

/// Separates the response that a connection sends from the work that remains for a process.
pub(crate) fn split(mut response: Response) -> (Response, Option<After>) {
    if response.status().is_informational() && response.extensions().get::<Continuation>().is_none() {
        tracing::warn!(status = %response.status(), "a handler answered with a status that is not final");
        response = plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error");
    }
    if response.body().is_ready() && response.extensions().is_empty() {
        return (response, None);
    }
    let (mut head, body) = response.into_parts();
    let rest = head.extensions.remove::<Rest>();
    let continuation = head.extensions.remove::<Continuation>();
    if body.is_ready() {
        let has_more = continuation.is_some() || rest.is_some();
        let after = has_more.then_some(After { body: None, continuation, rest });
        return (Response::from_parts(head, body), after);
    }
    let continuation = continuation.or_else(|| is_event_stream(&head.headers).then(Continuation::events));
    declare_length(&mut head.headers, &body);
    let (chunks, channel) = mpsc::channel(CHUNKS_WAITING);
    let after = After { body: Some((body, chunks)), continuation, rest };
    (Response::from_parts(head, Body::channel(channel)), Some(after))
}

impl After {
    async fn run(self, mut handling: Handling, context: Arc<Context>) {
        let Self { body, continuation, rest } = self;
        let (shared, record) = (Arc::clone(&handling.inner.shared), Arc::clone(&handling.record));
        match (body, continuation) {
            (None, continuation) => {
                handling.end_flight();
                handling.end_activity(false);
                if let Some(continuation) = continuation {
                    continuation.run_socket(&shared, &record, context).await;
                }
            }
            (Some((body, chunks)), Some(continuation)) => {
                handling.end_flight();
                let chunks = Chunks::new(&chunks, &handling);
                let mut is_passed = false;
                let stream = async {
                    pass_on(body, &chunks).await;
                    is_passed = true;
                };
                Box::pin(continuation.stream_events(&shared, &record, context.pid(), stream)).await;
                if !is_passed {
                    // The drain ends the stream. Ignored if the client has gone.
                    let _is_taken = chunks.send(Produced::End).await;
                }
            }
            (Some((body, chunks)), None) => Box::pin(pass_on(body, &Chunks::new(&chunks, &handling))).await,
        }
        handling.end_flight();
        handling.end_activity(false);
        if let Some(rest) = rest {
            Box::pin(rest.run(shared.limits.handler_timeout)).await;
        }
    }
}

/// Returns true for a stream of events, also of a handler that knows nothing of [`events`](crate::events).
fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    content_type.get(..17).is_some_and(|start| start.eq_ignore_ascii_case(b"text/event-stream"))
}

/// Declares the length of a body that passes a channel, which does not know it.
fn declare_length(headers: &mut HeaderMap, body: &Body) {
    if let Some(bytes) = body.size_hint().exact() {
        headers.entry(CONTENT_LENGTH).or_insert_with(|| bytes.into());
    }
}

/// The way of a body to the process of the connection.
///
/// A client of HTTP/2 can accept no byte of a stream while its connection goes on, so the limit on that is checked here,
/// for pieces of a size that a slow client accepts in time. The stream of bytes of HTTP/1.1 has its own check.
struct Chunks<'a> {
    channel: &'a mpsc::Sender<Produced>,
    /// `None` for HTTP/1.1.
    write_timeout: Option<Duration>,
    stats: &'a ServerStats,
    connection: &'a ConnectionState,
    record: &'a RequestRecord,
    held: Arc<Held>,
}

impl<'a> Chunks<'a> {
    fn new(channel: &'a mpsc::Sender<Produced>, handling: &'a Handling) -> Self {
        let shared = &handling.inner.shared;
        let is_h2 = handling.inner.context.is_none();
        let write_timeout = is_h2.then_some(shared.limits.write_timeout);
        let held = handling.inner.activity.held_by_response();
        let (stats, connection, record) = (&shared.stats, &*handling.inner, &*handling.record);
        Self { channel, write_timeout, stats, connection, record, held }
    }

    /// Lets the data of a frame hold its share of the memory for responses: `room`, or one for which it waits.
    async fn counted(&self, frame: Frame<Bytes>, room: Option<Share>) -> Frame<Bytes> {
        let data = match frame.into_data() {
            Ok(data) if self.connection.is_counted(&data) => data,
            Ok(data) => return Frame::data(data),
            Err(trailers) => return trailers,
        };
        let share = match room {
            Some(room) => Some(room),
            None => self.connection.activity.client().take(data.len()).await,
        };
        let Some(share) = share else { return Frame::data(data) };
        Frame::data(counted(data, share, &self.held))
    }

    /// Returns false if the client has gone, or takes nothing.
    async fn send(&self, produced: Produced) -> bool {
        let Some(limit) = self.write_timeout else { return self.channel.send(produced).await.is_ok() };
        let mut data = match produced {
            Produced::Frame(frame) => match frame.into_data() {
                Ok(data) => data,
                Err(trailers) => return self.send_within(limit, Produced::Frame(trailers)).await,
            },
            last => return self.send_within(limit, last).await,
        };
        while data.len() > PIECE_BYTES {
            let piece = data.split_to(PIECE_BYTES);
            if !self.send_within(limit, Produced::Frame(Frame::data(piece))).await {
                return false;
            }
            self.held.note_progress();
        }
        self.send_within(limit, Produced::Frame(Frame::data(data))).await
    }

    async fn send_within(&self, limit: Duration, produced: Produced) -> bool {
        let produced = match self.channel.try_send(produced) {
            Err(TrySendError::Full(produced)) => produced,
            sent => return sent.is_ok(),
        };
        let sent = timeout(limit, self.channel.send(produced)).await;
        if sent.is_err() {
            self.stats.hit(Limit::WriteTimeout);
            // The body is cut on purpose: its process has not crashed.
            self.record.set_body_done();
        }
        matches!(sent, Ok(Ok(())))
    }
}

/// Passes the frames of a body on to the process of the connection, as fast as the client reads them.
async fn pass_on(mut body: Body, chunks: &Chunks<'_>) {
    let mut closed = pin!(rarely(|| chunks.channel.is_closed(), chunks.channel.closed()));
    let chunk_bytes = body.chunk_bytes();
    let memory = chunks.connection.activity.client();
    loop {
        let next = async {
            let room = match chunk_bytes {
                Some(bytes) => memory.take(bytes).await,
                None => None,
            };
            match body.frame().await {
                Some(Ok(frame)) => Some(Ok(chunks.counted(frame, room).await)),
                other => other,
            }
        };
        let frame = tokio::select! {
            biased;
            frame = next => frame,
            // The client has gone: the rest of the body is not needed.
            () = &mut closed => return,
        };
        let (produced, is_last) = match frame {
            Some(Ok(frame)) => (Produced::Frame(frame), false),
            Some(Err(error)) => (Produced::Failed(error), true),
            None => (Produced::End, true),
        };
        if !chunks.send(produced).await || is_last {
            return;
        }
    }
}
