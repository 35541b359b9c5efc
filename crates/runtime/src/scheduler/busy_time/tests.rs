//! The timer on simulated clocks: nothing here depends on the machine.

use std::cell::Cell;
use std::rc::Rc;

use super::{BusyTimer, Clock, Timing};
use crate::process::header::ProcessHeader;
use crate::process::table::Slot;
use crate::scheduler::shared::Counters;
use std::sync::atomic::Ordering;

/// Cost of a simulated clock read.
const READ_NS: u64 = 25;

/// Clocks that advance only when they are read, or by hand.
#[derive(Clone, Default)]
struct Simulated {
    now_ns: Rc<Cell<u64>>,
    /// Time for which the thread had no core.
    off_core_ns: Rc<Cell<u64>>,
}

impl Simulated {
    fn pass(&self, ns: u64) {
        self.now_ns.set(self.now_ns.get() + ns);
    }
}

impl Clock for Simulated {
    fn now_ns(&self) -> u64 {
        self.pass(READ_NS);
        self.now_ns.get()
    }

    fn cpu_ns(&self) -> u64 {
        self.now_ns.get() - self.off_core_ns.get()
    }
}

/// A scheduler whose processes are only headers.
struct Scheduler {
    clock: Simulated,
    timer: BusyTimer<Simulated>,
    counters: Counters,
    /// Time between two polls.
    dispatch_ns: u64,
    /// Additional time of a poll that is timed.
    disturbance_ns: u64,
    timed: u64,
}

impl Scheduler {
    fn new(dispatch_ns: u64, disturbance_ns: u64) -> Self {
        let clock = Simulated::default();
        clock.pass(1_000_000);
        let timer = BusyTimer::with_clock(clock.clone(), 1);
        let scheduler = Self { clock, timer, counters: Counters::default(), dispatch_ns, disturbance_ns, timed: 0 };
        scheduler.timer.resume(scheduler.clock.now_ns.get(), true);
        scheduler
    }

    /// Runs one poll of a process that takes `ns`, of which the thread has no core for `off_core_ns`.
    fn poll(&mut self, header: &ProcessHeader, ns: u64, off_core_ns: u64) {
        let slot = Slot::of(header);
        let timing = self.timer.begin_poll(slot, false);
        let is_timed = matches!(timing, Timing::From(..));
        self.timed += u64::from(is_timed);
        self.clock.pass(ns + if is_timed { self.disturbance_ns } else { 0 });
        self.clock.off_core_ns.set(self.clock.off_core_ns.get() + off_core_ns);
        self.timer.end_poll(slot, timing, &self.counters);
        self.clock.pass(self.dispatch_ns);
    }

    fn in_polls(&self) -> f64 {
        self.counters.poll_ns.load(Ordering::Relaxed) as f64
    }
}

fn busy(header: &ProcessHeader) -> f64 {
    header.busy_ns.load(Ordering::Relaxed) as f64
}

#[track_caller]
fn assert_near(shown: f64, is: f64, tolerance: f64) {
    assert!((shown - is).abs() <= tolerance * is, "{shown} is not within {tolerance} of {is}");
}

#[test]
fn a_long_first_poll_right_after_a_sample_leaves_the_distances_of_samples_as_they_were() {
    for polls in 0..300 {
        let mut scheduler = Scheduler::new(15, 0);
        let (short, long) = (ProcessHeader::free(), ProcessHeader::free());
        for _ in 0..10_000 + polls {
            scheduler.poll(&short, 100, 0);
        }
        let slot = Slot::of(&long);
        let timing = scheduler.timer.begin_poll(slot, true);
        scheduler.timer.mark_long(slot);
        scheduler.clock.pass(1_000_000);
        scheduler.timer.end_poll(slot, timing, &scheduler.counters);

        scheduler.timed = 0;
        for _ in 0..10_000 {
            scheduler.poll(&short, 100, 0);
        }
        assert!(scheduler.timed > 20, "after {polls} polls: {} are timed", scheduler.timed);
    }
}

#[test]
fn short_polls_are_shown_without_the_cost_of_the_clock() {
    let mut scheduler = Scheduler::new(15, 0);
    let [light, heavy] = [ProcessHeader::free(), ProcessHeader::free()];
    let start_ns = scheduler.clock.now_ns.get();

    for _ in 0..1_000_000 {
        scheduler.poll(&light, 20, 0);
        scheduler.poll(&heavy, 60, 0);
    }

    assert_near(busy(&light), 20e6, 0.03);
    assert_near(busy(&heavy), 60e6, 0.03);
    assert_near(scheduler.in_polls(), busy(&light) + busy(&heavy), 0.0);
    let elapsed = (scheduler.clock.now_ns.get() - start_ns) as f64;
    assert_near(elapsed, 2e6 * 55.0, 0.015);
}

