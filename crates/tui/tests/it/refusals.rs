//! Output and exit code of `rusm-top` when a node refuses it, breaks the protocol or disappears.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusm_console::{Console, ConsoleConfig};
use rusm_protocol::{Hello, NodeInfo, PROTOCOL_VERSION, Role, ServerMessage, encode};
use rusm_runtime::{Config, Runtime};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Returns a folder in which test nodes can be found.
pub(crate) fn runtime_folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a temporary folder");
    let rusm = folder.path().join("rusm");
    std::fs::create_dir(&rusm).expect("a folder");
    std::fs::set_permissions(&rusm, Permissions::from_mode(0o700)).expect("permissions set");
    (folder, rusm)
}

fn rusm_top(program: &Path, runtime_folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("XDG_RUNTIME_DIR", runtime_folder).env("LANG", "C.UTF-8").stdin(Stdio::null());
    command.arg("--once").args(arguments);
    command
}

/// Runs the command and returns its exit code and the single line on stderr.
fn ended(command: &mut Command) -> (i32, String) {
    let output = command.output().expect("rusm-top runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(output.stdout.is_empty());
    (output.status.code().expect("an exit code"), text.trim_end().to_owned())
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_rusm-top"))
}

/// Starts a node of the real runtime, without scenarios.
pub(crate) fn node(rusm: &Path) -> (Runtime, Console) {
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("runtime starts");
    let config = ConsoleConfig { dir: rusm.to_owned(), ..ConsoleConfig::named("kv") };
    let console = Console::bind(&runtime, config).expect("console binds");
    (runtime, console)
}

#[test]
fn the_thirty_third_observer_is_exit_code_3() {
    let (folder, rusm) = runtime_folder();
    let (_runtime, console) = node(&rusm);
    let attach = || {
        let mut stream = UnixStream::connect(console.socket()).expect("a node");
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("send");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"HTTP/1.1 101");
        stream
    };
    let crowd: Vec<_> = (0..32).map(|_| attach()).collect();

    let (code, line) = ended(&mut rusm_top(program(), folder.path(), &["kv"]));

    assert!(
        line.contains("accepts no more observers") && line.contains("the limit of 32 attached observers is reached"),
        "{line}"
    );
    assert_eq!(code, 3);
    drop(crowd);
}

#[test]
fn over_tcp_a_wrong_token_and_a_wrong_address_are_exit_code_4_and_tell_apart() {
    let (folder, rusm) = runtime_folder();
    let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).expect("runtime starts");
    let listen = Some("127.0.0.1:0".parse().expect("an address"));
    let config = ConsoleConfig { dir: rusm, listen, ..ConsoleConfig::named("kv") };
    let console = Console::bind(&runtime, config).expect("console binds");
    let address = console.address().expect("TCP listener");
    let token = console.token_file().expect("TCP listener").display().to_string();
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "0123456789abcdef0123456789abcdef").expect("token file written");
    // A tunnel with a local port that differs from the node's port.
    let near = TcpListener::bind("127.0.0.1:0").expect("a port");
    let tunnel = near.local_addr().expect("local address").to_string();
    std::thread::spawn(move || {
        let (client, _) = near.accept().expect("rusm-top");
        let server = TcpStream::connect(address).expect("the node");
        let (mut from, mut to) = (client.try_clone().expect("a handle"), server.try_clone().expect("a handle"));
        std::thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
        drop(std::io::copy(&mut &server, &mut &client));
    });
    let requested = |target: &str, token: &str| {
        let mut command = rusm_top(program(), folder.path(), &[]);
        command.args(["--token-file", token, target]);
        command
    };

    let (code, line) = ended(&mut requested(&address.to_string(), &wrong.display().to_string()));
    assert!(line.contains("refused the token (401") && line.contains("try --token-file"), "{line}");
    assert_eq!(code, 4);

    let (code, line) = ended(&mut requested(&tunnel, &token));
    assert!(line.contains("refused the address (403") && line.contains("Host must be 127.0.0.1:"), "{line}");
    assert_eq!(code, 4);

    let seen = requested(&address.to_string(), &token).output().expect("rusm-top runs");
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
}

#[test]
fn nodes_are_looked_for_where_nodes_of_the_same_environment_leave_their_sockets() {
    let (folder, rusm) = runtime_folder();
    let (_runtime, _console) = node(&rusm);
    let elsewhere = TempDir::new().expect("a temporary folder");

    let mut command = rusm_top(program(), elsewhere.path(), &["kv"]);
    let (code, _) = ended(&mut command);
    assert_eq!(code, 3);
    let seen = command.env("RUSM_SOCKET_DIR", &rusm).output().expect("rusm-top runs");
    assert!(seen.status.success(), "{}", String::from_utf8_lossy(&seen.stderr));
    drop(folder);
}

