//! Looking at a runtime while it runs, without stopping or slowing anything.
//!
//! Everything here reads relaxed atomics that processes and schedulers keep anyway. A [`Glimpse`] of a process is 64 bytes
//! of a dense table, so a million of them are looked through in milliseconds; [`process`] also looks up names.
//!
//! ```
//! use rusm_runtime::{Config, Runtime, observe};
//!
//! let runtime = Runtime::start(Config::default())?;
//! let pid = runtime.spawn(|ctx| async move { drop(ctx.receive().await) })?;
//! let seen = observe::process(&runtime, pid).expect("it waits for a message");
//! assert_eq!(seen.parent, None);
//! assert_eq!(observe::totals(&runtime).live, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use crate::cell::{Cell, NAMED, STUCK, TRAPS, WAIT_RECEIVE, WAIT_SEND, WAIT_SLEEP, WAIT_TURN};
pub use crate::engines::{CacheReport, Engine, EngineReport, FaultReport, ModuleReport, Slots, engines};
pub use crate::events::{Event, EventKind};
pub use crate::extra::{Extra, Fact, extra, extra_of};
use crate::gate::Phase;
use crate::handle::Handle;
pub use crate::holdings::Bonds;
use crate::holdings::Holdings;
use crate::pid::Pid;
pub use crate::ring::{ReaderView, RingView};
use crate::scheduler::{Counters, SchedulerShared};
use crate::slab::{CHUNK_SLOTS, CONTROL_BLOCK_BYTES, Slab, Slot};
pub use crate::stores::{BucketReport, KeyReport, KeysPage, KeysWish, Storage, StorageReport, storage, stores};
pub use crate::supervisor::look::{child, child_places, children, supervisor, top_places, top_supervisors};
pub use crate::supervisor::strain::Strain;
pub use crate::supervisor::tree::{
    BranchState, ChildCounts, ChildEnd, ChildKey, ChildPage, ChildReport, SupervisorReport,
};
use crate::ticker::{self, TickerDriver, TickerReport};
pub use crate::timers::TimerCounters;
pub use crate::topic::topics;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessState {
    /// Inside a poll.
    Running,
    /// In a run queue.
    Runnable,
    /// Waits for a message, for room in a mailbox, or for the other side of a ring.
    Waiting,
    /// Waits for a timer.
    Sleeping,
    /// Waits for a socket, blocking code or another future.
    Io,
    /// Gone, or at its last instant.
    Exiting,
}

impl ProcessState {
    /// The state's word in tables and on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Waiting => "waiting",
            Self::Sleeping => "sleeping",
            Self::Io => "io",
            Self::Exiting => "exiting",
        }
    }
}

/// Counters of a whole runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Processes ever spawned.
    pub spawned: u64,
    /// Processes ever ended.
    pub exited: u64,
    /// Processes ever ended abnormally.
    pub crashed: u64,
    /// Processes alive.
    pub live: u64,
    /// Messages ever received.
    pub messages: u64,
}

/// Reads the counters of a runtime.
pub fn totals(runtime: &Handle) -> Totals {
    let shared = &runtime.shared;
    let sum =
        |counter: fn(&Counters) -> u64| shared.schedulers.iter().map(|scheduler| counter(&scheduler.counters)).sum();
    let (spawned, exited) = shared.spawned_and_exited();
    Totals {
        spawned,
        exited,
        crashed: sum(|counters| counters.crashed.load(Relaxed)),
        live: spawned - exited,
        messages: sum(|counters| counters.messages.load(Relaxed)),
    }
}

/// The heap bytes of messages in all mailboxes of a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxBytes {
    /// Bytes in mailboxes. What a scheduler counted in its running slice, at most 64 KiB, is missing.
    pub bytes: u64,
    /// The most; see [`mailbox_total_bytes`](crate::Config::mailbox_total_bytes).
    pub max_bytes: u64,
    /// The limit is reached: mailboxes that hold a message accept no other.
    pub is_full: bool,
    /// Times that the limit was reached.
    pub filled_total: u64,
}

/// Reads how many heap bytes all mailboxes of a runtime hold, and may hold.
pub fn mailbox_bytes(runtime: &Handle) -> MailboxBytes {
    runtime.shared.mailboxes.seen()
}

/// What all supervisors of a runtime have done; all of it only goes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupervisionCounters {
    /// Children started again because they had died.
    pub restarts: u64,
    /// Children that did not start again when they should have.
    pub restarts_failed: u64,
    /// Children that never started again, because their supervisor gave up.
    pub children_lost: u64,
    /// Supervisors that ended because their children ended too often.
    pub gave_up: u64,
}

