//! Simulated depth of a process, and simulated causes of failures.

use rusm_protocol::{
    BacktraceInfo, BondPage, CauseDetail, CauseInfo, Causes, CausesView, DelaysInfo, EndedInfo, InspectView,
    Inspection, LatencySnapshot, MailboxInfo, MessageInfo, NamedPid, ReachInfo, SenderInfo, SupervisedInfo, TreeBranch,
    TreeEnd, WaitsFor,
};

use super::processes::{PROCESSES, Processes, pid};
use super::random::random;

/// Length of an interval of the history of a cause.
const INTERVAL_MS: u64 = 15_000;

fn named(pid: String, name: &str) -> NamedPid {
    NamedPid { pid, name: Some(name.to_owned()) }
}

/// Returns a process in depth.
pub(super) fn inspection(processes: &Processes, view: &InspectView, seq: u64, ms: u64) -> Inspection {
    let answer =
        Inspection { id: view.id, seq, at_ms: ms, cost_us: 24.0, pid: view.pid.clone(), ..Inspection::default() };
    let supervised = Some(Box::new(SupervisedInfo {
        supervisor: named("<0.12.1>".to_owned(), "sessions"),
        child: "session".to_owned(),
        restart: "permanent".to_owned(),
        restarts_total: 3,
        budget: TreeBranch {
            strategy: "one_for_one".to_owned(),
            used: 1,
            allowed: 5,
            period_ms: 10_000,
            restarts_total: 3,
            running: 40,
            ..TreeBranch::default()
        },
        ends: vec![TreeEnd {
            at_ms: ms.saturating_sub(31_000),
            pid: Some(pid(77)),
            reason: "panic at src/session.rs:41:9: no route for 17".to_owned(),
        }],
    }));
    let Some(process) = processes.detail(&view.pid, ms) else {
        return Inspection { ended: Some(Box::new(end(ms.saturating_sub(2_000)))), supervised, ..answer };
    };
    let related = |from: u64, count: u64| -> Vec<NamedPid> {
        let process = |n: u64| NamedPid { pid: pid((from * 31 + n * 1_009) % PROCESSES), name: processes.name_of(n) };
        (0..count).map(process).collect()
    };
    let page = view.page.as_ref();
    let bond = |bond: &str, total: u64, from: u64| {
        let paged = page.filter(|page| page.bond == bond);
        let (offset, len) = paged.map_or((0, 8), |page| (page.window.offset.min(total), u64::from(page.window.len)));
        let shown = (total - offset).min(len);
        BondPage { bond: bond.to_owned(), total, offset, processes: related(from + offset, shown) }
    };
    let mut bonds = vec![bond("links", 12, 3), bond("monitored_by", 2, 90)];
    if page.is_some_and(|page| page.bond == "children") {
        bonds.push(bond("children", 6, 400));
    }
    let sender = |n: u64, pct: f64| SenderInfo { process: Some(named(pid(n * 7_919), "http_request")), pct };
    let message = |kind: &str, value: Option<&str>| MessageInfo {
        kind: kind.to_owned(),
        bytes: 0,
        value: value.filter(|_| view.values).map(str::to_owned),
    };
    let waits = (process.state == "waiting").then(|| WaitsFor {
        on: "reply".to_owned(),
        process: Some(named(pid(9), "kv_writer")),
        since_ms: Some(41),
        ..WaitsFor::default()
    });
    Inspection {
        is_alive: true,
        waits,
        ancestors: vec![named(process.parent.clone().unwrap_or_default(), "sessions"), named(pid(0), "root")],
        groups: vec!["sessions".to_owned()],
        groups_total: 1,
        timers: 1,
        bonds,
        supervised,
        mailbox: Some(Box::new(MailboxInfo {
            len: process.mailbox_len,
            capacity: process.mailbox_capacity,
            bytes: process.mailbox_bytes,
            in_per_sec: process.msgs_per_sec,
            out_per_sec: process.msgs_per_sec,
            oldest_ms: (process.mailbox_len > 0).then_some(41.5),
            seen: ms * 70,
            sampled: ms * 2,
            senders_total: 64,
            senders: vec![sender(4, 31.0), sender(9, 12.5), sender(2, 1.6)],
            preview: Some(vec![
                message("demo::Order", None),
                message("alloc::string::String", Some("\"flush\"")),
                message("u64", Some("42")),
            ]),
            ..MailboxInfo::default()
        })),
        delays: Some(Box::new(delays(ms / 9, 1.0))),
        backtrace: (process.kind == "wasm").then(|| {
            let frames = ["digest::block", "digest::update", "run"].map(str::to_owned).to_vec();
            Box::new(BacktraceInfo { frames, age_ms: 240 })
        }),
        reach: view.reach.then_some(ReachInfo { ends: 12, is_more: false, told: 2 }),
        ..answer
    }
}

