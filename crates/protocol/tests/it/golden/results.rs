//! The messages about results in the golden files.

use std::collections::BTreeMap;

use rusm_protocol::{
    Cell, Curve, CurvePoint, GateInfo, NamedText, ReportPart, ResultColumn, ResultTable, Results, ResultsView,
    RunComparison, RunEntry, RunResult, RunSettings, ViewWindow,
};

pub(crate) fn settings() -> RunSettings {
    RunSettings {
        kind: Some("ab".to_owned()),
        profile: Some("max".to_owned()),
        rate_per_sec: Some(50_000.5),
        duration_ms: Some(5_000),
        warm_up_ms: Some(2_000),
        seed: Some(7),
        runs: Some(6),
        grid: vec!["pairs=1,8".to_owned()],
        slo_p99_ns: Some(20_000_000),
        baseline: Some(3),
    }
}

pub(crate) fn view() -> ResultsView {
    ResultsView {
        id: 4,
        run: Some(5),
        against: Some(3),
        rows: ViewWindow { offset: 0, len: 200 },
        history: ViewWindow { offset: 0, len: 40 },
        hz: 2.5,
    }
}

fn column(name: &str, unit: &str) -> ResultColumn {
    ResultColumn { name: name.to_owned(), unit: unit.to_owned() }
}

fn table() -> ResultTable {
    ResultTable {
        title: "Round trips".to_owned(),
        columns: vec![column("mode", "text"), column("p50", "ns"), column("trips", "count")],
        rows_total: 2,
        rows_offset: 0,
        rows: vec![
            vec![Cell::Text("futex".to_owned()), Cell::Rate(4_130.5), Cell::Count(12)],
            vec![Cell::Text("processes".to_owned()), Cell::Rate(910.5), Cell::Empty(())],
        ],
        notes: vec!["medians of all turns".to_owned()],
    }
}

fn result() -> RunResult {
    RunResult {
        number: 5,
        kind: "run".to_owned(),
        scenario: "timer-switch".to_owned(),
        state: "ended".to_owned(),
        step: 2,
        steps: 6,
        progress: "run 2 of 6: 1.21M trips/s".to_owned(),
        measured_ms: 5_000,
        planned_ms: 5_000,
        settings: settings(),
        params: BTreeMap::from([("pairs".to_owned(), "auto".to_owned())]),
        takes_turns: true,
        verdict: Some("steady".to_owned()),
        verdict_text: "steady".to_owned(),
        conclusive: true,
        gates: vec![GateInfo {
            name: "processes ÷ futex".to_owned(),
            limit: "at most 0.50".to_owned(),
            value: Some("0.22".to_owned()),
            met: Some(true),
        }],
        facts: vec![NamedText { name: "rate".to_owned(), text: "1.21M trips/s".to_owned() }],
        rows_total: 2,
        rows_offset: 0,
        tables: vec![table()],
        lines: vec!["T: 0 C: 100 Min: 2".to_owned()],
        curve: Some(Curve {
            title: "p99 over the offered rate".to_owned(),
            x_unit: "amount".to_owned(),
            y_unit: "ns".to_owned(),
            log_y: true,
            points: vec![CurvePoint { x: 1_000.5, y: 4_100.5, good: true }],
            mark: Some(900.5),
            line: Some([1.5, 2.5]),
        }),
        error: Some("the scenario failed: killed".to_owned()),
    }
}

pub(crate) fn results() -> Results {
    let entry = RunEntry {
        number: 5,
        recorded_at: "2026-11-25T15:00:00Z".to_owned(),
        kind: "run".to_owned(),
        scenario: "timer-switch".to_owned(),
        profile: "max".to_owned(),
        params: vec!["pairs=8".to_owned()],
        rate_per_sec: Some(1_000.5),
        runs: 6,
        duration_ms: 5_000,
        figure: "ops_per_sec".to_owned(),
        unit: "amount".to_owned(),
        median: Some(1_210_000.5),
        low: Some(1_200_000.5),
        high: Some(1_220_000.5),
        cpu_ns_per_op: Some(45.5),
        latency_ns_p99: Some(9_000.5),
        verdict: "steady".to_owned(),
        gates: Some([1, 1]),
        version: "0.1.0 0123456789".to_owned(),
    };
    let comparison = RunComparison {
        before: 3,
        after: 5,
        table: table(),
        notes: vec!["parameter pairs: 1 before, 8 after".to_owned()],
        decides: "ops_per_sec".to_owned(),
        threshold: 0.125,
        outcome: "inconclusive".to_owned(),
    };
    Results {
        id: 4,
        seq: 7,
        at_ms: 64_000,
        cost_us: 41.5,
        result: Some(Box::new(result())),
        comparison: Some(Box::new(comparison)),
        history_total: 1,
        history_offset: 0,
        history: vec![entry],
        history_error: Some("no history: neither XDG_DATA_HOME nor HOME is set".to_owned()),
    }
}

pub(crate) fn report() -> ReportPart {
    ReportPart { id: 8, number: 5, offset: 262_144, total: 262_146, text: "}\n".to_owned() }
}
