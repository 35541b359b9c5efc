//! The watchdog: a thread that checks the schedulers several times a second for problems that they cannot detect
//! themselves.
//!
//! A poll that does not return makes its process *stuck*. Observers see its pid, and the processes queued behind it
//! move to the injector, from which all schedulers take, including the process in the LIFO slot. Idle schedulers would
//! steal them anyway, but busy ones never steal. The watchdog also logs processes that leave messages in their mailbox,
//! and frees what a burst has left behind: message nodes and the memory of free slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::mailbox::queue::NodePool;
use crate::mailbox::unreceived::{self, Wait};
use crate::observe::events::EventKind;
use crate::process::pid::Pid;
use crate::runtime::crashes;
use crate::runtime::panics;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::parking::Parking;
use crate::scheduler::{SchedulerShared, retry_steal};

const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The last observation of a scheduler.
struct Observation {
    polls: u64,
    current: Option<Pid>,
    since: Instant,
    stuck: Option<Pid>,
}

/// Body of the watchdog's thread.
pub(crate) fn run(shared: &Arc<RuntimeShared>) {
    let now = Instant::now();
    let mut observations: Vec<Observation> =
        shared.schedulers.iter().map(|_| Observation { polls: 0, current: None, since: now, stuck: None }).collect();
    let mut trimmer = TableTrimmer::default();
    let mut next_check = now + unreceived::CHECK_INTERVAL;
    while !shared.wait_for_stop(Instant::now() + CHECK_INTERVAL) {
        let now = Instant::now();
        let mut changed = false;
        for (scheduler, observation) in shared.schedulers.iter().zip(&mut observations) {
            changed |= check(shared, scheduler, observation, now);
        }
        if changed {
            let stuck = observations.iter().filter_map(|observation| observation.stuck).collect();
            *shared.stuck.lock() = stuck;
        }
        NodePool::trim(&shared.nodes);
        shared.fire_without_runner();
        panics::contain(|| trimmer.check(shared));
        panics::contain(|| shared.crash_log.flush(shared.now_ns(), false, |cause| shared.causes.text(cause)));
        if now >= next_check {
            for wait in shared.unreceived.check() {
                panics::contain(|| log_unreceived(shared, &wait));
            }
            next_check = now + unreceived::CHECK_INTERVAL;
        }
    }
}

/// Logs a process that was noted, if it has received nothing since, or only other messages.
fn log_unreceived(shared: &RuntimeShared, wait: &Wait) {
    let Some(slot) = shared.table.slot(wait.pid) else { return };
    let header = slot.header();
    let received = header.messages.load(Ordering::Relaxed);
    let has_cause = !wait.is_receive() || header.mailbox_len() > 0;
    let is_due = wait.is_due(received, header.wait.load(Ordering::Relaxed)) && has_cause;
    let is_alive = header.generation.load(Ordering::Acquire) == wait.pid.generation();
    // A check may return two notes of a process.
    let has_line = wait.is_receive() && slot.noted_at().load(Ordering::Relaxed) == unreceived::LOGGED;
    if !is_alive || !is_due || has_line {
        return;
    }
    if wait.is_receive() {
        slot.noted_at().store(unreceived::LOGGED, Ordering::Relaxed);
    }
    let has_received = received != wait.received_before;
    if let Some(skipped) = shared.crash_log.notices.take() {
        crashes::log_unreceived(&shared.called(wait.pid), wait, header.mailbox_len(), has_received, skipped);
    }
}

/// Number of batches of free slots that is worth freeing: 4 MiB.
const TRIM_BATCHES_MIN: usize = 64;
/// Number of checks in a row that must find them unused: a second.
const TRIM_CHECKS: u32 = 20;

/// Decides when the memory of free slots is returned to the system.
#[derive(Default)]
struct TableTrimmer {
    checks: u32,
    /// Batches that stayed after the last time, because other slots of their chunks are in use.
    left: usize,
}

impl TableTrimmer {
    fn check(&mut self, shared: &RuntimeShared) {
        let batches = shared.slots.batches();
        self.left = self.left.min(batches);
        self.checks = if batches >= self.left + TRIM_BATCHES_MIN { self.checks + 1 } else { 0 };
        if self.checks >= TRIM_CHECKS {
            shared.table.trim(&shared.slots);
            *self = Self { checks: 0, left: shared.slots.batches() };
        }
    }
}

/// Checks one scheduler. Returns true if it became stuck or is no longer stuck.
fn check(shared: &RuntimeShared, scheduler: &SchedulerShared, observation: &mut Observation, now: Instant) -> bool {
    let polls = scheduler.counters.polls.load(Ordering::Relaxed);
    let current = scheduler.running();
    // A process may have ended between the two checks, and another one started.
    if polls != observation.polls || current != observation.current || current.is_none() {
        observation.polls = polls;
        observation.current = current;
        observation.since = now;
        return match observation.stuck.take() {
            Some(pid) => {
                scheduler.lifo_slot.close();
                panics::contain(|| tracing::debug!(%pid, "process is no longer stuck"));
                true
            }
            None => false,
        };
    }
    if now - observation.since < shared.config.stuck_after {
        return false;
    }
    if observation.stuck.is_none() {
        scheduler.lifo_slot.share(|| scheduler.running().is_some());
    }
    drain_to_injector(shared, scheduler);
    if observation.stuck == current {
        return false;
    }
    if let Some(pid) = current {
        shared.events.record_blocking(EventKind::Stuck { pid });
        let since = now - observation.since;
        panics::contain(|| tracing::warn!(%pid, "process is stuck: its poll has not returned for {since:?}"));
    }
    observation.stuck = current;
    true
}

/// Moves the processes queued on a stuck scheduler to the injector, if there are other schedulers.
fn drain_to_injector(shared: &RuntimeShared, stuck: &SchedulerShared) {
    if shared.schedulers.len() == 1 {
        return;
    }
    // Each process with the number of processes that leave the stealable queue with it.
    let next = || {
        let queued = || retry_steal(|| stuck.stealer.steal()).map(|slot| (slot, 1));
        let preempted = || retry_steal(|| stuck.preempted.steal()).map(|slot| (slot, 0));
        stuck.steal_lifo().map(|slot| (slot, 0)).or_else(queued).or_else(preempted)
    };
    let (mut moved, mut moved_from_queue) = (0, 0);
    while let Some((slot, from_queue)) = next() {
        shared.injector.push(slot);
        moved += 1;
        moved_from_queue += from_queue;
    }
    if moved > 0 {
        stuck.count_stolen(moved, moved_from_queue);
        Parking::announce_work();
        shared.wake_one();
    }
}
