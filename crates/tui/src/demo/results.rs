//! Results of the simulated node, for the Bench view of `--demo`. **All figures are invented.**
//!
//! The node keeps three results, numbered 1 to 3. A run that the user starts is shown while it is measured, and is not
//! kept.

pub(super) mod cards;

use rusm_protocol::{
    Cell, Curve, CurvePoint, ErrorCode, GateInfo, NamedText, ReportPart, ResultColumn, ResultTable, Results,
    ResultsView, RunComparison, RunEntry, RunResult, RunSettings, ServerMessage,
};

/// A run of the simulated node.
pub(super) struct DemoResult<'a> {
    pub(super) number: u64,
    pub(super) scenario: &'a str,
    pub(super) profile: &'a str,
    pub(super) rate: f64,
    /// Time since the warm-up, in milliseconds; `None` after the end.
    pub(super) measured_ms: Option<u64>,
}

/// Answers a view; `run` is the current run. Without one, the result shown by default is the newest kept one.
pub(super) fn results(view: &ResultsView, run: Option<&DemoResult<'_>>, seq: u64, now_ms: u64) -> Results {
    let history: Vec<RunEntry> = (1..=3).rev().map(entry).collect();
    let result = match view.run {
        Some(number) => Some(kept(number)),
        None => Some(run.map_or_else(|| kept(3), live)),
    };
    let comparison = view.run.zip(view.against).map(|(after, before)| Box::new(comparison(before, after)));
    Results {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 38.0,
        result: result.map(Box::new),
        comparison,
        history_total: history.len() as u64,
        history_offset: 0,
        history: history.into_iter().skip(view.history.offset as usize).collect(),
        history_error: None,
    }
}

/// Returns the report of a result.
pub(super) fn report(run: u64, offset: u64, id: u64) -> Vec<ServerMessage> {
    if !(1..=3).contains(&run) {
        let message = format!("the demo does not keep result {run}");
        return vec![ServerMessage::Error { message, code: ErrorCode::Unknown, id: Some(id) }];
    }
    let whole = format!("{{\n  \"note\": \"demo data: nothing here was measured\",\n  \"run\": {run}\n}}\n");
    let text = whole.get(offset as usize..).unwrap_or_default().to_owned();
    vec![ServerMessage::Report(ReportPart { id, number: run, offset, total: whole.len() as u64, text })]
}

fn text(name: &str, text: &str) -> NamedText {
    NamedText { name: name.to_owned(), text: text.to_owned() }
}

fn live(run: &DemoResult<'_>) -> RunResult {
    let rate = run.rate / 1e6;
    RunResult {
        number: run.number + 3,
        kind: "run".to_owned(),
        scenario: run.scenario.to_owned(),
        state: "measuring".to_owned(),
        measured_ms: run.measured_ms.unwrap_or_default(),
        settings: RunSettings { profile: Some(run.profile.to_owned()), ..RunSettings::default() },
        gates: vec![gate("failed operations", "at most 0", Some("0"), Some(true))],
        facts: vec![text("rate", &format!("{rate:.1} M/s, made up")), text("cpu", "96.0 ns for each operation")],
        ..RunResult::default()
    }
}

fn gate(name: &str, limit: &str, value: Option<&str>, met: Option<bool>) -> GateInfo {
    GateInfo { name: name.to_owned(), limit: limit.to_owned(), value: value.map(str::to_owned), met }
}

fn column(name: &str, unit: &str) -> ResultColumn {
    ResultColumn { name: name.to_owned(), unit: unit.to_owned() }
}

/// Returns one of the three results: a run, a search and a run of cases in turn.
fn kept(number: u64) -> RunResult {
    let ended = RunResult {
        number,
        kind: "run".to_owned(),
        state: "ended".to_owned(),
        verdict: Some("steady".to_owned()),
        verdict_text: "steady".to_owned(),
        conclusive: true,
        settings: RunSettings { runs: Some(6), duration_ms: Some(5_000), ..RunSettings::default() },
        facts: vec![
            text("settings", "closed loop · profile balanced · 4 schedulers · seed 1"),
            text("rate", "19.9 M spawns/s, 95 % 19.7 M to 20.1 M; 18.8 M to 20.4 M over 50 intervals"),
            text("cpu", "96.0 ns for each operation"),
            text("operations", "99,412,004 in 5.00 s after 1.20 s of warm-up; 0 errors, 0 dropped"),
            text("latency", "call to first instruction; one spawn in 16 timed, a clock read is 24.1 ns"),
            text("", "       p50       p90       p95       p99     p99.9       max      mean         timed"),
            text("", "    914 ns   2.31 µs   3.92 µs   18.8 µs    122 µs   2.15 ms   1.42 µs     6,213,251"),
            text("processes", "1,004,096 at most"),
            text("memory", "255.0 MiB resident, 256.2 MiB at most"),
            text("others", "0.03 cores used by other programs meanwhile"),
        ],
        ..RunResult::default()
    };
    match number {
        1 => RunResult {
            scenario: "spawn-storm".to_owned(),
            gates: vec![
                gate("failed operations", "at most 0", Some("0"), Some(true)),
                gate("CPU time of a process", "at most 150 ns", Some("96.0 ns"), Some(true)),
            ],
            ..ended
        },
        2 => search(ended),
        _ => turns(ended),
    }
}

