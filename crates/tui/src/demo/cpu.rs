//! CPU time of the simulated node.

use rusm_protocol::{Cpu, CpuGroup, CpuPart, CpuRow, CpuView};

type KindSpec = (&'static str, &'static str, f64, u64, f64, Option<&'static str>);

/// Kinds: name, source of the name, parts of the time in polls, live processes, ended ones per second, parent.
const KINDS: [KindSpec; 7] = [
    ("storm child", "label", 0.52, 76, 19_800_000.0, Some("spawner")),
    ("session", "label", 0.16, 999_800, 0.0, Some("sessions")),
    ("counter", "module", 0.12, 24, 1.5, None),
    ("spawner", "label", 0.11, 4, 0.0, Some("bench")),
    ("kv_index::serve", "type", 0.06, 12, 0.0, Some("kv_sup")),
    ("supervisor::run", "type", 0.02, 17, 0.1, None),
    ("http::connection", "type", 0.01, 67, 210.0, Some("listener")),
];
/// Parents: name, pid, part of the time in polls, live children, children ended per second.
const PARENTS: [(&str, &str, f64, u64, f64); 5] = [
    ("spawner", "<0.12.1>", 0.52, 76, 19_800_000.0),
    ("sessions", "<0.9.1>", 0.16, 999_800, 0.0),
    ("app_sup", "<0.2.1>", 0.15, 41, 1.6),
    ("bench", "<0.7.1>", 0.11, 4, 0.0),
    ("kv_sup", "<0.3.1>", 0.06, 79, 210.0),
];
/// Parts of the runtime, in parts of the schedulers' time.
const PARTS: [(&str, f64); 6] = [
    ("dispatch", 0.11),
    ("search", 0.01),
    ("reactor", 0.003),
    ("park", 0.02),
    ("observer", 0.002),
    ("watchdog", 0.0005),
];

/// Answers a request for CPU time. `loads` are the busy shares of the schedulers.
pub(crate) fn cpu(view: &CpuView, seq: u64, now_ms: u64, loads: &[f64]) -> Cpu {
    let total_pct: f64 = loads.iter().sum::<f64>() * 100.0;
    let by_scheduler = view.group == CpuGroup::Scheduler;
    let outside: f64 = PARTS.iter().map(|(_, part)| part).sum();
    let in_polls = total_pct * (1.0 - outside);
    let rows: Vec<CpuRow> = match view.group {
        CpuGroup::Kind | CpuGroup::Other => KINDS.iter().map(|kind| of_kind(*kind, in_polls)).collect(),
        CpuGroup::Parent => PARENTS.iter().map(|parent| of_parent(*parent, in_polls)).collect(),
        CpuGroup::Scheduler => loads
            .iter()
            .enumerate()
            .map(|(at, load)| CpuRow { live: 40 - at as u64 * 7, ..row(format!("s{at}"), "scheduler", load * 100.0) })
            .collect(),
    };
    let parts = PARTS.iter().filter(|(name, _)| !by_scheduler || matches!(*name, "observer" | "watchdog"));
    let runtime: Vec<CpuPart> =
        parts.map(|(name, part)| CpuPart { name: (*name).to_owned(), cpu_pct: total_pct * part }).collect();
    let sum_pct = rows.iter().map(|row| row.cpu_pct).chain(runtime.iter().map(|part| part.cpu_pct)).sum();
    Cpu {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 480.0,
        group: view.group,
        span_ms: 5_000,
        cores: loads.len() as u32,
        process_pct: total_pct,
        others_pct: 21.0,
        sum_pct,
        total: rows.len() as u64,
        offset: view.window.offset.min(rows.len() as u64),
        rows: rows.into_iter().skip(view.window.offset as usize).take(view.window.len as usize).collect(),
        runtime,
        ..Cpu::default()
    }
}

fn row(name: String, kind: &str, cpu_pct: f64) -> CpuRow {
    CpuRow { name, kind: kind.to_owned(), cpu_pct, ..CpuRow::default() }
}

fn of_kind((name, kind, part, live, ended_per_sec, from): KindSpec, pct: f64) -> CpuRow {
    let from = from.map(str::to_owned);
    let ended_pct = if ended_per_sec > 1.0 { part * pct * 0.98 } else { 0.0 };
    // A process that ends in its first poll is not sampled.
    let wait_p99_ns = (ended_per_sec < 1e6).then(|| 900 + live % 97 * 130 + ended_per_sec as u64 * 9);
    let wait_samples = wait_p99_ns.map_or(0, |_| 320);
    CpuRow { live, ended_per_sec, ended_pct, wait_p99_ns, wait_samples, from, ..row(name.to_owned(), kind, part * pct) }
}

fn of_parent((name, pid, part, live, ended_per_sec): (&str, &str, f64, u64, f64), pct: f64) -> CpuRow {
    CpuRow { live, ended_per_sec, pid: Some(pid.to_owned()), ..row(name.to_owned(), "process", part * pct) }
}
