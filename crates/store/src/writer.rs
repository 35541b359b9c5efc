//! The writer thread: all waiting writes share a commit, and its one sync of the disk.
//!
//! ```text
//!   queue ──▶ apply ──▶ apply ──▶ … ──▶ the queue is empty ──▶ commit: one sync ──▶ all callers are notified
//!               ▲                            │
//!               └── what came meanwhile ◀────┘
//! ```
//!
//! While one commit syncs, new requests collect for the next, so a slower disk leads to larger groups. Callers that
//! were just notified are likely to write again, so a commit stays open for them briefly: see [`Batching`].
//!
//! Invariant: no caller is notified before its commit has ended, and each receives the commit's actual outcome.

pub(crate) mod batching;
pub(crate) mod group;
pub(crate) mod overlay;
pub(crate) mod prewake;
pub(crate) mod queue;
pub(crate) mod work;
pub(crate) mod write;

use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableError, WriteTransaction};

use super::config::Durability;
use super::core::Core;
use super::error::{OpenError, StoreError};
use super::file::database::{Panicked, SafeDatabase};
use super::file::disk::{Disk, Source};
use super::file::free_space::FreeSpace;
use super::file::tables;
use super::writer::batching::{Batching, MANY_REQUESTS};
use super::writer::group::{BucketSize, Group};
use super::writer::queue::WakeReason;
use super::writer::work::{Operation, Reply, Request, SWEEP_KEYS, catch_panic};

/// Time after a failure during which writes are refused before the next one tries.
const BACKOFF: Duration = Duration::from_millis(100);
/// Minimum ratio of that time to the duration of reopening, which may read the whole file and must not run permanently.
const BACKOFF_FACTOR: u32 = 10;

/// Time after a failure in which every write is synced before it is acknowledged: a disk that was full may be so again,
/// and would then undo what it has not synced.
const WRITE_THROUGH: Duration = Duration::from_secs(10);
/// Minimum time between two lines in the log about the room of the disk.
const SCARCE_LOG_EVERY: Duration = Duration::from_secs(10);

/// Error text after a panic in redb, after which the file is reopened.
pub(super) const REDB_PANICKED: &str = "redb panicked";

/// The state of the writer thread.
pub(super) struct Writer {
    core: Arc<Core>,
    /// Operations acknowledged since the last sync.
    unsynced: u64,
    sync_at: Option<Instant>,
    sweep_at: Option<Instant>,
    batching: Batching,
    /// After a failure: the end of the rest, and the error of writes that arrive before it.
    backoff: Option<(Instant, StoreError)>,
    /// After a failure: until when every write is synced before it is acknowledged.
    write_through_until: Option<Instant>,
    free_space: FreeSpace,
    scarce_log: ScarceLog,
}

/// State of the log about the room of the disk. A large and a small write may see it differently, many times a second.
#[derive(Default)]
struct ScarceLog {
    is_scarce: bool,
    told_at: Option<Instant>,
}

impl ScarceLog {
    fn tell(&mut self, is_scarce: bool, store: &Path) {
        if is_scarce == self.is_scarce || self.told_at.is_some_and(|at| at.elapsed() < SCARCE_LOG_EVERY) {
            return;
        }
        *self = Self { is_scarce, told_at: Some(Instant::now()) };
        let store = store.display();
        if is_scarce {
            tracing::warn!(%store, "the disk is nearly full: only writes that do not make the store larger are accepted");
        } else {
            tracing::info!(%store, "the disk has room again");
        }
    }
}

