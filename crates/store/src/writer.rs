//! The writer thread: all waiting writes share a commit, and its one sync of the disk.
//!
//! ```text
//!   queue ──▶ apply ──▶ apply ──▶ … ──▶ the queue is empty ──▶ commit: one sync ──▶ all callers are notified
//!               ▲                            │
//!               └── what came meanwhile ◀────┘
//! ```
//!
//! While one commit syncs, new requests collect for the next, so a slower disk leads to larger groups. Callers that
//! were just notified are likely to write again, so a commit stays open for them briefly: see [`Gathering`].
//!
//! Invariant: no caller is notified before its commit has ended, and each receives the commit's actual outcome.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableError, WriteTransaction};

use super::config::Durability;
use super::core::Core;
use super::database::{Panicked, SafeDatabase};
use super::disk::{Disk, Source};
use super::error::{OpenError, StoreError};
use super::gathering::{Gathering, MANY};
use super::group::{Group, Grown};
use super::queue::Woken;
use super::tables;
use super::transaction::contained;
use super::work::{Request, SWEEP_KEYS};

/// Time after a failure during which writes are refused before the next one tries.
const REST: Duration = Duration::from_millis(100);
/// Minimum ratio of that time to the duration of reopening, which may read the whole file and must not run permanently.
const REST_FACTOR: u32 = 10;

/// Error text after a panic in redb, after which the file is reopened.
pub(super) const REDB_PANICKED: &str = "redb panicked";

/// The state of the writer thread.
pub(super) struct Writer {
    core: Arc<Core>,
    /// Operations acknowledged since the last sync.
    undurable: u64,
    sync_at: Option<Instant>,
    sweep_at: Option<Instant>,
    gathering: Gathering,
    /// After a failure: the end of the rest, and the error of writes that arrive before it.
    rest: Option<(Instant, StoreError)>,
}

