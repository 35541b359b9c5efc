//! Simulated events: regular crashes, each followed by a restart.

use rusm_protocol::{EventInfo, Events};

use super::random::random;

/// Interval between events.
pub(super) const EVERY_MS: u64 = 1_500;

/// Returns the most recent events before `now_ms`.
pub(super) fn recent(seed: u64, now_ms: u64) -> Events {
    let noted = now_ms / EVERY_MS;
    let event = |seq: u64| {
        let (crash, is_restart) = (seq / 2, seq % 2 == 1);
        let (child, slot) = (random(seed, 91, crash), 12 + (random(seed, 92, crash) * 40_000.0) as u64);
        let old = format!("<0.{slot}.{}>", crash + 1);
        EventInfo {
            seq: seq + 1,
            at_ms: seq * EVERY_MS + (random(seed, 93, seq) * 900.0) as u64,
            kind: if is_restart { "restart" } else { "crash" }.to_owned(),
            pid: if is_restart { "<0.12.1>".to_owned() } else { old.clone() },
            name: Some(if child < 0.5 { "kv_writer" } else { "ws_session" }.to_owned()),
            reason: Some(if child < 0.5 { "panic at src/kv.rs:7:5: disk full" } else { "timeout" }.to_owned()),
            new: is_restart.then(|| format!("<0.{slot}.{}>", crash + 2)),
            old: is_restart.then_some(old),
        }
    };
    Events { events: (noted.saturating_sub(64)..noted).map(event).collect(), noted, dropped: 0 }
}
