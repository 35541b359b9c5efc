//! Stores counters in a redb file, with one writer thread and one transaction for all waiting calls.
//!
//! ```text
//!   call ──▶ jobs ──▶ rusm-counters: takes all waiting jobs ──▶ one transaction ──▶ commit ──▶ answers every call
//!                          └ eventual: a durable commit at least every 100 ms
//! ```
//!
//! A call that returned success is committed to the file and survives what its [`CommitDurability`] states. No
//! scheduler ever waits for the disk: callers are processes that await an answer.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use redb::{Database, Durability, ReadableTable, TableDefinition, WriteTransaction};
use rustc_hash::FxHashMap;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::{OpenError, Panicked, SafeDatabase};
use rusm_runtime::counter::{Account, Change, CounterStore, Places, Slot, StoreError};
use rusm_runtime::embed::is_scheduler_thread;

const TABLE: TableDefinition<'_, &str, i64> = TableDefinition::new("rusm.counters");
/// Longest time that a commit stays non-durable with [`CommitDurability::Eventual`].
const EVENTUAL: Duration = Duration::from_millis(100);
/// Shortest time after a failure during which writes fail without being attempted.
const REST: Duration = Duration::from_millis(100);
/// Reopening may read the whole file. The pause after a failure is at least this multiple of the failed attempt's
/// duration, so reopening takes about a tenth of the time at most.
const REST_FACTOR: u32 = 10;

/// Durability of an acknowledged write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitDurability {
    /// Not durable: writes since the last durable commit are lost when the process dies. Only closing the store makes a
    /// durable commit.
    None,
    /// Survives a crash of the process or the machine, except for the writes of the last 100 ms.
    Eventual,
    /// Survives a crash of the process and of the machine: each transaction waits for the disk.
    #[default]
    Immediate,
}

impl CommitDurability {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::None, Self::Eventual, Self::Immediate];

    /// Returns the name of the variant in lower case.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Eventual => "eventual",
            Self::Immediate => "immediate",
        }
    }
}

/// A counter store in a redb file.
pub struct RedbStore {
    line: Arc<Line>,
    thread: Option<JoinHandle<()>>,
}

struct Line {
    places: Places,
    jobs: Mutex<Jobs>,
    changed: Condvar,
    transactions: AtomicU64,
    durable: AtomicU64,
}

#[derive(Default)]
struct Jobs {
    waiting: Vec<Job>,
    closed: bool,
}

struct Job {
    work: Work,
    answer: oneshot::Sender<Result<i64, StoreError>>,
}

enum Work {
    Read(Slot),
    Set(Slot, i64),
    Add(Vec<Change>),
}

impl fmt::Debug for RedbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedbStore").field("transactions", &self.transactions()).finish_non_exhaustive()
    }
}

impl RedbStore {
    /// Opens or creates the file; blocks until its contents are read.
    ///
    /// # Errors
    /// [`StoreError::Storage`] with redb's error: the file is not a database, or is open in another process; the disk
    /// is full or read-only.
    pub fn open(path: impl AsRef<Path>, durability: CommitDurability) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let places = Places::default();
        let database = SafeDatabase::open(path).map_err(|error| StoreError::Storage(error.to_string()))?;
        let said = |error: Failure| StoreError::Storage(format!("cannot open {}: {error}", path.display()));
        run(&database, |database| load(database, &places)).map_err(said)?;
        let line = Arc::new(Line {
            places,
            jobs: Mutex::default(),
            changed: Condvar::new(),
            transactions: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        });
        let mut writer = Writer {
            path: path.to_owned(),
            database: Some(database),
            line: Arc::clone(&line),
            durability,
            durable_at: Instant::now(),
            owes: false,
            unsynced: FxHashMap::default(),
            rest: None,
        };
        let thread = Builder::new().name("rusm-counters".to_owned()).spawn(move || writer.write());
        let refused = |error: io::Error| StoreError::Storage(format!("cannot start the writer thread: {error}"));
        Ok(Self { line, thread: Some(thread.map_err(refused)?) })
    }

    /// Returns the number of committed transactions.
    pub fn transactions(&self) -> u64 {
        self.line.transactions.load(Ordering::Relaxed)
    }

    /// Returns the number of committed transactions that waited for the disk.
    pub fn durable_transactions(&self) -> u64 {
        self.line.durable.load(Ordering::Relaxed)
    }

    async fn ask(&self, work: Work) -> Result<i64, StoreError> {
        let (answer, answered) = oneshot::channel();
        {
            let mut jobs = self.line.jobs.lock();
            if jobs.closed {
                return Err(StoreError::Closed);
            }
            jobs.waiting.push(Job { work, answer });
        }
        self.line.changed.notify_one();
        answered.await.unwrap_or(Err(StoreError::Closed))
    }
}

