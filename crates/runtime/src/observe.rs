//! Observation of a runtime while it runs. Only [`while_paused`] stops the runtime; nothing else slows it down.
//!
//! The functions read relaxed atomics that processes and schedulers update anyway. A [`ProcessRef`] of a process reads 64
//! bytes of a dense table, so a scan of a million processes takes milliseconds; [`process`] also looks up names.
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

pub(crate) mod body_info;
pub(crate) mod engines;
pub(crate) mod events;
pub(crate) mod stores;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use crate::mailbox::gate::Phase;
pub use crate::observe::body_info::{BodyFact, BodyInfo, body_info, body_info_of};
pub use crate::observe::engines::{CacheReport, Engine, EngineReport, FaultReport, ModuleReport, Slots, engines};
pub use crate::observe::events::{EventKind, RuntimeEvent};
pub use crate::observe::stores::{
    BucketReport, KeyReport, KeysPage, KeysQuery, Storage, StorageReport, storage, stores,
};
use crate::process::header::{NAMED, ProcessHeader, STUCK, TRAPS, WAIT_HANDOFF, WAIT_RECEIVE, WAIT_SEND, WAIT_SLEEP};
use crate::process::pid::Pid;
pub use crate::process::side_table::ProcessLinks;
use crate::process::side_table::SideTables;
use crate::process::table::{CHUNK_SLOTS, CONTROL_BLOCK_BYTES, ProcessTable, Slot};
use crate::runtime::handle::Handle;
use crate::scheduler::{Counters, SchedulerShared};
pub use crate::stream::ring::{ReaderView, RingView};
pub use crate::supervision::supervisor::queries::{
    child, child_positions, children, supervisor, top_positions, top_supervisors,
};
pub use crate::supervision::supervisor::restart_pressure::RestartPressure;
pub use crate::supervision::supervisor::tree::{
    ChildCounts, ChildEnd, ChildKey, ChildPage, ChildReport, ChildStatus, SupervisorReport,
};
use crate::time::ticker::{self, TickerDriver, TickerReport};
pub use crate::time::timers::timer::TimerCounters;
pub use crate::topic::topics;

/// State of a process.
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
    /// Has ended or is ending.
    Exiting,
}

impl ProcessState {
    /// Returns the name of the state in tables and on the wire.
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
    /// Number of processes ever spawned.
    pub spawned: u64,
    /// Number of processes that have ended.
    pub exited: u64,
    /// Number of processes that have ended abnormally.
    pub crashed: u64,
    /// Number of live processes.
    pub live: u64,
    /// Number of messages ever received.
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

/// Heap bytes of the messages in all mailboxes of a runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxBytes {
    /// Bytes in mailboxes, except up to 64 KiB that each scheduler has counted in its current slice.
    pub bytes: u64,
    /// Maximum number of bytes; see [`mailbox_total_bytes`](crate::Config::mailbox_total_bytes).
    pub max_bytes: u64,
    /// True if the limit is reached: a mailbox that holds a message accepts no other.
    pub is_full: bool,
    /// Number of times that the limit was reached.
    pub filled_total: u64,
}

/// Reads the heap bytes of the messages in all mailboxes of a runtime, and their limit.
pub fn mailbox_bytes(runtime: &Handle) -> MailboxBytes {
    runtime.shared.mailboxes.report()
}

/// Counters of all supervisors of a runtime; all of them only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupervisionCounters {
    /// Number of children restarted after they had died.
    pub restarts: u64,
    /// Number of restarts that failed.
    pub restarts_failed: u64,
    /// Number of children that were never restarted because their supervisor gave up.
    pub children_lost: u64,
    /// Number of supervisors that ended because their children ended too often.
    pub gave_up: u64,
}

/// Reads the counters of the supervisors of a runtime.
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

/// Returns supervisors that had used more than half of their restarts at their last restart, however long ago it was.
pub fn restart_pressure(runtime: &Handle) -> Vec<RestartPressure> {
    runtime.shared.restart_pressures.all()
}

