//! State that the requests of one connection share, and the limits on each request.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use rusm_runtime::Context;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::body::Body;
use crate::connection::io::Activity;
use crate::connection::wait::LazyTimer;
use crate::limits::Limit;
use crate::limits::memory::{COUNTED_BYTES, Held, counted};
use crate::request::trace::{TRACEPARENT, TraceContext};
use crate::request::{Connection, Response, plain};
use crate::router::{Route, RouteRef, Routed, Router, host_of};
use crate::shared::Shared;
use crate::stats::record::RequestRecord;

/// State of a connection that all its requests share.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub(crate) shared: Arc<Shared>,
    /// `None` for HTTP/2: each of its requests is polled in a process of its own.
    pub(crate) context: Option<Arc<Context>>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) activity: Arc<Activity>,
    /// For the deadline of a handler; while an HTTP/2 request uses it, others create their own.
    pub(crate) handler_timer: Mutex<LazyTimer>,
    /// The routes with their version: a copy, so that connections do not contend for the count of references.
    router: Mutex<(u64, Arc<Router>)>,
}

impl ConnectionState {
    pub(crate) fn new(
        shared: Arc<Shared>,
        context: Option<Arc<Context>>,
        connection: Arc<Connection>,
        activity: Arc<Activity>,
    ) -> Self {
        let (router, handler_timer) = (Mutex::new(shared.router()), Mutex::default());
        Self { shared, context, connection, activity, handler_timer, router }
    }

    /// Finds the route of a request.
    pub(crate) fn find(&self, head: &http::request::Parts) -> Routed {
        let mut known = self.router.lock();
        if known.0 != self.shared.router_version() {
            *known = self.shared.router();
        }
        known.1.find(host_of(head), &head.method, head.uri.path())
    }

    /// Creates the record of a request.
    pub(crate) fn record(&self, head: &http::request::Parts, route: RouteRef) -> Arc<RequestRecord> {
        let shared = &self.shared;
        let trace = head.headers.get(TRACEPARENT);
        let named = (head.method.clone(), head.uri.path().into(), head.version);
        let mut record = RequestRecord::new(named, route, self.connection.peer, Instant::now());
        record.trace = trace.and_then(|field| TraceContext::parse(field, shared.spans.next_id()));
        record.is_logged = shared.has_access_log;
        Arc::new(record)
    }

    /// Returns true if a request of this route must be admitted by limits of the rate.
    pub(crate) fn has_rates(&self, route: &Route) -> bool {
        !(self.shared.rates.is_empty() && route.rates().is_empty())
    }

    /// Checks the limits of the rate, those of the server first, and waits until the request may be handled. Returns
    /// the response to a request that is refused.
    pub(crate) async fn admit(self: Arc<Self>, route: RouteRef) -> Result<OwnedSemaphorePermit, Response> {
        let client = self.connection.peer.ip();
        for rate in self.shared.rates.iter().chain(route.rates()) {
            if let Err(after) = rate.admit(client).await {
                route.stats().count_limited();
                return Err(self.refuse_for(Limit::Rate, after));
            }
        }
        let (stats, limits) = (&self.shared.stats, &self.shared.limits);
        if let Ok(permit) = Arc::clone(&self.shared.in_flight).try_acquire_owned() {
            return Ok(permit);
        }
        if stats.waiting.fetch_add(1, Relaxed) >= u64::from(limits.queue) {
            stats.waiting.fetch_sub(1, Relaxed);
            return Err(self.refuse(Limit::Queue));
        }
        let waiting = Waiting(stats);
        let permit = timeout(limits.queue_timeout, Arc::clone(&self.shared.in_flight).acquire_owned()).await;
        drop(waiting);
        match permit {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.refuse(Limit::QueueTimeout)),
        }
    }

    /// Lets a body that is complete take its share of the memory for responses. Returns what it holds.
    pub(crate) fn count_body(&self, body: &mut Body) -> Result<Option<Arc<Held>>, Limit> {
        let Some(bytes) = body.complete_mut().filter(|bytes| self.is_counted(bytes)) else { return Ok(None) };
        let share = self.activity.client().try_take(bytes.len()).ok_or(Limit::ResponsesBytes)?;
        let held = self.activity.held_by_response();
        *bytes = counted(std::mem::take(bytes), share, &held);
        Ok(Some(held))
    }

    /// Lets a long head of a response over HTTP/2, or its trailers, take their share of the memory for responses until they
    /// are written: as many of them wait for a client as it has streams.
    pub(crate) fn count_fields(&self, headers: &mut HeaderMap) -> Result<(), Limit> {
        let bytes = field_bytes(headers);
        if bytes < COUNTED_BYTES {
            return Ok(());
        }
        let Some(longest) = headers.values_mut().max_by_key(|value| value.len()) else { return Ok(()) };
        let share = self.activity.client().try_take(bytes).ok_or(Limit::ResponsesBytes)?;
        let held = self.activity.held_by_response();
        // The share goes with a value, which is dropped when the fields are written.
        let value = counted(Bytes::copy_from_slice(longest.as_bytes()), share, &held);
        if let Ok(mut value) = HeaderValue::from_maybe_shared(value) {
            // The compression would keep a copy.
            value.set_sensitive(true);
            *longest = value;
        }
        Ok(())
    }

    /// Returns true if bytes of a response need memory of their own. A client of HTTP/2 can let many responses wait, however
    /// short they are.
    pub(crate) fn is_counted(&self, bytes: &Bytes) -> bool {
        let is_h2 = self.context.is_none();
        (is_h2 || bytes.len() >= COUNTED_BYTES) && bytes.is_unique()
    }

    /// Checks the limits on the head of a request.
    pub(crate) fn check(&self, head: &http::request::Parts, incoming: &Incoming) -> Result<(), Limit> {
        let limits = &self.shared.limits;
        let target_bytes = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
        if target_bytes > limits.target_bytes {
            return Err(Limit::TargetBytes);
        }
        if head.headers.len() > limits.head_fields {
            return Err(Limit::HeadFields);
        }
        if field_bytes(&head.headers) > limits.head_bytes {
            return Err(Limit::HeadBytes);
        }
        if incoming.size_hint().lower() > limits.body_bytes {
            return Err(Limit::BodyBytes);
        }
        Ok(())
    }

    /// Counts a limit that was hit, and returns the response.
    pub(crate) fn refuse(&self, limit: Limit) -> Response {
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
}

/// Returns the number of bytes of the names and values of header fields.
fn field_bytes(headers: &HeaderMap) -> usize {
    let bytes = |(name, value): (&http::HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    headers.iter().map(bytes).sum()
}

/// Counts a request that waits for its turn.
struct Waiting<'a>(&'a crate::stats::ServerStats);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
