//! The thread that wakes processes at their ticks, and what it shares with them.
//!
//! ```text
//!   process ── new ticker ──▶ inbox, word + 1 ──▶ driver: heap of next ticks ── asleep until the first, or until the word changes
//!      ▲                                             │
//!      └── waker ◀── pulse: ticks due so far ◀───────┘   every tick, under the pulse's own lock
//! ```
//!
//! The driver advances on a grid of its own, so a tick costs no message in either direction. How it sleeps and is woken is
//! the matter of `alarm.rs`; what it shares with each process that of `pulse.rs`.

use std::cmp::Ordering as Order;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;

use super::alarm::Alarm;
use super::clock::{self, SLEEP_MIN_NS, Slack};
use super::gauge::Gauge;
use super::governor::Governor;
use super::grid::Grid;
use super::lead::Lead;
use super::observed::Shown;
use super::pulse::Pulse;
use super::{Spin, TickerError, nanos};
use crate::panics;
use crate::realtime::Realtime;

/// A ticker in the hands of the driver.
pub(super) struct Entry {
    pub(super) pulse: Arc<Pulse>,
    pub(super) gauge: Option<Arc<Gauge>>,
    pub(super) grid: Grid,
    pub(super) epoch_ns: u64,
    /// Slips that the next tick has in it already.
    pub(super) slipped_ns: u64,
    pub(super) spin: Spin,
    pub(super) governor: Governor,
    /// One tick, and it is over.
    pub(super) once: bool,
}

impl Entry {
    fn next_ns(&self) -> u64 {
        self.epoch_ns.saturating_add(self.slipped_ns).saturating_add(self.grid.next_ns())
    }

    /// Tells the process what is due; false if there will be no more.
    fn beat(&mut self, tickers: &Tickers, now_ns: u64) -> bool {
        let mut beat = self.pulse.lock();
        if beat.is_over() {
            tickers.forget();
            return false;
        }
        if beat.slipped_ns > self.slipped_ns {
            // The ticks that had passed come once more, later.
            self.slipped_ns = beat.slipped_ns;
            self.grid.seek(beat.due);
        }
        let due = self.grid.due(now_ns.saturating_sub(self.epoch_ns).saturating_sub(self.slipped_ns));
        if due > self.grid.passed() {
            self.grid.pass(due);
        }
        // It may be the waker of an executor that is not ours.
        panics::contain(|| beat.fire(due));
        !self.once || due == 0
    }
}

/// Ordered so that the heap's greatest is the entry whose tick is next.
struct Next {
    at_ns: u64,
    entry: Box<Entry>,
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.at_ns == other.at_ns
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> Order {
        other.at_ns.cmp(&self.at_ns)
    }
}

/// All tickers, in the hands of the thread or task that drives them.
pub(super) struct Driver {
    heap: BinaryHeap<Next>,
    lead: Lead,
}

impl Default for Driver {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), lead: Lead::of_driver() }
    }
}

impl Driver {
    /// Takes in what has come, and throws out what is over once it is most of all.
    pub(super) fn take_in(&mut self, tickers: &Tickers) {
        for entry in std::mem::take(&mut *tickers.inbox.lock()) {
            self.heap.push(Next { at_ns: entry.next_ns(), entry: Box::new(entry) });
        }
        if tickers.over.load(Ordering::Relaxed) as usize > self.heap.len() / 2 + OVER_MAX {
            self.heap.retain(|next| {
                let is_over = next.entry.pulse.lock().is_over();
                if is_over {
                    tickers.forget();
                }
                !is_over
            });
        }
    }

    /// Wakes whoever has a tick by now; gives the next instant.
    pub(super) fn pass(&mut self, tickers: &Tickers, now_ns: u64) -> Option<u64> {
        loop {
            let mut next = self.heap.peek_mut()?;
            if next.at_ns > now_ns {
                return Some(next.at_ns);
            }
            if next.entry.beat(tickers, now_ns) {
                next.at_ns = next.entry.next_ns();
            } else {
                PeekMut::pop(next);
            }
        }
    }

