//! Handlers: functions from a request to a response, and services of tower.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::FutureExt;
use http::StatusCode;
use tower_service::Service;

use crate::body::{Body, BoxError};
use crate::request::{IntoResponse, Request, Response, plain};

/// The response of a handler, later.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Answers requests.
///
/// Each asynchronous function from a [`Request`] to an [`IntoResponse`] is a handler, and so is each [`Router`]:
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{IntoResponse, Request};
///
/// async fn hello(request: Request) -> impl IntoResponse {
///     format!("hello, {}\n", request.param("name").unwrap_or("world"))
/// }
/// # fn check(_: impl rusm::serve::Handler) {}
/// # check(hello);
/// ```
///
/// [`Router`]: crate::Router
pub trait Handler: Send + Sync + 'static {
    /// Answers a request.
    fn handle(&self, request: Request) -> ResponseFuture;
}

impl<F, Fut, R> Handler for F
where
    F: Fn(Request) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoResponse + 'static,
{
    fn handle(&self, request: Request) -> ResponseFuture {
        Box::pin(self(request).map(IntoResponse::into_response))
    }
}

/// A [`Handler`] from a service of tower, such as an axum `Router`.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Router, service};
/// # use std::convert::Infallible;
/// # use std::future::{Ready, ready};
/// # use std::task::{Context, Poll};
/// # use rusm::serve::{Body, http};
/// #
/// # #[derive(Clone)]
/// # struct Legacy;
/// #
/// # impl tower_service::Service<http::Request<Body>> for Legacy {
/// #     type Response = http::Response<Body>;
/// #     type Error = Infallible;
/// #     type Future = Ready<Result<Self::Response, Infallible>>;
/// #
/// #     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
/// #         Poll::Ready(Ok(()))
/// #     }
/// #
/// #     fn call(&mut self, request: http::Request<Body>) -> Self::Future {
/// #         ready(Ok(http::Response::new(request.into_body())))
/// #     }
/// # }
///
/// // `Legacy` is a service of tower, such as an axum `Router`.
/// let router = Router::new().route("POST /legacy/*", service(Legacy))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct TowerService<S>(S);

/// Creates a handler from a service of tower, such as an axum `Router`. The service is cloned for each request.
///
/// A service that returns an error answers with 500.
pub const fn service<S, B>(service: S) -> TowerService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    TowerService(service)
}

impl<S, B> Handler for TowerService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn handle(&self, request: Request) -> ResponseFuture {
        let mut service = self.0.clone();
        Box::pin(async move {
            // Converted before the next wait: an error of the service need not be `Send`.
            let ready = std::future::poll_fn(|task| service.poll_ready(task)).await.map_err(Into::into);
            let answered = match ready {
                Ok(()) => service.call(request.into()).await.map_err(Into::into),
                Err(error) => Err(error),
            };
            match answered {
                Ok(response) => response.map(Body::new),
                Err(error) => {
                    let error: BoxError = error;
                    tracing::error!(%error, "a service failed");
                    plain(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
                }
            }
        })
    }
}