/// A group that was committed.
struct Committed {
    grown: Vec<Grown>,
    /// `None` if nothing was written.
    durability: Option<Durability>,
    puts_expiring: bool,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, has_expiring: bool) -> Self {
        let sweep_at = has_expiring.then(|| Instant::now() + core.config.sweep_every);
        Self { core, undurable: 0, sync_at: None, sweep_at, gathering: Gathering::default(), rest: None }
    }

    /// Serves the queue until it is closed; then makes all writes durable.
    pub(super) fn run(mut self) {
        loop {
            let until = [self.sync_at, self.sweep_at].into_iter().flatten().min();
            match self.core.queue.wait(1, until, self.gathering.awake()) {
                Woken::Requests => self.serve(),
                Woken::Time => {}
                Woken::Closed => break,
            }
            let now = Instant::now();
            if self.sync_at.is_some_and(|at| at <= now) {
                self.sync();
            }
            if self.sweep_at.is_some_and(|at| at <= now) {
                self.sweep();
            }
        }
        if self.undurable > 0 {
            self.sync();
        }
    }

    fn serve(&mut self) {
        let mut requests = Vec::new();
        self.core.queue.take(self.core.config.group_operations, &mut requests);
        self.finish(requests);
    }

    /// Commits the requests, and those that arrive meanwhile, and notifies all of them of the outcome.
    fn finish(&mut self, mut requests: Vec<Request>) {
        let outcome = self.commit(&mut requests);
        self.gathering.told(requests.len(), self.core.queue.len());
        for request in requests {
            // The request drops and converts values of the caller, and their code may panic.
            drop(contained(|| request.work.finish(&outcome)));
        }
    }

    /// Commits the requests together, and those that arrive while they are applied.
    fn commit(&mut self, requests: &mut Vec<Request>) -> Result<(), StoreError> {
        if let Some(Source::Salvage(_)) = self.core.disk.source() {
            return Err(self.core.read_only());
        }
        if let Some((until, error)) = &self.rest {
            if Instant::now() < *until {
                return Err(error.clone());
            }
            self.rest = None;
        }
        let database = match self.source() {
            Some(Source::Database(database)) => database,
            Some(Source::Salvage(_)) => return Err(self.core.read_only()),
            None => {
                let error = Disk::unavailable(self.core.last_error());
                self.rest = Some((Instant::now() + REST, error.clone()));
                return Err(error);
            }
        };
        let has_undurable = self.undurable > 0;
        let outcome = database.run(|database| fill(&self.core, database, requests, has_undurable, &mut self.gathering));
        drop(database);
        let outcome = outcome.unwrap_or_else(|Panicked| Err(StoreError::Failed(REDB_PANICKED.into())));
        match outcome {
            Ok(committed) => {
                self.account(&committed, requests);
                Ok(())
            }
            Err(error) => {
                self.recover(&error);
                Err(error)
            }
        }
    }

    /// Returns the source of the store; reopens the file if necessary.
    fn source(&self) -> Option<Source> {
        self.core.disk.source().or_else(|| {
            self.reopen()
                .map_err(|error| self.core.note_error(&StoreError::Unavailable(error.to_string().into())))
                .ok()?;
            self.core.disk.source()
        })
    }

    fn account(&mut self, committed: &Committed, requests: &[Request]) {
        let (counters, now) = (&self.core.counters, Instant::now());
        committed.grown.iter().for_each(Grown::publish);
        if committed.puts_expiring {
            self.sweep_at.get_or_insert(now + self.core.config.sweep_every);
        }
        let Some(durability) = committed.durability else { return };
        let count = |counter: &AtomicU64, by: u64| _ = counter.fetch_add(by, Relaxed);
        let operations = requests.iter().filter(|request| !request.is_upkeep).count() as u64;
        count(&counters.operations, operations);
        count(&counters.commits, 1);
        match durability {
            Durability::Immediate => {
                count(&counters.durable_commits, 1);
                self.undurable = 0;
                self.sync_at = None;
                return;
            }
            Durability::Eventual => _ = self.sync_at.get_or_insert(now + self.core.config.eventual_within),
            Durability::None => {}
        }
        self.undurable += operations.max(1);
    }

    /// Reopens the file, because redb refuses all operations after a failure. This undoes everything that was not
    /// durable.
    fn recover(&mut self, error: &StoreError) {
        let started = Instant::now();
        self.core.counters.failures.fetch_add(1, Relaxed);
        self.core.counters.undone.fetch_add(std::mem::take(&mut self.undurable), Relaxed);
        self.sync_at = None;
        self.core.note_error(error);
        tracing::warn!(store = %self.core.disk.path().display(), %error, "a commit failed");
        if let Err(error) = self.reopen() {
            tracing::error!(%error, "cannot reopen the store");
        }
        // The undone operations may include a sweep.
        self.sweep_at.get_or_insert_with(|| Instant::now() + self.core.config.sweep_every);
        let rest = REST.max(started.elapsed() * REST_FACTOR);
        self.rest = Some((Instant::now() + rest, error.clone()));
    }

    fn reopen(&self) -> Result<(), OpenError> {
        let disk = &self.core.disk;
        disk.reopen()?;
        let measured = match disk.source() {
            Some(Source::Database(database)) => measure(&self.core, &database).map(drop),
            Some(Source::Salvage(salvage)) => {
                self.core.tell_damage(&salvage);
                self.core.buckets.measure_salvage(&salvage)
            }
            None => Ok(()),
        };
        measured.map_err(|error| OpenError::storage(disk.path().to_owned(), &error))
    }

    /// Makes everything durable that was acknowledged.
    fn sync(&mut self) {
        self.sync_at = None;
        // Callers that were notified earlier cannot get a failure any more; observers see it.
        self.finish(vec![Request::sync().0]);
    }

    /// Removes some expired keys.
    fn sweep(&mut self) {
        let (sweep, mut reply) = Request::sweep(Arc::clone(&self.core));
        // Writes that share its commit are applied after the sweep, which does not see the keys that they let expire.
        // Their commit schedules the next sweep then.
        self.sweep_at = None;
        self.finish(vec![sweep]);
        let now = Instant::now();
        match reply.try_recv() {
            Ok(Ok((swept, _))) if swept == SWEEP_KEYS as u64 => self.sweep_at = Some(now),
            Ok(Ok((_, false))) => {}
            _ => self.sweep_at = Some(now + self.core.config.sweep_every),
        }
    }
}

impl Drop for Writer {
    /// Closes the queue, so that no caller waits for a writer that has ended.
    fn drop(&mut self) {
        self.core.queue.close();
        let mut left = Vec::new();
        self.core.queue.take(usize::MAX, &mut left);
        for request in left {
            drop(contained(|| drop(request)));
        }
        self.core.set_closed();
        self.core.disk.close();
    }
}

