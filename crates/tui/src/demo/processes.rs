//! Simulated processes. A million of them need no memory: the value of process `i` in a column is an increasing
//! function of a permutation of the indices. The process at any rank of any order is therefore computed instead of
//! looked up:
//! ```text
//!   rank(i, column) = (a·i + b + drift) mod N        invertible, because gcd(a, N) = 1
//! ```

use std::collections::VecDeque;

use rusm_protocol::{Cell, Column, FilterField, FilterSubject, ProcessDetail, ProcessFilter, Rows, View};

use super::guests;
use super::random::random;

/// Number of processes of the node.
pub(super) const PROCESSES: u64 = 1_000_000;

/// Time for which the order of rows stays constant.
const ORDER_MS: u64 = 1500;
/// Capacity of each mailbox.
const MAILBOX_CAPACITY: u64 = 16_384;

/// Size of the blocks within which processes change ranks. It must divide `PROCESSES`.
const BLOCK: u64 = 20;

/// Process names, with the share of processes that have each name, in 32nds.
const NAMES: [(&str, u64); 9] = [
    ("kv_writer", 1),
    ("acceptor", 1),
    ("echo_session", 6),
    ("counter", 4),
    ("pubsub_topic", 3),
    ("http_request", 5),
    ("sse_stream", 4),
    ("timer_wheel", 1),
    ("", 7),
];

/// The processes, with one permutation per column.
#[derive(Clone, Debug)]
pub(super) struct Processes {
    seed: u64,
    killed: VecDeque<String>,
    orders: [Order; Column::ALL.len()],
    /// Result of the last filter.
    matched: Option<Matched>,
}

/// An order of all processes: `rank(i) = (a·i + b) mod N`.
#[derive(Clone, Copy, Debug)]
struct Order {
    a: u64,
    b: u64,
    inverse: u64,
}

#[derive(Clone, Debug)]
struct Matched {
    filter: String,
    order: Option<(Column, u64)>,
    all: Vec<u64>,
}

impl Processes {
    pub(super) fn new(seed: u64) -> Self {
        let orders = Column::ALL.map(|column| order(seed, column));
        Self { seed, killed: VecDeque::new(), orders, matched: None }
    }

    /// Ends a process. Only the last 64 ended processes are remembered.
    pub(super) fn kill(&mut self, pid: String) {
        self.killed.push_back(pid);
        if self.killed.len() > 64 {
            self.killed.pop_front();
        }
    }

    /// Returns the process with the longest mailbox, and the length of that mailbox.
    pub(super) fn longest_mailbox(&self) -> (u64, u64) {
        let i = self.at_rank(PROCESSES - 1, Column::MailboxLen, 0);
        (i, self.mailbox(i))
    }

    /// Returns the name of a process, if it has one.
    pub(super) fn name_of(&self, i: u64) -> Option<String> {
        Some(self.name(i).to_owned()).filter(|name| !name.is_empty())
    }

    /// Returns the rank of process `i` in the order of a column, counted from the smallest.
    fn rank(&self, i: u64, column: Column, ms: u64) -> u64 {
        let order = self.orders[column as usize];
        let rank = (order.a * i + order.b) % PROCESSES;
        rank - rank % BLOCK + (rank + turns(column, ms)) % BLOCK
    }

    /// Returns the process at a rank.
    fn at_rank(&self, rank: u64, column: Column, ms: u64) -> u64 {
        let order = self.orders[column as usize];
        let rank = rank - rank % BLOCK + (rank + BLOCK - turns(column, ms)) % BLOCK;
        order.inverse * ((rank + PROCESSES - order.b) % PROCESSES) % PROCESSES
    }

    /// Returns the rank of a process in the order of a column, as a share from 0 to 1.
    fn share(&self, i: u64, column: Column, ms: u64) -> f64 {
        self.rank(i, column, ms / ORDER_MS * ORDER_MS) as f64 / PROCESSES as f64
    }

