//! Reads: on the scheduler while the file is in memory, otherwise on a blocking thread.
//!
//! A key in the page cache is found in about a microsecond, which is less than a handover to another thread costs. If
//! disk reads become slow, or a page has many rows, reads move off the schedulers.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, TableError};
use rusm_runtime::embed;
use tokio::runtime::Handle as Tokio;

use super::buckets::BucketState;
use super::config::defaults::SCAN_ROWS_MAX;
use super::core::Core;
use super::error::StoreError;
use super::file::database::Panicked;
use super::file::disk::{Disk, Source};
use super::file::salvage::Salvage;
use super::file::tables::{self, ReadRows};
use super::writer::REDB_PANICKED;
use super::writer::write;

/// Maximum number of rows that a scheduler reads itself.
const QUICK_ROWS: usize = 128;
/// Maximum number of expired rows that a page skips before it ends early.
const EXPIRED_ROWS_MAX: usize = 10_000;

type Job<T> = Box<dyn FnOnce() -> Result<T, StoreError> + Send>;

/// A read on a blocking thread.
type Blocking<T> = Pin<Box<dyn Future<Output = Option<thread::Result<Result<T, StoreError>>>> + Send>>;

/// A read that starts only when it is awaited or [waited](Self::wait) for.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # use rusm::store::{Store, StoreConfig};
/// # let directory = tempfile::tempdir()?;
/// # let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let users = store.bucket("users")?;
/// users.put("ada", "10").wait()?;
///
/// let read = users.get("ada"); // nothing is read yet
/// let value = read.wait()?; // a process awaits it instead
/// assert_eq!(value.as_deref(), Some(&b"10"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a read starts only when it is awaited or `wait` is called"]
pub struct Read<T> {
    core: Arc<Core>,
    state: ReadState<T>,
}

enum ReadState<T> {
    NotStarted { job: Job<T>, is_quick: bool },
    Blocking(Blocking<T>),
    Done,
}

impl<T> std::fmt::Debug for Read<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read").finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Read<T> {
    fn new(core: &Arc<Core>, is_quick: bool, job: impl FnOnce() -> Result<T, StoreError> + Send + 'static) -> Self {
        Self { core: Arc::clone(core), state: ReadState::NotStarted { job: Box::new(job), is_quick } }
    }

    /// Reads on this thread. Processes must use `.await` instead.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails, [`StoreError::OnScheduler`] if a process calls this.
    pub fn wait(self) -> Result<T, StoreError> {
        write::wait(self)
    }
}

impl<T: Send + 'static> Future for Read<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut task = match std::mem::replace(&mut self.state, ReadState::Done) {
            ReadState::NotStarted { job, is_quick } => {
                let would_block = embed::is_scheduler_thread() && (!is_quick || self.core.disk.is_slow());
                match Tokio::try_current() {
                    Ok(_) if would_block => Box::pin(embed::run_blocking(job)),
                    _ => return Poll::Ready(job()),
                }
            }
            ReadState::Blocking(task) => task,
            ReadState::Done => unreachable!("a read is not polled after completion"),
        };
        let polled = task.as_mut().poll(cx);
        if polled.is_pending() {
            self.state = ReadState::Blocking(task);
        }
        // The task ends without an outcome only if the runtime shuts down.
        polled.map(|outcome| outcome.and_then(Result::ok).unwrap_or(Err(StoreError::Closed)))
    }
}

/// One row of a page.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # use rusm::store::{Store, StoreConfig};
/// # let directory = tempfile::tempdir()?;
/// # let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// use std::time::Duration;
///
/// let sessions = store.bucket("sessions")?;
/// sessions.put("ada", "1").wait()?;
/// sessions.put_for("bob", "2", Duration::from_secs(60)).wait()?;
///
/// let rows = sessions.scan("", "", 10).wait()?.rows;
/// assert_eq!((&rows[0].key[..], &rows[0].value[..], rows[0].expiry_ms), (&b"ada"[..], &b"1"[..], 0));
/// assert!(rows[1].expiry_ms > 0, "it expires");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// Time at which it expires, in milliseconds since 1970; 0 for never.
    pub expiry_ms: u64,
}

/// Rows in key order.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("node.redb");
/// use rusm::store::{Store, StoreConfig};
///
/// let store = Store::open(&path, StoreConfig::default())?;
/// let users = store.bucket("users")?;
/// for name in ["ada", "bob", "cyd"] {
///     users.put(name, "1").wait()?;
/// }
/// let (mut after, mut names) = (Some(Default::default()), 0);
/// while let Some(key) = after {
///     let page = users.scan("", key, 2).wait()?;
///     names += page.rows.len();
///     after = page.next;
/// }
/// assert_eq!(names, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Row>,
    /// The key after which the next page starts; `None` at the end.
    pub next: Option<Bytes>,
}

/// Reads the value of a key.
pub(super) fn get(core: &Arc<Core>, bucket: &Arc<BucketState>, key: &[u8]) -> Read<Option<Bytes>> {
    let (shared, bucket, key) = (Arc::clone(core), Arc::clone(bucket), Box::<[u8]>::from(key));
    Read::new(core, true, move || {
        bucket.reads.fetch_add(1, Relaxed);
        let now_ms = shared.config.clock.now_ms();
        with_rows(&shared, &bucket, |rows| {
            let visible = |row: &[u8]| {
                let (expiry_ms, value) = tables::read_row(row);
                (!tables::is_expired(expiry_ms, now_ms)).then(|| Bytes::copy_from_slice(value))
            };
            Ok(match rows {
                RowSource::Rows(rows) => rows.get(&*key)?.and_then(|row| visible(row.value())),
                RowSource::Salvage(salvage) => salvage.get(&bucket.name, &key)?.and_then(|row| visible(&row)),
            })
        })
        .map(Option::flatten)
    })
}

