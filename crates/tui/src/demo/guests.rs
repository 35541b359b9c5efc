//! Simulated guests: one engine and a few modules, some of which trap at intervals.

use rusm_protocol::{
    CacheInfo, Cell, Column, CountInfo, EngineInfo, Engines, EnginesView, FactInfo, FaultDetail, FaultId, FaultInfo,
    ModuleInfo, SlotsInfo,
};

/// Modules: name, kind, live instances, starts per second, and milliseconds between two traps.
const MODULES: [(&str, &str, u64, u64, Option<u64>); 7] = [
    ("http_request", "wasi component", 4_112, 9_740, Some(4_700)),
    ("counter", "component", 2_048, 0, Some(11_300)),
    ("echo_session", "component", 611, 31, None),
    ("render_markdown", "wasi module", 96, 212, Some(23_900)),
    ("digest", "component", 64, 0, None),
    ("spin", "module", 4, 0, None),
    ("hello", "module", 0, 2, None),
];

/// Traps: error code and the functions of the backtrace.
const TRAPS: [(&str, &[&str]); 3] = [
    ("unreachable", &["core::panicking::panic_fmt", "router::route", "handler::handle", "run"]),
    ("memory out of bounds", &["memcpy", "render_inline", "render_block", "main", "_start"]),
    ("stack overflow", &["parse_expr", "parse_expr", "parse_expr", "parse_expr", "parse", "run"]),
];

const CAPACITY: u64 = 10_000;

/// Returns the module and kind of the process with that name, if it is a guest. Only the first three modules have
/// processes in the simulated process table.
pub(super) fn module_of(name: &str) -> Option<(&'static str, &'static str)> {
    MODULES[..3].iter().find(|(module, ..)| *module == name).map(|(module, kind, ..)| (*module, *kind))
}

/// Returns the value of a column that only guests have, for process number `i` after `ms` milliseconds.
pub(super) fn cell(name: &str, column: Column, i: u64, ms: u64) -> Cell {
    let Some((module, _)) = module_of(name) else {
        return if column == Column::Kind { Cell::Text("native".to_owned()) } else { Cell::Empty(()) };
    };
    match column {
        Column::Kind => Cell::Text("wasm".to_owned()),
        Column::Module => Cell::Text(module.to_owned()),
        Column::Profile => Cell::Text(if module == "http_request" { "network" } else { "sandboxed" }.to_owned()),
        Column::LinearMemoryBytes => Cell::Count((1 + i % 17) << 16),
        Column::TableElements => Cell::Count(4 + i % 9),
        Column::EpochSlices => Cell::Count(i % 7 * (ms / 1000) / 3),
        Column::LastHostCall => Cell::Text(["receive", "send", "receive-tagged", "sleep"][(i % 4) as usize].to_owned()),
        Column::SentBytes => Cell::Count(1024 * (i % 5) * (i % 3)),
        _ => Cell::Empty(()),
    }
}

/// Returns the facts that the body of a guest reports.
pub(super) fn facts(name: &str, i: u64, ms: u64) -> Vec<FactInfo> {
    let Some((_, kind)) = module_of(name) else { return Vec::new() };
    let fact = |name: &str, value| FactInfo { name: name.to_owned(), value };
    let cell = |column| cell(name, column, i, ms);
    vec![
        fact("form", Cell::Text(kind.to_owned())),
        fact("profile", cell(Column::Profile)),
        fact("linear_memory_bytes", cell(Column::LinearMemoryBytes)),
        fact("linear_memory_max_bytes", Cell::Count(16 << 20)),
        fact("table_elements", cell(Column::TableElements)),
        fact("epoch_slices_total", cell(Column::EpochSlices)),
        fact("host_calls_total", Cell::Count(i % 1_000 + ms / 20)),
        fact("last_host_call", cell(Column::LastHostCall)),
        fact("sent_bytes", cell(Column::SentBytes)),
        fact("sent_max_bytes", Cell::Count(16 << 20)),
        fact("refusals_total", Cell::Count(u64::from(i.is_multiple_of(5)))),
    ]
}

