//! Runs every example as a user would run it.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, ChildStdout, Command};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Maximum time to wait for an event, generous enough for a busy machine.
const DEADLINE: Duration = Duration::from_mins(2);

async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(DEADLINE, event).await;
    waited.unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"))
}

/// A running example and the lines that it prints.
struct Example {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Example {
    fn start(program: &str, arguments: &[&str], runtime_dir: &Path) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .env("XDG_RUNTIME_DIR", runtime_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    async fn line(&mut self) -> String {
        let line = soon("a line", self.lines.next_line()).await.unwrap();
        line.expect("the example prints another line")
    }

    fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("the example is running");
        kill_process(pid, signal).unwrap();
    }

    /// Returns the lines that were not read yet, and the exit status.
    async fn end(mut self) -> (Vec<String>, ExitStatus) {
        let mut rest = Vec::new();
        while let Some(line) = soon("the last line", self.lines.next_line()).await.unwrap() {
            rest.push(line);
        }
        (rest, soon("the end", self.child.wait()).await.unwrap())
    }
}

#[tokio::test]
async fn hello_says_who_heard_what_and_why_each_process_ended() {
    let home = tempfile::tempdir().unwrap();

    let (lines, status) = Example::start(env!("CARGO_BIN_EXE_hello"), &[], home.path()).end().await;

    assert!(status.success(), "{lines:?}");
    assert!(lines[0].ends_with("hello, world"), "{lines:?}");
    assert_eq!(lines[1], "the customer ended: 2 coins are not enough");
    assert!(lines[2].starts_with("the juggler ended: panic at "), "{lines:?}");
    assert!(lines[2].contains("hello.rs") && lines[2].contains("index out of bounds"), "{lines:?}");
    assert_eq!(lines[3], "the till ended: received a char, which it does not handle");
    assert_eq!(lines[4], "the greeter ended: shutdown: closing time");
}

#[tokio::test]
async fn cache_breaker_chat_and_job_queue_do_what_they_say() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("jobs.redb");
    let file = file.to_str().unwrap();
    let run = async |program: &str, arguments: &[&str]| {
        let (lines, status) = Example::start(program, arguments, home.path()).end().await;
        assert!(status.success(), "{program}: {lines:?}");
        lines
    };

