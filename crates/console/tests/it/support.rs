//! A node with a console, and clients for tests; everything goes through real sockets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use rusm_console::{Console, ConsoleConfig, Host, HostError, Limits, RunSnapshot};
use rusm_protocol::{ErrorCode, ResourceProfileMeta, ScenarioMeta};
use rusm_runtime::{Config, Pid, Runtime};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::Role as WsRole;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

/// Maximum time to wait for any expected event.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// A node with a console on both listeners.
pub(crate) struct Node {
    pub(crate) console: Console,
    pub(crate) runtime: Runtime,
    pub(crate) host: Arc<Recorder>,
    pub(crate) dir: tempfile::TempDir,
}

/// Limits that a test client does not exceed by accident.
pub(crate) fn generous() -> Limits {
    Limits {
        commands_per_sec: 100_000,
        messages_per_sec: 100_000,
        bytes_per_sec: 100_000_000,
        write: DEADLINE,
        ..Limits::default()
    }
}

pub(crate) fn node() -> Node {
    node_with(|_| {})
}

pub(crate) fn node_with(change: impl FnOnce(&mut ConsoleConfig)) -> Node {
    // A short pause of the machine must not mark a process as stuck.
    node_of(&Config { stuck_after: Duration::from_secs(5), ..Config::default() }, change)
}

