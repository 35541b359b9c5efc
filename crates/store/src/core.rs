//! State shared by the handles of a store, its writes in flight and its writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::buckets::Buckets;
use super::config::StoreConfig;
use super::error::StoreError;
use super::file::disk::Disk;
use super::file::salvage::Salvage;
use super::writer::queue::{PushResult, Queue};
use super::writer::work::Request;
use rusm_runtime::observe::StorageReport;
use rusm_runtime::{Handle, Pid};

/// The shared state of a store. Relaxed throughout: figures are approximate.
pub(super) struct Core {
    pub(super) config: StoreConfig,
    pub(super) disk: Disk,
    pub(super) queue: Queue,
    pub(super) buckets: Buckets,
    pub(super) waiting: AtomicU64,
    pub(super) counters: WriteCounters,
    /// Names claimed with [`Store::claim`](super::Store::claim).
    pub(super) claims: Mutex<FxHashSet<Box<str>>>,
    /// Held while a topic is found or opened, so that two threads get the same one.
    pub(super) topic_opening: Mutex<()>,
    /// The worker of each queue of jobs, by the name of the queue.
    pub(super) job_workers: Mutex<FxHashMap<Box<str>, (Handle, Pid)>>,
    last_error: Mutex<Option<Arc<str>>>,
    closed: AtomicBool,
}

/// Counters of the writer.
#[derive(Debug, Default)]
pub(super) struct WriteCounters {
    pub(super) operations: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) durable_commits: AtomicU64,
    pub(super) expired: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) undone: AtomicU64,
}

impl Core {
    pub(super) fn new(config: StoreConfig, disk: Disk) -> Self {
        Self {
            queue: Queue::new(config.queue_operations, config.queue_bytes),
            config,
            disk,
            buckets: Buckets::default(),
            waiting: AtomicU64::new(0),
            counters: WriteCounters::default(),
            claims: Mutex::default(),
            topic_opening: Mutex::default(),
            job_workers: Mutex::default(),
            last_error: Mutex::new(None),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn record_error(&self, error: &StoreError) {
        *self.last_error.lock() = Some(error.to_string().into());
    }

    /// Returns the error for a write to a damaged store.
    pub(super) fn read_only(&self) -> StoreError {
        StoreError::ReadOnly(rusm_text::escape(&self.disk.path().to_string_lossy()).into())
    }

    /// Records and logs that the store is damaged and accepts no writes.
    pub(super) fn report_damage(&self, salvage: &Salvage) {
        let damage = salvage.damage().unwrap_or_default();
        let parts = damage.len();
        let first = damage.into_iter().next();
        let error = first.map_or_else(|| self.read_only(), |first| StoreError::Damaged(Box::new(first)));
        tracing::error!(store = %self.disk.path().display(), %error, parts, "the store is open read-only");
        self.record_error(&error);
    }

    pub(super) fn last_error(&self) -> Option<Arc<str>> {
        self.last_error.lock().clone()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Records that the writer has ended.
    pub(super) fn set_closed(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Lets the writer discover a failed read and reopen the file: redb refuses all operations after one.
    pub(super) fn request_recovery(&self) {
        if let PushResult::Blocked(_, ticket) = self.queue.push(Request::sync().0, Waker::noop()) {
            // The queue is full, so the queued requests will discover the failure.
            self.queue.withdraw(ticket, false);
        }
    }

    pub(super) fn report(&self) -> StorageReport {
        let (counters, disk) = (&self.counters, &self.disk.counters);
        StorageReport {
            path: self.disk.path().to_string_lossy().into(),
            durability: self.config.durability.word(),
            file_bytes: disk.bytes.load(Relaxed),
            cache_bytes: self.disk.cache_bytes(),
            queued: self.queue.len() as u64,
            queue_capacity: self.config.queue_operations as u64,
            waiting: self.waiting.load(Relaxed),
            operations_total: counters.operations.load(Relaxed),
            commits_total: counters.commits.load(Relaxed),
            durable_commits_total: counters.durable_commits.load(Relaxed),
            syncs_total: disk.syncs.load(Relaxed),
            sync_time: Duration::from_nanos(disk.sync_ns.load(Relaxed)),
            reads_total: self.buckets.reads(),
            slow_reads_total: disk.slow_reads.load(Relaxed),
            expired_total: counters.expired.load(Relaxed),
            failures_total: counters.failures.load(Relaxed),
            undone_total: counters.undone.load(Relaxed),
            last_error: self.last_error(),
            is_open: self.disk.is_open(),
            buckets: self.buckets.report(),
        }
    }
}