/// Returns the processes that are inside a poll, at most one for each scheduler.
pub fn polled(runtime: &Handle) -> Vec<Pid> {
    runtime.shared.schedulers.iter().filter_map(|scheduler| scheduler.running()).collect()
}

/// Counters of one scheduler; all except `run_queue` only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerCounters {
    /// Time not asleep, in nanoseconds.
    pub busy_ns: u64,
    /// Number of runnable processes in its queue.
    pub run_queue: u64,
    /// Number of polls of processes.
    pub polls: u64,
    /// Number of messages received by processes.
    pub messages: u64,
    /// Number of processes stolen from other schedulers.
    pub steals: u64,
    /// Number of times the scheduler went to sleep because it had no work.
    pub parks: u64,
    /// Number of times the scheduler woke up.
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

/// Reads when a scheduler became busy, and its busy time before. Both are of one moment, or time could count twice.
fn busy(counters: &Counters) -> (u64, u64) {
    let read = || (counters.busy_ns.load(Acquire), counters.busy_since_ns.load(Acquire));
    let mut seen = read();
    loop {
        let again = read();
        if again == seen {
            return (seen.1, seen.0);
        }
        seen = again;
    }
}

/// Returns the sum of polls, spawns and exits so far; `None` while any process is running or queued.
///
/// Two equal results mean that no process ran between the two calls.
pub fn idle_progress(runtime: &Handle) -> Option<u64> {
    let shared = &runtime.shared;
    let is_idle = |scheduler: &Arc<SchedulerShared>| {
        scheduler.counters.current.load(Relaxed).is_null() && scheduler.run_queue() == 0
    };
    let polls = |scheduler: &Arc<SchedulerShared>| scheduler.counters.polls.load(Relaxed);
    let (spawned, exited) = shared.spawned_and_exited();
    (shared.injector.is_empty() && shared.schedulers.iter().all(is_idle))
        .then(|| shared.schedulers.iter().map(polls).sum::<u64>().wrapping_add(spawned).wrapping_add(exited))
}

/// Returns the time since the runtime started.
pub fn uptime(runtime: &Handle) -> Duration {
    runtime.shared.started.elapsed()
}

/// Returns the processes with a poll that has run for longer than [`Config::stuck_after`](crate::Config::stuck_after).
pub fn stuck(runtime: &Handle) -> Vec<Pid> {
    runtime.shared.stuck.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
}

/// Returns the rings that this runtime's observers see, each with at most `readers_limit` readers, the slowest first.
///
/// A rate is the difference between the totals of two calls.
pub fn streams(runtime: &Handle, readers_limit: usize) -> Vec<RingView> {
    runtime.shared.streams.views(readers_limit)
}

/// Returns the maximum number of live processes.
pub fn process_limit(runtime: &Handle) -> usize {
    runtime.shared.config.process_limit
}

/// Number of slots in one part of the process table.
pub const TABLE_PART_SLOTS: usize = CHUNK_SLOTS;

/// Returns the number of parts of the process table, which only grows; [`for_each_process`] reads one part.
pub fn table_parts(runtime: &Handle) -> usize {
    runtime.shared.table.chunk_count()
}

/// Calls `visit` for every process in one part of the table: at most 1,023 processes.
#[inline]
pub fn for_each_process(runtime: &Handle, part: usize, mut visit: impl FnMut(ProcessRef<'_>)) {
    let Some((first, headers)) = runtime.shared.table.headers(part) else {
        return;
    };
    for (slot, header) in (first..).zip(headers).skip(1) {
        ProcessTable::prefetch(header);
        if header.gate.phase() != Phase::Closed {
            visit(ProcessRef { slot, header });
        }
    }
}

/// Runs code while no process runs, except those that do not return from their poll within `patience`.
/// For scans of the table that must not miss a process. All schedulers are stopped, so the code must be short.
pub fn while_paused<T>(runtime: &Handle, patience: Duration, code: impl FnOnce() -> T) -> T {
    runtime.shared.while_paused(patience, code)
}

/// Returns a view of the process in a slot; `None` if the slot is free.
#[inline]
pub fn process_in_slot(runtime: &Handle, slot: u32) -> Option<ProcessRef<'_>> {
    let (first, headers) = runtime.shared.table.headers(slot as usize / CHUNK_SLOTS)?;
    let header = headers.get((slot - first) as usize).filter(|_| slot != first)?;
    (header.gate.phase() != Phase::Closed).then_some(ProcessRef { slot, header })
}

