//! From a request to its response: limits, the route, and the process that runs the handler.
//!
//! ```text
//!   connection's process                            request's process: see `handling`
//!     limits ──▶ route ──▶ spawn ──────────────────▶ handler
//!     response ◀── head and ready body ◀──────────── response; a stream goes on, chunk by chunk
//!     client gone, deadline, or crash ──▶ kill       a WebSocket goes on in this process
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{Method, StatusCode, Version};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::Service;
use rusm_runtime::{Context, Handle};

use crate::body::{Arrival, Body};
use crate::connection::answer::{Answer, Pending};
use crate::connection::handling::Handling;
use crate::connection::io::Activity;
use crate::connection::state::ConnectionState;
use crate::connection::tracked::TrackedBody;
use crate::request::{Connection, plain};
use crate::router::Routed;
use crate::shared::Shared;

/// Answers the requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct RequestService(Arc<ConnectionState>);

impl RequestService {
    pub(crate) fn new(
        shared: Arc<Shared>,
        context: Option<Arc<Context>>,
        connection: Arc<Connection>,
        activity: Arc<Activity>,
    ) -> Self {
        Self(Arc::new(ConnectionState::new(shared, context, connection, activity)))
    }
}

impl Service<http::Request<Incoming>> for RequestService {
    type Response = http::Response<TrackedBody>;
    type Error = Infallible;
    type Future = Answer;

    fn call(&self, request: http::Request<Incoming>) -> Answer {
        let inner = Arc::clone(&self.0);
        let (head, incoming) = request.into_parts();
        let routed = inner.find(&head);
        let route = match &routed {
            Routed::Found(route, _) => Arc::clone(route),
            Routed::NotAllowed(_) | Routed::NotFound => inner.shared.stats.unrouted.here(),
        };
        route.stats().begin();
        let record = inner.record(&head, route);
        // The connection of HTTP/1.1 counts all bytes for the request that it serves; for HTTP/2, the bodies do.
        let counts_bodies = inner.context.is_none();
        if !counts_bodies {
            inner.activity.set_current(&record);
        }
        let checked = inner.check(&head, &incoming);
        let handling = Handling::new(inner, record);
        let inner = &handling.inner;
        match (checked, routed) {
            (Ok(()), _) if !has_path(&head) => Answer::limited_refusal(no_path(), handling),
            (Ok(()), _) if !has_valid_host(&head) => Answer::limited_refusal(invalid_host(), handling),
            (Err(limit), _) => Answer::limited_refusal(inner.refuse(limit), handling),
            (Ok(()), Routed::Found(_, params)) => {
                let accounts = (&inner.shared.stats.limits, inner.activity.client());
                let record = Arc::clone(&handling.record);
                let on_arrival = Box::new(move |arrival| match arrival {
                    Arrival::Wait => record.note_wait(),
                    Arrival::Bytes(bytes) => record.note_received(if counts_bodies { bytes } else { 0 }),
                });
                let body = Body::incoming(incoming, &inner.shared.limits, accounts, on_arrival);
                Answer::to(Pending { head, body, params }, handling)
            }
            (Ok(()), Routed::NotAllowed(allowed)) => Answer::limited_refusal(Routed::refusal(Some(&allowed)), handling),
            (Ok(()), Routed::NotFound) => Answer::limited_refusal(Routed::refusal(None), handling),
        }
    }
}

/// Returns false for an HTTP/2 request without `:path`, which only `CONNECT` may lack (RFC 9113, 8.3.1).
fn has_path(head: &Parts) -> bool {
    head.version != Version::HTTP_2 || head.method == Method::CONNECT || !head.uri.path().is_empty()
}

fn no_path() -> crate::Response {
    plain(StatusCode::BAD_REQUEST, "the request must have a :path")
}

/// Returns true if a request names one valid host: in its target, in one Host field, or the same one in both (RFC 9113,
/// 8.3.1). Servers in front, or the handler, might choose another one of several, and then check another site than the
/// one that answers. HTTP/1.1 must have the field, and the other versions need no host.
fn has_valid_host(head: &Parts) -> bool {
    let target = head.uri.authority();
    let mut fields = head.headers.get_all(HOST).iter();
    let Some(field) = fields.next() else {
        return match head.version {
            Version::HTTP_10 => true,
            Version::HTTP_11 => false,
            _ => target.is_none_or(is_host),
        };
    };
    let field = Authority::try_from(field.as_bytes());
    fields.next().is_none() && field.is_ok_and(|field| is_host(&field) && target.is_none_or(|target| *target == field))
}

/// Returns true for a host with or without a port, and without user information.
fn is_host(authority: &Authority) -> bool {
    let has_valid_port = authority.as_str() == authority.host() || authority.port_u16().is_some();
    !authority.as_str().contains('@') && has_valid_port
}

fn invalid_host() -> crate::Response {
    plain(StatusCode::BAD_REQUEST, "the request must have one Host field with a valid host, the same as in its target")
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
