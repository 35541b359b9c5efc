//! The texts of all messages in both directions, as files: nodes and clients of other versions and languages rely on
//! them.
//!
//! Each file holds one complete message. The text must decode, and the message must encode to the same JSON. So
//! renaming a field, or changing its default, fails here. The literal texts of the predecessor's protocol are in this
//! source file.

mod cluster;
mod fixtures;
mod inspection;
mod results;
mod serve;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rusm_protocol::{
    Bonds, Cell, ClientMessage, Column, ErrorCode, EventDetail, EventInfo, Events, EventsRequest, Frame, GateInfo,
    Hello, HistoryView, KillReason, LatencySnapshot, LintInfo, LogLine, LogSnapshot, MemorySnapshot, NodeInfo,
    ObserverSnapshot, ParameterMeta, Past, PastView, ProcessDetail, ProcessInfo, ProcessStatus, ResourceProfileMeta,
    Role, Rows, ScenarioMeta, SchedulerSnapshot, ServerMessage, SnapshotCost, SortKey, TimeSeriesSnapshot, TimeView,
    Unit, View, ViewWindow, decode_client, decode_server, encode,
};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Compares `text` with the golden file; with `RUSM_BLESS=1` it writes the file first.
fn check(name: &str, text: &str) -> String {
    let path = folder().join(format!("{name}.json"));
    let value: Value = serde_json::from_str(text).expect("messages are JSON");
    if std::env::var_os("RUSM_BLESS").is_some() {
        let pretty = serde_json::to_string_pretty(&value).expect("JSON prints");
        fs::write(&path, pretty + "\n").expect("the golden folder can be written");
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let expected: Value = serde_json::from_str(&golden).expect("golden files are JSON");
    assert_eq!(value, expected, "{name}: if this change is meant, run with RUSM_BLESS=1 and say so in the changelog");
    golden
}

#[expect(clippy::too_many_lines, reason = "one entry for each message")]
fn client_messages() -> Vec<(&'static str, ClientMessage)> {
    vec![
        (
            "client_run",
            ClientMessage::Run {
                scenario: "spawn-storm".to_owned(),
                params: BTreeMap::from([("live_cap".to_owned(), "4096".to_owned())]),
                settings: Box::default(),
                id: Some(1),
            },
        ),
        (
            "client_run_bare",
            ClientMessage::Run {
                scenario: "ping-pong".to_owned(),
                params: BTreeMap::new(),
                settings: Box::default(),
                id: None,
            },
        ),
        ("client_stop", ClientMessage::Stop { id: Some(2) }),
        ("client_pause", ClientMessage::Pause { paused: true, id: Some(3) }),
        ("client_set_observer_detail", ClientMessage::SetObserverDetail { enabled: true }),
        (
            "client_set_resource_profile",
            ClientMessage::SetResourceProfile { profile: "balanced".to_owned(), id: Some(3) },
        ),
        ("client_watch", ClientMessage::Watch { frame_hz: 10.0 }),
        (
            "client_view",
            ClientMessage::View(View {
                id: 7,
                columns: Column::ALL.to_vec(),
                sort: SortKey { key: Column::MailboxLen, desc: true },
                filter: "name=kv* and mailq>0".to_owned(),
                window: ViewWindow { offset: 120, len: 60 },
                around: None,
                hz: 4.0,
                reorder: true,
                waits: false,
            }),
        ),
        (
            "client_view_around",
            ClientMessage::View(View { id: 8, around: Some("<0.44.1>".to_owned()), waits: true, ..View::default() }),
        ),
        ("client_detail", ClientMessage::Detail { pid: Some("<0.44.1>".to_owned()) }),
        ("client_detail_none", ClientMessage::Detail { pid: None }),
        ("client_inspect", ClientMessage::Inspect { view: Some(inspection::inspect_view()) }),
        ("client_inspect_none", ClientMessage::Inspect { view: None }),
        ("client_causes", ClientMessage::Causes { view: Some(inspection::causes_view()) }),
        ("client_causes_none", ClientMessage::Causes { view: None }),
        ("client_tree", ClientMessage::Tree { view: Some(fixtures::tree_view()) }),
        ("client_tree_none", ClientMessage::Tree { view: None }),
        ("client_engines", ClientMessage::Engines { view: Some(fixtures::engines_view()) }),
        ("client_stores", ClientMessage::Stores { view: Some(fixtures::stores_view()) }),
        ("client_stores_none", ClientMessage::Stores { view: None }),
        ("client_engines_none", ClientMessage::Engines { view: None }),
        ("client_time", ClientMessage::Time { view: Some(TimeView { id: 4, hz: 4.0 }) }),
        ("client_time_none", ClientMessage::Time { view: None }),
        (
            "client_topics_sorted",
            ClientMessage::Topics {
                view: Some(rusm_protocol::TopicsView {
                    sort: rusm_protocol::TopicSort::Full,
                    ..fixtures::topics_view()
                }),
            },
        ),
        ("client_topics", ClientMessage::Topics { view: Some(fixtures::topics_view()) }),
        ("client_schedulers", ClientMessage::Schedulers { view: Some(fixtures::schedulers_view()) }),
        ("client_schedulers_none", ClientMessage::Schedulers { view: None }),
        ("client_serve", ClientMessage::Serve { view: Some(serve::serve_view()) }),
        ("client_serve_none", ClientMessage::Serve { view: None }),
        ("client_cluster", ClientMessage::Cluster { view: Some(cluster::cluster_view()) }),
        ("client_cluster_none", ClientMessage::Cluster { view: None }),
        ("client_topics_none", ClientMessage::Topics { view: None }),
        ("client_cpu", ClientMessage::Cpu { view: Some(fixtures::cpu_view()) }),
        ("client_cpu_none", ClientMessage::Cpu { view: None }),
        ("client_waits", ClientMessage::Waits { view: Some(fixtures::waits_view()) }),
        ("client_waits_none", ClientMessage::Waits { view: None }),
        ("client_trace", ClientMessage::Trace { trace: Some(fixtures::trace_request()), id: Some(7) }),
        ("client_trace_none", ClientMessage::Trace { trace: None, id: None }),
        ("client_events", ClientMessage::Events(EventsRequest { enabled: true, ..EventsRequest::default() })),
        (
            "client_events_log",
            ClientMessage::Events(EventsRequest { enabled: true, backlog: Some(256), open: Some(41), log: true }),
        ),
        ("client_run_measured", {
            let (scenario, params, settings) = ("fan-in".to_owned(), BTreeMap::new(), Box::new(results::settings()));
            ClientMessage::Run { scenario, params, settings, id: Some(9) }
        }),
        ("client_results", ClientMessage::Results { view: Some(results::view()) }),
        ("client_results_none", ClientMessage::Results { view: None }),
        ("client_report", ClientMessage::Report { run: 5, offset: 262_144, id: 8 }),
        ("client_past", ClientMessage::Past(PastView { id: 11, at_ms: 52_000 })),
        ("client_history", ClientMessage::History(HistoryView { id: 12 })),
        ("client_restart_child", ClientMessage::RestartChild { path: "<0.12.1>/3".to_owned(), id: Some(6) }),
        (
            "client_kill_all",
            ClientMessage::KillAll { filter: "module=bomb".to_owned(), reason: KillReason::Kill, id: Some(5) },
        ),
        (
            "client_kill",
            ClientMessage::Kill { pid: "<0.44.1>".to_owned(), reason: KillReason::Shutdown, text: None, id: Some(4) },
        ),
        (
            "client_kill_error",
            ClientMessage::Kill {
                pid: "<0.44.1>".to_owned(),
                reason: KillReason::Error,
                text: Some("leaks memory".to_owned()),
                id: Some(5),
            },
        ),
        (
            "client_set_log_filter",
            ClientMessage::SetLogFilter { filter: "info,rusm_store=trace".to_owned(), id: Some(6) },
        ),
    ]
}

fn server_messages() -> Vec<(&'static str, ServerMessage)> {
    vec![
        ("server_hello", ServerMessage::Hello(Box::new(hello()))),
        ("server_tick", ServerMessage::Tick { frame: Box::new(frame()) }),
        ("server_tick_idle", ServerMessage::Tick { frame: Box::default() }),
        ("server_rows", ServerMessage::Rows(rows())),
        ("server_process", ServerMessage::Process { process: Some(Box::new(process())), pid: "<0.44.1>".to_owned() }),
        (
            "server_process_first_look",
            ServerMessage::Process { process: Some(Box::new(first_look())), pid: "<0.44.1>".to_owned() },
        ),
        ("server_process_gone", ServerMessage::Process { process: None, pid: "<0.44.1>".to_owned() }),
        ("server_inspection", ServerMessage::Inspection(Box::new(inspection::inspection()))),
        ("server_inspection_ended", ServerMessage::Inspection(Box::new(inspection::ended()))),
        ("server_causes", ServerMessage::Causes(inspection::causes())),
        ("server_tree", ServerMessage::Tree(fixtures::tree())),
        ("server_stores", ServerMessage::Stores(fixtures::stores())),
        ("server_engines", ServerMessage::Engines(fixtures::engines())),
        ("server_time", ServerMessage::Time(fixtures::time())),
        ("server_cpu", ServerMessage::Cpu(fixtures::cpu())),
        ("server_schedulers", ServerMessage::Schedulers(fixtures::schedulers())),
        ("server_serve", ServerMessage::Serve(Box::new(serve::serve()))),
        ("server_cluster", ServerMessage::Cluster(Box::new(cluster::cluster()))),
        ("server_topics", ServerMessage::Topics(fixtures::topics())),
        ("server_results", ServerMessage::Results(Box::new(results::results()))),
        ("server_results_none", ServerMessage::Results(Box::default())),
        ("server_report", ServerMessage::Report(results::report())),
        ("server_waits", ServerMessage::Waits(fixtures::waits())),
        ("server_trace", ServerMessage::Trace(fixtures::trace())),
        ("server_trace_over", ServerMessage::Trace(fixtures::trace_over())),
        (
            "server_process_guest",
            ServerMessage::Process { process: Some(Box::new(fixtures::guest())), pid: "<0.45.1>".to_owned() },
        ),
        ("server_events", ServerMessage::Events(events())),
        ("server_events_log", ServerMessage::Events(events_with_log())),
        ("server_past", ServerMessage::Past(fixtures::past(events()))),
        (
            "server_past_refused",
            ServerMessage::Past(Past {
                id: 11,
                refusal: Some("nothing is recorded yet".to_owned()),
                ..Past::default()
            }),
        ),
        ("server_history", ServerMessage::History(fixtures::history())),
        ("server_ack", ServerMessage::Ack { id: 1 }),
        ("server_killed", ServerMessage::Killed { id: 5, processes: 1_024, left: 0 }),
        (
            "server_error",
            ServerMessage::Error {
                message: "unknown scenario: spawn-strom (did you mean spawn-storm?)".to_owned(),
                code: ErrorCode::Unknown,
                id: Some(1),
            },
        ),
    ]
}

fn hello() -> Hello {
    Hello {
        scenarios: vec![ScenarioMeta {
            id: "spawn-storm".to_owned(),
            label: "Spawn storm".to_owned(),
            description: "Processes are spawned, run and are reaped.".to_owned(),
            details: vec!["Counted at reap.".to_owned(), "Not a message rate.".to_owned()],
            real_after_phase: 1,
            real: true,
            unit: Unit::Count,
            ops_label: "spawns/s".to_owned(),
            latency_label: Some("call to first instruction".to_owned()),
            source: None,
            source_file: Some("crates/bench/src/scenarios/actors/spawn_storm.rs".to_owned()),
            family: "actors".to_owned(),
            parameters: vec![ParameterMeta {
                name: "live_cap".to_owned(),
                description: "children alive at once".to_owned(),
                default: "4096".to_owned(),
                range: "1-1000000".to_owned(),
            }],
            lacks: None,
            gates: vec![GateInfo {
                name: "CPU time of a process".to_owned(),
                limit: "at most 150 ns".to_owned(),
                value: None,
                met: None,
            }],
        }],
        profiles: vec![ResourceProfileMeta {
            id: "balanced".to_owned(),
            label: "Balanced".to_owned(),
            description: "Two fifths of the cores.".to_owned(),
        }],
        instance_capacity: 1024,
        protocol_version: 1,
        role: Role::Control,
        node: NodeInfo {
            name: "kv".to_owned(),
            version: "0.1.0".to_owned(),
            os_pid: 4242,
            started_unix_ms: 1_700_000_000_000,
            cores: 2,
            schedulers: 2,
            process_limit: 4_000_000,
            features: vec!["console".to_owned()],
            build: "release".to_owned(),
        },
    }
}

fn frame() -> Frame {
    let latency = LatencySnapshot {
        count: 1_000,
        min_ns: 80,
        max_ns: 90_000,
        mean_ns: 1_250.5,
        p50_ns: 900,
        p90_ns: 2_100,
        p95_ns: 3_800,
        p99_ns: 18_000,
        p999_ns: 64_000,
    };
    Frame {
        scenario: Some("spawn-storm".to_owned()),
        running: true,
        uptime_ms: 5_000,
        ops_per_sec: 20_000_000.5,
        peak_concurrent: 4_096,
        profile: "balanced".to_owned(),
        latency,
        throughput: TimeSeriesSnapshot { points: vec![0.0, 19_000_000.25], capacity: 120 },
        observer: observer(),
        seq: 100,
        captured_at_ns: 5_000_000_000,
        run_id: 3,
        run_ms: 4_000,
        paused: true,
        warming_up: false,
        run_error: None,
        ops_total: 40_000_000,
        errors_total: 1,
        errors_per_sec: 0.5,
        dropped_total: 2,
        dropped_per_sec: 0.25,
        offered_per_sec: 0.0,
        others_alive: 3,
        cpu_ns_per_op: 98.5,
        latency_window: LatencySnapshot { count: 10, ..latency },
        latency_sampling: 16,
        stalled: false,
        cost: SnapshotCost { snapshot_us: 41.5, duty_pct: 0.25, target_hz: 20.0, actual_hz: 19.5 },
        skipped: 4,
    }
}

fn observer() -> ObserverSnapshot {
    ObserverSnapshot {
        uptime_ms: 5_000,
        process_count: 12,
        running: 2,
        waiting: 10,
        scheduler_load: vec![0.75, 0.5],
        total_memory_bytes: 4_096,
        spawned_total: 100,
        finished_total: 88,
        messages_total: 1_000,
        processes: vec![ProcessInfo {
            id: 44,
            name: Some("kv_writer".to_owned()),
            status: ProcessStatus::Waiting,
            mailbox_depth: 3,
            memory_bytes: 512,
            reductions: 900,
            pid: "<0.44.1>".to_owned(),
        }],
        crashed_total: 1,
        killed_total: 0,
        linked_total: 0,
        polled: 2,
        ready: 41,
        spawned_per_sec: 20.5,
        finished_per_sec: 20.25,
        messages_per_sec: 1_000.5,
        schedulers: vec![SchedulerSnapshot {
            utilisation: 0.75,
            run_queue: 5,
            polls_per_sec: 1_000.5,
            steals_per_sec: 10.5,
            parks_per_sec: 3.5,
            wakes_per_sec: 2.5,
        }],
        memory: MemorySnapshot {
            rss_bytes: 10_000_000,
            limit_bytes: 8_000_000_000,
            control_block_bytes: 2_304,
            future_bytes: 1_024,
            mailbox_bytes: 768,
            mailbox_limit_bytes: 2_000_000_000,
            mailboxes_full: true,
            mailboxes_filled_total: 3,
            uses: Some(fixtures::memory_uses()),
        },
        cpu_pct: 125.5,
        others_pct: Some(40.2),
        stuck: vec!["<0.7.1>".to_owned()],
        restarts_total: 7,
        restarts_failed_total: 2,
        children_lost_total: 1,
        lints_total: 3,
        lints: vec![LintInfo {
            id: "mailbox_growing".to_owned(),
            pid: "<0.44.1>".to_owned(),
            name: Some("kv_writer".to_owned()),
            value: 5210.0,
            text: "5210 messages wait, 830 more than 1.0 s ago".to_owned(),
            since_ms: 1200,
        }],
        delays: Some(inspection::delays()),
        log: Some(LogSnapshot {
            lines_total: 1_000,
            dropped_total: 7,
            errors_total: 1,
            error: Some("no space left".to_owned()),
            queued_bytes: 4_096,
        }),
        clients: 2,
    }
}

fn rows() -> Rows {
    Rows {
        id: 7,
        seq: 12,
        epoch: 3,
        total: 1_000_000,
        matched: 3,
        offset: 0,
        order_age_ms: 400,
        degraded: Some("order every 2.1 s, to stay within the budget".to_owned()),
        cost_us: 2_700.5,
        columns: vec![Column::Pid, Column::Name, Column::RedsPerSec, Column::MailboxLen],
        rows: vec![
            vec![
                Cell::Text("<0.44.1>".to_owned()),
                Cell::Text("kv_writer".to_owned()),
                Cell::Rate(912.5),
                Cell::Count(3),
            ],
            vec![Cell::Text("<0.45.1>".to_owned()), Cell::Empty(()), Cell::Rate(0.0), Cell::Count(0)],
            vec![Cell::Text("<0.46.1>".to_owned()), Cell::Empty(()), Cell::Empty(()), Cell::Count(0)],
        ],
        mailbox_fill_pct: vec![75, 0, 0],
    }
}

fn events() -> Events {
    let crash = EventInfo {
        seq: 41,
        at_ms: 1_200,
        kind: "crash".to_owned(),
        pid: "<0.44.1>".to_owned(),
        name: Some("kv_writer".to_owned()),
        reason: Some("panic at src/kv.rs:7:5: disk full".to_owned()),
        ..EventInfo::default()
    };
    let restart = EventInfo {
        seq: 42,
        kind: "restart".to_owned(),
        pid: "<0.12.1>".to_owned(),
        name: Some("writer".to_owned()),
        old: Some("<0.44.1>".to_owned()),
        new: Some("<0.44.2>".to_owned()),
        ..crash.clone()
    };
    Events { events: vec![crash, restart], noted: 42, dropped: 7, ..Events::default() }
}

fn events_with_log() -> Events {
    let line = LogLine {
        seq: 9,
        at_ms: 1_201,
        level: "info".to_owned(),
        target: "rusm::guest".to_owned(),
        pid: Some("<0.44.1>".to_owned()),
        module: Some("cart".to_owned()),
        text: "order 17 is paid".to_owned(),
    };
    let events = events();
    let detail = EventDetail {
        event: events.events[0].clone(),
        module: Some("cart".to_owned()),
        backtrace: vec!["cart::pay".to_owned(), "run".to_owned()],
    };
    Events { opened: Some(Box::new(detail)), log: vec![line], log_noted: 9, ..events }
}

/// A process that was sampled only once: rates need two samples.
fn first_look() -> ProcessDetail {
    ProcessDetail { reds_per_sec: None, busy_pct: None, msgs_per_sec: None, ..process() }
}

fn process() -> ProcessDetail {
    ProcessDetail {
        pid: "<0.44.1>".to_owned(),
        name: Some("kv_writer".to_owned()),
        label: Some("shard-7".to_owned()),
        state: "waiting".to_owned(),
        stuck: false,
        kind: "native".to_owned(),
        parent: Some("<0.1.1>".to_owned()),
        age_ms: 4_000,
        reductions: 900,
        reds_per_sec: Some(12.5),
        busy_ns: 90_000,
        busy_pct: Some(0.5),
        mailbox_len: 3,
        mailbox_capacity: 1_024,
        messages: 500,
        msgs_per_sec: Some(6.5),
        memory_bytes: 512,
        control_block_bytes: 192,
        future_bytes: 128,
        mailbox_bytes: 192,
        future_type: "kv::writer::{{closure}}".to_owned(),
        traps_exits: true,
        links: Bonds { count: 20, pids: vec!["<0.44.2>".to_owned(), "<0.45.1>".to_owned()] },
        monitors: Bonds::default(),
        monitored_by: Bonds { count: 1, pids: vec!["<0.46.1>".to_owned()] },
        module: None,
        facts: Vec::new(),
    }
}

#[test]
fn every_client_message_has_its_golden_text() {
    for (name, message) in client_messages() {
        let golden = check(name, &encode(&message));

        assert_eq!(decode_client(&golden).expect(name), message);
    }
}

#[test]
fn every_server_message_has_its_golden_text() {
    for (name, message) in server_messages() {
        let golden = check(name, &encode(&message));

        assert_eq!(decode_server(&golden).expect(name), message);
    }
}

#[test]
fn no_golden_file_is_left_over() {
    let known: Vec<String> = client_messages()
        .iter()
        .map(|(name, _)| name)
        .chain(server_messages().iter().map(|(name, _)| name))
        .map(|name| format!("{name}.json"))
        .collect();

    for entry in fs::read_dir(folder()).expect("the golden folder is there") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        assert!(known.contains(&name), "{name} belongs to no message");
    }
}