/// Returns a view of a process; `None` if it has ended.
pub fn process_ref(runtime: &Handle, pid: Pid) -> Option<ProcessRef<'_>> {
    process_in_slot(runtime, pid.slot()).filter(|seen| seen.generation() == pid.generation())
}

/// A live view of a process's counters; each method reads the current value.
#[derive(Clone, Copy)]
pub struct ProcessRef<'a> {
    slot: u32,
    header: &'a ProcessHeader,
}

impl std::fmt::Debug for ProcessRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProcessRef({})", self.pid())
    }
}

impl ProcessRef<'_> {
    /// Returns the slot number in the process table.
    #[inline]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) fn table_slot(&self) -> Slot {
        Slot::of(self.header)
    }

    /// Returns the generation, which distinguishes the successive processes of one slot.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.header.generation.load(Relaxed)
    }

    /// Returns the pid.
    pub fn pid(&self) -> Pid {
        Pid::local(self.slot, self.generation())
    }

    /// Returns true if exit signals arrive as messages.
    pub fn traps_exits(&self) -> bool {
        self.header.flags.load(Relaxed) & TRAPS != 0
    }

    /// Returns the state of the process.
    pub fn state(&self) -> ProcessState {
        match self.header.gate.phase() {
            Phase::Closed => ProcessState::Exiting,
            Phase::Running if self.header.wait.load(Relaxed) & WAIT_HANDOFF != 0 => ProcessState::Runnable,
            Phase::Running => ProcessState::Running,
            Phase::Runnable => ProcessState::Runnable,
            Phase::Parked => {
                let wait = self.header.wait.load(Relaxed);
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

    /// Returns true if a poll has run for longer than the threshold.
    pub fn is_stuck(&self) -> bool {
        self.header.flags.load(Relaxed) & STUCK != 0
    }

    /// Returns true if the process may have a name or a label.
    #[inline]
    pub fn may_be_named(&self) -> bool {
        self.header.flags.load(Relaxed) & NAMED != 0
    }

    /// Returns the number of polls plus the number of messages received.
    #[inline]
    pub fn reductions(&self) -> u64 {
        self.header.reductions()
    }

    /// Returns the time inside polls that have ended, in nanoseconds.
    #[inline]
    pub fn busy_ns(&self) -> u64 {
        self.header.busy_ns.load(Relaxed)
    }

    /// Returns the number of messages received.
    #[inline]
    pub fn messages(&self) -> u64 {
        self.header.messages.load(Relaxed)
    }

    /// Returns the number of waiting messages.
    #[inline]
    pub fn mailbox_len(&self) -> u64 {
        self.header.mailbox_len()
    }

    /// Returns the maximum number of waiting messages.
    pub fn mailbox_capacity(&self) -> u64 {
        u64::from(self.header.capacity.load(Relaxed))
    }

    /// Returns the bytes of the waiting messages.
    #[inline]
    pub fn mailbox_bytes(&self) -> u64 {
        self.header.mailbox_bytes()
    }

    /// Returns the bytes of a future that is too large for the control block.
    #[inline]
    pub fn future_bytes(&self) -> u64 {
        u64::from(self.header.future_bytes.load(Relaxed))
    }

    /// Returns the bytes of control block, future and mailbox.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.header.memory_bytes()
    }

    /// Returns the bytes of a control block, including the space for a small future.
    pub const fn control_block_bytes() -> u64 {
        CONTROL_BLOCK_BYTES as u64
    }

    /// Returns the slot of the parent process; 0 if the process was spawned from outside.
    #[inline]
    pub fn parent_slot(&self) -> u32 {
        Slot::of(self.header).parent().0
    }

    /// Returns the time of the spawn, in milliseconds since the runtime started.
    #[inline]
    pub fn spawned_ms(&self) -> u32 {
        self.header.spawned_ms.load(Relaxed)
    }
}

/// Description of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReport {
    /// Pid of the process.
    pub pid: Pid,
    /// First registered name.
    pub name: Option<Arc<str>>,
    /// Label that the process has set.
    pub label: Option<Arc<str>>,
    /// State of the process.
    pub state: ProcessState,
    /// Process that spawned it; `None` if it was spawned from outside.
    pub parent: Option<Pid>,
    /// Rust type of its future.
    pub future_type: &'static str,
}

