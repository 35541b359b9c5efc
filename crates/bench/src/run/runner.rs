//! Carries out single runs: on a new runtime each, or on the runtime of a live node.
//!
//! ```text
//!   series, sweep, saturation, soak, comparison ──▶ Runner ─┬─▶ OnNewRuntimes: headless commands
//!                                                           └─▶ live driver: runs that observers watch
//! ```

use std::fmt;

use crate::report::Report;
use crate::run::execution::Run;
use crate::run::headless::{HeadlessError, HeadlessOptions, drive_plan};
use crate::run::plan::Plan;

/// Carries out single runs.
pub(crate) trait Runner: fmt::Debug {
    /// Runs a plan with the lengths and the stop flag of `options`, and calls `seen` at each tick.
    ///
    /// # Errors
    /// [`HeadlessError`] if nothing could be run. A run that failed has a report with its error.
    fn run(
        &mut self,
        plan: Plan,
        options: &HeadlessOptions,
        seen: &mut dyn FnMut(&mut Run),
    ) -> Result<Report, HeadlessError>;

    /// Returns true if nothing else in the program allocates memory between the runs.
    fn is_alone(&self) -> bool;
}

/// Starts a runtime for each run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnNewRuntimes;

impl Runner for OnNewRuntimes {
    fn run(
        &mut self,
        plan: Plan,
        options: &HeadlessOptions,
        seen: &mut dyn FnMut(&mut Run),
    ) -> Result<Report, HeadlessError> {
        drive_plan(plan, options, seen)
    }

    fn is_alone(&self) -> bool {
        true
    }
}
