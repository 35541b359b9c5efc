//! Sockets of the WebSocket protocol: the process of the request becomes the process of the socket.

mod frame;
mod stream;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Method, StatusCode, Version};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rusm_runtime::Context;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::connection::TAKE_WITHIN;
use crate::connection::io::Io;
use crate::connection::wait::LazyTimer;
use crate::limits::client::{ClientAccount, Share};
use crate::limits::memory::COUNTED_BYTES;
use crate::limits::{HeldBytes, Limit};
use crate::request::{IntoResponse, Request, Response, plain};
use crate::shared::Shared;
use crate::stats::ServerStats;
use crate::upgrade::Continuation;
use crate::websocket::frame::{CONTROL_MAX, Decoder, Item, Opcode, Violation};
use crate::websocket::stream::{FrameStream, ReadError};

/// Close codes.
const AWAY: u16 = 1001;
const PROTOCOL: u16 = 1002;
const INVALID: u16 = 1007;
const SIZE: u16 = 1009;
const BUSY: u16 = 1013;
/// Time for a client to answer the server's close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A message.
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::websocket::WsMessage;
///
/// assert_eq!(WsMessage::from("hello"), WsMessage::Text("hello".into()));
/// assert_eq!(WsMessage::from(vec![1, 2]), WsMessage::Binary(vec![1, 2].into()));
/// ```
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
    /// The server holds too many bytes of messages, and the client was told so by close code 1013.
    #[error("the server holds too many bytes of incomplete messages")]
    Busy,
}

/// The event that a socket waits for.
enum Next {
    Item(Result<Option<Item>, ReadError>),
    /// No frame within the time after which the client is pinged.
    Silence,
    Drain,
}

/// An open WebSocket. Pings are answered and sent by [`receive`](Self::receive).
///
/// ```
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::websocket::{self, WsMessage};
/// use rusm::serve::{Request, Response};
///
/// async fn shout(request: Request) -> Response {
///     websocket::upgrade(request, async |mut socket| {
///         while let Ok(Some(WsMessage::Text(text))) = socket.receive().await {
///             if socket.send(text.to_uppercase()).await.is_err() {
///                 return;
///             }
///         }
///     })
/// }
/// ```
pub struct WebSocket {
    stream: FrameStream,
    /// The memory for what the client has not taken yet, and the share of this socket.
    client: Arc<ClientAccount>,
    share: Option<Share>,
    /// True after a close frame of either side.
    is_closed: bool,
    /// Set from the close frame to the end of the connection.
    ending: Option<Ending>,
    context: Arc<Context>,
    stats: Arc<ServerStats>,
    /// The turn of this socket in a drain; none after it.
    turn: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    timer: LazyTimer,
    ping: Duration,
    /// Time at which the client has been silent for too long. It outlives a dropped [`receive`](Self::receive).
    silence_ends: Option<Instant>,
    /// True after a ping that no frame has followed.
    is_pinged: bool,
}

