//! The process that runs jobs: it looks for due ones, and starts a process for each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusm_runtime::supervisor::ChildSpec;
use rusm_runtime::{Context, Down, Exit, ExitReason, InitError, MonitorRef, Pid, SpawnError, embed};
use rusm_text::escaped;

use super::Jobs;
use super::record::{KEY, Record, parts};
use crate::config::defaults::SCAN_ROWS_MAX;
use crate::core::Core;
use crate::error::StoreError;
use crate::transaction::Transaction;

/// Longest time until a worker looks for jobs again: others may have added some without waking it, and a disk that was
/// full may have room again.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of bytes of an error in a line about a dead job.
const WHY_MAX_BYTES: usize = 4096;

/// Message that lets a worker look for jobs.
pub(super) struct Wake;

/// Message of the process of a job: the handler returned an error, or that the job is dead.
struct Failed {
    key: [u8; KEY],
    error: String,
    /// False if no further attempt can succeed.
    may_retry: bool,
}

/// A job that runs.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
/// use rusm::store::jobs::{Done, Job, Jobs, NewJob};
/// # use rusm::store::{Store, StoreConfig};
///
/// async fn send_mail(job: Job) -> Result<Done, String> {
///     let address = std::str::from_utf8(job.payload()).map_err(|error| error.to_string())?;
///     println!("attempt {} to send a mail to {address}", job.attempt());
///     // … an error here is retried …
///     Ok(Done::new())
/// }
///
/// # let directory = tempfile::tempdir()?;
/// # let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let mails = Jobs::open(&store, "mails")?;
/// mails.blocking_enqueue(NewJob::new("ada@example.org"))?;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # runtime.block_on(move |ctx| async move {
/// mails.worker(|_ctx, job| send_mail(job)).start_link(&ctx).await.expect("there is room for a process");
/// #     while mails.counts().pending > 0 {
/// #         ctx.yield_now().await;
/// #     }
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Job {
    record: Record,
}

impl Job {
    /// Returns the payload.
    pub const fn payload(&self) -> &Bytes {
        &self.record.payload
    }

    /// Returns the number of this attempt, from 1. An attempt counts from its start, also if the worker or the node ends
    /// during it.
    pub const fn attempt(&self) -> u32 {
        self.record.attempt
    }
}

type Writes = Box<dyn FnOnce(&mut Transaction<'_, '_>) -> Result<(), StoreError> + Send>;

/// Value that a handler returns for a job that is done.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use rusm::store::Bucket;
/// use rusm::store::jobs::{Done, Job};
///
/// /// A job without writes of its own.
/// async fn send_mail(job: Job) -> Result<Done, String> {
///     println!("a mail of {} bytes", job.payload().len());
///     Ok(Done::new())
/// }
///
/// /// Both this row and the end of the job are on disk, or neither is.
/// async fn ship_order(shipped: Bucket, job: Job) -> Result<Done, String> {
///     Ok(Done::with(move |tx| tx.put(&shipped, job.payload(), "shipped")))
/// }
///
/// /// A payload that cannot be read will not become readable: this is not tried again.
/// async fn count(job: Job) -> Result<Done, String> {
///     let Ok(text) = std::str::from_utf8(job.payload()) else { return Ok(Done::dead("not a text")) };
///     println!("{} words", text.split_whitespace().count());
///     Ok(Done::new())
/// }
/// ```
#[derive(Default)]
pub struct Done(Outcome);

#[derive(Default)]
enum Outcome {
    #[default]
    Plain,
    With(Writes),
    Dead(String),
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Outcome::Plain => f.write_str("Done"),
            Outcome::With(_) => f.write_str("Done(with writes)"),
            Outcome::Dead(error) => write!(f, "Done(dead: {error})"),
        }
    }
}

impl Done {
    /// The job is done.
    pub fn new() -> Self {
        Self::default()
    }