    /// Returns the rows that a view requests.
    pub(super) fn rows(&mut self, view: &View, seq: u64, ms: u64) -> Rows {
        let order_ms = ms / ORDER_MS * ORDER_MS;
        let columns = if view.columns.is_empty() { Column::ALL.to_vec() } else { view.columns.clone() };
        let (key, desc, mut window) = (view.sort.key, view.sort.desc, view.window);
        let matched = self.matching(&view.filter, key, order_ms).map(<[u64]>::to_vec);
        let total = matched.as_ref().map_or(PROCESSES, |all| all.len() as u64);
        let followed = view.around.as_deref().and_then(index).filter(|i| *i < PROCESSES);
        let rank = followed.and_then(|i| match &matched {
            Some(all) => all.iter().position(|other| *other == i).map(|at| at as u64),
            None => Some(self.rank(i, key, order_ms)),
        });
        if let Some(rank) = rank {
            let position = if desc { total - 1 - rank } else { rank };
            window.offset = position.saturating_sub(u64::from(window.len / 2));
        }
        let end = window.offset.saturating_add(window.len.into()).min(total);
        let positions = window.offset.min(end)..end;
        let at = |position: u64| {
            let rank = if desc { total - 1 - position } else { position };
            matched.as_ref().map_or_else(|| self.at_rank(rank, key, order_ms), |all| all[rank as usize])
        };
        let indices: Vec<u64> = positions.clone().map(at).collect();
        let cell = |i: u64, column: Column| match self.cell(i, column, ms) {
            Cell::Text(state) if column == Column::State && view.waits && state != "exited" => {
                Cell::Text(self.waits(i))
            }
            cell => cell,
        };
        let fill = |&i: &u64| match self.cell(i, Column::MailboxLen, ms) {
            Cell::Count(len) => (len * 100).div_ceil(MAILBOX_CAPACITY).min(100) as u8,
            _ => 0,
        };
        let mailbox_fill_pct = indices.iter().map(fill).collect();
        let rows = indices.iter().map(|&i| columns.iter().map(|&column| cell(i, column)).collect());
        Rows {
            id: view.id,
            seq,
            epoch: ms / ORDER_MS,
            total: PROCESSES,
            matched: total,
            offset: positions.start,
            order_age_ms: ms - order_ms,
            degraded: None,
            cost_us: 2_700.0,
            rows: rows.collect(),
            mailbox_fill_pct,
            columns,
        }
    }

    /// Returns the processes that match a filter, smallest first, or `None` if all match.
    fn matching(&mut self, filter: &str, key: Column, order_ms: u64) -> Option<&[u64]> {
        if filter.is_empty() {
            return None;
        }
        let mut matched = self.matched.take().filter(|matched| matched.filter == filter).unwrap_or_else(|| {
            let parsed = ProcessFilter::parse(filter).unwrap_or_default();
            let all = (0..PROCESSES).filter(|&i| parsed.matches(&Subject { all: self, i })).collect();
            Matched { filter: filter.to_owned(), order: None, all }
        });
        if matched.order != Some((key, order_ms)) {
            matched.all.sort_by_cached_key(|&i| self.rank(i, key, order_ms));
            matched.order = Some((key, order_ms));
        }
        Some(&self.matched.insert(matched).all)
    }