#[test]
fn the_ancestors_commands_are_understood_as_they_were_written() {
    let texts = [
        r#"{"type":"run","scenario":"spawn-storm"}"#,
        r#"{"type":"stop"}"#,
        r#"{"type":"set_observer_detail","enabled":true}"#,
        r#"{"type":"set_resource_profile","profile":"max"}"#,
    ];

    let messages = texts.map(|text| decode_client(text).expect(text));

    assert_eq!(
        messages[0],
        ClientMessage::Run {
            scenario: "spawn-storm".to_owned(),
            params: BTreeMap::new(),
            settings: Box::default(),
            id: None
        }
    );
    assert_eq!(messages[1], ClientMessage::Stop { id: None });
    assert_eq!(messages[2], ClientMessage::SetObserverDetail { enabled: true });
    assert_eq!(messages[3], ClientMessage::SetResourceProfile { profile: "max".to_owned(), id: None });
    for (text, message) in texts.iter().zip(&messages) {
        assert_eq!(*text, encode(message), "nothing is added to the predecessor's text");
    }
}

#[test]
fn the_ancestors_answers_are_understood_as_they_were_written() {
    let hello = r#"{"type":"hello","scenarios":[],"profiles":[{"id":"light","label":"Light","description":""}],"instance_capacity":1024}"#;
    let tick = r#"{"type":"tick","frame":{"scenario":null,"running":false,"uptime_ms":1,"ops_per_sec":0.0,
        "peak_concurrent":0,"profile":"light",
        "latency":{"count":0,"min_ns":0,"max_ns":0,"mean_ns":0.0,"p50_ns":0,"p95_ns":0,"p99_ns":0},
        "throughput":{"points":[],"capacity":120},
        "observer":{"uptime_ms":1,"process_count":1,"running":1,"waiting":0,"scheduler_load":[0.0],
        "total_memory_bytes":0,"spawned_total":0,"finished_total":0,"messages_total":0,
        "processes":[{"id":1,"name":null,"status":"running","mailbox_depth":0,"memory_bytes":0,"reductions":0}]}}}"#;
    let error = r#"{"type":"error","message":"unknown scenario: X"}"#;

    let ServerMessage::Hello(hello) = decode_server(hello).expect("hello") else { panic!("no hello") };
    let ServerMessage::Tick { frame } = decode_server(tick).expect("tick") else { panic!("no tick") };
    let ServerMessage::Error { code, id, .. } = decode_server(error).expect("error") else { panic!("no error") };

    assert_eq!((hello.protocol_version, hello.role), (0, Role::Observe));
    assert_eq!((frame.observer.processes[0].status, frame.seq), (ProcessStatus::Running, 0));
    assert_eq!((code, id), (ErrorCode::Other, None));
}

/// The first fields of a frame have the names of the predecessor's protocol.
#[test]
fn a_frame_keeps_the_ancestors_names() {
    let frame: Value = serde_json::from_str(&encode(&frame())).expect("JSON");
    let names =
        ["scenario", "running", "uptime_ms", "ops_per_sec", "peak_concurrent", "profile", "latency", "throughput"];

    for name in names.into_iter().chain(["observer"]) {
        assert!(frame.get(name).is_some(), "{name}");
    }
    for name in
        ["process_count", "scheduler_load", "total_memory_bytes", "spawned_total", "messages_total", "processes"]
    {
        assert!(frame["observer"].get(name).is_some(), "{name}");
    }
}

#[test]
fn an_error_class_of_a_newer_version_is_read_as_other() {
    let text = r#"{"type":"error","message":"m","code":"quota_exceeded"}"#;

    let message = decode_server(text).expect("an error");

    assert!(matches!(message, ServerMessage::Error { code: ErrorCode::Other, .. }));
}
