//! Pending jobs: those that wait for their time or for a worker, and those that run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::record::{Record, parts};
use crate::read::Row;

/// A job that waits or runs.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use std::time::{Duration, SystemTime};
///
/// use rusm::store::jobs::{Jobs, NewJob, PendingJob};
/// # use rusm::store::{Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// # let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let mails = Jobs::open(&store, "mails")?;
/// mails.blocking_enqueue(NewJob::new("remind ada").after(Duration::from_secs(3_600)).unique("ada"))?;
///
/// for PendingJob { payload, unique, attempts, due } in mails.blocking_pending(10)? {
///     assert_eq!((&*payload, &*unique, attempts), (&b"remind ada"[..], &b"ada"[..], 0));
///     assert!(due > SystemTime::now());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingJob {
    /// Its payload.
    pub payload: Bytes,
    /// Its unique key, or nothing.
    pub unique: Bytes,
    /// Number of attempts that have begun.
    pub attempts: u32,
    /// Time from which a worker takes it; [`NewJob::after`](super::NewJob::after) says how late it may do so.
    pub due: SystemTime,
}

impl PendingJob {
    /// Decodes a row of the pending jobs; `None` for a row of another form.
    pub(super) fn decode(row: &Row) -> Option<Self> {
        let (due_ms, _) = parts(&row.key)?;
        let Record { payload, unique, attempt: attempts, .. } = Record::decode(&row.value)?;
        Some(Self { payload, unique, attempts, due: UNIX_EPOCH + Duration::from_millis(due_ms) })
    }
}