    /// Sleeps until the next tick at `at_ns`, or until something changes.
    fn wait(&mut self, tickers: &Tickers, word: u32, now_ns: u64, at_ns: u64) {
        let Some(mut first) = self.heap.peek_mut() else { return };
        let entry = &mut first.entry;
        let asleep_until = match entry.spin {
            Spin::Off => self.lead.before(at_ns, now_ns),
            Spin::Fixed(spin) => at_ns.saturating_sub(nanos(spin)),
            Spin::Governed => match entry.governor.spin_ns() {
                0 => self.lead.before(at_ns, now_ns),
                spin_ns => at_ns.saturating_sub(spin_ns),
            },
        };
        if asleep_until > now_ns + SLEEP_MIN_NS {
            tickers.sleep(word, Some(asleep_until));
            let woken_ns = clock::now_ns();
            if woken_ns < asleep_until {
                return;
            }
            self.lead.woke(woken_ns - asleep_until);
            if entry.spin == Spin::Governed {
                entry.governor.woke(woken_ns - asleep_until);
            }
        } else if asleep_until == at_ns {
            return;
        }
        let before_ns = clock::now_ns();
        let ended_ns = clock::spin_until(at_ns, || tickers.alarm.look() != word);
        entry.governor.overran(ended_ns.saturating_sub(at_ns));
        if let Some(gauge) = &entry.gauge {
            gauge.spun(ended_ns.saturating_sub(before_ns));
        }
        // Its place in the heap has not changed.
    }
}

/// Tickers that are over and may stay in the heap, beside half of all.
const OVER_MAX: usize = 64;

/// The tickers of a runtime, and a thread from the first of them on.
#[derive(Default)]
pub(crate) struct Tickers {
    inbox: Mutex<Vec<Entry>>,
    alarm: Alarm,
    /// Tickers that are over and still in the heap.
    over: AtomicU64,
    stopped: AtomicBool,
    attendant: Mutex<Option<Attendant>>,
    /// The priority asked for, and what came of it.
    wanted_priority: AtomicU32,
    pub(super) realtime: Mutex<Option<Result<NonZeroU8, String>>>,
    pub(super) shown: Mutex<BTreeMap<u64, Shown>>,
    pub(super) last_id: AtomicU64,
    #[cfg(feature = "test")]
    pub(super) clock: std::sync::OnceLock<crate::timers::VirtualClock>,
}

/// Who drives the tickers.
pub(super) enum Attendant {
    Thread(JoinHandle<()>),
    /// A task in virtual time, which sleeps until it is notified.
    #[cfg(feature = "test")]
    Task(Arc<tokio::sync::Notify>),
}

