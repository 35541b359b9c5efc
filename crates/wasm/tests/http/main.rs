//! Components of `wasi:http` behind a server: what its clients receive, and what a failing guest costs the others.

#![cfg(feature = "http")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

mod notes;
mod resources;
mod reuse;
mod service;
mod sockets;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusm_runtime::observe::{self, BodyFact};
use rusm_runtime::{Config, Runtime};
use rusm_serve::{Limits, Router, ServeConfig, Server};
use rusm_wasm::{Capability, GuestOptions, HttpGuestError, InstanceReuse, Profiles, Wasm, WasmConfig};

const PATIENCE: Duration = Duration::from_mins(1);

/// A server whose requests are all handled by the component `http`.
struct Node {
    server: Server,
    wasm: Wasm,
    runtime: Runtime,
}

fn prebuilt(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/guests/prebuilt");
    std::fs::read(folder.join(name)).unwrap()
}

fn node(config: WasmConfig, limits: Limits, options: GuestOptions) -> Node {
    node_of("wasi/http.wasm", config, limits, options, InstanceReuse::Request)
}

fn node_of(file: &str, config: WasmConfig, limits: Limits, options: GuestOptions, reuse: InstanceReuse) -> Node {
    let runtime = Runtime::start(Config { schedulers: 2, ..Config::default() }).unwrap();
    let wasm = Wasm::start(config).unwrap();
    let module = wasm.load("http", &prebuilt(file)).unwrap();
    let guest = wasm.http_guest(&module, options, reuse).unwrap();
    let router = Router::new().route("/*", guest).unwrap();
    let config = ServeConfig { limits, ..ServeConfig::listen(([127, 0, 0, 1], 0)) };
    let server = Server::start(&runtime, config, router).unwrap();
    Node { server, wasm, runtime }
}

fn ordinary() -> Node {
    node(WasmConfig { capacity: 32, ..WasmConfig::default() }, Limits::default(), GuestOptions::default())
}

impl Node {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.local_addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn send(&self, head: &str, body: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "{head}\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
        stream.write_all(body).unwrap();
        stream
    }

    fn ask(&self, head: &str, body: &[u8]) -> Answer {
        let mut all = Vec::new();
        self.send(head, body).read_to_end(&mut all).unwrap();
        Answer::of(&all)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1"), b"")
    }

    /// Number of live guests.
    fn guests(&self) -> u32 {
        self.wasm.stats().live
    }

    /// Waits until a condition is true.
    fn until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_true(self) {
            assert!(Instant::now() < end, "waited in vain: {what}");
            std::thread::yield_now();
        }
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    /// The body, without the framing of chunks.
    body: Vec<u8>,
    /// True if the body has its declared length, or its last chunk.
    is_whole: bool,
}

impl Answer {
    fn of(all: &[u8]) -> Self {
        let end = all.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or_else(|| panic!("no head: {all:?}"));
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut rest = &all[end + 4..];
        let mut answer = Self { status, head, body: rest.to_vec(), is_whole: false };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body.clear();
            while let Some(line) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
                let bytes = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
                answer.is_whole = bytes == 0;
                if answer.is_whole || rest.len() < line + 2 + bytes {
                    break;
                }
                answer.body.extend_from_slice(&rest[line + 2..line + 2 + bytes]);
                rest = rest.get(line + 4 + bytes..).unwrap_or_default();
            }
        } else {
            let declared = answer.header("content-length").map(|bytes| bytes.parse().unwrap());
            answer.is_whole = declared.is_none_or(|bytes: usize| bytes == answer.body.len());
        }
        answer
    }

    fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

