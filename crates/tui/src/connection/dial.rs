//! Opens the WebSocket with all limits set, and explains every refusal.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusm_protocol::{SERVER_MESSAGE_MAX_BYTES, SUBPROTOCOL};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::discovery::Endpoint;
use crate::connection::tunnel::TunnelState;
use crate::connection::{Discovery, Target, sanitise};
use crate::exit::Error as ExitError;

/// Maximum number of unwritten bytes. Commands are small.
const WRITE_BUFFER_MAX: usize = 256 * 1024;

/// Maximum size of a token file, in bytes.
const TOKEN_FILE_MAX_BYTES: u64 = 64 * 1024;
/// Maximum length of a token, in bytes.
const TOKEN_MAX: usize = 4096;

/// A byte stream over a Unix socket or TCP.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// An open connection.
pub(crate) type Socket = WebSocketStream<Box<dyn Duplex>>;

/// Error returned when a connection cannot be opened.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    /// The target could not be found or parsed, or the token could not be read.
    #[error("{0}")]
    Target(#[from] ExitError),
    /// The node does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The node answered with a refusal.
    #[error("{0}")]
    Refused(String),
}

impl From<DialError> for ExitError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Target(error) => error,
            DialError::Unreachable(line) => Self::Connect(line),
            DialError::Refused(line) => Self::Refused(line),
        }
    }
}

/// Opens connections to one target.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) target: Target,
    pub(crate) discovery: Discovery,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) timeout: Duration,
    /// Command that runs ssh; empty for `ssh`.
    pub(crate) ssh: Vec<String>,
    /// Forwarded socket of a node on another machine. It ends with the last clone of the dialer.
    pub(crate) tunnel: Arc<Mutex<TunnelState>>,
}

/// An open connection. `over_ssh` is true if the local socket was opened by `ssh`, which forwards the bytes.
pub(crate) struct Dialled {
    pub(crate) socket: Socket,
    pub(crate) over_ssh: bool,
}

impl Dialer {
    /// Opens a connection.
    pub(crate) async fn dial(&self) -> Result<Dialled, DialError> {
        let endpoint = match &self.target {
            Target::Ssh(target) => {
                let socket = self.tunnel.lock().await.socket(target, &self.ssh).await;
                Endpoint::Unix(socket.map_err(DialError::Unreachable)?)
            }
            target => self.discovery.resolve(target).await?,
        };
        let attempt = self.open(&endpoint);
        tokio::time::timeout(self.timeout, attempt).await.unwrap_or_else(|_elapsed| {
            let seconds = self.timeout.as_secs_f64();
            Err(DialError::Unreachable(format!("{endpoint} did not answer within {seconds} s")))
        })
    }

    async fn open(&self, endpoint: &Endpoint) -> Result<Dialled, DialError> {
        let not_connected = |error: io::Error| explain(&error, endpoint);
        let mut over_ssh = false;
        let (stream, request, token_file): (Box<dyn Duplex>, Request, Option<PathBuf>) = match endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(not_connected)?;
                over_ssh = is_of_ssh(&stream) || matches!(self.target, Target::Ssh(_));
                (Box::new(stream), request("ws://localhost/")?, None)
            }
            Endpoint::Tcp { host, port } => {
                let token_file = self.token_file.clone().unwrap_or_else(|| self.discovery.token_file(host, *port));
                let token = self.token(&token_file).await?;
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(not_connected)?;
                stream.set_nodelay(true).map_err(not_connected)?;
                let mut request = request(&format!("{endpoint}/"))?;
                if let Some(token) = token {
                    request.headers_mut().insert(header::AUTHORIZATION, token);
                }
                (Box::new(stream), request, Some(token_file))
            }
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(SERVER_MESSAGE_MAX_BYTES))
            .max_frame_size(Some(SERVER_MESSAGE_MAX_BYTES))
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE_BUFFER_MAX);
        let shaken = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
        let dialled = |(socket, _)| Dialled { socket, over_ssh };
        shaken.map(dialled).map_err(|error| refusal(&error, endpoint, token_file.as_deref()))
    }

    /// Reads the token, if there is one. A token file named explicitly must exist.
    async fn token(&self, path: &Path) -> Result<Option<HeaderValue>, DialError> {
        // It may be a pipe. The screen must not wait for its writer.
        let file = path.to_owned();
        let read = spawn_blocking(move || rusm_text::read_file(file, TOKEN_FILE_MAX_BYTES)).await;
        let text = match read.unwrap_or_else(|stopped| Err(stopped.into())) {
            Ok(text) => text,
            Err(_) if self.token_file.is_none() => return Ok(None),
            Err(source) => return Err(ExitError::TokenFile { path: path.to_owned(), source }.into()),
        };
        let token = text.trim();
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        match header {
            Ok(mut header) if !token.is_empty() && token.len() <= TOKEN_MAX => {
                header.set_sensitive(true);
                Ok(Some(header))
            }
            _ => Err(ExitError::Usage(format!("{} does not contain a valid token", path.display())).into()),
        }
    }
}

/// Returns true if an SSH program opened the socket. A peer process that has disappeared counts as SSH, because `ssh`
/// may fork into the background after it opened the socket; nodes do not do that.
fn is_of_ssh(stream: &UnixStream) -> bool {
    let Some(pid) = stream.peer_cred().ok().and_then(|peer| peer.pid()).filter(|pid| *pid > 0) else { return false };
    std::fs::read_to_string(format!("/proc/{pid}/comm")).map_or_else(
        |error| error.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/comm").exists(),
        |name| ["ssh", "sshd", "sshd-session"].contains(&name.trim_end()),
    )
}

fn explain(error: &io::Error, endpoint: &Endpoint) -> DialError {
    use DialError::{Refused, Unreachable};
    match error.kind() {
        io::ErrorKind::NotFound => Unreachable(format!("no socket exists at {endpoint}: is the node running?")),
        io::ErrorKind::ConnectionRefused => Unreachable(format!("nothing listens at {endpoint}: is the node running?")),
        io::ErrorKind::PermissionDenied => {
            Refused(format!("no permission to open {endpoint}: it belongs to another user"))
        }
        _ => Unreachable(format!("cannot connect to {endpoint}: {error}")),
    }
}

fn refusal(error: &WsError, target: &Endpoint, token_file: Option<&Path>) -> DialError {
    let WsError::Http(response) = error else {
        return match error {
            WsError::Io(error) => DialError::Unreachable(format!("{target} aborted the handshake: {error}")),
            error => DialError::Refused(format!("{target} is not a rusm node: {error}")),
        };
    };
    let status = response.status();
    let detail = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let detail = sanitise::line(detail.lines().next().unwrap_or_default());
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    match (status.as_u16(), token_file) {
        (401, Some(file)) => DialError::Refused(format!(
            "{target} refused the token ({status}{detail}): the token in {} is wrong or missing, try --token-file",
            file.display()
        )),
        // For example, a tunnel with a local port that differs from the node's port.
        (403, Some(_)) => DialError::Refused(format!("{target} refused the address ({status}{detail})")),
        (401 | 403, None) => DialError::Refused(format!("{target} refused this user ({status}{detail})")),
        (503, _) => DialError::Unreachable(format!("{target} accepts no more observers ({status}{detail})")),
        _ => DialError::Refused(format!("{target} is not a rusm node ({status}{detail})")),
    }
}

/// Creates the request for a WebSocket with our subprotocol.
fn request(url: &str) -> Result<Request, DialError> {
    let request = url.into_client_request();
    let mut request = request.map_err(|error| DialError::Refused(format!("{url} is not a valid address: {error}")))?;
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    Ok(request)
}
