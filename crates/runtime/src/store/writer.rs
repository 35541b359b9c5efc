//! The one thread that writes: whoever waits shares a commit, and its one sync of the disk.
//!
//! ```text
//!   queue ──▶ apply ──▶ apply ──▶ … ──▶ nothing waits any more ──▶ commit: one sync ──▶ everybody is told
//!               ▲                            │
//!               └── what came meanwhile ◀────┘
//! ```
//!
//! While one commit syncs, those that come gather for the next, so the slower the disk, the larger the groups. Those that
//! were told last are about to come again: a commit stays open for them a little, see [`Gathering`].
//!
//! Invariant: nobody is told before the commit has ended, nor told other than how it ended.

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

/// How long to refuse writes after a failure before the next one tries.
const REST: Duration = Duration::from_millis(100);
/// Opening a file again may mean to read all of it: it takes at most one part of so many of the time.
const REST_FACTOR: u32 = 10;

/// What is said when redb has panicked, after which the file is opened again.
pub(super) const REDB_PANICKED: &str = "redb panicked";

/// See the module.
pub(super) struct Writer {
    core: Arc<Core>,
    /// Operations acknowledged since the last sync.
    undurable: u64,
    sync_at: Option<Instant>,
    sweep_at: Option<Instant>,
    gathering: Gathering,
    /// After a failure: until when, and what those hear that come before.
    rest: Option<(Instant, StoreError)>,
}

/// A group that was committed.
struct Committed {
    grown: Vec<Grown>,
    /// Nothing if nothing was written.
    durability: Option<Durability>,
    puts_expiring: bool,
}

impl Writer {
    pub(super) fn new(core: Arc<Core>, has_expiring: bool) -> Self {
        let sweep_at = has_expiring.then(|| Instant::now() + core.config.sweep_every);
        Self { core, undurable: 0, sync_at: None, sweep_at, gathering: Gathering::default(), rest: None }
    }

    /// Writes until the queue is closed; then makes all of it durable.
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

    /// Commits the requests and tells everybody how that ended, those too that came while they were applied.
    fn finish(&mut self, mut requests: Vec<Request>) {
        let outcome = self.commit(&mut requests);
        self.gathering.told(requests.len(), self.core.queue.len());
        for request in requests {
            // What it drops and converts is somebody else's.
            drop(contained(|| request.work.finish(&outcome)));
        }
    }

    /// Commits the requests together, and those that come while they are applied.
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

    /// The database, opened again if it must be.
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

    /// Opens the file again, because redb refuses everything after a failure; what was not durable is undone by that.
    fn recover(&mut self, error: &StoreError) {
        let started = Instant::now();
        self.core.counters.failures.fetch_add(1, Relaxed);
        self.core.counters.undone.fetch_add(std::mem::take(&mut self.undurable), Relaxed);
        self.sync_at = None;
        self.core.note_error(error);
        tracing::warn!(store = %self.core.disk.path().display(), %error, "a commit failed");
        if let Err(error) = self.reopen() {
            tracing::error!(%error, "the store could not be opened again");
        }
        // A sweep may be among what is undone.
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
        // Who has been told already cannot be told that it failed; observers are.
        self.finish(vec![Request::sync().0]);
    }

    /// Takes away some of the keys whose time is over.
    fn sweep(&mut self) {
        let (sweep, mut reply) = Request::sweep(Arc::clone(&self.core));
        // Writes that come with it are applied after it: what they leave to expire it has not seen, and its commit says so.
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
    /// However it ends, nobody waits for it any more.
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

/// Applies the requests and those that come meanwhile, and commits them.
fn fill(
    core: &Core,
    database: &Database,
    requests: &mut Vec<Request>,
    has_undurable: bool,
    gathering: &mut Gathering,
) -> Result<Committed, StoreError> {
    // Neither is dropped while a panic of redb unwinds: a second one in a destructor would abort the program.
    let mut txn = ManuallyDrop::new(database.begin_write()?);
    let applied = apply(core, &txn, requests, gathering);
    let Ok(Applied { grown, puts_expiring, must_sync, began }) = applied else {
        drop(ManuallyDrop::into_inner(txn));
        return applied.map(|_| Committed { grown: Vec::new(), durability: None, puts_expiring: false });
    };
    let durability = requests.iter().map(|request| request.durability).max().unwrap_or_default();
    // Who hears that a key is gone must not find it again after a crash, so what took it away is made durable.
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

/// What was applied to a transaction that is not committed yet.
struct Applied {
    grown: Vec<Grown>,
    puts_expiring: bool,
    must_sync: bool,
    /// When the last operation had been applied.
    began: Instant,
}

/// Applies the requests and those that come meanwhile.
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

/// Reads how large the buckets are, and whether any of their keys will expire.
pub(super) fn measure(core: &Core, database: &SafeDatabase) -> Result<bool, StoreError> {
    let measured = database.run(|database| {
        core.buckets.measure(&database.begin_read()?)?;
        has_expiring(database)
    });
    measured.unwrap_or_else(|Panicked| Err(StoreError::Corrupt(REDB_PANICKED.into())))
}

/// Whether any key of the store will expire.
fn has_expiring(database: &Database) -> Result<bool, StoreError> {
    match database.begin_read()?.open_table(tables::EXPIRY) {
        Ok(expiry) => Ok(!expiry.is_empty()?),
        Err(TableError::TableDoesNotExist(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
