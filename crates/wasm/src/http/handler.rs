//! `rusm:http`: a handler of whole requests, with streams of its own and sockets, for any language.
//!
//! ```text
//!   handle ──▶ response                             one piece
//!      ├─ streaming.start, write ──▶ client         a stream, which ends when `handle` returns
//!      └─ websocket.accept, receive, send ◀─▶ client
//! ```

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http_body::{Body as HttpBody, Frame, SizeHint};
use rusm_serve::http::header::{CONNECTION, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use rusm_serve::http::{self, HeaderMap, HeaderName, HeaderValue, StatusCode};
use rusm_serve::websocket::WsMessage;
use rusm_serve::{IntoResponse, Request};
use tokio::sync::{mpsc, oneshot};
use wasmtime::Store;
use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi_http::Error as HttpError;
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;

use super::call::{GuestResponse, Reply};
use crate::bindings::http::Service as RecordHandler;
use crate::bindings::http::exports::rusm::http::handler;
use crate::bindings::http::rusm::http::streaming::{self, Host as Streaming};
use crate::bindings::http::rusm::http::types::{self, Message};
use crate::bindings::http::rusm::http::websocket::{self, Event, Host as Socket};
use crate::engine::fiber::waiting;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::guest::state::exchange::{Exchange, Upgrade};
use crate::guest::state::resources::{FIELDS_BYTES_MAX, of_field};

/// Number of pieces of a body that may wait for the client.
const PARTS_WAITING: usize = 2;
/// Maximum length of a piece of a body, in bytes; a longer part is cut.
const PIECE_BYTES: usize = 64 * 1024;
/// Close code after the handler has returned.
const CLOSED_NORMALLY: u16 = 1000;

/// Links what a handler may import.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    streaming::add_to_linker::<_, HasSelf<_>>(linker, |state| state)?;
    websocket::add_to_linker::<_, HasSelf<_>>(linker, |state| state)
}

/// Calls the handler of an instance with the request.
pub(crate) async fn call(
    store: &mut Store<GuestState>,
    service: &RecordHandler,
    mut request: Request,
    reply: Reply,
) -> wasmtime::Result<()> {
    let body = match request.bytes().await {
        Ok(body) => body,
        Err(error) => {
            let text = format!("{error}\n");
            // Fails if the client has gone, here and below.
            let (head, _) = error.into_response().into_parts();
            let retry = head.headers.into_iter().filter_map(|(name, value)| Some((name?, value)));
            let retry = retry.filter(|(name, _)| *name == RETRY_AFTER).collect();
            drop(reply.send(Ok(whole(head.status, retry, text.into()))));
            return Ok(());
        }
    };
    // The record holds the body until the handler returns.
    let Ok(_share) = store.data().share_if_long(body.len()) else {
        drop(reply.send(Ok(try_later())));
        return Ok(());
    };
    let record = record(&request, body);
    let exchange = Exchange { request: Some(request), reply: Some(reply), parts: None, socket: None };
    store.data_mut().exchange = Some(Box::new(exchange));
    let response = service.rusm_http_handler().call_handle(&mut *store, &record).await?;
    let Some(exchange) = store.data_mut().exchange.take() else { return Ok(()) };
    if let Some(socket) = exchange.socket {
        socket.close_with(CLOSED_NORMALLY, "").await;
    }
    if let Some(reply) = exchange.reply {
        drop(
            reply.send(
                head(response.status, response.headers)
                    .map(|(status, headers)| whole(status, headers, response.body.into())),
            ),
        );
    }
    Ok(())
}

/// Returns the response of a guest that finds no memory for the body of its request.
fn try_later() -> GuestResponse {
    let fields = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1"))]);
    whole(StatusCode::SERVICE_UNAVAILABLE, fields, Bytes::from_static(b"no memory for the body of the request\n"))
}

