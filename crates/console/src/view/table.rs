//! One client's view of the process table, on two clocks: values as often as requested, their order as its cost allows.

pub(crate) mod ranking;
pub(crate) mod shared_orders;
pub(crate) mod sort_key;
pub(crate) mod window;

use std::time::{Duration, Instant};

use rusm_protocol::{Column, DETAIL_ROWS, ErrorCode, ProcessInfo, Rows, SortKey, View, ViewWindow};

use crate::budget::{OrderBudget, order_age_max, order_age_min};
use crate::encode::{self, RowEncoder};
use crate::host::HostError;
use crate::view::filter::Filter;
use crate::view::node::Node;
use crate::view::table::ranking::{Order, Ranked};
use crate::view::table::window::{check_hz, check_rows};
use rusm_runtime::{Pid, observe};

/// Tolerance after which an order older than its intended age is reported as late.
const LATE: Duration = Duration::from_millis(100);

/// A client's view of the process table.
pub(crate) struct Table {
    view: View,
    columns: Vec<Column>,
    filter: Filter,
    /// Process that fixes the position of the window.
    around: Option<Pid>,
    order: Option<Order>,
    /// True if a third of the rows that were sent have ended.
    is_stale: bool,
    /// The node's era when the order was computed.
    era: u64,
    /// Identifies the order for this client.
    epoch: u64,
    seq: u64,
    next_rows: Instant,
    encoder: RowEncoder,
}

