//! Dead jobs, those that have failed as often as they may, and their ids.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use thiserror::Error;

use super::record::{self, Record, parts};
use crate::read::Row;

/// A job that has failed as often as it may.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
/// use rusm::store::jobs::{DeadJob, Done, Jobs, NewJob, Retry};
/// # use rusm::store::{Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// # let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let mails = Jobs::open(&store, "mails")?;
/// mails.blocking_enqueue(NewJob::new("ada"))?;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let jobs = mails.clone();
/// # runtime.block_on(move |ctx| async move {
/// #     let worker = jobs.worker(|_ctx, _job| async { Err::<Done, _>("the mail server refuses") });
/// #     let worker = worker.retry(Retry { attempts: 1, ..Retry::default() });
/// #     worker.start_link(&ctx).await.expect("there is room for a process");
/// #     while jobs.counts().dead == 0 {
/// #         ctx.yield_now().await;
/// #     }
/// # });
/// // … its worker has tried as often as `Retry` says …
/// for DeadJob { id, payload, attempts, error } in mails.blocking_dead(10)? {
///     assert_eq!(payload, "ada");
///     assert_eq!((attempts, &*error), (1, "the mail server refuses"));
///     assert!(mails.blocking_discard(id)?); // or `blocking_revive_one`
/// }
/// assert_eq!(mails.counts().dead, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadJob {
    /// Its id among the dead jobs of its queue.
    pub id: DeadJobId,
    /// Its payload.
    pub payload: Bytes,
    /// Number of its attempts.
    pub attempts: u32,
    /// Error of the last attempt, of at most 1,024 bytes; empty if an earlier version of this library wrote it.
    pub error: String,
}

/// Id of a dead job in its queue. As a text it can be part of a command or of an address.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::jobs::DeadJobId;
///
/// let id: DeadJobId = "1767225600000-7".parse()?;
/// assert_eq!(id.to_string(), "1767225600000-7");
/// # Ok::<(), rusm::store::jobs::DeadJobIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeadJobId {
    died_ms: u64,
    number: u64,
}

/// Error of a text that is not the id of a dead job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the id of a dead job has the form 1767225600000-7")]
pub struct DeadJobIdError;

impl fmt::Display for DeadJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.died_ms, self.number)
    }
}

impl FromStr for DeadJobId {
    type Err = DeadJobIdError;

    fn from_str(text: &str) -> Result<Self, DeadJobIdError> {
        let (died_ms, number) = text.split_once('-').ok_or(DeadJobIdError)?;
        let number_of = |digits: &str| digits.parse().map_err(|_invalid| DeadJobIdError);
        Ok(Self { died_ms: number_of(died_ms)?, number: number_of(number)? })
    }
}

impl DeadJobId {
    pub(super) const fn of(died_ms: u64, number: u64) -> Self {
        Self { died_ms, number }
    }

    pub(super) fn key(self) -> [u8; record::KEY] {
        record::key(self.died_ms, self.number)
    }
}

impl DeadJob {
    /// Decodes a row of the dead jobs and the error beside it; `None` for a row of another form.
    pub(super) fn decode(row: &Row, error: Option<Bytes>) -> Option<Self> {
        let (died_ms, number) = parts(&row.key)?;
        let Record { payload, attempt: attempts, .. } = Record::decode(&row.value)?;
        let error = error.map(|error| String::from_utf8_lossy(&error).into_owned()).unwrap_or_default();
        Some(Self { id: DeadJobId::of(died_ms, number), payload, attempts, error })
    }
}