/// Returns the request as a guest gets it: the host is a field of each version of HTTP.
fn record(request: &Request, body: Bytes) -> handler::Request {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let fields = request.headers();
    let authority = request.uri().authority().filter(|_| !fields.contains_key(HOST));
    let host = authority.map(|authority| (HOST.to_string(), authority.to_string()));
    handler::Request {
        method: request.method().to_string(),
        target: request.uri().path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        headers: host.into_iter().chain(fields.iter().map(|(name, value)| (name.to_string(), text(value)))).collect(),
        body: body.into(),
        peer: request.connection().peer.to_string(),
    }
}

/// Fields of the connection, which is the server's.
const FIELDS_OF_CONNECTION: [HeaderName; 5] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Returns status and fields of a response, or why they are not valid.
fn head(status: u16, fields: Vec<(String, String)>) -> Result<(StatusCode, HeaderMap), String> {
    let status = StatusCode::from_u16(status).map_err(|error| format!("status {status}: {error}"))?;
    if status.is_informational() {
        return Err(format!("status {status} is not final"));
    }
    // The limits of the server are for bodies: a head is written whole, and is not counted.
    let bytes: u64 = fields.iter().map(|(name, value)| of_field(name, value.as_bytes())).sum();
    if bytes > FIELDS_BYTES_MAX as u64 {
        return Err(format!("the fields of the response take {bytes} bytes, more than {FIELDS_BYTES_MAX}"));
    }
    let mut headers = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        match (HeaderName::try_from(&name), HeaderValue::try_from(value)) {
            (Ok(name), _) if FIELDS_OF_CONNECTION.contains(&name) => {
                return Err(format!("field {name} belongs to the connection"));
            }
            (Ok(name), Ok(value)) => headers.append(name, value),
            _ => return Err(format!("field {name:?} is not valid")),
        };
    }
    Ok((status, headers))
}

fn whole(status: StatusCode, headers: HeaderMap, body: Bytes) -> GuestResponse {
    response(status, headers, HyperOutgoingBody::new(Whole(Some(body).filter(|body| !body.is_empty()))))
}

