//! Configuration of a store, including the durability of an acknowledgement.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::clock::Clock;
use super::error::OpenError;

/// Values of [`StoreConfig::default`], and limits that cannot be configured, for help texts and documents.
pub mod defaults {
    use std::time::Duration;

    /// Maximum time until an eventually durable write is durable.
    pub const EVENTUAL_WITHIN: Duration = Duration::from_millis(100);
    /// Maximum number of operations in one commit.
    pub const GROUP_OPERATIONS: usize = 1024;
    /// Maximum number of operations that wait for the writer.
    pub const QUEUE_OPERATIONS: usize = 8192;
    /// Maximum size of the operations that wait for the writer, in bytes.
    pub const QUEUE_BYTES: usize = 64 * 1024 * 1024;
    /// Bytes of the file that are kept in memory.
    pub const CACHE_BYTES: usize = 256 * 1024 * 1024;
    /// Maximum size of a value, in bytes.
    pub const VALUE_BYTES_MAX: usize = 16 * 1024 * 1024;
    /// Interval at which expired keys are removed.
    pub const SWEEP_EVERY: Duration = Duration::from_secs(1);
    /// Maximum size of a key, in bytes.
    pub const KEY_BYTES_MAX: usize = 4096;
    /// Maximum number of buckets in a store.
    pub const BUCKETS_MAX: usize = 1024;
    /// Number of buckets from which on no further one is created for a caller that may use all names with a prefix.
    pub const BUCKETS_BY_PREFIX_MAX: usize = 768;
    /// Maximum number of writes in one transaction.
    pub const TRANSACTION_OPERATIONS_MAX: usize = 10_000;
    /// Maximum number of bytes that one transaction writes.
    pub const TRANSACTION_BYTES_MAX: usize = 64 * 1024 * 1024;
    /// Maximum number of rows in a page.
    pub const SCAN_ROWS_MAX: usize = 10_000;
    /// Maximum size of a page, in bytes, unless its first row is larger.
    pub const SCAN_BYTES_MAX: usize = 16 * 1024 * 1024;
}

/// Guarantee that holds once a write is acknowledged.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::{Durability, StoreConfig};
///
/// // Acknowledges before the disk has the write, which follows within 100 ms.
/// let config = StoreConfig { durability: Durability::Eventual, ..StoreConfig::default() };
/// assert_eq!("eventual".parse(), Ok(config.durability));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// The write is visible to every reader. It outlives the node only if something durable follows or the store is
    /// closed.
    None,
    /// The write is visible to every reader, and durable within [`StoreConfig::eventual_within`]. After a crash the
    /// most recent acknowledged writes may be missing, but never one that is older than a surviving write. A disk that
    /// fails undoes them too; the store counts and logs that, and goes on.
    Eventual,
    /// The write survives the death of the node and a power cut.
    #[default]
    Immediate,
}

impl Durability {
    /// All values, from the weakest to the strongest.
    pub const ALL: [Self; 3] = [Self::None, Self::Eventual, Self::Immediate];

    /// Returns the word for it in files, flags and reports.
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
            .ok_or_else(|| format!("`{word}` is not a durability; expected none, eventual or immediate"))
    }
}

/// Configuration of a store.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use std::time::Duration;
///
/// use rusm::store::{Store, StoreConfig};
///
/// let config = StoreConfig { value_bytes_max: 64 * 1024, sweep_every: Duration::from_secs(10), ..StoreConfig::default() };
/// let store = Store::open(&path, config)?;
/// assert!(store.bucket("small")?.put("key", vec![0; 100_000]).wait().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Guarantee of an acknowledgement, unless an operation sets its own. Default: immediate.
    pub durability: Durability,
    /// Maximum time until an eventually durable write is durable, 1 ms – 1 h. Default 100 ms. A longer time syncs less
    /// often and loses more in a crash.
    pub eventual_within: Duration,
    /// Maximum number of operations in one commit, 1–65,536. Default 1,024; 1 disables group commit.
    pub group_operations: usize,
    /// Maximum number of operations that wait for the writer, 1–1,048,576. Default 8,192. Further callers wait for
    /// room.
    pub queue_operations: usize,
    /// Maximum size of the operations that wait for the writer, in bytes. Default 64 MiB; a larger one is accepted
    /// alone.
    pub queue_bytes: usize,
    /// Bytes of the file that are kept in memory. Default 256 MiB. A larger cache saves disk reads.
    pub cache_bytes: usize,
    /// Maximum size of a value, in bytes, up to 1 GiB. Default 16 MiB. A large value delays the others in its commit.
    pub value_bytes_max: usize,
    /// Interval at which expired keys are removed, 1 ms – 1 h. Default 1 s. They become invisible at once; removal
    /// frees their space.
    pub sweep_every: Duration,
    /// Verifies the whole file when it is opened, and each block that is read again. Default: true. Opening takes about
    /// as long as reading the file, and an update takes 5 % more CPU time. Without it, damage may be returned as data.
    pub verify: bool,
    /// Clock that decides when a key has expired. Default: the wall clock, which survives a restart.
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
            "`fsync` is not a durability; expected none, eventual or immediate"
        );
    }

    #[test]
    fn a_setting_out_of_its_range_is_named_with_its_number() {
        let config = StoreConfig { group_operations: 0, ..StoreConfig::default() };

        assert_eq!(config.check().unwrap_err().to_string(), "group_operations of 0 is not between 1 and 65536");
    }
}