impl Table {
    /// Creates a table for a client's first view.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: View, now: Instant) -> Result<Self, HostError> {
        let (filter, around) = check(&view)?;
        let columns = columns(&view);
        let encoder = RowEncoder::default();
        Ok(Self {
            view,
            columns,
            filter,
            around,
            order: None,
            is_stale: false,
            era: 0,
            epoch: 0,
            seq: 0,
            next_rows: now,
            encoder,
        })
    }

    /// Creates a table of the first rows, for a client that enabled detail and does not support views.
    pub(crate) fn legacy(now: Instant) -> Result<Self, HostError> {
        let sort = SortKey { key: Column::Reds, desc: true };
        Self::new(View { sort, window: ViewWindow { offset: 0, len: DETAIL_ROWS }, ..View::default() }, now)
    }

    /// Shows another view. Scrolling within the kept rows needs no new order.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client, and the old view stays.
    pub(crate) fn show(&mut self, mut view: View, now: Instant) -> Result<(), HostError> {
        let (filter, around) = check(&view)?;
        let same_order = view.sort == self.view.sort && filter == self.filter && !view.reorder;
        let place = around.zip(self.order.as_ref()).map(|(pid, order)| order.around(pid, view.window.len));
        match place {
            Some(Some(offset)) => view.window.offset = offset,
            Some(None) => self.order = None,
            None => {}
        }
        if !same_order || self.order.as_ref().is_some_and(|order| order.window(view.window).is_none()) {
            self.order = None;
        }
        self.columns = columns(&view);
        (self.filter, self.around) = (filter, around);
        self.view = view;
        self.next_rows = now;
        Ok(())
    }

    /// Makes rows due at once, for example after they were turned off for a while.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.next_rows = now;
    }

    /// Returns the time at which the next rows are due.
    pub(crate) fn next_rows(&self, node: &Node, budget: &OrderBudget) -> Instant {
        let ready_at = || budget.ready_at(Instant::now());
        match &self.order {
            None => self.next_rows.max(ready_at()),
            Some(_) if self.era != node.era() => self.next_rows.min(ready_at()),
            Some(_) => self.next_rows,
        }
    }

    /// Returns the time between two refreshes of values.
    fn every(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.view.hz)
    }

    /// Returns two times: from the first one, the next rows that are sent have a new order; at the second one, rows are
    /// sent even if no values are due, because the order has become too old.
    fn next_order(&self, node: &Node, budget: &OrderBudget, now: Instant) -> (Instant, Instant) {
        let ready_at = budget.ready_at(now);
        let Some(order) = self.order.as_ref().filter(|_| self.era == node.era()) else {
            return (ready_at.max(now), ready_at.max(now));
        };
        let since = if order.provisional { order.ranked } else { order.made };
        let oldest = since + order_age_max(self.view.sort.key.is_rate(), order.provisional, order.total, order.cost);
        let with_values = order.ranked + order_age_min(self.every(), order.cost);
        let due = if self.is_stale { ready_at } else { ready_at.max(with_values.min(oldest)) };
        (due, ready_at.max(oldest))
    }

    /// Computes a new order if it is due, and returns the current one.
    async fn order(&mut self, node: &Node, budget: &OrderBudget, now: Instant) -> Option<&Order> {
        let (due, _) = self.next_order(node, budget, now);
        if due <= now {
            let era = node.era();
            if !self.order.as_mut().is_some_and(|order| order.renew(&node.runtime, now)) {
                let known = self.order.as_ref().map(|order| order.ranked);
                let order = node.rank(&self.view, &self.filter, self.around, known, budget).await;
                self.view.window.offset = order.offset;
                self.order = Some(order);
                self.epoch += 1;
            }
            self.era = era;
        }
        self.order.as_ref()
    }

    /// Returns the current rows; `None` while the order waits for its budget.
    pub(crate) async fn rows(&mut self, node: &Node, budget: &OrderBudget, now: Instant) -> Option<Rows> {
        self.order(node, budget, now).await?;
        let every = self.every();
        let (_, oldest) = self.next_order(node, budget, now);
        // If the order becomes too old between two refreshes of values, send rows with a new order at that time.
        self.next_rows = (self.next_rows + every).max(now + every / 2).min(oldest).max(now);
        let order = self.order.as_ref()?;
        let (offset, window) = order.window(self.view.window)?;
        let age = order.made.elapsed();
        let late = age > order_age_max(self.view.sort.key.is_rate(), false, 0, Duration::ZERO) + LATE;
        let cost_us = (order.cost.as_secs_f64() * 1e6).round();
        self.seq += 1;
        let sample = self.view.waits.then(|| node.newest());
        let waits = sample.as_ref().map(|sample| sample.waits.as_ref());
        let has_ended = |row: &&Ranked| {
            let seen = observe::process_in_slot(&node.runtime, row.slot);
            seen.is_none_or(|seen| seen.generation() != row.generation)
        };
        // Churn: rather than a page of ended processes, send a new order as soon as the budget allows.
        self.is_stale = window.iter().filter(has_ended).count() * 3 > window.len();
        Some(Rows {
            id: self.view.id,
            seq: self.seq,
            epoch: self.epoch,
            total: order.total,
            matched: order.matched,
            offset,
            order_age_ms: age.as_millis() as u64,
            degraded: late.then(|| format!("order takes {:.1} ms of CPU: refreshed less often", cost_us / 1e3)),
            cost_us,
            rows: self.encoder.rows(&node.runtime, window, &self.columns, waits),
            mailbox_fill_pct: if self.columns.contains(&Column::MailboxLen) {
                encode::mailbox_fill(&node.runtime, window)
            } else {
                Vec::new()
            },
            columns: self.columns.clone(),
        })
    }

    /// Returns the current rows in the legacy form.
    pub(crate) async fn process_infos(&mut self, node: &Node, budget: &OrderBudget, now: Instant) -> Vec<ProcessInfo> {
        let window = self.view.window;
        let order = self.order(node, budget, now).await.and_then(|order| order.window(window));
        order.map(|(_, rows)| encode::process_infos(&node.runtime, rows)).unwrap_or_default()
    }
}

fn columns(view: &View) -> Vec<Column> {
    if view.columns.is_empty() { Column::ALL.to_vec() } else { view.columns.clone() }
}

