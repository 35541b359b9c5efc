//! Jobs on a store: work that survives the node, is done later, retried, and acknowledged with its own writes.
//!
//! ```text
//!   enqueue ─▶ rows in the order of their due times ─▶ worker process ─▶ a process for each job ─▶ handler
//!                 ▲                                                            │
//!                 │   failed, crashed: again after a back-off, or dead ────────┤
//!                 └───────────────────────────────── done: removed in one transaction with the writes of the job
//! ```
//!
//! A job runs at least once: if the node ends before the acknowledgement is on disk, the job runs again. What a job writes
//! to the store happens exactly once, if it is written by the transaction of its acknowledgement, [`Done::with`].

mod crontab;
mod dead;
mod pending;
mod record;
mod worker;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::check_name;

use crate::config::defaults::SCAN_ROWS_MAX;
use crate::error::StoreError;
use crate::read::Row;
use crate::store::{Bucket, Store};
use crate::transaction::Transaction;
use crate::writer::write::Write;
use record::{Record, Repeat, key, parts};

pub use crontab::CrontabError;
pub use dead::{DeadJob, DeadJobId, DeadJobIdError};
pub use pending::PendingJob;
pub use worker::{Done, Job, Retry, Worker};

/// Maximum number of jobs that one transaction revives: each is up to five writes.
const REVIVED_MAX: usize = 1_000;

/// A queue of jobs on a store; cheap to clone. Only one program can have the store open: others enqueue through it, for
/// example by a request that it serves.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
/// use rusm::{Config, Runtime};
/// use rusm::store::jobs::{Done, Enqueued, Jobs, NewJob};
/// use rusm::store::{Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let sent = store.bucket("sent")?;
/// let mails = Jobs::open(&store, "mails")?;
///
/// let runtime = Runtime::start(Config::default())?;
/// runtime.block_on(move |ctx| async move {
///     let log = sent.clone();
///     let worker = mails.worker(move |_ctx, job| {
///         let log = log.clone();
///         async move {
///             // … send the mail …
///             let to = job.payload().clone();
///             Ok::<_, String>(Done::with(move |tx| tx.put(&log, to, "sent")))
///         }
///     });
///     worker.start_link(&ctx).await.expect("the store works");
///
///     assert_eq!(mails.enqueue(NewJob::new("ada").unique("ada")).await?, Enqueued::New);
///     while sent.get("ada").await?.is_none() {
///         ctx.yield_now().await;
///     }
///     Ok::<(), rusm::store::StoreError>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Jobs {
    store: Store,
    rows: Bucket,
    unique: Bucket,
    dead: Bucket,
    /// Errors of the dead jobs, by their keys.
    errors: Bucket,
    numbers: Bucket,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("rows", &self.rows).finish_non_exhaustive()
    }
}

/// A job to enqueue.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use std::time::Duration;
///
/// use rusm::store::jobs::NewJob;
///
/// // In an hour, and at most once for this customer.
/// let reminder = NewJob::new("remind ada").after(Duration::from_secs(3_600)).unique("reminder of ada");
/// // Each day.
/// let report = NewJob::new("report").every(Duration::from_secs(86_400));
/// // At nine o'clock in Paris, from Monday to Friday.
/// let greeting = NewJob::new("good morning").crontab("0 9 * * MON-FRI Europe/Paris")?.unique("greeting");
/// # Ok::<(), rusm::store::jobs::CrontabError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewJob {
    payload: Bytes,
    after: Duration,
    repeat: Repeat,
    unique: Bytes,
}

