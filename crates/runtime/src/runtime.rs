//! A running runtime: its schedulers, the state they share, and its start and shutdown.

#![expect(unsafe_code, reason = "frees the process table after the last scheduler has ended")]

pub mod cgroup;
pub(crate) mod config;
pub(crate) mod file_limit;
pub(crate) mod handle;
pub(crate) mod panics;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_deque::{Injector, Worker};

use crate::links::groups::Groups;
use crate::links::signal::ReferenceAllocator;
use crate::mailbox::budget::MailboxBudget;
use crate::mailbox::queue::{NodePool, SharedNodePool};
use crate::observe::engines::Engines;
use crate::observe::events::Events;
use crate::observe::stores::Stores;
use crate::process::error::SpawnError;
use crate::process::exit::ExitReason;
use crate::process::free_list::{FreeList, SharedPool};
use crate::process::header::{HAS_WAITING_SENDERS, ProcessHeader, pinned_to};
use crate::process::pid::Pid;
use crate::process::side_table::{Released, SideTable, SideTables};
use crate::process::spawn::SpawnInProgress;
use crate::process::table::{self, ProcessTable, Slot};
use crate::runtime::config::{Config, StartError};
use crate::runtime::handle::Handle;
use crate::scheduler::parking::{Parking, SCHEDULERS_MAX};
use crate::scheduler::watchdog;
use crate::scheduler::{Local, Pause, SchedulerShared};
use crate::stream::ring::registry::RingRegistry;
use crate::supervision::supervisor::restart_pressure::RestartPressures;
use crate::supervision::supervisor::tree::Tree;
use crate::sync;
use crate::time::ticker::driver::Tickers;
use crate::time::timers::service::Timers;
use crate::topic::registry::topics::Topics;

/// State shared by all threads of a runtime.
pub(crate) struct RuntimeShared {
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
    pub(crate) restart_pressures: RestartPressures,
    pub(crate) timers: Timers,
    pub(crate) tickers: Arc<Tickers>,
    pub(crate) groups: Groups,
    pub(crate) streams: RingRegistry,
    pub(crate) topics: Topics,
    pub(crate) tree: Arc<Tree>,
    pub(crate) engines: Engines,
    pub(crate) stores: Stores,
    pub(crate) mailboxes: MailboxBudget,
    /// Free slots for threads that are not schedulers.
    outside_slots: Mutex<FreeList<Slot>>,
    pub(crate) outside_spawned: AtomicU64,
    root_order: AtomicU64,
    /// Set by a shutdown: outside threads can create no more processes.
    closing: AtomicBool,
    /// Number of processes that outside threads are creating right now.
    pub(crate) spawns_in_progress: AtomicUsize,
    /// Set when the schedulers must end.
    stopped: AtomicBool,
    pub(crate) pause: Pause,
    /// Pids of processes in a poll that does not return.
    pub(crate) stuck: Mutex<Vec<Pid>>,
    stop_signal: (Mutex<()>, Condvar),
}

// The flags of a process have room for the number of every scheduler.
const _: () = assert!(pinned_to(SCHEDULERS_MAX - 1) < pinned_to(SCHEDULERS_MAX));

