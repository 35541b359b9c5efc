//! The newest sampled scheduling delays of a scheduler, each with its process.
//!
//! Only the thread of the scheduler writes. A pair that is overwritten while it is read does not fit together: the delay
//! carries some bits of its process, and the reader drops a pair whose bits differ.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::pid::Pid;

/// Number of delays that are kept.
const KEPT: usize = 1024;
/// Bits of the process beside a delay, which has the others: up to three days.
const CHECK_BITS: u32 = 16;

/// The newest delays.
pub(crate) struct RecentDelays {
    /// Number of delays that were ever added.
    added: AtomicU64,
    entries: Box<[Entry]>,
}

/// A process, packed, and its delay with the check bits.
#[derive(Default)]
struct Entry {
    process: AtomicU64,
    delay: AtomicU64,
}

impl Default for RecentDelays {
    fn default() -> Self {
        Self { added: AtomicU64::new(0), entries: (0..KEPT).map(|_| Entry::default()).collect() }
    }
}

impl RecentDelays {
    /// Adds a delay. Only one thread may call this.
    pub(crate) fn add(&self, pid: Pid, delay_ns: u64) {
        let added = self.added.load(Ordering::Relaxed);
        let entry = &self.entries[added as usize % KEPT];
        let process = u64::from(pid.slot()) << 32 | u64::from(pid.generation());
        entry.process.store(process, Ordering::Relaxed);
        entry.delay.store(delay_ns << CHECK_BITS | check(process), Ordering::Relaxed);
        // Release: a reader that sees the new number sees the entry.
        self.added.store(added + 1, Ordering::Release);
    }

    /// Passes each delay that was added after the first `seen` ones, as far as they are kept; returns the new number.
    pub(crate) fn since(&self, seen: u64, mut visit: impl FnMut(Pid, u64)) -> u64 {
        let added = self.added.load(Ordering::Acquire);
        for number in seen.max(added.saturating_sub(KEPT as u64))..added {
            let entry = &self.entries[number as usize % KEPT];
            let (process, delay) = (entry.process.load(Ordering::Relaxed), entry.delay.load(Ordering::Relaxed));
            if delay & ((1 << CHECK_BITS) - 1) == check(process) {
                visit(Pid::local((process >> 32) as u32, process as u32), delay >> CHECK_BITS);
            }
        }
        added
    }
}

/// Returns the bits of a process that its delay carries.
const fn check(process: u64) -> u64 {
    (process ^ process >> 16 ^ process >> 32) & ((1 << CHECK_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(recent: &RecentDelays, seen: u64) -> (u64, Vec<(u32, u64)>) {
        let mut read = Vec::new();
        let seen = recent.since(seen, |pid, delay_ns| read.push((pid.slot(), delay_ns)));
        (seen, read)
    }

    #[test]
    fn each_delay_is_read_once_and_the_newest_are_kept() {
        let recent = RecentDelays::default();
        recent.add(Pid::local(7, 1), 100);
        recent.add(Pid::local(8, 2), 200);

        let (seen, first) = read(&recent, 0);
        assert_eq!(first, [(7, 100), (8, 200)]);
        assert_eq!(read(&recent, seen), (2, Vec::new()));

        (0..3 * KEPT as u32).for_each(|n| recent.add(Pid::local(n + 1, 1), n.into()));
        let (seen, newest) = read(&recent, seen);
        assert_eq!((seen, newest.len()), (2 + 3 * KEPT as u64, KEPT));
        assert_eq!(newest.last(), Some(&(3 * KEPT as u32, 3 * KEPT as u64 - 1)));
    }

    #[test]
    fn a_delay_beside_another_process_is_dropped() {
        let recent = RecentDelays::default();
        recent.add(Pid::local(7, 1), 100);

        recent.entries[0].process.store(9 << 32 | 1, Ordering::Relaxed);

        assert_eq!(read(&recent, 0), (1, Vec::new()));
    }
}
