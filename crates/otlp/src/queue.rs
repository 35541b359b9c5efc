//! Records that wait to be sent, as JSON, bounded by their number and size.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Maximum number of records of a signal that wait to be sent, as the specification recommends.
pub const QUEUE_RECORDS_MAX: usize = 2048;
/// Maximum number of bytes of these records.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// Number of records that are sent together.
pub(crate) const BATCH_MAX: usize = 512;

/// The queue of a signal, and its counters.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// Notified by the first record, and by the one that completes a batch.
    pub(crate) filled: Notify,
    /// Number of records that were queued, and of those among them that were exported or dropped.
    queued: AtomicU64,
    resolved: AtomicU64,
    pub(crate) exported: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failures: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    records: Vec<String>,
    bytes: usize,
}

impl Queue {
    /// Adds a record, or drops and counts it if the queue is full.
    pub(crate) fn push(&self, record: String) {
        let mut waiting = self.waiting.lock();
        if waiting.records.len() == QUEUE_RECORDS_MAX || waiting.bytes + record.len() > QUEUE_BYTES_MAX {
            drop(waiting);
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.bytes += record.len();
        waiting.records.push(record);
        let len = waiting.records.len();
        self.queued.fetch_add(1, Relaxed);
        drop(waiting);
        if len == 1 || len == BATCH_MAX {
            self.filled.notify_one();
        }
    }

    /// Counts records that were taken before.
    pub(crate) fn resolve(&self, exported: u64, dropped: u64) {
        self.resolved.fetch_add(exported + dropped, Relaxed);
        self.exported.fetch_add(exported, Relaxed);
        self.dropped.fetch_add(dropped, Relaxed);
    }

    /// Counts all records that were neither exported nor dropped as dropped.
    pub(crate) fn drop_unresolved(&self) {
        let mut waiting = self.waiting.lock();
        *waiting = Waiting::default();
        let left = self.queued.load(Relaxed).saturating_sub(self.resolved.load(Relaxed));
        drop(waiting);
        self.resolve(0, left);
    }

    /// Returns the number of waiting records.
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().records.len()
    }

    /// Removes the oldest records, at most one batch.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut waiting = self.waiting.lock();
        let rest = if waiting.records.len() > BATCH_MAX { waiting.records.split_off(BATCH_MAX) } else { Vec::new() };
        let batch = std::mem::replace(&mut waiting.records, rest);
        waiting.bytes -= batch.iter().map(String::len).sum::<usize>();
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts_the_newest() {
        let queue = Queue::default();
        for number in 0..QUEUE_RECORDS_MAX + 10 {
            queue.push(number.to_string());
        }
        assert_eq!((queue.len(), queue.dropped.load(Relaxed)), (QUEUE_RECORDS_MAX, 10));
        assert_eq!(queue.take()[..2], ["0", "1"]);
        assert_eq!(queue.len(), QUEUE_RECORDS_MAX - BATCH_MAX);

        let queue = Queue::default();
        for _ in 0..5 {
            queue.push("x".repeat(QUEUE_BYTES_MAX / 4));
        }
        assert_eq!((queue.len(), queue.dropped.load(Relaxed)), (4, 1));
        assert_eq!(queue.take().len(), 4);
        queue.push("x".repeat(QUEUE_BYTES_MAX));
        assert_eq!(queue.len(), 1, "the size of what was taken is free again");
    }
}
