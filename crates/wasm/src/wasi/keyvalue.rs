//! `wasi:keyvalue` on the store of the node: a store of the guest is a bucket, which its profile must grant.
//!
//! Each call of `batch`, and `increment`, is one transaction.

use std::collections::BTreeMap;

use bytes::Bytes;
use rusm_store::{Bucket, StoreError};
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::WasiView;

use crate::bindings::wasi_keyvalue::Imports;
use crate::bindings::wasi_keyvalue::wasi::keyvalue::store::{Error, Host, HostBucket, KeyResponse};
use crate::bindings::wasi_keyvalue::wasi::keyvalue::{atomics, batch};
use crate::engine::fiber::waiting;
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::name::check_name;
use crate::guest::shared_budget::MemoryFull;
use crate::guest::state::GuestState;
use crate::kv::{CallError, STEPS_MAX, granted_bucket, page_bytes, value_bytes};
use crate::wasi::open_bucket::OpenBucket;

/// Bucket of the identifier `""`.
const DEFAULT_BUCKET: &str = "default";
/// Number of keys in a page.
const KEYS_MAX: usize = 1_000;

type Outcome<T> = wasmtime::Result<Result<T, Error>>;

/// Links `wasi:keyvalue`.
pub(crate) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    Imports::add_to_linker::<_, HasSelf<_>>(linker, |state| state)
}

impl Host for GuestState {
    async fn open(&mut self, identifier: String) -> Outcome<Resource<OpenBucket>> {
        self.record_call(HostCall::KvGet);
        let name = if identifier.is_empty() { DEFAULT_BUCKET } else { &identifier };
        if self.require(Capability::Kv).is_err() {
            return Ok(Err(Error::AccessDenied));
        }
        if let Err(error) = check_name(name) {
            return Ok(Err(Error::Other(error.to_string())));
        }
        let Some(store) = self.info.node.config.store.as_ref() else { return Ok(Err(Error::NoSuchStore)) };
        let Some(bucket) = granted_bucket(&self.info.grant, store, name) else {
            drop(self.refuse(Capability::Kv));
            return Ok(Err(Error::AccessDenied));
        };
        match bucket {
            Ok(bucket) => Ok(Ok(self.ctx().table.push(OpenBucket { bucket, next: None })?)),
            Err(StoreError::Name(_)) => Ok(Err(Error::NoSuchStore)),
            Err(error) => Ok(Err(error.into())),
        }
    }
}

impl HostBucket for GuestState {
    async fn get(&mut self, bucket: Resource<OpenBucket>, key: String) -> Outcome<Option<Vec<u8>>> {
        let bucket = self.opened(HostCall::KvGet, &bucket)?;
        let value = self.read(|| bucket.get(key), |value| value_bytes(value.as_ref())).await;
        Ok(value.map(|value| value.map(Vec::from)).map_err(Error::from))
    }

    async fn set(&mut self, bucket: Resource<OpenBucket>, key: String, value: Vec<u8>) -> Outcome<()> {
        let bucket = self.opened(HostCall::KvPut, &bucket)?;
        let _share = match self.share_if_long(value.len()) {
            Ok(share) => share,
            Err(full) => return Ok(Err(full.into())),
        };
        Ok(waiting(bucket.put(key, value)).await.map_err(Error::from))
    }

    async fn delete(&mut self, bucket: Resource<OpenBucket>, key: String) -> Outcome<()> {
        let bucket = self.opened(HostCall::KvDelete, &bucket)?;
        Ok(waiting(bucket.delete(key)).await.map(drop).map_err(Error::from))
    }

    async fn exists(&mut self, bucket: Resource<OpenBucket>, key: String) -> Outcome<bool> {
        let bucket = self.opened(HostCall::KvGet, &bucket)?;
        let value = self.read(|| bucket.get(key), |value| value_bytes(value.as_ref())).await;
        Ok(value.map(|value| value.is_some()).map_err(Error::from))
    }

    async fn list_keys(&mut self, handle: Resource<OpenBucket>, cursor: Option<u64>) -> Outcome<KeyResponse> {
        let bucket = self.opened(HostCall::KvScan, &handle)?;
        let (position, after) = match (cursor, self.ctx().table.get(&handle)?.next.clone()) {
            (None, _) => (0, Bytes::new()),
            (Some(cursor), Some((next, after))) if cursor == next => (cursor, after),
            _ => return Ok(Err(Error::Other("the cursor is not that of the page before".to_owned()))),
        };
        let bytes_max = usize::try_from(self.info.bounds.memory_max_bytes / 4).unwrap_or(usize::MAX);
        let scan = || bucket.scan_within(Vec::new(), after.to_vec(), KEYS_MAX, bytes_max);
        let page = match self.read(scan, page_bytes).await {
            Ok(page) => page,
            Err(error) => return Ok(Err(error.into())),
        };
        let next = page.next.map(|after| (position + page.rows.len() as u64, after));
        let cursor = next.as_ref().map(|(cursor, _)| *cursor);
        self.ctx().table.get_mut(&handle)?.next = next;
        // Keys that are not text were written by others; this interface cannot name them.
        let keys = page.rows.into_iter().filter_map(|row| String::from_utf8(row.key.into()).ok()).collect();
        Ok(Ok(KeyResponse { keys, cursor }))
    }

