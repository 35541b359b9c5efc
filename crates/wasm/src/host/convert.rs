//! Conversions between the types of the WIT world and those of the runtime.

use bytes::Bytes;

use crate::bindings::rusm::runtime::types;
use rusm_runtime::{Detail, ExitReason, Pid};

pub(crate) const fn pid_of(pid: types::Pid) -> Pid {
    Pid::from_parts(pid.node, pid.slot, pid.generation)
}

pub(crate) const fn pid(pid: Pid) -> types::Pid {
    types::Pid { node: pid.node(), slot: pid.slot(), generation: pid.generation() }
}

pub(crate) fn reason(reason: &ExitReason) -> types::ExitReason {
    match reason {
        ExitReason::Normal => types::ExitReason::Normal,
        ExitReason::Shutdown => types::ExitReason::Shutdown,
        ExitReason::ShutdownWith(why) => types::ExitReason::ShutdownWith(why.text().to_owned()),
        ExitReason::Killed => types::ExitReason::Killed,
        ExitReason::NoProcess => types::ExitReason::NoProcess,
        ExitReason::NoConnection => types::ExitReason::NoConnection,
        panic @ ExitReason::Panic(_) => types::ExitReason::Panic(panic.to_string()),
        ExitReason::Other(why) => types::ExitReason::Other(why.text().to_owned()),
    }
}

/// Maximum length of the text in an exit reason: it is stored with events, and in the mailboxes of all processes that are
/// linked to the guest or monitor it.
pub(crate) const REASON_MAX_BYTES: usize = 1 << 10;

/// Returns the text of a guest's exit reason, cut to the maximum length.
pub(crate) fn why(words: &str) -> Detail {
    let end = words.floor_char_boundary(REASON_MAX_BYTES);
    if end == words.len() { words.to_owned().into() } else { format!("{}…", &words[..end]).into() }
}

/// Converts the exit reason that a guest gives; a panic becomes `Other` with its text.
pub(crate) fn reason_of(reason: types::ExitReason) -> ExitReason {
    match reason {
        types::ExitReason::Normal => ExitReason::Normal,
        types::ExitReason::Shutdown => ExitReason::Shutdown,
        types::ExitReason::ShutdownWith(why) => ExitReason::ShutdownWith(self::why(&why)),
        types::ExitReason::Killed => ExitReason::Killed,
        types::ExitReason::NoProcess => ExitReason::NoProcess,
        types::ExitReason::NoConnection => ExitReason::NoConnection,
        types::ExitReason::Panic(why) | types::ExitReason::Other(why) => ExitReason::Other(self::why(&why)),
    }
}

/// Returns the bytes as a vector, without a copy if they are not shared.
pub(crate) fn body(bytes: Bytes) -> Vec<u8> {
    bytes.into()
}