    let cache = run(env!("CARGO_BIN_EXE_cache"), &[]).await;
    assert_eq!(cache[0], r#"colour: Some("blue")"#);
    assert_eq!(cache[1..], [r#"colour has expired, shape: Some("round")"#, "hits: 2 or more"]);
    let breaker = run(env!("CARGO_BIN_EXE_breaker"), &[]).await;
    assert_eq!(breaker, ["open: calls are refused", "half open: one call may try", "closed again: true"]);
    let chat = run(env!("CARGO_BIN_EXE_chat"), &[]).await;
    assert_eq!((chat.len(), &*chat[3]), (4, "Bob hears: Bob: anybody here?"), "{chat:?}");
    let mut jobs = run(env!("CARGO_BIN_EXE_job_queue"), &[file]).await;
    assert_eq!(jobs.pop().as_deref(), Some("all orders are served"));
    jobs.sort();
    let served = ["ada is served at attempt 1", "bob is served at attempt 2", "cleo is served at attempt 1"];
    assert_eq!(jobs, served);
    let again = run(env!("CARGO_BIN_EXE_job_queue"), &[file]).await;
    assert_eq!(again.len(), 4, "a second run enqueues the same jobs again: {again:?}");
}

#[tokio::test]
async fn ping_pong_counts_its_round_trips() {
    let home = tempfile::tempdir().unwrap();

    let (lines, status) = Example::start(env!("CARGO_BIN_EXE_ping_pong"), &["2000"], home.path()).end().await;

    assert!(status.success(), "{lines:?}");
    assert!(lines[0].starts_with("2000 round trips in ") && lines[0].ends_with(" M round trips/s"), "{lines:?}");
}

#[tokio::test]
async fn lost_update_prints_the_seed_of_its_race_and_replays_it() {
    let (home, program) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_lost_update"));

    let (lines, status) = Example::start(program, &[], home.path()).end().await;
    let seed = lines[0].split_whitespace().find(|word| word.starts_with("RUSM_SEED=")).expect("the seed is printed");
    let (again, _) = Example::start("env", &[seed, program], home.path()).end().await;

    assert!(status.success(), "{lines:?}");
    assert!(lines[0].contains("a balance of 1 after two deposits"), "{lines:?}");
    assert!(lines[1].starts_with("  last turns: "), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "deposit: no schedule fails");
    assert_eq!(again, lines);
}

async fn echo_of(stream: &mut TcpStream, text: &str) -> String {
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = vec![0; text.len()];
    soon("an echo", stream.read_exact(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn tcp_echo_answers_each_of_its_connections() {
    let home = tempfile::tempdir().unwrap();
    let mut echo = Example::start(env!("CARGO_BIN_EXE_tcp_echo"), &["0"], home.path());
    let line = echo.line().await;
    let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()).expect("an address first");

    let mut first = soon("a connection", TcpStream::connect(address)).await.unwrap();
    let mut second = soon("a connection", TcpStream::connect(address)).await.unwrap();
    assert_eq!(echo_of(&mut second, "two").await, "two");
    assert_eq!(echo_of(&mut first, "one").await, "one");
    assert_eq!(echo_of(&mut second, "three").await, "three");
    echo.interrupt();
    let (lines, status) = echo.end().await;

    assert!(status.success(), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("served 2 connections"), "{lines:?}");
}

/// Returns the first message of the wanted type for which `fits` is true; skips all other messages.
/// Sends a request, and returns the status line and the body of the response.
async fn http(address: &str, path: &str) -> (String, String) {
    let mut stream = soon("a connection", TcpStream::connect(address)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    soon("a response", stream.read_to_string(&mut response)).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test]
async fn axum_app_answers_each_request_in_a_process_that_may_crash() {
    let home = tempfile::tempdir().unwrap();
    let mut app = Example::start(env!("CARGO_BIN_EXE_axum_app"), &["0"], home.path());
    let line = app.line().await;
    let address = line.strip_prefix("http://").and_then(|rest| rest.split(' ').next()).expect("an address first");

    let (status, first) = http(address, "/pages/tea").await;
    assert!(status.ends_with("200 OK") && first.starts_with("visit 1 of tea, by process <"), "{status} {first}");
    assert!(http(address, "/crash").await.0.ends_with("500 Internal Server Error"));
    assert!(http(address, "/nowhere").await.0.ends_with("404 Not Found"));
    let (_, second) = http(address, "/pages/tea").await;
    assert!(second.starts_with("visit 2 of tea, by process <"), "{second}");
    assert_ne!(first.split("process").nth(1), second.split("process").nth(1));
    app.interrupt();
    let (_, status) = app.end().await;

    assert!(status.success());
}

#[tokio::test]
async fn tokio_app_calls_an_actor_and_ends_in_order_on_sigterm() {
    let home = tempfile::tempdir().unwrap();
    let mut app = Example::start(env!("CARGO_BIN_EXE_tokio_app"), &["0"], home.path());
    let line = app.line().await;
    let address = line.strip_prefix("http://").and_then(|rest| rest.split(' ').next()).expect("an address first");

    for visit in 1..=2 {
        let (status, body) = http(address, "/pages/tea").await;
        assert!(status.ends_with("200 OK"), "{status}");
        assert_eq!(body, format!("visit {visit} of tea\n"));
    }
    app.signal(Signal::TERM);
    let (rest, status) = app.end().await;

    assert!(status.success());
    assert_eq!(rest, ["1 pages were visited; 0 processes were killed"]);
}

async fn hear(socket: &mut WebSocketStream<UnixStream>, wanted: &str, fits: impl Fn(&Value) -> bool) -> Value {
    soon(wanted, async {
        loop {
            let message = socket.next().await.expect("the node keeps the connection").unwrap();
            let Message::Text(text) = message else { continue };
            let value: Value = serde_json::from_str(&text).unwrap();
            if value["type"] == wanted && fits(&value) {
                return value;
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_application_with_a_console_tells_any_client_about_its_processes() {
    let home = tempfile::tempdir().unwrap();
    let mut shop = Example::start(env!("CARGO_BIN_EXE_observe_your_own_app"), &[], home.path());
    let line = shop.line().await;
    let path = line.strip_prefix("watch it with: rusm-top ").expect("the first line says how to attach").to_owned();

    let stream = soon("a connection", UnixStream::connect(&path)).await.unwrap();
    let (mut socket, _) =
        soon("a handshake", tokio_tungstenite::client_async("ws://localhost/", stream)).await.unwrap();
    let hello = hear(&mut socket, "hello", |_| true).await;
    let everybody = |tick: &Value| tick["frame"]["observer"]["process_count"] == 42;
    hear(&mut socket, "tick", everybody).await;
    let view = r#"{"type":"view","id":7,"columns":["name","parent"],"filter":"name=kitchen","window":{"len":10}}"#;
    socket.send(Message::text(view)).await.unwrap();
    let rows = hear(&mut socket, "rows", |rows| rows["matched"] == 1).await;
    shop.interrupt();
    let (lines, status) = shop.end().await;

    assert_eq!(hello["node"]["name"], "shop");
    assert_eq!(hello["role"], "control");
    assert_eq!((&rows["id"], &rows["rows"][0][0]), (&Value::from(7), &Value::from("kitchen")), "{rows}");
    assert!(status.success(), "{lines:?}");
    assert!(!Path::new(&path).exists(), "the node removes its socket when it stops");
}

#[tokio::test]
async fn durable_orders_brings_back_what_was_not_served_when_it_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("orders.redb").display().to_string();
    let orders = || Example::start(env!("CARGO_BIN_EXE_durable_orders"), &[&file], home.path());
    let mut first = orders();
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.starts_with("the milk boils over")) {
        said.push(first.line().await);
    }
    first.child.kill().await.unwrap();

    let (lines, status) = orders().end().await;

    assert_eq!(
        said[1..],
        [
            "ordered tea",
            "ordered milk",
            "ordered sugar",
            "tea, attempt 1",
            "tea is served",
            "milk, attempt 1",
            said.last().unwrap()
        ]
    );
    assert!(status.success(), "{lines:?}");
    assert!(lines[0].starts_with("2 orders are left in "), "{lines:?}");
    let again = ["milk, attempt 2", "milk is served", "sugar, attempt 1", "sugar is served"];
    assert_eq!(lines[1..5], again, "{lines:?}");
    assert_eq!(lines[5..], ["the cook goes home: 3 ordered, 3 served"], "{lines:?}");
}
