//! Encodes events: short ones for lists, and one in full.

use rusm_protocol::{EventDetail, EventInfo, Events};

use super::cause_word;
use super::text::cut;
use rusm_runtime::observe::{self, EventKind, FaultReport, RuntimeEvent};
use rusm_runtime::{ExitReason, Handle, NAME_MAX_BYTES};

/// Maximum number of bytes of a reason in a list.
pub(super) const REASON_MAX_BYTES: usize = 300;
/// Maximum number of bytes of the reason of an event in full. A reason is shortened to this length when it is
/// displayed.
const WHOLE_REASON_MAX_BYTES: usize = 4_200;
/// Maximum number of functions of a backtrace, and of bytes of each.
const BACKTRACE_MAX: usize = 32;
const FUNCTION_MAX_BYTES: usize = 256;

/// Returns the newest events of a node, at most `len`.
pub(crate) fn events(runtime: &Handle, len: usize) -> Events {
    let (noted, dropped) = observe::event_counts(runtime);
    let events = observe::events(runtime, 0, len).into_iter().map(|event| info(event, REASON_MAX_BYTES)).collect();
    Events { events, noted, dropped, ..Events::default() }
}

/// Returns an event in full; `None` if the node does not keep it any more.
pub(crate) fn detail(runtime: &Handle, seq: u64) -> Option<EventDetail> {
    let newer = observe::events(runtime, seq.checked_sub(1)?, usize::MAX);
    let event = info(newer.into_iter().next().filter(|event| event.seq == seq)?, WHOLE_REASON_MAX_BYTES);
    let ended = event.old.as_ref().unwrap_or(&event.pid);
    let fault = observe::engines(runtime)
        .into_iter()
        .flat_map(|engine| engine.faults)
        .find(|fault: &FaultReport| fault.pid.to_string() == *ended);
    let (module, backtrace) = fault.map_or((None, Vec::new()), |fault| {
        let functions = fault.backtrace.iter().take(BACKTRACE_MAX).map(|function| cut(function, FUNCTION_MAX_BYTES));
        (Some(cut(&fault.module, NAME_MAX_BYTES)), functions.collect())
    });
    Some(EventDetail { event, module, backtrace })
}

fn info(event: RuntimeEvent, reason_max: usize) -> EventInfo {
    let info = EventInfo { seq: event.seq, at_ms: event.at.as_millis() as u64, ..EventInfo::default() };
    let short = |reason: &ExitReason| Some(cut(&reason.to_string(), reason_max));
    let named = |name: &str| Some(cut(name, NAME_MAX_BYTES));
    match event.kind {
        EventKind::Failure { pid, name, reason, kind } => EventInfo {
            kind: cause_word(kind).to_owned(),
            pid: pid.to_string(),
            name: name.and_then(|name| named(&name)),
            reason: short(&reason),
            ..info
        },
        EventKind::Restart { supervisor, child, old, new, reason } => EventInfo {
            kind: "restart".to_owned(),
            pid: supervisor.to_string(),
            name: named(&child),
            old: Some(old.to_string()),
            new: Some(new.to_string()),
            reason: short(&reason),
            ..info
        },
        EventKind::GaveUp { supervisor, child, reason } => EventInfo {
            kind: "gave_up".to_owned(),
            pid: supervisor.to_string(),
            name: named(&child),
            reason: short(&reason),
            ..info
        },
        EventKind::Refused { pid, capability } => {
            EventInfo { kind: "refused".to_owned(), pid: pid.to_string(), reason: Some(capability.to_owned()), ..info }
        }
        EventKind::RestartFailed { supervisor, child, error } => EventInfo {
            kind: "restart_failed".to_owned(),
            pid: supervisor.to_string(),
            name: named(&child),
            reason: Some(cut(&error.to_string(), reason_max)),
            ..info
        },
        EventKind::ChildLost { supervisor, child, reason } => EventInfo {
            kind: "child_lost".to_owned(),
            pid: supervisor.to_string(),
            name: named(&child),
            reason: short(&reason),
            ..info
        },
        EventKind::Stuck { pid } => EventInfo { kind: "stuck".to_owned(), pid: pid.to_string(), ..info },
    }
}