/// The end of a connection after its close frame. Whoever waits for it may give up and wait again: a guest waits for a
/// message with a time limit.
#[derive(Clone, Copy, Debug)]
struct Ending {
    /// Time until which the client may answer.
    until: Instant,
    awaits_answer: bool,
    /// True after this side of the connection was shut.
    is_shut: bool,
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
/// # mod rusm { pub use rusm_serve as serve; }
/// use rusm::serve::{Request, Response, websocket};
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
    if let Some(twice) = [SEC_WEBSOCKET_VERSION, SEC_WEBSOCKET_KEY].iter().find(|name| is_twice(&request, name)) {
        return plain(StatusCode::BAD_REQUEST, format!("{twice} may be given only once"));
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
    let serve = Box::new(|upgraded, shared: &Shared, context| match WebSocket::new(upgraded, shared, context) {
        Some(socket) => Box::pin(run(socket)) as Pin<Box<dyn Future<Output = ()> + Send>>,
        None => Box::pin(std::future::ready(())),
    });
    response.extensions_mut().insert(Continuation::websocket(upgrade, serve));
    response
}

/// Returns true if there are several fields of a name: servers in front might read another one.
fn is_twice(request: &Request, name: &HeaderName) -> bool {
    request.head.headers.get_all(name).iter().nth(1).is_some()
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
    /// Returns `None` for a connection that is not one of this crate's servers.
    fn new(upgraded: Upgraded, shared: &Shared, context: Arc<Context>) -> Option<Self> {
        let limits = &shared.limits;
        let parts = upgraded.downcast::<TokioIo<Io>>().ok()?;
        let mut io = parts.io.into_inner();
        io.unread(parts.read_buf);
        let client = Arc::clone(io.client());
        let (number, mut drain) = (u64::from(context.pid().slot()), shared.drain_signal());
        Some(Self {
            stream: FrameStream::new(
                io,
                Decoder::new(limits.ws_frame_bytes, limits.ws_message_bytes),
                HeldBytes::new(&shared.stats.limits, &client, limits.bodies_bytes),
            ),
            client,
            share: None,
            is_closed: false,
            ending: None,
            context,
            stats: Arc::clone(&shared.stats),
            turn: Some(Box::pin(async move { drain.turn(number).await })),
            timer: LazyTimer::default(),
            ping: limits.ws_ping,
            silence_ends: None,
            is_pinged: false,
        })
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
        // What rarely happens is boxed: the future of an idle socket should be small.
        while !self.is_closed {
            let next =
                if self.share.is_some() { Box::pin(self.next_while_sending()).await? } else { self.next().await };
            let item = match next {
                Next::Item(item) => item,
                Next::Silence if self.is_pinged => {
                    self.stats.hit(Limit::WsPing);
                    self.is_closed = true;
                    return Err(WsError::Gone("it does not answer pings".to_owned()));
                }
                Next::Silence => {
                    (self.is_pinged, self.silence_ends) = (true, None);
                    self.transmit(Opcode::Ping, &[]).await?;
                    continue;
                }
                Next::Drain => {
                    self.turn = None;
                    self.begin_close(AWAY, "the server stops", true);
                    break;
                }
            };
            (self.is_pinged, self.silence_ends) = (false, None);
            match item {
                Ok(Some(Item::Text(text))) => return Ok(Some(WsMessage::Text(WsText(text)))),
                Ok(Some(Item::Binary(bytes))) => return Ok(Some(WsMessage::Binary(bytes))),
                Ok(Some(Item::Ping(payload))) => self.stream.send_pong(&payload).await.map_err(gone)?,
                Ok(Some(Item::Pong)) => {}
                Ok(Some(Item::Close(code))) => {
                    self.is_closed = true;
                    self.begin_end(code.map(u16::to_be_bytes).as_ref().map_or(&[], |code| &code[..]), false);
                }
                Ok(None) => {
                    self.is_closed = true;
                    return Err(WsError::Gone("it has closed the connection without a close frame".to_owned()));
                }
                Err(ReadError::Io(error)) => {
                    self.is_closed = true;
                    return Err(gone(error));
                }
                Err(ReadError::Violation(violation)) => return Err(Box::pin(self.refuse(violation)).await),
            }
        }
        if self.ending.is_some() {
            Box::pin(self.end()).await;
        }
        Ok(None)
    }

    async fn next(&mut self) -> Next {
        let Self { stream, turn, timer, ping, silence_ends, .. } = self;
        poll_fn(|task| {
            if turn.as_mut().is_some_and(|turn| turn.as_mut().poll(task).is_ready()) {
                return Poll::Ready(Next::Drain);
            }
            if let Poll::Ready(item) = stream.poll_next(task) {
                return Poll::Ready(Next::Item(item));
            }
            let deadline = *silence_ends.get_or_insert_with(|| Instant::now() + *ping);
            timer.poll(deadline, task).map(|()| Next::Silence)
        })
        .await
    }

    /// Waits for the next event while a part of a message is still to be sent.
    async fn next_while_sending(&mut self) -> Result<Next, WsError> {
        loop {
            let before = self.stream.unsent_bytes();
            let next = timeout(TAKE_WITHIN, self.next()).await;
            if self.stream.unsent_bytes() < COUNTED_BYTES {
                self.share = None;
                return Ok(match next {
                    Ok(next) => next,
                    Err(_) => self.next().await,
                });
            }
            match next {
                Ok(next) => return Ok(next),
                Err(_) if self.is_stuck(before) => return Err(self.cut()),
                Err(_) => {}
            }
        }
    }

    /// Returns true if the client has taken nothing, and the memory for responses is short.
    fn is_stuck(&self, before: usize) -> bool {
        self.stream.unsent_bytes() == before && self.client.is_short()
    }

    /// Closes the socket of a client that has broken the protocol.
    async fn refuse(&mut self, violation: Violation) -> WsError {
        match violation {
            Violation::Protocol(why) => {
                self.fail(PROTOCOL, "the protocol was broken").await;
                WsError::Protocol(why.to_owned())
            }
            Violation::NotUtf8 => {
                self.fail(INVALID, "the text is not UTF-8").await;
                WsError::Protocol("the text is not UTF-8".to_owned())
            }
            Violation::TooLong { limit_bytes } => {
                self.stats.hit(Limit::WsBytes);
                self.fail(SIZE, "the message is too long").await;
                WsError::TooLong(format!("{limit_bytes} bytes"))
            }
            Violation::Busy => {
                self.fail(BUSY, "try again later").await;
                WsError::Busy
            }
        }
    }

    /// Sends a message, and waits until the operating system has taken it.
    ///
    /// # Errors
    /// [`WsError`] if the client has gone.
    pub async fn send(&mut self, message: impl Into<WsMessage>) -> Result<(), WsError> {
        match message.into() {
            WsMessage::Text(text) => self.transmit(Opcode::Text, text.0.as_bytes()).await,
            WsMessage::Binary(bytes) => self.transmit(Opcode::Binary, &bytes).await,
        }
    }

    async fn transmit(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), WsError> {
        if self.is_closed {
            return Err(WsError::Gone("the socket is closed".to_owned()));
        }
        if self.stream.unsent_bytes() > 0 {
            // A handler gave up an earlier frame.
            Box::pin(self.send_rest()).await?;
        }
        self.stream.begin(opcode, payload).await.map_err(gone)?;
        if self.stream.unsent_bytes() == 0 {
            return self.stream.flush().await.map_err(gone);
        }
        Box::pin(self.send_rest()).await
    }

    /// Sends what the operating system did not take at once. It holds a share of the memory for responses meanwhile. If the
    /// future is dropped, the rest is sent with the next frame.
    async fn send_rest(&mut self) -> Result<(), WsError> {
        let bytes = self.stream.unsent_bytes();
        if bytes >= COUNTED_BYTES {
            // These bytes include the rest of an earlier frame.
            self.share = None;
            self.share = self.client.try_take(bytes);
            if self.share.is_none() {
                return Err(self.cut());
            }
        }
        loop {
            let before = self.stream.unsent_bytes();
            match timeout(TAKE_WITHIN, self.stream.flush()).await {
                Ok(flushed) => {
                    self.share = None;
                    return flushed.map_err(gone);
                }
                Err(_) if self.is_stuck(before) => return Err(self.cut()),
                Err(_) => {}
            }
        }
    }

    /// Gives up a client that takes nothing while the memory for responses is short.
    fn cut(&mut self) -> WsError {
        self.stats.hit(Limit::ResponsesBytes);
        self.stream.discard();
        (self.is_closed, self.share) = (true, None);
        WsError::Gone("it takes nothing, and the memory for responses is short".to_owned())
    }

    /// Closes the socket with a code of 1000–4999 and a reason, cut to 123 bytes, and waits a second for the
    /// client's answer.
    pub async fn close_with(mut self, code: u16, reason: &str) {
        self.begin_close(code, reason, true);
        self.end().await;
    }

    /// Closes the socket without waiting for the client's answer.
    async fn fail(&mut self, code: u16, reason: &str) {
        self.begin_close(code, reason, false);
        self.end().await;
    }

    /// Sends a close frame, unless one was sent or received.
    fn begin_close(&mut self, code: u16, reason: &str, awaits_answer: bool) {
        if !std::mem::replace(&mut self.is_closed, true) {
            let reason = &reason[..reason.floor_char_boundary(CONTROL_MAX - 2)];
            self.begin_end(&[&code.to_be_bytes()[..], reason.as_bytes()].concat(), awaits_answer);
        }
    }

    /// Queues the close frame, and starts the time for the client.
    fn begin_end(&mut self, payload: &[u8], awaits_answer: bool) {
        self.stream.queue(Opcode::Close, payload);
        self.ending = Some(Ending { until: Instant::now() + CLOSE_TIMEOUT, awaits_answer, is_shut: false });
    }

    /// Sends the close frame, waits for the answer, ends the connection, and reads what the client has still sent.
    /// Otherwise the operating system would answer those bytes with a reset, and the client could lose the close frame.
    /// If the future is dropped, the next one goes on.
    async fn end(&mut self) {
        let Self { stream, ending: Some(ending), .. } = self else { return };
        let steps = async {
            stream.flush().await?;
            while ending.awaits_answer {
                match poll_fn(|task| stream.poll_next(task)).await {
                    Ok(Some(Item::Close(_)) | None) | Err(_) => ending.awaits_answer = false,
                    Ok(Some(_)) => {}
                }
            }
            if !std::mem::replace(&mut ending.is_shut, true) {
                stream.io().shutdown().await?;
            }
            let mut buffer = [0; 1024];
            while stream.io().read(&mut buffer).await? > 0 {}
            Ok::<_, std::io::Error>(())
        };
        // A client that does not read, or has gone, is not waited for.
        drop(timeout_at(ending.until, steps).await);
        self.ending = None;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
fn gone(error: std::io::Error) -> WsError {
    WsError::Gone(error.to_string())
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_idle_socket_is_small() {
        assert!(size_of::<super::WebSocket>() <= 512, "{} bytes", size_of::<super::WebSocket>());
    }
}