/// Reads what the supervisors of a runtime have done.
pub fn supervision(runtime: &Handle) -> SupervisionCounters {
    let mut sum = SupervisionCounters::default();
    for scheduler in &runtime.shared.schedulers {
        let counters = &scheduler.counters;
        sum.restarts += counters.restarts.load(Relaxed);
        sum.restarts_failed += counters.restarts_failed.load(Relaxed);
        sum.children_lost += counters.children_lost.load(Relaxed);
        sum.gave_up += counters.gave_up.load(Relaxed);
    }
    sum
}

/// Supervisors that had used more than half of their restarts when they last restarted a child; old ones among them.
pub fn strained(runtime: &Handle) -> Vec<Strain> {
    runtime.shared.strains.all()
}

/// The processes inside a poll, at most one for each scheduler.
pub fn polled(runtime: &Handle) -> Vec<Pid> {
    runtime.shared.schedulers.iter().filter_map(|scheduler| scheduler.running()).collect()
}

/// Counters of one scheduler; all but the run queue only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerCounters {
    /// Nanoseconds not asleep.
    pub busy_ns: u64,
    /// Runnable processes in its queue.
    pub run_queue: u64,
    /// Polls of processes.
    pub polls: u64,
    /// Messages received by processes.
    pub messages: u64,
    /// Processes taken from other schedulers.
    pub steals: u64,
    /// Times it went to sleep for want of work.
    pub parks: u64,
    /// Times it woke up.
    pub wakes: u64,
}

/// Reads the counters of each scheduler.
pub fn schedulers(runtime: &Handle) -> Vec<SchedulerCounters> {
    let shared = &runtime.shared;
    let now_ns = uptime(runtime).as_nanos() as u64;
    let read = |scheduler: &Arc<SchedulerShared>| {
        let counters = &scheduler.counters;
        let (since_ns, busy_ns) = busy(counters);
        let running_ns = if since_ns == 0 { 0 } else { now_ns.saturating_sub(since_ns) };
        SchedulerCounters {
            busy_ns: busy_ns + running_ns,
            run_queue: scheduler.run_queue() as u64,
            polls: counters.polls.load(Relaxed),
            messages: counters.messages.load(Relaxed),
            steals: counters.steals.load(Relaxed),
            parks: counters.parks.load(Relaxed),
            wakes: counters.wakes.load(Relaxed),
        }
    };
    shared.schedulers.iter().map(read).collect()
}

/// From when on a scheduler is busy, and how long it was before: of one moment, or what lies between would count twice.
fn busy(counters: &Counters) -> (u64, u64) {
    let look = || (counters.busy_ns.load(Acquire), counters.busy_since_ns.load(Acquire));
    let mut seen = look();
    loop {
        let again = look();
        if again == seen {
            return (seen.1, seen.0);
        }
        seen = again;
    }
}

/// Polls, spawns and exits so far; `None` while there is more of them to come from what is running or queued.
///
/// Two equal answers mean that no process has done anything between them.
pub fn stillness(runtime: &Handle) -> Option<u64> {
    let shared = &runtime.shared;
    let still = |scheduler: &Arc<SchedulerShared>| {
        scheduler.counters.current.load(Relaxed).is_null() && scheduler.run_queue() == 0
    };
    let polls = |scheduler: &Arc<SchedulerShared>| scheduler.counters.polls.load(Relaxed);
    let (spawned, exited) = shared.spawned_and_exited();
    (shared.injector.is_empty() && shared.schedulers.iter().all(still))
        .then(|| shared.schedulers.iter().map(polls).sum::<u64>().wrapping_add(spawned).wrapping_add(exited))
}

/// Time since the runtime started.
pub fn uptime(runtime: &Handle) -> Duration {
    runtime.shared.started.elapsed()
}