/// Checks the limits of a view; returns its filter and the process that it follows.
fn check(view: &View) -> Result<(Filter, Option<Pid>), HostError> {
    check_rows(view.window)?;
    check_hz(view.hz)?;
    if view.columns.len() > Column::ALL.len() {
        let (asked, all) = (view.columns.len(), Column::ALL.len());
        return Err(HostError::out_of_range(format!("{asked} columns requested, but only {all} exist")));
    }
    let around =
        view.around.as_deref().map(|pid| pid.parse::<Pid>().map_err(|error| not_a_pid(pid, &error))).transpose()?;
    let filter = Filter::parse(&view.filter).map_err(|error| HostError::out_of_range(error.to_string()))?;
    Ok((filter, around))
}

fn not_a_pid(text: &str, error: &dyn std::fmt::Display) -> HostError {
    let text: String = text.chars().take(64).collect();
    HostError { code: ErrorCode::Malformed, message: format!("around of {text:?}: {error}") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rusm_protocol::{Cell, NodeInfo};
    use tokio::sync::watch;

    use super::*;
    use crate::view::node::NodeSetup;
    use crate::{Limits, NoScenarios, Readiness, RecorderConfig};
    use rusm_runtime::observe::ProcessState;
    use rusm_runtime::{Config, ExitReason, Runtime};

    /// Starts a runtime with parked processes, and a console's state for it.
    fn node(processes: usize) -> (Runtime, Vec<Pid>, Node) {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let (_, frames) = watch::channel(Arc::default());
        let (_, stopping) = watch::channel(false);
        let setup = NodeSetup {
            host: Arc::new(NoScenarios),
            limits: Limits::default(),
            recorder: RecorderConfig::default(),
            info: NodeInfo::default(),
            tick: Duration::from_millis(50),
            readiness: Readiness::default(),
        };
        let node = Node::new(runtime.clone(), setup, frames, stopping);
        let pids: Vec<Pid> = (0..processes).map(|_| parked(&runtime)).collect();
        let waits =
            |pid: &Pid| observe::process(&runtime, *pid).is_some_and(|seen| seen.state == ProcessState::Waiting);
        until(|| pids.iter().all(waits));
        (runtime, pids, node)
    }

    fn parked(runtime: &Runtime) -> Pid {
        runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap()
    }

    fn view(key: Column, hz: f64) -> View {
        View { columns: vec![Column::Pid], sort: SortKey { key, desc: false }, hz, ..View::default() }
    }

    fn shows(rows: &Rows, pids: &[Pid]) -> bool {
        let shown = rows.rows.iter().map(|row| row[0].clone());
        shown.eq(pids.iter().map(|pid| Cell::Text(pid.to_string())))
    }

    fn until(done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_mins(2);
        while !done() {
            assert!(Instant::now() < deadline, "waited too long");
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_small_table_is_ordered_with_every_refresh_by_counters_and_by_rates() {
        for key in [Column::Pid, Column::RedsPerSec] {
            let (runtime, pids, node) = node(3);
            let mut table = Table::new(view(key, 4.0), Instant::now()).unwrap();
            let before = table.rows(&node, &node.new_budget(), Instant::now()).await.unwrap();

            runtime.exit(pids[1], ExitReason::Killed);
            until(|| runtime.process_count() == 2);
            let after = table.rows(&node, &node.new_budget(), Instant::now() + Duration::from_secs(10)).await.unwrap();

            assert!(shows(&before, &pids), "{before:?}");
            assert!(shows(&after, &[pids[0], pids[2]]), "{after:?}");
        }
    }

    #[tokio::test]
    async fn rows_that_have_ended_keep_their_place_until_the_next_order() {
        let (runtime, pids, node) = node(3);
        let start = Instant::now();
        let mut table = Table::new(view(Column::Pid, 4.0), start).unwrap();
        let before = table.rows(&node, &node.new_budget(), start).await.unwrap();

        runtime.exit(pids[1], ExitReason::Killed);
        until(|| runtime.process_count() == 2);
        let scrolled = View { columns: vec![Column::Pid, Column::State, Column::Reds], ..view(Column::Pid, 4.0) };
        table.show(scrolled, start).unwrap();
        let after = table.rows(&node, &node.new_budget(), start).await.unwrap();

        assert_eq!((before.epoch, before.matched), (after.epoch, after.matched), "nothing moves within an epoch");
        let (pid, exited) = (Cell::Text(pids[1].to_string()), Cell::Text("exited".to_owned()));
        assert_eq!(after.rows[1], [pid, exited, Cell::Empty(())]);
        assert_eq!(after.rows[2][1], Cell::Text("waiting".to_owned()));
    }

    #[tokio::test]
    async fn a_window_around_a_process_has_it_wherever_it_is() {
        let (runtime, pids, node) = node(3_000);
        let start = Instant::now();
        let around = |at: usize, key| View {
            around: Some(pids[at].to_string()),
            window: ViewWindow { offset: 0, len: 20 },
            ..view(key, 4.0)
        };
        let has = |rows: &Rows, pid: Pid| rows.rows.iter().any(|row| row[0] == Cell::Text(pid.to_string()));
        let mut table = Table::new(around(2_500, Column::Pid), start).unwrap();

        for (step, (at, key)) in
            [(2_500, Column::Pid), (7, Column::Pid), (1_500, Column::AgeMs), (2_999, Column::RedsPerSec)]
                .into_iter()
                .enumerate()
        {
            let now = start + Duration::from_secs(5 * step as u64);
            table.show(around(at, key), now).unwrap();
            let rows = table.rows(&node, &node.new_budget(), now).await.unwrap();
            assert!(has(&rows, pids[at]), "{at} by {key:?}: {}", rows.offset);
        }
        runtime.exit(pids[2_999], ExitReason::Killed);
        until(|| runtime.process_count() == 2_999);
        let rows = table.rows(&node, &node.new_budget(), start + Duration::from_mins(1)).await.unwrap();
        assert!(!has(&rows, pids[2_999]) && rows.rows.len() == 20, "a window stays although its process has ended");
        assert!(Table::new(View { around: Some("x".to_owned()), ..View::default() }, start).is_err());
    }

    #[tokio::test]
    async fn a_page_of_ended_processes_gets_a_new_order_at_once() {
        let (runtime, pids, node) = node(4);
        let start = Instant::now();
        let mut table = Table::new(view(Column::Pid, 4.0), start).unwrap();
        table.rows(&node, &node.new_budget(), start).await.unwrap();
        for pid in &pids[..2] {
            runtime.exit(*pid, ExitReason::Killed);
        }
        until(|| runtime.process_count() == 2);

        let before = table.rows(&node, &node.new_budget(), start).await.unwrap();
        let after = table.rows(&node, &node.new_budget(), start).await.unwrap();

        assert_eq!((before.epoch, after.epoch), (1, 2));
        assert!(shows(&after, &pids[2..]), "{after:?}");
    }

    #[tokio::test]
    async fn an_order_is_made_at_once_when_a_run_starts_or_ends() {
        let (runtime, mut pids, node) = node(2);
        let start = Instant::now();
        let mut table = Table::new(view(Column::Pid, 1.0), start).unwrap();
        let before = table.rows(&node, &node.new_budget(), start).await.unwrap();
        pids.push(parked(&runtime));

        let young = table.rows(&node, &node.new_budget(), start).await.unwrap();
        node.begin_era();
        let due = table.next_rows(&node, &node.new_budget());
        let after = table.rows(&node, &node.new_budget(), start).await.unwrap();

        assert_eq!((before.epoch, young.epoch), (1, 1), "no order before its time");
        assert!(due <= Instant::now(), "it does not wait for the next refresh");
        assert!(shows(&after, &pids), "{after:?}");
        assert!(table.next_rows(&node, &node.new_budget()) > start);
    }
}
