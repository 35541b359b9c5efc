//! `slow_subscriber`: a reader of a stream or a receiver of a topic that holds up the others, makes no progress, or
//! loses items.
//!
//! A full buffer alone is back-pressure, which is healthy. A reader is slow if its lag reaches the threshold at three
//! looks in a row, and in addition others of the same stream or topic are far ahead of it, or it has received nothing
//! since the last look. A reader that may lose items is slow if it has lost some before each of three looks.

use std::collections::HashMap;
use std::time::Duration;

use rusm_protocol::Lint;
use rusm_text::grouped;

use crate::lints::finding::{Finding, HOLD};
use rusm_runtime::Pid;
use rusm_runtime::observe::RingView;
use rusm_runtime::topic::TopicView;

/// Number of looks in a row that raise the lint.
const LOOKS: u32 = 3;
/// Maximum number of readers that are remembered.
const KEPT: usize = 1_024;
/// Maximum number of findings of one look.
const FOUND_MAX: usize = 16;

/// One reader of a stream, or one receiver of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReaderUse {
    /// Stream or topic, in words.
    pub(super) source: String,
    /// Number or name that tells it from the other readers of its source.
    pub(super) reader: String,
    pub(super) pid: Option<Pid>,
    pub(super) lag: u64,
    pub(super) capacity: u64,
    /// Lag of the fastest other reader.
    pub(super) others_lag: Option<u64>,
    pub(super) received_total: u64,
    pub(super) lost_total: u64,
}

#[derive(Debug)]
struct Kept {
    received_total: u64,
    lost_total: u64,
    slow: u32,
    losing: u32,
    look: u64,
}

/// The readers of the last look.
#[derive(Debug)]
pub(super) struct SlowSubscribers {
    pct: u8,
    kept: HashMap<(String, String), Kept>,
    look: u64,
    looked: Option<Duration>,
}

impl SlowSubscribers {
    pub(super) fn new(pct: u8) -> Self {
        Self { pct, kept: HashMap::new(), look: 0, looked: None }
    }

    /// Compares the readers with the last look.
    pub(super) fn check(&mut self, readers: Vec<ReaderUse>, now: Duration) -> Vec<Finding> {
        self.look += 1;
        let hold = HOLD.max(3 * now.saturating_sub(self.looked.replace(now).unwrap_or(now)));
        let mut found = Vec::new();
        for reader in readers {
            let key = (reader.source.clone(), reader.reader.clone());
            let Some(kept) = self.kept.get_mut(&key) else {
                if self.kept.len() < KEPT {
                    let (received_total, lost_total) = (reader.received_total, reader.lost_total);
                    self.kept.insert(key, Kept { received_total, lost_total, slow: 0, losing: 0, look: self.look });
                }
                continue;
            };
            let is_full = reader.lag > 0 && reader.lag * 100 >= reader.capacity * u64::from(self.pct);
            let is_behind = reader.others_lag.is_some_and(|others| others * 2 <= reader.lag);
            let stands = reader.received_total == kept.received_total;
            kept.slow = if is_full && (is_behind || stands) { kept.slow + 1 } else { 0 };
            kept.losing = if reader.lost_total > kept.lost_total { kept.losing + 1 } else { 0 };
            let lost = reader.lost_total.saturating_sub(kept.lost_total);
            (kept.received_total, kept.lost_total, kept.look) = (reader.received_total, reader.lost_total, self.look);
            if found.len() < FOUND_MAX && (kept.slow >= LOOKS || kept.losing >= LOOKS) {
                found.push(finding(&reader, stands, lost, hold));
            }
        }
        self.kept.retain(|_, kept| kept.look == self.look);
        found
    }
}

fn finding(reader: &ReaderUse, stands: bool, lost: u64, hold: Duration) -> Finding {
    let source = &reader.source;
    let (lag, capacity) = (grouped(reader.lag), grouped(reader.capacity));
    let what = if lost > 0 {
        format!("lost {} items of {source} since the last look", grouped(lost))
    } else if stands {
        format!("reads nothing of {source}: {lag} of {capacity} items behind")
    } else {
        let others = reader.others_lag.unwrap_or(0);
        format!("{lag} of {capacity} items of {source} behind, others {}", grouped(others))
    };
    // A thread outside of the runtime is without a pid.
    let text = if reader.pid.is_some() { what } else { format!("reader {}: {what}", reader.reader) };
    Finding { lint: Lint::SlowSubscriber, pid: reader.pid.unwrap_or(Pid::NONE), value: reader.lag as f64, text, hold }
}