/// A group that was committed.
struct Committed {
    bucket_sizes: Vec<BucketSize>,
    /// `None` if nothing was written.
    durability: Option<Durability>,
    writes_expiring: bool,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, has_expiring: bool) -> Self {
        let sweep_at = has_expiring.then(|| Instant::now() + core.config.sweep_every);
        let batching = Batching::default();
        Self {
            core,
            unsynced: 0,
            sync_at: None,
            sweep_at,
            batching,
            backoff: None,
            write_through_until: None,
            free_space: FreeSpace::default(),
            scarce_log: ScarceLog::default(),
        }
    }

    /// Serves the queue until it is closed; then makes all writes durable.
    pub(super) fn run(mut self) {
        loop {
            let until = [self.sync_at, self.sweep_at].into_iter().flatten().min();
            match self.core.queue.wait(1, until, self.batching.spin_time()) {
                WakeReason::Requests => self.serve(),
                WakeReason::Time => {}
                WakeReason::Closed => break,
            }
            let now = Instant::now();
            if self.sync_at.is_some_and(|at| at <= now) {
                self.sync();
            }
            if self.sweep_at.is_some_and(|at| at <= now) {
                self.sweep();
            }
        }
        if self.unsynced > 0 {
            self.sync();
        }
        let undone = self.core.counters.undone.load(Relaxed);
        if undone > 0 {
            tracing::warn!(store = %self.core.disk.path().display(), undone, "acknowledged writes were undone since the start");
        }
    }

    fn serve(&mut self) {
        let mut requests = Vec::new();
        self.core.queue.take(self.group_max(), &mut requests);
        self.finish(requests);
    }

    /// Maximum number of operations that share a commit. While space is scarce, a deletion must not fail with a write
    /// that is refused.
    fn group_max(&self) -> usize {
        if self.free_space.is_scarce() { 1 } else { self.core.config.group_operations }
    }

    /// Commits the requests, and those that arrive meanwhile, and notifies all of them of the outcome.
    fn finish(&mut self, mut requests: Vec<Request>) {
        let outcome = self.commit(&mut requests);
        self.batching.notified(requests.len(), self.core.queue.len());
        for request in requests {
            // The request drops and converts values of the caller, and their code may panic.
            drop(catch_panic(|| request.work.finish(&outcome)));
        }
    }

    /// Commits the requests together, and those that arrive while they are applied.
    fn commit(&mut self, requests: &mut Vec<Request>) -> Result<(), StoreError> {
        if let Some(Source::Salvage(_)) = self.core.disk.source() {
            return Err(self.core.read_only());
        }
        if let Some((until, error)) = &self.backoff {
            if Instant::now() < *until {
                return Err(error.clone());
            }
            self.backoff = None;
        }
        let database = match self.source() {
            Some(Source::Database(database)) => database,
            Some(Source::Salvage(_)) => return Err(self.core.read_only()),
            None => {
                let error = Disk::unavailable(self.core.last_error());
                self.backoff = Some((Instant::now() + BACKOFF, error.clone()));
                return Err(error);
            }
        };
        let has_unsynced = self.unsynced > 0;
        self.write_through_until = self.write_through_until.filter(|until| Instant::now() < *until);
        let least = if self.write_through_until.is_some() { Durability::Immediate } else { Durability::None };
        let (core, most) = (&self.core, self.group_max());
        let (batching, free_space, scarce_log) = (&mut self.batching, &mut self.free_space, &mut self.scarce_log);
        let outcome = database.run(|database| {
            let mut group = GroupCommit { core, most, least, has_unsynced, batching, free_space, scarce_log };
            group.commit(database, requests)
        });
        drop(database);
        let outcome = outcome.unwrap_or_else(|Panicked| Err(StoreError::Failed(REDB_PANICKED.into())));
        match outcome {
            Ok(Some(committed)) => {
                self.count_commit(&committed, requests);
                Ok(())
            }
            Ok(None) => {
                self.core.record_error(&StoreError::Full);
                self.core.counters.failures.fetch_add(1, Relaxed);
                Err(StoreError::Full)
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
                .map_err(|error| self.core.record_error(&StoreError::Unavailable(error.to_string().into())))
                .ok()?;
            self.core.disk.source()
        })
    }

    fn count_commit(&mut self, committed: &Committed, requests: &[Request]) {
        let (counters, now) = (&self.core.counters, Instant::now());
        committed.bucket_sizes.iter().for_each(BucketSize::publish);
        if committed.writes_expiring {
            self.sweep_at.get_or_insert(now + self.core.config.sweep_every);
        }
        let Some(durability) = committed.durability else { return };
        let count = |counter: &AtomicU64, by: u64| _ = counter.fetch_add(by, Relaxed);
        let operations = requests.iter().filter(|request| !request.is_maintenance).count() as u64;
        count(&counters.operations, operations);
        count(&counters.commits, 1);
        match durability {
            Durability::Immediate => {
                count(&counters.durable_commits, 1);
                self.unsynced = 0;
                self.sync_at = None;
                return;
            }
            Durability::Eventual => _ = self.sync_at.get_or_insert(now + self.core.config.eventual_within),
            Durability::None => {}
        }
        self.unsynced += operations.max(1);
    }

    /// Reopens the file, because redb refuses all operations after a failure. This undoes everything that was not
    /// durable.
    fn recover(&mut self, error: &StoreError) {
        let started = Instant::now();
        self.core.counters.failures.fetch_add(1, Relaxed);
        let undone = std::mem::take(&mut self.unsynced);
        self.core.counters.undone.fetch_add(undone, Relaxed);
        self.sync_at = None;
        self.core.record_error(error);
        let store = self.core.disk.path().display();
        if undone == 0 {
            tracing::warn!(%store, %error, "a commit failed");
        } else {
            tracing::error!(%store, %error, undone, "a commit failed, and acknowledged writes since the last sync were undone");
        }
        if let Err(error) = self.reopen() {
            tracing::error!(%error, "cannot reopen the store");
        }
        // The undone operations may include a sweep.
        self.sweep_at.get_or_insert_with(|| Instant::now() + self.core.config.sweep_every);
        if *error == StoreError::Full {
            self.free_space.failed(self.core.buckets.bytes());
            // The failed commit may have taken all of the disk. Only closing an intact file cuts that off again.
            if FreeSpace::is_used_up(self.core.disk.path())
                && let Err(error) = self.reopen()
            {
                tracing::error!(%error, "cannot reopen the store");
            }
        }
        let backoff = BACKOFF.max(started.elapsed() * BACKOFF_FACTOR);
        self.backoff = Some((Instant::now() + backoff, error.clone()));
        self.write_through_until = Some(Instant::now() + backoff + WRITE_THROUGH);
    }

    fn reopen(&self) -> Result<(), OpenError> {
        let disk = &self.core.disk;
        disk.reopen()?;
        let measured = match disk.source() {
            Some(Source::Database(database)) => measure(&self.core, &database).map(drop),
            Some(Source::Salvage(salvage)) => {
                self.core.report_damage(&salvage);
                self.core.buckets.measure_salvage(&salvage);
                Ok(())
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
        if self.unsynced > 0 {
            // It shared a commit that was refused or has failed.
            let next = Instant::now() + self.core.config.eventual_within;
            self.sync_at.get_or_insert(next);
        }
    }

    /// Removes some expired keys.
    fn sweep(&mut self) {
        let (sweep, mut reply) = Request::sweep(Arc::clone(&self.core));
        // Writes that share its commit are applied after the sweep, which does not see the keys that they let expire.
        // Their commit schedules the next sweep then.
        self.sweep_at = None;
        self.finish(vec![sweep]);
        let now = Instant::now();
        let reply = reply.try_recv();
        if let Ok(Ok((swept, _))) = &reply {
            self.core.counters.expired.fetch_add(*swept, Relaxed);
        }
        match reply {
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
            drop(catch_panic(|| drop(request)));
        }
        self.core.set_closed();
        self.core.disk.close();
    }
}

/// The parts of the writer that a commit of several requests uses.
struct GroupCommit<'a> {
    core: &'a Core,
    /// Maximum number of requests.
    most: usize,
    /// Minimum durability.
    least: Durability,
    /// True if acknowledged operations are not synced yet.
    has_unsynced: bool,
    batching: &'a mut Batching,
    free_space: &'a mut FreeSpace,
    scarce_log: &'a mut ScarceLog,
}