    /// The job is done, and writes this in the transaction of its acknowledgement: both are on disk, or neither. If the
    /// code returns an error, the job has failed.
    pub fn with(writes: impl FnOnce(&mut Transaction<'_, '_>) -> Result<(), StoreError> + Send + 'static) -> Self {
        Self(Outcome::With(Box::new(writes)))
    }

    /// The job can never succeed: it is [dead](Jobs::dead) at once of this error, however many attempts are left. A repeated
    /// job does not run again, until it is [revived](Jobs::revive).
    pub fn dead(error: impl fmt::Display) -> Self {
        Self(Outcome::Dead(error.to_string()))
    }
}

/// Number and delays of the attempts of a job that fails. By default ten attempts, after 1 s, 2 s, 4 s, and so on, at most an
/// hour.
///
/// ```
/// # mod rusm { pub use rusm_store as store; }
/// use std::time::Duration;
///
/// use rusm::store::jobs::Retry;
///
/// // After 200 ms, 400 ms, 800 ms and 1 s; then the job is dead.
/// let retry = Retry { attempts: 5, first: Duration::from_millis(200), longest: Duration::from_secs(1) };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Number of attempts after which a job is dead.
    pub attempts: u32,
    /// Delay before the second attempt. It doubles with each further one.
    pub first: Duration,
    /// Longest delay.
    pub longest: Duration,
}

/// Ten attempts, after 1 s, 2 s, 4 s, and so on, at most an hour.
impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 10, first: Duration::from_secs(1), longest: Duration::from_hours(1) }
    }
}

impl Retry {
    /// Returns the delay after an attempt; `None` if it was the last.
    fn delay(self, attempt: u32) -> Option<Duration> {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX));
        (attempt < self.attempts).then(|| doubled.min(self.longest))
    }
}

/// The place of the worker of a queue, until it is dropped.
struct Place {
    core: Arc<Core>,
    queue: Box<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.core.job_workers.lock().remove(&self.queue);
    }
}

type Handler = dyn Fn(Context, Job) -> Pin<Box<dyn Future<Output = Result<Done, String>> + Send>> + Send + Sync;

