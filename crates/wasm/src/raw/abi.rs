//! Parts that the functions of the raw table share: their module's name, statuses, pids and times.

use crate::bindings::rusm::runtime::types::{self, Error};
use crate::guest::state::GuestState;

/// Name of the module that core modules import from.
pub(crate) const MODULE: &str = "rusm";

pub(super) const OK: i32 = 0;

/// Returns the status of an error, and stores its text for the guest to read.
pub(crate) fn status(state: &mut GuestState, error: Error) -> i32 {
    state.last_result.fail(error)
}

/// Converts a number to a pid of this node.
pub(super) const fn pid(number: i64) -> types::Pid {
    types::Pid { node: 0, slot: number as u32, generation: (number >> 32) as u32 }
}

/// Converts a time in milliseconds; a negative one means no limit.
pub(super) fn timeout(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok()
}
