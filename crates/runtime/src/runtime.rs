//! A running runtime: its schedulers, the state they share, and its start and shutdown.

#![expect(unsafe_code, reason = "frees the process table after the last scheduler has ended")]

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_deque::{Injector, Worker};

use crate::cell::{CONGESTED, Cell, pinned_to};
use crate::config::{Config, StartError};
use crate::engines::Engines;
use crate::error::SpawnError;
use crate::events::Events;
use crate::exit::ExitReason;
use crate::groups::Groups;
use crate::handle::Handle;
use crate::holdings::{Held, Holdings, Released};
use crate::mailbox::{NodeDepot, NodePool};
use crate::mailbox_budget::MailboxBudget;
use crate::parking::{Parking, SCHEDULERS_MAX};
use crate::pid::Pid;
use crate::ring::view::Streams;
use crate::scheduler::{Local, Pause, SchedulerShared};
use crate::signal::References;
use crate::slab::{self, Slab, Slot};
use crate::spawn::Unsettled;
use crate::stock::{Depot, Stock};
use crate::stores::Stores;
use crate::supervisor::strain::Strains;
use crate::supervisor::tree::Tree;
use crate::ticker::Tickers;
use crate::timers::Timers;
use crate::topic::Topics;
use crate::{panics, sync, watch};

/// State shared by all threads of a runtime.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) started: Instant,
    pub(crate) slab: Slab,
    pub(crate) slots: Depot<Slot>,
    pub(crate) nodes: NodeDepot,
    pub(crate) injector: Injector<Slot>,
    pub(crate) schedulers: Vec<Arc<SchedulerShared>>,
    pub(crate) parking: Parking,
    pub(crate) holdings: Holdings,
    pub(crate) references: References,
    pub(crate) events: Events,
    pub(crate) strains: Strains,
    pub(crate) timers: Timers,
    pub(crate) tickers: Arc<Tickers>,
    pub(crate) groups: Groups,
    pub(crate) streams: Streams,
    pub(crate) topics: Topics,
    pub(crate) tree: Arc<Tree>,
    pub(crate) engines: Engines,
    pub(crate) stores: Stores,
    pub(crate) mailboxes: MailboxBudget,
    /// Free slots for threads that are not schedulers.
    outside_slots: Mutex<Stock<Slot>>,
    pub(crate) outside_spawned: AtomicU64,
    root_order: AtomicU64,
    /// Set by a shutdown: outside threads can create no more processes.
    closing: AtomicBool,
    /// Number of processes that outside threads are creating right now.
    pub(crate) unsettled: AtomicUsize,
    /// Set when the schedulers must end.
    stopped: AtomicBool,
    pub(crate) pause: Pause,
    /// Pids of processes in a poll that does not return.
    pub(crate) stuck: Mutex<Vec<Pid>>,
    alarm: (Mutex<()>, Condvar),
}

// The flags of a process have room for the number of every scheduler.
const _: () = assert!(pinned_to(SCHEDULERS_MAX - 1) < pinned_to(SCHEDULERS_MAX));

