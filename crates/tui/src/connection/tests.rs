//! Connections to small test servers: one that is missing, one that refuses, one that dies.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rusm_protocol::{ClientMessage, Frame, ServerMessage, decode_client, encode};
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::*;
use crate::demo::Demo;
use crate::exit::Error;
use crate::model::message::{Fault, LinkEvent, Msg};

mod commands;

const DEADLINE: Duration = Duration::from_secs(10);

fn dialer(target: Target, folder: &Path) -> Dialer {
    Dialer {
        target,
        discovery: Discovery::in_folder(folder.to_owned()),
        token_file: None,
        timeout: Duration::from_secs(2),
        ssh: Vec::new(),
        tunnel: std::sync::Arc::default(),
    }
}

fn private_folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    folder
}

/// Takes messages out of the inbox until one matches.
async fn wait_for(inbox: &Inbox, what: impl Fn(&Msg) -> bool) -> Msg {
    let search = async {
        loop {
            if let Some(found) = inbox.drain().into_iter().find(|msg| what(msg)) {
                return found;
            }
            inbox.ready().await;
        }
    };
    timeout(DEADLINE, search).await.expect("the message comes")
}

async fn lost(inbox: &Inbox) -> (String, Fault) {
    match wait_for(inbox, |msg| matches!(msg, Msg::Link(LinkEvent::Lost { .. }))).await {
        Msg::Link(LinkEvent::Lost { reason, fault, .. }) => (reason, fault),
        other => panic!("{other:?}"),
    }
}

fn is_hello(msg: &Msg) -> bool {
    matches!(msg, Msg::Server(ServerMessage::Hello(_)))
}

/// Accepts the node's side of a handshake.
async fn accept<S>(stream: S) -> WebSocketStream<S>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    #[expect(clippy::result_large_err, reason = "the library defines the callback's type")]
    let callback = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        let requested = request.headers().get("sec-websocket-protocol").cloned().expect("a subprotocol is asked for");
        response.headers_mut().insert("sec-websocket-protocol", requested);
        Ok(response)
    };
    accept_hdr_async(stream, callback).await.expect("a handshake")
}

async fn greet<S>(socket: &mut WebSocketStream<S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    socket.send(Message::text(encode(&Demo::new(1).hello()))).await.unwrap();
}

#[tokio::test]
async fn messages_go_both_ways_over_a_unix_socket() {
    let folder = private_folder();
    let path = folder.path().join("kv.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let node = tokio::spawn(async move {
        let mut socket = accept(listener.accept().await.unwrap().0).await;
        greet(&mut socket).await;
        let text = socket.next().await.unwrap().unwrap();
        decode_client(text.to_text().unwrap()).unwrap()
    });
    let dialer = dialer(Target::Discover, folder.path());
    let inbox = Inbox::default();

    let outgoing = maintain(dialer.dial().await.unwrap(), dialer, inbox.clone());
    wait_for(&inbox, is_hello).await;
    outgoing.commands.send(ClientMessage::Watch { frame_hz: 4.0 }).await.unwrap();

    assert_eq!(timeout(DEADLINE, node).await.unwrap().unwrap(), ClientMessage::Watch { frame_hz: 4.0 });
}

#[tokio::test]
async fn a_node_that_dies_and_comes_back_is_attached_to_again() {
    let folder = private_folder();
    let path = folder.path().join("kv.sock");
    let mut listener = UnixListener::bind(&path).unwrap();
    let dialer = dialer(Target::Named("kv".to_owned()), folder.path());
    let inbox = Inbox::default();
    let (dialled, mut socket) = tokio::join!(dialer.dial(), async { accept(listener.accept().await.unwrap().0).await });
    greet(&mut socket).await;
    let outgoing = maintain(dialled.unwrap(), dialer, inbox.clone());
    wait_for(&inbox, is_hello).await;

    drop((socket, listener));
    std::fs::remove_file(&path).unwrap();
    let (reason, fault) = lost(&inbox).await;
    listener = UnixListener::bind(&path).unwrap();
    outgoing.retry.notify_one();
    let mut socket = accept(timeout(DEADLINE, listener.accept()).await.unwrap().unwrap().0).await;
    greet(&mut socket).await;

    assert!(reason.contains("broke") || reason.contains("closed"), "{reason}");
    assert_eq!(fault, Fault::Connection);
    wait_for(&inbox, is_hello).await;
}

