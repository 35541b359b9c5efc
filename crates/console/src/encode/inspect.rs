//! Encodes one process in depth, alive or ended.

use rusm_protocol::{
    BacktraceInfo, BondPage, DelaysInfo, EndedInfo, Inspection, MailboxInfo, MessageInfo, NamedPid, ReachInfo,
    SenderInfo, SupervisedInfo, WaitsFor,
};

use super::events::REASON_MAX_BYTES;
use super::text::cut;
use super::{TYPE_MAX_BYTES, display_name, round, tree, waits};
use crate::lints::waits::WaitGraph;
use crate::sampler::delays::latency;
use rusm_runtime::observe::{
    self, BodyBacktrace, ChildKey, DelayReport, EndReach, EndedBy, EndedProcess, PreviewedMessage, ProcessRef,
    ProcessState, WaitTarget, WatchReport,
};
use rusm_runtime::{Handle, NAME_MAX_BYTES, Pid};

/// Number of ancestors, names and groups that are sent.
const ANCESTORS_SHOWN: usize = 8;
const NAMES_SHOWN: usize = 16;
/// Number of senders that are sent.
const SENDERS_SHOWN: usize = 8;
/// Bytes of the type and of the value of a message that are sent.
const KIND_MAX_BYTES: usize = 300;
const VALUE_MAX_BYTES: usize = 200;
/// Number of functions of a backtrace, and bytes of the name of each, that are sent.
const FRAMES_SHOWN: usize = 32;
const FRAME_MAX_BYTES: usize = 200;
/// Bytes of the reason of an end that are sent.
const END_REASON_MAX_BYTES: usize = 2048;

/// Encodes a pid with the name of its process.
pub(crate) fn named(runtime: &Handle, pid: Pid) -> NamedPid {
    let name = observe::process_ref(runtime, pid).and_then(|process| display_name(runtime, &process));
    NamedPid { pid: pid.to_string(), name }
}

/// Encodes the functions that the body of a process was in.
pub(crate) fn backtrace(backtrace: &BodyBacktrace) -> BacktraceInfo {
    BacktraceInfo {
        frames: backtrace.frames.iter().take(FRAMES_SHOWN).map(|frame| cut(frame, FRAME_MAX_BYTES)).collect(),
        age_ms: backtrace.taken.elapsed().as_millis() as u64,
    }
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

/// Adds what is known of a mailbox since its process is watched.
pub(crate) fn watched(runtime: &Handle, report: &WatchReport, mailbox: &mut MailboxInfo) {
    let sum: u64 = report.senders.iter().map(|(_, count)| count).sum();
    mailbox.seen = report.seen;
    mailbox.sampled = report.sampled;
    mailbox.senders_total = report.senders_total as u64;
    mailbox.senders = report
        .senders
        .iter()
        .take(SENDERS_SHOWN)
        .map(|(from, count)| SenderInfo {
            process: from.map(|pid| named(runtime, pid)),
            pct: round(*count as f64 * 100.0 / sum.max(1) as f64),
        })
        .collect();
    if let Some((age, is_minimum)) = report.oldest {
        mailbox.oldest_ms = Some(round(age.as_secs_f64() * 1e3));
        mailbox.oldest_is_minimum = is_minimum;
    }
    // A preview of an empty mailbox is over.
    let Some(preview) = report.preview.as_ref().filter(|_| mailbox.len > 0) else { return };
    let age = observe::uptime(runtime).saturating_sub(preview.at);
    mailbox.preview_age_ms = Some(age.as_millis() as u64);
    let message = |message: &PreviewedMessage| MessageInfo {
        kind: cut(message.type_name, KIND_MAX_BYTES),
        bytes: message.heap_bytes,
        value: message.value.as_deref().map(|value| cut(value, VALUE_MAX_BYTES)),
    };
    mailbox.preview = Some(preview.messages.iter().map(message).collect());
}

/// Encodes the delays of a watched process, of which every poll is timed.
pub(crate) fn delays(report: &DelayReport) -> DelaysInfo {
    DelaysInfo {
        scheduling: latency(&report.scheduling),
        poll: latency(&report.poll),
        handling: latency(&report.handling),
        sampling: 1.0,
    }
}

/// Encodes what a parked process waits for, and since when.
pub(crate) fn waits(
    runtime: &Handle,
    process: &ProcessRef<'_>,
    report: &WatchReport,
    graph: &WaitGraph,
) -> Option<WaitsFor> {
    let (since, is_minimum) = report.parked_for?;
    let since_ms = Some(since.as_millis() as u64);
    if let Some(target) = waits::target(runtime, process, graph) {
        return Some(WaitsFor { since_ms, is_minimum, ..waits_for(runtime, &target) });
    }
    let on = match process.state() {
        ProcessState::Waiting => "message",
        ProcessState::Sleeping => "timer",
        ProcessState::Io => "io",
        ProcessState::Running | ProcessState::Runnable | ProcessState::Exiting => return None,
    };
    Some(WaitsFor { on: on.to_owned(), since_ms, is_minimum, ..WaitsFor::default() })
}

fn waits_for(runtime: &Handle, target: &WaitTarget) -> WaitsFor {
    let (on, subject) = match target {
        WaitTarget::Reply(_) => ("reply", None),
        WaitTarget::Room(_) => ("room", None),
        WaitTarget::Reader { label, stream, .. } => {
            let label = label.as_deref().map(|label| cut(label, NAME_MAX_BYTES));
            ("stream", Some(label.unwrap_or_else(|| stream.to_string())))
        }
        WaitTarget::Subscriber { topic, .. } => ("topic", Some(cut(topic, NAME_MAX_BYTES))),
        WaitTarget::Store => ("store", None),
    };
    let process = target.pid().map(|pid| named(runtime, pid));
    WaitsFor { on: on.to_owned(), process, subject, ..WaitsFor::default() }
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
