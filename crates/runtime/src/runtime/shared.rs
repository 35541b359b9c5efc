//! The state that all threads of a runtime share, and the operations that need only this state.
//!
//! It imports only data: tables, registries, counters. The code that acts on processes (links, sends, spawns, the
//! schedulers) lies above it and extends [`RuntimeShared`] by methods of its own.

#![expect(unsafe_code, reason = "gives the owner of a chunk of the process table its type back")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_deque::{Injector, Worker};
use parking_lot::{Condvar, Mutex};

use crate::links::memberships::Groups;
use crate::links::registry::{FIRST_ROOT, SideTables};
use crate::links::signal::ReferenceAllocator;
use crate::mailbox::budget::MailboxBudget;
use crate::mailbox::queue::SharedNodePool;
use crate::mailbox::unreceived::Unreceived;
use crate::observe::diagnosis::trace::Tracer;
use crate::observe::events::Events;
use crate::observe::extensions::engines::Engines;
use crate::observe::extensions::servers::Servers;
use crate::observe::extensions::stores::Stores;
use crate::observe::extensions::tables::Collections;
use crate::observe::inspect::causes::Causes;
use crate::observe::inspect::ended::EndedMemory;
use crate::observe::inspect::watch::Watches;
use crate::observe::metrics::family::MetricsRegistry;
use crate::process::error::SpawnError;
use crate::process::free_list::{FreeList, SharedPool};
use crate::process::header::{HAS_WAITING_SENDERS, ProcessHeader, TRAPS, WATCHED, pinned_to};
use crate::process::pid::Pid;
use crate::process::table::{self, Owner, ProcessTable, Slot};
use crate::runtime::config::{Config, StartError};
use crate::runtime::crashes::{Called, CrashLog};
use crate::runtime::held_wakes::HeldWakes;
use crate::runtime::remote::peers::Peers;
use crate::scheduler::parking::{Parking, SCHEDULERS_MAX};
use crate::scheduler::{Pause, SchedulerShared};
use crate::stream::ring::registry::RingRegistry;
use crate::supervision::supervisor::restart_pressure::RestartPressures;
use crate::supervision::supervisor::tree::Tree;
use crate::sync;
use crate::time::ticker::driver::Tickers;
use crate::time::timers::service::Timers;
use crate::topic::registry::topics::Topics;

/// More exits between two counter reads mean a preempted reader: the fastest spawn storm takes microseconds for them.
const TORN_READ: u64 = 200;

/// Number of the next runtime of this program.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// State shared by all threads of a runtime.
pub(crate) struct RuntimeShared {
    /// Number of this runtime in the program.
    pub(crate) number: u32,
    pub(crate) config: Config,
    pub(crate) started: Instant,
    pub(crate) table: ProcessTable,
    pub(crate) slots: SharedPool<Slot>,
    pub(crate) nodes: SharedNodePool,
    pub(crate) injector: Injector<Slot>,
    pub(crate) schedulers: Vec<Arc<SchedulerShared>>,
    pub(crate) parking: Parking,
    pub(crate) side_tables: SideTables,
    pub(crate) references: ReferenceAllocator,
    pub(crate) events: Events,
    pub(crate) ended: EndedMemory,
    pub(crate) causes: Causes,
    pub(crate) crash_log: CrashLog,
    pub(crate) unreceived: Unreceived,
    pub(crate) watches: Watches,
    pub(crate) restart_pressures: RestartPressures,
    pub(crate) timers: Timers,
    pub(crate) tickers: Arc<Tickers>,
    pub(crate) groups: Groups,
    pub(crate) streams: RingRegistry,
    pub(crate) topics: Topics,
    /// Other nodes.
    pub(crate) peers: Peers,
    pub(crate) tree: Arc<Tree>,
    pub(crate) engines: Engines,
    pub(crate) stores: Stores,
    pub(crate) servers: Servers,
    pub(crate) collections: Collections,
    pub(crate) metrics: MetricsRegistry,
    pub(crate) mailboxes: MailboxBudget,
    /// Free slots for threads that are not schedulers.
    outside_slots: Mutex<FreeList<Slot>>,
    pub(crate) outside_spawned: AtomicU64,
    root_order: AtomicU64,
    /// Set by a shutdown: outside threads can create no more processes.
    pub(super) closing: AtomicBool,
    /// Number of processes that outside threads are creating right now.
    pub(crate) spawns_in_progress: AtomicUsize,
    /// Set when the schedulers must end.
    stopped: AtomicBool,
    /// Set when the threads have ended and their remains are freed.
    pub(super) is_torn_down: AtomicBool,
    /// True once the chunks of the process table were released. Locked during a tear-down.
    pub(super) has_released_table: Mutex<bool>,
    pub(crate) pause: Pause,
    /// Pids of processes in a poll that does not return.
    pub(crate) stuck: Mutex<Vec<Pid>>,
    /// The trace of chosen processes.
    pub(crate) tracer: Tracer,
    stop_signal: (Mutex<()>, Condvar),
    /// Number of observers that watch single schedulers: these then publish more about their slices.
    pub(crate) scheduler_watchers: AtomicUsize,
}

