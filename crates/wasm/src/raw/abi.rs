//! Parts that the functions of the raw table share: their module's name, statuses, pids and times.

use crate::bindings::rusm::runtime::types::{self, Error};
use crate::guest::state::GuestState;
use crate::host::convert;

/// Name of the module that core modules import from.
pub(crate) const MODULE: &str = "rusm";

pub(super) const OK: i32 = 0;

/// Returns the status of an error, and stores its text for the guest to read.
pub(crate) fn status(state: &mut GuestState, error: Error) -> i32 {
    let (status, text) = match error {
        Error::Denied(what) => (-1, format!("denied: {what}")),
        Error::NoProcess => (-2, "no such process".to_owned()),
        Error::MailboxFull => (-3, "the mailbox is full".to_owned()),
        Error::TimedOut => (-4, "timed out".to_owned()),
        Error::CalleeExited(reason) => (-5, format!("the callee ended: {}", convert::reason_of(reason))),
        Error::NoSuch(what) => (-6, what),
        Error::Taken(what) => (-7, what),
        Error::Limit(what) => (-8, what),
        Error::Invalid(what) => (-9, what),
    };
    state.last_result.error = text;
    status
}

/// Converts a number to a pid of this node.
pub(super) const fn pid(number: i64) -> types::Pid {
    types::Pid { node: 0, slot: number as u32, generation: (number >> 32) as u32 }
}

/// Converts a time in milliseconds; a negative one means no limit.
pub(super) fn timeout(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok()
}
