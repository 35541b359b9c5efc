//! Samples of processes while an observer watches: delays of the node, and delays and senders of chosen processes.
//!
//! ```text
//!   timed poll (one in 64) ──▶ mark: WATCHED ──▶ next send ──▶ next wake ──▶ next poll ──▶ delays of the scheduler
//!   observer of a process ───▶ watch: WATCHED ──▶ every send, wake and poll ────────────▶ watch of the process
//! ```
//!
//! The flag [`WATCHED`](crate::process::header::WATCHED) sends a process along the slow paths that exist anyway for
//! pinned and confined processes, so a process without the flag pays nothing. Marks and watches hold times only; a time
//! that was lost in a race makes one sample less, and never a wrong one: each carries the pid of its process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHashSet};

use super::histogram::{DelayCounts, Histogram};
use super::recent::RecentDelays;
use crate::process::pid::Pid;

/// Number of processes that may be marked at the same time to sample the node.
const MARKS: usize = 256;
/// Time after which a scheduler marks a process even if it ran few polls, in nanoseconds.
pub(crate) const MARK_EVERY_NS: u64 = 10_000_000;
/// Number of senders that are counted by name.
const SENDERS_KEPT: usize = 32;
/// Number of different senders that are distinguished.
const SENDERS_MAX: usize = 4096;
/// Number of messages that are noted in a millisecond; then one in [`SPARSE`].
const DENSE_PER_MS: u32 = 16;
const SPARSE: u64 = 64;
/// Number of points of the arrival history, and the least time between two of them.
const ARRIVALS_KEPT: usize = 256;
const ARRIVAL_EVERY_NS: u64 = 200_000;
/// Number of messages of a preview.
pub(crate) const PREVIEW_MAX: usize = 16;

/// Delays from samples.
#[derive(Default)]
pub(crate) struct Delays {
    scheduling: Histogram,
    poll: Histogram,
    handling: Histogram,
}

/// Counts of delays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayReport {
    /// Time from ready to running.
    pub scheduling: DelayCounts,
    /// Time of polls.
    pub poll: DelayCounts,
    /// Time from the send of a message to the end of the poll that received it.
    pub handling: DelayCounts,
}

impl Delays {
    pub(crate) fn report(&self) -> DelayReport {
        DelayReport { scheduling: self.scheduling.counts(), poll: self.poll.counts(), handling: self.handling.counts() }
    }
}

/// Times of one process that is sampled.
#[derive(Default)]
struct Mark {
    /// The process, packed; 0 if the mark is free.
    process: AtomicU64,
    /// Time since which it is ready; 0 if it is not.
    ready_ns: AtomicU64,
    /// Time of the send of the sampled message; 0 without one.
    sent_ns: AtomicU64,
    /// Number of the sampled message among all that the process receives.
    ordinal: AtomicU64,
}

impl Mark {
    /// Records the send of a message, unless another one is on its way.
    fn sent(&self, ordinal: u64, now_ns: u64) {
        if self.sent_ns.load(Ordering::Relaxed) == 0 {
            self.ordinal.store(ordinal, Ordering::Relaxed);
            self.sent_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    fn take_delay(&self, now_ns: u64) -> Option<u64> {
        let ready_ns = self.ready_ns.swap(0, Ordering::Relaxed);
        (ready_ns != 0).then(|| now_ns.saturating_sub(ready_ns))
    }

    /// Returns the time since the send of the sampled message, if that is among the `received` ones.
    fn take_handling(&self, received: u64, now_ns: u64) -> Option<u64> {
        let sent_ns = self.sent_ns.load(Ordering::Relaxed);
        if sent_ns == 0 || received < self.ordinal.load(Ordering::Relaxed) {
            return None;
        }
        self.sent_ns.store(0, Ordering::Relaxed);
        Some(now_ns.saturating_sub(sent_ns))
    }
}

fn packed(pid: Pid) -> u64 {
    u64::from(pid.slot()) << 32 | u64::from(pid.generation())
}

/// A process that an observer watches.
pub(crate) struct Watch {
    pub(crate) pid: Pid,
    started_ns: u64,
    mark: Mark,
    delays: Delays,
    /// Time at which it parked; 0 while it is ready or runs, or if it has not run since it is watched.
    parked_ns: AtomicU64,
    has_run: AtomicBool,
    mail: Mutex<WatchedMail>,
    wants_preview: AtomicBool,
    wants_values: AtomicBool,
    preview: Mutex<Option<Preview>>,
}

#[derive(Default)]
struct WatchedMail {
    seen: u64,
    sampled: u64,
    window_ms: u64,
    in_window: u32,
    senders: Vec<(Option<Pid>, u64)>,
    known: FxHashSet<Option<Pid>>,
    /// Number of a message among all that the process receives, and the time of its arrival.
    arrivals: Vec<(u64, u64)>,
    /// Number of times that the arrivals were thinned out; each doubles the time between two of them.
    thinned: u32,
}

/// The first messages of a mailbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    /// Time since the runtime started.
    pub at: Duration,
    /// The messages, oldest first.
    pub messages: Vec<PreviewedMessage>,
}

/// A waiting message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewedMessage {
    /// Rust type of the value.
    pub type_name: &'static str,
    /// Bytes on the heap.
    pub heap_bytes: u64,
    /// The value as text, if it was requested and its type has one.
    pub value: Option<String>,
}

