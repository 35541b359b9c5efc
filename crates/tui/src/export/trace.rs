//! Recorded instants as Chrome trace JSON, which Perfetto and the Firefox profiler open.
//!
//! ```text
//!   node       counters: cpu, memory, messages, operations, processes; crashes and restarts as instants
//!   schedulers one thread each: a slice of the busy part of each step
//!   processes  one thread for each process that was seen busy: a slice of its part of each step
//! ```
//!
//! A recording has shares of a step and not the order within it, so a slice is drawn at the start of its step.

use std::collections::{BTreeMap, BTreeSet};

use rusm_protocol::{Cell, Column, EventInfo, Frame, Past, Rows, ServerMessage};
use serde_json::{Value, json};

/// Numbers of the groups of threads.
const NODE: u32 = 1;
const SCHEDULERS: u32 = 2;
const PROCESSES: u32 = 3;
/// Share of a scheduler from which on a process has a slice, in per cent.
const BUSY_MIN: f64 = 0.1;
/// Maximum number of processes with a thread.
const PROCESSES_MAX: usize = 200;

/// Returns the trace of these instants, oldest first.
pub(super) fn of(node: &str, instants: &[Past]) -> Value {
    let mut trace = Trace { events: Vec::new(), threads: BTreeMap::new(), noted: BTreeSet::new() };
    for (group, name) in [(NODE, node), (SCHEDULERS, "schedulers"), (PROCESSES, "processes, sampled")] {
        trace.events.push(json!({"ph": "M", "name": "process_name", "pid": group, "args": {"name": name}}));
        trace
            .events
            .push(json!({"ph": "M", "name": "process_sort_index", "pid": group, "args": {"sort_index": group}}));
    }
    let mut before_ms = None;
    let first_ms = instants.first().map_or(0, |past| past.at_ms);
    for past in instants {
        trace.instant(past, before_ms, first_ms);
        before_ms = Some(past.at_ms);
    }
    json!({
        "traceEvents": trace.events,
        "displayTimeUnit": "ms",
        "otherData": {
            "source": "rusm-top",
            "note": "a slice is the busy share of its step, drawn at the start of the step: the order within it is not recorded",
        },
    })
}

struct Trace {
    events: Vec<Value>,
    /// Thread of each process.
    threads: BTreeMap<String, usize>,
    /// Numbers of the events of the node that are in the trace.
    noted: BTreeSet<u64>,
}

