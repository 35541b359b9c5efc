//! `[lint]`: the level of each lint, and the values from which lints are raised.

use rusm_console::{Lint, LintLevel, LintLevels, LintThresholds};
use serde::Deserialize;

use super::limits::U32_MAX;
use super::value::{Number, Size, Time, Word};

/// `[lint]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LintSection {
    stuck: Option<Word<LintLevel>>,
    never_yields: Option<Word<LintLevel>>,
    restart_storm: Option<Word<LintLevel>>,
    mailbox_growing: Option<Word<LintLevel>>,
    unreceived: Option<Word<LintLevel>>,
    wait_cycle: Option<Word<LintLevel>>,
    idle_scheduler: Option<Word<LintLevel>>,
    busy_loop: Option<Word<LintLevel>>,
    slow_subscriber: Option<Word<LintLevel>>,
    pool_nearly_full: Option<Word<LintLevel>>,
    memory_slope: Option<Word<LintLevel>>,
    hog: Option<Word<LintLevel>>,
    never_yields_poll: Option<Time>,
    busy_loop_after: Option<Time>,
    hog_pct: Option<Number<1, 100>>,
    restart_storm_per_sec: Option<Number<1, U32_MAX>>,
    mailbox_growing_len: Option<Number<1, U32_MAX>>,
    unreceived_after: Option<Time>,
    slow_subscriber_pct: Option<Number<1, 100>>,
    pool_nearly_full_pct: Option<Number<1, 100>>,
    memory_slope_per_min: Option<Size<{ u64::MAX }>>,
    wait_cycle_after: Option<Time>,
    idle_scheduler_after: Option<Time>,
}

impl LintSection {
    /// Returns the level of each lint.
    pub(super) fn levels(&self) -> LintLevels {
        let levels = [
            (Lint::Stuck, self.stuck),
            (Lint::NeverYields, self.never_yields),
            (Lint::RestartStorm, self.restart_storm),
            (Lint::MailboxGrowing, self.mailbox_growing),
            (Lint::Unreceived, self.unreceived),
            (Lint::WaitCycle, self.wait_cycle),
            (Lint::IdleScheduler, self.idle_scheduler),
            (Lint::BusyLoop, self.busy_loop),
            (Lint::SlowSubscriber, self.slow_subscriber),
            (Lint::PoolNearlyFull, self.pool_nearly_full),
            (Lint::MemorySlope, self.memory_slope),
            (Lint::Hog, self.hog),
        ];
        levels
            .into_iter()
            .filter_map(|(lint, level)| Some((lint, level?.0)))
            .fold(LintLevels::default(), |levels, (lint, level)| levels.with(lint, level))
    }

    /// Returns the values from which lints are raised.
    pub(super) fn thresholds(&self) -> LintThresholds {
        let default = LintThresholds::DEFAULT;
        LintThresholds {
            never_yields_poll: self.never_yields_poll.map_or(default.never_yields_poll, |time| time.0),
            busy_loop_after: self.busy_loop_after.map_or(default.busy_loop_after, |time| time.0),
            hog_pct: self.hog_pct.map_or(default.hog_pct, |pct| pct.0 as u8),
            restart_storm_per_sec: self
                .restart_storm_per_sec
                .map_or(default.restart_storm_per_sec, |count| count.0 as u32),
            mailbox_growing_len: self.mailbox_growing_len.map_or(default.mailbox_growing_len, |count| count.0 as u32),
            unreceived_after: self.unreceived_after.map_or(default.unreceived_after, |time| time.0),
            slow_subscriber_pct: self.slow_subscriber_pct.map_or(default.slow_subscriber_pct, |pct| pct.0 as u8),
            pool_nearly_full_pct: self.pool_nearly_full_pct.map_or(default.pool_nearly_full_pct, |pct| pct.0 as u8),
            memory_slope_per_min: self.memory_slope_per_min.map_or(default.memory_slope_per_min, |bytes| bytes.0),
            wait_cycle_after: self.wait_cycle_after.map_or(default.wait_cycle_after, |time| time.0),
            idle_scheduler_after: self.idle_scheduler_after.map_or(default.idle_scheduler_after, |time| time.0),
        }
    }
}
