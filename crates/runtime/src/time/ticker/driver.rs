//! The thread that wakes processes at their ticks, and the state that it shares with them.
//!
//! ```text
//!   process ── new ticker ──▶ inbox, word + 1 ──▶ driver: heap of next ticks ── sleeps until the first or a new word
//!      ▲                                             │
//!      └── waker ◀── wake signal: ticks that are due ◀┘   every tick, under its own lock
//! ```
//!
//! The driver advances on its own copy of each grid, so a tick needs no message in either direction. `sleep_word.rs`
//! has the protocol by which it sleeps and is woken, `wake_signal.rs` the state that it shares with each process.

use std::cmp::Ordering as Order;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

use super::clock::{self, SLEEP_MIN_NS, Slack};
use super::early_wake::EarlyWake;
use super::governor::Governor;
use super::grid::Grid;
use super::metrics::TickMetrics;
use super::options::{Plan, Spin, TickerError};
use super::sleep_word::SleepWord;
use super::wake_signal::WakeSignal;
use crate::process::pid::Pid;
use crate::runtime::panics;
use crate::time::nanos;
use crate::time::realtime::Realtime;

/// A ticker that is owned by the driver.
pub(super) struct Entry {
    pub(super) wake_signal: Arc<WakeSignal>,
    pub(super) metrics: Option<Arc<TickMetrics>>,
    pub(super) grid: Grid,
    pub(super) epoch_ns: u64,
    /// Slips that the next tick already includes, in nanoseconds.
    pub(super) slipped_ns: u64,
    pub(super) spin: Spin,
    pub(super) governor: Governor,
    /// True if it ends after one tick.
    pub(super) once: bool,
}

impl Entry {
    fn next_ns(&self) -> u64 {
        self.epoch_ns.saturating_add(self.slipped_ns).saturating_add(self.grid.next_ns())
    }

    /// Publishes the due ticks to the process; returns false if there will be no more.
    fn publish_due(&mut self, tickers: &Tickers, now_ns: u64) -> bool {
        let mut state = self.wake_signal.lock();
        if state.has_ended() {
            tickers.uncount_ended();
            return false;
        }
        if state.slipped_ns > self.slipped_ns {
            // After a slip, ticks that had passed come again, later.
            self.slipped_ns = state.slipped_ns;
            self.grid.seek(state.due);
        }
        let due = self.grid.due(now_ns.saturating_sub(self.epoch_ns).saturating_sub(self.slipped_ns));
        if due > self.grid.passed() {
            self.grid.pass(due);
        }
        // The waker may belong to another executor.
        panics::contain(|| state.fire(due));
        !self.once || due == 0
    }
}

/// Ordered so that the greatest entry in the heap has the earliest tick.
struct HeapEntry {
    at_ns: u64,
    entry: Box<Entry>,
}

impl PartialEq for HeapEntry {
    fn eq(&self, other: &Self) -> bool {
        self.at_ns == other.at_ns
    }
}

impl Eq for HeapEntry {}

impl PartialOrd for HeapEntry {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for HeapEntry {
    fn cmp(&self, other: &Self) -> Order {
        other.at_ns.cmp(&self.at_ns)
    }
}

/// All tickers, owned by the thread or task that drives them.
pub(super) struct Driver {
    heap: BinaryHeap<HeapEntry>,
    early_wake: EarlyWake,
}

impl Default for Driver {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), early_wake: EarlyWake::of_driver() }
    }
}

impl Driver {
    /// Takes in new tickers, and removes the ended tickers once they are more than half of all and `ENDED_MAX`.
    pub(super) fn accept_new(&mut self, tickers: &Tickers) {
        for entry in std::mem::take(&mut *tickers.inbox.lock()) {
            self.heap.push(HeapEntry { at_ns: entry.next_ns(), entry: Box::new(entry) });
        }
        if tickers.ended.load(Ordering::Relaxed) as usize > self.heap.len() / 2 + ENDED_MAX {
            self.heap.retain(|next| {
                let has_ended = next.entry.wake_signal.lock().has_ended();
                if has_ended {
                    tickers.uncount_ended();
                }
                !has_ended
            });
        }
    }