impl Trace {
    fn instant(&mut self, past: &Past, before_ms: Option<u64>, first_ms: u64) {
        for message in &past.messages {
            match message {
                ServerMessage::Tick { frame } => self.frame(past.at_ms, before_ms, frame),
                ServerMessage::Rows(rows) => {
                    if let Some(before_ms) = before_ms {
                        self.rows(before_ms, past.at_ms, rows);
                    }
                }
                ServerMessage::Events(events) => {
                    for event in &events.events {
                        if event.at_ms >= first_ms && self.noted.insert(event.seq) {
                            self.event(event);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn frame(&mut self, at_ms: u64, before_ms: Option<u64>, frame: &Frame) {
        let seen = &frame.observer;
        let queued: u64 = seen.schedulers.iter().map(|scheduler| scheduler.run_queue).sum();
        for (name, value) in [
            ("cpu, % of a core", seen.cpu_pct),
            ("resident memory, bytes", seen.memory.rss_bytes as f64),
            ("mailboxes, bytes", seen.memory.mailbox_bytes as f64),
            ("processes", seen.process_count as f64),
            ("queued processes", queued as f64),
            ("messages/s", seen.messages_per_sec),
            ("operations/s", frame.ops_per_sec),
        ] {
            self.events.push(json!({
                "ph": "C", "name": name, "pid": NODE, "ts": micros(at_ms), "args": {"value": value},
            }));
        }
        for (at, load) in seen.scheduler_load.iter().enumerate() {
            let thread = at + 1;
            let Some(before_ms) = before_ms else {
                self.name_thread(SCHEDULERS, thread, &format!("scheduler {at}"));
                continue;
            };
            let detail = seen.schedulers.get(at).copied().unwrap_or_default();
            self.slice(
                SCHEDULERS,
                thread,
                "busy",
                (before_ms, at_ms),
                f64::from(*load),
                &json!({
                    "share": load, "run_queue": detail.run_queue, "polls_per_sec": detail.polls_per_sec,
                    "steals_per_sec": detail.steals_per_sec,
                }),
            );
        }
    }

    fn rows(&mut self, before_ms: u64, at_ms: u64, rows: &Rows) {
        let position = |column: Column| rows.columns.iter().position(|other| *other == column);
        let (Some(pid), Some(busy)) = (position(Column::Pid), position(Column::BusyPct)) else { return };
        for row in &rows.rows {
            let (Some(Cell::Text(pid)), Some(share)) = (row.get(pid), row.get(busy).and_then(number)) else { continue };
            if share < BUSY_MIN {
                continue;
            }
            let cell = |column: Column| position(column).and_then(|at| row.get(at));
            let name = match cell(Column::Name) {
                Some(Cell::Text(name)) => name.clone(),
                _ => pid.clone(),
            };
            let next = self.threads.len() + 1;
            let known = self.threads.get(pid).copied();
            let Some(thread) = known.or_else(|| (next <= PROCESSES_MAX).then_some(next)) else { continue };
            if known.is_none() {
                self.threads.insert(pid.clone(), thread);
                let label = if name == *pid { pid.clone() } else { format!("{name} {pid}") };
                self.name_thread(PROCESSES, thread, &label);
            }
            self.slice(PROCESSES, thread, &name, (before_ms, at_ms), share / 100.0, &json!({
                "busy_pct": share, "mailbox_len": cell(Column::MailboxLen), "reds_per_sec": cell(Column::RedsPerSec),
                "state": cell(Column::State), "memory_bytes": cell(Column::MemoryBytes),
            }));
        }
    }

    fn event(&mut self, event: &EventInfo) {
        let who = event.name.as_ref().unwrap_or(&event.pid);
        self.events.push(json!({
            "ph": "i", "s": "g", "name": format!("{} {who}", event.kind), "pid": NODE, "tid": 0,
            "ts": micros(event.at_ms),
            "args": {"pid": event.pid, "reason": event.reason, "old": event.old, "new": event.new, "seq": event.seq},
        }));
    }

    fn name_thread(&mut self, group: u32, thread: usize, name: &str) {
        self.events.push(json!({
            "ph": "M", "name": "thread_name", "pid": group, "tid": thread, "args": {"name": name},
        }));
    }

    fn slice(&mut self, group: u32, thread: usize, name: &str, (from, to): (u64, u64), share: f64, args: &Value) {
        let length = micros(to.saturating_sub(from)) * share.clamp(0.0, 1.0);
        if length > 0.0 {
            self.events.push(json!({
                "ph": "X", "name": name, "cat": "sampled", "pid": group, "tid": thread, "ts": micros(from),
                "dur": length.round(), "args": args,
            }));
        }
    }
}

fn micros(ms: u64) -> f64 {
    ms as f64 * 1000.0
}

fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Count(count) => Some(*count as f64),
        Cell::Rate(rate) => Some(*rate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::Events;

    use super::*;

    fn instant(at_ms: u64) -> Past {
        let mut frame = Frame::default();
        frame.observer.scheduler_load = vec![0.5, 0.0];
        frame.observer.cpu_pct = 50.0;
        let rows = Rows {
            columns: vec![Column::Pid, Column::Name, Column::BusyPct, Column::MailboxLen],
            rows: vec![
                vec![Cell::Text("<0.9.1>".to_owned()), Cell::Text("kv".to_owned()), Cell::Rate(25.0), Cell::Count(3)],
                vec![Cell::Text("<0.8.1>".to_owned()), Cell::Empty(()), Cell::Rate(0.0), Cell::Count(0)],
            ],
            ..Rows::default()
        };
        let event = |seq: u64, at_ms| EventInfo {
            seq,
            at_ms,
            kind: "crash".to_owned(),
            pid: "<0.7.1>".to_owned(),
            reason: Some("disk full".to_owned()),
            ..EventInfo::default()
        };
        let events = Events { events: vec![event(1, 10), event(2, 1_500)], noted: 2, ..Events::default() };
        let messages = vec![
            ServerMessage::Tick { frame: Box::new(frame) },
            ServerMessage::Rows(rows),
            ServerMessage::Events(events),
        ];
        Past { at_ms, messages, ..Past::default() }
    }

    #[test]
    fn a_trace_has_slices_counters_and_instants_with_their_times() {
        let trace = of("kv", &[instant(1_000), instant(2_000), instant(3_000)]);
        let events = trace["traceEvents"].as_array().unwrap();
        let of_kind = |kind: &str| events.iter().filter(|event| event["ph"] == kind).collect::<Vec<_>>();

        let slices = of_kind("X");
        let busy: Vec<(f64, f64)> = slices
            .iter()
            .filter(|slice| slice["pid"] == SCHEDULERS)
            .map(|slice| (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap()))
            .collect();
        assert_eq!(busy, [(1e6, 5e5), (2e6, 5e5)], "no slice of an idle scheduler");
        let process = slices.iter().find(|slice| slice["pid"] == PROCESSES).unwrap();
        assert_eq!((&process["name"], process["dur"].as_f64()), (&json!("kv"), Some(2.5e5)));
        assert_eq!(of_kind("C").len(), 3 * 7);
        let instants = of_kind("i");
        assert_eq!(instants.len(), 1, "once, and none before the span: {instants:?}");
        assert_eq!((&instants[0]["ts"], &instants[0]["args"]["reason"]), (&json!(1_500_000.0), &json!("disk full")));
    }

    #[test]
    fn every_event_has_the_fields_that_viewers_need() {
        let trace = of("kv", &[instant(1_000), instant(2_000)]);

        for event in trace["traceEvents"].as_array().unwrap() {
            assert!(event["ph"].is_string() && event["name"].is_string() && event["pid"].is_u64(), "{event}");
            assert!(event["ph"] == "M" || event["ts"].is_number(), "{event}");
            assert!(event["ph"] != "X" || event["dur"].is_number() && event["tid"].is_u64(), "{event}");
        }
    }
}