    fn name(&self, i: u64) -> &'static str {
        let mut part = self.rank(i, Column::Name, 0) * 32 / PROCESSES;
        for (name, share) in NAMES.iter().rev() {
            if part < *share {
                return name;
            }
            part -= share;
        }
        ""
    }

    fn state(&self, i: u64) -> &'static str {
        let is_busy = self.share(i, Column::Reds, 0) > 0.99995;
        match (random(self.seed, 50, i) * 100.0) as u64 {
            0..40 if is_busy => "running",
            40..80 if is_busy => "runnable",
            0..20 => "sleeping",
            20..30 => "io",
            _ => "waiting",
        }
    }

    /// Returns what a parked process waits for, else its state.
    fn waits(&self, i: u64) -> String {
        match (self.state(i), (random(self.seed, 51, i) * 100.0) as u64) {
            ("sleeping", _) => "timer".to_owned(),
            ("io", 0..30) => "store".to_owned(),
            ("waiting", 0..20) => format!("call {}", pid(9)),
            ("waiting", 20..25) => "topic orders".to_owned(),
            ("waiting", _) => "receive".to_owned(),
            (state, _) => state.to_owned(),
        }
    }

    fn mailbox(&self, i: u64) -> u64 {
        (self.share(i, Column::MailboxLen, 0).powi(4_000) * 14_000.0) as u64
    }

    fn cell(&self, i: u64, column: Column, ms: u64) -> Cell {
        let share = self.share(i, column, ms);
        let steep = |top: f64| top * share.powi(9_000) + share.powi(3) * 40.0;
        let noise = 1.0 + 0.03 * (random(self.seed, 60 + column as u64, i ^ (ms / 250 * 7919)) - 0.5);
        if self.killed.contains(&pid(i)) && column == Column::State {
            return Cell::Text("exited".to_owned());
        }
        match column {
            Column::Pid => Cell::Text(pid(i)),
            Column::Name if self.name(i).is_empty() => Cell::Empty(()),
            Column::Name => Cell::Text(self.name(i).to_owned()),
            Column::State => Cell::Text(self.state(i).to_owned()),
            Column::RedsPerSec => Cell::Rate((steep(912_000.0) * noise).floor()),
            Column::Reds => Cell::Count(steep(9.0e9) as u64 + ms),
            Column::BusyPct => Cell::Rate((share.powi(9_000) * 41.0 * noise * 10.0).round() / 10.0),
            Column::MemoryBytes => Cell::Count(192 + (share.powi(600) * 262_144.0) as u64),
            Column::MailboxLen => Cell::Count(self.mailbox(i)),
            Column::MailboxBytes => Cell::Count(self.mailbox(i) * 48),
            Column::Links => Cell::Count(1 + i % 3),
            Column::Monitors => Cell::Count(i % 2),
            Column::MsgsPerSec => Cell::Rate((steep(88_000.0) * noise).floor()),
            Column::ArrivalsPerSec => Cell::Rate((steep(89_000.0) * noise).floor()),
            Column::Messages => Cell::Count(steep(4.0e8) as u64 + ms / 10),
            Column::AgeMs => Cell::Count(ms + share.mul_add(8.0e6, 1_000.0) as u64),
            Column::Parent => Cell::Text(pid(i % 13)),
            column => guests::cell(self.name(i), column, i, ms),
        }
    }

    /// Returns all details of a process, unless it has been ended.
    pub(super) fn detail(&self, of: &str, ms: u64) -> Option<ProcessDetail> {
        let i = index(of).filter(|i| *i < PROCESSES && !self.killed.iter().any(|pid| pid == of))?;
        let count = |column| match self.cell(i, column, ms) {
            Cell::Count(count) => count,
            _ => 0,
        };
        let rate = |column| match self.cell(i, column, ms) {
            Cell::Rate(rate) => rate,
            _ => 0.0,
        };
        let memory_bytes = count(Column::MemoryBytes);
        Some(ProcessDetail {
            pid: of.to_owned(),
            name: self.name_of(i),
            state: self.state(i).to_owned(),
            kind: if guests::module_of(self.name(i)).is_some() { "wasm" } else { "native" }.to_owned(),
            module: guests::module_of(self.name(i)).map(|(module, _)| module.to_owned()),
            facts: guests::facts(self.name(i), i, ms),
            parent: Some(pid(i % 13)),
            age_ms: count(Column::AgeMs),
            reductions: count(Column::Reds),
            reds_per_sec: Some(rate(Column::RedsPerSec)),
            busy_ns: (count(Column::AgeMs) as f64 * rate(Column::BusyPct) * 1e4) as u64,
            busy_pct: Some(rate(Column::BusyPct)),
            mailbox_len: count(Column::MailboxLen),
            mailbox_capacity: MAILBOX_CAPACITY,
            messages: count(Column::Messages),
            msgs_per_sec: Some(rate(Column::MsgsPerSec)),
            memory_bytes,
            control_block_bytes: 192,
            future_bytes: (memory_bytes - 192) / 2,
            mailbox_bytes: (memory_bytes - 192).div_ceil(2),
            future_type: "demo::session::run::{{closure}}".to_owned(),
            ..ProcessDetail::default()
        })
    }
}

fn order(seed: u64, column: Column) -> Order {
    // These columns share an order, because an active process has high values in all of them.
    let column = match column {
        Column::Reds | Column::BusyPct | Column::MsgsPerSec | Column::ArrivalsPerSec | Column::Messages => {
            Column::RedsPerSec
        }
        other => other,
    };
    let salt = column as u64 + 100;
    let (a, b) = match column {
        Column::Pid => (1, 0),
        Column::AgeMs => (PROCESSES - 1, PROCESSES - 1),
        _ => {
            let a = 10 * (random(seed, salt, 1) * 90_000.0) as u64 + 7;
            (a, (random(seed, salt, 2) * PROCESSES as f64) as u64)
        }
    };
    Order { a, b, inverse: inverse(a) }
}

