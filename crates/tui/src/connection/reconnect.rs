//! Serves a connection until it is lost, then reconnects after a growing back-off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rusm_protocol::{ClientMessage, DecodeError, decode_server, encode};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::error::{Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::connection::{Dialer, Dialled, Inbox, Socket, Target, sanitise};
use crate::exit::Error as ExitError;
use crate::model::message::{Fault, LinkEvent, Msg};

/// Back-off before the first reconnect attempt. It doubles up to one of the maxima below: an attempt on a local socket
/// costs almost nothing, but an attempt over a network should not add to whatever broke the connection.
const BACK_OFF_MIN: Duration = Duration::from_millis(250);
const BACK_OFF_MAX_LOCAL: Duration = Duration::from_secs(1);
const BACK_OFF_MAX_NETWORK: Duration = Duration::from_secs(4);

/// Interval of pings. A node that stays silent for `SILENCE_MAX` counts as gone.
const PING_EVERY: Duration = Duration::from_secs(15);
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Number of consecutive invalid messages after which the connection is given up.
const MALFORMED_MAX: u32 = 8;

/// Maximum time to write a command.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// The event loop's side of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionHandle {
    /// Sender of commands to the node.
    pub(crate) commands: mpsc::Sender<ClientMessage>,
    /// Ends the back-off before the next attempt.
    pub(crate) retry: Arc<Notify>,
    /// Total number of bytes received.
    pub(crate) received_bytes: Arc<AtomicU64>,
    /// True if the first connection went through `ssh`.
    pub(crate) over_ssh: bool,
}

/// Starts the task that serves this connection and all later ones, until the command sender is dropped.
pub(crate) fn maintain(dialled: Dialled, dialer: Dialer, inbox: Inbox) -> ConnectionHandle {
    let Dialled { socket, over_ssh } = dialled;
    let (sender, commands) = mpsc::channel(64);
    let retry = Arc::new(Notify::new());
    let received_bytes = Arc::new(AtomicU64::new(0));
    let reconnector =
        Reconnector { dialer, inbox, commands, retry: Arc::clone(&retry), received_bytes: Arc::clone(&received_bytes) };
    tokio::spawn(reconnector.run(socket));
    ConnectionHandle { commands: sender, retry, received_bytes, over_ssh }
}

/// Why a connection ended or could not be opened.
#[derive(Debug)]
struct ConnectionLoss {
    reason: String,
    fault: Fault,
}

impl ConnectionLoss {
    fn connection(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Connection }
    }

    fn protocol(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), fault: Fault::Protocol }
    }
}

impl From<WsError> for ConnectionLoss {
    fn from(error: WsError) -> Self {
        let fault = match error {
            WsError::Io(_)
            | WsError::ConnectionClosed
            | WsError::AlreadyClosed
            | WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Fault::Connection,
            _ => Fault::Protocol,
        };
        Self { reason: format!("the connection broke: {error}"), fault }
    }
}

struct Reconnector {
    dialer: Dialer,
    inbox: Inbox,
    commands: mpsc::Receiver<ClientMessage>,
    retry: Arc<Notify>,
    received_bytes: Arc<AtomicU64>,
}

impl Reconnector {
    async fn run(mut self, socket: Socket) {
        let mut next = Some(socket);
        let mut attempt = 0;
        while !self.commands.is_closed() {
            let loss = if let Some(socket) = next.take() {
                attempt = 0;
                self.post(LinkEvent::Connected).await;
                let Err(loss) = self.serve(socket).await else { return };
                loss
            } else {
                self.post(LinkEvent::Connecting).await;
                match self.dialer.dial().await {
                    Ok(dialled) => {
                        self.forget_commands();
                        next = Some(dialled.socket);
                        continue;
                    }
                    Err(error) => {
                        attempt += 1;
                        let reason = sanitise::line(&error.to_string());
                        let refused = ExitError::from(error).code() == ExitError::REFUSED;
                        ConnectionLoss { reason, fault: if refused { Fault::Protocol } else { Fault::Connection } }
                    }
                }
            };
            tracing::info!(loss.reason, attempt, "connection lost");
            self.pause(loss, attempt).await;
        }
    }

    async fn post(&self, event: LinkEvent) {
        self.inbox.post(Msg::Link(event)).await;
    }

