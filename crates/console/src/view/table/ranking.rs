//! Ordering of the process table: finds the processes in a window of it with one pass over all processes.
//!
//! ```text
//!   every 128th process ──▶ keys, sorted ──▶ two keys that enclose the window
//!   every process ──▶ filter ──▶ key ──▶ above: counted · between: collected · below: counted ──▶ sort those between
//! ```
//!
//! The first step reads one process in 128 and estimates, with a wide margin, where the window is. The second step
//! costs the same for the first page as for the last, and keeps a few thousand rows regardless of the table's size. Its
//! counts show whether the estimate was wrong; if so, both steps are repeated with a wider margin. Equal keys are
//! ordered by slot, so a table of a million idle processes does not shuffle.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::time::{Duration, Instant};

use rusm_protocol::{Column, SortKey, ViewWindow};

use crate::budget::{thread_cpu, thread_cpu_since};
use crate::view::filter::Filter;
use crate::view::table::sort_key::{FilterRates, NameKey, Pass, Rates, number};
use rusm_runtime::observe::{self, ProcessRef};
use rusm_runtime::{Handle, Pid};

/// Sampling interval: one process in this many is read to estimate where a window is.
const STRIDE: u64 = 128;
/// Number of slots up to which a table is collected as a whole.
const SMALL: usize = 4 * observe::TABLE_PART_SLOTS;
/// Margin around a window, in standard deviations. With three, one in several hundred orders misses and takes twice as
/// long.
const MARGIN: f64 = 3.0;
/// Number of rows kept on each side of a window, so that scrolling does not need a new order.
const KEPT: u64 = 500;
/// Parts of the table that are read before other tasks may run: a few hundred microseconds.
const PARTS_PER_TURN: usize = 64;

/// A process in an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ranked {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A section of the ordered table, around the requested window.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    rows: Vec<Ranked>,
    /// Position of the first row.
    first: u64,
    /// Start of the window for which the order was computed; it differs from the requested one around a process.
    pub(crate) offset: u64,
    pub(crate) total: u64,
    pub(crate) matched: u64,
    /// Time at which the processes were read.
    pub(crate) made: Instant,
    /// Time at which the order was computed, which for rates may be later.
    pub(crate) ranked: Instant,
    /// True if rates were compared over too short a time to be reliable.
    pub(crate) provisional: bool,
    /// CPU time that the order took.
    pub(crate) cost: Duration,
    /// The node's idle progress when the order was computed, if the order is valid for as long as that does not change.
    still: Option<u64>,
}

impl Order {
    /// Creates an order of `rows` rows from a position on, out of a table of `total`.
    #[cfg(test)]
    pub(super) fn of_rows(rows: u32, first: u64, total: u64, ranked: Instant, cost: Duration) -> Self {
        let rows = (0..rows).map(|slot| Ranked { slot, generation: 1 }).collect();
        Self {
            rows,
            first,
            offset: first,
            total,
            matched: total,
            made: ranked,
            ranked,
            provisional: false,
            cost,
            still: None,
        }
    }

    /// Renews the order if no process has done anything since, so that a new one would be equal; returns true if so.
    pub(crate) fn renew(&mut self, runtime: &Handle, now: Instant) -> bool {
        let same = self.still.is_some() && self.still == observe::idle_progress(runtime);
        if same {
            self.made = now;
            self.ranked = now;
        }
        same
    }

    /// Returns the start of a window of `len` rows with a process in its middle, if the process is among the kept rows.
    pub(crate) fn around(&self, pid: Pid, len: u32) -> Option<u64> {
        let is_followed = |row: &Ranked| (row.slot, row.generation) == (pid.slot(), pid.generation());
        let at = self.first + self.rows.iter().position(is_followed)? as u64;
        Some(at.saturating_sub(u64::from(len / 2)))
    }

    /// Returns the rows of a window and the position of the first; `None` if the window is outside of the kept rows.
    ///
    /// A window past the end of the table shows its end.
    pub(crate) fn window(&self, window: ViewWindow) -> Option<(u64, &[Ranked])> {
        let (from, to) = clamp(window, self.matched);
        let kept = self.first..=self.first + self.rows.len() as u64;
        (kept.contains(&from) && kept.contains(&to))
            .then(|| (from, &self.rows[(from - self.first) as usize..(to - self.first) as usize]))
    }
}