impl RuntimeShared {
    /// Creates the shared state and one run queue for each scheduler.
    pub(crate) fn new(config: Config) -> Result<(Arc<Self>, Vec<Worker<Slot>>), StartError> {
        config.check()?;
        panics::install();
        let barrier = sync::prepare_heavy_barrier();
        let queues: Vec<Worker<Slot>> = (0..config.schedulers).map(|_| Worker::new_fifo()).collect();
        let started = Instant::now();
        // One free list for each scheduler, and one for all other threads together.
        let free_lists = config.schedulers + 1;
        let shared = Arc::new(Self {
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
            restart_pressures: RestartPressures::default(),
            timers: Timers::default(),
            tickers: Arc::default(),
            groups: Groups::default(),
            streams: RingRegistry::default(),
            topics: Topics::default(),
            tree: Arc::default(),
            engines: Engines::default(),
            stores: Stores::default(),
            mailboxes: MailboxBudget::new(config.mailbox_total_bytes),
            outside_slots: Mutex::new(FreeList::new()),
            outside_spawned: AtomicU64::new(0),
            root_order: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            spawns_in_progress: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            pause: Pause::default(),
            stuck: Mutex::default(),
            stop_signal: (Mutex::new(()), Condvar::new()),
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
        if let Some(affinity) = slot.header().affinity() {
            self.schedulers[affinity].mark_external_wake();
            return self.push_pinned(slot, affinity);
        }
        self.injector.push(slot);
        Parking::announce_work();
        if let Some(scheduler) = self.parking.pick() {
            self.schedulers[scheduler].mark_external_wake();
            self.schedulers[scheduler].unpark();
        }
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
        let free_list = self.outside_slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free_list.take().or_else(|| {
            self.table.replenish(self, &free_list);
            free_list.take()
        });
        slot.map(|slot| (slot, in_progress)).ok_or_else(|| self.at_limit())
    }

    pub(crate) fn free_slot(&self, slot: Slot) {
        self.outside_slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
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

    /// Wakes all senders that wait for room in a mailbox, in the order of their arrival.
    pub(crate) fn wake_waiting_senders(slot: Slot, pid: Pid) {
        for sender in SideTables::take_waiting_senders(slot, pid) {
            // The waker may belong to a foreign executor.
            panics::contain(|| sender.wake());
        }
    }

    /// Frees what an ended process held, and notifies its links, monitors, watchers and waiting senders.
    ///
    /// Its names are free already. Returns the emptied box for reuse.
    pub(crate) fn release_side_table(
        &self,
        pid: Pid,
        mut released: Released,
        exit: Option<&ExitReason>,
    ) -> Box<SideTable> {
        let rare = released.rare.map(|mut rare| {
            self.drop_timers(std::mem::take(&mut rare.timers));
            self.leave_all(pid, &rare.memberships);
            rare
        });
        self.propagate_exit(pid, &mut released.side_table, exit.unwrap_or(&ExitReason::Normal));
        let Some(rare) = rare else { return released.side_table };
        for watcher in rare.watchers {
            // A watcher that was dropped needs no answer.
            panics::contain(|| drop(watcher.send(exit.cloned().unwrap_or(ExitReason::Normal))));
        }
        for sender in rare.waiting_senders {
            panics::contain(|| sender.wake());
        }
        released.side_table
    }

    /// Returns true if `pid` is alive.
    pub(crate) fn is_alive(&self, pid: Pid) -> bool {
        self.table.slot(pid).is_some_and(|slot| {
            slot.header().generation.load(Ordering::Acquire) == pid.generation() && !slot.header().gate.is_closed()
        })
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
        let mut guard = self.stop_signal.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_stopped() || left.is_zero() {
                return self.is_stopped();
            }
            guard = self.stop_signal.1.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn stop(&self) {
        let guard = self.stop_signal.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopped.store(true, Ordering::SeqCst);
        self.stop_signal.1.notify_all();
        drop(guard);
        for scheduler in &self.schedulers {
            scheduler.unpark();
        }
    }
}

/// An actor runtime. Dropping it kills the remaining processes and ends its threads.
///
/// ```
/// use rusm_runtime::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let (tell, told) = std::sync::mpsc::channel();
/// let echo = runtime.spawn(|ctx| async move {
///     let (from, text) = ctx.receive_of::<(rusm_runtime::Pid, String)>().await;
///     ctx.send(from, text).await;
/// })?;
/// runtime.spawn(move |ctx| async move {
///     ctx.send(echo, (ctx.pid(), "hello".to_owned())).await;
///     tell.send(ctx.receive_of::<String>().await)
/// })?;
/// assert_eq!(told.recv()?, "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    threads: Vec<JoinHandle<()>>,
}

/// Result of a shutdown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Number of processes that did not end before the deadline and were killed.
    pub killed: u64,
    /// Processes in a poll that did not return. The threads of their schedulers could not be ended.
    pub stuck: Vec<Pid>,
}

/// More exits between two counter reads mean a preempted reader: the fastest spawn storm takes microseconds for them.
const TORN_READ: u64 = 200;

/// Time that killed processes have to end before their schedulers count as stuck.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// Longest wait for a deadline, in effect unlimited.
const FAR_FUTURE: Duration = Duration::from_hours(30 * 365 * 24);
/// Number of checks with a yield in between before a waiting thread starts to sleep.
const YIELDING_CHECKS: u32 = 200;

impl Runtime {
    /// Starts the schedulers.
    ///
    /// # Errors
    /// [`StartError`] for a config value out of its range, or when the system cannot create a thread.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let (shared, queues) = RuntimeShared::new(config)?;
        let mut runtime = Self { handle: Handle::new(Arc::clone(&shared)), threads: Vec::new() };
        for (id, queue) in queues.into_iter().enumerate() {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1).build()?;
            let shared = Arc::clone(&shared);
            let body = move || Local::run(&shared, id, queue, &reactor);
            runtime.threads.push(Builder::new().name(format!("rusm-sched-{id}")).spawn(body)?);
        }
        let body = move || watchdog::run(&shared);
        runtime.threads.push(Builder::new().name("rusm-watch".to_owned()).spawn(body)?);
        Ok(runtime)
    }

