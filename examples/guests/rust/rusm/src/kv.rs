//! The durable store of the node. Needs the capability `kv` and a grant of the bucket, on a node that has a store.
//!
//! A guest that uses this module asks for the store by doing so: a node without one does not load it.

use std::fmt;
use std::time::Duration;

use crate::millis;
use crate::storage::rusm::store::kv;

/// A key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// A bucket of the store; the node decides which of them this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket<'a>(pub &'a str);

impl Bucket<'_> {
    /// The value of a key.
    ///
    /// # Errors
    /// [`Error`].
    pub fn get(self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        Ok(kv::get(self.0, key.as_ref())?)
    }

    /// Gives a key a value for good. Returns when it is as durable as the node promises.
    ///
    /// # Errors
    /// [`Error`].
    pub fn put(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(kv::put(self.0, key.as_ref(), value.as_ref(), None)?)
    }

    /// The same for so long.
    ///
    /// # Errors
    /// [`Error`].
    pub fn put_for(self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, lifetime: Duration) -> Result<(), Error> {
        Ok(kv::put(self.0, key.as_ref(), value.as_ref(), Some(millis(lifetime)))?)
    }

    /// Takes a key away; whether it was there.
    ///
    /// # Errors
    /// [`Error`].
    pub fn delete(self, key: impl AsRef<[u8]>) -> Result<bool, Error> {
        Ok(kv::delete(self.0, key.as_ref())?)
    }

    /// Gives a key a value, or takes it away for `None`, if it has the expected one, or none; whether it had.
    ///
    /// # Errors
    /// [`Error`].
    pub fn compare_and_set(
        self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<bool, Error> {
        Ok(kv::compare_and_set(self.0, key.as_ref(), expected, value)?)
    }

    /// The rows whose keys begin with `prefix`, after the key `after` (empty for all), at most `limit` of them, 1 to 1,000;
    /// and the key to go on after, unless that was all.
    ///
    /// # Errors
    /// [`Error`].
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

/// What a key must have, and what changes, of several keys and buckets: all of it at one instant, or none.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is committed"]
pub struct Commit {
    expects: Vec<kv::Expected>,
    changes: Vec<kv::Change>,
}

impl Commit {
    /// Nothing expected, and nothing changed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes through only if the key has this value, or none.
    pub fn expect(mut self, bucket: Bucket<'_>, key: impl AsRef<[u8]>, value: Option<&[u8]>) -> Self {
        let (bucket, key) = (bucket.0.to_owned(), key.as_ref().to_vec());
        self.expects.push(kv::Expected { bucket, key, value: value.map(<[u8]>::to_vec) });
        self
    }

    /// Gives a key a value for good.
    pub fn put(self, bucket: Bucket<'_>, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.change(bucket, key.as_ref(), Some(value.as_ref()), None)
    }

    /// The same for so long.
    pub fn put_for(
        self,
        bucket: Bucket<'_>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
    ) -> Self {
        self.change(bucket, key.as_ref(), Some(value.as_ref()), Some(millis(lifetime)))
    }

    /// Takes a key away.
    pub fn delete(self, bucket: Bucket<'_>, key: impl AsRef<[u8]>) -> Self {
        self.change(bucket, key.as_ref(), None, None)
    }

    /// Does all of it, or nothing where something was not as expected; whether it did.
    ///
    /// # Errors
    /// [`Error`].
    pub fn run(self) -> Result<bool, Error> {
        Ok(kv::commit(&self.expects, &self.changes)?)
    }

    fn change(mut self, bucket: Bucket<'_>, key: &[u8], value: Option<&[u8]>, expires_in_ms: Option<u64>) -> Self {
        let (bucket, key, value) = (bucket.0.to_owned(), key.to_vec(), value.map(<[u8]>::to_vec));
        self.changes.push(kv::Change { bucket, key, value, expires_in_ms });
        self
    }
}

/// Why the store did nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The capability is missing, or this bucket is not among those that were granted.
    Denied(String),
    /// A name, a key or a number that makes no sense.
    Invalid(String),
    /// A size or a count over its limit, which the line names.
    Limit(String),
    /// The disk is full, damaged or gone; the line says which.
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