impl GroupCommit<'_> {
    /// Applies the requests and those that arrive meanwhile, and commits them; `None` if the disk has no room for what
    /// they add.
    fn commit(&mut self, database: &Database, requests: &mut Vec<Request>) -> Result<Option<Committed>, StoreError> {
        // Drop neither while a panic of redb unwinds: a second panic in a destructor would abort the program.
        let mut txn = ManuallyDrop::new(database.begin_write()?);
        let applied = self.apply(&txn, requests);
        let Ok(Applied { bucket_sizes, growth, writes_expiring, must_sync, began }) = applied else {
            drop(ManuallyDrop::into_inner(txn));
            return applied.map(|_| None);
        };
        let durability = requests.iter().map(|request| request.durability).fold(self.least, Ord::max);
        // A caller that is told that a key is gone must not find it again after a crash, so make the removal durable.
        let has_seen_unsynced = self.has_unsynced && durability == Durability::Immediate;
        if bucket_sizes.is_empty() && !must_sync && !has_seen_unsynced {
            ManuallyDrop::into_inner(txn).abort()?;
            return Ok(Some(Committed { bucket_sizes, durability: None, writes_expiring }));
        }
        if !self.has_room(growth, requests) {
            ManuallyDrop::into_inner(txn).abort()?;
            return Ok(None);
        }
        let redb_durability =
            if durability == Durability::Immediate { redb::Durability::Immediate } else { redb::Durability::None };
        self.core.disk.prewake.arm(requests.len() >= MANY_REQUESTS);
        let set = txn.set_durability(redb_durability).map_err(|error| StoreError::Failed(error.to_string().into()));
        let txn = ManuallyDrop::into_inner(txn);
        set?;
        txn.commit()?;
        self.batching.committed(began.elapsed());
        Ok(Some(Committed { bucket_sizes, durability: Some(durability), writes_expiring }))
    }

    /// Returns true if the disk has room for a commit that adds `growth` bytes.
    fn has_room(&mut self, growth: u64, requests: &[Request]) -> bool {
        let was_scarce = self.free_space.is_scarce();
        if growth == 0 && !was_scarce {
            return true;
        }
        let (path, buckets) = (self.core.disk.path(), &self.core.buckets);
        let has_room = self.free_space.has_room(growth, path, || buckets.bytes());
        self.scarce_log.tell(self.free_space.is_scarce(), path);
        has_room || growth == 0 || requests.iter().all(|request| request.uses_reserve)
    }

    /// Applies the requests and those that arrive meanwhile.
    fn apply(&mut self, txn: &WriteTransaction, requests: &mut Vec<Request>) -> Result<Applied, StoreError> {
        let (core, batching) = (self.core, &mut *self.batching);
        let mut group = ManuallyDrop::new(Group::new(txn, core.config.clock.now_ms()));
        let (mut applied, most) = (0, self.most);
        let is_maintenance = requests.iter().all(|request| request.is_maintenance);
        let until = if is_maintenance { Instant::now() } else { batching.until(Instant::now()) };
        let spin_time = if is_maintenance { Duration::ZERO } else { batching.open_spin_time() };
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
            let missing = batching.missing(applied, most);
            if missing == 0 || core.queue.wait(missing, Some(until), spin_time) != WakeReason::Requests {
                break;
            }
        }
        if !is_maintenance {
            batching.closed(applied);
        }
        let began = Instant::now();
        let (growth, writes_expiring, must_sync) = (group.growth(), group.writes_expiring(), group.must_sync());
        let bucket_sizes = ManuallyDrop::into_inner(group).close()?;
        Ok(Applied { bucket_sizes, growth, writes_expiring, must_sync, began })
    }
}

/// Result of applying requests to a transaction that is not committed yet.
struct Applied {
    bucket_sizes: Vec<BucketSize>,
    /// Number of bytes that keys and values take in addition.
    growth: u64,
    writes_expiring: bool,
    must_sync: bool,
    /// Time at which the last operation had been applied.
    began: Instant,
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

impl Request {
    /// Creates a request that removes some expired keys; its reply is their number, and whether keys remain that will
    /// expire.
    pub(crate) fn sweep(core: Arc<Core>) -> (Self, Reply<(u64, bool)>) {
        let (work, reply) = Operation::boxed(move |group: &mut Group<'_>| group.sweep(&core.buckets, SWEEP_KEYS));
        (Self { work, durability: Durability::Eventual, bytes: 0, is_maintenance: true, uses_reserve: true }, reply)
    }
}
