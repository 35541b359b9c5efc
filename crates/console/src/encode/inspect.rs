//! Encodes one process in depth, alive or ended.

use rusm_protocol::{BondPage, EndedInfo, Inspection, MailboxInfo, NamedPid, ReachInfo, SupervisedInfo};

use super::events::REASON_MAX_BYTES;
use super::text::cut;
use super::{TYPE_MAX_BYTES, display_name, round, tree};
use rusm_runtime::observe::{self, ChildKey, EndReach, EndedBy, EndedProcess, ProcessRef};
use rusm_runtime::{Handle, NAME_MAX_BYTES, Pid};

/// Number of ancestors, names and groups that are sent.
const ANCESTORS_SHOWN: usize = 8;
const NAMES_SHOWN: usize = 16;
/// Bytes of the reason of an end that are sent.
const END_REASON_MAX_BYTES: usize = 2048;

/// Encodes a pid with the name of its process.
pub(crate) fn named(runtime: &Handle, pid: Pid) -> NamedPid {
    let name = observe::process_ref(runtime, pid).and_then(|process| display_name(&process));
    NamedPid { pid: pid.to_string(), name }
}

/// Encodes a page of related processes.
pub(crate) fn page(runtime: &Handle, bond: &str, total: usize, offset: usize, pids: &[Pid]) -> BondPage {
    BondPage {
        bond: bond.to_owned(),
        total: total as u64,
        offset: offset.min(total) as u64,
        processes: pids.iter().map(|pid| named(runtime, *pid)).collect(),
    }
}

/// Fills the parts that identify a process.
pub(crate) fn identity(runtime: &Handle, process: &ProcessRef<'_>, found: &mut Inspection) {
    let pid = process.pid();
    let mut above = observe::process(runtime, pid).and_then(|report| report.parent);
    while let Some(ancestor) = above.filter(|_| found.ancestors.len() < ANCESTORS_SHOWN) {
        found.ancestors.push(named(runtime, ancestor));
        above = observe::process(runtime, ancestor).and_then(|report| report.parent);
    }
    found.supervises = observe::supervisor(runtime, pid).map(|report| tree::branch(&report, false));
    let Some(holds) = observe::process_belongings(runtime, pid, NAMES_SHOWN) else { return };
    found.names = holds.names.iter().map(|name| cut(name, NAME_MAX_BYTES)).collect();
    found.groups = holds.groups.iter().map(|group| cut(group, NAME_MAX_BYTES)).collect();
    found.groups_total = holds.group_count as u64;
    found.timers = holds.timers as u64;
}

/// Encodes the counters of a mailbox.
pub(crate) fn mailbox(runtime: &Handle, process: &ProcessRef<'_>) -> MailboxInfo {
    let holds = observe::process_belongings(runtime, process.pid(), 0);
    MailboxInfo {
        len: process.mailbox_len(),
        capacity: process.mailbox_capacity(),
        bytes: process.mailbox_bytes(),
        waiting_senders: holds.map_or(0, |holds| holds.waiting_senders as u64),
        ..MailboxInfo::default()
    }
}

/// Rounds a pair of rates.
pub(crate) fn rounded((a, b): (f64, f64)) -> (f64, f64) {
    (round(a), round(b))
}

/// Encodes the supervisor of a child, and the history of the child.
pub(crate) fn supervised(runtime: &Handle, supervisor: Pid, key: ChildKey) -> Option<SupervisedInfo> {
    let report = observe::supervisor(runtime, supervisor)?;
    let (child, ends) = observe::child(runtime, supervisor, key)?;
    Some(SupervisedInfo {
        supervisor: named(runtime, supervisor),
        child: cut(&child.id, NAME_MAX_BYTES),
        restart: tree::restart(child.restart).to_owned(),
        restarts_total: child.restarts_total,
        budget: tree::branch(&report, false),
        ends: ends.iter().map(|end| tree::end(end, REASON_MAX_BYTES)).collect(),
    })
}

/// Encodes a process that has ended.
pub(crate) fn ended(runtime: &Handle, ended: &EndedProcess) -> EndedInfo {
    let (by, by_process, by_observer) = match &ended.by {
        EndedBy::Itself => ("itself", None, None),
        EndedBy::Process(pid) => ("process", Some(named(runtime, *pid)), None),
        EndedBy::Link(pid) => ("link", Some(named(runtime, *pid)), None),
        EndedBy::Outside => ("outside", None, None),
        EndedBy::Observer(text) => ("observer", None, Some(cut(text, NAME_MAX_BYTES))),
    };
    let figures = ended.figures;
    EndedInfo {
        name: ended.name.as_deref().map(|name| cut(name, NAME_MAX_BYTES)),
        future_type: cut(ended.future_type, TYPE_MAX_BYTES),
        parent: ended.parent.map(|parent| named(runtime, parent)),
        at_ms: ended.at.as_millis() as u64,
        reason: cut(&ended.reason.to_string(), END_REASON_MAX_BYTES),
        by: by.to_owned(),
        by_process,
        by_observer,
        age_ms: figures.age_ms,
        reductions: figures.reductions,
        busy_ns: figures.busy_ns,
        messages: figures.messages,
        mailbox_len: figures.mailbox_len,
        memory_bytes: figures.memory_bytes,
    }
}

/// Encodes the effect of an end on others.
pub(crate) const fn reach(reach: EndReach) -> ReachInfo {
    ReachInfo { ends: reach.ends as u64, is_more: reach.is_more, told: reach.told as u64 }
}
