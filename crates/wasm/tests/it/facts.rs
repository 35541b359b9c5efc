//! Values that observers see of a guest.

use rusm_runtime::observe::{BodyFact, body_info};
use rusm_runtime::{Handle, Pid};

/// Name of the value that counts how often a guest was taken off its scheduler.
pub(crate) const SLICES: &str = "epoch_slices_total";

/// Returns the value that observers see of a guest under this name.
pub(crate) fn fact(runtime: &Handle, pid: Pid, name: &str) -> u64 {
    let facts = body_info(runtime, pid).expect("a guest").facts();
    match facts.into_iter().find(|(known, _)| *known == name).expect("guests have this value").1 {
        BodyFact::Count(count) | BodyFact::Bytes(count) => count,
        other @ BodyFact::Text(_) => panic!("{other:?}"),
    }
}
