//! CPU budget of the console, and measurement of the CPU time that it uses.
//!
//! The whole console runs on one thread, so its CPU time is that thread's. Sorting large tables into an order is the
//! only expensive operation: after each one follows a pause in proportion to its cost, shared by all clients.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Age at which an order by counters is recomputed, even between two refreshes of values.
const ORDER_AGE: Duration = Duration::from_millis(915);
/// Age at which an order by rates is recomputed; it compares two observations.
const RATE_ORDER_AGE: Duration = Duration::from_millis(2_700);
/// Age at which an order by rates is recomputed if it compared observations over too short a time.
const PROVISIONAL_AGE: Duration = Duration::from_millis(450);
/// Share of one core that orders may use when they accompany a refresh of values before reaching that age.
const REFRESH_SHARE: f64 = 0.004;
/// Number of rows up to which the age of an order takes precedence over its cost, unless the cost exceeds
/// [`ORDER_COST_MAX`].
const ROWS_PROMISED: u64 = 1_100_000;
/// An order that costs more than this is recomputed less often than its age requires, even if it has few rows.
const ORDER_COST_MAX: Duration = Duration::from_millis(20);
/// Share of one core that such an order may use.
const ORDER_SHARE: f64 = 0.008;
/// Share of one core that the orders of all clients together may use.
const ORDERS_SHARE: f64 = 0.02;
/// CPU time that a client may use ahead of its share: a few pages of a million processes.
const ORDERS_AHEAD: Duration = Duration::from_millis(40);
/// Time for which a client that has used its part counts as one that needs it.
const IN_USE: Duration = Duration::from_secs(10);
/// Share of one core that sampling may use. A build without optimisations takes ten times as long for a sample; with the
/// share of an optimised one it would send a frame every two seconds.
const SAMPLING_SHARE: f64 = if cfg!(debug_assertions) { 0.04 } else { 0.004 };

/// Returns the maximum age of an order of `rows` rows, when computing it takes `cost`.
pub(super) fn order_age_max(by_rate: bool, provisional: bool, rows: u64, cost: Duration) -> Duration {
    let age = match (by_rate, provisional) {
        (false, _) => ORDER_AGE,
        (true, false) => RATE_ORDER_AGE,
        (true, true) => PROVISIONAL_AGE,
    };
    if cost > ORDER_COST_MAX || rows > ROWS_PROMISED { age.max(cost.div_f64(ORDER_SHARE)) } else { age }
}

/// Returns the age from which a refresh of values also recomputes the order; `every` is the refresh interval.
///
/// A small table is sorted at each refresh. Half of `every` is long enough to distinguish a refresh from scrolling.
pub(super) fn order_age_min(every: Duration, cost: Duration) -> Duration {
    cost.div_f64(REFRESH_SHARE).max(every / 2)
}

/// Returns the time for which other clients get an order that took `cost`, rather than one of their own.
pub(super) fn order_shared_for(cost: Duration) -> Duration {
    cost.div_f64(REFRESH_SHARE).min(ORDER_AGE / 2)
}

/// Returns the time over which rates are compared, when an order by them takes `cost`: longer if it is expensive.
pub(super) fn rate_span(cost: Duration, shortest: Duration, longest: Duration) -> Duration {
    cost.div_f64(REFRESH_SHARE).clamp(shortest, longest)
}

/// Returns the interval between two refreshes of a view: `wanted`, or more if the last one took `cost`.
pub(super) fn refresh_every(wanted: Duration, cost: Duration) -> Duration {
    wanted.max(cost.div_f64(REFRESH_SHARE))
}

/// Returns the pause between two samples, when the last one took `cost`.
pub(super) fn sampling_pause(tick: Duration, cost: Duration) -> Duration {
    tick.max(cost.div_f64(SAMPLING_SHARE))
}

/// Share of one core that the console's thread may use while no client is attached.
const UNOBSERVED_SHARE: f64 = SAMPLING_SHARE * 1.5;
/// CPU time that it may use ahead of its share: instants of the recorder come together with a sample.
const UNOBSERVED_AHEAD: Duration = Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 10 });
/// Longest pause between two samples for that reason.
const UNOBSERVED_PAUSE_MAX: Duration = Duration::from_secs(2);

/// CPU budget of the whole thread while no client is attached.
///
/// Waking a thread of an idle machine and touching memory that was not used for a while cost more than the work itself,
/// so the cost of samples alone tells too little.
#[derive(Debug)]
pub(super) struct UnobservedBudget {
    cpu: Duration,
    at: Instant,
    debt: Duration,
}

impl UnobservedBudget {
    /// Creates a budget without debt. `cpu` is the CPU time of the thread.
    pub(super) const fn new(now: Instant, cpu: Duration) -> Self {
        Self { cpu, at: now, debt: Duration::ZERO }
    }

