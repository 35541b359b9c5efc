//! Several reads and writes that happen together or not at all.
//!
//! A transaction's writes are kept apart from the commit until its code has succeeded. So a transaction that fails does
//! not affect the other operations in the same commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::buckets::{BucketState, check_key};
use super::clock::expiry_ms;
use super::config::defaults::{TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX};
use super::error::StoreError;
use super::store::{Bucket, StoreId};
use super::writer::group::Group;
use super::writer::work::catch_panic;

/// New value and expiry of a key; `None` if it is deleted.
type Change = Option<(Bytes, u64)>;
type Changes = (Arc<BucketState>, BTreeMap<Box<[u8]>, Change>);

/// The reads and writes of one transaction; see [`Store::transaction`](super::Store::transaction).
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use rusm::store::{Store, StoreConfig, StoreError};
///
/// let store = Store::open(&path, StoreConfig::default())?;
/// let stock = store.bucket("stock")?;
/// stock.put("tea", "1").wait()?;
/// let sold = stock.clone();
/// // Another buyer sees the tea or the note, never both and never neither.
/// store.transaction(move |tx| {
///     if tx.get(&sold, "tea")?.is_some() {
///         tx.delete(&sold, "tea")?;
///         tx.put(&sold, "note", "sold to Ada")?;
///     }
///     Ok::<(), StoreError>(())
/// }).wait()?;
/// assert!(stock.get("tea").wait()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transaction<'a, 't> {
    group: &'a mut Group<'t>,
    store: StoreId,
    changes: Vec<Changes>,
    operations: usize,
    bytes: usize,
}

impl std::fmt::Debug for Transaction<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("operations", &self.operations).finish_non_exhaustive()
    }
}

impl<'a, 't> Transaction<'a, 't> {
    /// Runs the code, and passes its writes to the commit if it succeeds.
    pub(super) fn run<T, E: From<StoreError>>(
        store: StoreId,
        group: &'a mut Group<'t>,
        code: impl FnOnce(&mut Transaction<'_, 't>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = Transaction { group, store, changes: Vec::new(), operations: 0, bytes: 0 };
        let outcome = catch_panic(|| code(&mut transaction))??;
        let Transaction { group, changes, .. } = transaction;
        for (bucket, changes) in changes {
            for (key, change) in changes {
                match change {
                    Some((value, expiry_ms)) => group.put(&bucket, &key, &value, expiry_ms)?,
                    None => drop(group.delete(&bucket, &key)?),
                }
            }
        }
        Ok(outcome)
    }

    /// Returns the value of a key, including this transaction's own changes.
    ///
    /// # Errors
    /// [`StoreError`] if the key is not valid, or the disk fails.
    pub fn get(&mut self, bucket: &Bucket, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, StoreError> {
        let key = key.as_ref();
        self.check_bucket(bucket)?;
        check_key(key)?;
        let changed = self.changes.iter().find(|(state, _)| Arc::ptr_eq(state, &bucket.state));
        match changed.and_then(|(_, changes)| changes.get(key)) {
            Some(change) => Ok(change.as_ref().map(|(value, _)| value.clone())),
            None => self.group.get(&bucket.state, key),
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`StoreError`] if the key, the value or the transaction is too large.
    pub fn put(&mut self, bucket: &Bucket, key: impl AsRef<[u8]>, value: impl Into<Bytes>) -> Result<(), StoreError> {
        self.set(bucket, key.as_ref(), Some((value.into(), 0)))
    }

    /// Sets the value of a key, which expires after `time`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_for(
        &mut self,
        bucket: &Bucket,
        key: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
        time: Duration,
    ) -> Result<(), StoreError> {
        let expiry_ms = expiry_ms(self.group.now_ms(), time);
        self.set(bucket, key.as_ref(), Some((value.into(), expiry_ms)))
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn delete(&mut self, bucket: &Bucket, key: impl AsRef<[u8]>) -> Result<(), StoreError> {
        self.set(bucket, key.as_ref(), None)
    }

    fn check_bucket(&self, bucket: &Bucket) -> Result<(), StoreError> {
        if bucket.store.id() == self.store {
            return Ok(());
        }
        Err(StoreError::OtherStore { bucket: bucket.name().to_owned() })
    }

    fn set(&mut self, bucket: &Bucket, key: &[u8], change: Change) -> Result<(), StoreError> {
        let value_bytes = change.as_ref().map_or(0, |(value, _)| value.len());
        self.check_bucket(bucket)?;
        check_key(key)?;
        bucket.check_value(value_bytes)?;
        self.operations += 1;
        self.bytes += key.len() + value_bytes;
        let limits =
            [(self.operations, "operations", TRANSACTION_OPERATIONS_MAX), (self.bytes, "bytes", TRANSACTION_BYTES_MAX)];
        if let Some((size, unit, max)) = limits.into_iter().find(|(size, _, max)| size > max) {
            return Err(StoreError::TransactionTooLarge { size, unit, max });
        }
        let place = self.changes.iter().position(|(state, _)| Arc::ptr_eq(state, &bucket.state));
        let place = place.unwrap_or_else(|| {
            self.changes.push((Arc::clone(&bucket.state), BTreeMap::new()));
            self.changes.len() - 1
        });
        self.changes[place].1.insert(key.into(), change);
        Ok(())
    }
}
