//! Scenarios, their chosen settings, and the runs that this observer has seen.

pub(crate) mod menu;
pub(crate) mod results;
pub(crate) mod run_dialog;

use std::collections::{BTreeMap, VecDeque};

use rusm_protocol::{Frame, LatencySnapshot};

use crate::model::input::line_edit::LineEdit;
use crate::model::panes::bench::run_dialog::Chosen;

/// Maximum number of remembered runs.
const RUNS_MAX: usize = 50;

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunRecord {
    pub(crate) run_id: u64,
    pub(crate) scenario: String,
    pub(crate) profile: String,
    pub(crate) run_ms: u64,
    /// Mean rate since the end of the warm-up, or since this observer attached.
    pub(crate) ops_per_sec: f64,
    pub(crate) latency: LatencySnapshot,
    pub(crate) errors_total: u64,
    pub(crate) failed: bool,
}

/// State of the Bench view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Bench {
    pub(crate) selected: usize,
    /// Settings and parameters per scenario that differ from their defaults.
    pub(crate) parameters: BTreeMap<String, Chosen>,
    /// Text by which scenarios are found, while it is edited, and the scenario selected before.
    pub(crate) find: Option<(LineEdit, usize)>,
    /// Runs, oldest first. The last one may still be running.
    pub(crate) runs: VecDeque<RunRecord>,
    /// Run requested with edited parameters, until the node has answered.
    pub(crate) requested: Option<RequestedRun>,
    warm_up: Option<WarmUp>,
    /// True if the newest frame showed a run.
    running: bool,
}

/// A run that the node has not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedRun {
    /// Id of the command.
    pub(crate) id: u64,
    pub(crate) scenario: String,
    pub(crate) chosen: Chosen,
}

/// Start of the interval over which a run's mean is taken: the end of its warm-up, or the first frame seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WarmUp {
    run_id: u64,
    run_ms: u64,
    ops_total: u64,
}

impl Bench {
    /// Updates the runs from a frame.
    pub(crate) fn observe(&mut self, frame: &Frame) {
        let Some(scenario) = frame.scenario.as_ref().filter(|_| frame.run_id > 0) else {
            // After a failed run, the node reports only the error and no scenario.
            let has_failed = std::mem::take(&mut self.running) && frame.run_error.is_some();
            if let Some(last) = self.runs.back_mut().filter(|last| has_failed && last.run_id == frame.run_id) {
                last.failed = true;
            }
            return;
        };
        self.running = true;
        let is_new = self.warm_up.is_none_or(|warm_up| warm_up.run_id != frame.run_id);
        if is_new || frame.warming_up {
            let Frame { run_id, run_ms, ops_total, .. } = *frame;
            self.warm_up = Some(WarmUp { run_id, run_ms, ops_total });
        }
        let warm_up = self.warm_up.unwrap_or_default();
        let measured_ms = frame.run_ms.saturating_sub(warm_up.run_ms);
        let ops = frame.ops_total.saturating_sub(warm_up.ops_total);
        let mean = ops as f64 * 1000.0 / measured_ms as f64;
        let record = RunRecord {
            run_id: frame.run_id,
            scenario: scenario.clone(),
            profile: frame.profile.clone(),
            run_ms: frame.run_ms,
            ops_per_sec: if measured_ms < 500 { frame.ops_per_sec } else { mean },
            latency: frame.latency,
            errors_total: frame.errors_total,
            failed: frame.run_error.is_some(),
        };
        match self.runs.back_mut() {
            Some(last) if last.run_id == frame.run_id => *last = record,
            _ => {
                if self.runs.len() == RUNS_MAX {
                    self.runs.pop_front();
                }
                self.runs.push_back(record);
            }
        }
    }

    /// Forgets the runs, because another node numbers its runs from the start.
    pub(crate) fn forget(&mut self) {
        self.runs.clear();
        (self.warm_up, self.running) = (None, false);
    }

    /// Handles the acceptance of a command. If it was a run, stores its parameters and returns the scenario.
    pub(crate) fn taken(&mut self, id: u64) -> Option<String> {
        let requested = self.requested.take_if(|requested| requested.id == id)?;
        self.parameters.insert(requested.scenario.clone(), requested.chosen);
        Some(requested.scenario)
    }

    /// Returns the chosen settings and parameters of a scenario.
    pub(crate) fn chosen(&self, scenario: &str) -> Chosen {
        self.parameters.get(scenario).cloned().unwrap_or_default()
    }

    /// Begins to edit the text by which scenarios are found.
    pub(crate) fn begin_find(&mut self) {
        self.find = Some((LineEdit::default(), self.selected));
    }

    /// Ends the search. If it is not kept, the scenario from before is selected again.
    pub(crate) fn end_find(&mut self, keep: bool) {
        if let Some((_, before)) = self.find.take()
            && !keep
        {
            self.selected = before;
        }
    }

    /// Returns the text by which scenarios are found now.
    pub(crate) fn find_text(&self) -> Option<String> {
        self.find.as_ref().map(|(edit, _)| edit.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(run_id: u64, run_ms: u64, ops_total: u64, warming_up: bool) -> Frame {
        Frame { scenario: Some("spawn-storm".to_owned()), run_id, run_ms, ops_total, warming_up, ..Frame::default() }
    }

    #[test]
    fn the_mean_of_a_run_leaves_its_warm_up_out() {
        let mut bench = Bench::default();

        bench.observe(&frame(1, 1_000, 0, true));
        bench.observe(&frame(1, 2_000, 0, true));
        bench.observe(&frame(1, 4_000, 8_000, false));

        assert_eq!(bench.runs.len(), 1);
        assert!((bench.runs[0].ops_per_sec - 4_000.0).abs() < 1e-9);
    }

    #[test]
    fn an_observer_that_comes_late_takes_the_mean_of_what_it_saw() {
        let mut bench = Bench::default();

        bench.observe(&frame(1, 60_000, 1_000_000, false));
        bench.observe(&frame(1, 62_000, 1_008_000, false));

        assert!((bench.runs[0].ops_per_sec - 4_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_failed_says_so() {
        let mut bench = Bench::default();
        bench.observe(&frame(1, 1_000, 100, false));
        let failed =
            || Frame { scenario: None, run_error: Some("out of memory".to_owned()), ..frame(1, 1_000, 100, false) };

        bench.observe(&failed());
        bench.observe(&frame(2, 1_000, 100, false));
        bench.observe(&Frame { scenario: None, ..frame(2, 1_000, 100, false) });
        // The run requested next could not be started.
        bench.observe(&Frame { run_id: 2, ..failed() });

        assert_eq!(bench.runs.iter().map(|run| run.failed).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn the_mean_of_a_run_has_nothing_of_another_nodes_run_of_the_same_number() {
        let mut bench = Bench::default();
        bench.observe(&frame(1, 60_000, 1_000_000, false));

        bench.forget();
        bench.observe(&frame(1, 1_000, 4_000, false));
        bench.observe(&frame(1, 2_000, 8_000, false));

        assert!((bench.runs[0].ops_per_sec - 4_000.0).abs() < 1e-9);
    }
}