    async fn drop(&mut self, bucket: Resource<OpenBucket>) -> wasmtime::Result<()> {
        self.ctx().table.delete(bucket)?;
        Ok(())
    }
}

impl atomics::Host for GuestState {
    async fn increment(&mut self, bucket: Resource<OpenBucket>, key: String, delta: u64) -> Outcome<u64> {
        let bucket = self.opened(HostCall::KvCommit, &bucket)?;
        let Some(store) = self.info.node.config.store.clone() else { return Ok(Err(Error::NoSuchStore)) };
        let added = store.transaction_of(key.len() + 20, move |transaction| {
            let before = transaction.get(&bucket, &key)?;
            let number = match &before {
                None => Some(0),
                Some(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok()),
            };
            match number.and_then(|number| number.checked_add(delta)) {
                None => Ok::<_, StoreError>(None),
                Some(sum) => {
                    transaction.put(&bucket, key, sum.to_string())?;
                    Ok(Some(sum))
                }
            }
        });
        Ok(match waiting(added).await {
            Ok(Some(sum)) => Ok(sum),
            Ok(None) => Err(Error::Other("the value is not a number, or the sum is too large".to_owned())),
            Err(error) => Err(error.into()),
        })
    }
}

impl batch::Host for GuestState {
    async fn get_many(
        &mut self,
        bucket: Resource<OpenBucket>,
        keys: Vec<String>,
    ) -> Outcome<Vec<Option<(String, Vec<u8>)>>> {
        let bucket = self.opened(HostCall::KvGet, &bucket)?;
        let bytes_max = self.info.bounds.memory_max_bytes / 4;
        if let Err(error) = check_steps(keys.len()) {
            return Ok(Err(error));
        }
        let (mut found, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        for key in keys {
            // The share is for all values up to this one.
            match self.read(|| bucket.get(&key), |value| bytes + value_bytes(value.as_ref())).await {
                Ok(value) => {
                    bytes += value_bytes(value.as_ref());
                    found.push(value.map(|value| (key, Vec::from(value))));
                }
                Err(error) => return Ok(Err(error.into())),
            }
            if bytes as u64 > bytes_max {
                return Ok(Err(Error::Other(format!("the values are larger than {bytes_max} bytes together"))));
            }
        }
        Ok(Ok(found))
    }

    async fn set_many(&mut self, bucket: Resource<OpenBucket>, rows: Vec<(String, Vec<u8>)>) -> Outcome<()> {
        // Of several values of one key, the last one counts.
        let rows: BTreeMap<String, Option<Vec<u8>>> = rows.into_iter().map(|(key, value)| (key, Some(value))).collect();
        self.change_many(&bucket, rows).await
    }

    async fn delete_many(&mut self, bucket: Resource<OpenBucket>, keys: Vec<String>) -> Outcome<()> {
        self.change_many(&bucket, keys.into_iter().map(|key| (key, None)).collect()).await
    }
}

impl GuestState {
    /// Returns the bucket of a handle.
    fn opened(&mut self, call: HostCall, bucket: &Resource<OpenBucket>) -> wasmtime::Result<Bucket> {
        self.record_call(call);
        Ok(self.ctx().table.get(bucket)?.bucket.clone())
    }

    async fn change_many(
        &mut self,
        bucket: &Resource<OpenBucket>,
        rows: BTreeMap<String, Option<Vec<u8>>>,
    ) -> Outcome<()> {
        let bucket = self.opened(HostCall::KvCommit, bucket)?;
        let Some(store) = self.info.node.config.store.clone() else { return Ok(Err(Error::NoSuchStore)) };
        if let Err(error) = check_steps(rows.len()) {
            return Ok(Err(error));
        }
        let bytes = rows.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len)).sum();
        let _share = match self.share_if_long(bytes) {
            Ok(share) => share,
            Err(full) => return Ok(Err(full.into())),
        };
        let changed = store.transaction_of(bytes, move |transaction| {
            for (key, value) in rows {
                match value {
                    Some(value) => transaction.put(&bucket, key, value)?,
                    None => transaction.delete(&bucket, key)?,
                }
            }
            Ok::<_, StoreError>(())
        });
        Ok(waiting(changed).await.map_err(Error::from))
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<MemoryFull> for Error {
    fn from(full: MemoryFull) -> Self {
        Self::Other(full.to_string())
    }
}

fn check_steps(steps: usize) -> Result<(), Error> {
    if steps <= STEPS_MAX { Ok(()) } else { Err(Error::Other(format!("{steps} keys are more than {STEPS_MAX}"))) }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self::Other(error.to_string())
    }
}
