//! The demo's list of waits and its traces.

use rusm_protocol::{ServerMessage, TRACE_SECONDS_MAX, Trace, TraceEvent, TraceRequest, WaitRow, Waits, WaitsView};

/// Interval between two messages of a trace.
const TRACE_EVERY_MS: u64 = 200;
/// Number of events per second of a trace.
const EVENTS_PER_SEC: u64 = 40;

/// Views of waits and traces that the observer has requested.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    waits: Option<WaitsView>,
    next_waits_ms: u64,
    trace: Option<RunningTrace>,
}

#[derive(Clone, Debug)]
struct RunningTrace {
    request: TraceRequest,
    started_ms: u64,
    sent: u64,
    next_ms: u64,
}

impl Watches {
    /// Selects a view of the waits.
    pub(crate) fn show_waits(&mut self, view: Option<WaitsView>, now_ms: u64) {
        (self.waits, self.next_waits_ms) = (view, now_ms);
    }

    /// Starts a trace, or ends it.
    pub(crate) fn trace(&mut self, request: Option<TraceRequest>, now_ms: u64) {
        self.trace = request.map(|request| RunningTrace { request, started_ms: now_ms, sent: 0, next_ms: now_ms });
    }

    /// Returns the messages that are due.
    pub(crate) fn poll(&mut self, now_ms: u64) -> Vec<ServerMessage> {
        let mut out = Vec::new();
        if let Some(view) = self.waits.as_ref().filter(|_| now_ms >= self.next_waits_ms) {
            self.next_waits_ms = now_ms + (1000.0 / view.hz.clamp(1.0, 10.0)) as u64;
            out.push(ServerMessage::Waits(waits(view, now_ms)));
        }
        if let Some(running) = self.trace.as_mut().filter(|running| now_ms >= running.next_ms) {
            running.next_ms = now_ms + TRACE_EVERY_MS;
            let trace = running.read(now_ms);
            let is_over = trace.end.is_some();
            out.push(ServerMessage::Trace(trace));
            if is_over {
                self.trace = None;
            }
        }
        out
    }

    /// Returns the time of the next message.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let waits = self.waits.as_ref().map(|_| self.next_waits_ms);
        let trace = self.trace.as_ref().map(|running| running.next_ms);
        waits.into_iter().chain(trace).min()
    }
}

impl RunningTrace {
    fn read(&mut self, now_ms: u64) -> Trace {
        let length_ms = u64::from(self.request.seconds.clamp(1, TRACE_SECONDS_MAX)) * 1_000;
        let ran_ms = (now_ms - self.started_ms).min(length_ms);
        let recorded = ran_ms * EVENTS_PER_SEC / 1_000;
        let first = self.sent + 1;
        self.sent = recorded;
        let start_us = self.started_ms * 1_000;
        Trace {
            pid: self.request.pid.clone(),
            scope: self.request.scope,
            at_ms: now_ms,
            processes: 1,
            per_sec: self.request.per_sec,
            left_ms: length_ms - ran_ms,
            end: (ran_ms == length_ms).then(|| "time".to_owned()),
            recorded,
            left_out: 0,
            events: (first..=recorded).map(|seq| event(&self.request.pid, seq, start_us)).collect(),
        }
    }
}

fn event(pid: &str, seq: u64, start_us: u64) -> TraceEvent {
    let peer = format!("<0.{}.1>", 40 + seq % 3);
    let message = |kind: &str, name: &str, bytes| TraceEvent {
        kind: kind.to_owned(),
        peer: Some(peer.clone()),
        message: Some(name.to_owned()),
        bytes: Some(bytes),
        ..TraceEvent::default()
    };
    let event = match seq % 4 {
        1 => message("arrive", "shop::Order", 128),
        2 => message("receive", "shop::Order", 128),
        3 => message("send", "shop::Receipt", 64),
        _ => TraceEvent {
            kind: "poll".to_owned(),
            took_us: Some(3.0 + (seq % 7) as f64),
            state: Some("receive".to_owned()),
            ..TraceEvent::default()
        },
    };
    TraceEvent { seq, at_us: start_us + seq * 1_000_000 / EVENTS_PER_SEC, pid: pid.to_owned(), ..event }
}

/// Returns a window of the list: a cycle of three calls, a slow server with its clients, and a full topic.
pub(super) fn waits(view: &WaitsView, now_ms: u64) -> Waits {
    let row = |depth, slot: u32, name: Option<&str>, state: &str| WaitRow {
        depth,
        pid: Some(format!("<0.{slot}.1>")),
        name: name.map(str::to_owned),
        state: state.to_owned(),
        ..WaitRow::default()
    };
    let waiting =
        |row: WaitRow, wait: &str, age_ms| WaitRow { wait: Some(wait.to_owned()), age_ms: Some(age_ms), ..row };
    let age_ms = now_ms % 60_000;
    let mut rows = vec![
        WaitRow { waiters: 2, cycle: 3, ..row(0, 51, Some("billing"), "call→<0.52.1>") },
        WaitRow { waiters: 1, cycle: 3, ..waiting(row(1, 53, Some("stock"), "call→<0.51.1>"), "call", age_ms) },
        WaitRow { cycle: 3, ..waiting(row(2, 52, Some("shipping"), "call→<0.53.1>"), "call", age_ms) },
        WaitRow { waiters: 6, ..row(0, 44, Some("kv_writer"), "running") },
        WaitRow { waiters: 1, ..waiting(row(1, 60, Some("session"), "call→<0.44.1>"), "call", 180) },
        waiting(row(2, 65, None, "call→<0.60.1>"), "call", 120),
    ];
    rows.extend((61..65).map(|slot| waiting(row(1, slot, None, "full→<0.44.1>"), "full", 90)));
    rows.push(WaitRow { waiters: 1, ..row(0, 70, Some("archive"), "sleeping") });
    let through = Some("topic orders".to_owned());
    rows.push(WaitRow { through, ..waiting(row(1, 71, Some("shop"), "topic→<0.70.1>"), "topic", 40) });
    let total = rows.len() as u64;
    let offset = view.window.offset.min(total);
    let rows = rows.into_iter().skip(offset as usize).take(view.window.len as usize).collect();
    Waits { id: view.id, seq: now_ms, at_ms: now_ms, cost_us: 35.0, waiting: 10, cycles: 1, total, offset, rows }
}
