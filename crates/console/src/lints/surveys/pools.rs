//! `pool_nearly_full`: a limited resource of the node is almost used up: processes, bytes in mailboxes, or slots of an
//! engine.

use rusm_protocol::Lint;
use rusm_text::grouped;

use crate::lints::finding::{Finding, HOLD};
use rusm_runtime::Pid;

/// Use of a limited resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PoolUse {
    pub(super) name: String,
    pub(super) used: u64,
    pub(super) limit: u64,
}

impl PoolUse {
    /// Returns the share in use, in per cent; 0 without a limit.
    fn pct(&self) -> f64 {
        if self.limit == 0 { 0.0 } else { self.used as f64 / self.limit as f64 * 100.0 }
    }
}

/// Returns a finding about the resources that are used from `pct` per cent on, the fullest first.
pub(super) fn check(mut pools: Vec<PoolUse>, pct: u8) -> Option<Finding> {
    pools.retain(|pool| pool.pct() >= f64::from(pct));
    pools.sort_by(|a, b| b.pct().total_cmp(&a.pct()));
    let worst = pools.first()?.pct();
    let used = |pool: &PoolUse| format!("{} {} of {} used", pool.name, grouped(pool.used), grouped(pool.limit));
    let text: Vec<String> = pools.iter().take(3).map(used).collect();
    Some(Finding { lint: Lint::PoolNearlyFull, pid: Pid::NONE, value: worst, text: text.join("; "), hold: HOLD })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, used: u64, limit: u64) -> PoolUse {
        PoolUse { name: name.to_owned(), used, limit }
    }

    #[test]
    fn the_fullest_resource_comes_first_and_those_with_room_are_not_named() {
        let pools = vec![pool("processes", 910, 1_000), pool("memories", 99, 100), pool("stacks", 10, 100)];

        let found = check(pools, 90).unwrap();

        assert_eq!(found.text, "memories 99 of 100 used; processes 910 of 1,000 used");
        assert!((found.value - 99.0).abs() < 1e-9);
    }

    #[test]
    fn a_node_with_room_and_a_resource_without_a_limit_are_healthy() {
        assert_eq!(check(vec![pool("processes", 899, 1_000), pool("mailboxes", 7, 0)], 90), None);
    }
}
