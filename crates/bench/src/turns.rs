//! Cases that are compared in turn, on a thread that may block.
//!
//! ```text
//!   round 1: case 0, case 1, … ──▶ round 2: case 0, case 1, … ──▶ until the run stops ──▶ tables
//! ```
//!
//! One case after the other and time and again, so that what else the machine does falls on all of them alike. A case looks
//! at the stop flag at each of its steps; one that was cut short does not count.

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};

use rusm_runtime::Handle;

use crate::meter::Recorder;
use crate::parameter::Params;
use crate::run::RunError;
use crate::stage::{Stage, StopFlag};
use crate::table::{Table, Tables};

/// What cases stand on.
pub(crate) struct Desk {
    pub(crate) recorder: Recorder,
    pub(crate) params: Params,
    pub(crate) runtime: Handle,
    /// What the title of a table ends with: what was beside its cases.
    pub(crate) beside: Cell<&'static str>,
    tables: Tables,
    stop: StopFlag,
}

impl Desk {
    /// Whether the run stops.
    #[inline]
    pub(crate) fn stops(&self) -> bool {
        self.stop.is_set()
    }

    pub(crate) fn stop_flag(&self) -> StopFlag {
        self.stop.clone()
    }

    /// Shows a table, in place of an earlier one of the same title.
    pub(crate) fn show(&self, mut table: Table) {
        table.title.push_str(self.beside.get());
        self.tables.show(table);
    }

    /// Prints lines as they are, in place of those printed before.
    pub(crate) fn print(&self, lines: Vec<String>) {
        self.tables.print(lines);
    }
}

/// What is compared.
pub(crate) trait Turns: Send + 'static {
    /// The number of cases.
    fn cases(&self) -> usize;

    /// Runs a case, for some milliseconds, and keeps what it showed unless the run stopped meanwhile.
    ///
    /// # Errors
    /// [`RunError::Lacks`] when the machine lacks what it takes.
    fn turn(&mut self, case: usize, desk: &mut Desk) -> Result<(), RunError>;

    /// Shows what there is so far.
    fn show(&self, desk: &Desk);
}

/// Runs cases in turn until the run stops.
pub(crate) async fn in_turn(stage: &mut Stage, mut turns: impl Turns) -> Result<(), RunError> {
    let mut desk = Desk {
        recorder: stage.recorder(),
        params: stage.params().clone(),
        runtime: stage.runtime().clone(),
        beside: Cell::default(),
        tables: stage.tables().clone(),
        stop: stage.stop_flag(),
    };
    let failed = Arc::new(Mutex::new(None));
    let fails = Arc::clone(&failed);
    let body = move || {
        while !desk.stops() {
            for case in 0..turns.cases() {
                if let Err(error) = turns.turn(case, &mut desk) {
                    *fails.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
                if desk.stops() {
                    break;
                }
            }
            turns.show(&desk);
        }
    };
    stage.crew(move |ctx| async move {
        ctx.set_label("cases in turn");
        ctx.spawn_blocking(body).await;
    })?;
    let stopped = stage.stopped().await;
    if let Some(error) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    stopped?;
    stage.ended().await
}