impl NewJob {
    /// Creates a job that is due at once.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self { payload: payload.into(), after: Duration::ZERO, repeat: Repeat::Never, unique: Bytes::new() }
    }

    /// Delays the job at least by this time. Jobs run in the order of their due times, so it waits for those that were due
    /// before. The clock is that of the store: the delay goes on while no node runs.
    ///
    /// A worker that runs fewer jobs than its [`concurrency`](Worker::concurrency) sleeps until this time, and normally starts
    /// the job within a few milliseconds of it. After a failure of the disk, at the process limit, or after a change of the
    /// system's clock, it looks again after a second.
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// Runs the job again and again, `interval` after each time that it was done or has failed for good. Combine it with
    /// [`unique`](Self::unique), so that each start of the program does not add another one.
    pub fn every(self, interval: Duration) -> Self {
        let repeat = if interval.is_zero() { Repeat::Never } else { Repeat::After(millis(interval).max(1)) };
        Self { repeat, ..self }
    }

    /// Runs the job at each time of a crontab expression: minute, hour, day of the month, month, and day of the week, then
    /// the time zone, which is UTC if it is missing. The first run is at the first such time, after the
    /// [delay](Self::after). After times that pass while no worker runs, or while the job runs, it runs once. A time that
    /// does not exist on a day, such as 2:30 when summer time begins, is left out on that day.
    /// Combine it with [`unique`](Self::unique), so that each start of the program does not add another one.
    ///
    /// # Errors
    /// [`CrontabError`] if the expression is not valid, longer than 255 bytes, or does not match any time of 48 years.
    pub fn crontab(self, expression: &str) -> Result<Self, CrontabError> {
        crontab::check(expression)?;
        Ok(Self { repeat: Repeat::Crontab(Bytes::copy_from_slice(expression.as_bytes())), ..self })
    }

    /// Does not add the job while one with the same key is enqueued or runs. Adding a job with a key of more than
    /// 1,024 bytes is an error.
    pub fn unique(self, key: impl Into<Bytes>) -> Self {
        Self { unique: key.into(), ..self }
    }
}

/// Outcome of adding a job.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::jobs::{Enqueued, Jobs, NewJob};
/// # use rusm::store::{Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// # let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let reports = Jobs::open(&store, "reports")?;
/// let report = NewJob::new("sales").unique("sales");
/// assert_eq!(reports.blocking_enqueue(report.clone())?, Enqueued::New);
/// assert_eq!(reports.blocking_enqueue(report)?, Enqueued::Exists);
/// assert_eq!(reports.counts().pending, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// The job was added.
    New,
    /// A job with the same unique key is there; nothing was changed.
    Exists,
}

/// Maximum length of a unique key, in bytes.
const UNIQUE_MAX: usize = 1_024;
/// Maximum length of the error of a dead job, in bytes.
const ERROR_MAX: usize = 1_024;
const NEXT: &str = "next";

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Numbers of the jobs of a queue; see [`Jobs::counts`].
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::jobs::{JobCounts, Jobs, NewJob};
/// # use rusm::store::{Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// # let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let mails = Jobs::open(&store, "mails")?;
/// for name in ["ada", "bob"] {
///     mails.blocking_enqueue(NewJob::new(name))?;
/// }
/// assert_eq!(mails.counts(), JobCounts { pending: 2, dead: 0 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Jobs that are enqueued or run.
    pub pending: u64,
    /// Dead jobs.
    pub dead: u64,
}

impl Jobs {
    /// Opens a queue. The names of its buckets in the store begin with `jobs/` and the name of the queue.
    ///
    /// # Errors
    /// [`StoreError`] if the name is not valid, or there are too many buckets.
    pub fn open(store: &Store, queue: &str) -> Result<Self, StoreError> {
        check_name("queue", queue)?;
        let bucket = |part: &str| store.bucket_of_any_length(&format!("jobs/{queue}/{part}"));
        Ok(Self {
            store: store.clone(),
            rows: bucket("rows")?,
            unique: bucket("unique")?,
            dead: bucket("dead")?,
            errors: bucket("errors")?,
            numbers: bucket("numbers")?,
        })
    }

    /// Adds a job. It is on disk when this returns, and the worker of the queue, if it runs, has been woken to look for it.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails, or the payload is too large.
    pub async fn enqueue(&self, job: NewJob) -> Result<Enqueued, StoreError> {
        let enqueued = self.enqueue_job(job).await;
        self.wake();
        enqueued
    }