/// Returns the positions of a window in a table of `matched` rows.
fn clamp(window: ViewWindow, matched: u64) -> (u64, u64) {
    let len = u64::from(window.len);
    let from = window.offset.min(matched.saturating_sub(len));
    (from, (from + len).min(matched))
}

/// Computes a window of the table ordered by `sort`.
pub(crate) async fn order(
    runtime: &Handle,
    sort: SortKey,
    filter: &Filter,
    window: ViewWindow,
    rates: &mut Rates,
    filter_rates: &mut [Rates],
    around: Option<Pid>,
) -> Order {
    let ranked = Instant::now();
    let mut filter_is_provisional = false;
    for rates in filter_rates.iter_mut() {
        filter_is_provisional |= rates.prepare(runtime, ranked);
    }
    // Other columns change without a poll: messages arrive at a process that does not wait for them, and names are set
    // from outside.
    let by_polls = matches!(sort.key, Column::Reds | Column::Messages | Column::AgeMs | Column::Pid | Column::Parent);
    let still = if by_polls && filter.is_empty() { observe::idle_progress(runtime) } else { None };
    let now_ms = observe::uptime(runtime).as_millis() as u64;
    let cost = Cell::new(Duration::ZERO);
    let filter_rates = RefCell::new(filter_rates);
    let walk = Walk { runtime, filter, filter_rates, around, now_ms, all_keys: sort.key.is_rate(), cost };
    // The largest key comes first; inverting every bit puts the smallest first.
    let flip = if sort.desc { 0 } else { u64::MAX };
    // Each constant column gets its own loop, which does not test the column for each of a million processes.
    macro_rules! by {
        ($column:expr) => {
            walk.find(window, |seen, _| number($column, seen, now_ms) ^ flip).await
        };
    }
    let found = match sort.key {
        rate if rate.is_rate() => {
            let provisional = rates.prepare(runtime, ranked) | filter_is_provisional;
            let found = walk.find(window, |seen, look| rates.key(seen, look) ^ flip).await;
            let made = rates.looked_at().unwrap_or(ranked);
            let still = rates.still().filter(|_| filter.is_empty());
            let order = Order { made, provisional, still, ..found.into_order(ranked, &walk) };
            rates.spent(order.cost);
            return order;
        }
        column @ (Column::Name | Column::Kind | Column::Module | Column::Profile | Column::LastHostCall) => {
            let found = walk.find(window, |seen, _| NameKey::of(column, seen, sort.desc)).await;
            return Order { provisional: filter_is_provisional, ..found.into_order(ranked, &walk) };
        }
        Column::Reds => by!(Column::Reds),
        Column::MemoryBytes => by!(Column::MemoryBytes),
        Column::MailboxLen => by!(Column::MailboxLen),
        Column::Messages => by!(Column::Messages),
        Column::AgeMs => by!(Column::AgeMs),
        column => by!(column),
    };
    Order { still, provisional: filter_is_provisional, ..found.into_order(ranked, &walk) }
}

/// A position in an order, unique to each process.
type SortPosition<K> = (K, Reverse<u32>);

/// Positions that enclose a window; `None` is the end of the table.
struct Bounds<K> {
    upper: Option<SortPosition<K>>,
    lower: Option<SortPosition<K>>,
}

/// Result of one pass over all processes.
struct Found<K> {
    /// The window that was looked for.
    window: ViewWindow,
    rows: Vec<(SortPosition<K>, u32)>,
    above: u64,
    total: u64,
    matched: u64,
}

struct Walk<'a> {
    runtime: &'a Handle,
    filter: &'a Filter,
    /// Earlier counters of the rates that the filter compares.
    filter_rates: RefCell<&'a mut [Rates]>,
    /// Process that fixes the position of the window.
    around: Option<Pid>,
    now_ms: u64,
    /// True if keys are also needed for processes that the filter rejects.
    all_keys: bool,
    cost: Cell<Duration>,
}