pub(crate) fn node_of(config: &Config, change: impl FnOnce(&mut ConsoleConfig)) -> Node {
    let runtime = Runtime::start(Config { schedulers: 2, ..config.clone() }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let host = Arc::new(Recorder::default());
    let mut config = ConsoleConfig {
        dir: dir.path().join("rusm"),
        listen: Some("127.0.0.1:0".parse().unwrap()),
        host: Arc::clone(&host) as Arc<dyn Host>,
        ..ConsoleConfig::named("test")
    };
    change(&mut config);
    let console = Console::bind(&runtime, config).unwrap();
    Node { console, runtime, host, dir }
}

impl Node {
    pub(crate) fn port(&self) -> u16 {
        self.console.address().unwrap().port()
    }

    pub(crate) fn control_token(&self) -> String {
        std::fs::read_to_string(self.console.token_file().unwrap()).unwrap().trim().to_owned()
    }

    pub(crate) fn observe_token(&self) -> String {
        let file = self.console.socket().with_file_name(format!("tcp-{}.observe.token", self.port()));
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// Attaches through the Unix socket.
    pub(crate) async fn attach(&self) -> Client {
        let stream = UnixStream::connect(self.console.socket()).await.unwrap();
        Client::shake_hands("ws://localhost/".into_client_request().unwrap(), Box::new(stream)).await.unwrap()
    }

    /// Attaches over TCP with a token.
    pub(crate) async fn attach_tcp(&self, token: &str) -> Client {
        let stream = TcpStream::connect(self.console.address().unwrap()).await.unwrap();
        Client::shake_hands(self.request(token), Box::new(stream)).await.unwrap()
    }

    pub(crate) fn request(&self, token: &str) -> Request {
        let mut request = format!("ws://127.0.0.1:{}/", self.port()).into_client_request().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", "rusm.v1".parse().unwrap());
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        request
    }

    /// Sends bytes to the TCP port and reads until the node closes the connection.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.console.address().unwrap()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(DEADLINE, stream.read_to_string(&mut answer)).await.expect("the node closes the connection").unwrap();
        answer
    }

    /// Sends bytes to the TCP port and reads the head of the response.
    pub(crate) async fn ask_head(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.console.address().unwrap()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(DEADLINE, stream.read_u8()).await.expect("the node answers").unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    /// Returns a request for a WebSocket with these additional header lines.
    pub(crate) fn upgrade(headers: &str) -> String {
        format!(
            "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        )
    }

    /// Waits until a condition on the runtime holds.
    pub(crate) async fn settles(&self, what: &str, done: impl Fn(&Runtime) -> bool) {
        let look = async {
            while !done(&self.runtime) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(DEADLINE, look).await.unwrap_or_else(|_| panic!("{what} did not happen"));
    }

    /// Spawns a process that waits forever.
    pub(crate) fn parked(&self) -> Pid {
        self.runtime.spawn(|ctx| async move { drop(ctx.receive_match(|_| false).await) }).unwrap()
    }
}

pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Duplex for S {}

/// An observer that uses nothing but JSON.
pub(crate) struct Client {
    pub(crate) socket: WebSocketStream<Box<dyn Duplex>>,
}

/// End of a connection: the close code and reason, if any was received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Closed(pub(crate) Option<(u16, String)>);

impl Client {
    pub(crate) async fn shake_hands(request: Request, stream: Box<dyn Duplex>) -> Result<Self, WsError> {
        let handshake = tokio_tungstenite::client_async(request, stream);
        let (socket, _) = timeout(DEADLINE, handshake).await.expect("the node answers")?;
        Ok(Self { socket })
    }

    /// Connects through the Unix socket; after the handshake, the client writes its own frames.
    pub(crate) async fn raw(node: &Node) -> Self {
        let mut stream = UnixStream::connect(node.console.socket()).await.unwrap();
        stream.write_all(Node::upgrade("Host: localhost\r\n").as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(timeout(DEADLINE, stream.read_u8()).await.expect("the node answers").unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        let stream: Box<dyn Duplex> = Box::new(stream);
        Self { socket: WebSocketStream::from_raw_socket(stream, WsRole::Client, None).await }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).await.unwrap();
    }

    /// Returns the next message, or the end of the connection.
    pub(crate) async fn next(&mut self) -> Result<Value, Closed> {
        loop {
            match timeout(DEADLINE, self.socket.next()).await.expect("the node sends a message") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => {
                    return Err(Closed(frame.map(|frame| (frame.code.into(), frame.reason.to_string()))));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(Closed(None)),
            }
        }
    }

    /// Waits for the next message from which `wanted` returns a value.
    pub(crate) async fn pick<T>(&mut self, mut wanted: impl FnMut(&Value) -> Option<T>) -> T {
        let search = async {
            loop {
                let message = self.next().await.expect("the connection stays open");
                if let Some(found) = wanted(&message) {
                    return found;
                }
            }
        };
        timeout(DEADLINE, search).await.expect("the node sends the expected message")
    }

    /// Waits for the next message of a type.
    pub(crate) async fn next_of(&mut self, kind: &str) -> Value {
        self.pick(|message| (message["type"] == kind).then(|| message.clone())).await
    }

    /// Waits for the next frame.
    pub(crate) async fn frame(&mut self) -> Value {
        self.next_of("tick").await["frame"].take()
    }

    /// Sends a view and returns the rows of the response.
    pub(crate) async fn rows(&mut self, view: &Value) -> Value {
        self.send(&view.to_string()).await;
        self.pick(|message| (message["type"] == "rows" && message["id"] == view["id"]).then(|| message.clone())).await
    }

    /// Sends a message that must cause an error, and returns the error.
    pub(crate) async fn refused(&mut self, text: &str) -> Value {
        self.send(text).await;
        self.next_of("error").await
    }

    /// Waits for the end of the connection.
    pub(crate) async fn end(&mut self) -> Closed {
        let end = async {
            loop {
                if let Err(closed) = self.next().await {
                    return closed;
                }
            }
        };
        timeout(DEADLINE, end).await.expect("the connection ends")
    }
}

/// Maximum length of a client's message, in bytes.
pub(crate) const MESSAGE_MAX: usize = 64 * 1024;

/// Returns a masked frame as a client sends it; the mask is all zeros.
pub(crate) fn frame(first_byte: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first_byte];
    match payload.len() {
        len @ 0..=125 => frame.push(0x80 | len as u8),
        len @ 126..=0xffff => {
            frame.push(0x80 + 126);
            frame.extend((len as u16).to_be_bytes());
        }
        len => {
            frame.push(0x80 + 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

pub(crate) const TEXT: u8 = 0x81;
pub(crate) const BINARY: u8 = 0x82;
pub(crate) const PING: u8 = 0x89;

/// A host that records every call.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    calls: Mutex<Vec<String>>,
    run: Mutex<RunSnapshot>,
}

impl Recorder {
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    fn note(&self, call: String) {
        self.calls.lock().push(call);
    }
}

impl Host for Recorder {
    fn scenarios(&self) -> Vec<ScenarioMeta> {
        vec![ScenarioMeta { id: "spawn-storm".to_owned(), label: "Spawn storm".to_owned(), ..ScenarioMeta::default() }]
    }

    fn profiles(&self) -> Vec<ResourceProfileMeta> {
        let profile = |id: &str| ResourceProfileMeta { id: id.to_owned(), ..ResourceProfileMeta::default() };
        ["light", "balanced", "max"].map(profile).to_vec()
    }

    fn run(&self, scenario: &str, params: &BTreeMap<String, String>) -> Result<(), HostError> {
        self.note(format!("run {scenario} {params:?}"));
        if scenario != "spawn-storm" {
            let message = format!("unknown scenario {scenario:?}: did you mean spawn-storm?");
            return Err(HostError { code: ErrorCode::Unknown, message });
        }
        let mut run = self.run.lock();
        *run = RunSnapshot { scenario: Some(scenario.to_owned()), run_id: run.run_id + 1, ..run.clone() };
        Ok(())
    }

    fn stop(&self) {
        self.note("stop".to_owned());
        self.run.lock().scenario = None;
    }

    fn pause(&self, paused: bool) -> Result<(), HostError> {
        let mut run = self.run.lock();
        if run.scenario.is_none() {
            return Err(HostError { code: ErrorCode::Failed, message: "no scenario runs".to_owned() });
        }
        run.paused = paused;
        Ok(())
    }

    fn set_profile(&self, profile: &str) -> Result<(), HostError> {
        self.note(format!("profile {profile}"));
        profile.clone_into(&mut self.run.lock().profile);
        Ok(())
    }

    fn sample(&self) -> RunSnapshot {
        let mut run = self.run.lock();
        run.ops += 1000;
        run.clone()
    }
}
