//! Attaching to a node: accepted clients of each listener and their roles, and the answers to refused ones.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use crate::support::{Client, Closed, Node, node, node_with};
use rusm_console::{Console, ConsoleConfig, ConsoleError};
use rusm_runtime::{Config, Runtime, observe};
use serde_json::json;
use tokio::net::TcpStream;

/// Sends and reads every message of the first version of this protocol, and nothing that was added later.
async fn speaks_the_seeds_messages(node: &Node, client: &mut Client) {
    let hello = client.next().await.unwrap();
    assert_eq!(hello["type"], "hello");
    assert_eq!(hello["scenarios"][0]["id"], "spawn-storm");
    assert_eq!(hello["profiles"][2]["id"], "max");

    client.send(r#"{"type":"run","scenario":"spawn-storm"}"#).await;
    let frame = client.pick(|message| message["frame"]["running"].as_bool()?.then(|| message["frame"].clone())).await;
    assert_eq!(frame["scenario"], "spawn-storm");
    for number in ["uptime_ms", "ops_per_sec", "peak_concurrent"] {
        assert!(frame[number].is_number(), "{number} of {frame}");
    }
    for number in ["count", "min_ns", "max_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns"] {
        assert!(frame["latency"][number].is_number(), "latency.{number}");
    }
    assert_eq!(frame["throughput"]["capacity"], 120);
    assert!(frame["throughput"]["points"].is_array());
    for number in
        ["uptime_ms", "process_count", "running", "waiting", "total_memory_bytes", "spawned_total", "finished_total"]
    {
        assert!(frame["observer"][number].is_u64(), "observer.{number}");
    }
    assert_eq!(frame["observer"]["scheduler_load"].as_array().unwrap().len(), 2);
    assert_eq!(frame["observer"]["processes"].as_array().unwrap().len(), 0);

    client.send(r#"{"type":"set_resource_profile","profile":"max"}"#).await;
    client.pick(|message| (message["frame"]["profile"] == "max").then_some(())).await;

    client.send(r#"{"type":"set_observer_detail","enabled":true}"#).await;
    let processes = client
        .pick(|message| {
            let processes = message["frame"]["observer"]["processes"].as_array()?;
            (!processes.is_empty()).then(|| processes.clone())
        })
        .await;
    assert_eq!(processes[0]["status"], "waiting");
    assert!(processes[0]["id"].is_u64() && processes[0]["reductions"].is_u64() && processes[0]["name"].is_null());
    client.send(r#"{"type":"set_observer_detail","enabled":false}"#).await;
    client.pick(|message| message["frame"]["observer"]["processes"].as_array()?.is_empty().then_some(())).await;

    client.send(r#"{"type":"run","scenario":"spawn-strom"}"#).await;
    let error = client.next_of("error").await;
    assert_eq!(error["message"], "unknown scenario \"spawn-strom\": did you mean spawn-storm?");

    client.send(r#"{"type":"stop"}"#).await;
    client.pick(|message| (message["frame"]["running"] == false).then_some(())).await;
    let calls = ["run spawn-storm {}", "profile max", "run spawn-strom {}", "stop"];
    assert_eq!(node.host.calls(), calls);
}

#[tokio::test]
async fn the_seeds_messages_alone_work_over_the_unix_socket() {
    let node = node();
    node.parked();

    let mut client = node.attach().await;

    speaks_the_seeds_messages(&node, &mut client).await;
}

#[tokio::test]
async fn the_seeds_messages_alone_work_over_tcp_with_the_token() {
    let node = node();
    node.parked();

    let mut client = node.attach_tcp(&node.control_token()).await;

    speaks_the_seeds_messages(&node, &mut client).await;
}

#[tokio::test]
async fn a_connection_with_the_observe_token_sees_everything_and_changes_nothing() {
    let node = node();
    let pid = node.parked();

    let mut client = node.attach_tcp(&node.observe_token()).await;
    let hello = client.next().await.unwrap();
    let changes = [
        r#"{"type":"run","scenario":"spawn-storm","id":1}"#.to_owned(),
        r#"{"type":"stop","id":2}"#.to_owned(),
        r#"{"type":"set_resource_profile","profile":"max","id":3}"#.to_owned(),
        format!(r#"{{"type":"kill","pid":"{pid}","id":4}}"#),
    ];

    assert_eq!(hello["role"], "observe");
    for (change, id) in changes.iter().zip(1..) {
        let error = client.refused(change).await;
        assert_eq!((&error["code"], &error["id"]), (&"forbidden".into(), &id.into()), "{change}");
        assert_eq!(error["message"], "this connection may only observe: attach with the control token");
    }
    let rows = client.rows(&serde_json::json!({"type": "view", "id": 1})).await;
    assert_eq!(rows["rows"][0][0], pid.to_string());
    assert!(node.runtime.is_alive(pid));
    assert!(node.host.calls().is_empty());
}

#[tokio::test]
async fn whoever_may_not_attach_is_told_in_one_line() {
    let node = node();
    let (port, token) = (node.port(), node.control_token());
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    let ours = format!("{host}Sec-WebSocket-Protocol: rusm.v1\r\nAuthorization: Bearer {token}\r\n");
    let hosts = format!("Host must be 127.0.0.1:{port}, [::1]:{port} or localhost:{port}");
    let no_origin = "requests with an Origin header are refused: browsers may not attach";
    let wants_token = "send the token of this node's token file as \"Authorization: Bearer TOKEN\"";
    let refusals = [
        (format!("{ours}Origin: http://127.0.0.1:{port}\r\n"), "403 Forbidden", no_origin),
        (format!("{ours}Origin: https://evil.example\r\n"), "403 Forbidden", no_origin),
        (format!("{ours}Origin: null\r\n"), "403 Forbidden", no_origin),
        (ours.replace("127.0.0.1", "evil.example"), "403 Forbidden", &hosts),
        (ours.replace(&format!(":{port}"), ":1"), "403 Forbidden", &hosts),
        (ours.replace(&host, ""), "403 Forbidden", &hosts),
        (format!("{ours}{host}"), "403 Forbidden", &hosts),
        (host.clone(), "400 Bad Request", "request the subprotocol rusm.v1"),
        (format!("{host}Sec-WebSocket-Protocol: rusm.v1\r\n"), "401 Unauthorized", wants_token),
        (ours.replace(&token, &"0".repeat(64)), "401 Unauthorized", wants_token),
        (ours.replace(&token, &token[..63]), "401 Unauthorized", wants_token),
        (ours.replace("Bearer ", "Basic "), "401 Unauthorized", wants_token),
    ];

    for (headers, status, line) in refusals {
        let answer = node.ask(&Node::upgrade(&headers)).await;
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{headers}\n{answer}");
        assert_eq!(body, format!("{line}\n"), "{headers}");
    }
    let mut client = node.attach_tcp(&token).await;
    assert_eq!(client.next().await.unwrap()["role"], "control");
    for scheme in ["bearer", "BEARER"] {
        let answer = node.ask_head(&Node::upgrade(&ours.replace("Bearer", scheme))).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{scheme}: {answer}");
    }
}

#[tokio::test]
async fn what_is_no_request_to_attach_is_told_so() {
    let node = node();
    let host = format!("Host: localhost:{}\r\n", node.port());
    let requests = [
        (format!("GET / HTTP/1.1\r\n{host}\r\n"), "426 Upgrade Required"),
        (format!("POST / HTTP/1.1\r\n{host}\r\n"), "405 Method Not Allowed"),
        (format!("GET /admin HTTP/1.1\r\n{host}\r\n"), "404 Not Found"),
        ("\u{16}\u{3}\u{1} hello TLS\r\n\r\n".to_owned(), "400 Bad Request"),
        (Node::upgrade(&host).replace("Version: 13", "Version: 12"), "426 Upgrade Required"),
        (Node::upgrade(&host).replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), "400 Bad Request"),
        (format!("GET / HTTP/1.1\r\n{host}X: {}\r\n\r\n", "x".repeat(9000)), "431 Request Header Fields Too Large"),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X: y\r\n".repeat(64)), "431 Request Header Fields Too Large"),
    ];

    for (request, status) in requests {
        let answer = node.ask(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}\n{answer}");
    }
}

#[tokio::test]
async fn localhost_and_ipv6_loopback_are_our_names_too() {
    let node = node();
    let token = node.control_token();

    for name in ["localhost", "[::1]", "127.0.0.1"] {
        let mut request = node.request(&token);
        request.headers_mut().insert("host", format!("{name}:{}", node.port()).parse().unwrap());
        let stream = TcpStream::connect(node.console.address().unwrap()).await.unwrap();
        let mut client = Client::shake_hands(request, Box::new(stream)).await.unwrap();
        assert_eq!(client.next().await.unwrap()["type"], "hello", "{name}");
    }
}

#[tokio::test]
async fn tokens_and_sockets_are_for_their_owner_alone_and_go_with_the_node() {
    let node = node();
    let token_file = node.console.token_file().unwrap().to_owned();
    let socket = node.console.socket().to_owned();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;

    assert_eq!((mode(&token_file), mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o600, 0o700));
    assert_ne!(node.control_token(), node.observe_token());
    drop(node.console);
    assert_eq!(std::fs::read_dir(socket.parent().unwrap()).unwrap().count(), 0);
}

fn bind_error(node: &Node, change: impl FnOnce(&mut ConsoleConfig)) -> ConsoleError {
    let mut config = ConsoleConfig { dir: node.dir.path().join("rusm"), ..ConsoleConfig::named("other") };
    change(&mut config);
    Console::bind(&node.runtime, config).unwrap_err()
}

#[tokio::test]
async fn a_console_that_cannot_open_says_what_to_do() {
    let node = node();
    let taken = node.console.address().unwrap();
    let open = node.dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    let socket = node.console.socket().display().to_string();

    let in_use = bind_error(&node, |config| config.name = "test".to_owned());
    let port_in_use = bind_error(&node, |config| config.listen = Some(taken));
    let exposed = bind_error(&node, |config| config.listen = Some("0.0.0.0:0".parse().unwrap()));
    let unsafe_dir = bind_error(&node, |config| config.dir.clone_from(&open));
    let bad_name = bind_error(&node, |config| config.name = "../up".to_owned());

    let texts = [
        (
            in_use,
            format!("socket {socket} is in use by a running node: choose another name with --name, or stop that node"),
        ),
        (port_in_use, format!("address {taken} is in use: choose another port with --listen")),
        (
            exposed,
            "address 0.0.0.0:0 is neither 127.0.0.1 nor [::1]: listen on one of them and forward the same port with ssh -L"
                .to_owned(),
        ),
        (
            unsafe_dir,
            format!(
                "directory {} can be entered by other users (mode 0755): change it with chmod 700 or set RUSM_SOCKET_DIR to \
                 another directory",
                open.display()
            ),
        ),
        (
            bad_name,
            "node name \"../up\" must be 1 to 64 letters, digits, '-', '_' or '.', and start with a letter or digit"
                .to_owned(),
        ),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
    // The consoles that failed to open left no files: only the first one's socket, lock and two tokens exist.
    assert_eq!(std::fs::read_dir(node.console.socket().parent().unwrap()).unwrap().count(), 4);
    assert_eq!(node.attach().await.next().await.unwrap()["node"]["name"], "test");
}

#[tokio::test]
async fn an_application_inside_tokio_may_open_a_console_fail_to_and_drop_it() {
    let node = node();

    let error = bind_error(&node, |config| config.listen = node.console.address());
    drop(node.console);

    assert!(matches!(error, ConsoleError::AddressInUse { .. }), "{error}");
}

#[tokio::test]
async fn a_socket_that_a_dead_node_left_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let private = dir.path().join("rusm");
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
    drop(std::os::unix::net::UnixListener::bind(private.join("test.sock")).unwrap());

    let node = node_with(|config| config.dir.clone_from(&private));

    assert_eq!(node.attach().await.next().await.unwrap()["type"], "hello");
}

#[tokio::test]
async fn every_client_of_a_node_hears_when_it_started() {
    let node = node();
    let mut clients = [node.attach().await, node.attach_tcp(&node.control_token()).await];

    let mut heard = Vec::new();
    for client in &mut clients {
        heard.push(client.next().await.unwrap()["node"]["started_unix_ms"].as_u64().unwrap());
    }

    assert_eq!(heard[0], heard[1]);
    // Later than November 2023 if the unit is milliseconds; a time in seconds would be far below.
    assert!(heard[0] > 1_700_000_000_000, "{}", heard[0]);
}

#[tokio::test]
async fn a_node_that_stops_says_so() {
    let node = node();
    let mut unix = node.attach().await;
    let mut tcp = node.attach_tcp(&node.control_token()).await;
    unix.frame().await;
    tcp.frame().await;

    let stopped = tokio::task::spawn_blocking(move || drop(node.console));

    let away = || Closed(Some((1001, "the node is stopping".to_owned())));
    assert_eq!((unix.end().await, tcp.end().await), (away(), away()));
    stopped.await.unwrap();
}

#[tokio::test]
async fn a_client_that_says_goodbye_gets_an_answer() {
    use futures_util::StreamExt;
    let node = node();
    let mut client = node.attach_tcp(&node.control_token()).await;
    client.frame().await;

    client.socket.close(None).await.unwrap();

    assert_eq!(client.end().await, Closed(None));
    assert!(client.socket.next().await.is_none(), "the connection ends cleanly");
}

#[tokio::test]
async fn crashes_come_as_events_to_whoever_asks() {
    let node = node();
    let mut client = node.attach().await;
    client.send(r#"{"type":"events","enabled":true}"#).await;
    let empty = client.next_of("events").await;
    assert_eq!((empty["noted"].as_u64(), empty["events"].as_array().map(Vec::len)), (Some(0), Some(0)));

    let body = |ctx: rusm_runtime::Context| async move {
        ctx.set_label("kv_writer");
        Err::<(), _>("disk full")
    };
    let pid = node.runtime.spawn(body).unwrap();

    let events = client.next_of("events").await;
    let crash = &events["events"][0];
    assert_eq!((crash["seq"].as_u64(), crash["kind"].as_str()), (Some(1), Some("crash")));
    assert_eq!(crash["pid"], pid.to_string());
    assert_eq!((crash["name"].as_str(), crash["reason"].as_str()), (Some("kv_writer"), Some("disk full")));
}

#[tokio::test]
async fn an_event_is_sent_in_full_to_a_client_that_opens_it() {
    let node = node();
    let mut client = node.attach().await;
    let reason = "x".repeat(2_000);
    let text = reason.clone();
    node.runtime.spawn(move |_| async move { Err::<(), _>(text) }).unwrap();
    client.send(r#"{"type":"events","enabled":true,"open":1}"#).await;

    let events = client.pick(|message| message.get("opened").map(|_| message.clone())).await;

    assert_eq!(events["opened"]["event"]["reason"].as_str(), Some(&*reason));
    let listed =
        events["events"].as_array().unwrap().iter().find(|event| event["seq"] == 1).expect("it is in the list");
    assert_eq!(listed["reason"].as_str().map(str::len), Some(300));
    client.send(r#"{"type":"events","enabled":true,"open":99}"#).await;
    assert!(client.next_of("events").await.get("opened").is_none());
}

/// Log lines of a test: 300 of them.
struct Lines;

impl rusm_console::LogLines for Lines {
    fn noted(&self) -> u64 {
        300
    }

    fn newest(&self, len: usize) -> (u64, Vec<rusm_console::LogLine>) {
        let line = |seq| rusm_console::LogLine { seq, text: format!("line {seq}"), ..Default::default() };
        (300, (301 - len.min(300) as u64..=300).map(line).collect())
    }
}

#[tokio::test]
async fn log_lines_come_to_a_client_in_control_that_asks() {
    let node = node_with(|config| {
        config.listen = Some(([127, 0, 0, 1], 0).into());
        config.log_lines = Some(Arc::new(Lines));
    });
    let seqs = |events: &serde_json::Value| {
        events["log"].as_array().map(|lines| (lines.len(), lines[0]["seq"].as_u64(), events["log_noted"].as_u64()))
    };

    let mut client = node.attach().await;
    client.send(r#"{"type":"events","enabled":true,"log":true}"#).await;
    assert_eq!(seqs(&client.next_of("events").await), Some((64, Some(237), Some(300))));
    client.send(r#"{"type":"events","enabled":true,"log":true,"backlog":9999}"#).await;
    assert_eq!(seqs(&client.next_of("events").await), Some((256, Some(45), Some(300))));
    client.send(r#"{"type":"events","enabled":true}"#).await;
    assert_eq!(seqs(&client.next_of("events").await), None);

    let mut observer = node.attach_tcp(&node.observe_token()).await;
    observer.send(r#"{"type":"events","enabled":true,"log":true}"#).await;
    let events = observer.next_of("events").await;
    assert_eq!(seqs(&events), None);
    assert!(events["log_refusal"].as_str().is_some_and(|why| why.contains("control role")), "{events}");
}

#[tokio::test]
async fn the_detail_of_a_process_shows_its_bonds() {
    let node = node();
    let parked = node.parked();
    let bound = node
        .runtime
        .spawn(move |ctx| async move {
            ctx.trap_exits(true);
            ctx.link(parked);
            ctx.monitor(parked);
            std::future::pending::<()>().await;
        })
        .unwrap();
    node.settles("the monitor is there", |runtime| {
        observe::links(runtime, parked, 1).is_some_and(|bonds| bonds.monitored_by_count == 1)
    })
    .await;

    let mut client = node.attach().await;
    client.send(&format!(r#"{{"type":"detail","pid":"{bound}"}}"#)).await;
    let process = client.next_of("process").await["process"].clone();
    assert_eq!(process["traps_exits"], true);
    assert_eq!(process["links"], json!({ "count": 1, "pids": [parked.to_string()] }));
    assert_eq!(process["monitors"], process["links"]);
    assert_eq!(process["monitored_by"]["count"], 0);
}

#[tokio::test]
async fn two_runtimes_with_consoles_live_in_one_process() {
    let (first, second) = (node(), node());
    first.parked();

    let (mut one, mut two) = (first.attach().await, second.attach().await);

    let count = |message: &serde_json::Value| message["frame"]["observer"]["process_count"].as_u64();
    one.pick(|message| (count(message)? == 1).then_some(())).await;
    assert_eq!(two.pick(count).await, 0);
}

#[tokio::test]
async fn a_console_outlives_its_runtime_without_harm() {
    let node = node();
    let mut client = node.attach().await;
    client.frame().await;

    let (runtime, console) = (node.runtime, node.console);
    tokio::task::spawn_blocking(move || drop(runtime)).await.unwrap();

    let frame = client.pick(|message| (message["frame"]["observer"]["process_count"] == 0).then_some(())).await;
    assert_eq!(frame, ());
    drop(client);
    tokio::task::spawn_blocking(move || drop(console)).await.unwrap();
    drop(Runtime::start(Config::default()).unwrap());
}
