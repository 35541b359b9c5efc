//! The durable store for guests: implements `rusm:store/kv`, and the same functions for core modules.
//!
//! ```text
//!   guest ── bucket, key ──▶ capability? bucket granted? ──▶ Store, awaited: other processes run meanwhile
//!                                     └ no: error, counted, reported to observers
//! ```
//!
//! Linked only if the engine was given a store. On other nodes, a guest that imports it does not load.

mod raw;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wasmtime::component::HasSelf;
use wasmtime::{Linker, component};

use super::bindings::rusm::runtime::types;
use super::bindings::store::Storage;
use super::bindings::store::rusm::store::kv::{Change, Error, Expected, Host, Page, Row};
use super::engine::fiber::waiting;
use super::guest::capability::Capability;
use super::guest::guest_info::HostCall;
use super::guest::name::check_name;
use super::guest::shared_memory::MemoryShare;
use super::guest::state::GuestState;
use rusm_store::{Bucket, Store, StoreError};

/// Maximum number of rows per page for a guest.
const ROWS_MAX: u32 = 1_000;
/// Maximum number of expectations, and of changes, in one commit; the limit of a store transaction too.
pub(super) const STEPS_MAX: usize = 10_000;
/// Maximum number of reads of all guests whose results do not count in their memory yet.
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
        let value = self.value_of(&bucket, key).await??;
        Ok(value.map(Vec::from))
    }

    async fn put(
        &mut self,
        bucket: String,
        key: Vec<u8>,
        value: Vec<u8>,
        expires_in_ms: Option<u64>,
    ) -> Result<(), Error> {
        let bucket = self.bucket(HostCall::KvPut, &bucket)?;
        let _share = self.hold_written(value.len())?;
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
        let _share = self.hold_written(of(&expected) + of(&value))?;
        let set = bucket.compare_and_set(key, expected.map(Bytes::from), value.map(Bytes::from));
        Ok(waiting(set).await?)
    }

    async fn commit(&mut self, expects: Vec<Expected>, changes: Vec<Change>) -> Result<bool, Error> {
        let store = self.store(HostCall::KvCommit)?;
        let bytes = checked_bytes(&expects, &changes)?;
        let _share = self.hold_written(bytes)?;
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
        let page = self.page_of(&bucket, (prefix, after), limit as usize, bytes_max).await??;
        let row = |row: rusm_store::Row| Row { key: row.key.into(), value: row.value.into() };
        Ok(Page { rows: page.rows.into_iter().map(row).collect(), next: page.next.map(Vec::from) })
    }
}

impl GuestState {
    /// Reads a value, which takes a share of the memory of all guests if it is long. Returns the error of the store, or the
    /// one for too little memory.
    pub(super) async fn value_of(
        &mut self,
        bucket: &Bucket,
        key: impl AsRef<[u8]>,
    ) -> Result<Result<Option<Bytes>, StoreError>, NoMemory> {
        let node = Arc::clone(&self.info.node);
        let (value, _permit) = waiting(async {
            let permit = node.reads.acquire().await;
            (bucket.get(key).await, permit)
        })
        .await;
        let Ok(value) = value else { return Ok(value) };
        self.hold_result(value.as_ref().map_or(0, Bytes::len)).map_err(NoMemory)?;
        Ok(Ok(value))
    }

    /// Reads a page of rows, as [`value_of`](Self::value_of) reads a value.
    pub(super) async fn page_of(
        &mut self,
        bucket: &Bucket,
        (prefix, after): (Vec<u8>, Vec<u8>),
        limit: usize,
        bytes_max: usize,
    ) -> Result<Result<rusm_store::Page, StoreError>, NoMemory> {
        let node = Arc::clone(&self.info.node);
        let (page, _permit) = waiting(async {
            let permit = node.reads.acquire().await;
            (bucket.scan_within(prefix, after, limit, bytes_max).await, permit)
        })
        .await;
        let Ok(page) = page else { return Ok(page) };
        self.hold_result(page.rows.iter().map(|row| row.key.len() + row.value.len()).sum()).map_err(NoMemory)?;
        Ok(Ok(page))
    }

    /// Takes a share of the memory of all guests for several values that a call returns, if they are long.
    pub(super) fn hold_values(&mut self, bytes: u64) -> Result<(), NoMemory> {
        self.hold_result(usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(NoMemory)
    }

    /// Takes a share of the memory of all guests for what a call writes, if it is long.
    pub(super) fn hold_written(&self, bytes: usize) -> Result<Option<MemoryShare>, NoMemory> {
        self.share_for_item(bytes).map_err(NoMemory)
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
        if !self.info.grant.allows_bucket(name) {
            drop(self.refuse(Capability::Kv));
            let name: String = name.chars().take(128).collect();
            return Err(Error::Denied(format!("bucket {name:?}")));
        }
        Ok(store.bucket(name)?)
    }
}

/// A call that finds too little memory of all guests.
pub(super) struct NoMemory(types::Error);

impl fmt::Display for NoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            types::Error::Limit(line) => f.write_str(line),
            other => write!(f, "{other:?}"),
        }
    }
}

impl From<NoMemory> for Error {
    fn from(error: NoMemory) -> Self {
        Self::Limit(error.to_string())
    }
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
            | StoreError::Rows { .. } => Self::Limit(line),
            _ => Self::Failed(line),
        }
    }
}
