//! The output of the seed's harness for a round: its text block, its summary line for programs and its TSV row.
//!
//! Fields and columns have the seed's names and order, so the same tools and readers can use both. The seed prints the
//! size of its Go heap; this prints resident memory instead, in binary units.

use std::time::Duration;

use crate::measure::usage::resident;
use crate::report::numbers::grouped;
use crate::scenarios::counters::flags::Flags;
use crate::scenarios::counters::load::RoundOutcome;

/// Column names of the seed's table.
pub(crate) const TSV_HEAD: &str = "Variant\tOps\tDuration\tOps/sec\tP50(us)\tP95(us)\tP99(us)\tLogicalWrites\tDBCalls\tOpsPerDBCall\t\
                                   Ops/sec(calc)\tOps/sec/key\tDBCalls/sec\tLogicalWrites/sec";

/// Returns the text block.
pub(crate) fn block(variant: &str, flags: &Flags, outcome: &RoundOutcome) -> Vec<String> {
    let latency = |percentile| shown(outcome.latency_ns(percentile));
    let (writes, calls) = (outcome.account.events, outcome.account.calls());
    let per_sec = |count: u64| grouped((count as f64 / outcome.wall.as_secs_f64()).round() as u64);
    let memory = resident().map_or_else(
        || "Memory: unknown".to_owned(),
        |(now, most)| format!("Memory: RSS={}  Peak={}", mebibytes(now), mebibytes(most)),
    );
    vec![
        format!(
            "Variant: {variant}  Ops: {}  Goroutines: {}  Keys: {}  Churn: {}%",
            outcome.ops, flags.workers, flags.keys, flags.churn
        ),
        format!(
            "Duration: {}  Ops/sec: {}",
            shown_duration(outcome.wall),
            grouped(outcome.ops_per_sec().round() as u64)
        ),
        format!("Latency p50: {}  p95: {}  p99: {}", latency(50.0), latency(95.0), latency(99.0)),
        format!(
            "Writes: logical={} ({}/sec), dbCalls={} ({}/sec)",
            grouped(writes),
            per_sec(writes),
            grouped(calls),
            per_sec(calls)
        ),
        memory,
        format!("Contention (long ops >5× median): {}", outcome.long()),
    ]
}

/// Returns the summary line for programs.
pub(crate) fn summary(variant: &str, flags: &Flags, outcome: &RoundOutcome) -> String {
    let latency = |percentile| outcome.latency_ns(percentile).round() as u64;
    format!(
        "Summary: variant={variant} ops={} duration_ns={} goroutines={} keys={} churn_pct={} p50_ns={} p95_ns={} p99_ns={} \
         logical_writes={} db_calls={} write_delay_ns={}",
        outcome.ops,
        outcome.wall.as_nanos(),
        flags.workers,
        flags.keys,
        flags.churn,
        latency(50.0),
        latency(95.0),
        latency(99.0),
        outcome.account.events,
        outcome.account.calls(),
        flags.write_delay.as_nanos(),
    )
}

/// Returns the table row for [`TSV_HEAD`].
pub(crate) fn tsv(variant: &str, flags: &Flags, outcome: &RoundOutcome) -> String {
    let seconds = outcome.wall.as_secs_f64();
    let micros = |percentile| format!("{:.3}", outcome.latency_ns(percentile) / 1_000.0);
    let (writes, calls) = (outcome.account.events, outcome.account.calls());
    let rate = outcome.ops as f64 / seconds;
    let per_call = if calls == 0 { "inf".to_owned() } else { format!("{:.2}", outcome.ops as f64 / calls as f64) };
    [
        variant.to_owned(),
        outcome.ops.to_string(),
        shown_duration(outcome.wall),
        format!("{rate:.0}"),
        micros(50.0),
        micros(95.0),
        micros(99.0),
        writes.to_string(),
        calls.to_string(),
        per_call,
        format!("{rate:.2}"),
        format!("{:.2}", rate / flags.keys as f64),
        format!("{:.2}", calls as f64 / seconds),
        format!("{:.2}", writes as f64 / seconds),
    ]
    .join("\t")
}

/// Formats the time of an operation as Go does: whole nanoseconds below a microsecond.
fn shown(ns: f64) -> String {
    shown_duration(Duration::from_nanos(ns.round() as u64))
}

/// Formats a duration as Go does.
fn shown_duration(duration: Duration) -> String {
    let rounded = match duration.as_nanos() {
        0..1_000 => return format!("{}ns", duration.as_nanos()),
        1_000..1_000_000 => (duration.as_nanos() as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (duration.as_nanos() as f64 / 1e6, "ms"),
        _ => (duration.as_secs_f64(), "s"),
    };
    format!("{:.2}{}", rounded.0, rounded.1)
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hdrhistogram::Histogram;
    use rusm_runtime::counter::{AchievedDelay, StoreAccount};

    use super::*;
    use crate::parameter::Params;
    use crate::scenarios::counters::flags::FLAGS;
    use crate::scenarios::counters::load::Times;

    fn round() -> (Flags, RoundOutcome) {
        let given: BTreeMap<_, _> =
            [("keys", "128"), ("write_delay", "50us")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let flags = Flags::of(&Params::check("counter-vsa", FLAGS, &given).unwrap()).unwrap();
        let mut times = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for ns in [16, 16, 16, 48, 16_000] {
            times.record(ns).unwrap();
        }
        let account = StoreAccount { reads: 8, write_calls: 800, rows: 808, events: 808 };
        let outcome = RoundOutcome {
            ops: 13_932_835,
            denied: 0,
            wall: Duration::from_nanos(769_123_456),
            cpu: Duration::from_secs(1),
            group: 16,
            times: Times::of(&times),
            running: account,
            account,
            achieved: AchievedDelay::default(),
            looks: 1,
            wrong: 0,
        };
        (flags, outcome)
    }

    #[test]
    fn the_line_has_the_seeds_fields_in_its_order() {
        let (flags, outcome) = round();

        assert_eq!(
            summary("vsa", &flags, &outcome),
            "Summary: variant=vsa ops=13932835 duration_ns=769123456 goroutines=32 keys=128 churn_pct=50 p50_ns=1 p95_ns=1000 \
             p99_ns=1000 logical_writes=808 db_calls=808 write_delay_ns=50000"
        );
    }

    #[test]
    fn the_block_reads_as_the_seeds() {
        let (flags, outcome) = round();
        let block = block("vsa", &flags, &outcome);

        assert_eq!(block[0], "Variant: vsa  Ops: 13932835  Goroutines: 32  Keys: 128  Churn: 50%");
        assert_eq!(block[1], "Duration: 769.12ms  Ops/sec: 18,115,213");
        assert_eq!(block[2], "Latency p50: 1ns  p95: 1.00µs  p99: 1.00µs");
        assert_eq!(block[3], "Writes: logical=808 (1,051/sec), dbCalls=808 (1,051/sec)");
        assert!(block[4].starts_with("Memory: RSS=") && block[4].ends_with(" MiB"), "{}", block[4]);
        assert_eq!(block[5], "Contention (long ops >5× median): 1");
    }

    #[test]
    fn a_row_has_a_cell_for_each_of_the_seeds_columns() {
        let (flags, outcome) = round();

        let row = tsv("vsa", &flags, &outcome);

        assert_eq!(row.split('\t').count(), TSV_HEAD.split('\t').count());
        assert!(
            row.starts_with("vsa\t13932835\t769.12ms\t18115213\t0.001\t1.000\t1.000\t808\t808\t17243.61\t"),
            "{row}"
        );
    }
}