#[test]
fn a_foreign_component_answers_requests_unchanged() {
    let node = ordinary();

    let hello = node.get("/a/b?c=d");
    let fields = node.ask("GET /headers HTTP/1.1\r\nx-asked: yes", b"");
    let empty = node.get("/status/204");
    let missing = node.get("/status/404");
    let head = node.ask("HEAD /x HTTP/1.1", b"");
    let old = node.ask("GET /old HTTP/1.0", b"");

    assert_eq!((hello.status, hello.text()), (200, "hello from /a/b?c=d\n"), "{hello:?}");
    assert_eq!(hello.header("content-length"), Some("20"));
    assert!(fields.text().contains("x-asked: yes\n"), "{fields:?}");
    assert_eq!((empty.status, empty.body.len(), missing.status), (204, 0, 404));
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("14"), 0));
    assert_eq!(old.text(), "hello from /old\n");
    node.until("each instance ends with its request", |node| node.guests() == 0);
}

#[test]
fn bodies_stream_in_both_directions() {
    let node = ordinary();
    let sent: Vec<u8> = (0..1_500_000_u32).map(|number| (number % 251) as u8).collect();

    let echo = node.ask(&format!("POST /echo HTTP/1.1\r\ncontent-length: {}", sent.len()), &sent);
    let small = node.ask("POST /echo HTTP/1.1\r\ncontent-length: 5", b"small");
    let chunked = node.ask("POST /echo HTTP/1.1\r\ntransfer-encoding: chunked", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    let lines = node.get("/stream");
    let trailers = node.ask("GET /trailers HTTP/1.1\r\nte: trailers", b"");

    assert!(echo.is_whole && echo.body == sent, "{} of {} bytes", echo.body.len(), sent.len());
    assert_eq!((small.text(), chunked.text()), ("small", "abcde"));
    assert_eq!(lines.text(), "line 1\nline 2\nline 3\nline 4\nline 5\n");
    assert_eq!((lines.is_whole, lines.header("transfer-encoding")), (true, Some("chunked")));
    assert_eq!(trailers.text(), "with trailers\n");
}

#[test]
fn the_first_line_of_a_stream_arrives_before_the_last_is_written() {
    let node = ordinary();
    let mut stream = node.send("GET /stream HTTP/1.1", b"");
    let mut seen = Vec::new();

    while !seen.ends_with(b"line 1\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }

    assert_eq!(node.guests(), 1, "the guest still writes");
}

#[test]
fn a_trap_answers_500_to_its_own_request_alone() {
    let node = Arc::new(ordinary());
    let answers = Arc::new(Mutex::new(Vec::new()));

    std::thread::scope(|scope| {
        for number in 0..16 {
            let (node, answers) = (Arc::clone(&node), Arc::clone(&answers));
            scope.spawn(move || {
                let path = if number == 7 { "/trap" } else { "/pause" };
                answers.lock().push(node.get(path).status);
            });
        }
    });

    let mut answers = answers.lock().clone();
    answers.sort_unstable();
    assert_eq!(answers, [vec![200; 15], vec![500]].concat());
    assert_eq!(node.server.report(10).routes.iter().map(|route| route.crashed_total).sum::<u64>(), 1);
    assert_eq!(node.wasm.stats().traps_total, [("unreachable", 1)]);
}

#[test]
fn each_way_to_fail_is_an_answer_or_a_visible_cut() {
    let node = ordinary();

    let silent = node.get("/silent");
    let refused = node.get("/refuse");
    let memory = node.get("/memory");
    let late = node.get("/trap-late");
    let after = node.get("/after");

    assert_eq!([silent.status, refused.status, memory.status], [500, 500, 500]);
    assert_eq!((late.status, late.is_whole), (200, false), "a cut body must not look complete");
    assert_eq!((after.status, after.text()), (200, "answered\n"));
    node.until("a guest that works on ends by itself", |node| node.guests() == 0);
}

#[test]
fn a_trap_after_the_head_of_the_response_counts_as_a_crash() {
    let node = ordinary();
    let crashed = |node: &Node| node.server.report(10).routes.iter().map(|route| route.crashed_total).sum::<u64>();

    let late = node.get("/trap-late");

    assert_eq!(late.status, 200);
    node.until("the crash is counted", |node| crashed(node) == 1);
}

#[test]
fn a_guest_that_never_answers_ends_at_the_deadline() {
    let limits = Limits { handler_timeout: Duration::from_millis(300), ..Limits::default() };
    let node = node(WasmConfig { capacity: 8, ..WasmConfig::default() }, limits, GuestOptions::default());

    let spinning = node.get("/spin");
    let sleeping = node.get("/sleep");

    assert_eq!([spinning.status, sleeping.status], [504, 504]);
    node.until("the deadline ends the guests", |node| node.guests() == 0);
}

#[test]
fn spinning_guests_do_not_keep_others_from_answers() {
    let node = ordinary();
    let spinners: Vec<TcpStream> = (0..4).map(|_| node.send("GET /spin HTTP/1.1", b"")).collect();
    node.until("the spinners run", |node| node.guests() == 4);

    for _ in 0..20 {
        assert_eq!(node.get("/").text(), "hello from /\n");
    }

    drop(spinners);
    node.until("a guest ends when its client leaves", |node| node.guests() == 0);
}

#[test]
fn a_request_without_an_instance_is_told_to_come_back() {
    let node = node(WasmConfig { capacity: 1, ..WasmConfig::default() }, Limits::default(), GuestOptions::default());
    let holder = node.send("GET /sleep HTTP/1.1", b"");
    node.until("the instance is taken", |node| node.guests() == 1);

    let refused = node.get("/");

    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    drop(holder);
    node.until("the instance is free", |node| node.guests() == 0);
    assert_eq!(node.get("/").status, 200);
}

#[test]
fn a_request_without_memory_for_its_guest_is_told_to_come_back() {
    let config = WasmConfig { capacity: 32, guests_memory_max_bytes: 65_536, ..WasmConfig::default() };
    let node = node(config, Limits::default(), GuestOptions::default());

    let answer = node.get("/");

    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
    assert_eq!(answer.text(), "memory_limit(65536 of all guests)\n");
}

#[test]
fn a_body_beyond_its_limit_is_the_clients_error() {
    let limits = Limits { body_bytes: 1000, ..Limits::default() };
    let node = node(WasmConfig { capacity: 8, ..WasmConfig::default() }, limits, GuestOptions::default());

    let declared = node.ask("POST /echo HTTP/1.1\r\ncontent-length: 1001", &[b'x'; 1001]);
    let chunk = format!("7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2000));
    let chunked = node.ask("POST /echo HTTP/1.1\r\ntransfer-encoding: chunked", chunk.as_bytes());

    assert_eq!(declared.status, 413);
    assert!(!chunked.is_whole || chunked.status == 413, "{chunked:?}");
}

#[test]
fn a_guest_has_only_what_its_profile_grants() {
    let mut profiles = Profiles::default();
    profiles.set("poor", [Capability::Timers].into_iter().collect());
    let config = WasmConfig { capacity: 8, profiles, ..WasmConfig::default() };
    let node = node(config, Limits::default(), GuestOptions::default().profile("poor"));

    let fetch = node.get("/fetch/127.0.0.1:1");
    let random = node.get("/random");

    assert!(fetch.text().contains("HttpRequestDenied"), "{fetch:?}");
    assert_eq!(random.status, 500);
    let [engine] = observe::engines(&node.runtime).try_into().unwrap();
    assert_eq!(engine.refusals_total, [("random", 1), ("http", 1)]);
}

#[test]
fn a_guest_sends_requests_to_the_servers_that_its_profile_names() {
    let afar = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
    let router = Router::new().route("GET /", async |_: rusm_serve::Request| "from afar\n").unwrap();
    let far = Server::start(&afar, ServeConfig::listen(([127, 0, 0, 1], 0)), router).unwrap();
    let address = far.local_addr();
    let mut profiles = Profiles::default();
    profiles.set("client", [Capability::Http].into_iter().collect());
    profiles.set_hosts("client", [address.to_string(), "*.example.org".to_owned()]);
    let config = WasmConfig { capacity: 8, profiles, ..WasmConfig::default() };
    let node = node(config, Limits::default(), GuestOptions::default().profile("client"));

    let granted = node.get(&format!("/fetch/{address}"));
    let port = node.get("/fetch/127.0.0.1:1");
    let host = node.get("/fetch/example.org");

    assert_eq!(granted.text(), "from afar\n");
    assert!(port.text().contains("HttpRequestDenied"), "{port:?}");
    assert!(host.text().contains("HttpRequestDenied"), "a star stands for at least one part: {host:?}");
    node.until("no guest is left", |node| node.guests() == 0);
}

#[test]
fn a_connection_to_another_server_counts_as_memory_of_guests() {
    let roomy = ordinary();
    let holder = roomy.send("GET /sleep HTTP/1.1", b"");
    roomy.until("the guest runs", |node| node.guests() == 1);
    let find = || {
        let pid = roomy.server.report(10).live.iter().find(|live| &*live.path == "/sleep")?.pid;
        observe::body_info(&roomy.runtime, pid)
    };
    roomy.until("its request is in the report, with its guest", |_| find().is_some());
    let info = find().unwrap();
    roomy.until("its memory is seen", |_| matches!(info.fact("linear_memory_bytes"), Some(BodyFact::Bytes(1..))));
    let Some(BodyFact::Bytes(guest_bytes)) = info.fact("linear_memory_bytes") else { unreachable!() };
    drop(holder);
    let mut profiles = Profiles::default();
    profiles.set("client", [Capability::Http].into_iter().collect());
    profiles.set_hosts("client", ["127.0.0.1:1".to_owned()]);
    let config =
        WasmConfig { capacity: 8, guests_memory_max_bytes: guest_bytes + 65_535, profiles, ..WasmConfig::default() };
    let node = node(config, Limits::default(), GuestOptions::default().profile("client"));

    let fetch = node.get("/fetch/127.0.0.1:1");

    assert!(fetch.text().contains("ConnectionLimitReached"), "{fetch:?}");
    node.until("no guest is left", |node| node.guests() == 0);
}

#[test]
fn observers_see_the_request_as_a_process_with_its_guest() {
    let node = ordinary();
    let holder = node.send("GET /sleep HTTP/1.1", b"");
    node.until("the guest runs", |node| node.guests() == 1);

    let live = node.server.report(10).live;
    let pid = live.iter().find(|live| &*live.path == "/sleep").unwrap().pid;
    let info = observe::body_info(&node.runtime, pid).unwrap();

    assert_eq!((info.kind(), info.source().as_deref()), ("wasm", Some("http")));
    node.until("its memory is seen", |_| matches!(info.fact("linear_memory_bytes"), Some(BodyFact::Bytes(65_536..))));
    node.runtime.exit(pid, rusm_runtime::ExitReason::Killed);
    let mut all = Vec::new();
    let mut holder = holder;
    holder.read_to_end(&mut all).unwrap();
    assert_eq!(Answer::of(&all).status, 500);
}

#[test]
fn a_module_that_answers_no_requests_is_refused_with_the_reason() {
    let wasm = Wasm::start(WasmConfig { capacity: 1, ..WasmConfig::default() }).unwrap();
    let module = wasm.load("hello", &prebuilt("rust/hello.wasm")).unwrap();

    let error = wasm.http_guest(&module, GuestOptions::default(), InstanceReuse::Request).unwrap_err();

    assert!(matches!(error, HttpGuestError::NotHttp { .. }));
    assert_eq!(
        error.to_string(),
        "hello is a component and answers no requests: it must export wasi:http/incoming-handler@0.2, \
         wasi:http/handler@0.3 or rusm:http/handler"
    );
}