impl Drop for RedbStore {
    /// Writes all pending jobs durably and waits until the file is closed. On a scheduler thread, which must not wait
    /// for the disk, it does not wait: the file is closed soon afterwards.
    fn drop(&mut self) {
        self.line.jobs.lock().closed = true;
        self.line.changed.notify_one();
        if let Some(thread) = self.thread.take().filter(|_| !is_scheduler_thread()) {
            // The panic hook has already reported any panic of the thread.
            drop(thread.join());
        }
    }
}

/// Reason why the file could not be read or written.
#[derive(Debug, Error)]
enum Failure {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Redb(#[from] redb::Error),
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

/// Runs code on the database.
fn run<T>(database: &SafeDatabase, code: impl FnOnce(&Database) -> Result<T, redb::Error>) -> Result<T, Failure> {
    Ok(database.run(code)??)
}

/// Runs code in a transaction and commits it. If redb panics, the transaction is leaked: a second panic in its
/// destructor would abort the program.
fn commit<T>(
    database: &Database,
    durability: Durability,
    code: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
) -> Result<T, redb::Error> {
    let mut transaction = ManuallyDrop::new(database.begin_write()?);
    let done = transaction.set_durability(durability).map_err(redb::Error::from).and_then(|()| code(&transaction));
    let transaction = ManuallyDrop::into_inner(transaction);
    let done = done?;
    transaction.commit()?;
    Ok(done)
}

fn load(database: &Database, places: &Places) -> Result<(), redb::Error> {
    commit(database, Durability::Immediate, |transaction| {
        for entry in transaction.open_table(TABLE)?.iter()? {
            let (key, value) = entry?;
            // Invalid keys were never written.
            places.slot(key.value(), value.value()).ok();
        }
        Ok(())
    })
}

/// State of the writer thread.
struct Writer {
    path: PathBuf,
    /// `None` after a failure until the file is reopened: redb rejects all operations after its first error.
    database: Option<SafeDatabase>,
    line: Arc<Line>,
    durability: CommitDurability,
    durable_at: Instant,
    /// True while a commit is not durable yet.
    owes: bool,
    /// Keys of the non-durable commits, which a failure undoes.
    unsynced: FxHashMap<Arc<str>, Slot>,
    /// After a failure: end of the pause, and the error returned to writes until then.
    rest: Option<(Instant, StoreError)>,
}

impl Drop for Writer {
    /// Closes the queue and drops the waiting jobs: no caller may wait for a thread that has ended for whatever reason.
    fn drop(&mut self) {
        let waiting = {
            let mut jobs = self.line.jobs.lock();
            jobs.closed = true;
            std::mem::take(&mut jobs.waiting)
        };
        drop(waiting);
    }
}

impl Writer {
    fn write(&mut self) {
        loop {
            let (jobs, closed) = self.wait();
            if !jobs.is_empty() {
                self.commit(jobs);
            }
            let is_late = self.durability == CommitDurability::Eventual && self.durable_at.elapsed() >= EVENTUAL;
            if self.owes && (closed || is_late) {
                self.make_durable();
            }
            if closed {
                return;
            }
        }
    }

    /// Waits for jobs, or until a durable commit is due.
    fn wait(&self) -> (Vec<Job>, bool) {
        let mut jobs = self.line.jobs.lock();
        while jobs.waiting.is_empty() && !jobs.closed {
            if self.owes && self.durability == CommitDurability::Eventual {
                let late = self.line.changed.wait_until(&mut jobs, self.durable_at + EVENTUAL).timed_out();
                if late {
                    break;
                }
            } else {
                self.line.changed.wait(&mut jobs);
            }
        }
        (std::mem::take(&mut jobs.waiting), jobs.closed)
    }

    fn commit(&mut self, jobs: Vec<Job>) {
        let outcome = self.attempt(&jobs);
        for (index, job) in jobs.into_iter().enumerate() {
            let answer = match &outcome {
                Ok(answers) => Ok(answers[index]),
                Err(error) => Err(error.clone()),
            };
            // The caller may have been dropped.
            drop(job.answer.send(answer));
        }
    }

    /// Executes the jobs. After a failure, writes fail until the pause is over; then the file is reopened.
    fn attempt(&mut self, jobs: &[Job]) -> Result<Vec<i64>, StoreError> {
        if jobs.iter().all(|job| matches!(job.work, Work::Read(_))) {
            return Ok(jobs
                .iter()
                .map(|job| if let Work::Read(slot) = &job.work { slot.value() } else { 0 })
                .collect());
        }
        if let Some((_, error)) = self.rest.as_ref().filter(|(until, _)| Instant::now() < *until) {
            return Err(error.clone());
        }
        let began = Instant::now();
        let outcome = match self.database.take() {
            Some(database) => Ok(database),
            None => self.reopen(),
        };
        let outcome = outcome.and_then(|database| {
            let answers = self.transact(&database, jobs)?;
            self.database = Some(database);
            Ok(answers)
        });
        outcome.map_err(|error| {
            let error = StoreError::Storage(error.to_string());
            let rest = REST.max(began.elapsed() * REST_FACTOR);
            self.rest = Some((Instant::now() + rest, error.clone()));
            error
        })
    }

    /// Reopens the file after a failure and writes the values that callers have seen: the file may contain values of a
    /// failed commit and may lack values that were not durable.
    fn reopen(&mut self) -> Result<SafeDatabase, Failure> {
        let database = SafeDatabase::open(&self.path)?;
        run(&database, |database| {
            commit(database, Durability::Immediate, |transaction| {
                let mut table = transaction.open_table(TABLE)?;
                let mut wrong = Vec::new();
                for entry in table.iter()? {
                    let (key, value) = entry?;
                    let known = self.line.places.find(key.value());
                    wrong.extend(known.filter(|slot| slot.value() != value.value()));
                }
                for slot in wrong.iter().chain(self.unsynced.values()) {
                    table.insert(slot.key(), slot.value())?;
                }
                Ok(())
            })
        })?;
        self.synced();
        Ok(database)
    }

    fn synced(&mut self) {
        self.line.durable.fetch_add(1, Ordering::Relaxed);
        self.owes = false;
        self.unsynced.clear();
        self.durable_at = Instant::now();
    }

    /// Executes all jobs in order in one transaction; returns one answer for each job.
    fn transact(&mut self, database: &SafeDatabase, jobs: &[Job]) -> Result<Vec<i64>, Failure> {
        let mut answers = Vec::with_capacity(jobs.len());
        // Newest value of each changed key; the slots keep the old value until the commit succeeds.
        let mut values: FxHashMap<&str, (&Slot, i64)> = FxHashMap::default();
        for job in jobs {
            let newest = |slot: &'_ Slot| values.get(slot.key()).map_or_else(|| slot.value(), |(_, value)| *value);
            match &job.work {
                Work::Read(slot) => answers.push(newest(slot)),
                Work::Set(slot, value) => {
                    values.insert(slot.key(), (slot, *value));
                    answers.push(*value);
                }
                Work::Add(changes) => {
                    for Change { slot, units, .. } in changes {
                        let value = values.get(slot.key()).map_or_else(|| slot.value(), |(_, value)| *value);
                        values.insert(slot.key(), (slot, value.wrapping_add(*units)));
                    }
                    answers.push(0);
                }
            }
        }
        let is_immediate = self.durability == CommitDurability::Immediate;
        let durability = if is_immediate { Durability::Immediate } else { Durability::None };
        run(database, |database| {
            commit(database, durability, |transaction| {
                let mut table = transaction.open_table(TABLE)?;
                for (key, (_, value)) in &values {
                    table.insert(*key, *value)?;
                }
                Ok(())
            })
        })?;
        self.line.transactions.fetch_add(1, Ordering::Relaxed);
        if is_immediate {
            self.line.durable.fetch_add(1, Ordering::Relaxed);
        } else {
            if !self.owes {
                self.durable_at = Instant::now();
            }
            self.owes = true;
            self.unsynced.extend(values.values().map(|(slot, _)| (slot.shared_key(), (*slot).clone())));
        }
        for (slot, value) in values.values() {
            slot.set(*value);
        }
        Ok(answers)
    }

    fn make_durable(&mut self) {
        let outcome = match self.database.take() {
            // Reopening makes everything durable as well.
            None => self.reopen(),
            Some(database) => {
                run(&database, |database| commit(database, Durability::Immediate, |_| Ok(()))).map(|()| database)
            }
        };
        self.durable_at = Instant::now();
        // A failed commit is retried the next time that a durable commit is due.
        if let Ok(database) = outcome {
            self.database = Some(database);
            self.synced();
        }
    }
}

impl CounterStore for RedbStore {
    fn slot(&self, key: &str, initial: i64) -> Result<Slot, StoreError> {
        self.line.places.slot(key, initial)
    }

    async fn read(&self, slot: &Slot) -> Result<i64, StoreError> {
        slot.count_read();
        self.ask(Work::Read(slot.clone())).await
    }

    async fn add(&self, slot: &Slot, units: i64, events: u64) -> Result<(), StoreError> {
        slot.count_write(events);
        self.ask(Work::Add(vec![Change { slot: slot.clone(), units, events }])).await.map(drop)
    }

    async fn set(&self, slot: &Slot, value: i64) -> Result<(), StoreError> {
        slot.count_write(1);
        self.ask(Work::Set(slot.clone(), value)).await.map(drop)
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.line.places.count_commit(&changes);
        self.ask(Work::Add(changes)).await.map(drop)
    }

    fn account(&self) -> Account {
        self.line.places.account()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn nobody_waits_for_a_writer_that_has_ended() {
        let line = Arc::new(Line {
            places: Places::default(),
            jobs: Mutex::default(),
            changed: Condvar::new(),
            transactions: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        });
        let writer = Writer {
            path: PathBuf::new(),
            database: None,
            line: Arc::clone(&line),
            durability: CommitDurability::Immediate,
            durable_at: Instant::now(),
            owes: false,
            unsynced: FxHashMap::default(),
            rest: None,
        };
        let store = RedbStore { line, thread: None };
        let slot = store.slot("key", 1).unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let mut before = pin!(store.read(&slot));
        assert_eq!(before.as_mut().poll(&mut cx), Poll::Pending);

        // A panic would drop it, too.
        drop(writer);

        assert_eq!(before.as_mut().poll(&mut cx), Poll::Ready(Err(StoreError::Closed)));
        assert_eq!(pin!(store.add(&slot, 1, 1)).poll(&mut cx), Poll::Ready(Err(StoreError::Closed)));
    }
}