/// Returns delays of `count` polls, of which one in `sampling` was timed.
pub(super) fn delays(count: u64, sampling: f64) -> DelaysInfo {
    let latency = |p50_ns: u64| LatencySnapshot {
        count,
        min_ns: p50_ns / 5,
        max_ns: p50_ns * 90,
        mean_ns: p50_ns as f64 * 1.3,
        p50_ns,
        p90_ns: p50_ns * 2,
        p95_ns: p50_ns * 4,
        p99_ns: p50_ns * 9,
        p999_ns: p50_ns * 60,
    };
    DelaysInfo { scheduling: latency(2_100), poll: latency(910), handling: latency(4_800), sampling }
}

fn end(at_ms: u64) -> EndedInfo {
    EndedInfo {
        name: Some("ws_session".to_owned()),
        future_type: "demo::session::run::{{closure}}".to_owned(),
        parent: Some(named("<0.12.1>".to_owned(), "sessions")),
        at_ms,
        reason: "panic at src/session.rs:41:9: no route for 17".to_owned(),
        by: "itself".to_owned(),
        age_ms: 9_400,
        reductions: 90_210,
        busy_ns: 31_000_000,
        messages: 40_118,
        mailbox_len: 3,
        memory_bytes: 192,
        ..EndedInfo::default()
    }
}

/// Returns the causes of failures.
pub(super) fn causes(seed: u64, view: &CausesView, seq: u64, ms: u64) -> Causes {
    let cause = |n: u32, kind: &str, who: &str, why: &str, count: u64, per_sec: f64, last_ago_ms: u64| CauseInfo {
        cause: n,
        kind: kind.to_owned(),
        who: who.to_owned(),
        why: why.to_owned(),
        count,
        per_sec: Some(per_sec),
        first_ms: 1_200,
        last_ms: ms.saturating_sub(last_ago_ms),
        history: (0..60)
            .map(|at| {
                let wave = random(seed, 200 + u64::from(n), (ms / INTERVAL_MS) + at);
                if at < 20 + u64::from(n) * 9 { 0 } else { (wave * wave * 90.0) as u32 }
            })
            .collect(),
    };
    let causes = vec![
        cause(0, "crash", "kv/writer", "panic at src/kv.rs:7:5: disk full", ms / 3_000, 0.3, 400),
        cause(1, "crash", "sessions/ws_session", "timeout after * ms", ms / 6_000, 0.0, 8_000),
        cause(2, "link", "http_request", "link: killed", 41, 0.0, 41_000),
    ];
    let selected = view.selected.and_then(|n| causes.iter().find(|cause| cause.cause == n)).map(|cause| {
        Box::new(CauseDetail {
            cause: cause.clone(),
            process: named(pid(77), "ws_session"),
            end: EndedInfo { reason: cause.why.replace('*', "250"), ..end(cause.last_ms) },
            backtrace: ["kv::Disk::write", "kv::writer::flush", "kv::writer::run::{{closure}}"]
                .map(str::to_owned)
                .to_vec(),
        })
    });
    Causes {
        id: view.id,
        seq,
        at_ms: ms,
        cost_us: 12.0,
        total: causes.len() as u64,
        offset: 0,
        failures_total: causes.iter().map(|cause| cause.count).sum(),
        others_total: 0,
        interval_ms: INTERVAL_MS,
        causes,
        selected,
    }
}