/// Query for a page.
#[derive(Debug)]
pub(super) struct ScanQuery {
    pub(super) prefix: Box<[u8]>,
    pub(super) after: Box<[u8]>,
    pub(super) limit: usize,
    pub(super) bytes_max: usize,
}

/// Reads a page of rows.
pub(super) fn scan(core: &Arc<Core>, bucket: &Arc<BucketState>, query: ScanQuery) -> Read<Page> {
    let (shared, bucket) = (Arc::clone(core), Arc::clone(bucket));
    Read::new(core, query.limit <= QUICK_ROWS, move || {
        if !(1..=SCAN_ROWS_MAX).contains(&query.limit) {
            return Err(StoreError::Rows { limit: query.limit, max: SCAN_ROWS_MAX });
        }
        bucket.reads.fetch_add(1, Relaxed);
        let now_ms = shared.config.clock.now_ms();
        with_rows(&shared, &bucket, |rows| page(rows, &bucket, &query, now_ms)).map(Option::unwrap_or_default)
    })
}

fn page(source: &RowSource<'_>, bucket: &BucketState, query: &ScanQuery, now_ms: u64) -> Result<Page, StoreError> {
    let end = tables::after_prefix(&query.prefix);
    let from =
        if query.after < query.prefix { Bound::Included(&*query.prefix) } else { Bound::Excluded(&*query.after) };
    // redb panics on a range with its start after its end.
    if end.as_ref().is_some_and(|end| **end <= *query.after) {
        return Ok(Page::default());
    }
    let mut builder = PageBuilder { query, now_ms, page: Page::default(), bytes: 0, expired: 0, last: None };
    match source {
        RowSource::Rows(rows) => {
            let to = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            for row in rows.range::<&[u8]>((from, to))? {
                let (key, row) = row?;
                if !builder.push(key.value(), row.value()) {
                    break;
                }
            }
        }
        RowSource::Salvage(salvage) => {
            let first = match from {
                Bound::Excluded(after) => [after, &[0]].concat(),
                _ => query.prefix.to_vec(),
            };
            let scanned = salvage.scan(&bucket.name, (&first, end.as_deref()), &mut |key, row| builder.push(key, row));
            match scanned {
                // Return the rows before the damage; the next page reports the damage.
                Err(StoreError::Damaged(_)) if builder.last.is_some() => builder.page.next = builder.last.take(),
                scanned => scanned?,
            }
        }
    }
    Ok(builder.page)
}

/// A page under construction.
struct PageBuilder<'a> {
    query: &'a ScanQuery,
    now_ms: u64,
    page: Page,
    bytes: usize,
    /// Number of rows that were skipped because they have expired.
    expired: usize,
    last: Option<Bytes>,
}

impl PageBuilder<'_> {
    /// Adds a row; returns false if the page ends before it.
    fn push(&mut self, key: &[u8], row: &[u8]) -> bool {
        let (expiry_ms, value) = tables::read_row(row);
        let is_expired = tables::is_expired(expiry_ms, self.now_ms);
        let weight = if is_expired { 0 } else { key.len() + value.len() };
        let is_full = self.page.rows.len() == self.query.limit || self.expired == EXPIRED_ROWS_MAX;
        if is_full || (self.bytes + weight > self.query.bytes_max && !self.page.rows.is_empty()) {
            self.page.next = self.last.take();
            return false;
        }
        self.bytes += weight;
        let key = Bytes::copy_from_slice(key);
        self.last = Some(key.clone());
        if is_expired {
            self.expired += 1;
        } else {
            self.page.rows.push(Row { key, value: Bytes::copy_from_slice(value), expiry_ms });
        }
        true
    }
}

/// Source of a bucket's rows: a database, or the readable rest of one.
enum RowSource<'a> {
    Rows(&'a ReadRows),
    Salvage(&'a Salvage),
}

/// Reads the rows of a bucket at the last commit; returns `None` if the bucket does not exist yet.
fn with_rows<T>(
    core: &Core,
    bucket: &BucketState,
    reads: impl FnOnce(&RowSource<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let outcome = match core.disk.source() {
        Some(Source::Database(database)) => {
            let looked = database.run(|database| read_bucket(database, bucket, reads));
            drop(database);
            looked.unwrap_or_else(|Panicked| Err(StoreError::Failed(REDB_PANICKED.into())))
        }
        Some(Source::Salvage(salvage)) => return reads(&RowSource::Salvage(&salvage)).map(Some),
        None if core.is_closed() => return Err(StoreError::Closed),
        None => {
            core.request_recovery();
            return Err(Disk::unavailable(core.last_error()));
        }
    };
    outcome.map_err(|error| {
        let error = match error {
            StoreError::Corrupt(what) => StoreError::Corrupt(format!("bucket `{}`: {what}", bucket.name).into()),
            other => other,
        };
        core.record_error(&error);
        if matches!(error, StoreError::Failed(_) | StoreError::Corrupt(_)) {
            core.request_recovery();
        }
        error
    })
}

fn read_bucket<T>(
    database: &Database,
    bucket: &BucketState,
    reads: impl FnOnce(&RowSource<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    // Drop neither while a panic of redb unwinds: a second panic in a destructor would abort the program.
    let txn = ManuallyDrop::new(database.begin_read()?);
    let looked = match txn.open_table(tables::rows(&bucket.table)) {
        Ok(rows) => {
            let rows = ManuallyDrop::new(rows);
            let looked = reads(&RowSource::Rows(&rows)).map(Some);
            drop(ManuallyDrop::into_inner(rows));
            looked
        }
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    };
    drop(ManuallyDrop::into_inner(txn));
    looked
}