impl Shared {
    /// Creates the shared state and one run queue for each scheduler.
    pub(crate) fn new(config: Config) -> Result<(Arc<Self>, Vec<Worker<Slot>>), StartError> {
        config.check()?;
        panics::install();
        let barrier = sync::prepare_heavy_barrier();
        let queues: Vec<Worker<Slot>> = (0..config.schedulers).map(|_| Worker::new_fifo()).collect();
        let started = Instant::now();
        // One free list for each scheduler, and one for all other threads together.
        let stocks = config.schedulers + 1;
        let shared = Arc::new(Self {
            started,
            slab: Slab::new(config.process_limit, stocks),
            slots: Depot::of(slab::batch(config.process_limit, stocks)),
            nodes: NodeDepot::new(),
            injector: Injector::new(),
            schedulers: queues.iter().map(|queue| Arc::new(SchedulerShared::new(queue.stealer(), barrier))).collect(),
            parking: Parking::new(),
            holdings: Holdings::default(),
            references: References::default(),
            events: Events::new(started),
            strains: Strains::default(),
            timers: Timers::default(),
            tickers: Arc::default(),
            groups: Groups::default(),
            streams: Streams::default(),
            topics: Topics::default(),
            tree: Arc::default(),
            engines: Engines::default(),
            stores: Stores::default(),
            mailboxes: MailboxBudget::new(config.mailbox_total_bytes),
            outside_slots: Mutex::new(Stock::new()),
            outside_spawned: AtomicU64::new(0),
            root_order: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            unsettled: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            pause: Pause::default(),
            stuck: Mutex::default(),
            alarm: (Mutex::new(()), Condvar::new()),
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
        if let Some(home) = slot.cell().home() {
            self.schedulers[home].is_served_from_outside();
            return self.send_home(slot, home);
        }
        self.injector.push(slot);
        Parking::announce_work();
        if let Some(scheduler) = self.parking.pick() {
            self.schedulers[scheduler].is_served_from_outside();
            self.schedulers[scheduler].unpark();
        }
    }

    /// Queues a process on the only scheduler that may run it, which does not run on this thread.
    #[cold]
    pub(crate) fn send_home(&self, slot: Slot, home: usize) {
        self.schedulers[home].pinned.push(slot);
        Parking::announce_work();
        if self.parking.pick_this(home) {
            self.schedulers[home].unpark();
        }
    }

    pub(crate) fn wake_one(&self) {
        if let Some(scheduler) = self.parking.pick() {
            self.schedulers[scheduler].unpark();
        }
    }

    /// Wakes a scheduler for work that this thread will queue in a moment, unless a scheduler is already searching.
    pub(crate) fn promise_work(&self) {
        if let Some(scheduler) = self.parking.pick() {
            self.schedulers[scheduler].promise();
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

    /// Takes a free slot for a thread that is not a scheduler. A shutdown waits until `Unsettled` is dropped.
    pub(crate) fn take_slot(self: &Arc<Self>) -> Result<(Slot, Unsettled<'_>), SpawnError> {
        let unsettled = Unsettled::begin(self);
        if self.closing.load(Ordering::SeqCst) {
            return Err(SpawnError::ShuttingDown);
        }
        let stock = self.outside_slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = stock.take().or_else(|| {
            self.slab.restock(self, &stock);
            stock.take()
        });
        slot.map(|slot| (slot, unsettled)).ok_or_else(|| self.at_limit())
    }

    pub(crate) fn give_slot(&self, slot: Slot) {
        self.outside_slots.lock().unwrap_or_else(PoisonError::into_inner).give(slot);
    }

    pub(crate) fn next_root(&self) -> u64 {
        self.root_order.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns true if a mailbox accepts one more message: it has room, and no sender waits. The message itself, `own`
    /// bytes, may exceed the limit: a sender that has waited for room is then accepted.
    #[inline]
    pub(crate) fn has_room(&self, cell: &Cell, pending: u32, own: u32) -> bool {
        let waiting = pending.saturating_add(cell.backlog.load(Ordering::Relaxed));
        waiting < cell.capacity.load(Ordering::Relaxed)
            && cell.mail_bytes.load(Ordering::Relaxed).saturating_sub(own) <= self.config.mailbox_bytes
            && (!self.mailboxes.is_full() || waiting == 0)
            && cell.flags.load(Ordering::Relaxed) & CONGESTED == 0
    }

    /// Returns true if a mailbox is at most half full: waiting senders are woken then, all at once.
    pub(crate) fn is_relieved(&self, cell: &Cell, pending: u32) -> bool {
        let waiting = pending.saturating_add(cell.backlog.load(Ordering::Relaxed));
        waiting <= cell.capacity.load(Ordering::Relaxed) / 2
            && cell.mail_bytes.load(Ordering::Relaxed) <= self.config.mailbox_bytes / 2
            && (!self.mailboxes.is_full() || waiting == 0)
    }

    /// Wakes all senders that wait for room in a mailbox, in the order of their arrival.
    pub(crate) fn relieve(slot: Slot, pid: Pid) {
        for sender in Holdings::take_waiting_senders(slot, pid) {
            // The waker may belong to a foreign executor.
            panics::contain(|| sender.wake());
        }
    }

    /// Frees what an ended process held, and notifies its links, monitors, watchers and waiting senders.
    ///
    /// Its names are free already. Returns the emptied box for reuse.
    pub(crate) fn part_with(&self, pid: Pid, mut released: Released, exit: Option<&ExitReason>) -> Box<Held> {
        let rare = released.rare.map(|mut rare| {
            self.forget_timers(std::mem::take(&mut rare.timers));
            self.leave_all(pid, &rare.memberships);
            rare
        });
        self.part(pid, &mut released.held, exit.unwrap_or(&ExitReason::Normal));
        let Some(rare) = rare else { return released.held };
        for watcher in rare.watchers {
            // A watcher that was dropped needs no answer.
            panics::contain(|| drop(watcher.send(exit.cloned().unwrap_or(ExitReason::Normal))));
        }
        for sender in rare.waiting_senders {
            panics::contain(|| sender.wake());
        }
        released.held
    }

    /// Returns true if `pid` is alive.
    pub(crate) fn is_alive(&self, pid: Pid) -> bool {
        self.slab.slot(pid).is_some_and(|slot| {
            slot.cell().generation.load(Ordering::Acquire) == pid.generation() && !slot.cell().gate.is_closed()
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
        let mut guard = self.alarm.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.is_stopped() || left.is_zero() {
                return self.is_stopped();
            }
            guard = self.alarm.1.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(crate) fn stop(&self) {
        let guard = self.alarm.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.stopped.store(true, Ordering::SeqCst);
        self.alarm.1.notify_all();
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
pub struct Shutdown {
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
const FAR: Duration = Duration::from_hours(30 * 365 * 24);
/// Number of checks with a yield in between before a waiting thread starts to sleep.
const QUICK_LOOKS: u32 = 200;

impl Runtime {
    /// Starts the schedulers.
    ///
    /// # Errors
    /// [`StartError`] for a config value out of its range, or when the system cannot create a thread.
    pub fn start(config: Config) -> Result<Self, StartError> {
        let (shared, queues) = Shared::new(config)?;
        let mut runtime = Self { handle: Handle::new(Arc::clone(&shared)), threads: Vec::new() };
        for (id, queue) in queues.into_iter().enumerate() {
            let reactor = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(1).build()?;
            let shared = Arc::clone(&shared);
            let body = move || Local::run(&shared, id, queue, &reactor);
            runtime.threads.push(Builder::new().name(format!("rusm-sched-{id}")).spawn(body)?);
        }
        let body = move || watch::run(&shared);
        runtime.threads.push(Builder::new().name("rusm-watch".to_owned()).spawn(body)?);
        Ok(runtime)
    }

    /// Ends all processes, those started from outside one by one in reverse order of their start, and the schedulers.
    ///
    /// Processes first receive the exit signal `shutdown`. Those still alive after `deadline` are killed.
    pub fn shutdown(mut self, deadline: Duration) -> Shutdown {
        self.end(deadline)
    }

    fn end(&mut self, deadline: Duration) -> Shutdown {
        let shared = Arc::clone(&self.handle.shared);
        if self.threads.is_empty() {
            return Shutdown::default();
        }
        shared.closing.store(true, Ordering::SeqCst);
        let until = Instant::now() + deadline.min(FAR);
        // Wait only for a limited time: creating a process may take long, and its closure may itself end this runtime.
        wait_until(Instant::now() + KILL_GRACE, || shared.unsettled.load(Ordering::SeqCst) == 0);
        while let Some(root) = shared.holdings.newest_root() {
            shared.exit(None, root, ExitReason::Shutdown);
            if !wait_until(until, || !shared.is_alive(root) && shared.holdings.newest_root() != Some(root)) {
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
            return Shutdown {
                killed,
                stuck: shared.schedulers.iter().filter_map(|scheduler| scheduler.running()).collect(),
            };
        }
        for thread in threads {
            // Schedulers catch the panics of processes. The panic hook has reported a panic of the scheduler itself.
            drop(thread.join());
        }
        bury(&shared);
        Shutdown { killed, stuck: Vec::new() }
    }
}

/// Frees what the threads of a stopped runtime have left behind.
pub(crate) fn bury(shared: &Arc<Shared>) {
    for slot in shared.slab.slots() {
        if slot.cell().gate.is_closed() {
            continue;
        }
        let pid = slot.pid();
        let taken = slot.cell().gate.close();
        // SAFETY: the threads have ended, so this thread alone owns the body of the process, including its future.
        unsafe {
            let body = slot.body();
            panics::contain(|| drop(body.drop_future()));
            let mut backlog = body.backlog.get();
            backlog.append(taken.newest(), pid.generation());
            while let Some(letter) = backlog.pop() {
                panics::contain(|| drop(letter));
            }
        }
        if let Some(released) = shared.holdings.release(slot, pid) {
            shared.part_with(pid, released, Some(&ExitReason::Killed));
        }
    }
    // Close the topics here, not in their `drop`: a handle may delay that forever, while threads wait at the topics.
    shared.topics.end();
    shared.call_the_rest();
    NodePool::clear(&shared.nodes);
    // SAFETY: every gate is closed and the threads have ended.
    unsafe { shared.slab.release() };
}

pub(crate) fn for_each_live(shared: &Shared, act: impl Fn(Pid)) {
    for slot in shared.slab.slots() {
        if !slot.cell().gate.is_closed() {
            act(slot.pid());
        }
    }
}

/// Waits for `done`, first by yielding (it mostly takes microseconds), then by checking every millisecond. Returns
/// false after a timeout.
fn wait_until(until: Instant, done: impl Fn() -> bool) -> bool {
    let mut looks = 0;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        if looks < QUICK_LOOKS {
            looks += 1;
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