#[tokio::test]
async fn the_reason_for_which_a_node_closes_is_shown() {
    let folder = private_folder();
    let listener = UnixListener::bind(folder.path().join("kv.sock")).unwrap();
    tokio::spawn(async move {
        let mut socket = accept(listener.accept().await.unwrap().0).await;
        let reason = "33rd\u{1b}[31m client".into();
        let close = CloseFrame { code: CloseCode::Policy, reason };
        socket.close(Some(close)).await.unwrap();
    });
    let dialer = dialer(Target::Discover, folder.path());
    let inbox = Inbox::default();

    let _outgoing = maintain(dialer.dial().await.unwrap(), dialer, inbox.clone());

    let expected = "closed by the node (1008): 33rd\u{fffd}[31m client".to_owned();
    assert_eq!(lost(&inbox).await, (expected, Fault::Protocol));
}

#[tokio::test]
async fn nonsense_is_said_and_skipped_and_what_follows_is_heard() {
    let folder = private_folder();
    let listener = UnixListener::bind(folder.path().join("kv.sock")).unwrap();
    tokio::spawn(async move {
        let mut socket = accept(listener.accept().await.unwrap().0).await;
        for text in [r#"{"type":"tick","frame":{"ops_per_sec":null}}"#, r#"{"type":"from_the_future"}"#] {
            socket.send(Message::text(text)).await.unwrap();
        }
        let frame = Box::new(Frame { seq: 7, ..Frame::default() });
        socket.send(Message::text(encode(&ServerMessage::Tick { frame }))).await.unwrap();
        socket.next().await
    });
    let dialer = dialer(Target::Discover, folder.path());
    let inbox = Inbox::default();

    let _outgoing = maintain(dialer.dial().await.unwrap(), dialer, inbox.clone());

    let said = std::cell::Cell::new(false);
    wait_for(&inbox, |msg| {
        said.set(said.get() || matches!(msg, Msg::Malformed(what) if what.contains("the node violated the protocol")));
        matches!(msg, Msg::Server(ServerMessage::Tick { frame }) if frame.seq == 7)
    })
    .await;
    assert!(said.get());
}

#[tokio::test]
async fn a_message_over_the_limit_ends_the_connection() {
    let folder = private_folder();
    let listener = UnixListener::bind(folder.path().join("kv.sock")).unwrap();
    tokio::spawn(async move {
        let mut socket = accept(listener.accept().await.unwrap().0).await;
        let text = "x".repeat(rusm_protocol::SERVER_MESSAGE_MAX_BYTES + 1);
        // The client closes the connection in the middle of the message.
        let _sent: Result<(), _> = socket.send(Message::text(text)).await;
    });
    let dialer = dialer(Target::Discover, folder.path());
    let inbox = Inbox::default();

    let _outgoing = maintain(dialer.dial().await.unwrap(), dialer, inbox.clone());

    let (reason, fault) = lost(&inbox).await;
    assert!(reason.contains("too long"), "the limit is named: {reason}");
    assert_eq!(fault, Fault::Protocol);
}

/// Returns how a connection ends after the node has sent these bytes and closed.
async fn lost_after(bytes: Vec<u8>) -> (String, Fault) {
    use tokio::io::AsyncWriteExt;
    let folder = private_folder();
    let listener = UnixListener::bind(folder.path().join("kv.sock")).unwrap();
    tokio::spawn(async move {
        let mut socket = accept(listener.accept().await.unwrap().0).await;
        socket.get_mut().write_all(&bytes).await
    });
    let dialer = dialer(Target::Discover, folder.path());
    let inbox = Inbox::default();
    let _outgoing = maintain(dialer.dial().await.unwrap(), dialer, inbox.clone());
    lost(&inbox).await
}

