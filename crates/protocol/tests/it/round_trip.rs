//! Every encoded message decodes to an equal message. Any other input is rejected, and never causes a panic.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rusm_protocol::{
    Cell, ClientMessage, ClusterView, Column, CpuGroup, CpuView, EnginesView, ErrorCode, EventsRequest, FaultId, Frame,
    HistoryView, KeysView, KillReason, LatencySnapshot, ObserverSnapshot, Past, PastView, ProcessDetail, RequestSort,
    ResultsView, RouteSort, Rows, RunSettings, SchedulersView, ServeView, ServerMessage, SortKey, StoresView, TimeView,
    TopicSort, TopicsView, TraceRequest, TraceScope, TreeView, View, ViewWindow, WaitsView, decode_client,
    decode_server, encode,
};

/// Generates floats that decimal text represents exactly: eighths of moderate numbers.
fn rate() -> impl Strategy<Value = f64> {
    (-1_000_000_000i64..1_000_000_000).prop_map(|n| n as f64 / 8.0)
}

fn column() -> impl Strategy<Value = Column> {
    proptest::sample::select(Column::ALL.to_vec())
}

fn id() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(any::<u64>())
}

fn view() -> impl Strategy<Value = View> {
    let sort = (column(), any::<bool>()).prop_map(|(key, desc)| SortKey { key, desc });
    let window = (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    let columns = proptest::collection::vec(column(), 0..20);
    let around = proptest::option::of(".*");
    (any::<u32>(), columns, sort, ".*", window, around, rate(), any::<bool>()).prop_map(
        |(id, columns, sort, filter, window, around, hz, reorder)| View {
            id,
            columns,
            sort,
            filter,
            window,
            around,
            hz,
            reorder,
            waits: reorder,
        },
    )
}

fn tree_view() -> impl Strategy<Value = TreeView> {
    let window = (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    let open = proptest::collection::vec(".*", 0..5);
    (any::<u32>(), open, window, proptest::option::of(".*"), rate())
        .prop_map(|(id, open, window, selected, hz)| TreeView { id, open, window, selected, sums: id % 2 == 0, hz })
}

fn stores_view() -> impl Strategy<Value = StoresView> {
    let window = (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    let keys = (any::<u32>(), ".*", "[0-9a-f]*", any::<u32>());
    let keys = keys.prop_map(|(store, bucket, after, len)| KeysView { store, bucket, after, len });
    (any::<u32>(), window, proptest::option::of(keys), rate()).prop_map(|(id, window, keys, hz)| StoresView {
        id,
        window,
        keys,
        hz,
    })
}

fn engines_view() -> impl Strategy<Value = EnginesView> {
    let window = (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    let fault = (any::<u32>(), any::<u64>()).prop_map(|(engine, seq)| FaultId { engine, seq });
    (any::<u32>(), window, proptest::option::of(fault), rate()).prop_map(|(id, window, fault, hz)| EnginesView {
        id,
        window,
        fault,
        hz,
    })
}

fn schedulers_view() -> impl Strategy<Value = SchedulersView> {
    topics_view().prop_map(|TopicsView { id, window, hz, .. }| SchedulersView { id, window, hz })
}

fn serve_view() -> impl Strategy<Value = ServeView> {
    let window = || (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    let sort = proptest::sample::select(RouteSort::ALL.to_vec());
    let request_sort = proptest::sample::select(RequestSort::ALL.to_vec());
    (any::<u32>(), sort, window(), request_sort, ".{0,9}", window(), rate()).prop_map(
        |(id, sort, window, request_sort, filter, requests, hz)| ServeView {
            id,
            sort,
            window,
            request_sort,
            filter,
            requests,
            hz,
        },
    )
}

fn cluster_view() -> impl Strategy<Value = ClusterView> {
    let window = || (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    (any::<u32>(), window(), window(), rate()).prop_map(|(id, window, names, hz)| ClusterView { id, window, names, hz })
}

fn trace_request() -> impl Strategy<Value = TraceRequest> {
    let scope = proptest::sample::select(vec![TraceScope::Process, TraceScope::Kind, TraceScope::Children]);
    (".*", scope, any::<u32>(), any::<u32>()).prop_map(|(pid, scope, per_sec, seconds)| TraceRequest {
        pid,
        scope,
        per_sec,
        seconds,
    })
}

fn topics_view() -> impl Strategy<Value = TopicsView> {
    let window = (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    let sort = proptest::sample::select(TopicSort::ALL.to_vec());
    (any::<u32>(), sort, window, rate()).prop_map(|(id, sort, window, hz)| TopicsView { id, sort, window, hz })
}

fn cpu_view() -> impl Strategy<Value = CpuView> {
    let window = (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    let group = prop_oneof![Just(CpuGroup::Kind), Just(CpuGroup::Parent), Just(CpuGroup::Scheduler)];
    (any::<u32>(), group, window, rate()).prop_map(|(id, group, window, hz)| CpuView { id, group, window, hz })
}

fn results_view() -> impl Strategy<Value = ResultsView> {
    let window = || (any::<u64>(), any::<u32>()).prop_map(|(offset, len)| ViewWindow { offset, len });
    (any::<u32>(), id(), id(), window(), window(), rate())
        .prop_map(|(id, run, against, rows, history, hz)| ResultsView { id, run, against, rows, history, hz })
}

fn settings() -> impl Strategy<Value = Box<RunSettings>> {
    let text = || proptest::option::of(".{0,9}");
    let numbers = (id(), id(), id(), proptest::option::of(any::<u32>()), id(), id());
    let grid = proptest::collection::vec(".{0,9}", 0..3);
    (text(), text(), proptest::option::of(rate()), numbers, grid).prop_map(|(kind, profile, rate_per_sec, n, grid)| {
        let (duration_ms, warm_up_ms, seed, runs, slo_p99_ns, baseline) = n;
        Box::new(RunSettings {
            kind,
            profile,
            rate_per_sec,
            duration_ms,
            warm_up_ms,
            seed,
            runs,
            grid,
            slo_p99_ns,
            baseline,
        })
    })
}

fn client_message() -> impl Strategy<Value = ClientMessage> {
    let params = proptest::collection::btree_map("[a-z_]{1,12}", ".{0,20}", 0..5);
    let reason = prop_oneof![Just(KillReason::Kill), Just(KillReason::Shutdown), Just(KillReason::Error)];
    prop_oneof![
        (".*", params, settings(), id()).prop_map(|(scenario, params, settings, id): (_, BTreeMap<_, _>, _, _)| {
            ClientMessage::Run { scenario, params, settings, id }
        }),
        proptest::option::of(results_view()).prop_map(|view| ClientMessage::Results { view }),
        any::<[u64; 3]>().prop_map(|[run, offset, id]| ClientMessage::Report { run, offset, id }),
        id().prop_map(|id| ClientMessage::Stop { id }),
        (any::<bool>(), id()).prop_map(|(paused, id)| ClientMessage::Pause { paused, id }),
        any::<bool>().prop_map(|enabled| ClientMessage::SetObserverDetail { enabled }),
        (".*", id()).prop_map(|(profile, id)| ClientMessage::SetResourceProfile { profile, id }),
        rate().prop_map(|frame_hz| ClientMessage::Watch { frame_hz }),
        view().prop_map(ClientMessage::View),
        proptest::option::of(".*").prop_map(|pid| ClientMessage::Detail { pid }),
        proptest::option::of(tree_view()).prop_map(|view| ClientMessage::Tree { view }),
        proptest::option::of(engines_view()).prop_map(|view| ClientMessage::Engines { view }),
        proptest::option::of((any::<u32>(), rate()).prop_map(|(id, hz)| TimeView { id, hz }))
            .prop_map(|view| ClientMessage::Time { view }),
        proptest::option::of(stores_view()).prop_map(|view| ClientMessage::Stores { view }),
        proptest::option::of(topics_view()).prop_map(|view| ClientMessage::Topics { view }),
        proptest::option::of(cpu_view()).prop_map(|view| ClientMessage::Cpu { view }),
        proptest::option::of(schedulers_view()).prop_map(|view| ClientMessage::Schedulers { view }),
        proptest::option::of(serve_view()).prop_map(|view| ClientMessage::Serve { view }),
        proptest::option::of(cluster_view()).prop_map(|view| ClientMessage::Cluster { view }),
        proptest::option::of(topics_view()).prop_map(|view| ClientMessage::Waits {
            view: view.map(|TopicsView { id, window, hz, .. }| WaitsView { id, window, hz }),
        }),
        (proptest::option::of(trace_request()), proptest::option::of(any::<u64>()))
            .prop_map(|(trace, id)| ClientMessage::Trace { trace, id }),
        (any::<bool>(), proptest::option::of(0..600_u32), proptest::option::of(any::<u64>()), any::<bool>()).prop_map(
            |(enabled, backlog, open, log)| ClientMessage::Events(EventsRequest { enabled, backlog, open, log })
        ),
        (any::<u32>(), any::<u64>()).prop_map(|(id, at_ms)| ClientMessage::Past(PastView { id, at_ms })),
        any::<u32>().prop_map(|id| ClientMessage::History(HistoryView { id })),
        (".*", reason, proptest::option::of(".*"), id()).prop_map(|(pid, reason, text, id)| ClientMessage::Kill {
            pid,
            reason,
            text,
            id
        }),
        (".*", id()).prop_map(|(filter, id)| ClientMessage::SetLogFilter { filter, id }),
    ]
}

fn latency() -> impl Strategy<Value = LatencySnapshot> {
    (any::<[u64; 8]>(), rate()).prop_map(|(n, mean_ns)| LatencySnapshot {
        count: n[0],
        min_ns: n[1],
        max_ns: n[2],
        mean_ns,
        p50_ns: n[3],
        p90_ns: n[4],
        p95_ns: n[5],
        p99_ns: n[6],
        p999_ns: n[7],
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let loads = proptest::collection::vec((0..=256u16).prop_map(|n| f32::from(n) / 256.0), 0..64);
    (proptest::option::of(".*"), any::<[u64; 4]>(), rate(), latency(), latency(), loads, any::<bool>()).prop_map(
        |(scenario, n, ops_per_sec, latency, latency_window, scheduler_load, running)| Frame {
            scenario,
            running,
            uptime_ms: n[0],
            seq: n[1],
            ops_total: n[2],
            ops_per_sec,
            latency,
            latency_window,
            observer: ObserverSnapshot { process_count: n[3], scheduler_load, ..ObserverSnapshot::default() },
            ..Frame::default()
        },
    )
}

fn cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        Just(Cell::Empty(())),
        any::<u64>().prop_map(Cell::Count),
        rate().prop_map(Cell::Rate),
        ".*".prop_map(Cell::Text),
    ]
}

fn rows() -> impl Strategy<Value = Rows> {
    let cells = proptest::collection::vec(proptest::collection::vec(cell(), 0..14), 0..20);
    let columns = proptest::collection::vec(column(), 0..14);
    let fills = proptest::collection::vec(any::<u8>(), 0..20);
    (any::<u32>(), any::<[u64; 6]>(), proptest::option::of(".*"), rate(), columns, cells, fills).prop_map(
        |(id, n, degraded, cost_us, columns, rows, mailbox_fill_pct)| Rows {
            id,
            seq: n[0],
            epoch: n[1],
            total: n[2],
            matched: n[3],
            offset: n[4],
            order_age_ms: n[5],
            degraded,
            cost_us,
            columns,
            rows,
            mailbox_fill_pct,
        },
    )
}

fn server_message() -> impl Strategy<Value = ServerMessage> {
    let code = prop_oneof![Just(ErrorCode::Forbidden), Just(ErrorCode::OutOfRange), Just(ErrorCode::Other)];
    let detail = (".*", ".*", any::<[u64; 3]>(), proptest::option::of(rate()));
    let process = detail.prop_map(|(pid, state, n, reds_per_sec)| ProcessDetail {
        pid,
        state,
        age_ms: n[0],
        reductions: n[1],
        reds_per_sec,
        mailbox_len: n[2],
        ..ProcessDetail::default()
    });
    let past = (any::<u32>(), any::<[u64; 3]>(), frame(), rows(), proptest::option::of(".*")).prop_map(
        |(id, n, frame, rows, refusal)| {
            let messages = vec![ServerMessage::Tick { frame: Box::new(frame) }, ServerMessage::Rows(rows)];
            Past { id, at_ms: n[0], oldest_ms: n[1], newest_ms: n[2], messages, refusal, ..Past::default() }
        },
    );
    prop_oneof![
        past.prop_map(ServerMessage::Past),
        frame().prop_map(|frame| ServerMessage::Tick { frame: Box::new(frame) }),
        rows().prop_map(ServerMessage::Rows),
        (proptest::option::of(process.prop_map(Box::new)), ".*")
            .prop_map(|(process, pid)| ServerMessage::Process { process, pid }),
        any::<u64>().prop_map(|id| ServerMessage::Ack { id }),
        (".*", code, id()).prop_map(|(message, code, id)| ServerMessage::Error { message, code, id }),
    ]
}

proptest! {
    #[test]
    fn a_client_message_survives_the_wire(message in client_message()) {
        prop_assert_eq!(decode_client(&encode(&message)), Ok(message));
    }

    #[test]
    fn a_server_message_survives_the_wire(message in server_message()) {
        prop_assert_eq!(decode_server(&encode(&message)), Ok(message));
    }

    #[test]
    fn a_float_comes_back_to_the_last_digit(value in any::<f64>().prop_filter("JSON has none", |f| f.is_finite())) {
        let message = ClientMessage::Watch { frame_hz: value };

        let Ok(ClientMessage::Watch { frame_hz }) = decode_client(&encode(&message)) else { panic!("lost {value}") };

        prop_assert_eq!(frame_hz.to_bits(), value.to_bits());
    }

    #[test]
    fn a_message_is_one_line(message in client_message()) {
        prop_assert!(!encode(&message).contains(['\n', '\r']));
    }

    #[test]
    fn no_text_makes_the_decoders_panic(text in ".*") {
        drop((decode_client(&text), decode_server(&text)));
    }

    #[test]
    fn a_message_cut_anywhere_is_refused(message in client_message(), at in any::<proptest::sample::Index>()) {
        let text = encode(&message);
        let mut end = at.index(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }

        prop_assert!(decode_client(&text[..end]).is_err());
    }

    #[test]
    fn fields_of_a_newer_version_are_skipped(message in client_message(), name in "x_[a-z]{1,8}", value in ".*") {
        let mut json: serde_json::Value = serde_json::from_str(&encode(&message)).unwrap();
        json[name] = serde_json::Value::String(value);

        prop_assert_eq!(decode_client(&json.to_string()), Ok(message));
    }
}
