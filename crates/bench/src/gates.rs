//! Gates: the limits that the cards of the scenarios name, judged on a report.
//!
//! A figure is found by the id of the scenario, the title of a table and the position of a column. If a scenario changes
//! one of them, its gate is not judged any more.
//!
//! If the report lacks the figure of a gate, for example because the case was not run or the peer is another program,
//! the gate is not judged: it is shown without a value.

use rusm_protocol::{GateInfo, ScenarioMeta};
use rusm_runtime::Config;

use crate::report::Report;
use crate::report::table::{Cell, ColumnUnit, Table};
use crate::scenario::Scenario;

/// A limit for a figure.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// The figure of another program is needed, which no run of a scenario measures.
    Peer(&'static str),
}

struct Gate {
    name: &'static str,
    limit: Limit,
    unit: ColumnUnit,
    figure: fn(&Report) -> Option<f64>,
}

const fn gate(name: &'static str, limit: Limit, unit: ColumnUnit, figure: fn(&Report) -> Option<f64>) -> Gate {
    Gate { name, limit, unit, figure }
}

const fn peer(name: &'static str, limit: &'static str) -> Gate {
    gate(name, Limit::Peer(limit), ColumnUnit::Ratio, |_| None)
}

use ColumnUnit::{Amount, Count, Ns, Percent, Ratio};
use Limit::{AtLeast, AtMost};

/// The gate of every scenario.
const NO_ERRORS: Gate = gate("failed operations", AtMost(0.0), Count, |report| {
    (report.ops_total > 0).then_some(report.errors_total as f64)
});

/// Judges the gates of a report's scenario.
pub(crate) fn judge(report: &Report) -> Vec<GateInfo> {
    std::iter::once(NO_ERRORS).chain(gates(&report.scenario)).map(|gate| gate.judge(report)).collect()
}

/// Describes a scenario, with its gates, for observers of a runtime.
pub(crate) fn described(scenario: &dyn Scenario, runtime: &Config) -> ScenarioMeta {
    ScenarioMeta { gates: of(scenario.card().id), ..scenario.meta(runtime) }
}

/// Returns the gates of a scenario without values, its own ones first.
fn of(scenario: &str) -> Vec<GateInfo> {
    gates(scenario).into_iter().chain([NO_ERRORS]).map(|gate| gate.info()).collect()
}