impl Walk<'_> {
    /// Finds the rows around a window, the largest key first.
    async fn find<K: Ord + Clone>(
        &self,
        window: ViewWindow,
        mut key: impl FnMut(&ProcessRef<'_>, Pass) -> K,
    ) -> Found<K> {
        let window = self.located(window, |seen| key(seen, Pass::AtSome)).await;
        let mut margin = MARGIN;
        let (mut some, mut all) = (Pass::AtSome, Pass::AtAll);
        loop {
            let bounds = self.bounds(window, margin, some, |seen| key(seen, some)).await;
            let found = Found { window, ..self.collect(&bounds, all, |seen| key(seen, all)).await };
            if found.holds(window) {
                return found;
            }
            (some, all) = (Pass::Again, Pass::Again);
            margin *= 4.0;
        }
    }

    /// Returns the window with the followed process in its middle; the window itself if there is none, or if the process
    /// does not match. The place is that of this pass: the order that follows may differ by a few rows.
    async fn located<K: Ord>(&self, window: ViewWindow, mut key: impl FnMut(&ProcessRef<'_>) -> K) -> ViewWindow {
        let followed = self.around.and_then(|pid| observe::process_ref(self.runtime, pid));
        let followed = followed.filter(|seen| self.passes(seen, Pass::AtSome));
        let Some(place) = followed.map(|seen| (key(&seen), Reverse(seen.slot()))) else { return window };
        let mut above = 0;
        self.in_turns(observe::table_parts(self.runtime), PARTS_PER_TURN, |part| {
            observe::for_each_process(self.runtime, part, |seen| {
                let is_above = self.passes(&seen, Pass::AtSome) && (key(&seen), Reverse(seen.slot())) > place;
                above += u64::from(is_above);
            });
        })
        .await;
        ViewWindow { offset: above.saturating_sub(u64::from(window.len / 2)), ..window }
    }

    #[inline]
    fn passes(&self, seen: &ProcessRef<'_>, pass: Pass) -> bool {
        if self.filter.rates().is_empty() {
            return self.filter.is_empty() || self.filter.matches_process(seen, self.now_ms, &FilterRates::default());
        }
        let rates = FilterRates::read(&mut self.filter_rates.borrow_mut(), seen, pass);
        self.filter.matches_process(seen, self.now_ms, &rates)
    }

    /// Estimates the positions that enclose a window.
    async fn bounds<K: Ord + Clone>(
        &self,
        window: ViewWindow,
        margin: f64,
        pass: Pass,
        mut key: impl FnMut(&ProcessRef<'_>) -> K,
    ) -> Bounds<K> {
        let slots = observe::table_parts(self.runtime) * observe::TABLE_PART_SLOTS;
        if slots <= SMALL {
            return Bounds { upper: None, lower: None };
        }
        let mut sample: Vec<SortPosition<K>> = Vec::with_capacity(slots / STRIDE as usize);
        let salt = self.now_ms.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ margin.to_bits();
        self.in_turns(slots / STRIDE as usize, 1024, |block| {
            // Pick a different slot of each block every time: process patterns often repeat at a power of two.
            let pick = (block as u64 ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - STRIDE.ilog2());
            let slot = (block as u64 * STRIDE + pick) as u32;
            if let Some(seen) = observe::process_in_slot(self.runtime, slot).filter(|seen| self.passes(seen, pass)) {
                sample.push((key(&seen), Reverse(slot)));
            }
        })
        .await;
        sample.sort_unstable_by(|a, b| b.cmp(a));
        let about = sample.len() as u64 * STRIDE;
        let (from, to) = clamp(window, about);
        let deviation = |place: u64| margin * ((STRIDE * (place + 4 * STRIDE)) as f64).sqrt();
        let at_the_end = window.offset as f64 > about as f64 + deviation(about);
        // Measure from the end of the table at which the window is known.
        let spread = |place: u64| deviation(if at_the_end { about - place } else { place }) as u64;
        let upper = from.checked_sub(KEPT + spread(from)).and_then(|place| sample.get((place / STRIDE) as usize));
        let lower = sample.get(((to + KEPT + spread(to)) / STRIDE) as usize);
        Bounds { upper: upper.cloned(), lower: lower.cloned() }
    }

    /// Reads every process.
    async fn collect<K: Ord>(
        &self,
        bounds: &Bounds<K>,
        pass: Pass,
        mut key: impl FnMut(&ProcessRef<'_>) -> K,
    ) -> Found<K> {
        let mut found = Found { window: ViewWindow::default(), rows: Vec::new(), above: 0, total: 0, matched: 0 };
        self.in_turns(observe::table_parts(self.runtime), PARTS_PER_TURN, |part| {
            if self.filter.is_empty() {
                self.collect_all(part, bounds, &mut found, &mut key);
            } else {
                self.collect_filtered((part, pass), bounds, &mut found, &mut key);
            }
        })
        .await;
        found
    }

    /// The loop that a million processes go through once a second: as much as possible is hoisted out of it.
    #[inline(never)]
    fn collect_all<K: Ord>(
        &self,
        part: usize,
        bounds: &Bounds<K>,
        found: &mut Found<K>,
        key: &mut impl FnMut(&ProcessRef<'_>) -> K,
    ) {
        let (mut total, mut above) = (0, 0);
        observe::for_each_process(self.runtime, part, |seen| {
            total += 1;
            let place = (key(&seen), Reverse(seen.slot()));
            if bounds.lower.as_ref().is_none_or(|lower| place >= *lower) {
                if bounds.upper.as_ref().is_some_and(|upper| place > *upper) {
                    above += 1;
                } else {
                    found.rows.push((place, seen.generation()));
                }
            }
        });
        found.total += total;
        found.matched += total;
        found.above += above;
    }

    fn collect_filtered<K: Ord>(
        &self,
        (part, pass): (usize, Pass),
        bounds: &Bounds<K>,
        found: &mut Found<K>,
        key: &mut impl FnMut(&ProcessRef<'_>) -> K,
    ) {
        observe::for_each_process(self.runtime, part, |seen| {
            found.total += 1;
            let early = self.all_keys.then(|| key(&seen));
            if !self.passes(&seen, pass) {
                return;
            }
            found.matched += 1;
            let place = (early.unwrap_or_else(|| key(&seen)), Reverse(seen.slot()));
            if bounds.upper.as_ref().is_some_and(|upper| place > *upper) {
                found.above += 1;
            } else if bounds.lower.as_ref().is_none_or(|lower| place >= *lower) {
                found.rows.push((place, seen.generation()));
            }
        });
    }

    /// Calls `act` for each of `0..end`, and yields to other tasks regularly.
    async fn in_turns(&self, end: usize, per_turn: usize, mut act: impl FnMut(usize)) {
        for start in (0..end).step_by(per_turn) {
            let before = thread_cpu();
            (start..end.min(start + per_turn)).for_each(&mut act);
            self.cost.set(self.cost.get() + thread_cpu_since(before));
            tokio::task::yield_now().await;
        }
    }
}

impl<K: Ord> Found<K> {
    fn holds(&self, window: ViewWindow) -> bool {
        let (from, to) = clamp(window, self.matched);
        self.above <= from && to <= self.above + self.rows.len() as u64
    }

    /// Sorts the rows around the window and discards the others.
    fn into_order(mut self, made: Instant, walk: &Walk<'_>) -> Order {
        let before = thread_cpu();
        let (from, to) = clamp(self.window, self.matched);
        let from = (from.saturating_sub(KEPT).max(self.above) - self.above) as usize;
        let to = ((to + KEPT - self.above) as usize).min(self.rows.len());
        let largest_first = |a: &(SortPosition<K>, u32), b: &(SortPosition<K>, u32)| b.0.cmp(&a.0);
        if to < self.rows.len() {
            self.rows.select_nth_unstable_by(to, largest_first);
            self.rows.truncate(to);
        }
        if from > 0 && from < to {
            self.rows.select_nth_unstable_by(from, largest_first);
        }
        let kept = &mut self.rows[from.min(to)..];
        kept.sort_unstable_by(largest_first);
        let ranked = |row: &(SortPosition<K>, u32)| Ranked { slot: row.0.1.0, generation: row.1 };
        Order {
            rows: kept.iter().map(ranked).collect(),
            first: self.above + from as u64,
            offset: self.window.offset,
            total: self.total,
            matched: self.matched,
            made,
            ranked: made,
            provisional: false,
            cost: walk.cost.get() + thread_cpu_since(before),
            still: None,
        }
    }
}