    /// Discards commands sent while disconnected: they were meant for the previous node. The new connection may reach
    /// another node, where the same pid is another process.
    fn forget_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            tracing::debug!(?command, "dropped: meant for the previous node");
        }
    }

    /// Waits before the next attempt. Commands sent meanwhile are dropped.
    async fn pause(&mut self, loss: ConnectionLoss, attempt: u32) {
        let retry_in = back_off(&self.dialer.target, attempt);
        self.post(LinkEvent::Lost { reason: loss.reason, fault: loss.fault, attempt, retry_in }).await;
        let pause = sleep(retry_in);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return,
                () = self.retry.notified() => return,
                command = self.commands.recv() => if command.is_none() { return },
            }
        }
    }

    /// Carries messages in both directions until one side closes. Returns `Ok` if this side closed.
    async fn serve(&mut self, mut socket: Socket) -> Result<(), ConnectionLoss> {
        let mut pings = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        let mut last_received = Instant::now();
        let mut malformed_count = 0;
        loop {
            tokio::select! {
                command = self.commands.recv() => {
                    let Some(command) = command else {
                        let bye = timeout(WRITE_TIMEOUT, socket.close(None)).await;
                        tracing::debug!(?bye, "closed the connection");
                        return Ok(());
                    };
                    write(&mut socket, Message::text(encode(&command))).await?;
                }
                message = socket.next() => {
                    last_received = Instant::now();
                    match message {
                        Some(Ok(message)) => self.receive(message, &mut malformed_count).await?,
                        Some(Err(error)) => return Err(error.into()),
                        None => return Err(ConnectionLoss::connection("the node closed the connection")),
                    }
                }
                _ = pings.tick() => {
                    if last_received.elapsed() > SILENCE_MAX {
                        return Err(ConnectionLoss::connection(format!("the node was silent for {} s", SILENCE_MAX.as_secs())));
                    }
                    write(&mut socket, Message::Ping(Bytes::new())).await?;
                }
            }
        }
    }

    /// Handles one message. A few invalid messages are reported and skipped, since messages are independent.
    async fn receive(&self, message: Message, malformed_count: &mut u32) -> Result<(), ConnectionLoss> {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(Some(close)) => {
                let reason = sanitise::line(&close.reason);
                let reason = format!("closed by the node ({}): {reason}", u16::from(close.code));
                let fault = if is_our_fault(close.code) { Fault::Protocol } else { Fault::Connection };
                return Err(ConnectionLoss { reason, fault });
            }
            Message::Close(None) => return Err(ConnectionLoss::connection("closed by the node")),
            Message::Binary(_) => return Err(ConnectionLoss::protocol("the node sent a binary message")),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Ok(()),
        };
        self.received_bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        match decode_server(&text) {
            Ok(message) => {
                *malformed_count = 0;
                self.inbox.post(Msg::Server(sanitise::message(message))).await;
            }
            Err(DecodeError::Unknown { name, .. }) => tracing::debug!(name, "skipped a message of a newer version"),
            Err(error) => {
                *malformed_count += 1;
                let message = sanitise::line(&format!("the node violated the protocol: {error}"));
                tracing::warn!(message);
                if *malformed_count > MALFORMED_MAX {
                    return Err(ConnectionLoss::protocol(message));
                }
                self.inbox.post(Msg::Malformed(message)).await;
            }
        }
        Ok(())
    }
}

async fn write(socket: &mut Socket, message: Message) -> Result<(), ConnectionLoss> {
    match timeout(WRITE_TIMEOUT, socket.send(message)).await {
        Ok(sent) => sent.map_err(ConnectionLoss::from),
        Err(_) => Err(ConnectionLoss::connection(format!("the node read nothing for {} s", WRITE_TIMEOUT.as_secs()))),
    }
}

/// Returns true if this close code means that the node rejects our behaviour, not that it merely shuts down.
const fn is_our_fault(code: CloseCode) -> bool {
    use CloseCode::{Invalid, Policy, Protocol, Size, Unsupported};
    matches!(code, Invalid | Policy | Protocol | Size | Unsupported)
}

/// Returns the back-off after `attempt` failed attempts.
fn back_off(target: &Target, attempt: u32) -> Duration {
    let max = match target {
        Target::Discover | Target::Named(_) | Target::Unix(_) => BACK_OFF_MAX_LOCAL,
        Target::Tcp { .. } | Target::Ssh(_) => BACK_OFF_MAX_NETWORK,
    };
    BACK_OFF_MIN.saturating_mul(1 << attempt.min(10)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_to_a_second_on_this_machine_and_to_four_over_a_network() {
        let pauses = |target: &Target| [0, 1, 2, 3, 4, 99].map(|attempt| back_off(target, attempt).as_millis());

        assert_eq!(pauses(&Target::Named("kv".to_owned())), [250, 500, 1000, 1000, 1000, 1000]);
        assert_eq!(pauses(&"ws://[::1]:4000".parse().unwrap()), [250, 500, 1000, 2000, 4000, 4000]);
    }
}