fn gates(scenario: &str) -> Vec<Gate> {
    match scenario {
        "spawn-storm" => vec![gate("CPU time of a process", AtMost(150.0), Ns, |report| report.cpu_ns_per_op)],
        "fan-in" => vec![peer("rate ÷ tokio's mpsc", "at least 1.2; see docs/benchmarks.md")],
        "ping-pong" => vec![peer("rate of one pair ÷ tokio's on one thread", "at least 2; see docs/benchmarks.md")],
        "http-throughput" => vec![peer("rate ÷ plain hyper's", "at least 0.9; see docs/serving.md")],
        "http-throughput-ts" => vec![peer("rate of a pool ÷ plain hyper's", "at least 0.3; see docs/serving.md")],
        "ws-echo" => vec![peer("rate ÷ tokio-tungstenite's", "at least 1; see docs/serving.md")],
        "sse-fanout" | "sse-fanout-ts" => vec![peer("rate ÷ plain hyper's", "at least 0.7; see docs/serving.md")],
        "connection-storm" => vec![peer("rate ÷ a plain accept loop's", "at least 0.8; see docs/serving.md")],
        "connection-scale" => vec![
            gate("connections held ÷ target", AtLeast(1.0), Ratio, |report| {
                let table = table(report, "Connections held")?;
                let [held, target] = ["answered 3 pings", "target"].map(|name| most(table, name));
                Some(held? / target?)
            }),
            // With few connections, other allocations in the meantime outweigh theirs.
            gate("bytes of a connection", AtMost(10_240.0), Count, |report| {
                let table = table(report, "Connections held")?;
                most(table, "held").filter(|held| *held >= 1_000.0).and_then(|_| most(table, "bytes/connection"))
            }),
        ],
        "pubsub-fanout" => vec![peer("rate ÷ tokio's broadcast", "at least 2; see docs/benchmarks.md")],
        "distributed-fanout" | "keyed-failover" => of_several_nodes(scenario),
        "parked" => vec![gate("bytes of a process", AtMost(512.0), Count, |report| {
            (report.params.get("body").is_none_or(|body| body == "native")).then_some(())?;
            let parked = Some(report.processes_peak).filter(|count| *count >= 100_000)?;
            Some(report.rss_peak_bytes? as f64 / parked as f64)
        })],
        "component-storm" | "module-storm" => {
            vec![peer("CPU time ÷ plain wasmtime", "at most 1.3; see docs/benchmarks.md")]
        }
        "crypto-ops" => vec![gate("digests for each second of CPU", AtLeast(250_000.0), Amount, |report| {
            report.cpu_ns_per_op.map(|ns| 1e9 / ns)
        })],
        "fairness" => vec![gate("longest gap ÷ its bound", AtMost(1.0), Ratio, |report| {
            let table = table(report, "Turns of the bystanders")?;
            let row = table.rows.last()?;
            let bound = number(row.last()?)?;
            Some(number(row.get(row.len().checked_sub(2)?)?)? / bound)
        })],
        "topic-throughput" => vec![
            gate("rate with a batch of 1", AtLeast(890_000.0), Amount, |report| rate_if(report, "batch", "1")),
            gate("rate with a batch of 100", AtLeast(5e6), Amount, |report| rate_if(report, "batch", "100")),
        ],
        "topic-fanout" => vec![
            gate("p99 at 5,000 a second", AtMost(1e6), Ns, |report| {
                report.open_loop.filter(|open| (open.offered_per_sec - 5_000.0).abs() < 1.0).and_then(|_| p99(report))
            }),
            gate("deliveries at full load", AtLeast(5e6), Amount, |report| {
                report.open_loop.is_none().then_some(report.ops_per_sec.median)
            }),
        ],
        "topic-firehose" => vec![
            gate("share of the copy ceiling", AtLeast(70.0), Percent, |report| {
                cell(table(report, "Copy ceiling")?, "published", "of the ceiling")
            }),
            gate("p99", AtMost(50e6), Ns, p99),
        ],
        "timer-path" => vec![gate("overrun wait ÷ clock read", AtMost(1.2), Ratio, |report| {
            cell(table(report, "A wait that does not block")?, "overrun", "÷ clock read")
        })],
        "timer-switch" => vec![gate("processes ÷ futex", AtMost(0.5), Ratio, |report| {
            cell(table(report, "Context switch")?, "processes", "÷ futex")
        })],
        "timer-sweep" => vec![gate("overruns at 48 kHz", AtMost(5.0), Percent, |report| {
            cell(table(report, "Frequency sweep")?, "48", "overruns")
        })],
        "timer-empty" => {
            vec![gate("overruns", AtMost(0.0), Count, |report| most(table(report, "Empty pipeline")?, "overruns"))]
        }
        "timer-start" => vec![gate("phase skew with an epoch", AtMost(0.0), Ns, |report| {
            let table = table(report, "Starting together")?;
            let (start, skew) = (column(table, "start")?, column(table, "phase skew")?);
            let by_epoch = table.rows.iter().filter(|row| matches!(&row[start], Cell::Text(text) if text == "epoch"));
            by_epoch.filter_map(|row| number(&row[skew])).reduce(f64::max)
        })],
        "timer-kfactor" => vec![gate("firing ÷ clock read at K = 100", AtMost(0.1), Ratio, |report| {
            let table = table(report, "The ticker alone")?;
            let row = table.rows.iter().find(|row| row.first().and_then(number) == Some(100.0))?;
            number(row.get(2)?)
        })],
        "ring-chunk" => vec![gate("copies ÷ memcpy, in parts of the required", AtLeast(1.0), Ratio, |report| {
            let table = table(report, "Chunks through a ring")?;
            let (ratio, required) = (column(table, "÷ memcpy")?, column(table, "gate")?);
            let of_row = |row: &Vec<Cell>| Some(number(&row[ratio])? / number(&row[required])?);
            table.rows.iter().filter_map(of_row).reduce(f64::min)
        })],
        "ring-versus" => vec![peer("read by 16 ÷ the better disruptor", "at least 3 at chunk 16: see the table")],
        "pipe-live" => vec![gate("drops", AtMost(0.0), Count, |report| most(table(report, "From a tick")?, "drops"))],
        "kv-versus" => vec![gate("store ÷ redb grouped", AtLeast(0.9), Ratio, |report| {
            cell(table(report, "The store compared with plain redb")?, "grouped", "store ÷ it")
        })],
        _ => vec![],
    }
}

/// Gates of the scenarios that start other nodes.
fn of_several_nodes(scenario: &str) -> Vec<Gate> {
    match scenario {
        "distributed-fanout" => vec![gate("p50 ÷ the transport's round trip", AtMost(1.5), Ratio, |report| {
            // With more messages in flight, the latency is that of a queue.
            let is_one = |name: &&str| report.params.get(*name).is_some_and(|value| value == "1");
            let is_ping =
                report.open_loop.is_none() && ["nodes", "senders", "subscribers", "window"].iter().all(is_one);
            let transport = cell(table(report, "Round trip of the transport")?, "both", "p50")?;
            let p50 = report.latency.as_ref().map(|latency| latency.distribution.p50_ns).filter(|_| is_ping)?;
            Some(p50 as f64 / transport)
        })],
        "keyed-failover" => vec![
            gate("acknowledged calls lost", AtMost(0.0), Count, |report| most(table(report, "Calls")?, "lost")),
            gate("drain of 100,000 keys", AtMost(30e9), Ns, |report| {
                let events = table(report, "Events")?;
                let (what, keys, took) = (column(events, "event")?, column(events, "keys")?, column(events, "took")?);
                let drains =
                    events.rows.iter().filter(|row| matches!(&row[what], Cell::Text(text) if text == "drained"));
                // A node has about its share of the keys.
                let large = drains.filter(|row| number(&row[keys]).is_some_and(|keys| keys >= 95_000.0));
                large.filter_map(|row| number(&row[took])).reduce(f64::max)
            }),
        ],
        _ => vec![],
    }
}

