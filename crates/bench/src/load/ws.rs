//! A WebSocket message sent and its answer.

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::options::Target;
use super::socket::Socket;

/// Bytes that wait, besides one message, for a server that does not read: answers to its pings.
const UNSENT_MAX_BYTES: usize = 2 << 20;

/// A connection to a server that answers each message.
pub(crate) struct WsLink(WebSocketStream<Socket>);

impl WsLink {
    pub(super) async fn open(stream: Socket, target: &Target) -> Result<Self, String> {
        let url = format!("ws://{}{}", target.host, target.path);
        let config = WebSocketConfig::default().max_write_buffer_size(target.options.payload + UNSENT_MAX_BYTES);
        let (socket, _) = client_async_with_config(url, stream, Some(config))
            .await
            .map_err(|error| format!("WebSocket handshake failed: {error}"))?;
        Ok(Self(socket))
    }

    /// Sends a message and waits for the next one.
    pub(super) async fn echo(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let message = Message::Binary(Bytes::copy_from_slice(bytes));
        self.0.send(message).await.map_err(|error| format!("cannot send: {error}"))?;
        while let Some(answer) = self.0.next().await {
            match answer.map_err(|error| format!("cannot read: {error}"))? {
                Message::Binary(_) | Message::Text(_) => return Ok(true),
                Message::Close(_) => break,
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        Err("the server closed the connection".to_owned())
    }
}
