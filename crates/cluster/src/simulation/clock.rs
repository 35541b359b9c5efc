//! Clocks of nodes: each starts with its node and has a speed of its own.

use std::time::Duration;

/// Time of the world, in nanoseconds since the run began.
pub(super) type WorldTime = u64;

const MILLION: i128 = 1_000_000;

/// The clock of one life of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) started: WorldTime,
    /// Speed, in millionths faster than the world.
    pub(super) skew: i64,
}

impl Clock {
    /// Returns what the clock shows.
    pub(super) fn read(self, now: WorldTime) -> Duration {
        let elapsed = i128::from(now.saturating_sub(self.started));
        Duration::from_nanos((elapsed * (MILLION + i128::from(self.skew)) / MILLION) as u64)
    }

    /// Returns the first time of the world at which the clock shows at least `local`.
    pub(super) fn when(self, local: Duration) -> WorldTime {
        let speed = MILLION + i128::from(self.skew);
        let elapsed = (local.as_nanos().cast_signed() * MILLION + speed - 1) / speed;
        self.started + elapsed as u64
    }
}
