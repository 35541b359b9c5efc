//! One commit under construction: the reads and writes of its operations.
//!
//! Invariant: an operation sees everything that came before it in the same commit, and nothing outside of the commit
//! sees any of it before the commit has ended.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use crate::buckets::{BucketState, Buckets};
use crate::error::StoreError;
use crate::file::tables::{self, EXPIRY, Rows};

/// One commit under construction.
pub(crate) struct Group<'t> {
    txn: &'t WriteTransaction,
    now_ms: u64,
    opened: Vec<OpenBucket<'t>>,
    expiry: Option<Table<'t, &'static [u8], ()>>,
    row: Vec<u8>,
    failure: Option<StoreError>,
    must_sync: bool,
    writes_expiring: bool,
}

struct OpenBucket<'t> {
    bucket: Arc<BucketState>,
    rows: Rows<'t>,
    bytes_added: u64,
    bytes_removed: u64,
    writes: u64,
}

/// Size of a bucket after the commit.
pub(crate) struct BucketSize {
    bucket: Arc<BucketState>,
    keys: u64,
    bytes: u64,
    writes: u64,
}

impl BucketSize {
    pub(crate) fn publish(&self) {
        self.bucket.keys.store(self.keys, Relaxed);
        self.bucket.bytes.store(self.bytes, Relaxed);
        self.bucket.writes.fetch_add(self.writes, Relaxed);
    }
}

impl<'t> Group<'t> {
    pub(crate) fn new(txn: &'t WriteTransaction, now_ms: u64) -> Self {
        let opened = Vec::new();
        Self {
            txn,
            now_ms,
            opened,
            expiry: None,
            row: Vec::new(),
            failure: None,
            must_sync: false,
            writes_expiring: false,
        }
    }

    /// Makes the commit durable together with all earlier ones, even if nothing is written.
    pub(crate) const fn sync(&mut self) {
        self.must_sync = true;
    }

    pub(crate) const fn must_sync(&self) -> bool {
        self.must_sync
    }

    /// Returns true if something was written that will expire.
    pub(crate) const fn writes_expiring(&self) -> bool {
        self.writes_expiring
    }

    /// Number of bytes by which the keys and values of all buckets have grown in this group.
    pub(crate) fn growth(&self) -> u64 {
        let added: u64 = self.opened.iter().map(|opened| opened.bytes_added).sum();
        let removed: u64 = self.opened.iter().map(|opened| opened.bytes_removed).sum();
        added.saturating_sub(removed)
    }