#[tokio::test]
async fn a_node_gone_in_the_middle_of_a_frame_is_a_lost_connection() {
    // A text frame that announces 4,096 bytes, but only 15 follow.
    let half = [&[0x81, 126, 0x10, 0x00][..], br#"{"type":"tick",""#].concat();

    let (reason, fault) = lost_after(half).await;

    assert!(reason.starts_with("the connection broke"), "{reason}");
    assert_eq!(fault, Fault::Connection);
}

#[tokio::test]
async fn what_no_node_sends_breaks_the_protocol() {
    let binary = vec![0x82, 1, 0];
    let masked = vec![0x81, 0x81, 1, 2, 3, 4, 5];
    let invalid = [&[0x81, 1][..], b"?"].concat().repeat(9);

    assert_eq!(lost_after(binary).await, ("the node sent a binary message".to_owned(), Fault::Protocol));
    assert_eq!(lost_after(masked).await.1, Fault::Protocol);
    let (reason, fault) = lost_after(invalid).await;
    assert!(reason.starts_with("the node violated the protocol: malformed message"), "{reason}");
    assert_eq!(fault, Fault::Protocol);
}

/// The request headers that a TCP node received.
#[derive(Debug, PartialEq)]
struct ReceivedHeaders {
    authorization: Option<String>,
    subprotocol: Option<String>,
    origin: bool,
}

async fn ask_over_tcp(token: Option<&str>, named: bool) -> ReceivedHeaders {
    let folder = private_folder();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let file = folder.path().join(format!("tcp-{port}.token"));
    if let Some(token) = token {
        std::fs::write(&file, token).unwrap();
    }
    let mut dialer = dialer(Target::Tcp { host: "127.0.0.1".to_owned(), port }, folder.path());
    dialer.token_file = named.then_some(file);
    let (sender, mut requested) = tokio::sync::mpsc::channel(1);
    let node = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        #[expect(clippy::result_large_err, reason = "the library defines the callback's type")]
        let callback = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
            let text = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let requested = ReceivedHeaders {
                authorization: text("authorization"),
                subprotocol: text("sec-websocket-protocol"),
                origin: text("origin").is_some(),
            };
            sender.try_send(requested).unwrap();
            response.headers_mut().insert("sec-websocket-protocol", rusm_protocol::SUBPROTOCOL.parse().unwrap());
            Ok(response)
        };
        accept_hdr_async(stream, callback).await.unwrap()
    });
    dialer.dial().await.unwrap();
    node.await.unwrap();
    requested.recv().await.unwrap()
}

#[tokio::test]
async fn over_tcp_the_token_and_the_subprotocol_are_sent_and_no_origin() {
    let expected = |token: Option<&str>| ReceivedHeaders {
        authorization: token.map(str::to_owned),
        subprotocol: Some("rusm.v1".to_owned()),
        origin: false,
    };

    assert_eq!(ask_over_tcp(Some("s3cret\n"), false).await, expected(Some("Bearer s3cret")));
    assert_eq!(ask_over_tcp(Some("s3cret"), true).await, expected(Some("Bearer s3cret")));
    assert_eq!(ask_over_tcp(None, false).await, expected(None));
}

#[tokio::test]
async fn over_a_unix_socket_the_subprotocol_is_asked_for_too() {
    let folder = private_folder();
    let listener = UnixListener::bind(folder.path().join("kv.sock")).unwrap();
    let node = tokio::spawn(async move { accept(listener.accept().await.unwrap().0).await });

    let dialled = dialer(Target::Discover, folder.path()).dial().await;

    node.await.expect("the node is asked for its protocol");
    dialled.unwrap();
}

