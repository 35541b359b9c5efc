//! The durable store of the node. Needs the capability `kv` and a grant of the bucket, on a node that has a store.
//!
//! A guest that uses this module imports the store: a node without a store does not load it.

use std::fmt;
use std::time::Duration;

use crate::millis;
use crate::storage::rusm::store::kv;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// A bucket of the store. The node decides which buckets this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket<'a>(pub &'a str);

impl Bucket<'_> {
    /// Returns the value of a key, or `None` if the key does not exist.
    ///
    /// # Errors
    /// [`Error`] from the store.
    pub fn get(self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        Ok(kv::get(self.0, key.as_ref())?)
    }

    /// Sets the value of a key, without an expiry. Returns once it is as durable as the node guarantees.
    ///
    /// # Errors
    /// [`Error`] from the store.
    pub fn put(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(kv::put(self.0, key.as_ref(), value.as_ref(), None)?)
    }

    /// Like [`put`](Self::put), but the key expires after `lifetime`.
    ///
    /// # Errors
    /// [`Error`] from the store.
    pub fn put_for(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, lifetime: Duration) -> Result<(), Error> {
        Ok(kv::put(self.0, key.as_ref(), value.as_ref(), Some(millis(lifetime)))?)
    }

    /// Deletes a key; returns true if it existed.
    ///
    /// # Errors
    /// [`Error`] from the store.
    pub fn delete(self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(kv::delete(self.0, key.as_ref())?)
    }

    /// Sets a key, or deletes it if `value` is `None`, provided that it has the expected value, or does not exist if
    /// `expected` is `None`. Returns true if it did so.
    ///
    /// # Errors
    /// [`Error`] from the store.
    pub fn compare_and_set(
        self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        Ok(kv::compare_and_set(self.0, key.as_ref(), expected, value)?)
    }

    /// Returns at most `limit` rows, 1 to 1,000, with keys that begin with `prefix` and follow `after` (empty for the
    /// first page), and the key after which to continue, or `None` at the end.
    ///
    /// # Errors
    /// [`Error`] from the store.
    pub fn scan(
        self,
        prefix: impl AsRef<[u8]>,
        after: impl AsRef<[u8]>,
        limit: u32,
    ) -> Result<(Vec<Row>, Option<Vec<u8>>), Error> {
        let page = kv::scan(self.0, prefix.as_ref(), after.as_ref(), limit)?;
        Ok((page.rows.into_iter().map(|row| (row.key, row.value)).collect(), page.next))
    }
}

/// Expectations and changes of several keys and buckets, applied atomically or not at all.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is committed"]
pub struct Commit {
    expects: Vec<kv::Expected>,
    changes: Vec<kv::Change>,
}

impl Commit {
    /// Creates a commit without expectations and changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires that the key has this value, or does not exist if `value` is `None`.
    pub fn expect(mut self, bucket: Bucket<'_>, key: impl AsRef<[u8]>, value: Option<&[u8]>) -> Self {
        let (bucket, key) = (bucket.0.to_owned(), key.as_ref().to_vec());
        self.expects.push(kv::Expected { bucket, key, value: value.map(<[u8]>::to_vec) });
        self
    }

    /// Sets the value of a key, without an expiry.
    pub fn put(self, bucket: Bucket<'_>, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.change(bucket, key.as_ref(), Some(value.as_ref()), None)
    }

    /// Like [`put`](Self::put), but the key expires after `lifetime`.
    pub fn put_for(
        self,
        bucket: Bucket<'_>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Self {
        self.change(bucket, key.as_ref(), Some(value.as_ref()), Some(millis(lifetime)))
    }

    /// Deletes a key.
    pub fn delete(self, bucket: Bucket<'_>, key: impl AsRef<[u8]>) -> Self {
        self.change(bucket, key.as_ref(), None, None)
    }

    /// Makes all changes if all expectations hold, otherwise none; returns true if it made them.
    ///
    /// # Errors
    /// [`Error`] from the store.
    pub fn run(self) -> Result<bool, Error> {
        Ok(kv::commit(&self.expects, &self.changes)?)
    }

    fn change(mut self, bucket: Bucket<'_>, key: &[u8], value: Option<&[u8]>, expires_in_ms: Option<u64>) -> Self {
        let (bucket, key, value) = (bucket.0.to_owned(), key.to_vec(), value.map(<[u8]>::to_vec));
        self.changes.push(kv::Change { bucket, key, value, expires_in_ms });
        self
    }
}

/// Error returned by the store. Nothing has changed, except possibly after [`Failed`](Self::Failed).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The capability is missing, or this bucket is not granted.
    Denied(String),
    /// A name, a key or a number is not valid.
    Invalid(String),
    /// A size or a number exceeds its limit, which the text gives.
    Limit(String),
    /// The disk is full, damaged or gone; the text says which.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(what) => write!(f, "denied: {what}"),
            Self::Invalid(why) => write!(f, "invalid: {why}"),
            Self::Limit(what) => write!(f, "limit: {what}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<kv::Error> for Error {
    fn from(error: kv::Error) -> Self {
        match error {
            kv::Error::Denied(what) => Self::Denied(what),
            kv::Error::Invalid(why) => Self::Invalid(why),
            kv::Error::Limit(what) => Self::Limit(what),
            kv::Error::Failed(why) => Self::Failed(why),
        }
    }
}
