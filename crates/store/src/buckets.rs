//! The buckets of a store by name, with figures that observers read without access to the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableError};

use super::config::defaults::{BUCKETS_MAX, KEY_BYTES_MAX};
use super::error::StoreError;
use super::file::salvage::Salvage;
use super::file::tables;
use rusm_runtime::NAME_MAX_BYTES;
use rusm_runtime::observe::BucketReport;

/// Maximum length of a bucket's name in the file, in bytes: a name that a caller gave, with the prefix and the suffix that
/// topics and jobs add to it.
const STORED_NAME_BYTES_MAX: usize = NAME_MAX_BYTES + 32;

/// State of a bucket that is known without reading the file. Relaxed throughout: figures are approximate.
#[derive(Debug)]
pub(super) struct BucketState {
    pub(super) name: Arc<str>,
    pub(super) table: String,
    pub(super) keys: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) writes: AtomicU64,
}

impl BucketState {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            table: tables::table_name(name),
            keys: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
        }
    }

    fn report(&self) -> BucketReport {
        BucketReport {
            name: Arc::clone(&self.name),
            keys: self.keys.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            reads_total: self.reads.load(Relaxed),
            writes_total: self.writes.load(Relaxed),
        }
    }
}

/// The known buckets by name.
#[derive(Debug, Default)]
pub(super) struct Buckets(RwLock<BTreeMap<Arc<str>, Arc<BucketState>>>);

impl Buckets {
    /// Returns the bucket with a name, which the caller has checked; it need not exist in the file yet.
    pub(super) fn named(&self, name: &str) -> Result<Arc<BucketState>, StoreError> {
        self.named_below(name, BUCKETS_MAX).ok_or(StoreError::TooManyBuckets { max: BUCKETS_MAX })
    }

    /// Returns the bucket with a name, or creates it if there are fewer than `max`.
    pub(super) fn named_below(&self, name: &str, max: usize) -> Option<Arc<BucketState>> {
        if let Some(known) = self.known(name) {
            return Some(known);
        }
        let mut buckets = self.0.write();
        if buckets.len() >= max {
            // Drop buckets without a handle and without keys: they were only looked up.
            buckets.retain(|_, state| Arc::strong_count(state) > 1 || state.keys.load(Relaxed) > 0);
        }
        if buckets.len() >= max && !buckets.contains_key(name) {
            return None;
        }
        let state = buckets.entry(name.into()).or_insert_with(|| Arc::new(BucketState::new(name)));
        Some(Arc::clone(state))
    }

    /// Returns the bucket with a name, if it has been used.
    pub(super) fn known(&self, name: &str) -> Option<Arc<BucketState>> {
        self.0.read().get(name).map(Arc::clone)
    }

    pub(super) fn report(&self) -> Vec<BucketReport> {
        self.0.read().values().map(|state| state.report()).collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.read().values().map(|state| state.bytes.load(Relaxed)).sum()
    }

    pub(super) fn reads(&self) -> u64 {
        self.0.read().values().map(|state| state.reads.load(Relaxed)).sum()
    }

    /// Returns the states of all buckets, including those with these names.
    fn with_names<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<Arc<BucketState>> {
        let mut buckets = self.0.write();
        for name in names {
            if !buckets.contains_key(name) {
                buckets.insert(name.into(), Arc::new(BucketState::new(name)));
            }
        }
        // Clone, so that the disk is read without holding the lock.
        buckets.values().cloned().collect()
    }

    /// Measures the readable rest of a damaged file: its buckets, and the number of keys of each.
    pub(super) fn measure_salvage(&self, salvage: &Salvage) {
        let rows: BTreeMap<&str, u64> =
            salvage.tables().filter_map(|(name, table)| Some((tables::bucket_of(name)?, table.rows))).collect();
        let names = rows.keys().copied().filter(|name| (1..=STORED_NAME_BYTES_MAX).contains(&name.len()));
        for state in self.with_names(names) {
            state.keys.store(rows.get(&*state.name).copied().unwrap_or(0), Relaxed);
        }
    }

    /// Reads the sizes of the buckets from the file, at the start and after operations were undone.
    pub(super) fn measure(&self, txn: &ReadTransaction) -> Result<(), StoreError> {
        let sizes = match txn.open_table(tables::BUCKETS) {
            Ok(table) => {
                let row = |row: Result<(redb::AccessGuard<'_, &str>, redb::AccessGuard<'_, u64>), _>| {
                    row.map(|(name, bytes)| (name.value().to_owned(), bytes.value()))
                };
                table.iter()?.map(row).collect::<Result<BTreeMap<_, _>, _>>()?
            }
            Err(TableError::TableDoesNotExist(_)) => BTreeMap::new(),
            Err(error) => return Err(error.into()),
        };
        for state in self.with_names(sizes.keys().map(String::as_str)) {
            let keys = match txn.open_table(tables::rows(&state.table)) {
                Ok(rows) => rows.len()?,
                Err(TableError::TableDoesNotExist(_)) => 0,
                Err(error) => return Err(error.into()),
            };
            state.keys.store(keys, Relaxed);
            state.bytes.store(sizes.get(&*state.name).copied().unwrap_or(0), Relaxed);
        }
        Ok(())
    }
}

/// Returns an error unless a key has a valid length.
pub(crate) fn check_key(key: &[u8]) -> Result<(), StoreError> {
    let (bytes, max) = (key.len(), KEY_BYTES_MAX);
    if (1..=max).contains(&bytes) { Ok(()) } else { Err(StoreError::Key { bytes, max }) }
}

/// Returns an error if a value is longer than `max`.
pub(crate) fn check_value(bytes: usize, max: usize) -> Result<(), StoreError> {
    if bytes <= max { Ok(()) } else { Err(StoreError::ValueTooLarge { bytes, max }) }
}