    /// Returns the shortest pause until the next sample. The CPU time since the last call counts if no client was
    /// attached.
    pub(super) fn pause(&mut self, now: Instant, cpu: Duration, clients: u32) -> Duration {
        if clients > 0 {
            *self = Self::new(now, cpu);
            return Duration::ZERO;
        }
        let paid = now.saturating_duration_since(self.at).mul_f64(UNOBSERVED_SHARE);
        let debt = self.debt.saturating_sub(paid) + cpu.saturating_sub(self.cpu);
        let debt_max = UNOBSERVED_AHEAD + UNOBSERVED_PAUSE_MAX.mul_f64(UNOBSERVED_SHARE);
        *self = Self { cpu, at: now, debt: debt.min(debt_max) };
        self.debt.saturating_sub(UNOBSERVED_AHEAD).div_f64(UNOBSERVED_SHARE)
    }
}

/// Returns the CPU time of this thread.
pub(super) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// Returns the CPU time of this thread since it was `before`.
pub(super) fn thread_cpu_since(before: Duration) -> Duration {
    thread_cpu().saturating_sub(before)
}

/// Returns the CPU time of the whole operating system process.
pub(super) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// CPU budget of the orders and views of all clients. The clients that use it have equal parts, so a client that requests
/// expensive orders waits for its own part, and other clients do not.
#[derive(Debug, Default)]
pub(super) struct OrderBudgets(RefCell<Vec<Weak<OrderBudget>>>);

/// Part of one client.
#[derive(Debug)]
pub(super) struct OrderBudget {
    all: Rc<OrderBudgets>,
    /// CPU time that is not paid for, at this time.
    debt: Cell<(Duration, Instant)>,
    used_at: Cell<Option<Instant>>,
}

impl OrderBudgets {
    /// Adds a client.
    pub(super) fn add(self: &Rc<Self>, now: Instant) -> Rc<OrderBudget> {
        let debt = Cell::new((Duration::ZERO, now));
        let budget = Rc::new(OrderBudget { all: Rc::clone(self), debt, used_at: Cell::new(None) });
        let mut all = self.0.borrow_mut();
        all.retain(|budget| budget.strong_count() > 0);
        all.push(Rc::downgrade(&budget));
        budget
    }

    /// Returns the share of one core of each client that pays for orders, or has had one lately.
    fn share(&self, now: Instant) -> f64 {
        let all = self.0.borrow();
        let least = ORDERS_SHARE / all.len().max(1) as f64;
        let in_use = all.iter().filter_map(Weak::upgrade).filter(|budget| budget.is_in_use(now, least)).count();
        ORDERS_SHARE / in_use.max(1) as f64
    }
}

impl OrderBudget {
    fn is_in_use(&self, now: Instant, least: f64) -> bool {
        let (debt, at) = self.debt.get();
        let is_paying = debt > now.saturating_duration_since(at).mul_f64(least);
        is_paying || self.used_at.get().is_some_and(|at| now.saturating_duration_since(at) < IN_USE)
    }

    /// Pays with the time that has passed; returns the debt, and the share of one core that pays for it.
    fn pay(&self, now: Instant) -> (Duration, f64) {
        let share = self.all.share(now);
        let (debt, at) = self.debt.get();
        let debt = debt.saturating_sub(now.saturating_duration_since(at).mul_f64(share));
        self.debt.set((debt, now.max(at)));
        (debt, share)
    }

    /// Returns the earliest time for another order.
    pub(super) fn ready_at(&self, now: Instant) -> Instant {
        let (debt, share) = self.pay(now);
        now + debt.saturating_sub(ORDERS_AHEAD).div_f64(share)
    }

    /// Accounts for an order that took `cost` of CPU time.
    pub(super) fn spend(&self, now: Instant, cost: Duration) {
        let (debt, _) = self.pay(now);
        self.debt.set((debt + cost, now));
        self.used_at.set(Some(now));
    }
}

/// Share of time that the console's thread was busy over the last seconds.
#[derive(Debug)]
pub(super) struct BusyShare {
    since: Instant,
    cpu: Duration,
    pct: f64,
    /// True until the first span is over.
    new: bool,
}

const BUSY_SPAN: Duration = Duration::from_secs(2);