/// Returns the description of a process; `None` if it has ended.
pub fn process(runtime: &Handle, pid: Pid) -> Option<ProcessReport> {
    let process_ref = process_ref(runtime, pid)?;
    let slot = runtime.shared.table.slot(pid)?;
    let (name, label) = names(&process_ref);
    let (parent_slot, parent_generation) = slot.parent();
    Some(ProcessReport {
        pid,
        name,
        label,
        state: process_ref.state(),
        parent: (parent_slot != 0).then(|| Pid::local(parent_slot, parent_generation)),
        future_type: slot.future_type(),
    })
}

/// Returns the newest events after number `seq`, at most `limit`, oldest first.
///
/// The runtime keeps the newest 1,024 events and drops some if too many come at once; [`event_counts`] counts those.
pub fn events(runtime: &Handle, seq: u64, limit: usize) -> Vec<RuntimeEvent> {
    runtime.shared.events.since(seq, limit)
}

/// Returns the number of events recorded, and the number of events dropped because too many came at once.
pub fn event_counts(runtime: &Handle) -> (u64, u64) {
    let (noted, dropped) = runtime.shared.events.counts();
    let dropped_by = |scheduler: &Arc<SchedulerShared>| scheduler.counters.events_dropped.load(Relaxed);
    (noted, dropped + runtime.shared.schedulers.iter().map(dropped_by).sum::<u64>())
}

/// Returns the links and monitors of a process, at most `limit` of each kind; `None` if the process has ended.
pub fn links(runtime: &Handle, pid: Pid, limit: usize) -> Option<ProcessLinks> {
    runtime.shared.table.slot(pid).and_then(|slot| SideTables::links_and_monitors(slot, pid, limit))
}

/// Reads the counters of the runtime's timers.
pub fn timers(runtime: &Handle) -> TimerCounters {
    runtime.shared.timers.counters()
}

/// Returns the oldest `limit` tickers: of processes, and of threads with [`observed_by`](crate::time::ticker::Ticker::observed_by).
pub fn tickers(runtime: &Handle, limit: usize) -> Vec<TickerReport> {
    ticker::read_tickers(&runtime.shared.tickers, limit)
}

/// Reads the state of the thread that wakes processes at their ticks.
pub fn ticker_driver(runtime: &Handle) -> TickerDriver {
    ticker::read_driver(&runtime.shared.tickers)
}

/// Returns the first registered name and the label of a process.
pub fn names(process_ref: &ProcessRef<'_>) -> (Option<Arc<str>>, Option<Arc<str>>) {
    if process_ref.may_be_named() {
        SideTables::name_and_label(Slot::of(process_ref.header), process_ref.pid())
    } else {
        (None, None)
    }
}

/// Returns the number of schedulers that are inside a poll.
pub fn running(runtime: &Handle) -> u64 {
    let inside = |scheduler: &&Arc<SchedulerShared>| !scheduler.counters.current.load(Relaxed).is_null();
    runtime.shared.schedulers.iter().filter(inside).count() as u64
}
