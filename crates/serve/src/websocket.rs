//! Sockets of the WebSocket protocol: the process of the request becomes the process of the socket.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{Method, StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rusm_runtime::Context;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};

use crate::connection::wait::LazyTimer;
use crate::limits::Limit;
use crate::request::{IntoResponse, Request, Response, plain};
use crate::shared::Shared;
use crate::stats::ServerStats;
use crate::upgrade::Continuation;

/// Bytes that one read of a socket takes at most; an idle socket holds a buffer of this size.
const READ_BUFFER_BYTES: usize = 4096;
/// Time for a client to answer the server's close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WsMessage {
    /// Text.
    Text(WsText),
    /// Bytes.
    Binary(Bytes),
}

/// Text of a message; cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WsText(Utf8Bytes);

impl std::ops::Deref for WsText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for WsText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for WsText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<&str> for WsMessage {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for WsMessage {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Bytes> for WsMessage {
    fn from(bytes: Bytes) -> Self {
        Self::Binary(bytes)
    }
}

impl From<Vec<u8>> for WsMessage {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes.into())
    }
}

/// Reason why a socket can no longer be used.
#[derive(Debug, Error)]
pub enum WsError {
    /// The client has gone without a close frame, or does not answer pings.
    #[error("the client has gone: {0}")]
    Gone(String),
    /// The client has broken the protocol, and was told so by a close code.
    #[error("the client has broken the protocol: {0}")]
    Protocol(String),
    /// A message is longer than the limit, and its client was told so by close code 1009.
    #[error("a message is longer than the limit: {0}")]
    TooLong(String),
}

/// What a socket waits for.
enum Next {
    Frame(Option<Result<tungstenite::Message, tungstenite::Error>>),
    /// No frame within the time after which the client is pinged.
    Silence,
    Drain,
}

/// An open WebSocket. Pings are answered and sent by [`receive`](Self::receive).
pub struct WebSocket {
    stream: WebSocketStream<TokioIo<Upgraded>>,
    context: Arc<Context>,
    stats: Arc<ServerStats>,
    /// The turn of this socket in a drain; none after it.
    turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    timer: LazyTimer,
    ping: Duration,
    /// True after a ping that no frame has followed.
    is_pinged: bool,
}

impl std::fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebSocket").field("pid", &self.context.pid()).finish_non_exhaustive()
    }
}

/// Answers a request with an upgrade to a WebSocket, which `run` then serves in the process of the request. The socket
/// is closed when `run` returns.
///
/// Other requests get 400, or 426 with the supported version.
///
/// ```
/// use rusm_serve::{Request, Response, websocket};
///
/// async fn echo(request: Request) -> Response {
///     websocket::upgrade(request, async |mut socket| {
///         while let Ok(Some(message)) = socket.receive().await {
///             if socket.send(message).await.is_err() {
///                 break;
///             }
///         }
///     })
/// }
/// ```
pub fn upgrade<F, Fut>(mut request: Request, run: F) -> Response
where
    F: FnOnce(WebSocket) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let lists = |name, word: &str| {
        let mut lines = request.head.headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
        lines.any(|line| line.split(',').any(|listed| listed.trim().eq_ignore_ascii_case(word)))
    };
    let is_upgrade = lists(CONNECTION, "upgrade") && lists(UPGRADE, "websocket");
    if request.head.method != Method::GET || request.head.version != Version::HTTP_11 || !is_upgrade {
        return plain(StatusCode::BAD_REQUEST, "this is a WebSocket: connect with `Upgrade: websocket`");
    }
    if request.header(SEC_WEBSOCKET_VERSION) != Some("13") {
        let mut response = plain(StatusCode::UPGRADE_REQUIRED, "the server speaks version 13 of WebSocket");
        response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        return response;
    }
    let key = request.header(SEC_WEBSOCKET_KEY).filter(|key| is_key(key));
    let Some(accept) = key.and_then(|key| HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()) else {
        return plain(StatusCode::BAD_REQUEST, "the key of the WebSocket is not the base64 form of 16 bytes");
    };
    let Some(upgrade) = request.head.extensions.remove::<OnUpgrade>() else {
        return plain(StatusCode::BAD_REQUEST, "this connection cannot be upgraded");
    };
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    let serve = Box::new(|upgraded, shared: &Shared, context| {
        Box::pin(run(WebSocket::new(upgraded, shared, context))) as Pin<Box<dyn Future<Output = ()> + Send>>
    });
    response.extensions_mut().insert(Continuation::websocket(upgrade, serve));
    response
}