/// Returns the readers of a ring.
pub(super) fn of_ring(ring: &RingView) -> Vec<ReaderUse> {
    let source = match &ring.label {
        Some(label) => format!("stream {} {}", ring.id, label.escape_debug()),
        None => format!("stream {}", ring.id),
    };
    let lags: Vec<u64> = ring.slowest.iter().map(|reader| reader.lag).collect();
    let reader = |(at, reader): (usize, &rusm_runtime::observe::ReaderView)| ReaderUse {
        source: source.clone(),
        reader: reader.reader_slot.to_string(),
        pid: reader.pid,
        lag: reader.lag,
        capacity: ring.capacity,
        others_lag: least_other(&lags, at),
        received_total: ring.written_total.saturating_sub(reader.lag),
        lost_total: reader.missed_total,
    };
    ring.slowest.iter().enumerate().map(reader).collect()
}

/// Returns the receivers of a topic.
pub(super) fn of_topic(topic: &TopicView) -> Vec<ReaderUse> {
    let lags: Vec<u64> = topic.subscriptions.iter().map(|receiver| receiver.backlog + receiver.outstanding).collect();
    let receivers = topic.subscriptions.iter().enumerate();
    receivers
        .map(|(at, receiver)| ReaderUse {
            source: format!("topic {:?}", topic.name),
            reader: match (&receiver.name, receiver.slowest) {
                (Some(name), _) => name.to_string(),
                (None, Some(pid)) => pid.to_string(),
                (None, None) => at.to_string(),
            },
            pid: receiver.slowest,
            lag: lags[at],
            capacity: topic.messages_max as u64,
            others_lag: least_other(&lags, at),
            received_total: receiver.delivered_total,
            lost_total: if receiver.overflow.is_some() { receiver.dropped_total } else { 0 },
        })
        .collect()
}

fn least_other(lags: &[u64], of: usize) -> Option<u64> {
    lags.iter().enumerate().filter(|(at, _)| *at != of).map(|(_, lag)| *lag).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(slot: u32, lag: u64, others_lag: Option<u64>, received_total: u64, lost_total: u64) -> ReaderUse {
        ReaderUse {
            source: "stream 7".to_owned(),
            reader: slot.to_string(),
            pid: Some(Pid::local(slot, 1)),
            lag,
            capacity: 1_000,
            others_lag,
            received_total,
            lost_total,
        }
    }

    /// Returns the slots found, once each, and the first text.
    fn found(looks: u64, of: impl Fn(u64) -> Vec<ReaderUse>) -> (Vec<u32>, String) {
        let mut slow = SlowSubscribers::new(80);
        let all: Vec<Finding> = (0..looks).flat_map(|look| slow.check(of(look), Duration::from_secs(look))).collect();
        let mut slots: Vec<u32> = all.iter().map(|found| found.pid.slot()).collect();
        slots.dedup();
        (slots, all.first().map(|found| found.text.clone()).unwrap_or_default())
    }

    #[test]
    fn a_reader_far_behind_the_others_is_found() {
        let (slots, text) =
            found(4, |look| vec![reader(1, 990, Some(10), look * 100, 0), reader(2, 10, Some(990), look * 100, 0)]);

        assert_eq!((slots, text.as_str()), (vec![1], "990 of 1,000 items of stream 7 behind, others 10"));
    }

    #[test]
    fn a_reader_that_reads_nothing_or_loses_items_is_found() {
        let (slots, text) = found(4, |_| vec![reader(1, 1_000, None, 500, 0)]);
        assert_eq!((slots, text.as_str()), (vec![1], "reads nothing of stream 7: 1,000 of 1,000 items behind"));

        let (slots, text) = found(4, |look| vec![reader(1, 10, None, look, look * 7)]);
        assert_eq!((slots, text.as_str()), (vec![1], "lost 7 items of stream 7 since the last look"));
    }

    #[test]
    fn back_pressure_of_a_reader_that_reads_is_healthy() {
        assert_eq!(found(9, |look| vec![reader(1, 1_000, None, look * 50, 0)]).0, [0; 0]);
        let even = |look| vec![reader(1, 990, Some(980), look, 0), reader(2, 980, Some(990), look, 0)];
        assert_eq!(found(9, even).0, [0; 0], "they read equally fast");
        assert_eq!(found(9, |_| vec![reader(1, 0, Some(0), 500, 0)]).0, [0; 0], "nothing to read");
    }

    #[test]
    fn readers_are_bounded() {
        let mut slow = SlowSubscribers::new(80);
        let many = || (0..100_000).map(|slot| reader(slot, 1_000, None, 1, 0)).collect::<Vec<_>>();
        for look in 0..5 {
            assert!(slow.check(many(), Duration::from_secs(look)).len() <= FOUND_MAX);
            assert!(slow.kept.len() <= KEPT);
        }
    }
}
