//! The target of a process's wait, and its words in the state column.

use rusm_runtime::observe::{self, ProcessRef, ProcessState, WaitTarget};
use rusm_runtime::{Handle, NAME_MAX_BYTES};

use super::text::cut;
use crate::lints::waits::WaitGraph;

/// Returns what a process waits for, if that is more than a message or a timer.
///
/// Replies and commits are read from the process itself. Full mailboxes, streams and topics are known from the list of
/// waits, which is up to half a second old: they count only while the process still waits.
pub(crate) fn target(runtime: &Handle, process: &ProcessRef<'_>, graph: &WaitGraph) -> Option<WaitTarget> {
    if !matches!(process.state(), ProcessState::Waiting | ProcessState::Io) {
        return None;
    }
    let own = observe::waits_of(runtime, process.pid()).into_iter().next();
    let listed = || graph.target(process.pid()).filter(|target| process.waits_to_send() && is_buffer(target)).cloned();
    own.map(|wait| wait.target).or_else(listed)
}

/// Returns true for a wait that the waiting process does not show by itself.
const fn is_buffer(target: &WaitTarget) -> bool {
    matches!(target, WaitTarget::Room(_) | WaitTarget::Reader { .. } | WaitTarget::Subscriber { .. })
}

/// Returns what a parked process waits for: `call <0.51.1>`, `receive`, `timer`, `topic orders`; `None` if it is not
/// parked.
pub(crate) fn words(runtime: &Handle, process: &ProcessRef<'_>, graph: &WaitGraph) -> Option<String> {
    let plain = match process.state() {
        ProcessState::Waiting if process.waits_to_send() => "send",
        ProcessState::Waiting => "receive",
        ProcessState::Sleeping => "timer",
        state @ ProcessState::Io => state.word(),
        ProcessState::Running | ProcessState::Runnable | ProcessState::Exiting => return None,
    };
    let Some(target) = target(runtime, process, graph) else { return Some(plain.to_owned()) };
    Some(match &target {
        WaitTarget::Reply(pid) | WaitTarget::Room(pid) => format!("{} {pid}", target.word()),
        WaitTarget::Reader { label: Some(label), .. } => format!("stream {}", cut(label, NAME_MAX_BYTES)),
        WaitTarget::Reader { stream, .. } => format!("stream {stream}"),
        WaitTarget::Subscriber { topic, .. } => format!("topic {}", cut(topic, NAME_MAX_BYTES)),
        WaitTarget::Store => "store".to_owned(),
    })
}