/// Processes whose poll has not returned for longer than [`Config::stuck_after`](crate::Config::stuck_after).
pub fn stuck(runtime: &Handle) -> Vec<Pid> {
    runtime.shared.stuck.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// The rings that were built by processes of this runtime, or to be seen by it; of each as many readers, the slowest first.
///
/// Rates are what the totals of two looks differ by.
pub fn streams(runtime: &Handle, readers_most: usize) -> Vec<RingView> {
    runtime.shared.streams.views(readers_most)
}

/// Processes that may live at once.
pub fn process_limit(runtime: &Handle) -> usize {
    runtime.shared.config.process_limit
}

/// Slots in one part of the process table.
pub const TABLE_PART_SLOTS: usize = CHUNK_SLOTS;

/// Parts of the process table that [`glimpses`] reads one at a time; it only grows.
pub fn table_parts(runtime: &Handle) -> usize {
    runtime.shared.slab.chunk_count()
}

/// Looks at every process in one part of the table, 1,023 at most.
#[inline]
pub fn glimpses(runtime: &Handle, part: usize, mut look: impl FnMut(Glimpse<'_>)) {
    let Some((first, cells)) = runtime.shared.slab.cells(part) else {
        return;
    };
    for (slot, cell) in (first..).zip(cells).skip(1) {
        Slab::prefetch(cell);
        if cell.gate.phase() != Phase::Closed {
            look(Glimpse { slot, cell });
        }
    }
}

/// Runs code while no process runs, except those that do not return from their poll within `patience`.
/// For looks at the table that must not miss a process. All schedulers stand still, so the code must be short.
pub fn while_paused<T>(runtime: &Handle, patience: Duration, code: impl FnOnce() -> T) -> T {
    runtime.shared.while_paused(patience, code)
}

/// Looks at the process in a slot, if there is one.
#[inline]
pub fn glimpse(runtime: &Handle, slot: u32) -> Option<Glimpse<'_>> {
    let (first, cells) = runtime.shared.slab.cells(slot as usize / CHUNK_SLOTS)?;
    let cell = cells.get((slot - first) as usize).filter(|_| slot != first)?;
    (cell.gate.phase() != Phase::Closed).then_some(Glimpse { slot, cell })
}

/// Looks at a process, unless it has ended.
pub fn glimpse_of(runtime: &Handle, pid: Pid) -> Option<Glimpse<'_>> {
    glimpse(runtime, pid.slot()).filter(|seen| seen.generation() == pid.generation())
}

/// A live view of a process's counters; each value is of the moment it is read.
#[derive(Clone, Copy)]
pub struct Glimpse<'a> {
    slot: u32,
    cell: &'a Cell,
}

impl std::fmt::Debug for Glimpse<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Glimpse({})", self.pid())
    }
}

impl Glimpse<'_> {
    /// The place in the process table.
    #[inline]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) fn cell_slot(&self) -> Slot {
        Slot::of(self.cell)
    }

    /// Which tenant of that place.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.cell.generation.load(Relaxed)
    }

    /// The pid.
    pub fn pid(&self) -> Pid {
        Pid::local(self.slot, self.generation())
    }

    /// Exit signals come to it as messages.
    pub fn traps_exits(&self) -> bool {
        self.cell.flags.load(Relaxed) & TRAPS != 0
    }

    /// What it does.
    pub fn state(&self) -> ProcessState {
        match self.cell.gate.phase() {
            Phase::Closed => ProcessState::Exiting,
            Phase::Running if self.cell.wait.load(Relaxed) & WAIT_TURN != 0 => ProcessState::Runnable,
            Phase::Running => ProcessState::Running,
            Phase::Runnable => ProcessState::Runnable,
            Phase::Parked => {
                let wait = self.cell.wait.load(Relaxed);
                if wait & (WAIT_RECEIVE | WAIT_SEND) != 0 {
                    ProcessState::Waiting
                } else if wait & WAIT_SLEEP != 0 {
                    ProcessState::Sleeping
                } else {
                    ProcessState::Io
                }
            }
        }
    }

    /// A poll has not returned for longer than the threshold.
    pub fn is_stuck(&self) -> bool {
        self.cell.flags.load(Relaxed) & STUCK != 0
    }

    /// It may have a name or a label.
    #[inline]
    pub fn may_be_named(&self) -> bool {
        self.cell.flags.load(Relaxed) & NAMED != 0
    }

    /// Polls and messages handled.
    #[inline]
    pub fn reductions(&self) -> u64 {
        self.cell.reductions()
    }

    /// Nanoseconds inside polls, up to the last one that ended.
    #[inline]
    pub fn busy_ns(&self) -> u64 {
        self.cell.busy_ns.load(Relaxed)
    }

    /// Messages received.
    #[inline]
    pub fn messages(&self) -> u64 {
        self.cell.messages.load(Relaxed)
    }

    /// Messages waiting.
    #[inline]
    pub fn mailbox_len(&self) -> u64 {
        self.cell.mailbox_len()
    }

    /// Messages that fit.
    pub fn mailbox_capacity(&self) -> u64 {
        u64::from(self.cell.capacity.load(Relaxed))
    }

    /// Bytes of waiting messages.
    #[inline]
    pub fn mailbox_bytes(&self) -> u64 {
        self.cell.mailbox_bytes()
    }

    /// Bytes of a future too large for the control block.
    #[inline]
    pub fn future_bytes(&self) -> u64 {
        u64::from(self.cell.future_bytes.load(Relaxed))
    }

    /// Control block, future and mailbox.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.cell.memory_bytes()
    }

    /// Bytes of every process's control block, with the room for a small future.
    pub const fn control_block_bytes() -> u64 {
        CONTROL_BLOCK_BYTES as u64
    }

    /// The slot of the process that spawned it; 0 if that was not a process.
    #[inline]
    pub fn parent_slot(&self) -> u32 {
        Slot::of(self.cell).parent().0
    }

    /// When it was spawned, in milliseconds since the runtime started.
    #[inline]
    pub fn born_ms(&self) -> u32 {
        self.cell.born_ms.load(Relaxed)
    }
}

