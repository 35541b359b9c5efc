//! Simulated tickers and streams: a sampler with a slow archive reader, and some healthy ones.

use rusm_protocol::{StreamInfo, TickerInfo, Time, TimeView, WaitInfo};

/// Answers a request for tickers and streams.
pub(crate) fn time(view: &TimeView, seq: u64, now_ms: u64) -> Time {
    let due = |hz: u64| hz * now_ms / 1000;
    let ticker = |id: u64, name: &str, hz: u64, batch: u64, lost: [u64; 2], late: Option<[u64; 2]>| TickerInfo {
        id,
        pid: Some(format!("<0.{}.1>", 40 + id)),
        name: Some(name.to_owned()),
        rate_hz: hz as f64,
        batch,
        overrun: if lost[1] > 0 { "skip" } else { "drop" }.to_owned(),
        fired_per_sec: hz as f64 * (1.0 - lost[0] as f64 / 1000.0),
        fired_total: due(hz) - due(hz) * (lost[0] + lost[1]) / 1000,
        dropped_total: due(hz) * lost[0] / 1000,
        coalesced_total: due(hz) * lost[1] / 1000,
        late_ns_p50: late.map(|[p50, _]| p50 + now_ms % 7 * 90),
        late_ns_p99: late.map(|[_, p99]| p99 + now_ms % 11 * 700),
    };
    let stream = |id: u64, label: &str, rate: f64, readers: u64, item_bytes: u64| StreamInfo {
        id,
        label: Some(label.to_owned()),
        writer: Some(format!("<0.{}.1>", 40 + id)),
        readers,
        policy: "lossless".to_owned(),
        capacity: 4096,
        item_bytes,
        fill: 40 * id,
        written_per_sec: rate,
        written_total: (rate * now_ms as f64 / 1000.0) as u64,
        waits_total: id,
        ..StreamInfo::default()
    };
    let waits_for = WaitInfo { pid: Some("<0.77.3>".to_owned()), name: Some("archive".to_owned()), lag: 4096 };
    Time {
        id: view.id,
        seq,
        at_ms: now_ms,
        cost_us: 38.0,
        realtime: None,
        tickers_total: 5,
        tickers: vec![
            ticker(1, "sampler", 48_000, 48, [0, 0], Some([9_400, 38_000])),
            ticker(2, "mixer", 10_000, 1, [0, 3], Some([12_800, 1_400_000])),
            ticker(3, "motor_loop", 1_000, 1, [0, 0], Some([6_100, 17_900])),
            ticker(4, "camera", 240, 1, [41, 0], Some([44_000, 12_300_000])),
            ticker(5, "heartbeat", 1, 1, [0, 0], None),
        ],
        streams_total: 4,
        streams: vec![
            StreamInfo {
                fill: 4096,
                waits_total: 1_742,
                waits_for: Some(waits_for),
                ..stream(1, "samples", 31_200.0, 3, 4)
            },
            stream(2, "mix", 10_000.0, 2, 4),
            StreamInfo { policy: "evict".to_owned(), evicted_total: 2, ..stream(3, "frames", 229.0, 12, 65_536) },
            StreamInfo { policy: "lossy".to_owned(), fill: 0, ended: true, ..stream(4, "stream", 0.0, 1, 1) },
        ],
    }
}
