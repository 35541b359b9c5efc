//! Encodes tickers and streams.

use rusm_protocol::{StreamInfo, TickerInfo, WaitInfo};

use super::text::cut;
use rusm_runtime::Handle;
use rusm_runtime::NAME_MAX_BYTES;
use rusm_runtime::Pid;
use rusm_runtime::observe::{self, ReaderView, RingView};
use rusm_runtime::ring::Policy;
use rusm_runtime::ticker::{Overrun, TickerReport};

pub(crate) fn ticker(runtime: &Handle, ticker: &TickerReport, fired_per_sec: f64) -> TickerInfo {
    TickerInfo {
        id: ticker.id,
        pid: ticker.pid.map(|pid| pid.to_string()),
        name: match ticker.pid {
            Some(pid) => name(runtime, pid),
            None => ticker.label.as_ref().map(|label| cut(label, NAME_MAX_BYTES)),
        },
        rate_hz: ticker.frequency.as_hz(),
        batch: ticker.batch,
        overrun: overrun(ticker.overrun).to_owned(),
        fired_per_sec,
        fired_total: ticker.account.fired,
        dropped_total: ticker.account.dropped,
        coalesced_total: ticker.account.coalesced,
        late_ns_p50: ticker.lateness.map(|late| late.p50_ns),
        late_ns_p99: ticker.lateness.map(|late| late.p99_ns),
    }
}

const fn overrun(policy: Overrun) -> &'static str {
    match policy {
        Overrun::Drop => "drop",
        Overrun::Burst { .. } => "burst",
        Overrun::Skip => "skip",
        Overrun::Slip => "slip",
    }
}

pub(crate) fn stream(runtime: &Handle, ring: &RingView, written_per_sec: f64) -> StreamInfo {
    StreamInfo {
        id: ring.id,
        label: ring.label.as_ref().map(|label| cut(label, NAME_MAX_BYTES)),
        writer: ring.writer.map(|pid| pid.to_string()),
        ended: ring.ended,
        readers: ring.readers as u64,
        policy: policy(ring.policy).to_owned(),
        capacity: ring.capacity,
        item_bytes: ring.item_bytes as u64,
        fill: ring.fill,
        written_per_sec,
        written_total: ring.written_total,
        waits_total: ring.waits_total,
        evicted_total: ring.evicted_total,
        waits_for: ring.waits_for.map(|reader| wait(runtime, reader)),
    }
}

fn wait(runtime: &Handle, reader: ReaderView) -> WaitInfo {
    WaitInfo {
        pid: reader.pid.map(|pid| pid.to_string()),
        name: reader.pid.and_then(|pid| name(runtime, pid)),
        lag: reader.lag,
    }
}

const fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Lossless => "lossless",
        Policy::EvictAfter(_) => "evict",
        Policy::Lossy => "lossy",
    }
}

/// Formats the result of requesting `SCHED_FIFO`.
pub(crate) fn realtime(entered: Result<u8, String>) -> String {
    match entered {
        Ok(priority) => format!("SCHED_FIFO {priority}"),
        Err(why) => format!("no SCHED_FIFO: {}", cut(&why, NAME_MAX_BYTES)),
    }
}

fn name(runtime: &Handle, pid: Pid) -> Option<String> {
    let report = observe::process(runtime, pid)?;
    report.name.or(report.label).map(|name| cut(&name, NAME_MAX_BYTES))
}