    /// Wakes the processes that have a due tick; returns the instant of the next tick.
    pub(super) fn pass(&mut self, tickers: &Tickers, now_ns: u64) -> Option<u64> {
        loop {
            let mut next = self.heap.peek_mut()?;
            if next.at_ns > now_ns {
                return Some(next.at_ns);
            }
            if next.entry.publish_due(tickers, now_ns) {
                next.at_ns = next.entry.next_ns();
            } else {
                PeekMut::pop(next);
            }
        }
    }

    /// Sleeps until the next tick at `at_ns`, or until the word changes.
    fn wait(&mut self, tickers: &Tickers, word: u32, now_ns: u64, at_ns: u64) {
        let Some(mut first) = self.heap.peek_mut() else { return };
        let entry = &mut first.entry;
        let asleep_until = match entry.spin {
            Spin::Off => self.early_wake.before(at_ns, now_ns),
            Spin::Fixed(spin) => at_ns.saturating_sub(nanos(spin)),
            Spin::Governed => match entry.governor.spin_ns() {
                0 => self.early_wake.before(at_ns, now_ns),
                spin_ns => at_ns.saturating_sub(spin_ns),
            },
        };
        if asleep_until > now_ns + SLEEP_MIN_NS {
            tickers.sleep(word, Some(asleep_until));
            let woken_ns = clock::now_ns();
            if woken_ns < asleep_until {
                return;
            }
            self.early_wake.woke(woken_ns - asleep_until);
            if entry.spin == Spin::Governed {
                entry.governor.woke(woken_ns - asleep_until);
            }
        } else if asleep_until == at_ns {
            return;
        }
        let before_ns = clock::now_ns();
        let ended_ns = clock::spin_until(at_ns, || tickers.sleep_word.load() != word);
        entry.governor.overran(ended_ns.saturating_sub(at_ns));
        if let Some(metrics) = &entry.metrics {
            metrics.spun(ended_ns.saturating_sub(before_ns));
        }
        // The next tick is unchanged, and so is the order of the heap.
    }
}

/// Number of ended tickers that may stay in the heap, in addition to half of all.
const ENDED_MAX: usize = 64;

/// Data that the runtime keeps to show a ticker.
pub(super) struct TickerRecord {
    pub(super) owner: Owner,
    pub(super) plan: Plan,
    pub(super) metrics: Arc<TickMetrics>,
}

/// Owner of a ticker.
#[derive(Clone, Debug)]
pub(super) enum Owner {
    Process(Pid),
    Thread(Option<Arc<str>>),
}

/// The tickers of a runtime, and the thread that the first ticker starts.
#[derive(Default)]
pub(crate) struct Tickers {
    inbox: Mutex<Vec<Entry>>,
    sleep_word: SleepWord,
    /// Number of ended tickers that are still in the heap.
    ended: AtomicU64,
    stopped: AtomicBool,
    runner: Mutex<Option<Runner>>,
    /// Highest priority that was requested, and the outcome of the request.
    wanted_priority: AtomicU32,
    pub(super) realtime: Mutex<Option<Result<NonZeroU8, String>>>,
    pub(super) records: Mutex<BTreeMap<u64, TickerRecord>>,
    pub(super) last_id: AtomicU64,
    #[cfg(feature = "test")]
    pub(super) clock: std::sync::OnceLock<crate::time::timers::virtual_clock::VirtualClock>,
}

/// Thread or task that drives the tickers.
pub(super) enum Runner {
    Thread(JoinHandle<()>),
    /// A task in virtual time, which sleeps until it is notified.
    #[cfg(feature = "test")]
    Task(Arc<tokio::sync::Notify>),
}

