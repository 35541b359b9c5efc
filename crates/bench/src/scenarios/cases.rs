//! Runs cases in turn for comparison, on a thread that may block.
//!
//! ```text
//!   round 1: case 0, case 1, … ──▶ round 2: case 0, case 1, … ──▶ until the run stops ──▶ tables
//! ```
//!
//! The cases alternate, so that disturbances by the rest of the machine affect all of them equally. A case checks the
//! stop flag at each step; a turn that was cut short is discarded. A pause begins after the present turn.

use std::cell::Cell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rusm_runtime::Handle;

use crate::context::RunContext;
use crate::measure::meter::Recorder;
use crate::parameter::Params;
use crate::report::table::{Table, Tables};
use crate::run::error::RunError;
use crate::run::flags::StopFlag;

/// Time between two checks of a paused run.
const PAUSE_CHECK: Duration = Duration::from_millis(50);

/// Context of the cases.
pub(crate) struct CaseContext {
    pub(crate) recorder: Recorder,
    pub(crate) params: Params,
    pub(crate) runtime: Handle,
    /// End of each table's title: the load next to the cases.
    pub(crate) beside: Cell<&'static str>,
    tables: Tables,
    stop: StopFlag,
}

impl CaseContext {
    /// Returns true if the run stops.
    #[inline]
    pub(crate) fn stops(&self) -> bool {
        self.stop.is_set()
    }

    /// Waits on this thread while the run is paused.
    fn wait_while_paused(&self) {
        while self.stop.is_paused() {
            thread::park_timeout(PAUSE_CHECK);
        }
    }

    pub(crate) fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }

    /// Adds a table, or replaces an earlier table with the same title.
    pub(crate) fn show(&self, mut table: Table) {
        table.title.push_str(self.beside.get());
        self.tables.show(table);
    }

    /// Replaces the printed lines.
    pub(crate) fn print(&self, lines: Vec<String>) {
        self.tables.print(lines);
    }
}

/// Cases to compare.
pub(crate) trait Cases: Send + 'static {
    /// Returns the number of cases.
    fn count(&self) -> usize;

    /// Runs one turn of a case, for some milliseconds, and keeps the result unless the run stopped meanwhile.
    ///
    /// # Errors
    /// [`RunError::Lacks`] if the machine lacks a requirement.
    fn run_turn(&mut self, case: usize, context: &mut CaseContext) -> Result<(), RunError>;

    /// Ends what would go on during a pause of the run; the next turn starts it again.
    fn pause(&mut self) {}

    /// Shows the results of all turns until now.
    fn show(&self, context: &CaseContext);
}

/// Runs cases in turn until the run stops.
pub(crate) async fn run_in_turn(context: &mut RunContext, mut cases: impl Cases) -> Result<(), RunError> {
    let mut case_context = CaseContext {
        recorder: context.recorder(),
        params: context.params().clone(),
        runtime: context.runtime().clone(),
        beside: Cell::default(),
        tables: context.tables().clone(),
        stop: context.stop_flag(),
    };
    let failed = Arc::new(Mutex::new(None));
    let fails = Arc::clone(&failed);
    let body = move || {
        while !case_context.stops() {
            for case in 0..cases.count() {
                if let Err(error) = cases.run_turn(case, &mut case_context) {
                    *fails.lock() = Some(error);
                    return;
                }
                if case_context.stop.is_paused() {
                    cases.pause();
                    case_context.wait_while_paused();
                }
                if case_context.stops() {
                    break;
                }
            }
            cases.show(&case_context);
        }
    };
    context.spawn_worker(move |ctx| async move {
        ctx.set_label("cases in turn");
        ctx.spawn_blocking(body).await;
    })?;
    let stopped = context.stopped().await;
    if let Some(error) = failed.lock().take() {
        return Err(error);
    }
    stopped?;
    context.ended().await
}
