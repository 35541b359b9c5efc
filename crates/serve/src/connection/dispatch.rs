//! From a request to its response: limits, the route, and the process that runs the handler.
//!
//! ```text
//!   connection's process                            request's process
//!     limits ──▶ route ──▶ spawn ──────────────────▶ handler
//!     response ◀── head and ready body ◀──────────── response; a stream goes on, chunk by chunk
//!     client gone, deadline, or crash ──▶ kill       a WebSocket goes on in this process
//! ```

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode, Version};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::Service;
use parking_lot::Mutex;
use rusm_runtime::observe::LiveKind;
use rusm_runtime::{Context, ExitReason, Handle, Pid};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::timeout;

use crate::body::{Body, Produced};
use crate::connection::io::Activity;
use crate::connection::rest::Rest;
use crate::connection::tracked::TrackedBody;
use crate::connection::wait::{LazyTimer, rarely};
use crate::limits::Limit;
use crate::request::trace::{TRACEPARENT, TraceContext};
use crate::request::{Connection, Params, Request, Response, plain};
use crate::router::{Route, Routed, host_of};
use crate::shared::Shared;
use crate::stats::record::RequestRecord;
use crate::stats::route::RouteStats;
use crate::upgrade::Continuation;

/// Number of chunks of a streamed response that may wait for the client.
const CHUNKS_WAITING: usize = 2;

/// Answers the requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct RequestService(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    /// `None` for HTTP/2: each of its requests is polled in a process of its own.
    context: Option<Context>,
    connection: Connection,
    activity: Arc<Activity>,
    /// For the deadline of a handler; while a request of HTTP/2 uses it, others create their own.
    handler_timer: Mutex<LazyTimer>,
}

impl RequestService {
    pub(crate) fn new(
        shared: Arc<Shared>,
        context: Option<Context>,
        connection: Connection,
        activity: Arc<Activity>,
    ) -> Self {
        Self(Arc::new(Inner { shared, context, connection, activity, handler_timer: Mutex::default() }))
    }
}

impl Service<http::Request<Incoming>> for RequestService {
    type Response = http::Response<TrackedBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        inner.activity.begin_request();
        let active = ActiveRequest(Arc::clone(&inner.activity));
        Box::pin(async move {
            let version = request.version();
            let mut response = inner.answer(request, active).await;
            if inner.shared.is_draining() && version < Version::HTTP_2 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response)
        })
    }
}

/// Keeps the idle timeout away while a request is handled and its response is written.
#[derive(Debug)]
struct ActiveRequest(Arc<Activity>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.end_request();
    }
}

/// Counts a request from its head to the head of its response.
struct Counted {
    record: Arc<RequestRecord>,
    status: Option<StatusCode>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let took = self.record.started.elapsed();
        self.record.route.end(self.status, took);
        if let Some(status) = self.status {
            self.record.set_answered(status, took);
        }
    }
}

/// Kills the process of a request unless it has answered.
struct KillOnDrop<'a> {
    runtime: &'a Handle,
    pid: Option<Pid>,
}

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            self.runtime.exit(pid, ExitReason::Killed);
        }
    }
}

impl Inner {
    async fn answer(&self, request: http::Request<Incoming>, active: ActiveRequest) -> http::Response<TrackedBody> {
        let shared = &self.shared;
        let (mut head, incoming) = request.into_parts();
        let routed = shared.router().find(host_of(&head), &head.method, head.uri.path());
        let stats = match &routed {
            Routed::Found(route, _) => &route.stats,
            Routed::NotAllowed(_) | Routed::NotFound => &shared.stats.unrouted,
        };
        stats.begin();
        let record = self.record(&head, stats);
        if let Some(trace) = record.trace {
            head.extensions.insert(trace);
        }
        // The connection of HTTP/1.1 counts all bytes for the request that it serves; for HTTP/2, the bodies do.
        let counts_bodies = self.context.is_none();
        if !counts_bodies {
            self.activity.set_current(&record);
        }
        let mut counted = Counted { record: Arc::clone(&record), status: None };
        let response = match self.check(&head, &incoming) {
            Err(limit) => self.refuse(limit),
            Ok(()) => match routed {
                Routed::Found(route, params) => {
                    head.extensions.insert(self.connection);
                    let body_record = counts_bodies.then(|| Arc::clone(&record));
                    let body = Body::incoming(incoming, &shared.limits, &shared.stats, body_record);
                    match self.check_rates(&route).await {
                        Ok(()) => self.handle(route, params, head, body, &record, active).await,
                        Err(after) => self.refuse_for(Limit::Rate, after),
                    }
                }
                Routed::NotAllowed(allowed) => Routed::refusal(Some(&allowed)),
                Routed::NotFound => Routed::refusal(None),
            },
        };
        counted.status = Some(response.status());
        drop(counted);
        response.map(|body| TrackedBody::new(body, record, counts_bodies))
    }