#[test]
fn what_a_node_refuses_is_said_with_exit_code_2() {
    let (folder, rusm) = runtime_folder();
    let (_runtime, _console) = node(&rusm);
    let wrong = [
        (&["--profile", "ligth"][..], "profile ligth: "),
        (&["--run", "spawn-strom"], "run spawn-strom: "),
        (&["--filter", "foo>>1"], "foo"),
        (&["--json", "--tab", "processes", "--filter", "zz==1"], "zz"),
    ];
    for (arguments, says) in wrong {
        let (code, line) = ended(&mut rusm_top(program(), folder.path(), arguments));

        assert_eq!(code, 2, "{arguments:?}: {line}");
        assert!(line.contains(says), "{arguments:?}: {line}");
    }
}

#[test]
fn a_socket_that_we_may_not_open_is_refused_with_exit_code_4() {
    let (folder, rusm) = runtime_folder();
    let path = rusm.join("kv.sock");
    let _listener = UnixListener::bind(&path).expect("a socket");
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).expect("permissions set");
    let target = format!("unix:{}", path.display());
    // File modes do not stop root. Therefore root runs the program as another user, from a place that this user can
    // read.
    let copy = folder.path().join("rusm-top");
    let is_root = rustix::process::getuid().is_root();
    let mut command = if is_root {
        for open in [folder.path(), &rusm] {
            std::fs::set_permissions(open, Permissions::from_mode(0o755)).expect("permissions set");
        }
        // Copy in another process: a program cannot be executed while a fork of this process still has it open for
        // writing.
        let copied = Command::new("cp").arg(program()).arg(&copy).status();
        assert!(copied.expect("cp runs").success());
        let mut command = rusm_top(&copy, folder.path(), &[&target]);
        command.uid(65_534).current_dir("/");
        command
    } else {
        rusm_top(program(), folder.path(), &[&target])
    };

    let (code, line) = ended(&mut command);

    assert_eq!(line, format!("rusm-top: no permission to open {target}: it belongs to another user"));
    assert_eq!(code, 4);
}

/// Returns the exit code and the error line after a node has sent a greeting and these bytes, and then closed.
fn ended_after(bytes: &[u8]) -> (i32, String) {
    let (folder, rusm) = runtime_folder();
    let listener = UnixListener::bind(rusm.join("kv.sock")).expect("a socket");
    let said = [frame(0x81, hello().as_bytes()), bytes.to_vec()].concat();
    let node = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        shake_hands(&mut stream);
        stream.write_all(&said).expect("send");
        // The node leaves the client's data unread, so the connection ends in a reset, as when a process dies.
    });

    let ended = ended(&mut rusm_top(program(), folder.path(), &[]));

    node.join().expect("the node ends");
    ended
}

fn hello() -> String {
    encode(&ServerMessage::Hello(Box::new(Hello {
        scenarios: Vec::new(),
        profiles: Vec::new(),
        instance_capacity: 0,
        protocol_version: PROTOCOL_VERSION,
        role: Role::Observe,
        node: NodeInfo::default(),
    })))
}

/// Encodes a WebSocket frame of up to 65,535 bytes as a server sends it.
fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&[head, 126, length[0], length[1]], payload].concat()
}

fn shake_hands(stream: &mut UnixStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a request");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let lower = "sec-websocket-key:";
    let key = head.lines().find(|line| line.to_ascii_lowercase().starts_with(lower)).expect("a key");
    let accept = derive_accept_key(key[lower.len()..].trim().as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: rusm.v1\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).expect("send");
}

#[test]
fn a_node_that_breaks_the_protocol_is_exit_code_4() {
    let garbage = frame(0x81, b"garbage");
    let malformed_tick = frame(0x81, br#"{"type":"tick","frame":{"ops_per_sec":"many"}}"#);
    let binary = frame(0x82, b"\0\0\0");
    let oversized = [&[0x81, 127, 0, 0, 0, 0, 0, 0x30, 0, 0][..], &[b' '; 64]].concat();
    for (bytes, says) in [
        (garbage, "the node violated the protocol: malformed message"),
        (malformed_tick, "the node violated the protocol: malformed message"),
        (binary, "the node sent a binary message"),
        (oversized, "too long"),
    ] {
        let (code, line) = ended_after(&bytes);

        assert!(line.contains(says), "{says}: {line}");
        assert_eq!(code, 4, "{line}");
    }
}

#[test]
fn a_node_gone_in_the_middle_of_a_frame_is_exit_code_3() {
    let whole = frame(0x81, br#"{"type":"tick","frame":{}}"#);

    let (code, line) = ended_after(&whole[..12]);

    assert!(line.starts_with("rusm-top: the connection broke"), "{line}");
    assert_eq!(code, 3);
}
