//! Looks at the CPU time of all groups, shared by the clients that group alike and by the recorder.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rusm_protocol::CpuGroup;

use super::group::GroupId;
use super::groups::{self, GroupSums, Groups};
use super::parts::Threads;
use super::waits::{GroupWaits, WaitP99};
use crate::budget::process_cpu;
use crate::sampler::os_cpu;
use rusm_runtime::Handle;

/// Time over which shares are computed, once that much has passed.
const SPAN: Duration = Duration::from_secs(5);
/// Maximum number of looks that are kept.
const LOOKS_MAX: usize = 16;

/// Looks of the last seconds, the newest at the back.
pub(crate) struct CpuLooks {
    by: CpuGroup,
    groups: Groups,
    looks: VecDeque<Look>,
    waits: GroupWaits,
}

/// Sums at one moment.
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) process_ns: u64,
    pub(super) machine_ns: Option<u64>,
    pub(super) threads: Threads,
    pub(super) sums: GroupSums,
}

impl CpuLooks {
    pub(crate) fn new(by: CpuGroup) -> Self {
        Self { by, groups: Groups::new(by), looks: VecDeque::new(), waits: GroupWaits::default() }
    }

    pub(crate) const fn group(&self) -> CpuGroup {
        self.by
    }

    /// Looks again, unless the newest look is younger than `max_age` and not the one of `sent`, which the client has.
    pub(super) fn refresh(&mut self, runtime: &Handle, max_age: Duration, sent: Option<Instant>) {
        let at = Instant::now();
        if self.newest_at().is_some_and(|newest| Some(newest) != sent && at - newest < max_age) {
            return;
        }
        let (sums, schedulers) = self.groups.read(runtime, at);
        let by = self.by;
        self.waits.read(runtime, at, SPAN, |scheduler, seen| groups::id_of(by, scheduler, seen));
        while self.looks.get(1).is_some_and(|next| at - next.at >= SPAN) || self.looks.len() >= LOOKS_MAX {
            self.looks.pop_front();
        }
        self.looks.push_back(Look {
            at,
            process_ns: process_cpu().as_nanos() as u64,
            machine_ns: os_cpu::machine_ns(),
            threads: Threads::new(os_cpu::threads(), schedulers),
            sums,
        });
    }

    pub(super) fn newest_at(&self) -> Option<Instant> {
        self.looks.back().map(|look| look.at)
    }

    /// Returns the oldest and the newest look; `None` before the second one.
    pub(super) fn span(&self) -> Option<(&Look, &Look)> {
        (self.looks.len() > 1).then(|| self.looks.front().zip(self.looks.back())).flatten()
    }

    /// Returns the 99th percentile of the sampled scheduling delays of each group.
    pub(super) fn p99(&self) -> HashMap<&GroupId, WaitP99> {
        self.waits.p99()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusm_runtime::{Config, Runtime};

    #[test]
    fn a_look_serves_each_client_once_and_until_it_is_too_old() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let mut looks = CpuLooks::new(CpuGroup::Kind);
        let long = Duration::from_hours(1);

        looks.refresh(&runtime, long, None);
        let first = looks.newest_at();
        looks.refresh(&runtime, long, None);
        assert_eq!(looks.newest_at(), first, "another client");
        assert!(looks.span().is_none());
        looks.refresh(&runtime, long, first);
        let second = looks.newest_at();
        assert_ne!(second, first, "the client that has it");
        looks.refresh(&runtime, Duration::ZERO, None);

        assert_ne!(looks.newest_at(), second, "too old");
        assert!(looks.span().is_some_and(|(then, now)| Some(then.at) == first && Some(now.at) == looks.newest_at()));
    }
}