impl Gate {
    /// Returns the gate without a value.
    fn info(&self) -> GateInfo {
        let limit = match self.limit {
            AtMost(most) => format!("at most {}", self.unit.show_number(most)),
            AtLeast(least) => format!("at least {}", self.unit.show_number(least)),
            Limit::Peer(text) => text.to_owned(),
        };
        GateInfo { name: self.name.to_owned(), limit, value: None, met: None }
    }

    fn judge(&self, report: &Report) -> GateInfo {
        let value = (self.figure)(report);
        let met = value.and_then(|value| match self.limit {
            AtMost(most) => Some(value <= most),
            AtLeast(least) => Some(value >= least),
            Limit::Peer(_) => None,
        });
        GateInfo { value: value.map(|value| self.unit.show_number(value)), met, ..self.info() }
    }
}

fn p99(report: &Report) -> Option<f64> {
    let latency = report.latency.as_ref().map(|latency| latency.distribution)?;
    (latency.count > 0).then_some(latency.p99_ns as f64)
}

/// Returns the rate if a parameter has this value.
fn rate_if(report: &Report, name: &str, value: &str) -> Option<f64> {
    (report.params.get(name).map(String::as_str) == Some(value) && report.open_loop.is_none())
        .then_some(report.ops_per_sec.median)
}

/// Returns the table with a title that begins with this text.
fn table<'a>(report: &'a Report, title: &str) -> Option<&'a Table> {
    report.tables.iter().find(|table| table.title.starts_with(title))
}

fn column(table: &Table, name: &str) -> Option<usize> {
    table.columns.iter().position(|column| column.name == name)
}

/// Returns the number in a column, of the first row that has `row` in its first text.
fn cell(table: &Table, row: &str, name: &str) -> Option<f64> {
    let at = column(table, name)?;
    let is_it = |cells: &&Vec<Cell>| matches!(cells.first(), Some(Cell::Text(text)) if text.contains(row));
    number(table.rows.iter().find(is_it)?.get(at)?)
}

/// Returns the largest number of a column.
fn most(table: &Table, name: &str) -> Option<f64> {
    let at = column(table, name)?;
    table.rows.iter().filter_map(|row| number(row.get(at)?)).reduce(f64::max)
}

const fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number(number) => Some(*number),
        Cell::Text(_) | Cell::Missing => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalogue::catalogue;

    fn report(scenario: &str) -> Report {
        Report { scenario: scenario.to_owned(), ops_total: 1, ..Report::default() }
    }

    #[test]
    fn every_scenario_that_has_a_gate_is_in_the_catalogue_and_all_have_one() {
        for scenario in catalogue() {
            let id = scenario.card().id;
            let gates = judge(&report(id));
            assert!(!gates.is_empty());
            let names = |gates: &[GateInfo]| gates.iter().map(|gate| gate.name.clone()).collect::<BTreeSet<_>>();
            assert_eq!(names(&of(id)), names(&gates), "the card of {id} has them");
        }
        assert_eq!(catalogue().iter().filter(|scenario| !gates(scenario.card().id).is_empty()).count(), 31);
    }

    #[test]
    fn a_gate_is_met_at_its_limit_and_not_beyond_it() {
        let of = |ns| judge(&Report { cpu_ns_per_op: Some(ns), ..report("spawn-storm") });

        let (met, beyond) = (of(150.0), of(151.0));

        assert_eq!(met.iter().map(|gate| gate.met).collect::<Vec<_>>(), [Some(true), Some(true)]);
        assert_eq!((beyond[1].met, beyond[1].limit.as_str()), (Some(false), "at most 150 ns"));
        assert_eq!(beyond[1].value.as_deref(), Some("151 ns"));
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let gates = judge(&report("timer-switch"));

        assert_eq!((gates[1].value.as_deref(), gates[1].met), (None, None));
        assert_eq!(judge(&Report { ops_total: 0, ..report("fan-in") })[0].met, None);
    }

    #[test]
    fn a_figure_is_found_in_its_table() {
        let mut table =
            Table::new("Context switch, 1,000 round trips", &[("between", ColumnUnit::Text), ("÷ futex", Ratio)]);
        table.row(["futex".into(), 1.0.into()]);
        table.row(["processes".into(), 0.22.into()]);

        let gates = judge(&Report { tables: vec![table], ..report("timer-switch") });

        assert_eq!((gates[1].value.as_deref(), gates[1].met), (Some("0.22"), Some(true)));
    }
}