#[test]
fn two_processes_that_alternate_never_have_more_than_the_time_of_their_scheduler() {
    // As in a ping-pong: a timed poll takes almost twice as long as one that is not timed.
    let mut scheduler = Scheduler::new(10, 25);
    let [left, right] = [ProcessHeader::free(), ProcessHeader::free()];
    let start_ns = scheduler.clock.now_ns.get();

    for _ in 0..1_000_000 {
        scheduler.poll(&left, 30, 0);
        scheduler.poll(&right, 30, 0);
    }

    let elapsed = (scheduler.clock.now_ns.get() - start_ns) as f64;
    assert!(scheduler.in_polls() < elapsed, "{} of {elapsed}", scheduler.in_polls());
    assert_near(busy(&left), busy(&right), 0.03);
    assert_near(scheduler.in_polls(), 60e6, 0.15);
}

#[test]
fn processes_that_live_for_one_long_poll_are_counted_in_full() {
    let mut scheduler = Scheduler::new(50, 0);
    let headers: Vec<ProcessHeader> = (0..2_000).map(|_| ProcessHeader::free()).collect();

    for header in &headers {
        scheduler.poll(header, 200_000, 0);
    }

    assert_near(scheduler.in_polls(), 2_000.0 * 200_000.0, 0.03);
}

#[test]
fn rare_long_polls_of_new_processes_between_short_ones_are_not_lost() {
    let mut scheduler = Scheduler::new(20, 0);
    let short = ProcessHeader::free();
    let headers: Vec<ProcessHeader> = (0..10_000).map(|_| ProcessHeader::free()).collect();

    for header in &headers {
        (0..500).for_each(|_| scheduler.poll(&short, 40, 0));
        scheduler.poll(header, 30_000, 0);
    }

    let long: f64 = headers.iter().map(busy).sum();
    assert_near(long, 10_000.0 * 30_000.0, 0.15);
    assert_near(busy(&short), 10_000.0 * 500.0 * 40.0, 0.15);
}

#[test]
fn reading_the_clock_costs_less_than_a_hundredth_at_any_duration_of_polls() {
    for poll_ns in [20, 100, 500, 2_000, 10_000, 100_000] {
        let mut scheduler = Scheduler::new(15, 0);
        let header = ProcessHeader::free();
        let start_ns = scheduler.clock.now_ns.get();

        for _ in 0..100_000 {
            scheduler.poll(&header, poll_ns, 0);
        }

        let elapsed = scheduler.clock.now_ns.get() - start_ns;
        let cost = elapsed - 100_000 * (poll_ns + 15);
        // A process with polls of 5 µs is timed at every one.
        let share = if poll_ns >= 5_000 { 0.006 } else { 0.02 };
        assert!((cost as f64) < share * elapsed as f64, "{poll_ns} ns: {cost} of {elapsed}, {} timed", scheduler.timed);
        assert_near(busy(&header), 1e5 * poll_ns as f64, 0.03);
    }
}

#[test]
fn a_long_poll_counts_only_its_time_on_a_core() {
    let mut scheduler = Scheduler::new(50, 0);
    let header = ProcessHeader::free();

    for _ in 0..100 {
        scheduler.poll(&header, 1_000_000, 400_000);
    }

    // The first one is not known to be long before it ends.
    assert_near(busy(&header), 100.0 * 600_000.0, 0.01);
}

#[test]
fn processes_of_one_poll_that_lose_their_core_now_and_then_are_not_charged_for_it() {
    let mut scheduler = Scheduler::new(50, 0);
    let headers: Vec<ProcessHeader> = (0..2_000).map(|_| ProcessHeader::free()).collect();

    for (at, header) in headers.iter().enumerate() {
        let lost_ns = if at % 10 == 9 { 3_000_000 } else { 0 };
        scheduler.poll(header, 200_000 + lost_ns, lost_ns);
    }

    // The first one that loses its core is charged: nothing is known before it.
    assert_near(scheduler.in_polls(), 2_000.0 * 200_000.0, 0.03);
}