/// Adds the protocol that the server has chosen among those that the client offers to the response of [`upgrade`].
pub fn with_protocol(mut response: Response, protocol: &str) -> Response {
    if let Ok(protocol) = HeaderValue::from_str(protocol) {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response
}

fn is_key(key: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
    key.len() == 24 && key.ends_with("==") && key.bytes().take(22).all(is_digit)
}

impl WebSocket {
    fn new(upgraded: Upgraded, shared: &Shared, context: Arc<Context>) -> Self {
        let limits = &shared.limits;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_BYTES)
            .write_buffer_size(0)
            .max_frame_size(Some(limits.ws_frame_bytes))
            .max_message_size(Some(limits.ws_message_bytes))
            .max_write_buffer_size(limits.ws_message_bytes + READ_BUFFER_BYTES);
        let (number, mut drain) = (u64::from(context.pid().slot()), shared.drain_signal());
        let stream =
            WebSocketStream::from_partially_read(TokioIo::new(upgraded), Vec::new(), Role::Server, Some(config));
        Self {
            // Polled only once without waiting: a stream from parts is ready.
            stream: futures_util::FutureExt::now_or_never(stream).expect("it waits for nothing"),
            context,
            stats: Arc::clone(&shared.stats),
            turn: Some(Box::pin(async move { drain.turn(number).await })),
            timer: LazyTimer::default(),
            ping: limits.ws_ping,
            is_pinged: false,
        }
    }

    /// Returns the context of the socket's process. Clone it to receive messages of processes and of the client at once.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the next message; `None` after the client has closed the socket, or when the server drains: its client
    /// then gets close code 1001.
    ///
    /// Nothing is lost if the future is dropped before it is ready, so it may be one branch of a `select`.
    ///
    /// # Errors
    /// [`WsError`] if the client has gone or has broken the protocol. The socket cannot be used any more.
    pub async fn receive(&mut self) -> Result<Option<WsMessage>, WsError> {
        loop {
            let next = match self.next().await {
                Next::Frame(frame) => Some(frame),
                Next::Silence => None,
                Next::Drain => {
                    self.turn = None;
                    self.close(CloseCode::Away, "the server stops").await;
                    return Ok(None);
                }
            };
            let Some(next) = next else {
                if self.is_pinged {
                    self.stats.hit(Limit::WsPing);
                    return Err(WsError::Gone("it does not answer pings".to_owned()));
                }
                self.is_pinged = true;
                self.transmit(tungstenite::Message::Ping(Bytes::new())).await?;
                continue;
            };
            self.is_pinged = false;
            match next {
                None => {
                    self.end(Instant::now() + CLOSE_TIMEOUT).await;
                    return Ok(None);
                }
                Some(Ok(tungstenite::Message::Text(text))) => return Ok(Some(WsMessage::Text(WsText(text)))),
                Some(Ok(tungstenite::Message::Binary(bytes))) => return Ok(Some(WsMessage::Binary(bytes))),
                // Answered by the library, with the next read or write.
                Some(Ok(_)) => {}
                Some(Err(error)) => return self.failed(error).await,
            }
        }
    }

    async fn next(&mut self) -> Next {
        let Self { stream, turn, timer, ping, .. } = self;
        let mut deadline = None;
        poll_fn(|task| {
            if turn.as_mut().is_some_and(|turn| turn.as_mut().poll(task).is_ready()) {
                return Poll::Ready(Next::Drain);
            }
            if let Poll::Ready(frame) = stream.poll_next_unpin(task) {
                return Poll::Ready(Next::Frame(frame));
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + *ping);
            timer.poll(deadline, task).map(|()| Next::Silence)
        })
        .await
    }

    async fn failed(&mut self, error: tungstenite::Error) -> Result<Option<WsMessage>, WsError> {
        let text = error.to_string();
        match error {
            tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
                self.end(Instant::now() + CLOSE_TIMEOUT).await;
                Ok(None)
            }
            tungstenite::Error::Capacity(CapacityError::MessageTooLong { .. }) => {
                self.stats.hit(Limit::WsBytes);
                self.close(CloseCode::Size, "the message is too long").await;
                Err(WsError::TooLong(text))
            }
            tungstenite::Error::Utf8(_) => {
                self.close(CloseCode::Invalid, "the text is not UTF-8").await;
                Err(WsError::Protocol(text))
            }
            tungstenite::Error::Protocol(tungstenite::error::ProtocolError::ResetWithoutClosingHandshake)
            | tungstenite::Error::Io(_) => Err(WsError::Gone(text)),
            _ => {
                self.close(CloseCode::Protocol, "the protocol was broken").await;
                Err(WsError::Protocol(text))
            }
        }
    }

    /// Sends a message, and waits until the operating system has taken it.
    ///
    /// # Errors
    /// [`WsError`] if the client has gone.
    pub async fn send(&mut self, message: impl Into<WsMessage>) -> Result<(), WsError> {
        self.transmit(match message.into() {
            WsMessage::Text(text) => tungstenite::Message::Text(text.0),
            WsMessage::Binary(bytes) => tungstenite::Message::Binary(bytes),
        })
        .await
    }

    async fn transmit(&mut self, message: tungstenite::Message) -> Result<(), WsError> {
        self.stream.send(message).await.map_err(|error| WsError::Gone(error.to_string()))
    }

    /// Closes the socket with a code of 1000–4999 and a reason of at most 123 bytes, and waits a second for the
    /// client's answer.
    pub async fn close_with(mut self, code: u16, reason: &str) {
        self.close(CloseCode::from(code), reason).await;
    }

    async fn close(&mut self, code: CloseCode, reason: &str) {
        let end = Instant::now() + CLOSE_TIMEOUT;
        let frame = CloseFrame { code, reason: reason.into() };
        if timeout_at(end, self.stream.close(Some(frame))).await.is_ok_and(|sent| sent.is_ok()) {
            while let Ok(Some(Ok(_))) = timeout_at(end, self.stream.next()).await {}
            self.end(end).await;
        }
    }

    /// Ends the connection after the last frame, and reads what the client has still sent. Otherwise the operating system
    /// would answer those bytes with a reset, and the client could lose the close frame.
    async fn end(&mut self, end: Instant) {
        let stream = self.stream.get_mut();
        let read = async {
            if stream.shutdown().await.is_err() {
                return;
            }
            let mut buffer = [0; 1024];
            while let Ok(1..) = stream.read(&mut buffer).await {}
        };
        drop(timeout_at(end, read).await);
    }
}