    pub(crate) const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns the error of the disk, if any; after it the commit cannot succeed.
    pub(crate) const fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    /// Remembers an error of the disk, even if the operation ignores it.
    fn note<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result {
            self.failure.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// Returns the value of a key.
    pub(crate) fn get(&mut self, bucket: &Arc<BucketState>, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let value = self.try_get(bucket, key);
        self.note(value)
    }

    fn try_get(&mut self, bucket: &Arc<BucketState>, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let now_ms = self.now_ms;
        let Some(row) = self.open(bucket)?.rows.get(key)? else { return Ok(None) };
        let (expiry_ms, value) = tables::read_row(row.value());
        Ok((!tables::is_expired(expiry_ms, now_ms)).then(|| Bytes::copy_from_slice(value)))
    }

    /// Returns true if a key has this value; `None` means that it does not exist.
    pub(crate) fn has(
        &mut self,
        bucket: &Arc<BucketState>,
        key: &[u8],
        expected: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        Ok(self.get(bucket, key)?.as_deref() == expected)
    }

    /// Sets the value of a key, which expires at `expiry_ms`, or never if that is 0.
    pub(crate) fn put(
        &mut self,
        bucket: &Arc<BucketState>,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<(), StoreError> {
        let put = self.try_put(bucket, key, value, expiry_ms);
        self.note(put)
    }

    fn try_put(
        &mut self,
        bucket: &Arc<BucketState>,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<(), StoreError> {
        let mut row = std::mem::take(&mut self.row);
        tables::write_row(&mut row, expiry_ms, value);
        let opened = self.open(bucket)?;
        let before = opened.rows.insert(key, row.as_slice())?.map(|old| expiry_and_size(old.value()));
        let (old_expiry_ms, old_bytes) = before.unwrap_or((0, 0));
        let key_bytes = if before.is_none() { key.len() as u64 } else { 0 };
        opened.bytes_added += key_bytes + value.len() as u64;
        opened.bytes_removed += old_bytes;
        opened.writes += 1;
        self.row = row;
        self.move_expiry(bucket, key, old_expiry_ms, expiry_ms)
    }

    /// Deletes a key; returns true if it existed.
    pub(crate) fn delete(&mut self, bucket: &Arc<BucketState>, key: &[u8]) -> Result<bool, StoreError> {
        let deleted = self.try_delete(bucket, key);
        self.note(deleted)
    }

    fn try_delete(&mut self, bucket: &Arc<BucketState>, key: &[u8]) -> Result<bool, StoreError> {
        let now_ms = self.now_ms;
        let opened = self.open(bucket)?;
        let Some((expiry_ms, bytes)) = opened.rows.remove(key)?.map(|old| expiry_and_size(old.value())) else {
            return Ok(false);
        };
        opened.bytes_removed += key.len() as u64 + bytes;
        opened.writes += 1;
        self.move_expiry(bucket, key, expiry_ms, 0)?;
        Ok(!tables::is_expired(expiry_ms, now_ms))
    }

    /// Removes up to `most` expired keys; returns their number, and whether keys remain that will expire.
    pub(crate) fn sweep(&mut self, buckets: &Buckets, most: usize) -> Result<(u64, bool), StoreError> {
        let swept = self.try_sweep(buckets, most);
        self.note(swept)
    }

    fn try_sweep(&mut self, buckets: &Buckets, most: usize) -> Result<(u64, bool), StoreError> {
        let end = tables::expiry_end(self.now_ms);
        let expiry = self.expiry()?;
        let over = expiry
            .range::<&[u8]>(..end.as_slice())?
            .take(most)
            .map(|place| place.map(|(place, _)| place.value().to_vec()))
            .collect::<Result<Vec<_>, _>>();
        let over = over?;
        let mut count = 0;
        for place in &over {
            let Some((_, bucket, key)) = tables::read_expiry_key(place) else {
                return Err(StoreError::Corrupt("an entry of the expiry table has no valid key".into()));
            };
            let bucket = buckets.named(bucket)?;
            self.try_delete(&bucket, key)?;
            count += 1;
        }
        let left = !self.expiry()?.is_empty()?;
        Ok((count, left))
    }

    /// Records the sizes of the buckets, and deletes empty ones; then the transaction can be committed.
    pub(crate) fn close(mut self) -> Result<Vec<BucketSize>, StoreError> {
        self.expiry = None;
        let mut sizes = None;
        let mut bucket_sizes = Vec::new();
        for OpenBucket { bucket, rows, bytes_added, bytes_removed, writes } in std::mem::take(&mut self.opened) {
            let keys = rows.len()?;
            drop(rows);
            if keys == 0 {
                // Also delete a bucket that was only read: opening its table has created it.
                self.txn.delete_table(tables::rows(&bucket.table))?;
            }
            if writes == 0 {
                continue;
            }
            let bytes = (bucket.bytes.load(Relaxed) + bytes_added).saturating_sub(bytes_removed);
            let sizes = match &mut sizes {
                Some(sizes) => sizes,
                none => none.insert(self.txn.open_table(tables::BUCKETS)?),
            };
            if keys == 0 {
                sizes.remove(&*bucket.name)?;
            } else {
                sizes.insert(&*bucket.name, bytes)?;
            }
            bucket_sizes.push(BucketSize { bucket, keys, bytes, writes });
        }
        Ok(bucket_sizes)
    }

    fn move_expiry(&mut self, bucket: &BucketState, key: &[u8], old_ms: u64, new_ms: u64) -> Result<(), StoreError> {
        if old_ms == new_ms {
            return Ok(());
        }
        let expiry = self.expiry()?;
        if old_ms != 0 {
            expiry.remove(tables::expiry_key(old_ms, &bucket.name, key).as_slice())?;
        }
        if new_ms != 0 {
            expiry.insert(tables::expiry_key(new_ms, &bucket.name, key).as_slice(), ())?;
            self.writes_expiring = true;
        }
        Ok(())
    }

    fn open(&mut self, bucket: &Arc<BucketState>) -> Result<&mut OpenBucket<'t>, StoreError> {
        let known = self.opened.iter().rposition(|opened| Arc::ptr_eq(&opened.bucket, bucket));
        let place = known.unwrap_or(self.opened.len());
        if known.is_none() {
            let rows = self.txn.open_table(tables::rows(&bucket.table))?;
            let bucket = Arc::clone(bucket);
            self.opened.push(OpenBucket { bucket, rows, bytes_added: 0, bytes_removed: 0, writes: 0 });
        }
        Ok(&mut self.opened[place])
    }

    fn expiry(&mut self) -> Result<&mut Table<'t, &'static [u8], ()>, StoreError> {
        Ok(match &mut self.expiry {
            Some(expiry) => expiry,
            none => none.insert(self.txn.open_table(EXPIRY)?),
        })
    }
}

/// Returns the time at which a row expires, and the number of bytes of its value.
fn expiry_and_size(row: &[u8]) -> (u64, u64) {
    let (expiry_ms, value) = tables::read_row(row);
    (expiry_ms, value.len() as u64)
}
