//! What observers see of a guest.

use rusm_runtime::observe::{Fact, extra};
use rusm_runtime::{Handle, Pid};

/// The fact that says how often a guest was taken off its scheduler.
pub(crate) const SLICES: &str = "epoch_slices_total";

/// What observers see of a guest under this name.
pub(crate) fn fact(runtime: &Handle, pid: Pid, name: &str) -> u64 {
    let facts = extra(runtime, pid).expect("a guest").facts();
    match facts.into_iter().find(|(known, _)| *known == name).expect("a fact of guests").1 {
        Fact::Count(count) | Fact::Bytes(count) => count,
        other @ Fact::Text(_) => panic!("{other:?}"),
    }
}
