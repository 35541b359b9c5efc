//! Components of `wasi:http/service` 0.3 behind a server.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusm_runtime::{Config, Runtime, observe};
use rusm_serve::{Limits, Router, ServeConfig, Server};
use rusm_wasm::{Capability, GuestOptions, InstanceReuse, Profiles, WasmConfig};

use crate::{Node, node_of};

fn node(config: WasmConfig, limits: Limits, options: GuestOptions) -> Node {
    node_of("wasi/service.wasm", config, limits, options, InstanceReuse::Request)
}

fn ordinary() -> Node {
    node(WasmConfig { capacity: 32, ..WasmConfig::default() }, Limits::default(), GuestOptions::default())
}

#[test]
fn a_component_of_wasi_0_3_answers_requests_unchanged() {
    let node = ordinary();

    let hello = node.get("/a/b?c=d");
    let fields = node.ask("GET /headers HTTP/1.1\r\nx-asked: yes", b"");
    let (empty, missing) = (node.get("/status/204"), node.get("/status/404"));
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
    let chunked = node.ask("POST /echo HTTP/1.1\r\ntransfer-encoding: chunked", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    let lines = node.get("/stream");
    let trailers = node.ask("GET /trailers HTTP/1.1\r\nte: trailers", b"");

    assert!(echo.is_whole && echo.body == sent, "{} of {} bytes", echo.body.len(), sent.len());
    assert_eq!(chunked.text(), "abcde");
    assert_eq!(lines.text(), "line 1\nline 2\nline 3\nline 4\nline 5\n");
    assert_eq!((lines.is_whole, lines.header("transfer-encoding")), (true, Some("chunked")));
    assert_eq!(trailers.text(), "with trailers\n");
    node.until("each instance ends with its request", |node| node.guests() == 0);
}

#[test]
fn the_first_line_of_a_stream_arrives_before_the_last_is_written() {
    let node = ordinary();
    let mut stream = node.send("GET /stream HTTP/1.1", b"");
    let mut seen = Vec::new();

    while !seen.ends_with(b"line 1\n\r\n") {
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
    assert_eq!(node.wasm.stats().traps_total, [("unreachable", 1)]);
}

#[test]
fn each_way_to_fail_is_an_answer_or_a_visible_cut() {
    let node = ordinary();

    let (refused, memory) = (node.get("/refuse"), node.get("/memory"));
    let late = node.get("/trap-late");
    let after = node.get("/after");

    assert_eq!([refused.status, memory.status], [500, 500]);
    assert_eq!((late.status, late.is_whole), (200, false), "a cut body must not look complete");
    assert_eq!((after.status, after.text()), (200, "answered\n"));
    node.until("a guest that works on ends by itself", |node| node.guests() == 0);
}

#[test]
fn a_guest_that_never_answers_ends_at_the_deadline() {
    let limits = Limits { handler_timeout: Duration::from_millis(300), ..Limits::default() };
    let node = node(WasmConfig { capacity: 8, ..WasmConfig::default() }, limits, GuestOptions::default());

    let (spinning, sleeping) = (node.get("/spin"), node.get("/sleep"));

    assert_eq!([spinning.status, sleeping.status], [504, 504]);
    node.until("the deadline ends the guests", |node| node.guests() == 0);
}

#[test]
fn spinning_guests_do_not_keep_others_from_answers() {
    let node = ordinary();
    let spinners: Vec<_> = (0..4).map(|_| node.send("GET /spin HTTP/1.1", b"")).collect();
    node.until("the spinners run", |node| node.guests() == 4);

    for _ in 0..20 {
        assert_eq!(node.get("/").text(), "hello from /\n");
    }

    drop(spinners);
    node.until("a guest ends when its client leaves", |node| node.guests() == 0);
}

#[test]
fn a_guest_has_only_what_its_profile_grants() {
    let mut profiles = Profiles::default();
    profiles.set("poor", [Capability::Timers].into_iter().collect());
    let config = WasmConfig { capacity: 8, profiles, ..WasmConfig::default() };
    let node = node(config, Limits::default(), GuestOptions::default().profile("poor"));

    let (fetch, random) = (node.get("/fetch/127.0.0.1:1"), node.get("/random"));

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
    profiles.set_hosts("client", [address.to_string()]);
    let config = WasmConfig { capacity: 8, profiles, ..WasmConfig::default() };
    let node = node(config, Limits::default(), GuestOptions::default().profile("client"));

    let granted = node.get(&format!("/fetch/{address}"));
    let port = node.get("/fetch/127.0.0.1:1");

    assert_eq!(granted.text(), "from afar\n");
    assert!(port.text().contains("HttpRequestDenied"), "{port:?}");
    node.until("no guest is left", |node| node.guests() == 0);
}
