//! Quotas for the bytes of messages that guests have sent and that are not received yet.
//!
//! ```text
//!   a guest ──▶ the outermost guest that started it, if a guest did ──▶ all guests of the engine
//! ```
//!
//! The bytes of a message count at every level until the message is received or dropped. A level accepts a message
//! while it holds less than its maximum, so the longest message can always be sent. A guest shares its quota with the
//! guests that it starts: starting more senders does not give more room.
//!
//! Short messages, which need no allocation, are not counted; the capacity of mailboxes bounds them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;
use rusm_runtime::embed::guest::Charge;

/// Bytes that one guest, or several together, have in mailboxes.
#[derive(Debug)]
pub(crate) struct Quota {
    max_bytes: AtomicU64,
    held_bytes: AtomicU64,
    has_waiting: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
    parent: Option<Arc<Self>>,
}

impl Quota {
    /// Creates the quota of all guests of an engine.
    pub(crate) fn of_engine() -> Arc<Self> {
        Arc::new(Self::new(u64::MAX, None))
    }

    /// Creates the quota of a guest that is started from outside, or by a guest with the quota `parent`.
    pub(crate) fn of_guest(max_bytes: u64, engine: &Arc<Self>, parent: Option<&Arc<Self>>) -> Arc<Self> {
        let parent_quota = match parent {
            None => engine,
            Some(parent) => match &parent.parent {
                Some(parent_quota) if !Arc::ptr_eq(parent_quota, engine) => parent_quota,
                _ => parent,
            },
        };
        Arc::new(Self::new(max_bytes, Some(Arc::clone(parent_quota))))
    }

    fn new(max_bytes: u64, parent: Option<Arc<Self>>) -> Self {
        Self {
            max_bytes: AtomicU64::new(max_bytes),
            held_bytes: AtomicU64::new(0),
            has_waiting: AtomicBool::new(false),
            waiting: Mutex::default(),
            parent,
        }
    }

    /// Sets the maximum.
    pub(crate) fn set_max(&self, bytes: u64) {
        self.max_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Number of bytes sent and not received.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    fn levels(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |quota| quota.parent.as_deref())
    }

    fn has_room(&self) -> bool {
        // SeqCst: see `wait`.
        self.held_bytes.load(Ordering::SeqCst) < self.max_bytes.load(Ordering::Relaxed)
    }

    /// Counts a message of `bytes`; the error is the level that is full.
    #[inline]
    pub(crate) fn take(&self, bytes: u64) -> Result<(), &Self> {
        if let Some(full) = self.levels().find(|level| !level.has_room()) {
            return Err(full);
        }
        self.take_unchecked(bytes);
        Ok(())
    }

    /// Counts a message of `bytes` even beyond the maximum.
    #[inline]
    pub(crate) fn take_unchecked(&self, bytes: u64) {
        for level in self.levels() {
            level.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Records that a message of `bytes` was received or dropped.
    #[inline]
    pub(crate) fn release(&self, bytes: u64) {
        for level in self.levels() {
            // SeqCst: see `wait`.
            level.held_bytes.fetch_sub(bytes, Ordering::SeqCst);
            if level.has_waiting.load(Ordering::SeqCst) && level.has_room() {
                level.wake();
            }
        }
    }

    /// Registers `waker` for when this level has room again; false if it has room now.
    ///
    /// The sender sets `has_waiting` and then reads `held_bytes`; a receiver changes `held_bytes` and then reads
    /// `has_waiting`. All are `SeqCst`, so one of the two sees the other's write.
    pub(crate) fn wait(&self, waker: &Waker) -> bool {
        let mut waiting = self.waiting.lock();
        self.has_waiting.store(true, Ordering::SeqCst);
        if self.has_room() {
            return false;
        }
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        true
    }

    #[cold]
    fn wake(&self) {
        let mut waiting = self.waiting.lock();
        self.has_waiting.store(false, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *waiting);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Charge for Quota {
    fn release(&self, bytes: u64) {
        Self::release(self, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_quota_is_full_at_its_maximum_and_the_last_message_may_exceed_it() {
        let quota = Quota::of_guest(100, &Quota::of_engine(), None);

        assert!(quota.take(99).is_ok() && quota.take(500).is_ok());
        assert!(quota.take(1).is_err());
        quota.release(500);
        assert!(quota.take(1).is_ok());
        assert_eq!(quota.held_bytes(), 100);
    }

    #[test]
    fn guests_that_a_guest_starts_share_its_quota_however_deep_they_start_each_other() {
        let engine = Quota::of_engine();
        let root = Quota::of_guest(100, &engine, None);
        let child = Quota::of_guest(100, &engine, Some(&root));
        let grandchild = Quota::of_guest(100, &engine, Some(&child));

        assert!(grandchild.take(60).is_ok() && child.take(60).is_ok());
        for quota in [&root, &child, &grandchild] {
            assert!(quota.take(1).is_err());
        }
        assert_eq!(grandchild.levels().count(), 3);
        assert_eq!((root.held_bytes(), child.held_bytes(), engine.held_bytes()), (120, 60, 120));
        grandchild.release(60);
        assert!(root.take(1).is_ok());
    }

    #[test]
    fn all_guests_together_have_a_maximum() {
        let engine = Quota::of_engine();
        engine.set_max(100);
        let guests = [(); 3].map(|()| Quota::of_guest(100, &engine, None));

        assert!(guests[0].take(50).is_ok() && guests[1].take(50).is_ok());
        assert!(guests[2].take(1).is_err_and(|level| std::ptr::eq(level, &raw const *engine)));
    }

    #[test]
    fn whoever_waits_is_woken_once_there_is_room() {
        let quota = Quota::of_guest(100, &Quota::of_engine(), None);
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));

        assert!(!quota.wait(&waker));
        quota.take_unchecked(200);
        assert!(quota.wait(&waker) && quota.wait(&waker));
        quota.release(100);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        quota.release(1);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