/// Report about a watched process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchReport {
    /// Time since it is watched.
    pub watched_for: Duration,
    /// Delays since then.
    pub delays: DelayReport,
    /// Time for which it has been parked, and true if it was parked already when it was first watched.
    pub parked_for: Option<(Duration, bool)>,
    /// Messages that arrived since it is watched.
    pub seen: u64,
    /// Messages with a noted sender.
    pub sampled: u64,
    /// Number of different senders that were noted.
    pub senders_total: usize,
    /// Most frequent senders with their numbers of messages, the most frequent first.
    pub senders: Vec<(Option<Pid>, u64)>,
    /// Age of the oldest waiting message, and true if it waited already when the process was first watched.
    pub oldest: Option<(Duration, bool)>,
    /// First messages, as the process last showed them.
    pub preview: Option<Preview>,
}

/// All watches and marks of a runtime.
pub(crate) struct Watches {
    started: Instant,
    /// Number of observers of the node.
    samplers: AtomicU32,
    watched: RwLock<FxHashMap<u32, Arc<Watch>>>,
    watched_count: AtomicUsize,
    marks: Box<[Mark]>,
    schedulers: Box<[CachePadded<Delays>]>,
    /// Newest scheduling delays by scheduler.
    pub(crate) recent: Box<[RecentDelays]>,
}

