//! The durable store for guests: implements `rusm:store/kv`, and the same functions for core modules.
//!
//! ```text
//!   guest ── bucket, key ──▶ capability? bucket granted? ──▶ Store, awaited: other processes run meanwhile
//!                                     └ no: error, counted, reported to observers
//! ```
//!
//! Linked only if the engine was given a store. On other nodes, a guest that imports it does not load.

mod raw;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use wasmtime::component::HasSelf;
use wasmtime::{Linker, component};

use super::bindings::store::Storage;
use super::bindings::store::rusm::store::kv::{Change, Error, Expected, Host, Page, Row};
use super::engine::fiber::waiting;
use super::guest::capability::{Capability, Grant};
use super::guest::guest_info::HostCall;
use super::guest::name::check_name;
use super::guest::shared_budget::MemoryFull;
use super::guest::state::GuestState;
use rusm_store::{Bucket, Read, Store, StoreError};

/// Maximum number of rows per page for a guest.
const ROWS_MAX: u32 = 1_000;
/// Maximum number of expectations, and of changes, in one commit; the limit of a store transaction too.
pub(super) const STEPS_MAX: usize = 10_000;
/// Maximum number of reads of all guests at once: their results count in the memory of all guests after the read.
pub(super) const READS_MAX: usize = 8;
const COMMIT_BYTES_MAX: usize = 64 << 20;

/// Adds the store's functions to the linkers of components and core modules.
pub(super) fn link(
    components: &mut component::Linker<GuestState>,
    modules: &mut Linker<GuestState>,
) -> wasmtime::Result<()> {
    Storage::add_to_linker::<_, HasSelf<_>>(components, |state| state)?;
    raw::link(modules)
}

impl Host for GuestState {
    async fn get(&mut self, bucket: String, key: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        let bucket = self.bucket(HostCall::KvGet, &bucket)?;
        Ok(self.read(|| bucket.get(key), |value| value_bytes(value.as_ref())).await?.map(Vec::from))
    }

    async fn put(
        &mut self,
        bucket: String,
        key: Vec<u8>,
        value: Vec<u8>,
        expires_in_ms: Option<u64>,
    ) -> Result<(), Error> {
        let bucket = self.bucket(HostCall::KvPut, &bucket)?;
        let _share = self.share_if_long(value.len())?;
        match expires_in_ms {
            Some(ms) => waiting(bucket.put_for(key, value, Duration::from_millis(ms))).await?,
            None => waiting(bucket.put(key, value)).await?,
        }
        Ok(())
    }

    async fn delete(&mut self, bucket: String, key: Vec<u8>) -> Result<bool, Error> {
        let bucket = self.bucket(HostCall::KvDelete, &bucket)?;
        Ok(waiting(bucket.delete(key)).await?)
    }

    async fn compare_and_set(
        &mut self,
        bucket: String,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
    ) -> Result<bool, Error> {
        let bucket = self.bucket(HostCall::KvCompareAndSet, &bucket)?;
        let of = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        let _share = self.share_if_long(of(&expected) + of(&value))?;
        let set = bucket.compare_and_set(key, expected.map(Bytes::from), value.map(Bytes::from));
        Ok(waiting(set).await?)
    }

    async fn commit(&mut self, expects: Vec<Expected>, changes: Vec<Change>) -> Result<bool, Error> {
        let store = self.store(HostCall::KvCommit)?;
        let bytes = checked_bytes(&expects, &changes)?;
        let _share = self.share_if_long(bytes)?;
        let expects =
            expects.into_iter().map(|expected| Ok((self.granted_bucket(&store, &expected.bucket)?, expected)));
        let expects: Vec<_> = expects.collect::<Result<_, Error>>()?;
        let changes = changes.into_iter().map(|change| Ok((self.granted_bucket(&store, &change.bucket)?, change)));
        let changes: Vec<_> = changes.collect::<Result<_, Error>>()?;
        let committed = store.transaction_of(bytes, move |transaction| {
            for (bucket, expected) in expects {
                if transaction.get(&bucket, expected.key)?.as_deref() != expected.value.as_deref() {
                    return Ok::<_, StoreError>(false);
                }
            }
            for (bucket, Change { key, value, expires_in_ms, .. }) in changes {
                match (value, expires_in_ms) {
                    (None, _) => transaction.delete(&bucket, key)?,
                    (Some(value), None) => transaction.put(&bucket, key, value)?,
                    (Some(value), Some(ms)) => transaction.put_for(&bucket, key, value, Duration::from_millis(ms))?,
                }
            }
            Ok(true)
        });
        Ok(waiting(committed).await?)
    }

