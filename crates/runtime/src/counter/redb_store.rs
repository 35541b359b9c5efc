//! Counters on disk: a redb file, one thread that writes, and one transaction for all who wait.
//!
//! ```text
//!   call ──▶ jobs ──▶ rusm-counters: takes all that wait ──▶ one transaction ──▶ commit ──▶ everybody is answered
//!                          └ eventual: a durable commit at least every 100 ms
//! ```
//!
//! A call that was answered with success is in the file, and survives what its [`CommitDurability`] says. No scheduler ever
//! waits for the disk: callers are processes that wait for an answer.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use redb::{Database, Durability, ReadableTable, TableDefinition};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;

use super::store::{Account, Change, CounterStore, Places, Slot, StoreError};
use crate::scheduler;
use crate::store::birth;
use crate::store::limited_file::LimitedFile;

const TABLE: TableDefinition<'_, &str, i64> = TableDefinition::new("rusm.counters");
/// How long an eventual commit may not be durable.
const EVENTUAL: Duration = Duration::from_millis(100);
/// How long to refuse writes after a failure before the next one tries.
const REST: Duration = Duration::from_millis(100);
/// Opening a file again may mean to read all of it: it takes at most one part of so many of the time.
const REST_FACTOR: u32 = 10;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitDurability {
    /// Nothing: it is lost when the process dies, up to the next durable commit, which is the one at the end.
    None,
    /// What happened more than 100 ms before the process or the machine died.
    Eventual,
    /// The end of the process and of the machine: each transaction waits for the disk.
    #[default]
    Immediate,
}

impl CommitDurability {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Eventual, Self::Immediate];

    /// A word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Eventual => "eventual",
            Self::Immediate => "immediate",
        }
    }
}

/// Counters in a redb file.
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
    /// Opens the file, or makes it; blocks until what it has is read.
    ///
    /// # Errors
    /// [`StoreError::Storage`] with what redb says: a file that is no database, or is open in another process; a disk that is
    /// full or read-only.
    pub fn open(path: impl AsRef<Path>, durability: CommitDurability) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let said = |error: redb::Error| StoreError::Storage(format!("cannot open {}: {error}", path.display()));
        let places = Places::default();
        // A damaged file may mislead redb into a panic, which is as clear a sign.
        let opened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            birth::ensure(path)?;
            let database = open_file(path)?;
            load(&database, &places)?;
            Ok(database)
        }));
        let Ok(opened) = opened else {
            return Err(StoreError::Storage(format!("cannot open {}: it cannot be read", path.display())));
        };
        let database = opened.map_err(said)?;
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
        let refused = |error: io::Error| StoreError::Storage(format!("cannot start the thread that writes: {error}"));
        Ok(Self { line, thread: Some(thread.map_err(refused)?) })
    }

    /// Transactions that were committed.
    pub fn transactions(&self) -> u64 {
        self.line.transactions.load(Ordering::Relaxed)
    }

    /// Those of them that waited for the disk.
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
    /// Has what was asked for written, durably, and waits until the file is closed; not on a scheduler, which must not wait for
    /// the disk: dropped by a process, it is closed soon after.
    fn drop(&mut self) {
        self.line.jobs.lock().closed = true;
        self.line.changed.notify_one();
        if let Some(thread) = self.thread.take().filter(|_| scheduler::local().is_none()) {
            // A panic in it was reported by the panic hook.
            drop(thread.join());
        }
    }
}

/// Opens the file; a write beyond the limit on file sizes fails like one to a full disk.
fn open_file(path: &Path) -> Result<Database, redb::Error> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    Ok(Database::builder().create_with_backend(LimitedFile::new(file)?)?)
}

fn load(database: &Database, places: &Places) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let table = transaction.open_table(TABLE)?;
        for entry in table.iter()? {
            let (key, value) = entry?;
            // Keys of no use were never written.
            places.slot(key.value(), value.value()).ok();
        }
    }
    transaction.commit()?;
    Ok(())
}

/// The thread that writes.
struct Writer {
    path: PathBuf,
    /// None after a failure, until it could be opened again: redb refuses everything once it has seen one.
    database: Option<Database>,
    line: Arc<Line>,
    durability: CommitDurability,
    durable_at: Instant,
    /// Whether anything is committed that is not durable.
    owes: bool,
    /// Keys of that, which a failure undoes.
    unsynced: FxHashMap<Arc<str>, Slot>,
    /// After a failure: until when, and what those hear that come before.
    rest: Option<(Instant, StoreError)>,
}

impl Drop for Writer {
    /// Nobody waits for a thread that has ended, whatever the reason.
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

    /// Waits for jobs, or until something must become durable.
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
            // Who asked may have gone away.
            drop(job.answer.send(answer));
        }
    }

    /// Does the jobs; after a failure not before a rest, and in the file opened again.
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

    /// Opens the file after a failure, with the values that everybody knows: those of a commit that failed may be in it, and
    /// those that were not durable may not.
    fn reopen(&mut self) -> Result<Database, redb::Error> {
        let database = open_file(&self.path)?;
        let transaction = database.begin_write()?;
        {
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
        }
        transaction.commit()?;
        self.synced();
        Ok(database)
    }

    fn synced(&mut self) {
        self.line.durable.fetch_add(1, Ordering::Relaxed);
        self.owes = false;
        self.unsynced.clear();
        self.durable_at = Instant::now();
    }

    /// One transaction for all jobs, in their order; gives what they read.
    fn transact(&mut self, database: &Database, jobs: &[Job]) -> Result<Vec<i64>, redb::Error> {
        let mut transaction = database.begin_write()?;
        if self.durability != CommitDurability::Immediate {
            transaction.set_durability(Durability::None)?;
        }
        let mut answers = Vec::with_capacity(jobs.len());
        // The newest value of each key that changes; the slots keep the old one until it is committed.
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
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, (_, value)) in &values {
                table.insert(*key, *value)?;
            }
        }
        transaction.commit()?;
        self.line.transactions.fetch_add(1, Ordering::Relaxed);
        if self.durability == CommitDurability::Immediate {
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
            // To open it again makes everything durable, too.
            None => self.reopen(),
            Some(database) => sync(&database).map(|()| database),
        };
        self.durable_at = Instant::now();
        // Tried again when it is due the next time.
        if let Ok(database) = outcome {
            self.database = Some(database);
            self.synced();
        }
    }
}

fn sync(database: &Database) -> Result<(), redb::Error> {
    Ok(database.begin_write()?.commit()?)
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

        // As by a panic.
        drop(writer);

        assert_eq!(before.as_mut().poll(&mut cx), Poll::Ready(Err(StoreError::Closed)));
        assert_eq!(pin!(store.add(&slot, 1, 1)).poll(&mut cx), Poll::Ready(Err(StoreError::Closed)));
    }
}
