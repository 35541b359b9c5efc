//! Encodes supervisors and their children as rows of the tree.

use rusm_protocol::{TreeBranch, TreeDetail, TreeEnd, TreeRow};

use super::events::REASON_MAX_BYTES;
use super::text::cut;
use rusm_runtime::observe::{self, ChildEnd, ChildReport, ChildStatus, SupervisorReport};
use rusm_runtime::supervisor::{ChildType, Restart, Shutdown, Strategy};
use rusm_runtime::{ExitReason, Handle, NAME_MAX_BYTES, Pid};

/// Bytes of a reason that a row shows; the detail shows more.
const ROW_REASON_MAX_BYTES: usize = 120;

/// Position of a row in the tree.
#[derive(Clone, Debug)]
pub(crate) struct TreePosition {
    pub(crate) path: String,
    pub(crate) depth: u32,
    /// Position of its supervisor's row.
    pub(crate) above: Option<u64>,
    /// One bit for each depth: set if siblings follow.
    pub(crate) rails: u64,
}

/// Encodes a supervisor that no other supervisor started; returns `None` once it has ended.
pub(crate) fn top(runtime: &Handle, pid: Pid, position: TreePosition, open: bool) -> Option<TreeRow> {
    let report = observe::supervisor(runtime, pid)?;
    let name = observe::process(runtime, pid).and_then(|process| process.name.or(process.label));
    Some(TreeRow {
        path: position.path,
        depth: position.depth,
        above: position.above,
        rails: position.rails,
        name: name.map(|name| cut(&name, NAME_MAX_BYTES)).unwrap_or_default(),
        pid: Some(pid.to_string()),
        state: if report.ending { "stopping" } else { "running" }.to_owned(),
        branch: Some(branch(&report, open)),
        ..TreeRow::default()
    })
}

/// Encodes a child of a supervisor.
pub(crate) fn child(runtime: &Handle, child: &ChildReport, position: TreePosition, open: bool) -> TreeRow {
    let pid = child.state.pid();
    let (state, wait_ms) = match child.state {
        ChildStatus::Running(_) => ("running", None),
        ChildStatus::Restarting => ("restarting", None),
        ChildStatus::Starting(_) => ("starting", None),
        ChildStatus::Stopping(_) => ("stopping", None),
        ChildStatus::Waiting { left } => ("waiting", Some(left.as_millis() as u64)),
        ChildStatus::Ended => ("ended", None),
    };
    let report = pid.filter(|_| child.child_type == ChildType::Supervisor);
    let report = report.and_then(|pid| observe::supervisor(runtime, pid));
    TreeRow {
        path: position.path,
        depth: position.depth,
        above: position.above,
        rails: position.rails,
        name: cut(&child.id, NAME_MAX_BYTES),
        label: pid.and_then(|pid| label(runtime, pid, &child.id)),
        pid: pid.map(|pid| pid.to_string()),
        state: state.to_owned(),
        wait_ms,
        restart: Some(restart(child.restart).to_owned()),
        restarts_total: child.restarts_total,
        ended_at_ms: child.last_end.as_ref().map(|end| end.at.as_millis() as u64),
        reason: child.last_end.as_ref().map(|end| reason(&end.reason, ROW_REASON_MAX_BYTES)),
        branch: match (report, child.child_type) {
            (Some(report), _) => Some(branch(&report, open)),
            // The child is a supervisor even while it does not run.
            (None, ChildType::Supervisor) => Some(TreeBranch::default()),
            (None, ChildType::Worker) => None,
        },
        sum: None,
    }
}

/// Returns the label of a child, or its name, if that says more than its id does.
fn label(runtime: &Handle, pid: Pid, id: &str) -> Option<String> {
    let process = observe::process(runtime, pid)?;
    let label = [process.label, process.name].into_iter().flatten().find(|label| &**label != id)?;
    Some(cut(&label, NAME_MAX_BYTES))
}

/// Encodes a top supervisor in full.
pub(crate) fn top_detail(runtime: &Handle, pid: Pid, row: TreeRow) -> TreeDetail {
    let parent = observe::supervisor(runtime, pid).and_then(|report| report.parent);
    TreeDetail { row, parent: parent.map(|parent| parent.to_string()), ..TreeDetail::default() }
}

/// Encodes a child in full.
pub(crate) fn child_detail(report: &ChildReport, ends: &[ChildEnd], row: TreeRow) -> TreeDetail {
    let shutdown = match report.shutdown {
        Shutdown::BrutalKill => "brutal_kill".to_owned(),
        Shutdown::Timeout(timeout) => timeout.as_millis().to_string(),
        Shutdown::Infinity => "infinity".to_owned(),
    };
    TreeDetail {
        row,
        shutdown: Some(shutdown),
        significant: report.significant,
        parent: None,
        ends: ends.iter().map(|one| end(one, REASON_MAX_BYTES)).collect(),
    }
}

pub(super) fn branch(report: &SupervisorReport, open: bool) -> TreeBranch {
    TreeBranch {
        open,
        strategy: strategy(report.strategy).to_owned(),
        used: report.intensity_used as u64,
        allowed: u64::from(report.intensity.restarts),
        period_ms: u64::try_from(report.intensity.period.as_millis()).unwrap_or(u64::MAX),
        restarts_total: report.restarts_total,
        running: report.counts.running as u64,
        waiting: report.counts.waiting as u64,
        ended: report.counts.ended as u64,
    }
}

const fn strategy(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::OneForOne => "one_for_one",
        Strategy::OneForAll => "one_for_all",
        Strategy::RestForOne => "rest_for_one",
        Strategy::SimpleOneForOne => "simple_one_for_one",
    }
}

pub(super) const fn restart(restart: Restart) -> &'static str {
    match restart {
        Restart::Permanent => "permanent",
        Restart::Transient => "transient",
        Restart::Temporary => "temporary",
    }
}

/// Encodes one end of a child.
pub(super) fn end(end: &ChildEnd, max_bytes: usize) -> TreeEnd {
    TreeEnd {
        at_ms: end.at.as_millis() as u64,
        pid: end.pid.map(|pid| pid.to_string()),
        reason: reason(&end.reason, max_bytes),
    }
}

fn reason(reason: &ExitReason, max_bytes: usize) -> String {
    cut(&reason.to_string(), max_bytes)
}
