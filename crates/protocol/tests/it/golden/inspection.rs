//! The messages about one process in depth and about causes, for the golden files.

use rusm_protocol::{
    BacktraceInfo, BondPage, BondView, CauseDetail, CauseInfo, Causes, CausesView, DelaysInfo, EndedInfo, InspectView,
    Inspection, LatencySnapshot, MailboxInfo, MessageInfo, NamedPid, PollInfo, ReachInfo, SenderInfo, SupervisedInfo,
    TreeBranch, TreeEnd, ViewWindow, WaitsFor,
};

fn named(pid: &str, name: &str) -> NamedPid {
    NamedPid { pid: pid.to_owned(), name: Some(name.to_owned()) }
}

fn unnamed(pid: &str) -> NamedPid {
    NamedPid { pid: pid.to_owned(), name: None }
}

pub(crate) fn inspect_view() -> InspectView {
    InspectView {
        id: 6,
        pid: "<0.44.1>".to_owned(),
        page: Some(BondView { bond: "links".to_owned(), window: ViewWindow { offset: 200, len: 100 } }),
        reach: true,
        values: true,
        hz: 4.0,
    }
}

pub(crate) fn causes_view() -> CausesView {
    CausesView { id: 7, window: ViewWindow { offset: 0, len: 20 }, selected: Some(3), hz: 2.0 }
}

fn latency(p50_ns: u64) -> LatencySnapshot {
    LatencySnapshot {
        count: 400,
        min_ns: p50_ns / 4,
        max_ns: p50_ns * 40,
        mean_ns: 1500.5,
        p50_ns,
        p90_ns: p50_ns * 2,
        p95_ns: p50_ns * 3,
        p99_ns: p50_ns * 8,
        p999_ns: p50_ns * 30,
    }
}

pub(crate) fn delays() -> DelaysInfo {
    DelaysInfo { scheduling: latency(2000), poll: latency(900), handling: latency(5000), sampling: 64.5 }
}

fn mailbox() -> MailboxInfo {
    MailboxInfo {
        len: 1024,
        capacity: 1024,
        bytes: 73_728,
        waiting_senders: 63,
        in_per_sec: Some(29_400.5),
        out_per_sec: Some(29_400.0),
        oldest_ms: Some(41.25),
        oldest_is_minimum: true,
        full_ms: Some(3200),
        seen: 120_000,
        sampled: 4000,
        senders_total: 64,
        senders: vec![
            SenderInfo { process: Some(named("<0.4.5>", "producer")), pct: 1.5 },
            SenderInfo { process: None, pct: 0.5 },
        ],
        preview: Some(vec![
            MessageInfo { kind: "shop::Order".to_owned(), bytes: 0, value: None },
            MessageInfo { kind: "alloc::string::String".to_owned(), bytes: 5, value: Some("flush".to_owned()) },
        ]),
        preview_age_ms: Some(250),
    }
}

pub(crate) fn inspection() -> Inspection {
    Inspection {
        id: 6,
        seq: 9,
        at_ms: 64_000,
        cost_us: 31.5,
        pid: "<0.44.1>".to_owned(),
        is_alive: true,
        ended: None,
        waits: Some(WaitsFor {
            on: "room".to_owned(),
            process: Some(named("<0.51.1>", "ledger")),
            subject: Some("orders".to_owned()),
            since_ms: Some(1200),
            is_minimum: true,
        }),
        poll: Some(Box::new(PollInfo {
            scheduler: 1,
            at_most_ms: 3200.5,
            doing: Some("system_call".to_owned()),
            system_call: Some("clock_nanosleep".to_owned()),
        })),
        backtrace: Some(Box::new(BacktraceInfo { frames: vec!["digest".to_owned(), "run".to_owned()], age_ms: 120 })),
        ancestors: vec![named("<0.12.1>", "kv"), unnamed("<0.1.1>")],
        names: vec!["kv_writer".to_owned()],
        groups: vec!["writers".to_owned()],
        groups_total: 1,
        timers: 2,
        bonds: vec![BondPage {
            bond: "links".to_owned(),
            total: 999_998,
            offset: 200,
            processes: vec![unnamed("<0.45.1>"), named("<0.46.1>", "reader")],
        }],
        supervised: Some(Box::new(SupervisedInfo {
            supervisor: named("<0.12.1>", "kv"),
            child: "writer".to_owned(),
            restart: "permanent".to_owned(),
            restarts_total: 16,
            budget: budget(),
            ends: vec![TreeEnd { at_ms: 1200, pid: Some("<0.43.1>".to_owned()), reason: "disk full".to_owned() }],
        })),
        supervises: Some(TreeBranch { strategy: "one_for_one".to_owned(), running: 3, ..budget() }),
        mailbox: Some(Box::new(mailbox())),
        delays: Some(Box::new(DelaysInfo { sampling: 1.0, ..delays() })),
        reach: Some(ReachInfo { ends: 999_998, is_more: true, told: 1 }),
    }
}

fn budget() -> TreeBranch {
    TreeBranch {
        open: false,
        strategy: "one_for_one".to_owned(),
        used: 1,
        allowed: 5,
        period_ms: 10_000,
        restarts_total: 17,
        running: 2,
        waiting: 0,
        ended: 0,
    }
}

fn end() -> EndedInfo {
    EndedInfo {
        name: Some("kv_writer".to_owned()),
        future_type: "kv::writer::{{closure}}".to_owned(),
        parent: Some(named("<0.12.1>", "kv")),
        at_ms: 61_200,
        reason: "killed".to_owned(),
        by: "observer".to_owned(),
        by_process: Some(unnamed("<0.9.1>")),
        by_observer: Some("user 1000, process 812".to_owned()),
        age_ms: 4000,
        reductions: 900,
        busy_ns: 90_000,
        messages: 500,
        mailbox_len: 3,
        memory_bytes: 320,
    }
}

/// The answer about a process that has ended.
pub(crate) fn ended() -> Inspection {
    Inspection { id: 6, seq: 10, pid: "<0.44.1>".to_owned(), ended: Some(Box::new(end())), ..Inspection::default() }
}

pub(crate) fn causes() -> Causes {
    let cause = CauseInfo {
        cause: 3,
        kind: "crash".to_owned(),
        who: "kv/shard *".to_owned(),
        why: "panic at src/kv.rs:7:5: no row *".to_owned(),
        count: 16_100_000,
        per_sec: Some(640_000.0),
        first_ms: 1200,
        last_ms: 63_900,
        history: vec![0, 0, 40, 16_099_960],
    };
    Causes {
        id: 7,
        seq: 4,
        at_ms: 64_000,
        cost_us: 22.5,
        total: 3,
        offset: 0,
        failures_total: 17_100_007,
        others_total: 0,
        interval_ms: 15_000,
        causes: vec![cause.clone()],
        selected: Some(Box::new(CauseDetail {
            cause,
            process: named("<0.44.1>", "shard 7"),
            end: end(),
            backtrace: vec!["kv::write".to_owned(), "kv::run".to_owned()],
        })),
    }
}