fn search(ended: RunResult) -> RunResult {
    let points = (1..=13u32).map(|step| {
        let load = f64::from(step) / 10.0;
        let p99 = if load < 1.0 { 18_000.0 / (1.02 - load) } else { 4e6 * load * load };
        CurvePoint { x: load * 12.1e6, y: p99, good: load < 0.97 }
    });
    let points: Vec<CurvePoint> = points.collect();
    let row = |point: &CurvePoint| {
        let done = point.x.min(11.9e6);
        let word = if point.good { "stable" } else { "not stable" };
        vec![
            Cell::Rate(point.x / 12.1e6 * 100.0),
            Cell::Rate(point.x),
            Cell::Rate(done),
            Cell::Rate(point.y),
            Cell::Text(word.to_owned()),
        ]
    };
    let rows: Vec<Vec<Cell>> = points.iter().map(row).collect();
    let columns = vec![
        column("load", "percent"),
        column("offered/s", "amount"),
        column("done/s", "amount"),
        column("p99", "ns"),
        column("", "text"),
    ];
    RunResult {
        kind: "saturate".to_owned(),
        scenario: "ping-pong".to_owned(),
        verdict: Some("conclusive".to_owned()),
        verdict_text: "conclusive".to_owned(),
        facts: vec![
            text("closed loop", "12.1 M messages/s; no promise of latency"),
            text("stable to", "11.6 M messages/s"),
            text("found in turn", "11.6 M, 11.5 M, 11.7 M; at most 0.9 % from the middle: they agree"),
        ],
        rows_total: rows.len() as u64,
        tables: vec![ResultTable {
            title: "levels".to_owned(),
            rows_total: rows.len() as u64,
            columns,
            rows,
            ..ResultTable::default()
        }],
        curve: Some(Curve {
            title: "p99 over the offered rate".to_owned(),
            x_unit: "amount".to_owned(),
            y_unit: "ns".to_owned(),
            log_y: true,
            points,
            mark: Some(11.6e6),
            line: None,
        }),
        ..ended
    }
}

fn turns(ended: RunResult) -> RunResult {
    let row = |size: &str, ring: f64, copy: f64| {
        vec![Cell::Text(size.to_owned()), Cell::Rate(ring), Cell::Rate(copy), Cell::Rate(ring / copy), Cell::Rate(41.0)]
    };
    let rows = vec![
        row("64", 1.21e9, 1.40e9),
        row("1,024", 1.19e9, 1.38e9),
        row("4,096", 1.18e9, 1.33e9),
        row("65,536", 0.84e9, 0.97e9),
    ];
    RunResult {
        scenario: "ring-size".to_owned(),
        takes_turns: true,
        gates: vec![
            gate("failed operations", "at most 0", Some("0"), Some(true)),
            gate("ring ÷ memcpy", "at least 0.90", Some("0.86"), Some(false)),
            gate("rate ÷ Go's channels", "at least 2; see docs/benchmarks.md", None, None),
        ],
        rows_total: rows.len() as u64,
        tables: vec![ResultTable {
            title: "Rings of different sizes".to_owned(),
            columns: vec![
                column("capacity", "text"),
                column("ring", "amount"),
                column("memcpy", "amount"),
                column("÷ memcpy", "ratio"),
                column("turns", "count"),
            ],
            rows_total: rows.len() as u64,
            rows,
            notes: vec!["items per second of CPU time of the thread, medians of 41 turns".to_owned()],
            ..ResultTable::default()
        }],
        ..ended
    }
}

fn entry(number: u64) -> RunEntry {
    let of = kept(number);
    let judged = of.gates.iter().filter(|gate| gate.met.is_some()).count() as u32;
    let met = of.gates.iter().filter(|gate| gate.met == Some(true)).count() as u32;
    let median = [19.9e6, 11.6e6, 1.18e9][number as usize - 1];
    RunEntry {
        number,
        recorded_at: format!("2026-11-25T1{number}:04:00Z"),
        kind: of.kind,
        scenario: of.scenario,
        profile: "balanced".to_owned(),
        runs: if number == 2 { 1 } else { 6 },
        duration_ms: 5_000,
        figure: "ops_per_sec".to_owned(),
        unit: "amount".to_owned(),
        median: Some(median),
        low: Some(median * 0.99),
        high: Some(median * 1.01),
        cpu_ns_per_op: (number != 2).then_some(96.0),
        latency_ns_p99: (number == 1).then_some(18_800.0),
        verdict: of.verdict.unwrap_or_default(),
        gates: (judged > 0).then_some([met, judged]),
        version: "0.1.0".to_owned(),
        ..RunEntry::default()
    }
}

fn comparison(before: u64, after: u64) -> RunComparison {
    let cell = |text: &str| Cell::Text(text.to_owned());
    let texts = ["figure", "before", "after", "ratio", "95 %", "outcome"];
    RunComparison {
        before,
        after,
        table: ResultTable {
            columns: texts.map(|name| column(name, "text")).to_vec(),
            rows_total: 1,
            rows: vec![["ops_per_sec", "19.9 M", "20.1 M", "1.010", "0.97 to 1.05", "same"].map(cell).to_vec()],
            ..ResultTable::default()
        },
        notes: vec!["demo data: nothing here was measured".to_owned()],
        decides: "ops_per_sec".to_owned(),
        threshold: 0.1,
        outcome: "same".to_owned(),
    }
}
