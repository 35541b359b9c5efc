//! A request of a server in the form that `wasi:http` expects, and what went wrong with its body.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use rusm_serve::http::header::HOST;
use rusm_serve::http::{self, HeaderValue, StatusCode};
use rusm_serve::{Body, BodyError, Connection, IntoResponse, Request, Response};
use wasmtime_wasi_http::Error as HttpError;

/// A request with a valid host.
pub(crate) struct Incoming {
    request: http::Request<IncomingBody>,
    is_tls: bool,
}

/// Error of a request's body that the guest has met.
#[derive(Clone, Default)]
pub(crate) struct BodyFailure(Arc<OnceLock<(StatusCode, String)>>);

impl BodyFailure {
    /// Returns the response if the guest fails because of the body.
    pub(crate) fn response(&self) -> Option<Response> {
        self.0.get().map(|(status, text)| (*status, format!("{text}\n")).into_response())
    }

    fn set(&self, error: &BodyError) -> HttpError {
        let text = error.to_string();
        let (status, error) = match error {
            BodyError::TooLong { limit_bytes } => {
                (StatusCode::PAYLOAD_TOO_LARGE, HttpError::HttpRequestBodySize(Some(*limit_bytes)))
            }
            BodyError::TooMany { .. } => (StatusCode::SERVICE_UNAVAILABLE, HttpError::ConnectionLimitReached),
            BodyError::TooSlow { .. } => (StatusCode::REQUEST_TIMEOUT, HttpError::ConnectionReadTimeout),
            BodyError::Broken(_) => (StatusCode::BAD_REQUEST, HttpError::ConnectionTerminated),
        };
        // Only the first error counts.
        self.0.set((status, text)).ok();
        error
    }
}

/// The body of a request, with errors of `wasi:http`.
pub(crate) struct IncomingBody {
    body: Body,
    failure: BodyFailure,
}

impl HttpBody for IncomingBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        polled.map(|frame| frame.map(|frame| frame.map_err(|error| self.failure.set(&error))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Incoming {
    /// Converts a request. HTTP/1.0 needs no host, but guests do: it is the address that the client connected to.
    ///
    /// # Errors
    /// The response for a request whose host is not text.
    pub(crate) fn of(request: Request) -> Result<Self, Box<Response>> {
        let Connection { local, is_tls, .. } = *request.connection();
        let request: http::Request<Body> = request.into();
        let (mut head, body) = request.into_parts();
        if head.uri.authority().is_none() {
            let host = head.headers.get(HOST);
            if host.is_some_and(|host| host.to_str().is_err()) {
                return Err(Box::new((StatusCode::BAD_REQUEST, "the host is not valid\n").into_response()));
            }
            if host.is_none()
                && let Ok(host) = HeaderValue::from_str(&local.to_string())
            {
                head.headers.insert(HOST, host);
            }
        }
        let body = IncomingBody { body, failure: BodyFailure::default() };
        Ok(Self { request: http::Request::from_parts(head, body), is_tls })
    }

    pub(crate) fn body_failure(&self) -> BodyFailure {
        self.request.body().failure.clone()
    }

    pub(crate) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn into_request(self) -> http::Request<IncomingBody> {
        self.request
    }
}