fn response(status: StatusCode, headers: HeaderMap, body: HyperOutgoingBody) -> GuestResponse {
    let mut response = http::Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

impl types::Host for GuestState {}

impl Streaming for GuestState {
    fn start(&mut self, status: u16, fields: Vec<(String, String)>) -> bool {
        self.record_call(HostCall::StreamOpen);
        let Some(exchange) = self.exchange.as_deref_mut() else { return false };
        let Some(reply) = exchange.reply.take() else { return false };
        let (parts, waiting) = mpsc::channel(PARTS_WAITING);
        let started = head(status, fields);
        let is_started = started.is_ok();
        let body = |(status, headers)| response(status, headers, HyperOutgoingBody::new(Parts(waiting)));
        exchange.parts = is_started.then_some(parts);
        reply.send(started.map(body)).is_ok() && is_started
    }

    async fn write(&mut self, part: Vec<u8>) -> bool {
        self.record_call(HostCall::StreamWrite);
        let Some(parts) = self.exchange.as_deref().and_then(|exchange| exchange.parts.clone()) else { return false };
        let Ok(_share) = self.share_or_end(part.len()) else { return false };
        // Copies: what waits for the client must not hold a long part.
        for piece in part.chunks(PIECE_BYTES) {
            if waiting(parts.send(Bytes::copy_from_slice(piece))).await.is_err() {
                return false;
            }
        }
        true
    }
}

impl Socket for GuestState {
    async fn accept(&mut self) -> Result<(), String> {
        self.record_call(HostCall::StreamAccept);
        let Some(exchange) = self.exchange.as_deref_mut() else { return Err("there is no request".to_owned()) };
        let (Some(reply), Some(request)) = (exchange.reply.take(), exchange.request.take()) else {
            return Err("the request has a response already".to_owned());
        };
        let (handover, socket) = oneshot::channel();
        let mut upgrade = whole(StatusCode::SWITCHING_PROTOCOLS, HeaderMap::new(), Bytes::new());
        upgrade.extensions_mut().insert(Upgrade::new(request, handover));
        drop(reply.send(Ok(upgrade)));
        match waiting(socket).await {
            Ok(socket) => {
                exchange.socket = Some(socket);
                Ok(())
            }
            Err(_) => Err("the client did not ask for a WebSocket".to_owned()),
        }
    }

    async fn receive(&mut self, timeout_ms: Option<u64>) -> Event {
        self.record_call(HostCall::Receive);
        let Some(socket) = self.exchange.as_deref_mut().and_then(|exchange| exchange.socket.as_mut()) else {
            return Event::Closed;
        };
        let received = match timeout_ms {
            None => waiting(socket.receive()).await,
            Some(ms) => match waiting(tokio::time::timeout(Duration::from_millis(ms), socket.receive())).await {
                Ok(received) => received,
                Err(_) => return Event::Timeout,
            },
        };
        let bytes = match &received {
            Ok(Some(WsMessage::Text(text))) => text.len(),
            Ok(Some(WsMessage::Binary(bytes))) => bytes.len(),
            Ok(None) | Err(_) => 0,
        };
        self.last_result.release();
        match self.share_or_end(bytes) {
            Ok(share) => self.last_result.share = share,
            Err(_full) => return Event::Closed,
        }
        match received {
            Ok(Some(WsMessage::Text(text))) => Event::Message(Message::Text(text.to_string())),
            Ok(Some(WsMessage::Binary(bytes))) => Event::Message(Message::Binary(bytes.into())),
            // A socket that the client has closed needs no close frame of ours.
            Ok(None) | Err(_) => {
                if let Some(exchange) = self.exchange.as_deref_mut() {
                    exchange.socket = None;
                }
                Event::Closed
            }
        }
    }

    async fn send(&mut self, message: Message) -> bool {
        self.record_call(HostCall::Send);
        let bytes = match &message {
            Message::Text(text) => text.len(),
            Message::Binary(bytes) => bytes.len(),
        };
        let Ok(_share) = self.share_or_end(bytes) else { return false };
        let Some(socket) = self.exchange.as_deref_mut().and_then(|exchange| exchange.socket.as_mut()) else {
            return false;
        };
        let message = match message {
            Message::Text(text) => WsMessage::from(text),
            Message::Binary(bytes) => WsMessage::from(bytes),
        };
        waiting(socket.send(message)).await.is_ok()
    }

    async fn close(&mut self, code: u16, reason: String) {
        self.record_call(HostCall::StreamClose);
        let socket = self.exchange.as_deref_mut().and_then(|exchange| exchange.socket.take());
        if let Some(socket) = socket {
            // Codes of applications, and the normal one; others are for the protocol itself.
            let code = if matches!(code, 1000..=1003 | 1007..=1011 | 3000..=4999) { code } else { CLOSED_NORMALLY };
            let mut reason = reason;
            reason.truncate(reason.floor_char_boundary(123));
            waiting(socket.close_with(code, &reason)).await;
        }
    }
}

/// A body in one piece.
struct Whole(Option<Bytes>);

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        Poll::Ready(self.0.take().map(|body| Ok(Frame::data(body))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A body that the guest writes.
struct Parts(mpsc::Receiver<Bytes>);

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        self.0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_chooses_no_field_of_the_connection_and_no_status_that_is_not_final() {
        let with = |status, name: &str| head(status, vec![(name.to_owned(), "1".to_owned())]).map(|(status, _)| status);

        assert_eq!(with(201, "x-own"), Ok(StatusCode::CREATED));
        for name in ["Connection", "transfer-encoding", "upgrade", "TE", "trailer", "two words"] {
            assert!(with(200, name).is_err(), "{name}");
        }
        for status in [0, 99, 100, 101, 199, 1000] {
            assert!(with(status, "x-own").is_err(), "{status}");
        }
    }

    #[test]
    fn the_fields_of_a_response_have_a_limit() {
        let fields = |count, length| (0..count).map(|number| (format!("x-{number}"), "v".repeat(length))).collect();

        assert!(head(200, fields(30, 1_000)).is_ok());
        for (count, length) in [(33, 1_000), (33_000, 1), (1, FIELDS_BYTES_MAX)] {
            let refused = head(200, fields(count, length)).expect_err("it is too long");
            assert!(refused.ends_with("more than 32768"), "{refused}");
        }
    }
}
