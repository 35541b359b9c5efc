//! Default values, used by the code, the help texts and the documentation.

use std::time::Duration;

use crate::run::profile::Profile;

/// Resource profile.
pub const PROFILE: Profile = Profile::Balanced;
/// Number of runs of a recipe: the smallest number whose minimum and maximum enclose the median at 95 % confidence.
pub const RUNS: u32 = 6;
/// Length of a headless measurement after the warm-up.
pub const DURATION: Duration = Duration::from_secs(5);
/// Minimum length of a warm-up.
pub const WARM_UP_MIN: Duration = Duration::from_secs(1);
/// Maximum length of a warm-up. After it the run is measured anyway, and the report says that it was not steady.
pub const WARM_UP_MAX: Duration = Duration::from_secs(5);
/// Seed of all random choices.
pub const SEED: u64 = 1;
/// Maximum number of live processes of a storm, per core.
pub const LIVE_CAP_PER_CORE: u64 = 1_000;
/// Number of processes that a spawner of a storm starts before it yields. A run queue holds 64 before it grows, and
/// shrinks again when it is empty: with a burst of 64 that costs 5 ns for each process.
pub const SPAWN_BURST: u64 = 60;
/// Number of guest instances that a spawner of a storm starts before it yields.
pub const WASM_BURST: u64 = 16;
/// Number of bytes hashed per digest.
pub const DIGEST_BYTES: u64 = 32;
/// Number of bystander processes next to guests that never yield.
pub const BYSTANDERS: u64 = 64;
/// Number of processes parked in `receive` in scenarios that measure many parked processes.
pub const PARKED: u64 = 1_000_000;
/// Time between two readings of the meter.
pub const INTERVAL: Duration = Duration::from_millis(100);