/// A process in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReport {
    /// The pid.
    pub pid: Pid,
    /// The first registered name.
    pub name: Option<Arc<str>>,
    /// What the process calls itself.
    pub label: Option<Arc<str>>,
    /// What it does.
    pub state: ProcessState,
    /// The process that spawned it.
    pub parent: Option<Pid>,
    /// The Rust type of its future.
    pub future_type: &'static str,
}

/// Looks up a process; `None` if it has ended.
pub fn process(runtime: &Handle, pid: Pid) -> Option<ProcessReport> {
    let glimpse = glimpse_of(runtime, pid)?;
    let slot = runtime.shared.slab.slot(pid)?;
    let (name, label) = names(&glimpse);
    let (parent_slot, parent_generation) = slot.parent();
    Some(ProcessReport {
        pid,
        name,
        label,
        state: glimpse.state(),
        parent: (parent_slot != 0).then(|| Pid::local(parent_slot, parent_generation)),
        future_type: slot.future_type(),
    })
}

/// At most `most` of the events after the one numbered `seq`, the newest of them, oldest first.
///
/// The runtime keeps the newest 1,024 and drops some of a storm; [`event_counts`] says how many.
pub fn events(runtime: &Handle, seq: u64, most: usize) -> Vec<Event> {
    runtime.shared.events.since(seq, most)
}

/// Events noted so far, and events that were dropped because there were too many at once.
pub fn event_counts(runtime: &Handle) -> (u64, u64) {
    let (noted, dropped) = runtime.shared.events.counts();
    let dropped_by = |scheduler: &Arc<SchedulerShared>| scheduler.counters.events_dropped.load(Relaxed);
    (noted, dropped + runtime.shared.schedulers.iter().map(dropped_by).sum::<u64>())
}

/// The links and monitors of a process, `most` of each kind at the most; `None` if it has ended.
pub fn bonds(runtime: &Handle, pid: Pid, most: usize) -> Option<Bonds> {
    runtime.shared.slab.slot(pid).and_then(|slot| Holdings::bonds(slot, pid, most))
}

/// What the timers of the runtime have done.
pub fn timers(runtime: &Handle) -> TimerCounters {
    runtime.shared.timers.counters()
}

/// At most `most` tickers of processes, and of threads that want to be [seen](crate::ticker::Ticker::seen_by), the oldest first.
pub fn tickers(runtime: &Handle, most: usize) -> Vec<TickerReport> {
    ticker::read_tickers(&runtime.shared.tickers, most)
}

/// The thread that wakes processes at their ticks.
pub fn ticker_driver(runtime: &Handle) -> TickerDriver {
    ticker::read_driver(&runtime.shared.tickers)
}

/// The first registered name and the label of a process.
pub fn names(glimpse: &Glimpse<'_>) -> (Option<Arc<str>>, Option<Arc<str>>) {
    if glimpse.may_be_named() { Holdings::called(Slot::of(glimpse.cell), glimpse.pid()) } else { (None, None) }
}

/// Schedulers that are inside a poll.
pub fn running(runtime: &Handle) -> u64 {
    let inside = |scheduler: &&Arc<SchedulerShared>| !scheduler.counters.current.load(Relaxed).is_null();
    runtime.shared.schedulers.iter().filter(inside).count() as u64
}