impl Watches {
    pub(crate) fn new(started: Instant, schedulers: usize) -> Self {
        Self {
            started,
            samplers: AtomicU32::new(0),
            watched: RwLock::default(),
            watched_count: AtomicUsize::new(0),
            marks: (0..MARKS).map(|_| Mark::default()).collect(),
            schedulers: (0..schedulers).map(|_| CachePadded::default()).collect(),
            recent: (0..schedulers).map(|_| RecentDelays::default()).collect(),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos().max(1) as u64
    }

    /// Sets whether delays of the node are sampled.
    pub(crate) fn set_sampling(&self, is_on: bool) {
        self.samplers.store(is_on.into(), Ordering::Relaxed);
    }

    /// Returns true if the node or a process is sampled.
    pub(crate) fn is_active(&self) -> bool {
        self.samplers.load(Ordering::Relaxed) != 0 || self.watched_count.load(Ordering::Relaxed) != 0
    }

    /// Returns true if delays of the node are sampled.
    pub(crate) fn samples_node(&self) -> bool {
        self.samplers.load(Ordering::Relaxed) != 0
    }

    /// Returns the delays of the node.
    pub(crate) fn delays(&self) -> DelayReport {
        let mut sum = DelayReport::default();
        for delays in &self.schedulers {
            let report = delays.report();
            sum.scheduling.add(&report.scheduling);
            sum.poll.add(&report.poll);
            sum.handling.add(&report.handling);
        }
        sum
    }

    /// Begins to watch a process; a process that is watched already has one watch for all its observers.
    pub(crate) fn watch(&self, pid: Pid) -> Arc<Watch> {
        let mut watched = self.watched.write();
        let watch = watched.get(&pid.slot()).filter(|watch| watch.pid == pid).cloned().unwrap_or_else(|| {
            Arc::new(Watch {
                pid,
                started_ns: self.now_ns(),
                mark: Mark::default(),
                delays: Delays::default(),
                parked_ns: AtomicU64::new(0),
                has_run: AtomicBool::new(false),
                mail: Mutex::default(),
                wants_preview: AtomicBool::new(false),
                wants_values: AtomicBool::new(false),
                preview: Mutex::default(),
            })
        });
        watched.insert(pid.slot(), Arc::clone(&watch));
        self.watched_count.store(watched.len(), Ordering::Relaxed);
        watch
    }

    /// Ends a watch if no other observer has it. Returns true if the process is not watched any more.
    pub(crate) fn unwatch(&self, watch: &Arc<Watch>) -> bool {
        let mut watched = self.watched.write();
        // The map and the caller hold one reference each.
        let is_last = Arc::strong_count(watch) <= 2;
        if is_last && watched.get(&watch.pid.slot()).is_some_and(|other| Arc::ptr_eq(other, watch)) {
            watched.remove(&watch.pid.slot());
        }
        self.watched_count.store(watched.len(), Ordering::Relaxed);
        is_last
    }

    /// Returns the watch of a process.
    pub(crate) fn find(&self, pid: Pid) -> Option<Arc<Watch>> {
        if self.watched_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let watched = self.watched.read();
        watched.get(&pid.slot()).filter(|watch| watch.pid == pid).cloned()
    }

    fn mark_of(&self, pid: Pid) -> &Mark {
        &self.marks[pid.slot() as usize % MARKS]
    }

    /// Takes a mark for a process. Returns false if the mark at its place is taken by one that `is_alive`.
    pub(crate) fn mark(&self, pid: Pid, is_alive: impl FnOnce(Pid) -> bool) -> bool {
        let mark = self.mark_of(pid);
        let holder = mark.process.load(Ordering::Relaxed);
        if holder != 0 && is_alive(Pid::local((holder >> 32) as u32, holder as u32)) {
            return false;
        }
        let is_taken = mark.process.compare_exchange(holder, packed(pid), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_taken {
            mark.ready_ns.store(0, Ordering::Relaxed);
            mark.sent_ns.store(0, Ordering::Relaxed);
        }
        is_taken
    }

    /// Calls `act` with the mark of a process, that of its watch first.
    fn with_mark(&self, pid: Pid, act: impl FnOnce(&Mark, Option<&Watch>)) {
        if let Some(watch) = self.find(pid) {
            return act(&watch.mark, Some(&watch));
        }
        let mark = self.mark_of(pid);
        if mark.process.load(Ordering::Relaxed) == packed(pid) {
            act(mark, None);
        }
    }

    /// Records that a flagged process was put into a run queue.
    pub(crate) fn ready(&self, pid: Pid) {
        self.with_mark(pid, |mark, watch| {
            mark.ready_ns.store(self.now_ns(), Ordering::Relaxed);
            if let Some(watch) = watch {
                watch.parked_ns.store(0, Ordering::Relaxed);
            }
        });
    }

    /// Records a send to a flagged process. The message will be its `ordinal`-th one.
    pub(crate) fn sent(&self, pid: Pid, from: Option<Pid>, ordinal: u64) {
        self.with_mark(pid, |mark, watch| match watch {
            None => mark.sent(ordinal, self.now_ns()),
            Some(watch) => watch.sent(from, ordinal, self.now_ns()),
        });
    }

    /// Records that a flagged process begins to run on a scheduler.
    pub(crate) fn begins(&self, pid: Pid, scheduler: usize) {
        let now_ns = self.now_ns();
        self.with_mark(pid, |mark, watch| {
            let Some(delay_ns) = mark.take_delay(now_ns) else { return };
            self.recent[scheduler].add(pid, delay_ns);
            match watch {
                Some(watch) => watch.delays.scheduling.add(delay_ns, 1),
                None => self.schedulers[scheduler].scheduling.add(delay_ns, 1),
            }
        });
    }

    /// Records a timed poll of any process on a scheduler.
    pub(crate) fn polled(&self, scheduler: usize, took_ns: u64, weight: u32) {
        self.schedulers[scheduler].poll.add(took_ns, weight);
    }

    /// Records the end of a poll of a flagged process that has `received` messages in all. Returns true if its sample
    /// is complete and the flag can be removed.
    pub(crate) fn ended(&self, pid: Pid, scheduler: usize, received: u64, took_ns: u64) -> bool {
        let now_ns = self.now_ns();
        let mut is_complete = true;
        self.with_mark(pid, |mark, watch| {
            let handling_ns = mark.take_handling(received, now_ns);
            let Some(watch) = watch else {
                if let Some(handling_ns) = handling_ns {
                    self.schedulers[scheduler].handling.add(handling_ns, 1);
                }
                is_complete = mark.sent_ns.load(Ordering::Relaxed) == 0;
                if is_complete {
                    mark.process.store(0, Ordering::Relaxed);
                }
                return;
            };
            is_complete = false;
            if let Some(handling_ns) = handling_ns {
                watch.delays.handling.add(handling_ns, 1);
            }
            watch.delays.poll.add(took_ns, 1);
            watch.has_run.store(true, Ordering::Relaxed);
            watch.parked_ns.store(now_ns, Ordering::Relaxed);
        });
        is_complete
    }
}

impl Watch {
    fn sent(&self, from: Option<Pid>, ordinal: u64, now_ns: u64) {
        // A sample is not worth waiting for another sender.
        let Some(mut mail) = self.mail.try_lock() else { return };
        mail.seen += 1;
        let window_ms = now_ns / 1_000_000;
        if window_ms != mail.window_ms {
            (mail.window_ms, mail.in_window) = (window_ms, 0);
        }
        mail.in_window += 1;
        let weight = match mail.in_window {
            ..=DENSE_PER_MS => 1,
            _ if mail.seen.is_multiple_of(SPARSE) => SPARSE,
            _ => return,
        };
        mail.sampled += 1;
        mail.count(from, weight);
        mail.arrived(ordinal, now_ns);
        drop(mail);
        self.mark.sent(ordinal, now_ns);
    }

    /// Requests a preview of the mailbox at the end of the next poll.
    pub(crate) fn request_preview(&self, values: bool) {
        self.wants_values.store(values, Ordering::Relaxed);
        self.wants_preview.store(true, Ordering::Relaxed);
    }

    /// Returns whether a preview is requested, and with values.
    pub(crate) fn take_preview_request(&self) -> Option<bool> {
        self.wants_preview.swap(false, Ordering::Relaxed).then(|| self.wants_values.load(Ordering::Relaxed))
    }

    pub(crate) fn show(&self, preview: Preview) {
        *self.preview.lock() = Some(preview);
    }

    /// Returns what is known, if the process has `received` messages in all and `waiting` ones.
    pub(crate) fn report(&self, now_ns: u64, received: u64, waiting: u64, is_parked: bool) -> WatchReport {
        let mail = self.mail.lock();
        let mut senders = mail.senders.clone();
        senders.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let parked_ns = self.parked_ns.load(Ordering::Relaxed);
        let has_run = self.has_run.load(Ordering::Relaxed);
        let since = |ns: u64| Duration::from_nanos(now_ns.saturating_sub(ns));
        let parked_for = match (is_parked, parked_ns) {
            (false, _) => None,
            (true, 0) if has_run => None,
            (true, 0) => Some((since(self.started_ns), true)),
            (true, parked_ns) => Some((since(parked_ns), false)),
        };
        WatchReport {
            watched_for: since(self.started_ns),
            delays: self.delays.report(),
            parked_for,
            seen: mail.seen,
            sampled: mail.sampled,
            senders_total: mail.known.len(),
            senders,
            oldest: (waiting > 0).then(|| mail.oldest(received + 1, self.started_ns)).map(|(at, min)| (since(at), min)),
            preview: self.preview.lock().clone(),
        }
    }
}

impl WatchedMail {
    /// Counts a sender, in place of the rarest one if there are too many.
    fn count(&mut self, from: Option<Pid>, weight: u64) {
        if self.known.len() < SENDERS_MAX {
            self.known.insert(from);
        }
        if let Some((_, count)) = self.senders.iter_mut().find(|(other, _)| *other == from) {
            *count += weight;
        } else if self.senders.len() < SENDERS_KEPT {
            self.senders.push((from, weight));
        } else if let Some(rarest) = self.senders.iter_mut().min_by_key(|(_, count)| *count) {
            *rarest = (from, rarest.1 + weight);
        }
    }

    fn arrived(&mut self, ordinal: u64, now_ns: u64) {
        let every_ns = ARRIVAL_EVERY_NS << self.thinned.min(30);
        if self.arrivals.last().is_some_and(|(_, at)| now_ns.saturating_sub(*at) < every_ns) {
            return;
        }
        if self.arrivals.len() == ARRIVALS_KEPT {
            // Keep every other point: the history stays as long, and becomes coarser.
            self.thinned += 1;
            let mut keep = false;
            self.arrivals.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.arrivals.push((ordinal, now_ns));
    }

    /// Returns the time at which a message arrived at the earliest, and true if it arrived before the watch began.
    fn oldest(&self, ordinal: u64, started_ns: u64) -> (u64, bool) {
        let later = self.arrivals.partition_point(|(other, _)| *other <= ordinal);
        match later.checked_sub(1) {
            Some(at) => (self.arrivals[at].1, false),
            None => (started_ns, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> (Watches, Arc<Watch>) {
        let watches = Watches::new(Instant::now(), 1);
        let watch = watches.watch(Pid::local(7, 1));
        (watches, watch)
    }

    #[test]
    fn the_most_frequent_senders_are_kept_however_many_there_are() {
        let mut mail = WatchedMail::default();
        for n in 0..10_000 {
            let slot = if n % 4 == 0 { 1 } else { n + 10 };
            mail.count(Some(Pid::local(slot, 1)), 1);
        }

        let most = mail.senders.iter().max_by_key(|(_, count)| *count).copied();
        assert_eq!(mail.senders.len(), SENDERS_KEPT);
        assert!(most.is_some_and(|(from, count)| from == Some(Pid::local(1, 1)) && count >= 2_500), "{most:?}");
        assert_eq!(mail.known.len(), SENDERS_MAX);
    }

    #[test]
    fn the_age_of_a_message_is_known_or_at_least_that_of_the_watch() {
        let mut mail = WatchedMail::default();
        for n in 0..5_000_u64 {
            mail.arrived(100 + n, 1_000_000 * (n + 1));
        }

        assert_eq!(mail.oldest(50, 7), (7, true));
        let (at_ns, is_minimum) = mail.oldest(2_100, 7);
        assert!(!is_minimum && at_ns <= 2_001_000_000 && at_ns > 1_900_000_000, "{at_ns}");
        assert!(mail.arrivals.len() <= ARRIVALS_KEPT);
    }

    #[test]
    fn two_observers_share_a_watch_and_the_last_one_ends_it() {
        let (watches, first) = watch();
        let second = watches.watch(Pid::local(7, 1));
        assert!(Arc::ptr_eq(&first, &second) && watches.is_active());

        assert!(!watches.unwatch(&first));
        drop(first);
        assert!(watches.unwatch(&second));

        assert!(!watches.is_active() && watches.find(Pid::local(7, 1)).is_none());
    }

    #[test]
    fn a_mark_is_complete_when_its_message_was_received() {
        let watches = Watches::new(Instant::now(), 1);
        let pid = Pid::local(9, 1);
        assert!(watches.mark(pid, |_| true));
        assert!(!watches.mark(Pid::local(9 + MARKS as u32, 1), |_| true), "its place is taken");

        watches.sent(pid, None, 5);
        watches.ready(pid);
        watches.begins(pid, 0);
        assert!(!watches.ended(pid, 0, 4, 10));
        assert!(watches.ended(pid, 0, 5, 10));

        let delays = watches.delays();
        assert_eq!((delays.scheduling.count(), delays.handling.count()), (1, 1));
        assert!(watches.mark(Pid::local(9 + MARKS as u32, 1), |_| true));
    }
}
