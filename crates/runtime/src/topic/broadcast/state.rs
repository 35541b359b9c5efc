//! State that a subscriber without acknowledgements shares with its topic.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use super::overflow::Overflow;
use crate::process::pid::Pid;
use crate::runtime::panics;
use crate::stream::ring::shared::unpacked;
use crate::topic::message::Message;
use crate::topic::retention::{LogLimits, PushSubscriber, Waiter};

/// State that a subscriber shares with the topic and its observers.
pub(crate) struct SubscriberState {
    pub(crate) overflow: Overflow,
    pub(super) joined: AtomicU64,
    pub(super) position: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) owner: AtomicU64,
    pub(super) gone: AtomicBool,
    pub(super) waker: Mutex<Option<Waker>>,
    /// Queue of pushed messages; used only with [`Overflow::DropNewest`].
    pub(super) pushed: Mutex<PushQueue>,
}

/// Queue of messages that the log need not retain for the subscriber; therefore bounded here.
pub(super) struct PushQueue {
    pub(super) messages: VecDeque<Message>,
    pub(super) bytes: usize,
    limits: LogLimits,
}

impl SubscriberState {
    pub(super) fn new(overflow: Overflow, joined: u64, limits: LogLimits) -> Self {
        Self {
            overflow: overflow.with_min_capacity(),
            joined: AtomicU64::new(joined),
            position: AtomicU64::new(joined),
            dropped: AtomicU64::new(0),
            owner: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            waker: Mutex::new(None),
            pushed: Mutex::new(PushQueue { messages: VecDeque::new(), bytes: 0, limits }),
        }
    }

    pub(super) fn begin(&self, position: u64) {
        self.joined.store(position, Ordering::Relaxed);
        self.position.store(position, Ordering::Relaxed);
    }

    /// Number of messages published since the subscriber joined.
    pub(super) fn published(&self, head: u64) -> u64 {
        head - self.joined.load(Ordering::Relaxed)
    }

    /// Process that waited last, or that read first.
    pub(crate) fn owner(&self) -> Option<Pid> {
        unpacked(self.owner.load(Ordering::Relaxed))
    }

    /// Number of messages that it will never receive, including those that it has not skipped yet.
    pub(crate) fn dropped(&self, head: u64) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.overflowed(head)
    }

    pub(crate) fn delivered(&self) -> u64 {
        let passed = self.position.load(Ordering::Relaxed) - self.joined.load(Ordering::Relaxed);
        if self.is_pushed() { passed } else { passed.saturating_sub(self.dropped.load(Ordering::Relaxed)) }
    }

    pub(crate) fn backlog(&self, head: u64) -> u64 {
        if self.is_pushed() {
            return self.pushed.lock().messages.len() as u64;
        }
        self.behind(head) - self.overflowed(head)
    }

    fn behind(&self, head: u64) -> u64 {
        head.saturating_sub(self.position.load(Ordering::Relaxed))
    }

    /// Number of unread messages that the policy has given up; the next read skips them.
    fn overflowed(&self, head: u64) -> u64 {
        let behind = self.behind(head);
        match self.overflow {
            Overflow::DropOldest { capacity } => behind.saturating_sub(capacity as u64),
            Overflow::Disconnect { capacity } if self.gone.load(Ordering::Relaxed) || behind > capacity as u64 => {
                behind
            }
            _ => 0,
        }
    }

    const fn is_pushed(&self) -> bool {
        matches!(self.overflow, Overflow::DropNewest { .. })
    }

    /// Position of the next message in the log; `None` if messages are pushed.
    pub(crate) fn position(&self) -> Option<u64> {
        (!self.is_pushed()).then(|| self.position.load(Ordering::Relaxed))
    }
}

impl Waiter for SubscriberState {
    fn wake(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            panics::wake(waker);
        }
    }
}

impl PushSubscriber for SubscriberState {
    fn push(&self, message: &Message) -> bool {
        let Overflow::DropNewest { capacity } = self.overflow else { return false };
        let mut pushed = self.pushed.lock();
        let bytes = pushed.bytes + message.bytes();
        if pushed.messages.len() >= capacity.min(pushed.limits.messages) || bytes > pushed.limits.bytes {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        pushed.bytes = bytes;
        pushed.messages.push_back(message.clone());
        pushed.messages.len() == 1
    }
}