impl BusyShare {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, cpu: thread_cpu(), pct: 0.0, new: true }
    }

    /// Returns the share in per cent of one core, measured again every two seconds; in the first two, over the time so
    /// far.
    pub(super) fn pct(&mut self, now: Instant) -> f64 {
        let span = now - self.since;
        let over = span >= BUSY_SPAN;
        if (over || self.new) && !span.is_zero() {
            let cpu = thread_cpu();
            self.pct = cpu.saturating_sub(self.cpu).as_secs_f64() / span.as_secs_f64() * 100.0;
            if over {
                *self = Self { since: now, cpu, pct: self.pct, new: false };
            }
        }
        self.pct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn orders_are_made_at_their_age_until_they_cost_too_much_for_it() {
        let million = 1_000_000;

        assert_eq!(order_age_max(false, false, million, 5 * MS), 915 * MS);
        assert_eq!(order_age_max(true, false, million, 5 * MS), 2_700 * MS);
        assert_eq!(order_age_max(true, true, million, 5 * MS), 450 * MS);
        assert_eq!(order_age_max(false, false, million, 80 * MS), 10_000 * MS);
    }

    #[test]
    fn beyond_a_million_rows_the_share_of_a_core_is_kept_and_the_age_is_not() {
        assert_eq!(order_age_max(false, false, 2_000_000, 16 * MS), 2_000 * MS);
        assert_eq!(order_age_max(false, true, 2_000_000, 4 * MS), 915 * MS);
        assert_eq!(order_age_max(true, false, 4_000_000, 32 * MS), 4_000 * MS);
    }

    #[test]
    fn an_order_that_costs_little_comes_with_every_refresh_of_values() {
        let refresh = 250 * MS;

        assert!(order_age_min(refresh, Duration::ZERO) < refresh);
        assert!(order_age_min(refresh, MS / 2) < refresh);
        assert_eq!(order_age_min(refresh, 2 * MS), 500 * MS);
        assert!(
            order_age_min(refresh, 14 * MS) > order_age_max(true, false, 1_000_000, 14 * MS),
            "a large table waits for its age"
        );
    }

    #[test]
    fn clients_that_jump_about_get_some_orders_at_once_and_then_their_share() {
        let start = Instant::now();
        let budget = Rc::new(OrderBudgets::default()).add(start);

        let at_once = (0..100)
            .take_while(|_| {
                budget.ready_at(start) <= start && {
                    budget.spend(start, 5 * MS);
                    true
                }
            })
            .count();
        let mut now = start + Duration::from_mins(1);
        budget.spend(now, 40 * MS);
        let later = (0..10_000)
            .filter(|_| {
                now += MS;
                let ready = budget.ready_at(now) <= now;
                if ready {
                    budget.spend(now, 5 * MS);
                }
                ready
            })
            .count();

        assert_eq!(at_once, 9);
        assert!((39..=41).contains(&later), "{later} orders of 5 ms in 10 s");
    }

    #[test]
    fn a_client_with_expensive_orders_waits_alone() {
        let start = Instant::now();
        let budgets = Rc::new(OrderBudgets::default());
        let hostile: Vec<_> = (0..26).map(|_| budgets.add(start)).collect();
        for budget in &hostile {
            budget.spend(start, 500 * MS);
        }
        let honest = budgets.add(start);

        assert_eq!(honest.ready_at(start), start);
        let (mut now, mut orders) = (start, 0);
        while now < start + Duration::from_mins(1) {
            now += 50 * MS;
            for budget in &hostile {
                if budget.ready_at(now) <= now {
                    budget.spend(now, 500 * MS);
                }
            }
            if honest.ready_at(now) <= now {
                honest.spend(now, 5 * MS);
                orders += 1;
            }
        }

        assert!((12..30).contains(&orders), "{orders} orders in a minute");
        drop(hostile);
        let before = honest.ready_at(now);
        assert!(honest.ready_at(now + 20 * IN_USE) <= before + 20 * IN_USE);
        assert!((budgets.share(now) - ORDERS_SHARE).abs() < 1e-9, "clients that have left are not counted");
    }

    #[test]
    fn without_clients_the_thread_keeps_its_share_and_short_peaks_delay_nothing() {
        let sum = |cost: Duration, peak: Duration| {
            let (mut now, mut cpu) = (Instant::now(), Duration::ZERO);
            let (mut budget, start, mut samples) = (UnobservedBudget::new(now, cpu), now, 0);
            while now < start + Duration::from_mins(1) {
                cpu += if samples % 20 == 0 { peak } else { cost };
                now += budget.pause(now, cpu, 0).max(50 * MS);
                samples += 1;
            }
            (samples, cpu.as_secs_f64() / 60.0)
        };

        let pays_for = |pause: Duration| pause.mul_f64(UNOBSERVED_SHARE);
        assert_eq!(sum(pays_for(15 * MS), pays_for(500 * MS)).0, 1200);
        let (samples, share) = sum(pays_for(650 * MS), pays_for(650 * MS));
        assert!((90..100).contains(&samples) && share < UNOBSERVED_SHARE * 1.1, "{samples} samples, {share}");
        let (samples, _) = sum(pays_for(7_000 * MS), pays_for(7_000 * MS));
        assert!((30..35).contains(&samples), "{samples} samples");
    }

    #[test]
    fn a_client_is_not_counted_against_the_time_without_any() {
        let now = Instant::now();
        let mut budget = UnobservedBudget::new(now, Duration::ZERO);

        assert!(budget.pause(now, 2 * UNOBSERVED_AHEAD, 0) > Duration::from_secs(1));
        assert_eq!(budget.pause(now + MS, 500 * MS, 1), Duration::ZERO);
        assert_eq!(budget.pause(now + 2 * MS, 501 * MS, 0), Duration::ZERO);
    }

    #[test]
    fn sampling_stretches_when_it_is_dear() {
        let cost = |share: f64| (50 * MS).mul_f64(SAMPLING_SHARE * share);
        assert_eq!(sampling_pause(50 * MS, cost(0.5)), 50 * MS);
        assert_eq!(sampling_pause(50 * MS, cost(5.0)), 250 * MS);
    }
}