impl Tickers {
    /// The time by the clock that they follow.
    #[inline]
    #[cfg_attr(not(feature = "test"), expect(clippy::unused_self, reason = "there is a virtual clock in tests alone"))]
    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(feature = "test")]
        if let Some(clock) = self.clock.get() {
            return clock.now_ns();
        }
        clock::now_ns()
    }

    /// The time of the virtual clock, where there is one.
    #[cfg(feature = "test")]
    pub(crate) fn virtual_ns(&self) -> Option<u64> {
        self.clock.get().map(crate::timers::VirtualClock::now_ns)
    }

    /// Gives a ticker to the driver, and starts it if it is the first.
    pub(super) fn drive(self: &Arc<Self>, entry: Entry, realtime: Option<NonZeroU8>) -> Result<(), TickerError> {
        let mut attendant = self.attendant.lock();
        if self.stopped.load(Ordering::Relaxed) {
            return Err(TickerError::ShuttingDown);
        }
        if attendant.is_none() {
            let tickers = Arc::clone(self);
            *attendant =
                Some(Attendant::Thread(Builder::new().name("rusm-ticker".to_owned()).spawn(move || run(&tickers))?));
        }
        if let Some(priority) = realtime {
            self.wanted_priority.fetch_max(u32::from(priority.get()), Ordering::Relaxed);
        }
        let at_ns = entry.next_ns();
        self.inbox.lock().push(entry);
        // A driver that sleeps no longer than that finds the entry in the inbox when it wakes.
        if self.alarm.change(at_ns) || realtime.is_some() {
            self.wake(attendant.as_ref());
        }
        Ok(())
    }

    fn wake(&self, attendant: Option<&Attendant>) {
        match attendant {
            #[cfg(feature = "test")]
            Some(Attendant::Task(changed)) => changed.notify_one(),
            _ => clock::wake(self.alarm.word()),
        }
    }

    /// Notes that a ticker is over; the driver finds out at its next tick.
    pub(super) fn let_go(&self) {
        self.over.fetch_add(1, Ordering::Relaxed);
    }

    fn forget(&self) {
        self.over.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sleeps while nothing changes.
    fn sleep(&self, word: u32, until_ns: Option<u64>) {
        self.alarm.doze(until_ns.unwrap_or(u64::MAX), |on| clock::wait_on(on, word, until_ns));
    }

    #[cfg(feature = "test")]
    pub(super) fn follow(&self, clock: crate::timers::VirtualClock, changed: Arc<tokio::sync::Notify>) {
        let clock_is_new = self.clock.set(clock).is_ok();
        debug_assert!(clock_is_new, "a runtime has one clock");
        // The task is asleep, or will look: it need not be told of instants, but always of changes.
        self.alarm.always();
        *self.attendant.lock() = Some(Attendant::Task(changed));
    }

    /// Wakes nobody from here on; gives the thread that ends.
    pub(crate) fn stop(&self) -> Option<JoinHandle<()>> {
        let mut attendant = self.attendant.lock();
        self.stopped.store(true, Ordering::SeqCst);
        self.alarm.change(0);
        self.wake(attendant.as_ref());
        // What nobody has taken in may hold a waker, and with it the process table.
        self.inbox.lock().clear();
        match attendant.take() {
            Some(Attendant::Thread(thread)) => Some(thread),
            #[cfg(feature = "test")]
            Some(Attendant::Task(_)) => None,
            None => None,
        }
    }

    /// Has this thread run at the priority that was asked for, if it does not yet.
    fn enter_realtime(&self, has: &mut u32) {
        let wanted = self.wanted_priority.load(Ordering::Relaxed);
        let Some(priority) = u8::try_from(wanted).ok().and_then(NonZeroU8::new).filter(|_| wanted > *has) else {
            return;
        };
        let entered = Realtime::enter(priority).map(Realtime::keep);
        match &entered {
            Ok(()) => *has = wanted,
            Err(error) => {
                tracing::warn!(%error, "tickers stay without SCHED_FIFO at priority {priority}");
                // One that asks for less later may get it.
                self.wanted_priority.compare_exchange(wanted, *has, Ordering::Relaxed, Ordering::Relaxed).ok();
            }
        }
        *self.realtime.lock() = Some(entered.map(|()| priority).map_err(|error| error.to_string()));
    }
}

/// The body of the driver's thread.
fn run(tickers: &Tickers) {
    let _slack = Slack::set(1);
    let mut driver = Driver::default();
    let mut priority = 0;
    loop {
        let word = tickers.alarm.look();
        if tickers.stopped.load(Ordering::SeqCst) {
            return;
        }
        tickers.enter_realtime(&mut priority);
        driver.take_in(tickers);
        let now_ns = clock::now_ns();
        match driver.pass(tickers, now_ns) {
            Some(at_ns) => driver.wait(tickers, word, now_ns, at_ns),
            None => tickers.sleep(word, None),
        }
    }
}
