//! Encodes the causes of failures.

use rusm_protocol::{CauseDetail, CauseInfo, NamedPid};

use super::inspect;
use super::text::cut;
use super::{cause_word, round};
use rusm_runtime::observe::{self, CauseReport, EndedProcess};
use rusm_runtime::{Handle, Pid};

/// Bytes of the texts of a cause that are sent.
const TEXT_MAX_BYTES: usize = 300;
/// Number of functions of a backtrace that are sent.
const FUNCTIONS_SHOWN: usize = 32;
/// Bytes of the name of a function that are sent.
const FUNCTION_MAX_BYTES: usize = 300;

/// Encodes a cause.
pub(crate) fn cause(runtime: &Handle, report: &CauseReport, per_sec: Option<f64>) -> CauseInfo {
    CauseInfo {
        cause: u32::from(report.id),
        kind: cause_word(report.kind).to_owned(),
        who: cut(&place(runtime, report), TEXT_MAX_BYTES),
        why: cut(&report.why, TEXT_MAX_BYTES),
        count: report.count,
        per_sec: per_sec.map(round),
        first_ms: report.first_at.as_millis() as u64,
        last_ms: report.last.at.as_millis() as u64,
        history: report.intervals.clone(),
    }
}

/// Returns the place of a failure: the name of the supervisor, if it has one, and what failed.
fn place(runtime: &Handle, report: &CauseReport) -> String {
    match report.last.parent.and_then(|parent| supervisor_name(runtime, parent)) {
        Some(supervisor) => format!("{supervisor}/{}", report.who),
        None => report.who.to_string(),
    }
}

fn supervisor_name(runtime: &Handle, pid: Pid) -> Option<String> {
    observe::supervisor(runtime, pid)?;
    inspect::named(runtime, pid).name
}

/// Returns the functions of the backtrace of an end: of the panic, or of the trap of a guest.
pub(crate) fn backtrace(runtime: &Handle, end: &EndedProcess) -> Vec<String> {
    let mut functions = observe::cause_backtrace(runtime, &end.reason, FUNCTIONS_SHOWN);
    if functions.is_empty() {
        let faults = observe::engines(runtime).into_iter().flat_map(|engine| engine.faults);
        functions =
            faults.filter(|fault| fault.pid == end.pid).last().map_or(functions, |fault| fault.backtrace.to_vec());
    }
    functions.iter().take(FUNCTIONS_SHOWN).map(|function| cut(function, FUNCTION_MAX_BYTES)).collect()
}

/// Encodes a cause in full.
pub(crate) fn detail(
    runtime: &Handle,
    report: &CauseReport,
    per_sec: Option<f64>,
    backtrace: Vec<String>,
) -> CauseDetail {
    let name = report.last.name.as_deref().map(|name| cut(name, TEXT_MAX_BYTES));
    CauseDetail {
        cause: cause(runtime, report, per_sec),
        process: NamedPid { pid: report.last.pid.to_string(), name },
        end: inspect::ended(runtime, &report.last),
        backtrace,
    }
}