/// Answers a request for engines.
pub(crate) fn engines(view: &EnginesView, seq: u64, now_ms: u64) -> Engines {
    let seconds = now_ms / 1000;
    let died = |every: Option<u64>| every.map_or(0, |every| now_ms / every);
    let live = |at: usize| {
        let wave = (seconds * 7 + at as u64 * 5) % 11;
        let base = MODULES[at].2;
        base + base * wave / 160
    };
    let modules: Vec<ModuleInfo> = MODULES
        .iter()
        .enumerate()
        .map(|(at, (name, kind, _, rate, every))| ModuleInfo {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            engine: 0,
            live: live(at),
            started_total: live(at) + rate * seconds,
            faults_total: died(*every),
        })
        .collect();
    let mut traps: Vec<(FaultInfo, &[&str])> = Vec::new();
    for (at, (name, .., every)) in MODULES.iter().enumerate() {
        let Some(every) = every else { continue };
        let (code, functions) = TRAPS[at % TRAPS.len()];
        traps.extend((1..=now_ms / every).rev().take(12).map(|n| {
            let fault = FaultInfo {
                id: FaultId { engine: 0, seq: n * 10 + at as u64 },
                at_ms: n * every,
                pid: format!("<0.{}.{n}>", 4_096 + at * 977 + n as usize % 61),
                module: (*name).to_owned(),
                code: code.to_owned(),
                function: functions.first().map(|function| (*function).to_owned()),
            };
            (fault, functions)
        }));
    }
    traps.sort_by_key(|(fault, _)| std::cmp::Reverse(fault.at_ms));
    let in_full = view.fault.and_then(|id| traps.iter().find(|(fault, _)| fault.id == id));
    let in_full = in_full.map(|(fault, functions)| {
        let backtrace = functions.iter().map(|function| (*function).to_owned()).collect();
        Box::new(FaultDetail { fault: fault.clone(), backtrace })
    });
    let (first, total) = (view.window.offset.min(modules.len() as u64), modules.len() as u64);
    Engines {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 19.0,
        engines: vec![engine(&modules, now_ms)],
        total,
        offset: first,
        modules: modules.into_iter().skip(first as usize).take(view.window.len as usize).collect(),
        faults: traps.into_iter().map(|(fault, _)| fault).take(16).collect(),
        fault: in_full,
    }
}

fn engine(modules: &[ModuleInfo], now_ms: u64) -> EngineInfo {
    let count = |name: &str, count| CountInfo { name: name.to_owned(), count };
    let slots = |name: &str, used, slots| SlotsInfo { name: name.to_owned(), used, slots };
    let live = modules.iter().map(|module| module.live).sum();
    let of = |at: usize| modules[at].faults_total;
    // The modules that trap are 0, 1 and 3; `engines` gives module `at` the trap `at % 3` of `TRAPS`.
    let faults = [("unreachable", of(0) + of(3)), ("memory out of bounds", of(1))];
    EngineInfo {
        kind: "wasm".to_owned(),
        room: "pool".to_owned(),
        capacity: CAPACITY,
        live,
        started_total: modules.iter().map(|module| module.started_total).sum(),
        refused_total: now_ms / 9_000,
        slots: vec![slots("memories", live + live / 3, 4 * CAPACITY), slots("stacks", live, CAPACITY)],
        ticks_total: now_ms,
        tick_us: 1_000,
        is_ticking: true,
        cache: CacheInfo {
            entries: 24,
            bytes: 31 << 20,
            max_bytes: 256 << 20,
            hits_total: 31,
            misses_total: 4,
            evictions_total: 1,
            ..CacheInfo::default()
        },
        faults_total: faults.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| count(name, n)).collect(),
        refusals_total: vec![count("spawn", 3 + now_ms / 30_000), count("network", 2)],
    }
}
