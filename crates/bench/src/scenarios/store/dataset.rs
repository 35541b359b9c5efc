//! Shared parts of the store scenarios: a temporary directory, and the update that all of them perform.
//!
//! Each value starts with its number of updates, so that the stored value can be compared with the acknowledged
//! updates.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rusm_runtime::Handle;
use rusm_store::{Durability, Store, StoreConfig};

use crate::measure::rng::{GOLDEN, Lcg};
use crate::parameter::{Kind, Parameter, Params};
use crate::report::machine;
use crate::run::error::RunError;

/// Size of the counter at the start of a value, in bytes.
const COUNT: usize = 8;

/// Parameters shared by the store scenarios.
pub(crate) const WRITERS: Parameter = Parameter {
    name: "writers",
    description: "Processes that update keys; each waits for its acknowledgement.",
    kind: Kind::Count { min: 1, max: 100_000, default: 64 },
};
pub(crate) const KEYS: Parameter = Parameter {
    name: "keys",
    description: "Number of keys; each update takes a random one.",
    kind: Kind::Count { min: 1, max: 1_000_000, default: 10_000 },
};
pub(crate) const VALUE: Parameter = Parameter {
    name: "value",
    description: "Bytes of a value.",
    kind: Kind::Bytes { min: COUNT as u64, max: 1 << 20, default: 100 },
};
pub(crate) const DURABILITY: Parameter = Parameter {
    name: "durability",
    description: "Meaning of an acknowledgement: synced, synced within 100 ms, or neither.",
    kind: Kind::Choice { words: &["immediate", "eventual", "none"] },
};

/// Returns the durability set by the parameters.
pub(crate) fn durability(params: &Params) -> Durability {
    params.word("durability").parse().unwrap_or_default()
}

/// A temporary directory, removed with its contents on drop.
#[derive(Debug)]
pub(crate) struct StoreDirectory {
    directory: PathBuf,
}

impl StoreDirectory {
    /// Creates a new directory in the directory for temporary files.
    pub(crate) fn new() -> Result<Self, RunError> {
        // The process id is not enough: two runs in one process, as in tests, need separate directories.
        let seed = std::process::id();
        for number in 0..1_000 {
            let directory = std::env::temp_dir().join(format!("rusm-kv-{seed}-{number}"));
            match std::fs::create_dir(&directory) {
                Ok(()) => return Ok(Self { directory }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let place = directory.display();
                    return Err(RunError::Lacks(format!(
                        "cannot create {place}: {error}; set TMPDIR to another directory"
                    )));
                }
            }
        }
        Err(RunError::Lacks("TMPDIR has the files of a thousand earlier runs: remove rusm-kv-* there".to_owned()))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Describes the durability, the type of the file system and its path.
    pub(crate) fn note(&self, durability: Durability) -> String {
        let there = self.directory.parent().unwrap_or(&self.directory);
        format!("{durability} durability, on {} ({})", self.file_system(), there.display())
    }

    pub(crate) fn file_system(&self) -> String {
        machine::file_system(&self.directory).unwrap_or_else(|| "unknown".to_owned())
    }

    /// Opens a store in this directory.
    pub(crate) fn store(&self, config: StoreConfig) -> Result<Store, RunError> {
        Store::open(self.path("store.redb"), config).map_err(|error| RunError::Lacks(error.to_string()))
    }
}

/// Guard that shows a store to observers of the node until it is dropped.
pub(crate) struct ObservedStore {
    store: Store,
    runtime: Handle,
}

impl ObservedStore {
    pub(crate) fn on(runtime: &Handle, store: &Store) -> Self {
        store.show(runtime);
        Self { store: store.clone(), runtime: runtime.clone() }
    }
}

impl Drop for ObservedStore {
    fn drop(&mut self) {
        self.store.hide(&self.runtime);
    }
}

impl Drop for StoreDirectory {
    fn drop(&mut self) {
        // If it cannot be removed, it remains in the directory for temporary files.
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

/// Returns the value after one more update.
pub(crate) fn updated(old: Option<&[u8]>, bytes: usize) -> Vec<u8> {
    let count = old.map_or(0, count) + 1;
    let mut value = vec![count as u8; bytes];
    value[..COUNT].copy_from_slice(&count.to_le_bytes());
    value
}

/// Returns the number of updates of a value.
pub(crate) fn count(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |count| u64::from_le_bytes(*count))
}

/// Number of acknowledged updates of each key.
#[derive(Debug)]
pub(crate) struct Acknowledged(Vec<AtomicU64>);

/// Result of comparing a store with the acknowledged updates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UpdateAccount {
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
}

impl Acknowledged {
    pub(crate) fn new(keys: u64) -> Self {
        Self((0..keys).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn note(&self, key: u64) {
        // Relaxed: read only after all writers have ended.
        self.0[key as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Compares the acknowledged updates with the contents of a store.
    pub(crate) fn check(&self, store: &Store) -> Result<UpdateAccount, String> {
        let bucket = store.bucket("rows").map_err(|error| error.to_string())?;
        let mut account = UpdateAccount::default();
        for (key, acknowledged) in (0_u64..).zip(&self.0) {
            let acknowledged = acknowledged.load(Ordering::Relaxed);
            let value: Option<Bytes> = bucket.get(key.to_be_bytes()).wait().map_err(|error| error.to_string())?;
            account.acknowledged += acknowledged;
            account.lost += acknowledged.saturating_sub(value.as_deref().map_or(0, count));
        }
        Ok(account)
    }
}

/// Pseudo-random sequence of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    random: Lcg,
    keys: u64,
}

impl Keys {
    pub(crate) const fn new(seed: u64, keys: u64) -> Self {
        Self { random: Lcg::new(seed.wrapping_mul(GOLDEN)), keys }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        (self.random.next() >> 33) % self.keys
    }
}
