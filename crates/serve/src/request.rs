//! A request as a handler receives it, and what a handler may return.

pub(crate) mod trace;

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use rusm_runtime::{Context, Pid};

use crate::body::{Body, BodyError};
use crate::request::trace::TraceContext;

/// A response.
pub type Response = http::Response<Body>;

/// A request, with the context of the process that handles it.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Request, Router};
///
/// async fn greet(mut request: Request) -> Result<String, rusm::serve::BodyError> {
///     let name = request.param("name").unwrap_or("world").to_owned();
///     let text = request.bytes().await?;
///     Ok(format!("{name} said {} bytes, {:?}\n", text.len(), request.header("user-agent")))
/// }
///
/// let router = Router::new().route("POST /greet/:name", greet)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Request {
    pub(crate) head: Parts,
    pub(crate) body: Body,
    pub(crate) params: Params,
    pub(crate) connection: Arc<Connection>,
    /// On the heap: most requests have none.
    pub(crate) trace: Option<Box<TraceContext>>,
    pub(crate) context: Arc<Context>,
}

/// The connection of a request; an extension of requests that are passed to other libraries.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::http::StatusCode;
/// use rusm::serve::{IntoResponse, Request, Response};
///
/// async fn admin(request: Request) -> Response {
///     let connection = request.connection();
///     if !connection.is_tls || !connection.peer.ip().is_loopback() {
///         return (StatusCode::FORBIDDEN, "only from this machine, and encrypted\n").into_response();
///     }
///     format!("hello, {}\n", connection.peer).into_response()
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address that the client connected to.
    pub local: SocketAddr,
    /// True if the connection is encrypted.
    pub is_tls: bool,
    /// Process of the connection.
    pub pid: Pid,
}

/// The parts of a path that the parameters of its route stand for, such as `id` in `/users/:id`.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Request, Router};
///
/// let router = Router::new().route("GET /users/:id/:page", async |request: Request| {
///     format!("user {}, page {}", request.param("id").unwrap_or(""), request.param("page").unwrap_or(""))
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(pub(crate) Vec<(Box<str>, Box<str>)>);

impl Params {
    /// Returns the value of a parameter, as it is written in the path, without needless escapes: `%2F` stays, `%41` is `A`.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| &**known == name).map(|(_, value)| &**value)
    }
}

impl Request {
    /// Returns the method.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// Returns the target.
    pub fn uri(&self) -> &Uri {
        &self.head.uri
    }

    /// Returns the path of the target.
    pub fn path(&self) -> &str {
        self.head.uri.path()
    }

    /// Returns the query of the target.
    pub fn query(&self) -> Option<&str> {
        self.head.uri.query()
    }

    /// Returns the version of HTTP.
    pub fn version(&self) -> Version {
        self.head.version
    }

    /// Returns the header fields.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Returns a header field, if it is text.
    pub fn header(&self, name: impl AsRef<str>) -> Option<&str> {
        self.head.headers.get(name.as_ref()).and_then(|value| value.to_str().ok())
    }

    /// Returns the part of the path that a parameter of the route stands for.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.find(name)
    }

    /// Returns the connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the trace that the client has sent in the field `traceparent`. Give its
    /// [`outgoing`](TraceContext::outgoing) field to requests that this request sends to other servers.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_deref()
    }

    /// Returns the context of the process that handles this request: it can send messages, call servers and spawn. Clone
    /// it to keep it while the request is used.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the body.
    pub fn body(&mut self) -> &mut Body {
        &mut self.body
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// [`BodyError`] if it is too long, too slow, or cut.
    pub async fn bytes(&mut self) -> Result<Bytes, BodyError> {
        std::mem::take(&mut self.body).bytes().await
    }

    /// Reads the whole body as JSON.
    ///
    /// # Errors
    /// [`JsonError`] if the body is cut or is not what is expected.
    #[cfg(feature = "json")]
    pub async fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T, JsonError> {
        let bytes = self.bytes().await.map_err(JsonError::Body)?;
        serde_json::from_slice(&bytes).map_err(JsonError::Json)
    }
}

