//! The workers that run now, each in its slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::mailbox::gate::Phase;
use crate::process::header::WAIT_RECEIVE;
use crate::process::pid::Pid;
use crate::runtime::shared::RuntimeShared;

/// Maximum number of workers of which all are compared.
const COMPARED_MAX: usize = 8;

/// Pids of workers. A slot keeps the pid of a worker that has ended until the next one has started.
pub(crate) struct Workers {
    /// Slot in the upper half, generation in the lower half; 0 for none.
    pids: Box<[AtomicU64]>,
    next: AtomicUsize,
}

impl Workers {
    pub(super) fn new(count: usize) -> Self {
        Self { pids: (0..count).map(|_| AtomicU64::new(0)).collect(), next: AtomicUsize::new(0) }
    }

    pub(super) fn count(&self) -> usize {
        self.pids.len()
    }

    /// Returns the worker in a slot.
    #[inline]
    pub(super) fn at(&self, index: usize) -> Pid {
        let word = self.pids[index].load(Ordering::Acquire);
        Pid::local((word >> 32) as u32, word as u32)
    }

    /// Returns the next worker. Without a read-modify-write: two threads that get the same one do no harm.
    #[inline]
    pub(super) fn next(&self) -> Pid {
        self.at(self.turn())
    }

    #[inline]
    fn turn(&self) -> usize {
        let turn = self.next.load(Ordering::Relaxed);
        let after = turn + 1;
        self.next.store(if after < self.pids.len() { after } else { 0 }, Ordering::Relaxed);
        turn
    }

    /// Returns the worker with the least to do, the next one of several. Of many workers, two are compared, and all if
    /// neither has room.
    pub(super) fn least_loaded(&self, shared: &RuntimeShared) -> Pid {
        let (first, compared) = (self.turn(), self.pids.len().min(COMPARED_MAX));
        let compared = if self.pids.len() > COMPARED_MAX { 2 } else { compared };
        let least = |compared| {
            let workers = (0..compared).map(|offset| self.at((first + offset) % self.pids.len()));
            workers.min_by_key(|pid| load(shared, *pid)).unwrap_or(Pid::NONE)
        };
        let best = least(compared);
        if compared < self.pids.len() && !has_room(shared, best) { least(self.pids.len()) } else { best }
    }
}

/// Returns true if a process is alive and its mailbox has room.
fn has_room(shared: &RuntimeShared, pid: Pid) -> bool {
    shared
        .live_slot(pid)
        .is_some_and(|slot| slot.header().mailbox_len() < u64::from(slot.header().capacity.load(Ordering::Relaxed)))
}

/// Returns how much a worker has to do: twice the length of its mailbox, and one more if it handles a message now. A
/// process that has ended has the most.
fn load(shared: &RuntimeShared, pid: Pid) -> u64 {
    let Some(slot) = shared.live_slot(pid) else { return u64::MAX };
    let header = slot.header();
    let receives = header.wait.load(Ordering::Relaxed) & WAIT_RECEIVE != 0;
    let is_busy = header.gate.phase() == Phase::Running || !receives;
    2 * header.mailbox_len() + u64::from(is_busy)
}

/// The place of one worker, which its supervisor fills at each start.
#[derive(Clone)]
pub(crate) struct WorkerSlot {
    pub(super) workers: Arc<Workers>,
    pub(super) index: usize,
}

impl WorkerSlot {
    pub(crate) const fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn fill(&self, pid: Pid) {
        let word = u64::from(pid.slot()) << 32 | u64::from(pid.generation());
        self.workers.pids[self.index].store(word, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_its_turn() {
        let workers = Arc::new(Workers::new(3));
        for index in 0..3 {
            WorkerSlot { workers: Arc::clone(&workers), index }.fill(Pid::local(index as u32 + 1, 7));
        }
        let turns: Vec<u32> = (0..7).map(|_| workers.next().slot()).collect();
        assert_eq!(turns, [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(workers.at(2), Pid::local(3, 7));
    }
}
