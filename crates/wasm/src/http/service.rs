//! `wasi:http` 0.3 of a guest: the call of its asynchronous handler, and the requests that it sends itself.
//!
//! ```text
//!   handle ──▶ response ──▶ client       the guest writes the body while the client reads it
//!      └─ tasks of the guest ──▶ their end, which is also the end of the call
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use rusm_serve::http::uri::{Authority, Scheme};
use rusm_serve::http::{Uri, header::HOST};
use tokio::sync::oneshot;
use wasmtime::Store;
use wasmtime::component::{Accessor, Linker, Resource};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::p3::Request;
use wasmtime_wasi_http::p3::bindings::Service;
use wasmtime_wasi_http::p3::bindings::http::client::HostWithStore as Client;
use wasmtime_wasi_http::p3::bindings::http::types::{ErrorCode, Response};
use wasmtime_wasi_http::{Error as HttpError, WasiHttp, WasiHttpView};

use super::bounded;
use super::call::Reply;
use super::growing;
use super::request::Incoming;
use crate::guest::state::GuestState;

/// Links `wasi:http` 0.3. Outgoing requests are denied when they are made.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p3::add_to_linker(linker)?;
    linker.allow_shadowing(true);
    let mut client = linker.instance("wasi:http/client@0.3.0")?;
    client.func_wrap_concurrent("send", |caller: &Accessor<GuestState>, (request,): (Resource<Request>,)| {
        Box::pin(async move { Ok((send(caller, request).await?,)) })
    })?;
    bounded::link_service(linker)?;
    growing::link_service(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Sends a request of the guest to another server, if it may.
async fn send(
    caller: &Accessor<GuestState>,
    request: Resource<Request>,
) -> wasmtime::Result<Result<Resource<Response>, ErrorCode>> {
    let is_granted = caller.with(|mut access| {
        let state = access.get();
        let authority: Option<Authority> = state.http().table.get(&request)?.authority.clone();
        wasmtime::error::Ok(authority.map(|authority| state.may_send_to(&authority)))
    })?;
    match is_granted {
        None => return Ok(Err(ErrorCode::HttpRequestUriInvalid)),
        Some(false) => return Ok(Err(ErrorCode::HttpRequestDenied)),
        Some(true) => {}
    }
    let http = caller.with_getter::<WasiHttp>(GuestState::http);
    match <WasiHttp as Client<GuestState>>::send(&http, request).await {
        Ok(response) => Ok(Ok(response)),
        Err(error) => error.downcast().map(Err),
    }
}

/// Calls the handler of an instance with the request, and runs the instance until its tasks have ended and its response
/// is read.
pub(crate) async fn call(
    store: &mut Store<GuestState>,
    service: &Service,
    incoming: Incoming,
    reply: Reply,
) -> wasmtime::Result<()> {
    let request = with_authority(incoming);
    let (request, sent) = Request::from_http(store.data_mut().http().hooks, request);
    store.run_concurrent(async |guest| answer(guest, service, request, sent, reply).await).await?
}

async fn answer(
    guest: &Accessor<GuestState>,
    service: &Service,
    request: Request,
    sent: impl Future<Output = Result<(), HttpError>> + Send + 'static,
    reply: Reply,
) -> wasmtime::Result<()> {
    let mut read = None;
    match service.handle(guest, request).await? {
        Ok(response) => {
            let response = guest.with(|access| response.into_http(access, sent))?;
            let (body_end, end) = oneshot::channel();
            read = Some(end);
            let watched = |body| HyperOutgoingBody::new(WatchedBody { body, _end: body_end });
            // Fails if the client has gone.
            drop(reply.send(Ok(response.map(watched))));
        }
        Err(code) => drop(reply.send(Err(format!("{code:?}")))),
    }
    if let Some(read) = read {
        // The body is read by way of the store, which must not end before it.
        read.await.ok();
    }
    poll_fn(|cx| guest.poll_no_interesting_tasks(cx)).await;
    Ok(())
}

/// Returns the request with scheme and authority in its target, where `wasi:http` 0.3 finds them.
fn with_authority(incoming: Incoming) -> rusm_serve::http::Request<super::request::IncomingBody> {
    let scheme = if incoming.is_tls() { Scheme::HTTPS } else { Scheme::HTTP };
    let mut request = incoming.into_request();
    let mut parts = request.uri().clone().into_parts();
    if parts.authority.is_none() {
        let host = request.headers().get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
        parts.authority = host;
    }
    if parts.authority.is_some() && parts.path_and_query.is_some() {
        parts.scheme = Some(scheme);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// A body that tells its end by dropping a channel.
struct WatchedBody {
    body: HyperOutgoingBody,
    _end: oneshot::Sender<()>,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
