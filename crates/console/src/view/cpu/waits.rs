//! Sampled scheduling delays by group: how late the processes of a group run once they are ready.
//!
//! Only processes that live on after a poll are sampled, and only those that still live are assigned to a group.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::group::GroupId;
use rusm_runtime::Handle;
use rusm_runtime::observe;

/// Delays of the groups over the last seconds.
#[derive(Debug, Default)]
pub(super) struct GroupWaits {
    /// Number of delays that were read of each scheduler.
    seen: Vec<u64>,
    looks: VecDeque<(Instant, Vec<(GroupId, u64)>)>,
}

/// The 99th percentile of the sampled delays of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitP99 {
    pub(super) ns: u64,
    pub(super) samples: u64,
}

impl GroupWaits {
    /// Reads the delays since the last look; `group_of` returns the group of a process on a scheduler.
    pub(super) fn read(
        &mut self,
        runtime: &Handle,
        at: Instant,
        span: Duration,
        group_of: impl Fn(usize, &observe::ProcessRef<'_>) -> GroupId,
    ) {
        while self.looks.front().is_some_and(|(then, _)| at - *then > span) {
            self.looks.pop_front();
        }
        let mut delays = Vec::new();
        observe::recent_delays(runtime, &mut self.seen, |scheduler, pid, delay_ns| {
            if let Some(seen) = observe::process_ref(runtime, pid) {
                delays.push((group_of(scheduler, &seen), delay_ns));
            }
        });
        self.looks.push_back((at, delays));
    }

    /// Returns the 99th percentile of each group with samples.
    pub(super) fn p99(&self) -> HashMap<&GroupId, WaitP99> {
        let mut by_group: HashMap<&GroupId, Vec<u64>> = HashMap::new();
        for (id, ns) in self.looks.iter().flat_map(|(_, delays)| delays) {
            by_group.entry(id).or_default().push(*ns);
        }
        by_group.into_iter().map(|(id, delays)| (id, p99(delays))).collect()
    }
}

fn p99(mut delays: Vec<u64>) -> WaitP99 {
    let samples = delays.len();
    // The nearest rank: with fewer than a hundred samples, the maximum.
    let rank = (samples * 99).div_ceil(100).max(1) - 1;
    let (_, ns, _) = delays.select_nth_unstable(rank);
    WaitP99 { ns: *ns, samples: samples as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_the_nearest_rank() {
        assert_eq!(p99(vec![7]), WaitP99 { ns: 7, samples: 1 });
        assert_eq!(p99((1..=200).rev().collect()), WaitP99 { ns: 198, samples: 200 });
        assert_eq!(p99((1..=50).collect()), WaitP99 { ns: 50, samples: 50 });
    }
}
