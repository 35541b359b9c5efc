//! `restart_storm`: a supervisor that has used more than half of its restarts within its period, or a node that
//! restarts children continuously.
//!
//! Supervisors report restart pressure themselves, so none is polled. A single restart is not a storm, not even for a
//! supervisor that tolerates only one.

use std::time::Duration;

use rusm_protocol::Lint;
use rusm_text::grouped;

use super::finding::{CHECK_INTERVAL, Finding, HOLD};
use rusm_runtime::Pid;
use rusm_runtime::observe::RestartPressure;

/// Minimum length of a window in which restarts of the node are counted.
const WINDOW: Duration = Duration::from_secs(1);
/// Number of windows in a row above the limit that are a storm.
const WINDOWS: u32 = 2;
/// Longest time without a restart after which a supervisor is no longer reported, even if its period is longer.
const PERIOD_MAX: Duration = Duration::from_mins(1);

/// State for detecting restart storms of the node.
#[derive(Debug)]
pub(super) struct RestartStorms {
    /// Restarts per second on the whole node from which two windows in a row raise the lint.
    per_sec_max: f64,
    /// Start of the window, and number of restarts before it.
    window: Option<(Duration, u64)>,
    /// Number of windows in a row above the limit.
    windows: u32,
}

impl RestartStorms {
    pub(super) fn new(per_sec_max: u32) -> Self {
        Self { per_sec_max: per_sec_max.into(), window: None, windows: 0 }
    }

    /// Checks for storms. `pressures` are the supervisors that came under restart pressure at some time, `restarts` is
    /// the node's total.
    pub(super) fn check(&mut self, pressures: &[RestartPressure], restarts: u64, now: Duration) -> Vec<Finding> {
        let lasts = |pressure: &RestartPressure| pressure.intensity.period.clamp(HOLD, PERIOD_MAX);
        let pressed = pressures.iter().filter(|pressure| now.saturating_sub(pressure.at) < lasts(pressure));
        let mut found: Vec<Finding> = pressed.map(of_supervisor).collect();
        found.extend(self.of_node(restarts, now));
        found
    }

    fn of_node(&mut self, restarts: u64, now: Duration) -> Option<Finding> {
        let Some((from, before)) = self.window else {
            self.window = Some((now, restarts));
            return None;
        };
        let span = now.saturating_sub(from);
        if span < WINDOW {
            return None;
        }
        self.window = Some((now, restarts));
        let per_sec = restarts.saturating_sub(before) as f64 / span.as_secs_f64();
        self.windows = if per_sec >= self.per_sec_max { self.windows + 1 } else { 0 };
        let text = format!("{} restarts a second on this node", grouped(per_sec as u64));
        let found = Finding { lint: Lint::RestartStorm, pid: Pid::NONE, value: per_sec, text, hold: HOLD };
        (self.windows >= WINDOWS).then_some(found)
    }
}

fn of_supervisor(pressure: &RestartPressure) -> Finding {
    let (used, of) = (pressure.used, pressure.intensity.restarts);
    let period = pressure.intensity.period.as_secs_f64();
    let text = format!("{used} of {of} restarts used within {period} s");
    // The recorded pressure itself keeps the warning active.
    let hold = 4 * CHECK_INTERVAL;
    Finding { lint: Lint::RestartStorm, pid: pressure.supervisor, value: f64::from(used), text, hold }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusm_runtime::supervisor::Intensity;

    const SECOND: Duration = Duration::from_secs(1);

    fn pressure(slot: u32, period: Duration, at: Duration) -> RestartPressure {
        RestartPressure { supervisor: Pid::local(slot, 1), used: 3, intensity: Intensity { restarts: 5, period }, at }
    }

    #[test]
    fn a_supervisor_under_restart_pressure_is_found_until_its_period_is_over() {
        let mut storms = RestartStorms::new(50);
        let all =
            [pressure(1, 10 * SECOND, SECOND), pressure(2, SECOND / 1000, SECOND), pressure(3, 3600 * SECOND, SECOND)];
        let mut found = |at: u32| {
            let found = storms.check(&all, 0, at * SECOND);
            found.iter().map(|found| found.pid.slot()).collect::<Vec<_>>()
        };

        assert_eq!(found(2), [1, 2, 3]);
        assert_eq!(found(7), [1, 3], "a short period holds for a while all the same");
        assert_eq!(found(12), [3]);
        assert_eq!(found(62), [0; 0]);
        assert_eq!(storms.check(&all[..1], 0, 2 * SECOND)[0].text, "3 of 5 restarts used within 10 s");
    }

    #[test]
    fn a_node_storms_after_two_windows_of_many_restarts() {
        let mut storms = RestartStorms::new(50);
        let restarts = [0, 60, 160, 220, 221, 400, 401];
        let found: Vec<_> =
            restarts.iter().zip(0..).map(|(restarts, at)| storms.check(&[], *restarts, at * SECOND).len()).collect();

        assert_eq!(found, [0, 0, 1, 1, 0, 0, 0]);
    }
}
