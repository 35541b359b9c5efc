//! Simulated events: regular crashes, each followed by a restart, and lines of the node's log.

use rusm_protocol::{EventDetail, EventInfo, Events, EventsRequest, LogLine};

use super::random::random;

/// Interval between events.
pub(super) const EVERY_MS: u64 = 1_500;

/// A reason that does not fit on one line.
const LONG_REASON: &str = "panic at src/session/checkout.rs:118:27: called `Result::unwrap()` on an `Err` value: \
    Timeout { call: \"payments.authorise\", waited: 5s, order: 48213, attempt: 3, last_error: \"connection reset by peer\" }";

/// Returns what a client has requested.
pub(super) fn answer(seed: u64, now_ms: u64, request: &mut EventsRequest) -> Events {
    let len = request.backlog.take().map_or(64, u64::from);
    let log = if request.log { log(seed, now_ms) } else { Vec::new() };
    Events {
        log_noted: log.last().map_or(0, |line| line.seq),
        log,
        opened: request.open.and_then(|seq| detail(seed, now_ms, seq)).map(Box::new),
        ..recent(seed, now_ms, len)
    }
}

/// Returns the number of crashes before `now_ms`.
pub(super) const fn crashes(now_ms: u64) -> u64 {
    (now_ms / EVERY_MS).div_ceil(2)
}

/// Returns the most recent events before `now_ms`.
pub(crate) fn recent(seed: u64, now_ms: u64, len: u64) -> Events {
    let noted = now_ms / EVERY_MS;
    let events = (noted.saturating_sub(len)..noted).map(|seq| event(seed, seq)).collect();
    Events { events, noted, ..Events::default() }
}

/// Returns an event in full.
pub(crate) fn detail(seed: u64, now_ms: u64, seq: u64) -> Option<EventDetail> {
    let event = event(seed, seq.checked_sub(1).filter(|seq| *seq < now_ms / EVERY_MS)?);
    let is_guest = event.name.as_deref() == Some("ws_session");
    let functions = ["checkout::authorise", "checkout::step", "session::handle", "_start"];
    Some(EventDetail {
        event,
        module: is_guest.then(|| "ws_session".to_owned()),
        backtrace: if is_guest { functions.map(str::to_owned).to_vec() } else { Vec::new() },
    })
}

fn event(seed: u64, seq: u64) -> EventInfo {
    let (crash, is_restart) = (seq / 2, seq % 2 == 1);
    let (child, slot) = (random(seed, 91, crash), 12 + (random(seed, 92, crash) * 40_000.0) as u64);
    let old = format!("<0.{slot}.{}>", crash + 1);
    let reason = match child {
        ..0.5 => "panic at src/kv.rs:7:5: disk full",
        0.8.. => LONG_REASON,
        _ => "timeout",
    };
    EventInfo {
        seq: seq + 1,
        at_ms: seq * EVERY_MS + (random(seed, 93, seq) * 900.0) as u64,
        kind: if is_restart { "restart" } else { "crash" }.to_owned(),
        pid: if is_restart { "<0.12.1>".to_owned() } else { old.clone() },
        name: Some(if child < 0.5 { "kv_writer" } else { "ws_session" }.to_owned()),
        reason: Some(reason.to_owned()),
        new: is_restart.then(|| format!("<0.{slot}.{}>", crash + 2)),
        old: is_restart.then_some(old),
    }
}

/// Returns the newest lines of the log before `now_ms`.
pub(crate) fn log(seed: u64, now_ms: u64) -> Vec<LogLine> {
    const LINE_EVERY_MS: u64 = 700;
    let noted = now_ms / LINE_EVERY_MS;
    let line = |seq: u64| {
        let kind = random(seed, 94, seq);
        let slot = 12 + (random(seed, 95, seq) * 40_000.0) as u64;
        let (level, target, module, text) = match kind {
            ..0.6 => ("info", "rusm::guest", Some("ws_session"), format!("order {slot} is paid")),
            0.9.. => ("warn", "rusm_store::writer", None, "flush took longer than the interval took_ms=41".to_owned()),
            _ => ("debug", "rusm::guest", Some("counter"), format!("count={slot}")),
        };
        LogLine {
            seq: seq + 1,
            at_ms: seq * LINE_EVERY_MS + (kind * 600.0) as u64,
            level: level.to_owned(),
            target: target.to_owned(),
            pid: module.map(|_| format!("<0.{slot}.1>")),
            module: module.map(str::to_owned),
            text,
        }
    };
    (noted.saturating_sub(128)..noted).map(line).collect()
}