    fn record(&self, head: &http::request::Parts, stats: &Arc<RouteStats>) -> Arc<RequestRecord> {
        let shared = &self.shared;
        let trace = head.headers.get(TRACEPARENT);
        Arc::new(RequestRecord {
            method: head.method.clone(),
            path: head.uri.path().into(),
            version: head.version,
            route: Arc::clone(stats),
            peer: self.connection.peer,
            started: Instant::now(),
            trace: trace.and_then(|field| TraceContext::parse(field, shared.spans.next_id())),
            is_logged: shared.has_access_log,
            process: OnceLock::new(),
            kind: AtomicU8::new(LiveKind::Request as u8),
            status: AtomicU16::new(0),
            head_ns: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            is_body_done: AtomicBool::new(false),
            is_crashed: AtomicBool::new(false),
        })
    }

    /// Checks the limits of the rate, those of the server first.
    async fn check_rates(&self, route: &Route) -> Result<(), Duration> {
        let client = self.connection.peer.ip();
        for rate in self.shared.rates.iter().chain(&route.rates) {
            if let Err(after) = rate.admit(client).await {
                route.stats.count_limited();
                return Err(after);
            }
        }
        Ok(())
    }

    /// Checks the limits on the head of a request.
    fn check(&self, head: &http::request::Parts, incoming: &Incoming) -> Result<(), Limit> {
        let limits = &self.shared.limits;
        let target_bytes = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
        if target_bytes > limits.target_bytes {
            return Err(Limit::TargetBytes);
        }
        if head.headers.len() > limits.head_fields {
            return Err(Limit::HeadFields);
        }
        let field_bytes = |(name, value): (&http::HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        if head.headers.iter().map(field_bytes).sum::<usize>() > limits.head_bytes {
            return Err(Limit::HeadBytes);
        }
        if incoming.size_hint().lower() > limits.body_bytes {
            return Err(Limit::BodyBytes);
        }
        Ok(())
    }

    /// Counts a limit that was hit, and returns the response.
    fn refuse(&self, limit: Limit) -> Response {
        self.refuse_for(limit, Duration::from_secs(1))
    }

    /// Counts a limit that was hit, and returns the response, with the time after which the client may try again.
    fn refuse_for(&self, limit: Limit, after: Duration) -> Response {
        self.shared.stats.hit(limit);
        let status = limit.status().unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let mut response = plain(status, format_args!("the request exceeds the limit `{}`", limit.id()));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// Waits until the request may be handled.
    async fn admit(&self) -> Result<OwnedSemaphorePermit, Limit> {
        let (stats, limits) = (&self.shared.stats, &self.shared.limits);
        if let Ok(permit) = Arc::clone(&self.shared.in_flight).try_acquire_owned() {
            return Ok(permit);
        }
        if stats.waiting.fetch_add(1, Relaxed) >= u64::from(limits.queue) {
            stats.waiting.fetch_sub(1, Relaxed);
            return Err(Limit::Queue);
        }
        let waiting = Waiting(stats);
        let permit = timeout(limits.queue_timeout, Arc::clone(&self.shared.in_flight).acquire_owned()).await;
        drop(waiting);
        match permit {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Limit::QueueTimeout),
        }
    }

    /// Runs the handler in a process of its own, and waits for the head of its response.
    async fn handle(
        &self,
        route: Arc<Route>,
        params: Params,
        head: http::request::Parts,
        body: Body,
        record: &Arc<RequestRecord>,
        active: ActiveRequest,
    ) -> Response {
        let permit = match self.admit().await {
            Ok(permit) => permit,
            Err(limit) => return self.refuse(limit),
        };
        let (reply, answer) = oneshot::channel();
        let (shared, handled_record) = (Arc::clone(&self.shared), Arc::clone(record));
        let handled = Handled { route, shared, record: handled_record, permit, active, reply };
        let run = |context| async move { handled.run(Arc::new(context), params, head, body).await };
        let spawned = match &self.context {
            Some(context) => context.try_spawn(run),
            None => self.shared.runtime.spawn(run),
        };
        let Ok(pid) = spawned else {
            self.shared.stats.hit(Limit::Queue);
            return self.refuse(Limit::Queue);
        };
        let mut guard = KillOnDrop { runtime: &self.shared.runtime, pid: Some(pid) };
        match self.within_handler_timeout(answer).await {
            Ok(Ok(response)) => {
                guard.pid = None;
                response
            }
            // The process has ended without a response.
            Ok(Err(_)) => {
                guard.pid = None;
                record.route.count_crash();
                record.set_crashed();
                plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
            }
            Err(HandlerTimeout) => self.refuse(Limit::HandlerTimeout),
        }
    }

    /// Waits for a future until the deadline of a handler that begins now.
    async fn within_handler_timeout<F: Future + Unpin>(&self, mut future: F) -> Result<F::Output, HandlerTimeout> {
        let deadline = tokio::time::Instant::now() + self.shared.limits.handler_timeout;
        let mut timer = std::mem::take(&mut *self.handler_timer.lock());
        let done = poll_fn(|task| match Pin::new(&mut future).poll(task) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => timer.poll(deadline, task).map(|()| Err(HandlerTimeout)),
        });
        let done = done.await;
        *self.handler_timer.lock() = timer;
        done
    }
}