// The flags of a process have room for the number of every scheduler.
const _: () = assert!(pinned_to(SCHEDULERS_MAX - 1) < pinned_to(SCHEDULERS_MAX));

impl RuntimeShared {
    /// Creates the shared state and one run queue for each scheduler.
    pub(crate) fn new(config: Config) -> Result<(Arc<Self>, Vec<Worker<Slot>>), StartError> {
        config.check()?;
        let barrier = sync::prepare_heavy_barrier();
        let queues: Vec<Worker<Slot>> = (0..config.schedulers).map(|_| Worker::new_fifo()).collect();
        let started = Instant::now();
        // One free list for each scheduler, and one for all other threads together.
        let free_lists = config.schedulers + 1;
        let shared = Arc::new(Self {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            started,
            table: ProcessTable::new(config.process_limit, free_lists),
            slots: SharedPool::of(table::batch(config.process_limit, free_lists)),
            nodes: SharedNodePool::new(),
            injector: Injector::new(),
            schedulers: queues.iter().map(|queue| Arc::new(SchedulerShared::new(queue.stealer(), barrier))).collect(),
            parking: Parking::new(),
            side_tables: SideTables::default(),
            references: ReferenceAllocator::default(),
            events: Events::new(started),
            ended: EndedMemory::default(),
            causes: Causes::new(config.schedulers),
            crash_log: CrashLog::new(config.schedulers),
            unreceived: Unreceived::default(),
            watches: Watches::new(started, config.schedulers),
            restart_pressures: RestartPressures::default(),
            timers: Timers::default(),
            tickers: Arc::default(),
            groups: Groups::default(),
            streams: RingRegistry::default(),
            topics: Topics::default(),
            peers: Peers::default(),
            tree: Arc::default(),
            engines: Engines::default(),
            stores: Stores::default(),
            servers: Servers::default(),
            collections: Collections::default(),
            metrics: MetricsRegistry::default(),
            mailboxes: MailboxBudget::new(config.mailbox_total_bytes),
            outside_slots: Mutex::new(FreeList::new()),
            outside_spawned: AtomicU64::new(0),
            root_order: AtomicU64::new(FIRST_ROOT),
            closing: AtomicBool::new(false),
            spawns_in_progress: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            is_torn_down: AtomicBool::new(false),
            has_released_table: Mutex::default(),
            pause: Pause::default(),
            stuck: Mutex::default(),
            tracer: Tracer::default(),
            stop_signal: (Mutex::new(()), Condvar::new()),
            scheduler_watchers: AtomicUsize::new(0),
            config,
        });
        Ok((shared, queues))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Returns true if any queue has work that an idle scheduler should search for.
    pub(crate) fn has_work(&self) -> bool {
        self.is_stopped()
            || !self.injector.is_empty()
            || self.schedulers.iter().any(|scheduler| scheduler.has_work_for_others())
    }

    /// Queues a process from a thread that is not a scheduler of this runtime.
    pub(crate) fn inject(&self, slot: Slot) {
        if let Some(affinity) = slot.header().queue_flags().and_then(|_| self.note_ready(slot)) {
            self.schedulers[affinity].mark_external_wake();
            return self.push_pinned(slot, affinity);
        }
        self.injector.push(slot);
        if !HeldWakes::defer(self) {
            self.wake_for_injected();
        }
    }

    /// Wakes a scheduler for processes in the injector, unless one is searching for work.
    pub(super) fn wake_for_injected(&self) {
        Parking::announce_work();
        if let Some(scheduler) = self.parking.pick() {
            self.schedulers[scheduler].mark_external_wake();
            self.schedulers[scheduler].unpark();
        }
    }

    /// Records that a watched process is ready. Returns the scheduler that it is pinned to.
    #[cold]
    pub(crate) fn note_ready(&self, slot: Slot) -> Option<usize> {
        let header = slot.header();
        if header.flags.load(Ordering::Relaxed) & WATCHED != 0 {
            self.watches.ready(slot.pid());
        }
        header.affinity()
    }

    /// Records a send to a watched process.
    #[cold]
    pub(crate) fn note_send(&self, slot: Slot, to: Pid, from: Option<Pid>) {
        let header = slot.header();
        let ordinal = header.messages.load(Ordering::Relaxed) + header.mailbox_len() + 1;
        self.watches.sent(to, from, ordinal);
    }

    /// Queues a process on the only scheduler that may run it, which does not run on this thread.
    #[cold]
    pub(crate) fn push_pinned(&self, slot: Slot, affinity: usize) {
        self.schedulers[affinity].pinned.push(slot);
        Parking::announce_work();
        if self.parking.pick_this(affinity) {
            self.schedulers[affinity].unpark();
        }
    }

    pub(crate) fn wake_one(&self) {
        if let Some(scheduler) = self.parking.pick() {
            self.schedulers[scheduler].unpark();
        }
    }

    /// Wakes a scheduler for work that this thread will queue in a moment, unless a scheduler is already searching.
    pub(crate) fn prewake_one(&self) {
        if let Some(scheduler) = self.parking.pick() {
            self.schedulers[scheduler].prewake();
        }
    }

    /// Returns the flags that pin a process to one scheduler.
    pub(crate) fn pin(&self, scheduler: usize) -> Result<u16, SpawnError> {
        let schedulers = self.schedulers.len();
        if scheduler < schedulers {
            Ok(pinned_to(scheduler))
        } else {
            Err(SpawnError::NoScheduler { scheduler, schedulers })
        }
    }

    pub(crate) fn at_limit(&self) -> SpawnError {
        SpawnError::Limit { limit: self.config.process_limit }
    }

    /// Takes a free slot for a thread that is not a scheduler. A shutdown waits until `SpawnInProgress` is dropped.
    pub(crate) fn take_slot(self: &Arc<Self>) -> Result<(Slot, SpawnInProgress<'_>), SpawnError> {
        let in_progress = SpawnInProgress::begin(self);
        if self.closing.load(Ordering::SeqCst) {
            return Err(SpawnError::ShuttingDown);
        }
        let free_list = self.outside_slots.lock();
        let slot = free_list.take().or_else(|| {
            self.replenish(&free_list);
            free_list.take()
        });
        slot.map(|slot| (slot, in_progress)).ok_or_else(|| self.at_limit())
    }

    /// Fills an empty free list; at the limit it stays empty.
    pub(crate) fn replenish(self: &Arc<Self>, free_list: &FreeList<Slot>) {
        self.table.replenish(self.count_toward_limit(), &self.slots, free_list, || Owner::of(Arc::clone(self)));
    }

    /// Returns the number of processes that count toward the limit. Reads the exits first: a missed one makes the count
    /// too high, never too low.
    fn count_toward_limit(&self) -> u64 {
        let closed = self.schedulers.iter().map(|scheduler| scheduler.counters.closed.load(Ordering::Acquire));
        let closed: u64 = closed.sum();
        self.spawned().saturating_sub(closed)
    }

    pub(crate) fn free_slot(&self, slot: Slot) {
        self.outside_slots.lock().push(slot);
    }

    pub(crate) fn next_root(&self) -> u64 {
        self.root_order.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if a mailbox accepts one more message: it has room, and no sender waits. The message itself, `own`
    /// bytes, may exceed the limit: a sender that has waited for room is then accepted.
    #[inline]
    pub(crate) fn has_room(&self, header: &ProcessHeader, pending: u32, own: u32) -> bool {
        let waiting = pending.saturating_add(header.backlog.load(Ordering::Relaxed));
        waiting < header.capacity.load(Ordering::Relaxed)
            && header.mail_bytes.load(Ordering::Relaxed).saturating_sub(own) <= self.config.mailbox_bytes
            && (!self.mailboxes.is_full() || waiting == 0)
            && header.flags.load(Ordering::Relaxed) & HAS_WAITING_SENDERS == 0
    }

    /// Returns true if a mailbox is at most half full: waiting senders are woken then, all at once.
    pub(crate) fn is_below_low_watermark(&self, header: &ProcessHeader, pending: u32) -> bool {
        let waiting = pending.saturating_add(header.backlog.load(Ordering::Relaxed));
        waiting <= header.capacity.load(Ordering::Relaxed) / 2
            && header.mail_bytes.load(Ordering::Relaxed) <= self.config.mailbox_bytes / 2
            && (!self.mailboxes.is_full() || waiting == 0)
    }

    /// Returns the slot of a live process.
    pub(crate) fn live_slot(&self, pid: Pid) -> Option<Slot> {
        self.table.slot(pid).filter(|_| self.is_alive(pid))
    }

    /// Returns true if `pid` is alive.
    pub(crate) fn is_alive(&self, pid: Pid) -> bool {
        self.table.slot(pid).is_some_and(|slot| {
            slot.header().generation.load(Ordering::Acquire) == pid.generation() && !slot.header().gate.is_closed()
        })
    }

    /// Returns the name of a live process for log lines.
    pub(crate) fn called(&self, pid: Pid) -> Called {
        Called { pid, name: self.name_of(pid) }
    }

    /// Returns the first registered name of a live process, its label, or the id under which its supervisor has
    /// started it.
    pub(crate) fn name_of(&self, pid: Pid) -> Option<Arc<str>> {
        let slot = self.live_slot(pid)?;
        SideTables::name(slot, pid).or_else(|| self.tree.id_of(slot.parent_pid()?, pid))
    }

    /// Returns the process that a shutdown ends next: the newest of those that were spawned from outside, and of the
    /// supervisors that have outlived the process that started them, down to one with the order `last`.
    pub(crate) fn newest_to_end(&self, last: u64) -> Option<Pid> {
        let orphan = self.tree.newest_orphan(|pid| self.is_alive(pid));
        self.side_tables.newest_root().max(orphan).filter(|(order, _)| *order >= last).map(|(_, pid)| pid)
    }

    /// Returns true if a live process traps exits, so that it may end others before itself.
    pub(crate) fn traps_exits(&self, pid: Pid) -> bool {
        self.live_slot(pid).is_some_and(|slot| slot.header().flags.load(Ordering::Relaxed) & TRAPS != 0)
    }

    pub(crate) fn spawned(&self) -> u64 {
        let inside = self.schedulers.iter().map(|scheduler| scheduler.counters.spawned.load(Ordering::Relaxed));
        self.outside_spawned.load(Ordering::Relaxed) + inside.sum::<u64>()
    }

    pub(crate) fn exited(&self) -> u64 {
        self.schedulers.iter().map(|scheduler| scheduler.counters.exited.load(Ordering::Relaxed)).sum()
    }

    /// Returns the numbers of spawns and exits at nearly the same moment, with never more exits than spawns.
    pub(crate) fn spawned_and_exited(&self) -> (u64, u64) {
        let mut exited = self.exited();
        for _ in 0..4 {
            let spawned = self.spawned();
            let after = self.exited();
            // The reader was preempted between the two reads. Read again: otherwise the difference includes that pause.
            if after - exited <= TORN_READ {
                return (spawned.max(exited), exited);
            }
            exited = after;
        }
        (self.spawned().max(exited), exited)
    }

    /// Returns the number of live processes.
    pub(crate) fn live(&self) -> u64 {
        let (spawned, exited) = self.spawned_and_exited();
        spawned - exited
    }

    /// Waits until `until` or until the runtime stops. Returns true if it stopped.
    pub(crate) fn wait_for_stop(&self, until: Instant) -> bool {
        let mut guard = self.stop_signal.0.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_stopped() || left.is_zero() {
                return self.is_stopped();
            }
            self.stop_signal.1.wait_for(&mut guard, left);
        }
    }

    pub(crate) fn stop(&self) {
        let guard = self.stop_signal.0.lock();
        self.stopped.store(true, Ordering::SeqCst);
        self.stop_signal.1.notify_all();
        drop(guard);
        for scheduler in &self.schedulers {
            scheduler.unpark();
        }
    }
}

impl Slot {
    /// Returns the runtime that the slot belongs to.
    #[inline]
    pub(crate) fn shared(&self) -> &RuntimeShared {
        // SAFETY: only `RuntimeShared::replenish` adds chunks to a table, so this is their owner, and a chunk keeps its
        // owner alive as long as it is alive itself.
        unsafe { &*self.owner().cast::<RuntimeShared>() }
    }
}

/// A process that an outside thread is creating. A shutdown waits for it.
pub(crate) struct SpawnInProgress<'a>(&'a RuntimeShared);

impl<'a> SpawnInProgress<'a> {
    fn begin(shared: &'a RuntimeShared) -> Self {
        // Increment before checking `closing`. A shutdown sets `closing` before it reads this counter: one side sees
        // the other.
        shared.spawns_in_progress.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }

    /// Returns the state of the runtime.
    pub(crate) fn shared(&self) -> &'a RuntimeShared {
        self.0
    }
}

impl Drop for SpawnInProgress<'_> {
    fn drop(&mut self) {
        self.0.spawns_in_progress.fetch_sub(1, Ordering::SeqCst);
    }
}