    /// Like [`enqueue`](Self::enqueue), for a thread outside of processes.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn blocking_enqueue(&self, job: NewJob) -> Result<Enqueued, StoreError> {
        let enqueued = self.enqueue_job(job).wait();
        self.wake();
        enqueued
    }

    fn enqueue_job(&self, job: NewJob) -> Write<Enqueued> {
        let (jobs, bytes) = (self.clone(), job.payload.len() + job.unique.len());
        self.store.transaction_of(bytes, move |tx| jobs.enqueue_in(tx, &job))
    }

    /// Adds a job in a transaction of the program, so that it exists if and only if the other writes of that transaction
    /// do. The worker finds it within a second; [`wake`](Self::wake) after the commit lets it look at once.
    ///
    /// ```
    /// # mod rusm { pub use rusm_store as store; }
    /// use rusm::store::jobs::{Jobs, NewJob};
    /// use rusm::store::{Store, StoreConfig};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
    /// let (orders, mails) = (store.bucket("orders")?, Jobs::open(&store, "mails")?);
    ///
    /// let queue = mails.clone();
    /// let order = store.transaction(move |tx| {
    ///     tx.put(&orders, "7", "two books")?;
    ///     queue.enqueue_in(tx, &NewJob::new("thank for order 7"))
    /// });
    /// order.wait()?;
    /// mails.wake();
    ///
    /// assert_eq!(mails.counts().pending, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_in(&self, tx: &mut Transaction<'_, '_>, job: &NewJob) -> Result<Enqueued, StoreError> {
        if job.unique.len() > UNIQUE_MAX {
            return Err(StoreError::Key { bytes: job.unique.len(), max: UNIQUE_MAX });
        }
        if self.is_taken(tx, &job.unique)? {
            return Ok(Enqueued::Exists);
        }
        let (repeat, unique) = (job.repeat.clone(), job.unique.clone());
        let record = Record { attempt: 0, repeat, unique, payload: job.payload.clone() };
        let mut due_ms = self.now_ms().saturating_add(millis(job.after));
        if let Repeat::Crontab(expression) = &job.repeat {
            due_ms = crontab::next_ms(expression, due_ms).unwrap_or(due_ms);
        }
        self.add(tx, &record, due_ms)?;
        Ok(Enqueued::New)
    }

    /// Lets the worker look for jobs at once.
    pub fn wake(&self) {
        if let Some((runtime, pid)) = self.store.0.core.job_workers.lock().get(self.queue()) {
            // A full mailbox has such a message already.
            drop(runtime.try_send(*pid, worker::Wake));
        }
    }

    /// Returns how many jobs there are.
    pub fn counts(&self) -> JobCounts {
        let report = self.store.report();
        let keys = |bucket: &Bucket| {
            report.buckets.iter().find(|found| *found.name == *bucket.name()).map_or(0, |found| found.keys)
        };
        JobCounts { pending: keys(&self.rows), dead: keys(&self.dead) }
    }

    /// Returns up to `limit` jobs that wait or run, in the order of their due times.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails.
    pub async fn pending(&self, limit: usize) -> Result<Vec<PendingJob>, StoreError> {
        Ok(rows_of(&self.rows, limit).await?.iter().filter_map(PendingJob::decode).collect())
    }

    /// Like [`pending`](Self::pending), for a thread outside of processes.
    ///
    /// # Errors
    /// As [`pending`](Self::pending).
    pub fn blocking_pending(&self, limit: usize) -> Result<Vec<PendingJob>, StoreError> {
        Ok(blocking_rows_of(&self.rows, limit)?.iter().filter_map(PendingJob::decode).collect())
    }

    /// Returns up to `limit` dead jobs, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails.
    pub async fn dead(&self, limit: usize) -> Result<Vec<DeadJob>, StoreError> {
        let mut found = Vec::new();
        for row in &rows_of(&self.dead, limit).await? {
            let error = self.errors.get(&row.key).await?;
            found.extend(DeadJob::decode(row, error));
        }
        Ok(found)
    }

    /// Like [`dead`](Self::dead), for a thread outside of processes.
    ///
    /// # Errors
    /// As [`dead`](Self::dead).
    pub fn blocking_dead(&self, limit: usize) -> Result<Vec<DeadJob>, StoreError> {
        let mut found = Vec::new();
        for row in &blocking_rows_of(&self.dead, limit)? {
            let error = self.errors.get(&row.key).wait()?;
            found.extend(DeadJob::decode(row, error));
        }
        Ok(found)
    }

    /// Enqueues up to `limit` dead jobs again, oldest first, with new attempts. Returns their number. A job stays dead
    /// if another one has its unique key meanwhile.
    ///
    /// ```
    /// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
    /// use rusm::{Config, ExitReason, Runtime};
    /// use rusm::store::jobs::{Done, Jobs, NewJob, Retry};
    /// use rusm::store::{Store, StoreConfig};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
    /// let mails = Jobs::open(&store, "mails")?;
    /// mails.blocking_enqueue(NewJob::new("ada"))?;
    ///
    /// let runtime = Runtime::start(Config::default())?;
    /// runtime.block_on(move |ctx| async move {
    ///     let worker = mails.worker(|_ctx, _job| async { Err::<Done, _>("the mail server refuses") });
    ///     let worker = worker.retry(Retry { attempts: 1, ..Retry::default() });
    ///     let worker = worker.start_link(&ctx).await.expect("there is room for a process");
    ///     while mails.dead(10).await?.is_empty() {
    ///         ctx.yield_now().await;
    ///     }
    ///
    ///     // The mail server works again.
    ///     ctx.unlink(worker);
    ///     ctx.exit(worker, ExitReason::Shutdown);
    ///     assert_eq!(mails.revive(10).await?, 1);
    ///     assert_eq!(mails.counts().pending, 1);
    ///     Ok::<(), rusm::store::StoreError>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails.
    pub async fn revive(&self, limit: usize) -> Result<usize, StoreError> {
        let (mut revived, mut after, mut left) = (0, Bytes::new(), limit);
        while left > 0 {
            let page = self.dead.scan("", &after, left.min(REVIVED_MAX)).await?;
            left -= page.rows.len();
            revived += self.revive_all(page.rows).await?;
            self.wake();
            let Some(next) = page.next else { break };
            after = next;
        }
        Ok(revived)
    }

    /// Like [`revive`](Self::revive), for a thread outside of processes.
    ///
    /// # Errors
    /// As [`revive`](Self::revive).
    pub fn blocking_revive(&self, limit: usize) -> Result<usize, StoreError> {
        let (mut revived, mut after, mut left) = (0, Bytes::new(), limit);
        while left > 0 {
            let page = self.dead.scan("", &after, left.min(REVIVED_MAX)).wait()?;
            left -= page.rows.len();
            revived += self.revive_all(page.rows).wait()?;
            self.wake();
            let Some(next) = page.next else { break };
            after = next;
        }
        Ok(revived)
    }

    /// Enqueues one dead job again, with new attempts. Returns false if it is not there, or if another one has its
    /// unique key meanwhile.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails.
    pub async fn revive_one(&self, id: DeadJobId) -> Result<bool, StoreError> {
        let revived = self.revive_by(id).await?;
        self.wake();
        Ok(revived)
    }

    /// Like [`revive_one`](Self::revive_one), for a thread outside of processes.
    ///
    /// # Errors
    /// As [`revive_one`](Self::revive_one).
    pub fn blocking_revive_one(&self, id: DeadJobId) -> Result<bool, StoreError> {
        let revived = self.revive_by(id).wait()?;
        self.wake();
        Ok(revived)
    }

    /// Removes a dead job for good. Returns false if it is not there.
    ///
    /// # Errors
    /// [`StoreError`] if the disk fails.
    pub async fn discard(&self, id: DeadJobId) -> Result<bool, StoreError> {
        self.discard_by(id).await
    }

    /// Like [`discard`](Self::discard), for a thread outside of processes.
    ///
    /// # Errors
    /// As [`discard`](Self::discard).
    pub fn blocking_discard(&self, id: DeadJobId) -> Result<bool, StoreError> {
        self.discard_by(id).wait()
    }

    fn revive_by(&self, id: DeadJobId) -> Write<bool> {
        let (jobs, key) = (self.clone(), id.key());
        self.store.transaction(move |tx| {
            let Some(value) = tx.get(&jobs.dead, key)? else { return Ok(false) };
            jobs.revive_row(tx, &key, &value)
        })
    }

    fn discard_by(&self, id: DeadJobId) -> Write<bool> {
        let (jobs, key) = (self.clone(), id.key());
        self.store.transaction(move |tx| {
            let is_there = tx.get(&jobs.dead, key)?.is_some();
            tx.delete(&jobs.dead, key)?;
            tx.delete(&jobs.errors, key)?;
            Ok(is_there)
        })
    }

    fn revive_all(&self, rows: Vec<Row>) -> Write<usize> {
        let jobs = self.clone();
        self.store.transaction(move |tx| {
            let mut revived = 0;
            for row in &rows {
                // Another task may have revived it since it was read.
                if tx.get(&jobs.dead, &row.key)?.is_some() && jobs.revive_row(tx, &row.key, &row.value)? {
                    revived += 1;
                }
            }
            Ok(revived)
        })
    }

    /// Enqueues a dead job again, unless another one has its unique key, or its row has another form.
    fn revive_row(&self, tx: &mut Transaction<'_, '_>, key: &[u8], value: &Bytes) -> Result<bool, StoreError> {
        let Some(record) = Record::decode(value) else { return Ok(false) };
        if self.is_taken(tx, &record.unique)? {
            return Ok(false);
        }
        tx.delete(&self.dead, key)?;
        tx.delete(&self.errors, key)?;
        self.add(tx, &Record { attempt: 0, ..record }, self.now_ms())?;
        Ok(true)
    }

    /// Creates a worker that runs `handler` in a process of its own for each job.
    pub fn worker<H, F, E>(&self, handler: H) -> Worker
    where
        H: Fn(rusm_runtime::Context, Job) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Done, E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        Worker::new(self.clone(), handler)
    }

    /// Returns the name of the queue.
    fn queue(&self) -> &str {
        let name = self.rows.name();
        name.strip_prefix("jobs/").and_then(|name| name.strip_suffix("/rows")).unwrap_or(name)
    }

    fn now_ms(&self) -> u64 {
        self.store.config().clock.now_ms()
    }

    /// Returns true if a job that is enqueued or runs has this unique key.
    fn is_taken(&self, tx: &mut Transaction<'_, '_>, unique: &[u8]) -> Result<bool, StoreError> {
        Ok(!unique.is_empty() && tx.get(&self.unique, unique)?.is_some())
    }

    fn add(&self, tx: &mut Transaction<'_, '_>, record: &Record, due_ms: u64) -> Result<(), StoreError> {
        let number =
            tx.get(&self.numbers, NEXT)?.and_then(|text| text.as_ref().try_into().ok()).map_or(0, u64::from_be_bytes);
        tx.put(&self.numbers, NEXT, number.wrapping_add(1).to_be_bytes().to_vec())?;
        let key = key(due_ms, number);
        if !record.unique.is_empty() {
            tx.put(&self.unique, &record.unique, key.to_vec())?;
        }
        tx.put(&self.rows, key, record.encode())
    }

    /// Removes a job that is done, and adds its next run. False if the job is not there.
    fn finish(&self, tx: &mut Transaction<'_, '_>, key: &[u8], record: &Record) -> Result<bool, StoreError> {
        if tx.get(&self.rows, key)?.is_none() {
            return Ok(false);
        }
        self.remove(tx, key, record)?;
        self.add_next(tx, record)?;
        Ok(true)
    }

    /// Adds the next run of a job, if it has one.
    fn add_next(&self, tx: &mut Transaction<'_, '_>, record: &Record) -> Result<(), StoreError> {
        let now_ms = self.now_ms();
        let due_ms = match &record.repeat {
            Repeat::Never => None,
            Repeat::After(interval_ms) => Some(now_ms.saturating_add(*interval_ms)),
            Repeat::Crontab(expression) => crontab::next_ms(expression, now_ms),
        };
        if due_ms.is_none() && record.repeat != Repeat::Never {
            tracing::warn!(queue = self.queue(), "a repeated job ends: its crontab matches no later time");
        }
        due_ms.map_or(Ok(()), |due_ms| self.add(tx, &Record { attempt: 0, ..record.clone() }, due_ms))
    }

    /// Delays a job that has failed; without a delay, it is dead of the error `why`, and its id among the dead is returned. The
    /// next run of a repeated job is another job; a `hopeless` job does not run again.
    fn fail(
        &self,
        tx: &mut Transaction<'_, '_>,
        key: &[u8],
        record: &Record,
        delay: Option<Duration>,
        (why, hopeless): (&str, bool),
    ) -> Result<Option<DeadJobId>, StoreError> {
        if tx.get(&self.rows, key)?.is_none() {
            return Ok(None);
        }
        self.remove(tx, key, record)?;
        let due_ms = self.now_ms().saturating_add(millis(delay.unwrap_or_default()));
        if delay.is_some() {
            self.add(tx, record, due_ms)?;
            return Ok(None);
        }
        let number = parts(key).map_or(0, |(_, number)| number);
        let mut dead = record.clone();
        if record.repeat != Repeat::Never && !hopeless {
            self.add_next(tx, record)?;
            (dead.repeat, dead.unique) = (Repeat::Never, Bytes::new());
        }
        let id = DeadJobId::of(due_ms, number);
        tx.put(&self.errors, id.key(), why.as_bytes()[..why.floor_char_boundary(ERROR_MAX)].to_vec())?;
        tx.put(&self.dead, id.key(), dead.encode())?;
        Ok(Some(id))
    }

    fn remove(&self, tx: &mut Transaction<'_, '_>, key: &[u8], record: &Record) -> Result<(), StoreError> {
        tx.delete(&self.rows, key)?;
        let owner = if record.unique.is_empty() { None } else { tx.get(&self.unique, &record.unique)? };
        if owner.is_some_and(|owner| *owner == *key) { tx.delete(&self.unique, &record.unique) } else { Ok(()) }
    }
}

/// Reads up to `limit` rows of a bucket, page by page.
async fn rows_of(bucket: &Bucket, limit: usize) -> Result<Vec<Row>, StoreError> {
    let (mut rows, mut after) = (Vec::new(), Bytes::new());
    while rows.len() < limit {
        let page = bucket.scan("", &after, (limit - rows.len()).min(SCAN_ROWS_MAX)).await?;
        rows.extend(page.rows);
        let Some(next) = page.next else { break };
        after = next;
    }
    Ok(rows)
}

/// Like [`rows_of`], for a thread outside of processes.
fn blocking_rows_of(bucket: &Bucket, limit: usize) -> Result<Vec<Row>, StoreError> {
    let (mut rows, mut after) = (Vec::new(), Bytes::new());
    while rows.len() < limit {
        let page = bucket.scan("", &after, (limit - rows.len()).min(SCAN_ROWS_MAX)).wait()?;
        rows.extend(page.rows);
        let Some(next) = page.next else { break };
        after = next;
    }
    Ok(rows)
}
