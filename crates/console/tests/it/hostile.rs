//! Bad input and bad clients: each gets one clear line and the right close code, and other clients are not disturbed.

use std::future::pending;
use std::pin::Pin;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{
    BINARY, Client, Closed, DEADLINE, MESSAGE_MAX, Node, PING, TEXT, frame, generous, node, node_with,
};
use rusm_console::Limits;
use rusm_protocol::Column;
use rusm_runtime::supervisor::{ChildSpec, Strategy, Supervisor};
use rusm_runtime::{Context, SpawnOptions};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

fn closed(code: u16, reason: &str) -> Closed {
    Closed(Some((code, reason.to_owned())))
}

#[tokio::test]
async fn a_message_that_is_not_understood_is_named_and_the_connection_goes_on() {
    let node = node_with(|config| config.limits = generous());
    let mut client = node.attach().await;
    let deep = format!(r#"{{"type":"stop","x":{}"#, "[".repeat(60_000));
    let expected = "expected one of run, stop, pause, set_observer_detail, ";
    let wrongs = [
        ("", "malformed", "malformed message: the JSON ends too early, at line 1 column 0"),
        ("{", "malformed", "malformed message: the JSON ends too early, at line 1 column 1"),
        ("[1,2]", "malformed", "malformed message: send an object with a \"type\", not a list"),
        (r#"{"type":7}"#, "malformed", "malformed message: \"type\" must be text, not 7"),
        (r#"{"type":"run"}"#, "malformed", "malformed message: \"scenario\" is missing: it must be text"),
        (
            r#"{"type":"watch","frame_hz":"fast"}"#,
            "malformed",
            "malformed message: \"frame_hz\" must be a number, not the text \"fast\"",
        ),
        (r#"{"type":"dance"}"#, "unknown", &format!("unknown message \"dance\": {expected}")),
        (r#"{"type":"\u001b[31mred"}"#, "unknown", r#"unknown message "\u{1b}[31mred": "#),
        (&deep, "malformed", "malformed message: nested too deeply"),
    ];

    for (text, code, message) in wrongs {
        let error = client.refused(text).await;
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().starts_with(message), "{error}");
    }
    client.send(r#"{"type":"stop","id":1,"later":{"version":[2]}}"#).await;
    assert_eq!(client.next_of("ack").await["id"], 1, "unknown fields are ignored");
}

#[tokio::test]
async fn values_out_of_their_range_are_refused_with_the_range() {
    let node = node_with(|config| config.limits = generous());
    let pid = node.parked();
    let mut client = node.attach().await;
    let columns = vec!["pid"; Column::ALL.len() + 1];
    let too_many_columns = format!("{} columns requested, but only {} exist", columns.len(), Column::ALL.len());
    let wrongs = [
        (json!({"type": "watch", "frame_hz": 0}), "out_of_range", "frame_hz of 0 is not between 0.1 and 60"),
        (json!({"type": "watch", "frame_hz": -1}), "out_of_range", "frame_hz of -1 is not between 0.1 and 60"),
        (json!({"type": "watch", "frame_hz": 1e9}), "out_of_range", "frame_hz of 1000000000 is not between 0.1 and 60"),
        (
            json!({"type": "view", "id": 1, "window": {"offset": 0, "len": 201}}),
            "out_of_range",
            "a window of 201 rows is over the limit of 200",
        ),
        (json!({"type": "view", "id": 1, "hz": 0.5}), "out_of_range", "hz of 0.5 is not between 1 and 10"),
        (json!({"type": "view", "id": 1, "columns": columns}), "out_of_range", &too_many_columns),
        (
            json!({"type": "view", "id": 1, "filter": "colour=red"}),
            "out_of_range",
            "unknown filter field \"colour\": expected one of",
        ),
        (
            json!({"type": "view", "id": 1, "filter": "state=idle"}),
            "out_of_range",
            "unknown state \"idle\": expected one of",
        ),
        (
            json!({"type": "view", "id": 1, "filter": "x".repeat(2000)}),
            "out_of_range",
            "filter of 2000 bytes is over the limit of 1024",
        ),
        (
            json!({"type": "view", "id": 1, "sort": {"key": "mailbox_length"}}),
            "unknown",
            "unknown column \"mailbox_length\": did you mean \"mailbox_len\"?",
        ),
        (
            json!({"type": "view", "id": 1, "columns": ["pid", "colour"]}),
            "unknown",
            "unknown column \"colour\": expected one of pid, name",
        ),
        (
            json!({"type": "view", "id": 1, "window": {"offset": -1, "len": 5}}),
            "malformed",
            "malformed message: \"window.offset\" must be a whole number from 0 to",
        ),
        (json!({"type": "kill", "pid": "<0.999999999.1>", "id": 7}), "unknown", "no process <0.999999999.1>"),
        (json!({"type": "kill", "pid": "<3.1.1>"}), "unknown", "no process <3.1.1>"),
        (json!({"type": "kill", "pid": format!("<0.{}.77>", pid.slot())}), "unknown", "no process <0."),
        (json!({"type": "kill", "pid": "<0.1024.1>"}), "unknown", "no process <0.1024.1>"),
        (json!({"type": "kill", "pid": "init"}), "malformed", "\"init\": a pid reads <node.slot.generation>, such as"),
        (json!({"type": "tree", "view": {"id": 1, "hz": 99}}), "out_of_range", "hz of 99 is not between 1 and 10"),
        (
            json!({"type": "tree", "view": {"id": 1, "window": {"len": 201}}}),
            "out_of_range",
            "a window of 201 rows is over the limit of 200",
        ),
        (
            json!({"type": "tree", "view": {"id": 1, "open": vec!["<0.1.1>"; 257]}}),
            "out_of_range",
            "257 open supervisors are over the limit of 256",
        ),
        (
            json!({"type": "tree", "view": {"id": 1, "open": ["<0.1.1>/-1"]}}),
            "malformed",
            "\"<0.1.1>/-1\" is not a tree path",
        ),
        (json!({"type": "engines", "view": {"id": 1, "hz": 0}}), "out_of_range", "hz of 0 is not between 1 and 10"),
        (
            json!({"type": "engines", "view": {"id": 1, "window": {"len": 201}}}),
            "out_of_range",
            "a window of 201 rows is over the limit of 200",
        ),
        (
            json!({"type": "engines", "view": {"id": 1, "fault": {"engine": -1}}}),
            "malformed",
            "malformed message: \"view.fault.engine\" must be a whole number",
        ),
        (json!({"type": "time", "view": {"id": 1, "hz": 11}}), "out_of_range", "hz of 11 is not between 1 and 10"),
        (json!({"type": "topics", "view": {"id": 1, "hz": 11}}), "out_of_range", "hz of 11 is not between 1 and 10"),
        (
            json!({"type": "topics", "view": {"id": 1, "window": {"len": 201}}}),
            "out_of_range",
            "a window of 201 rows is over the limit of 200",
        ),
        (json!({"type": "detail", "pid": "\u{1b}[2J"}), "malformed", "\"\\u{1b}[2J\": a pid reads"),
    ];

    for (message, code, text) in wrongs {
        let error = client.refused(&message.to_string()).await;
        assert_eq!(error["code"], code, "{message} got {error}");
        assert!(error["message"].as_str().unwrap().starts_with(text), "{message} got {error}");
        assert_eq!(error["id"], if message["type"] == "kill" { message["id"].clone() } else { json!(null) });
    }
    assert!(node.runtime.is_alive(pid));
    client.send(&json!({"type": "detail", "pid": "<0.999999999.1>"}).to_string()).await;
    assert_eq!(client.next_of("process").await["process"], json!(null), "a process that has ended is shown as null");
}

#[tokio::test]
async fn looks_into_stores_out_of_their_range_are_refused_with_the_range() {
    let node = node_with(|config| config.limits = generous());
    let mut client = node.attach().await;
    let wrongs = [
        (json!({"type": "stores", "view": {"id": 1, "hz": 0}}), "out_of_range", "hz of 0 is not between 1 and 10"),
        (
            json!({"type": "stores", "view": {"id": 1, "keys": {"bucket": "a", "len": 101}}}),
            "out_of_range",
            "a page of 101 keys is not between 1 and 100",
        ),
        (
            json!({"type": "stores", "view": {"id": 1, "keys": {"bucket": "a", "len": 1, "after": "0g"}}}),
            "malformed",
            "after of \"0g\" is not a key in hexadecimal",
        ),
        (
            json!({"type": "stores", "view": {"id": 1, "keys": {"bucket": 7}}}),
            "malformed",
            "malformed message: \"view.keys.bucket\" must be text, not 7",
        ),
    ];

    for (message, code, text) in wrongs {
        let error = client.refused(&message.to_string()).await;
        assert_eq!((error["code"].as_str(), error["message"].as_str()), (Some(code), Some(text)), "{message}");
    }
}

#[tokio::test]
async fn a_command_that_is_refused_is_named_by_its_id_however_wrong_it_is() {
    let node = node_with(|config| config.limits = generous());
    let mut client = node.attach().await;

    for (text, id) in [
        (r#"{"type":"runn","scenario":"spawn-storm","id":7}"#, json!(7)),
        (r#"{"type":"run","id":8}"#, json!(8)),
        (r#"{"id":9}"#, json!(9)),
        (r#"{"type":"stop","id":"ten"}"#, json!(null)),
        (r#"{"type":"view","id":11,"hz":"fast"}"#, json!(null)),
    ] {
        assert_eq!(client.refused(text).await["id"], id, "{text}");
    }
}

#[tokio::test]
async fn a_view_that_is_refused_leaves_the_old_one() {
    let node = node();
    node.parked();
    let mut client = node.attach().await;
    client.rows(&json!({"type": "view", "id": 1})).await;

    client.refused(r#"{"type":"view","id":2,"filter":"mailq>lots"}"#).await;

    assert_eq!(client.next_of("rows").await["id"], 1);
}

#[tokio::test]
async fn frames_that_no_client_may_send_end_the_connection_with_their_code() {
    let node = node();
    let too_long = vec![b' '; MESSAGE_MAX + 1];
    let mut fragments = frame(0x01, &vec![b' '; MESSAGE_MAX]);
    fragments.extend(frame(0x80, b"xx"));
    let unmasked = [TEXT, 2, b'{', b'}'];
    let hostile: [(&str, Vec<u8>, Closed); 9] = [
        ("a byte too long", frame(TEXT, &too_long), closed(1009, "a message may have at most 64 KiB")),
        ("too long in fragments", fragments, closed(1009, "a message may have at most 64 KiB")),
        (
            "a header that claims 2^62 bytes",
            vec![TEXT, 0xff, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            closed(1009, "a message may have at most 64 KiB"),
        ),
        ("binary", frame(BINARY, b"{}"), closed(1003, "only text frames are accepted")),
        ("bad UTF-8", frame(TEXT, b"\"\xff\xfe\""), closed(1007, "text frames must be UTF-8")),
        ("a reserved opcode", frame(0x83, b""), closed(1002, "not a WebSocket frame")),
        ("a reserved bit", frame(0xc1, b"{}"), closed(1002, "not a WebSocket frame")),
        ("no mask", unmasked.to_vec(), closed(1002, "not a WebSocket frame")),
        ("a continuation of nothing", frame(0x80, b"{}"), closed(1002, "not a WebSocket frame")),
    ];

    for (what, bytes, end) in hostile {
        let mut client = Client::raw(&node).await;
        client.send_bytes(&bytes).await;
        assert_eq!(client.end().await, end, "{what}");
    }
    let mut client = Client::raw(&node).await;
    let mut longest = br#"{"type":"stop","id":5}"#.to_vec();
    longest.resize(MESSAGE_MAX, b' ');
    client.send_bytes(&frame(TEXT, &longest)).await;
    assert_eq!(client.next_of("ack").await["id"], 5, "64 KiB are allowed");
}

#[tokio::test]
async fn a_handshake_that_is_never_finished_ends_at_its_deadline() {
    let deadline = Duration::from_millis(200);
    let node = node_with(|config| config.limits.handshake = deadline);
    let start = Instant::now();

    for half in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut tcp = TcpStream::connect(node.console.address().unwrap()).await.unwrap();
        let mut unix = UnixStream::connect(node.console.socket()).await.unwrap();
        // A late write may find the connection already closed.
        drop(tcp.write_all(half.as_bytes()).await);
        drop(unix.write_all(half.as_bytes()).await);
        assert!(matches!(timeout(DEADLINE, tcp.read(&mut [0; 10])).await.unwrap(), Ok(0) | Err(_)), "{half:?}");
        assert!(matches!(timeout(DEADLINE, unix.read(&mut [0; 10])).await.unwrap(), Ok(0) | Err(_)), "{half:?}");
    }

    assert!(start.elapsed() >= 3 * deadline, "{:?}", start.elapsed());
}

#[tokio::test]
async fn commands_over_the_limit_are_refused_until_there_is_room_again() {
    let node = node_with(|config| config.limits.commands_per_sec = 1);
    let mut client = node.attach().await;

    for id in 0..30 {
        client.send(&json!({"type": "stop", "id": id}).to_string()).await;
    }
    let mut carried_out = 0;
    for _ in 0..30 {
        let answer =
            client.pick(|message| ["ack", "error"].contains(&message["type"].as_str()?).then(|| message.clone())).await;
        if answer["type"] == "ack" {
            carried_out += 1;
        } else {
            assert_eq!(answer["code"], "rate_limited");
            assert_eq!(answer["message"], "more than 1 commands a second: this command was not executed");
            assert!(answer["id"].is_u64());
        }
    }
    assert!((1..30).contains(&carried_out), "{carried_out} of 30 carried out");
    for id in 100.. {
        client.frame().await;
        client.send(&json!({"type": "stop", "id": id}).to_string()).await;
        if client.pick(|message| (message["id"] == id).then(|| message["type"].clone())).await == "ack" {
            break;
        }
    }

    assert_eq!(node.host.calls().len(), carried_out + 1);
}

#[tokio::test]
async fn a_client_that_floods_is_sent_away() {
    let node = node();
    let floods = [frame(PING, b"x"), frame(TEXT, br#"{"type":"stop"}"#), frame(0x8a, b"")];

    for flood in floods {
        let mut client = Client::raw(&node).await;
        client.send_bytes(&flood.repeat(1000)).await;
        assert_eq!(client.end().await, closed(1008, "sent too many messages"));
    }
}

#[tokio::test]
async fn a_client_that_gives_no_sign_of_life_is_given_up() {
    let limits =
        Limits { ping_every: Duration::from_millis(100), dead_after: Duration::from_secs(2), ..Limits::default() };
    let node = node_with(|config| config.limits = limits);
    let mut alive = node.attach().await;
    let mut dead = UnixStream::connect(node.console.socket()).await.unwrap();
    dead.write_all(Node::upgrade("").as_bytes()).await.unwrap();

    // Reads everything, including pings, and answers nothing.
    let mut heard = Vec::new();
    let given_up = timeout(DEADLINE, dead.read_to_end(&mut heard));
    let goes_on = async {
        let start = Instant::now();
        while start.elapsed() < limits.dead_after * 3 / 2 {
            alive.frame().await;
        }
    };
    let (given_up, ()) = tokio::join!(given_up, goes_on);
    given_up.expect("the node hangs up").unwrap();

    assert!(heard.windows(2).any(|pair| pair == [PING, 0]), "it was pinged first");
}

#[tokio::test]
async fn escape_sequences_in_names_travel_as_data() {
    let node = node();
    let pid = node.parked();
    let name = "\u{1b}]0;owned\u{7}\u{1b}[31m\"red\\\n\u{9b}2J\u{202e}";
    node.runtime.register(pid, name).unwrap();
    let mut client = node.attach().await;

    client.send(r#"{"type":"set_observer_detail","enabled":true}"#).await;
    let ancestor = client
        .pick(|message| message["frame"]["observer"]["processes"][0]["name"].as_str().map(ToOwned::to_owned))
        .await;
    let rows =
        client.rows(&json!({"type": "view", "id": 1, "filter": format!("name={}", rusm_text::quoted(name))})).await;
    client.send(&json!({"type": "detail", "pid": pid.to_string()}).to_string()).await;
    let detail = client.next_of("process").await;

    assert_eq!(ancestor, name);
    assert_eq!((&rows["rows"][0][1], &rows["matched"]), (&json!(name), &json!(1)));
    assert_eq!(detail["process"]["name"], name);
    let mut raw = Client::raw(&node).await;
    raw.send_bytes(&frame(TEXT, br#"{"type":"view","id":1}"#)).await;
    let stream = raw.socket.get_mut();
    let mut heard = Vec::new();
    while !heard.windows(6).any(|six| six == b"\"rows\"") || !heard.ends_with(b"]]}") {
        let byte = timeout(DEADLINE, stream.read_u8()).await.expect("rows come").unwrap();
        heard.push(byte);
    }
    assert!(!heard.iter().any(|byte| *byte == 0x1b || *byte == 0x07), "control characters are escaped on the wire");
}

/// Starts another such process at once and every 20 ms.
fn bomb(ctx: Context) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        ctx.set_label("bomb");
        loop {
            ctx.spawn(bomb);
            ctx.sleep(Duration::from_millis(20)).await;
        }
    })
}

#[tokio::test]
async fn a_spawn_bomb_is_ended_by_one_command_and_others_live_on() {
    let node = node_with(|config| config.limits = generous());
    let bystander = node.parked();
    let mut client = node.attach().await;
    for reason in ["kill", "shutdown"] {
        node.runtime.spawn(bomb).unwrap();
        node.settles("the bomb", |runtime| runtime.process_count() > 200).await;

        let command = json!({"type": "kill_all", "filter": "name=bomb", "reason": reason, "id": 9});
        client.send(&command.to_string()).await;
        let killed = client.next_of("killed").await;

        assert_eq!((&killed["id"], &killed["left"]), (&json!(9), &json!(0)), "{killed}");
        assert!(killed["processes"].as_u64().unwrap() > 200, "{killed}");
        node.settles("the end of all", |runtime| runtime.process_count() == 1).await;
        assert!(node.runtime.is_alive(bystander));
    }
}

#[tokio::test]
async fn a_restarted_child_outlives_the_command_that_ended_the_one_before() {
    let node = node_with(|config| config.limits = generous());
    let children = (0..3).map(|n| ChildSpec::new(format!("w{n}"), |_| pending::<()>()).named(format!("w{n}")));
    let tree =
        children.fold(Supervisor::new(Strategy::OneForOne).intensity(3, Duration::from_hours(1)), Supervisor::child);
    let supervisor = tree.start(&node.runtime).await.unwrap().pid();
    let before: Vec<_> = (0..3).map(|n| node.runtime.whereis(&format!("w{n}"))).collect();
    let mut client = node.attach().await;

    client.send(&json!({"type": "kill_all", "filter": "name~w", "reason": "kill", "id": 1}).to_string()).await;
    let killed = client.next_of("killed").await;

    assert_eq!((&killed["processes"], &killed["left"]), (&json!(3), &json!(0)), "{killed}");
    node.settles("three restarts", |runtime| {
        (0..3).all(|n| runtime.whereis(&format!("w{n}")).is_some_and(|pid| !before.contains(&Some(pid))))
    })
    .await;
    assert!(node.runtime.is_alive(supervisor));
}

#[tokio::test]
async fn a_child_that_has_not_run_is_ended_with_the_parent_that_spawned_it() {
    let node = node_with(|config| config.limits = generous());
    let (release, held) = mpsc::channel::<()>();
    let holder = move |_| async move { held.recv().unwrap() };
    node.runtime.spawn_pinned(0, holder).unwrap();
    let (child_runs, ran) = mpsc::channel::<()>();
    // The child waits for scheduler 0, which the holder blocks, and has no label.
    let parent = move |ctx: Context| async move {
        ctx.spawn_pinned(0, |_| async move { child_runs.send(()).unwrap() }).unwrap();
        drop(ctx.receive_match(|_| false).await);
    };
    node.runtime.spawn_with(&SpawnOptions::default().label("bomb").pinned(1), parent).unwrap();
    node.settles("the child", |runtime| runtime.process_count() == 3).await;
    let mut client = node.attach().await;

    client.send(&json!({"type": "kill_all", "filter": "name=bomb", "reason": "kill", "id": 1}).to_string()).await;
    let killed = client.next_of("killed").await;
    release.send(()).unwrap();

    assert_eq!((&killed["processes"], &killed["left"]), (&json!(2), &json!(0)), "{killed}");
    node.settles("the end of all", |runtime| runtime.process_count() == 0).await;
    assert!(ran.recv().is_err(), "the child never ran");
}

#[tokio::test]
async fn ending_many_needs_a_filter_that_names_some_and_the_control_role() {
    let node = node_with(|config| config.limits = generous());
    let pid = node.parked();
    let mut control = node.attach().await;
    let mut observer = node.attach_tcp(&node.observe_token()).await;

    let empty = control.refused(r#"{"type":"kill_all","filter":"  ","id":1}"#).await;
    let wrong = control.refused(r#"{"type":"kill_all","filter":"colour=red","id":2}"#).await;
    let rate = control.refused(r#"{"type":"kill_all","filter":"reds/s>1k","id":4}"#).await;
    let forbidden = observer.refused(r#"{"type":"kill_all","filter":"state=waiting","id":3}"#).await;

    assert!(empty["message"].as_str().unwrap().starts_with("an empty filter would end every process"), "{empty}");
    assert!(wrong["message"].as_str().unwrap().starts_with("unknown filter field"), "{wrong}");
    assert!(rate["message"].as_str().unwrap().starts_with("a rate cannot select"), "{rate}");
    assert_eq!((&forbidden["code"], &forbidden["id"]), (&json!("forbidden"), &json!(3)));
    assert!(node.runtime.is_alive(pid));
}
