//! The watchdog: a thread that checks the schedulers several times a second for problems that they cannot detect
//! themselves.
//!
//! A poll that does not return makes its process *stuck*. Observers see its pid, and the processes queued behind it
//! move to the injector, from which all schedulers take, including the process in the LIFO slot. Idle schedulers would
//! steal them anyway, but busy ones never steal. The watchdog also frees what a burst has left behind: message nodes
//! and the memory of free slots.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::cell::STUCK;
use crate::events::EventKind;
use crate::mailbox::NodePool;
use crate::parking::Parking;
use crate::pid::Pid;
use crate::runtime::Shared;
use crate::scheduler::{SchedulerShared, insist};

const EVERY: Duration = Duration::from_millis(50);

/// The last observation of a scheduler.
struct Sight {
    polls: u64,
    current: Option<Pid>,
    since: Instant,
    stuck: Option<Pid>,
}

/// Body of the watchdog's thread.
pub(crate) fn run(shared: &Arc<Shared>) {
    let now = Instant::now();
    let mut sights: Vec<Sight> =
        shared.schedulers.iter().map(|_| Sight { polls: 0, current: None, since: now, stuck: None }).collect();
    let mut cooling = Cooling::default();
    while !shared.wait_for_stop(Instant::now() + EVERY) {
        let now = Instant::now();
        let mut changed = false;
        for (scheduler, sight) in shared.schedulers.iter().zip(&mut sights) {
            changed |= look(shared, scheduler, sight, now);
        }
        if changed {
            let stuck = sights.iter().filter_map(|sight| sight.stuck).collect();
            *shared.stuck.lock().unwrap_or_else(PoisonError::into_inner) = stuck;
        }
        NodePool::trim(&shared.nodes);
        shared.fire_unattended();
        cooling.look(shared);
    }
}

/// Number of batches of free slots that is worth freeing: 4 MiB.
const COOL_BATCHES: usize = 64;
/// Number of checks in a row that must find them unused: a second.
const COOL_LOOKS: u32 = 20;

/// Decides when the memory of free slots is returned to the system.
#[derive(Default)]
struct Cooling {
    looks: u32,
    /// Batches that stayed after the last time, because other slots of their chunks are in use.
    left: usize,
}

impl Cooling {
    fn look(&mut self, shared: &Shared) {
        let batches = shared.slots.batches();
        self.left = self.left.min(batches);
        self.looks = if batches >= self.left + COOL_BATCHES { self.looks + 1 } else { 0 };
        if self.looks >= COOL_LOOKS {
            shared.slab.cool(&shared.slots);
            *self = Self { looks: 0, left: shared.slots.batches() };
        }
    }
}

/// Checks one scheduler. Returns true if it became stuck or is no longer stuck.
fn look(shared: &Shared, scheduler: &SchedulerShared, sight: &mut Sight, now: Instant) -> bool {
    let polls = scheduler.counters.polls.load(Ordering::Relaxed);
    let current = scheduler.running();
    // A process may have ended between the two checks, and another one started.
    if polls != sight.polls || current != sight.current || current.is_none() {
        sight.polls = polls;
        sight.current = current;
        sight.since = now;
        return match sight.stuck.take() {
            Some(pid) => {
                scheduler.next.close();
                flag(shared, pid, false);
                true
            }
            None => false,
        };
    }
    if now - sight.since < shared.config.stuck_after {
        return false;
    }
    if sight.stuck.is_none() {
        scheduler.next.share(|| scheduler.running().is_some());
    }
    hand_over(shared, scheduler);
    if sight.stuck == current {
        return false;
    }
    if let Some(pid) = current {
        flag(shared, pid, true);
        shared.events.note(|| EventKind::Stuck { pid });
        tracing::warn!(%pid, "process is stuck: its poll has not returned for {:?}", now - sight.since);
    }
    sight.stuck = current;
    true
}

/// Moves the processes queued on a stuck scheduler to the injector, if there are other schedulers.
fn hand_over(shared: &Shared, stuck: &SchedulerShared) {
    if shared.schedulers.len() == 1 {
        return;
    }
    let stolen = || {
        let queued = stuck.steal_next().or_else(|| insist(|| stuck.stealer.steal()));
        queued.or_else(|| insist(|| stuck.preempted.steal()))
    };
    let mut any = false;
    while let Some(slot) = stolen() {
        shared.injector.push(slot);
        any = true;
    }
    if any {
        Parking::announce_work();
        shared.wake_one();
    }
}

fn flag(shared: &Shared, pid: Pid, stuck: bool) {
    if let Some(slot) = shared.slab.slot(pid) {
        if stuck {
            slot.cell().flags.fetch_or(STUCK, Ordering::Relaxed);
        } else {
            slot.cell().flags.fetch_and(!STUCK, Ordering::Relaxed);
        }
    }
}