/// The deadline of a handler has passed.
struct HandlerTimeout;

/// Counts a request that waits for its turn.
struct Waiting<'a>(&'a crate::stats::ServerStats);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

/// A request in its own process.
struct Handled {
    route: Arc<Route>,
    shared: Arc<Shared>,
    record: Arc<RequestRecord>,
    permit: OwnedSemaphorePermit,
    active: ActiveRequest,
    reply: oneshot::Sender<Response>,
}

impl Handled {
    async fn run(self, context: Arc<Context>, params: Params, head: http::request::Parts, body: Body) {
        let Self { route, shared, record, permit, active, reply } = self;
        context.set_label(Arc::clone(route.stats.label()));
        let _live = shared.stats.enter(Arc::clone(&record), context.pid());
        let response = route.handler.handle(Request { head, body, params, context: Arc::clone(&context) }).await;
        let (mut head, body) = response.into_parts();
        let rest = head.extensions.remove::<Rest>();
        let continuation = head.extensions.remove::<Continuation>();
        if body.is_ready() {
            // Fails if the connection's process has ended; that is of no consequence.
            drop(reply.send(Response::from_parts(head, body)));
            drop((active, permit));
            if let Some(continuation) = continuation {
                continuation.run(&shared, &record, context).await;
            }
            if let Some(rest) = rest {
                rest.run(shared.limits.handler_timeout).await;
            }
            return;
        }
        let continuation = continuation.or_else(|| is_event_stream(&head.headers).then(Continuation::events));
        declare_length(&mut head.headers, &body);
        let (chunks, channel) = mpsc::channel(CHUNKS_WAITING);
        drop(reply.send(Response::from_parts(head, Body::channel(channel))));
        match continuation {
            Some(continuation) => {
                drop(permit);
                continuation.stream(&shared, &record, context.pid(), pass_on(body, &chunks)).await;
                // Ignored if the client has gone.
                drop(chunks.send(Produced::End).await);
            }
            None => pass_on(body, &chunks).await,
        }
        drop(active);
        if let Some(rest) = rest {
            rest.run(shared.limits.handler_timeout).await;
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

/// Passes the frames of a body on to the process of the connection, as fast as the client reads them.
async fn pass_on(mut body: Body, chunks: &mpsc::Sender<Produced>) {
    let mut closed = pin!(rarely(|| chunks.is_closed(), chunks.closed()));
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            // The client has gone: the rest of the body is not needed.
            () = &mut closed => return,
        };
        let (produced, is_last) = match frame {
            Some(Ok(frame)) => (Produced::Frame(frame), false),
            Some(Err(error)) => (Produced::Failed(error), true),
            None => (Produced::End, true),
        };
        if chunks.send(produced).await.is_err() || is_last {
            return;
        }
    }
}

/// Runs the tasks of hyper's HTTP/2 as processes.
#[derive(Clone, Debug)]
pub(crate) struct ProcessExecutor(Handle);

impl ProcessExecutor {
    pub(crate) fn new(runtime: &Handle) -> Self {
        Self(runtime.clone())
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for ProcessExecutor {
    fn execute(&self, future: F) {
        // At the process limit the stream is dropped, which resets it.
        let spawned = self.0.spawn(|context| async move {
            context.set_label("h2 stream");
            future.await;
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "a stream of HTTP/2 was reset");
        }
    }
}