impl Tickers {
    /// Returns the time of the clock that the tickers follow.
    #[inline]
    #[cfg_attr(not(feature = "test"), expect(clippy::unused_self, reason = "only tests have a virtual clock"))]
    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(feature = "test")]
        if let Some(clock) = self.clock.get() {
            return clock.now_ns();
        }
        clock::now_ns()
    }

    /// Returns the time of the virtual clock, if there is one.
    #[cfg(feature = "test")]
    pub(crate) fn virtual_ns(&self) -> Option<u64> {
        self.clock.get().map(crate::time::timers::virtual_clock::VirtualClock::now_ns)
    }

    /// Hands a ticker over to the driver; starts the driver with the first ticker.
    pub(super) fn drive(self: &Arc<Self>, entry: Entry, realtime: Option<NonZeroU8>) -> Result<(), TickerError> {
        let mut runner = self.runner.lock();
        if self.stopped.load(Ordering::Relaxed) {
            return Err(TickerError::ShuttingDown);
        }
        if runner.is_none() {
            let tickers = Arc::clone(self);
            *runner = Some(Runner::Thread(Builder::new().name("rusm-ticker".to_owned()).spawn(move || run(&tickers))?));
        }
        if let Some(priority) = realtime {
            self.wanted_priority.fetch_max(u32::from(priority.get()), Ordering::Relaxed);
        }
        let at_ns = entry.next_ns();
        self.inbox.lock().push(entry);
        // A driver that wakes before that instant anyway then finds the entry in the inbox.
        if self.sleep_word.change(at_ns) || realtime.is_some() {
            self.wake(runner.as_ref());
        }
        Ok(())
    }

    fn wake(&self, runner: Option<&Runner>) {
        match runner {
            #[cfg(feature = "test")]
            Some(Runner::Task(changed)) => changed.notify_one(),
            _ => clock::wake(self.sleep_word.word()),
        }
    }

    /// Records that a ticker has ended; the driver finds out at its next tick.
    pub(super) fn count_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn uncount_ended(&self) {
        self.ended.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sleeps until `until_ns`, while the word is unchanged.
    fn sleep(&self, word: u32, until_ns: Option<u64>) {
        self.sleep_word.sleep(until_ns.unwrap_or(u64::MAX), |on| clock::wait_on(on, word, until_ns));
    }

    #[cfg(feature = "test")]
    pub(super) fn use_virtual_clock(
        &self,
        clock: crate::time::timers::virtual_clock::VirtualClock,
        changed: Arc<tokio::sync::Notify>,
    ) {
        let clock_is_new = self.clock.set(clock).is_ok();
        debug_assert!(clock_is_new, "a runtime has one clock");
        // The task must be notified of every change, whatever its instant: it is asleep, or about to check.
        self.sleep_word.wake_on_every_change();
        *self.runner.lock() = Some(Runner::Task(changed));
    }

    /// Stops waking processes; returns the thread, which is about to end.
    pub(crate) fn stop(&self) -> Option<JoinHandle<()>> {
        let mut runner = self.runner.lock();
        self.stopped.store(true, Ordering::SeqCst);
        self.sleep_word.change(0);
        self.wake(runner.as_ref());
        // An entry that was not taken in may hold a waker, and with it the process table.
        self.inbox.lock().clear();
        match runner.take() {
            Some(Runner::Thread(thread)) => Some(thread),
            #[cfg(feature = "test")]
            Some(Runner::Task(_)) => None,
            None => None,
        }
    }

    /// Gives this thread the requested priority, if it does not have it yet.
    fn enter_realtime(&self, has: &mut u32) {
        let wanted = self.wanted_priority.load(Ordering::Relaxed);
        let Some(priority) = u8::try_from(wanted).ok().and_then(NonZeroU8::new).filter(|_| wanted > *has) else {
            return;
        };
        let entered = Realtime::enter(priority).map(Realtime::keep);
        match &entered {
            Ok(()) => *has = wanted,
            Err(error) => {
                tracing::warn!(%error, "cannot set SCHED_FIFO at priority {priority} for tickers");
                // A later request for a lower priority may succeed.
                self.wanted_priority.compare_exchange(wanted, *has, Ordering::Relaxed, Ordering::Relaxed).ok();
            }
        }
        *self.realtime.lock() = Some(entered.map(|()| priority).map_err(|error| error.to_string()));
    }
}

/// Body of the driver's thread.
fn run(tickers: &Tickers) {
    let _slack = Slack::set(1);
    let mut driver = Driver::default();
    let mut priority = 0;
    loop {
        let word = tickers.sleep_word.load();
        if tickers.stopped.load(Ordering::SeqCst) {
            return;
        }
        tickers.enter_realtime(&mut priority);
        driver.accept_new(tickers);
        let now_ns = clock::now_ns();
        match driver.pass(tickers, now_ns) {
            Some(at_ns) => driver.wait(tickers, word, now_ns, at_ns),
            None => tickers.sleep(word, None),
        }
    }
}