/// For libraries that know requests of the crate `http`. Extensions: [`Connection`], [`Params`],
/// `Arc<Context>`, and [`TraceContext`] if the client has sent one.
impl From<Request> for http::Request<Body> {
    fn from(request: Request) -> Self {
        let mut head = request.head;
        head.extensions.insert(*request.connection);
        if let Some(trace) = request.trace {
            head.extensions.insert(*trace);
        }
        head.extensions.insert(request.params);
        head.extensions.insert(request.context);
        Self::from_parts(head, request.body)
    }
}

/// Reason why a body was not read as JSON.
#[cfg(feature = "json")]
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The body was not read.
    #[error(transparent)]
    Body(BodyError),
    /// The body is not JSON, or another value than expected: answer with 422.
    #[error("invalid JSON: {0}")]
    Json(#[source] serde_json::Error),
}

/// A value that a handler may return.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::http::StatusCode;
/// use rusm::serve::{IntoResponse, Request, Response};
///
/// /// An error of an application, and its response.
/// enum ShopError {
///     SoldOut,
/// }
///
/// impl IntoResponse for ShopError {
///     fn into_response(self) -> Response {
///         (StatusCode::CONFLICT, "sold out\n").into_response()
///     }
/// }
///
/// async fn order(_: Request) -> Result<&'static str, ShopError> {
///     Err(ShopError::SoldOut)
/// }
/// ```
pub trait IntoResponse {
    /// Returns the response.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        let mut response = Response::default();
        *response.status_mut() = self;
        response
    }
}

impl IntoResponse for Body {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

macro_rules! text_responses {
    ($($kind:ty),+) => {
        $(impl IntoResponse for $kind {
            fn into_response(self) -> Response {
                let mut response = Response::new(self.into());
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
                response
            }
        })+
    };
}

text_responses!(&'static str, String);

/// A page of HTML.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Html, Request};
///
/// async fn home(_: Request) -> Html<&'static str> {
///     Html("<h1>hello</h1>")
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Html<T>(pub T);

impl<T: Into<Body>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        let mut response = Response::new(self.0.into());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response
    }
}

macro_rules! byte_responses {
    ($($kind:ty),+) => {
        $(impl IntoResponse for $kind {
            fn into_response(self) -> Response {
                let mut response = Response::new(self.into());
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
                response
            }
        })+
    };
}

byte_responses!(Bytes, Vec<u8>);

impl<R: IntoResponse> IntoResponse for (StatusCode, R) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        *response.status_mut() = self.0;
        response
    }
}

impl<R: IntoResponse, const N: usize> IntoResponse for ([(HeaderName, HeaderValue); N], R) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        response.headers_mut().extend(self.0);
        response
    }
}

impl<R: IntoResponse, E: IntoResponse> IntoResponse for Result<R, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(response) => response.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

/// A body that cannot be read is the client's error: 413 or 408, and 400 if it is invalid. Without room for it, the answer is 503.
impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::TooMany { .. } => {
                let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, self);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                return response;
            }
            Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
        };
        plain(status, self)
    }
}

#[cfg(feature = "json")]
impl IntoResponse for JsonError {
    fn into_response(self) -> Response {
        match self {
            Self::Body(error) => error.into_response(),
            Self::Json(_) => plain(StatusCode::UNPROCESSABLE_ENTITY, self),
        }
    }
}

/// Creates a response of one line of text.
pub(crate) fn plain(status: StatusCode, text: impl Display) -> Response {
    (status, format!("{text}\n")).into_response()
}

/// A value as JSON.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{IntoResponse, Json};
///
/// let response = Json(["tea", "milk"]).into_response();
/// assert_eq!(response.headers()["content-type"], "application/json");
/// ```
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

#[cfg(feature = "json")]
impl<T: serde::Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => {
                let mut response = Response::new(bytes.into());
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, error),
        }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.peer, self.local)
    }
}