/// Applies the requests and those that arrive meanwhile, and commits them.
fn fill(
    core: &Core,
    database: &Database,
    requests: &mut Vec<Request>,
    has_undurable: bool,
    gathering: &mut Gathering,
) -> Result<Committed, StoreError> {
    // Drop neither while a panic of redb unwinds: a second panic in a destructor would abort the program.
    let mut txn = ManuallyDrop::new(database.begin_write()?);
    let applied = apply(core, &txn, requests, gathering);
    let Ok(Applied { grown, puts_expiring, must_sync, began }) = applied else {
        drop(ManuallyDrop::into_inner(txn));
        return applied.map(|_| Committed { grown: Vec::new(), durability: None, puts_expiring: false });
    };
    let durability = requests.iter().map(|request| request.durability).max().unwrap_or_default();
    // A caller that is told that a key is gone must not find it again after a crash, so make the removal durable.
    let has_seen_undurable = has_undurable && durability == Durability::Immediate;
    if grown.is_empty() && !must_sync && !has_seen_undurable {
        ManuallyDrop::into_inner(txn).abort()?;
        return Ok(Committed { grown, durability: None, puts_expiring });
    }
    let asked = if durability == Durability::Immediate { redb::Durability::Immediate } else { redb::Durability::None };
    core.disk.prompt.arm(requests.len() >= MANY);
    let set = txn.set_durability(asked).map_err(|error| StoreError::Failed(error.to_string().into()));
    let txn = ManuallyDrop::into_inner(txn);
    set?;
    txn.commit()?;
    gathering.committed(began.elapsed());
    Ok(Committed { grown, durability: Some(durability), puts_expiring })
}

/// Result of applying requests to a transaction that is not committed yet.
struct Applied {
    grown: Vec<Grown>,
    puts_expiring: bool,
    must_sync: bool,
    /// Time at which the last operation had been applied.
    began: Instant,
}

/// Applies the requests and those that arrive meanwhile.
fn apply(
    core: &Core,
    txn: &WriteTransaction,
    requests: &mut Vec<Request>,
    gathering: &mut Gathering,
) -> Result<Applied, StoreError> {
    let mut group = ManuallyDrop::new(Group::new(txn, core.config.clock.now_ms()));
    let (mut applied, most) = (0, core.config.group_operations);
    let is_upkeep = requests.iter().all(|request| request.is_upkeep);
    let until = if is_upkeep { Instant::now() } else { gathering.until(Instant::now()) };
    let awake = if is_upkeep { Duration::ZERO } else { gathering.awake_within() };
    loop {
        while let Some(request) = requests.get_mut(applied) {
            request.work.apply(&mut group);
            applied += 1;
            if let Some(error) = group.failure().cloned() {
                drop(ManuallyDrop::into_inner(group));
                return Err(error);
            }
        }
        core.queue.take(most.saturating_sub(applied), requests);
        if requests.len() > applied {
            continue;
        }
        let missing = gathering.missing(applied, most);
        if missing == 0 || core.queue.wait(missing, Some(until), awake) != Woken::Requests {
            break;
        }
    }
    if !is_upkeep {
        gathering.gathered(applied);
    }
    let began = Instant::now();
    let (puts_expiring, must_sync) = (group.puts_expiring(), group.must_sync());
    let grown = ManuallyDrop::into_inner(group).close()?;
    Ok(Applied { grown, puts_expiring, must_sync, began })
}

/// Reads the sizes of the buckets; returns true if any of their keys will expire.
pub(super) fn measure(core: &Core, database: &SafeDatabase) -> Result<bool, StoreError> {
    let measured = database.run(|database| {
        core.buckets.measure(&database.begin_read()?)?;
        has_expiring(database)
    });
    measured.unwrap_or_else(|Panicked| Err(StoreError::Corrupt(REDB_PANICKED.into())))
}

/// Returns true if any key of the store will expire.
fn has_expiring(database: &Database) -> Result<bool, StoreError> {
    match database.begin_read()?.open_table(tables::EXPIRY) {
        Ok(expiry) => Ok(!expiry.is_empty()?),
        Err(TableError::TableDoesNotExist(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