    /// Ends all processes, those started from outside one by one in reverse order of their start, and the schedulers.
    ///
    /// Processes first receive the exit signal `shutdown`. Those still alive after `deadline` are killed.
    pub fn shutdown(mut self, deadline: Duration) -> ShutdownReport {
        self.end(deadline)
    }

    fn end(&mut self, deadline: Duration) -> ShutdownReport {
        let shared = Arc::clone(&self.handle.shared);
        if self.threads.is_empty() {
            return ShutdownReport::default();
        }
        shared.closing.store(true, Ordering::SeqCst);
        let until = Instant::now() + deadline.min(FAR_FUTURE);
        // Wait only for a limited time: creating a process may take long, and its closure may itself end this runtime.
        wait_until(Instant::now() + KILL_GRACE, || shared.spawns_in_progress.load(Ordering::SeqCst) == 0);
        while let Some(root) = shared.side_tables.newest_root() {
            shared.exit(None, root, ExitReason::Shutdown);
            if !wait_until(until, || !shared.is_alive(root) && shared.side_tables.newest_root() != Some(root)) {
                break;
            }
        }
        for_each_live(&shared, |pid| shared.exit(None, pid, ExitReason::Shutdown));
        wait_until(until, || shared.live() == 0);
        let killed = shared.live();
        for_each_live(&shared, |pid| shared.exit(None, pid, ExitReason::Killed));
        wait_until(Instant::now() + KILL_GRACE, || shared.live() == 0);
        shared.stop();
        let mut threads = std::mem::take(&mut self.threads);
        threads.extend(shared.timers.stop());
        threads.extend(shared.tickers.stop());
        let ended = wait_until(Instant::now() + KILL_GRACE, || threads.iter().all(JoinHandle::is_finished));
        if !ended {
            // A thread inside an endless poll cannot be ended. It keeps the shared state, so nothing may be freed.
            return ShutdownReport {
                killed,
                stuck: shared.schedulers.iter().filter_map(|scheduler| scheduler.running()).collect(),
            };
        }
        for thread in threads {
            // Schedulers catch the panics of processes. The panic hook has reported a panic of the scheduler itself.
            drop(thread.join());
        }
        tear_down(&shared);
        ShutdownReport { killed, stuck: Vec::new() }
    }
}

/// Frees what the threads of a stopped runtime have left behind.
pub(crate) fn tear_down(shared: &Arc<RuntimeShared>) {
    for slot in shared.table.slots() {
        if slot.header().gate.is_closed() {
            continue;
        }
        let pid = slot.pid();
        let taken = slot.header().gate.close();
        // SAFETY: the threads have ended, so this thread alone owns the body of the process, including its future.
        unsafe {
            let body = slot.body();
            panics::contain(|| drop(body.drop_future()));
            let mut backlog = body.backlog.get();
            backlog.append(taken.newest(), pid.generation());
            while let Some(envelope) = backlog.pop() {
                panics::contain(|| drop(envelope));
            }
        }
        if let Some(released) = shared.side_tables.release(slot, pid) {
            shared.release_side_table(pid, released, Some(&ExitReason::Killed));
        }
    }
    // Close the topics here, not in their `drop`: a handle may delay that forever, while threads wait at the topics.
    shared.topics.end();
    shared.run_remaining_calls();
    NodePool::clear(&shared.nodes);
    // SAFETY: every gate is closed and the threads have ended.
    unsafe { shared.table.release() };
}

pub(crate) fn for_each_live(shared: &RuntimeShared, act: impl Fn(Pid)) {
    for slot in shared.table.slots() {
        if !slot.header().gate.is_closed() {
            act(slot.pid());
        }
    }
}

/// Waits for `done`, first by yielding (it mostly takes microseconds), then by checking every millisecond. Returns
/// false after a timeout.
fn wait_until(until: Instant, done: impl Fn() -> bool) -> bool {
    let mut checks = 0;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        if checks < YIELDING_CHECKS {
            checks += 1;
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

impl Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}
