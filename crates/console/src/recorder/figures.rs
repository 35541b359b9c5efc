//! The node's figures, once a second, for the charts of a client that attaches late.

use std::collections::VecDeque;

use rusm_protocol::{Frame, HISTORY_POINTS, HISTORY_SCHEDULERS, History, HistoryRun, HistorySeries};

/// Maximum number of remembered runs.
const RUNS_MAX: usize = 256;

/// The recorded figures, with the names of their fields in a frame.
const NAMES: [&str; 14] = [
    "ops_per_sec",
    "messages_per_sec",
    "spawned_per_sec",
    "cpu_pct",
    "rss_bytes",
    "process_count",
    "mailbox_bytes",
    "run_queue",
    "crashed_total",
    "killed_total",
    "linked_total",
    "restarts_total",
    "lints_total",
    "run_id",
];

#[derive(Clone, Debug)]
struct Point {
    at_ms: u64,
    values: [f64; NAMES.len()],
    utilisation: Box<[f32]>,
}

/// Figures of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Figures {
    points: VecDeque<Point>,
    runs: VecDeque<HistoryRun>,
}

impl Figures {
    /// Returns the memory that the figures take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let point = size_of::<Point>() + HISTORY_SCHEDULERS * size_of::<f32>();
        self.points.capacity() * point + self.runs.len() * (size_of::<HistoryRun>() + 64)
    }

    /// Records the figures of a frame.
    pub(super) fn push(&mut self, at_ms: u64, frame: &Frame) {
        let seen = &frame.observer;
        let values = [
            frame.ops_per_sec,
            seen.messages_per_sec,
            seen.spawned_per_sec,
            seen.cpu_pct,
            seen.memory.rss_bytes as f64,
            seen.process_count as f64,
            seen.memory.mailbox_bytes as f64,
            seen.schedulers.iter().map(|scheduler| scheduler.run_queue).sum::<u64>() as f64,
            seen.crashed_total as f64,
            seen.killed_total as f64,
            seen.linked_total as f64,
            seen.restarts_total as f64,
            seen.lints_total as f64,
            frame.run_id as f64,
        ];
        if self.points.len() == HISTORY_POINTS {
            self.points.pop_front();
        }
        let utilisation = seen.scheduler_load.iter().take(HISTORY_SCHEDULERS).copied().collect();
        self.points.push_back(Point { at_ms, values, utilisation });
        let Some(scenario) = &frame.scenario else { return };
        if self.runs.back().is_none_or(|run| run.run_id != frame.run_id) {
            if self.runs.len() == RUNS_MAX {
                self.runs.pop_front();
            }
            self.runs.push_back(HistoryRun { run_id: frame.run_id, scenario: scenario.clone(), from_ms: at_ms });
        }
    }

    /// Returns the figures for a client.
    pub(super) fn history(&self, id: u32) -> History {
        let series = |name: String, of: &dyn Fn(&Point) -> f64| HistorySeries {
            name,
            points: self.points.iter().map(of).collect(),
        };
        let named = NAMES.iter().enumerate().map(|(at, name)| series((*name).to_owned(), &|point| point.values[at]));
        let schedulers = self.points.back().map_or(0, |point| point.utilisation.len());
        let busy = (0..schedulers).map(|at| {
            let load = |point: &Point| point.utilisation.get(at).map_or(0.0, |load| hundredths(*load));
            series(format!("utilisation/{at}"), &load)
        });
        History {
            id,
            at_ms: self.points.iter().map(|point| point.at_ms).collect(),
            series: named.chain(busy).collect(),
            runs: self.runs.iter().cloned().collect(),
        }
    }
}

/// Rounds a share: a chart shows no more, and fewer bytes are sent.
fn hundredths(share: f32) -> f64 {
    (f64::from(share) * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use rusm_protocol::{ObserverSnapshot, SERVER_MESSAGE_MAX_BYTES, ServerMessage, encode};

    use super::*;

    fn frame(run_id: u64) -> Frame {
        let scenario = (run_id > 0).then(|| "spawn-storm".to_owned());
        let observer = ObserverSnapshot {
            cpu_pct: 1234.567,
            messages_per_sec: 123_456_789.0,
            scheduler_load: vec![1.0 / 3.0; 64],
            ..ObserverSnapshot::default()
        };
        Frame { run_id, scenario, ops_per_sec: 98_765_432.0, observer, ..Frame::default() }
    }

    #[test]
    fn every_series_has_a_value_for_each_point_and_the_runs_have_a_start() {
        let mut figures = Figures::default();
        for (second, run_id) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)] {
            figures.push(second * 1000, &frame(run_id));
        }

        let history = figures.history(7);

        assert_eq!(history.at_ms, [1000, 2000, 3000, 4000, 5000]);
        assert!(history.series.iter().all(|series| series.points.len() == 5));
        assert_eq!(history.series.len(), NAMES.len() + HISTORY_SCHEDULERS);
        let starts: Vec<(u64, u64)> = history.runs.iter().map(|run| (run.run_id, run.from_ms)).collect();
        assert_eq!(starts, [(1, 3000), (2, 5000)]);
    }

    #[test]
    fn the_longest_history_fits_into_a_message() {
        let mut figures = Figures::default();
        for second in 0..2 * HISTORY_POINTS as u64 {
            figures.push(1_000_000_000 + second * 1000, &frame(second));
        }

        let message = encode(&ServerMessage::History(figures.history(7)));

        assert_eq!(figures.points.len(), HISTORY_POINTS);
        assert!(message.len() < SERVER_MESSAGE_MAX_BYTES / 2, "{} bytes", message.len());
        assert!(figures.bytes() < 512 * 1024, "{} bytes", figures.bytes());
    }
}