/// Returns the number of ranks by which processes have moved within their block.
fn turns(column: Column, ms: u64) -> u64 {
    if column.is_rate() { ms / ORDER_MS * 7 % BLOCK } else { 0 }
}

pub(super) fn pid(i: u64) -> String {
    format!("<0.{}.{}>", i + 1, i % 3)
}

fn index(pid: &str) -> Option<u64> {
    let slot: u64 = pid.split('.').nth(1)?.parse().ok()?;
    slot.checked_sub(1)
}

/// Returns the multiplicative inverse of `a` modulo the number of processes.
fn inverse(a: u64) -> u64 {
    let (mut old, mut new) = ((i128::from(a), 1i128), (i128::from(PROCESSES), 0i128));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old.1.rem_euclid(i128::from(PROCESSES)) as u64
}

/// A process as a filter sees it.
struct Subject<'a> {
    all: &'a Processes,
    i: u64,
}

impl FilterSubject for Subject<'_> {
    fn number(&self, field: FilterField) -> u64 {
        let value = |column| match self.all.cell(self.i, column, 0) {
            Cell::Count(count) => count,
            Cell::Rate(rate) => rate as u64,
            _ => 0,
        };
        match field {
            FilterField::Mailbox => self.all.mailbox(self.i),
            FilterField::MemoryBytes => value(Column::MemoryBytes),
            FilterField::MailboxBytes => value(Column::MailboxBytes),
            FilterField::Links => value(Column::Links),
            FilterField::Monitors => value(Column::Monitors),
            FilterField::LinearBytes => value(Column::LinearMemoryBytes),
            FilterField::Reductions => value(Column::Reds),
            FilterField::RedsPerSec => value(Column::RedsPerSec),
            FilterField::Messages => value(Column::Messages),
            FilterField::MsgsPerSec => value(Column::MsgsPerSec),
            FilterField::ArrivalsPerSec => value(Column::ArrivalsPerSec),
            FilterField::AgeMs => value(Column::AgeMs),
            FilterField::BusyMilliPct => value(Column::BusyPct) * 1_000,
            FilterField::Parent => self.i % 13 + 1,
            _ => 0,
        }
    }

    fn any_text(&self, field: FilterField, matches: &mut dyn FnMut(&str) -> bool) -> bool {
        let name = self.all.name(self.i);
        let module = guests::module_of(name).map(|(module, _)| module);
        match field {
            FilterField::Module => module.is_some_and(matches),
            FilterField::Kind => matches(if module.is_some() { "wasm" } else { "native" }),
            FilterField::Name => !name.is_empty() && matches(name),
            _ => false,
        }
    }

    fn is_in(&self, state: &str) -> bool {
        let is = self.all.state(self.i);
        is == state || [("run", "running"), ("wait", "waiting"), ("sleep", "sleeping")].contains(&(state, is))
    }

    fn pid(&self) -> (u32, u32) {
        (self.i as u32 + 1, (self.i % 3) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_leads_to_its_process_and_back() {
        let processes = Processes::new(1);
        for column in Column::ALL {
            for i in [0, 1, 499_999, PROCESSES - 1] {
                assert_eq!(processes.at_rank(processes.rank(i, column, 4_500), column, 4_500), i, "{column:?}");
            }
        }
    }

    #[test]
    fn rows_come_in_the_order_asked_for() {
        let mut processes = Processes::new(1);
        let view = View { columns: vec![Column::MailboxLen], ..View::default() };
        let view = View { sort: rusm_protocol::SortKey { key: Column::MailboxLen, desc: true }, ..view };

        let rows = processes.rows(&view, 1, 0).rows;

        let counts: Vec<u64> = rows.iter().map(|row| if let Cell::Count(n) = row[0] { n } else { 0 }).collect();
        assert!(counts.is_sorted_by(|a, b| a >= b) && counts[0] > 10_000, "{counts:?}");
    }
}