/// Specification of a worker; see [`Jobs::worker`]. A queue has one worker at a time: a second one ends at its start.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
/// use rusm::{Config, Runtime};
/// use rusm::store::jobs::{Done, Job, Jobs, NewJob};
/// use rusm::store::{Store, StoreConfig};
///
/// # let directory = tempfile::tempdir()?;
/// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
/// let (mails, sent) = (Jobs::open(&store, "mails")?, store.bucket("sent")?);
/// mails.blocking_enqueue(NewJob::new("ada"))?;
///
/// let runtime = Runtime::start(Config::default())?;
/// let (jobs, done) = (mails.clone(), sent.clone());
/// runtime.block_on(move |ctx| async move {
///     let worker = jobs.worker(move |_ctx, job: Job| {
///         let sent = done.clone();
///         // The job ends and the row is written, or neither.
///         async move { Ok::<_, String>(Done::with(move |tx| tx.put(&sent, job.payload(), "sent"))) }
///     });
///     worker.start_link(&ctx).await.expect("there is room for a process");
///     while jobs.counts().pending > 0 {
///         ctx.yield_now().await;
///     }
/// });
/// assert_eq!(sent.get("ada").wait()?.as_deref(), Some(&b"sent"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Worker {
    jobs: Jobs,
    handler: Arc<Handler>,
    concurrency: usize,
    retry: Retry,
    /// Of the processes of its jobs.
    label: Arc<str>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("jobs", &self.jobs).field("retry", &self.retry).finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn new<H, F, E>(jobs: Jobs, handler: H) -> Self
    where
        H: Fn(Context, Job) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Done, E>> + Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        let handler = move |ctx: Context, job: Job| {
            let done = handler(ctx, job);
            Box::pin(async move { done.await.map_err(|error| error.to_string()) }) as Pin<Box<_>>
        };
        Self {
            label: format!("job of {}", jobs.queue()).into(),
            jobs,
            handler: Arc::new(handler),
            concurrency: 16,
            retry: Retry::default(),
        }
    }

    /// Sets the number of jobs that run at the same time. Default: 16.
    pub fn concurrency(self, concurrency: usize) -> Self {
        Self { concurrency: concurrency.max(1), ..self }
    }

    /// Sets when a failed job runs again.
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// Starts the worker, linked to this process.
    ///
    /// # Errors
    /// [`InitError`](rusm_runtime::InitError) if the queue has a worker, or the process limit is reached.
    pub async fn start_link(self, ctx: &Context) -> Result<Pid, InitError> {
        ctx.start_link(|ctx, starting| async move {
            let _place = match self.place(&ctx) {
                Ok(place) => place,
                Err(taken) => return taken,
            };
            starting.acknowledge();
            self.run(ctx).await
        })
        .await
    }

    /// Returns the specification of a permanent child that runs the worker.
    ///
    /// ```
    /// # mod rusm { pub use rusm_runtime::*; pub use rusm_store as store; }
    /// use rusm::supervisor::{Strategy, Supervisor};
    /// use rusm::store::jobs::{Done, Jobs};
    /// use rusm::store::{Store, StoreConfig};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let store = Store::open(directory.path().join("node.redb"), StoreConfig::default())?;
    /// let mails = Jobs::open(&store, "mails")?;
    ///
    /// let worker = mails.worker(|_ctx, job| async move {
    ///     println!("attempt {} to send {:?}", job.attempt(), job.payload());
    ///     Ok::<_, String>(Done::new())
    /// });
    /// let tree = Supervisor::new(Strategy::OneForOne).child(worker.concurrency(4).child("mails"));
    /// # drop(tree);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn child(self, id: impl Into<Arc<str>>) -> ChildSpec {
        ChildSpec::new(id, move |ctx| {
            let worker = self.clone();
            async move {
                match worker.place(&ctx) {
                    Ok(_place) => worker.run(ctx).await,
                    Err(taken) => taken,
                }
            }
        })
    }

    /// Makes this process the worker of the queue.
    ///
    /// # Errors
    /// An exit reason, if there is one already.
    fn place(&self, ctx: &Context) -> Result<Place, ExitReason> {
        let (core, queue) = (Arc::clone(&self.jobs.store.0.core), self.jobs.queue());
        match core.job_workers.lock().entry(queue.into()) {
            Entry::Occupied(_) => return Err(ExitReason::other(format_args!("queue {queue:?} has a worker already"))),
            Entry::Vacant(place) => place.insert((ctx.runtime(), ctx.pid())),
        };
        Ok(Place { core, queue: queue.into() })
    }

    /// Runs jobs until the store is closed or damaged, or the process is stopped. An orderly stop waits for the jobs that run,
    /// until their supervisor or the runtime kills the worker; any other end stops them.
    async fn run(self, ctx: Context) -> ExitReason {
        self.run_until_stopped(&ctx).await.err().unwrap_or(ExitReason::Normal)
    }

    /// Lets a worker go on after a failure of the disk that may pass; the jobs concerned are still in the queue.
    ///
    /// # Errors
    /// The failure, if the store does not work any more.
    fn wait_out(&self, failed: StoreError) -> Result<(), ExitReason> {
        match failed {
            StoreError::Full | StoreError::Failed(_) | StoreError::Unavailable(_) => {
                tracing::warn!(queue = self.jobs.queue(), error = %failed, "the worker of jobs waits for the disk");
                Ok(())
            }
            failed => Err(failed.into()),
        }
    }

    async fn run_until_stopped(&self, ctx: &Context) -> Result<(), ExitReason> {
        // A job that crashes must not end the worker.
        ctx.trap_exits(true);
        let parent = ctx.parent().unwrap_or(Pid::NONE);
        let mut running: HashMap<[u8; KEY], (MonitorRef, Record)> = HashMap::new();
        let mut has_disk = true;
        let mut has_room = true;
        let mut unmatched = 0;
        // The reason of an orderly stop, while jobs still run.
        let mut stop: Option<ExitReason> = None;
        loop {
            if let Some(reason) = stop.take_if(|_| running.is_empty()) {
                return Err(reason);
            }
            let starts = has_disk && stop.is_none();
            let wait = if starts { self.start_due(ctx, &mut running, &mut has_room).await? } else { LOOK };
            has_disk = true;
            let Some(message) = ctx.receive_timeout(wait).await else { continue };
            let (key, why, may_retry) = match message.downcast::<Failed>() {
                Ok(Failed { key, error, may_retry }) => (key, error, may_retry),
                Err(message) => match message.downcast::<Down>() {
                    Ok(down) => {
                        let found = running.iter().find(|(_, (reference, _))| *reference == down.reference);
                        let Some(key) = found.map(|(key, _)| *key) else { continue };
                        if down.reason == ExitReason::Normal {
                            running.remove(&key);
                            continue;
                        }
                        (key, down.reason.to_string(), true)
                    }
                    Err(message) => match message.downcast::<Exit>() {
                        Ok(exit) if exit.from == parent || exit.from == Pid::NONE => {
                            if !exit.reason.is_normal() {
                                return Err(exit.reason);
                            }
                            stop = Some(exit.reason);
                            continue;
                        }
                        // The end of a job, which its monitor reports too.
                        Ok(_) => continue,
                        Err(message) => {
                            if !message.is::<Wake>() {
                                embed::log_unmatched(ctx, &message, &mut unmatched);
                            }
                            continue;
                        }
                    },
                },
            };
            if let Some((reference, record)) = running.remove(&key) {
                ctx.demonitor_flush(reference);
                if let Err(failed) = self.retry_or_bury(ctx, key, record, (&why, may_retry)).await {
                    self.wait_out(failed)?;
                    has_disk = false;
                }
            }
        }
    }

    /// Starts the jobs that are due, and returns the time until the next one.
    async fn start_due(
        &self,
        ctx: &Context,
        running: &mut HashMap<[u8; KEY], (MonitorRef, Record)>,
        has_room: &mut bool,
    ) -> Result<Duration, ExitReason> {
        let now_ms = self.jobs.now_ms();
        let mut after = Bytes::new();
        // Rows of running jobs, and rows that a newer version wrote, may fill pages.
        while running.len() < self.concurrency {
            let limit = self.concurrency.saturating_add(running.len()).min(SCAN_ROWS_MAX);
            let page = match self.jobs.rows.scan("", &after, limit).await {
                Ok(page) => page,
                Err(failed) => {
                    self.wait_out(failed)?;
                    return Ok(LOOK);
                }
            };
            for row in page.rows {
                let (Some((due_ms, _)), Some(record)) = (parts(&row.key), Record::decode(&row.value)) else { continue };
                if due_ms > now_ms {
                    return Ok(LOOK.min(Duration::from_millis(due_ms - now_ms)));
                }
                let Ok(key) = <[u8; KEY]>::try_from(&row.key[..]) else { continue };
                if running.len() >= self.concurrency || running.contains_key(&key) {
                    continue;
                }
                if record.attempt >= self.retry.attempts {
                    let why = "the worker or the node ended during the last attempt";
                    if let Err(failed) = self.retry_or_bury(ctx, key, record, (why, true)).await {
                        self.wait_out(failed)?;
                        return Ok(LOOK);
                    }
                    continue;
                }
                let record = Record { attempt: record.attempt.saturating_add(1), ..record };
                match self.start(ctx, key, record.clone()) {
                    Ok(reference) => {
                        *has_room = true;
                        running.insert(key, (reference, record));
                    }
                    Err(error @ SpawnError::Limit { .. }) => {
                        if std::mem::take(has_room) {
                            tracing::warn!(queue = self.jobs.queue(), %error, "the worker of jobs waits for room");
                        }
                        return Ok(LOOK);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let Some(next) = page.next else { break };
            after = next;
        }
        Ok(LOOK)
    }

    fn start(&self, ctx: &Context, key: [u8; KEY], record: Record) -> Result<MonitorRef, SpawnError> {
        let (worker, jobs, handler) = (ctx.pid(), self.jobs.clone(), Arc::clone(&self.handler));
        let label = Arc::clone(&self.label);
        let (_, reference) = ctx.spawn_monitor(move |ctx| {
            async move {
                ctx.set_label(label);
                // The job ends with its worker, whatever happens to either.
                ctx.link(worker);
                let runtime = ctx.runtime();
                let (finished, may_retry) = match count_attempt(&jobs, key, record.clone()).await {
                    Ok(false) => (Ok(()), true),
                    Err(error) => (Err(error.to_string()), true),
                    Ok(true) => match handler(ctx, Job { record: record.clone() }).await {
                        Ok(Done(Outcome::Dead(error))) => (Err(error), false),
                        Ok(Done(outcome)) => {
                            let writes = if let Outcome::With(writes) = outcome { Some(writes) } else { None };
                            (finish(&jobs, key, record, writes).await.map_err(|error| error.to_string()), true)
                        }
                        Err(error) => (Err(error), true),
                    },
                };
                if let Err(error) = finished {
                    runtime.send(worker, Failed { key, error, may_retry }).await;
                }
            }
        })?;
        Ok(reference)
    }

    async fn retry_or_bury(
        &self,
        ctx: &Context,
        key: [u8; KEY],
        record: Record,
        (why, may_retry): (&str, bool),
    ) -> Result<(), StoreError> {
        let delay = self.retry.delay(record.attempt).filter(|_| may_retry);
        let (queue, attempt) = (self.jobs.queue(), record.attempt);
        let (jobs, error) = (self.jobs.clone(), why.to_owned());
        let failed =
            self.jobs.store.transaction_of_upkeep(move |tx| jobs.fail(tx, &key, &record, delay, (&error, !may_retry)));
        if let Some(id) = failed.await? {
            tracing::warn!(queue, %id, attempts = attempt, error = why, "job is dead");
            embed::print_without_subscriber(&ctx.runtime(), || {
                let (queue, why) = (escaped(queue), escaped(why).within(WHY_MAX_BYTES));
                format!("job {id} of queue {queue} is dead after attempt {attempt}: {why}")
            });
        } else if let Some(delay) = delay {
            tracing::info!(queue, attempt, error = why, ?delay, "a job failed and runs again");
        }
        Ok(())
    }
}

/// Writes that an attempt begins, so that a job that ends the node does not run for ever. False if the job is not there.
async fn count_attempt(jobs: &Jobs, key: [u8; KEY], record: Record) -> Result<bool, StoreError> {
    let owner = jobs.clone();
    let counted = jobs.store.transaction_of_upkeep(move |tx| {
        let is_there = tx.get(&owner.rows, key)?.is_some();
        if is_there {
            tx.put(&owner.rows, key, record.encode())?;
        }
        Ok::<bool, StoreError>(is_there)
    });
    counted.await
}

/// Acknowledges a job, and writes what it writes, in one transaction.
async fn finish(jobs: &Jobs, key: [u8; KEY], record: Record, writes: Option<Writes>) -> Result<(), StoreError> {
    let owner = jobs.clone();
    let finished = jobs.store.transaction(move |tx| {
        if owner.finish(tx, &key, &record)?
            && let Some(writes) = writes
        {
            writes(tx)?;
        }
        Ok::<(), StoreError>(())
    });
    finished.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_end() {
        let retry = Retry { attempts: 5, first: Duration::from_secs(1), longest: Duration::from_secs(3) };
        let delays: Vec<_> = (1..=5).map(|attempt| retry.delay(attempt).map(|delay| delay.as_secs())).collect();
        assert_eq!(delays, [Some(1), Some(2), Some(3), Some(3), None]);
        let endless = Retry { attempts: u32::MAX, ..retry };
        assert_eq!(endless.delay(4_000_000_000), Some(retry.longest));
    }
}