    async fn scan(&mut self, bucket: String, prefix: Vec<u8>, after: Vec<u8>, limit: u32) -> Result<Page, Error> {
        let bucket = self.bucket(HostCall::KvScan, &bucket)?;
        if !(1..=ROWS_MAX).contains(&limit) {
            return Err(Error::Limit(format!("a limit of {limit} rows is not between 1 and {ROWS_MAX}")));
        }
        // A page must fit into the guest's memory; a single row is always returned.
        let bytes_max = usize::try_from(self.info.bounds.memory_max_bytes / 4).unwrap_or(usize::MAX);
        let page = self.read(|| bucket.scan_within(prefix, after, limit as usize, bytes_max), page_bytes).await?;
        let row = |row: rusm_store::Row| Row { key: row.key.into(), value: row.value.into() };
        Ok(Page { rows: page.rows.into_iter().map(row).collect(), next: page.next.map(Vec::from) })
    }
}

impl GuestState {
    /// Reads from the store. A long result takes a share of the memory of all guests; `bytes` returns its length.
    pub(super) async fn read<T: Send + 'static>(
        &mut self,
        start: impl FnOnce() -> Read<T>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Result<T, CallError> {
        let node = Arc::clone(&self.info.node);
        let (result, _permit) = waiting(async {
            let permit = node.reads.acquire().await;
            (start().await, permit)
        })
        .await;
        let result = result?;
        self.hold_result(bytes(&result))?;
        Ok(result)
    }

    /// Returns the bucket if this guest may use it.
    fn bucket(&self, call: HostCall, name: &str) -> Result<Bucket, Error> {
        let store = self.store(call)?;
        self.granted_bucket(&store, name)
    }

    /// Returns the store if this guest has the capability.
    fn store(&self, call: HostCall) -> Result<Store, Error> {
        self.record_call(call);
        if self.require(Capability::Kv).is_err() {
            return Err(Error::Denied(Capability::Kv.word().to_owned()));
        }
        let store = self.info.node.config.store.as_ref();
        store.cloned().ok_or_else(|| Error::Failed("this node has no store".to_owned()))
    }

    fn granted_bucket(&self, store: &Store, name: &str) -> Result<Bucket, Error> {
        check_name(name).map_err(|_too_long| Error::Invalid(format!("a bucket's name of {} bytes", name.len())))?;
        let Some(bucket) = granted_bucket(&self.info.grant, store, name) else {
            drop(self.refuse(Capability::Kv));
            let name: String = name.chars().take(128).collect();
            return Err(Error::Denied(format!("bucket {name:?}")));
        };
        Ok(bucket?)
    }
}

/// Returns a bucket of the store if it is granted.
pub(crate) fn granted_bucket(grant: &Grant, store: &Store, name: &str) -> Option<Result<Bucket, StoreError>> {
    if !grant.allows_bucket(name) {
        None
    } else if grant.names_bucket(name) {
        Some(store.bucket(name))
    } else {
        Some(store.bucket_by_prefix(name))
    }
}

/// Reason why a call fails that has all permissions.
#[derive(Debug, Error)]
pub(super) enum CallError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Memory(#[from] MemoryFull),
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Store(error) => error.into(),
            CallError::Memory(full) => full.into(),
        }
    }
}

impl From<MemoryFull> for Error {
    fn from(full: MemoryFull) -> Self {
        Self::Limit(full.to_string())
    }
}

/// Returns the length of a value that was read.
pub(super) fn value_bytes(value: Option<&Bytes>) -> usize {
    value.map_or(0, Bytes::len)
}

/// Returns the length of the rows of a page.
pub(super) fn page_bytes(page: &rusm_store::Page) -> usize {
    page.rows.iter().map(|row| row.key.len() + row.value.len()).sum()
}

/// Returns the number of bytes in a commit; an error if the bytes or the steps exceed their limits.
fn checked_bytes(expects: &[Expected], changes: &[Change]) -> Result<usize, Error> {
    for (steps, what) in [(expects.len(), "expectations"), (changes.len(), "changes")] {
        if steps > STEPS_MAX {
            return Err(Error::Limit(format!("{steps} {what} in a commit are more than {STEPS_MAX}")));
        }
    }
    let of = |key: &[u8], value: &Option<Vec<u8>>| key.len() + value.as_ref().map_or(0, Vec::len);
    let expected: usize = expects.iter().map(|expected| of(&expected.key, &expected.value)).sum();
    let bytes = expected + changes.iter().map(|change| of(&change.key, &change.value)).sum::<usize>();
    if bytes > COMMIT_BYTES_MAX {
        return Err(Error::Limit(format!("{bytes} bytes in a commit are more than {COMMIT_BYTES_MAX}")));
    }
    Ok(bytes)
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let line = error.to_string();
        match error {
            StoreError::Name(_) | StoreError::Key { .. } => Self::Invalid(line),
            StoreError::ValueTooLarge { .. }
            | StoreError::TransactionTooLarge { .. }
            | StoreError::TooManyBuckets { .. }
            | StoreError::TooManyBucketsByPrefix { .. }
            | StoreError::Rows { .. } => Self::Limit(line),
            _ => Self::Failed(line),
        }
    }
}
