//! Surveys: detectors that read more than a tick should, once a second or as rarely as their cost requires.

mod memory_slope;
mod pools;
mod slow_subscribers;

use std::time::Duration;

use rusm_protocol::Lint;

use super::config::LintConfig;
use super::finding::Finding;
use crate::budget::{thread_cpu, thread_cpu_since};
use crate::sampler::memory::control_block_bytes;
use crate::sampler::sample::Sample;
use rusm_runtime::Handle;
use rusm_runtime::observe;

use self::memory_slope::{MemorySlope, MemoryUse};
use self::pools::PoolUse;
use self::slow_subscribers::{SlowSubscribers, of_ring, of_topic};

/// Minimum interval between two surveys.
const INTERVAL: Duration = Duration::from_secs(1);
/// Share of one core that the surveys may use.
const SHARE: f64 = 0.0005;
/// Maximum number of topics, and of streams, that one survey compares.
const SOURCES_MAX: usize = 256;
/// Maximum number of readers of each.
const READERS_MAX: usize = 8;

/// The surveys, and the time of the next one.
#[derive(Debug)]
pub(super) struct Surveys {
    config: LintConfig,
    slope: MemorySlope,
    slow: SlowSubscribers,
    next: Duration,
}

impl Surveys {
    pub(super) fn new(config: LintConfig) -> Self {
        let thresholds = config.thresholds;
        Self {
            config,
            slope: MemorySlope::new(thresholds.memory_slope_per_min),
            slow: SlowSubscribers::new(thresholds.slow_subscriber_pct),
            next: Duration::ZERO,
        }
    }

    /// Returns the findings of a survey, if one is due.
    pub(super) fn check(&mut self, runtime: &Handle, sample: &Sample, now: Duration) -> Vec<Finding> {
        if now < self.next {
            return Vec::new();
        }
        let before = thread_cpu();
        let mut found = Vec::new();
        if self.config.warns(Lint::MemorySlope) {
            found.extend(self.slope.check(memory(sample), now));
        }
        if self.config.warns(Lint::PoolNearlyFull) {
            found.extend(pools::check(pools(runtime, sample), self.config.thresholds.pool_nearly_full_pct));
        }
        if self.config.warns(Lint::SlowSubscriber) {
            let rings = observe::streams(runtime, READERS_MAX);
            let (_, topics) = observe::topics(runtime, 0, SOURCES_MAX, READERS_MAX);
            let readers = rings.iter().take(SOURCES_MAX).flat_map(of_ring).chain(topics.iter().flat_map(of_topic));
            found.extend(self.slow.check(readers.collect(), now));
        }
        self.next = now + INTERVAL.max(thread_cpu_since(before).div_f64(SHARE));
        found
    }
}

fn memory(sample: &Sample) -> MemoryUse {
    MemoryUse {
        rss: sample.rss_bytes,
        processes: control_block_bytes(sample.totals.live),
        futures: sample.census.future_bytes,
        mailboxes: sample.census.mailbox_bytes,
    }
}

fn pools(runtime: &Handle, sample: &Sample) -> Vec<PoolUse> {
    let pool = |name: String, used, limit| PoolUse { name, used, limit };
    let mailboxes = &sample.mailboxes;
    let mut pools = vec![
        pool("processes".to_owned(), sample.totals.live, observe::process_limit(runtime) as u64),
        pool("bytes in mailboxes".to_owned(), mailboxes.bytes, mailboxes.max_bytes),
    ];
    for engine in observe::engines(runtime) {
        pools.push(pool(format!("instances of {}", engine.kind), engine.live, engine.capacity));
        let slots = engine.slots.iter();
        pools.extend(slots.map(|(name, slots)| pool(format!("{name} of {}", engine.kind), slots.used, slots.slots)));
    }
    pools
}