#[tokio::test]
async fn a_refused_token_names_its_file_and_the_exit_code_is_4() {
    let folder = private_folder();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        #[expect(clippy::result_large_err, reason = "the library defines the callback's type")]
        let callback = |_: &Request, _: Response| -> Result<Response, ErrorResponse> {
            let mut refusal = ErrorResponse::new(Some("wrong token".to_owned()));
            *refusal.status_mut() = StatusCode::UNAUTHORIZED;
            Err(refusal)
        };
        accept_hdr_async(stream, callback).await
    });
    let dialer = dialer(Target::Tcp { host: "127.0.0.1".to_owned(), port }, folder.path());

    let error = Error::from(dialer.dial().await.err().unwrap());

    let line = error.to_string();
    assert!(line.contains("401 Unauthorized") && line.contains(&format!("tcp-{port}.token")), "{line}");
    assert!(line.contains("--token-file") && !line.contains('\n'));
    assert_eq!(error.code(), 4);
}

#[tokio::test]
async fn a_token_file_that_was_named_must_be_there() {
    let folder = private_folder();
    let mut dialer = dialer(Target::Tcp { host: "127.0.0.1".to_owned(), port: 1 }, folder.path());
    dialer.token_file = Some(folder.path().join("nowhere"));

    let error = Error::from(dialer.dial().await.err().unwrap());

    assert_eq!(error.code(), 2);
    assert!(matches!(error, Error::TokenFile { source, .. } if source.kind() == ErrorKind::NotFound));
}

#[tokio::test]
async fn what_is_no_node_is_named_so() {
    let folder = private_folder();
    let listener = UnixListener::bind(folder.path().join("kv.sock")).unwrap();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 16]).await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").await
    });

    let error = Error::from(dialer(Target::Discover, folder.path()).dial().await.err().unwrap());

    assert!(error.to_string().contains("is not a rusm node"), "{error}");
    assert_eq!(error.code(), 4);
}

#[tokio::test]
async fn half_a_handshake_is_given_up_in_time() {
    let folder = private_folder();
    let path = folder.path().join("kv.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let mut dialer = dialer(Target::Unix(path), folder.path());
    dialer.timeout = Duration::from_millis(100);

    let error = Error::from(dialer.dial().await.err().unwrap());

    assert!(error.to_string().ends_with("did not answer within 0.1 s"), "{error}");
    assert_eq!(error.code(), 3);
}

#[tokio::test]
async fn several_nodes_are_named_and_the_exit_code_is_3() {
    let folder = private_folder();
    let _nodes = ["b", "a"].map(|name| UnixListener::bind(folder.path().join(format!("{name}.sock"))).unwrap());

    let error = Error::from(dialer(Target::Discover, folder.path()).dial().await.err().unwrap());

    assert_eq!(error.to_string(), "several nodes are running here: a, b; name one, as in `rusm-top a`");
    assert_eq!(error.code(), 3);
}

#[tokio::test]
async fn an_empty_folder_says_what_to_do() {
    let folder = private_folder();

    let error = Error::from(dialer(Target::Discover, folder.path()).dial().await.err().unwrap());

    assert!(error.to_string().contains("start one with `rusm node`, name a target, or try --demo"), "{error}");
    assert_eq!(error.code(), 3);
}

#[tokio::test]
async fn a_stale_socket_is_no_node() {
    let folder = private_folder();
    drop(UnixListener::bind(folder.path().join("old.sock")).unwrap());

    let refused = Error::from(dialer(Target::Discover, folder.path()).dial().await.err().unwrap());
    let named = Error::from(dialer(Target::Named("old".to_owned()), folder.path()).dial().await.err().unwrap());
    let other = Error::from(dialer(Target::Named("new".to_owned()), folder.path()).dial().await.err().unwrap());

    assert!(refused.to_string().starts_with("nothing listens at unix:"), "{refused}");
    assert!(named.to_string().ends_with("old.sock: is the node running?"), "{named}");
    assert!(other.to_string().starts_with("no node named \"new\""), "{other}");
}

#[tokio::test]
async fn a_folder_that_others_can_enter_is_refused() {
    let folder = private_folder();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();

    let error = Error::from(dialer(Target::Discover, folder.path()).dial().await.err().unwrap());

    assert!(error.to_string().contains("is open to others (mode 755): chmod 700 it"), "{error}");
}
