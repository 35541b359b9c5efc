//! What can be set about a store, and what an acknowledgement of it means.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::clock::Clock;
use super::error::OpenError;

/// The values of [`StoreConfig::default`] and the limits that cannot be set, for help texts and documents.
pub mod defaults {
    use std::time::Duration;

    /// How long an eventually durable write may stay undurable.
    pub const EVENTUAL_WITHIN: Duration = Duration::from_millis(100);
    /// Operations that one commit carries at most.
    pub const GROUP_OPERATIONS: usize = 1024;
    /// Operations that wait for the writer at most.
    pub const QUEUE_OPERATIONS: usize = 8192;
    /// Bytes of operations that wait for the writer at most.
    pub const QUEUE_BYTES: usize = 64 * 1024 * 1024;
    /// Bytes of the file that are kept in memory.
    pub const CACHE_BYTES: usize = 256 * 1024 * 1024;
    /// Bytes that a value has at most.
    pub const VALUE_BYTES_MAX: usize = 16 * 1024 * 1024;
    /// How often keys whose time is over are removed.
    pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
    /// Bytes that a key has at most.
    pub const KEY_BYTES_MAX: usize = 4096;
    /// Bytes that the name of a bucket has at most.
    pub const BUCKET_NAME_BYTES_MAX: usize = 128;
    /// Buckets that a store has at most.
    pub const BUCKETS_MAX: usize = 1024;
    /// Writes that one transaction makes at most.
    pub const TRANSACTION_OPERATIONS_MAX: usize = 10_000;
    /// Bytes that one transaction writes at most.
    pub const TRANSACTION_BYTES_MAX: usize = 64 * 1024 * 1024;
    /// Rows of a page at most.
    pub const SCAN_ROWS_MAX: usize = 10_000;
    /// Bytes of a page at most, unless its first row is larger.
    pub const SCAN_BYTES_MAX: usize = 16 * 1024 * 1024;
}

/// What holds once a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Every reader sees it. It outlives the node only if something durable follows or the store is closed.
    None,
    /// Every reader sees it, and it is durable within [`StoreConfig::eventual_within`]. After a crash the last writes may
    /// be missing: an end of what was acknowledged, never something from its middle.
    Eventual,
    /// It survives the death of the node and a power cut.
    #[default]
    Immediate,
}

impl Durability {
    /// The word for it in files, flags and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Eventual => "eventual",
            Self::Immediate => "immediate",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::None, Self::Eventual, Self::Immediate]
            .into_iter()
            .find(|durability| durability.word() == word)
            .ok_or_else(|| format!("`{word}` is no durability; expected none, eventual or immediate"))
    }
}

/// What can be set about a store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// What an acknowledgement means unless an operation says otherwise. Default: immediate.
    pub durability: Durability,
    /// How long an eventually durable write may stay undurable, 1 ms – 1 h. Default 100 ms. A longer time syncs less often
    /// and loses more in a crash.
    pub eventual_within: Duration,
    /// Operations that one commit carries at most, 1–65,536. Default 1,024; 1 turns group commit off.
    pub group_operations: usize,
    /// Operations that wait for the writer at most, 1–1,048,576. Default 8,192. Who comes then waits for room.
    pub queue_operations: usize,
    /// Bytes of operations that wait for the writer at most. Default 64 MiB; a larger one may come alone.
    pub queue_bytes: usize,
    /// Bytes of the file that are kept in memory. Default 256 MiB. More spares reads of the disk.
    pub cache_bytes: usize,
    /// Bytes that a value has at most, up to 1 GiB. Default 16 MiB. Larger ones hold up those that share their commit.
    pub value_bytes_max: usize,
    /// How often keys whose time is over are removed, 1 ms – 1 h. Default 1 s. They are invisible at once; this frees their room.
    pub sweep_every: Duration,
    /// Verifies the whole file when it is opened, and each block that is read again. Default: true. Opening takes about as long
    /// as reading the file, and an update 5 % more CPU time. Without it damage may be returned as data.
    pub verify: bool,
    /// What decides that a key's time is over. Default: the wall clock, which survives a restart.
    pub clock: Clock,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            eventual_within: defaults::EVENTUAL_WITHIN,
            group_operations: defaults::GROUP_OPERATIONS,
            queue_operations: defaults::QUEUE_OPERATIONS,
            queue_bytes: defaults::QUEUE_BYTES,
            cache_bytes: defaults::CACHE_BYTES,
            value_bytes_max: defaults::VALUE_BYTES_MAX,
            sweep_every: defaults::SWEEP_EVERY,
            verify: true,
            clock: Clock::wall(),
        }
    }
}

impl StoreConfig {
    pub(super) fn check(&self) -> Result<(), OpenError> {
        const HOUR_MS: u64 = 3_600_000;
        let ranges = [
            ("eventual_within in ms", self.eventual_within.as_millis() as u64, HOUR_MS),
            ("group_operations", self.group_operations as u64, 65_536),
            ("queue_operations", self.queue_operations as u64, 1 << 20),
            ("queue_bytes", self.queue_bytes as u64, 1 << 40),
            ("cache_bytes", self.cache_bytes as u64, 1 << 40),
            ("value_bytes_max", self.value_bytes_max as u64, 1 << 30),
            ("sweep_every in ms", self.sweep_every.as_millis() as u64, HOUR_MS),
        ];
        match ranges.into_iter().find(|(_, value, max)| !(1..=*max).contains(value)) {
            Some((name, value, max)) => Err(OpenError::OutOfRange { name, value, min: 1, max }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_is_read_by_its_word() {
        assert_eq!("eventual".parse(), Ok(Durability::Eventual));
        assert_eq!(
            "fsync".parse::<Durability>().unwrap_err(),
            "`fsync` is no durability; expected none, eventual or immediate"
        );
    }

    #[test]
    fn a_setting_out_of_its_range_is_named_with_its_number() {
        let config = StoreConfig { group_operations: 0, ..StoreConfig::default() };

        assert_eq!(config.check().unwrap_err().to_string(), "group_operations of 0 is not between 1 and 65536");
    }
}
