//! Simulated supervision tree: children that crash at intervals, and a supervisor with 100,000 sessions.

use rusm_protocol::{TreeBranch, TreeDetail, TreeEnd, TreeRow, TreeRows, TreeView};

/// Kind of a tree node.
enum Kind {
    /// A process that ends at a fixed interval, or never.
    Worker { dies_every_ms: Option<u64>, why: &'static str },
    /// A supervisor with listed children.
    Supervisor { strategy: &'static str, allowed: u64, period_ms: u64, children: &'static [Node] },
    /// A supervisor with `count` children of one kind.
    Many { child: &'static str, count: u64 },
}

struct Node {
    name: &'static str,
    kind: Kind,
}

const fn worker(name: &'static str) -> Node {
    Node { name, kind: Kind::Worker { dies_every_ms: None, why: "" } }
}

const fn dying(name: &'static str, dies_every_ms: u64, why: &'static str) -> Node {
    Node { name, kind: Kind::Worker { dies_every_ms: Some(dies_every_ms), why } }
}

const fn supervisor(name: &'static str, strategy: &'static str, allowed: u64, children: &'static [Node]) -> Node {
    Node { name, kind: Kind::Supervisor { strategy, allowed, period_ms: 10_000, children } }
}

static TOP: [Node; 2] = [
    supervisor(
        "kv",
        "rest_for_one",
        5,
        &[
            supervisor(
                "store",
                "one_for_all",
                6,
                &[
                    dying("kv_writer", 4_100, "panic at src/kv.rs:7:5: disk full"),
                    worker("kv_index"),
                    dying("compactor", 19_000, "timeout: no answer from kv_writer in 5 s"),
                ],
            ),
            supervisor(
                "topics",
                "one_for_one",
                10,
                &[worker("orders"), worker("prices"), dying("audit", 3_300, "killed")],
            ),
            worker("metrics"),
        ],
    ),
    supervisor(
        "web",
        "one_for_one",
        3,
        &[
            supervisor("acceptors", "one_for_one", 20, &[worker("http"), worker("https"), worker("sse")]),
            Node { name: "sessions", kind: Kind::Many { child: "ws_session", count: 100_000 } },
            dying("limiter", 61_000, "normal"),
        ],
    ),
];

/// Delay before a child is restarted.
const BACK_OFF_MS: u64 = 1_200;

/// Returns the rows in the window that a view requests.
pub(super) fn rows(view: &TreeView, seq: u64, now_ms: u64) -> TreeRows {
    let (from, to) = (view.window.offset, view.window.offset.saturating_add(view.window.len.into()));
    let mut walk = Walk { view, now_ms, from, to, place: 0, rows: Vec::new(), selected: None };
    for (at, node) in TOP.iter().enumerate() {
        walk.node(node, &format!("<0.{}.1>", 12 + at), 0, None, u64::from(at + 1 < TOP.len()), at as u64);
    }
    TreeRows {
        id: view.id,
        seq,
        top: TOP.len() as u64,
        total: walk.place,
        offset: from.min(walk.place),
        at_ms: now_ms,
        cost_us: 38.0,
        degraded: None,
        rows: walk.rows,
        selected: walk.selected.map(Box::new),
    }
}

struct Walk<'a> {
    view: &'a TreeView,
    now_ms: u64,
    from: u64,
    to: u64,
    place: u64,
    rows: Vec<TreeRow>,
    selected: Option<TreeDetail>,
}

impl Walk<'_> {
    fn node(&mut self, node: &Node, path: &str, depth: u32, above: Option<u64>, rails: u64, slot: u64) {
        let slot = 12 + slot;
        let open = self.view.open.iter().any(|open| open == path);
        let mut row =
            TreeRow { path: path.to_owned(), depth, above, rails, name: node.name.to_owned(), ..TreeRow::default() };
        "running".clone_into(&mut row.state);
        let mut ends = Vec::new();
        row.restart = (depth > 0).then(|| "permanent".to_owned());
        match &node.kind {
            Kind::Worker { dies_every_ms, why } => {
                let died = dies_every_ms.map_or(0, |every| self.now_ms / every);
                let at_ms = |n: u64| n * dies_every_ms.unwrap_or(1);
                row.pid = Some(format!("<0.{slot}.{}>", died + 1));
                row.restarts_total = died;
                if died > 0 {
                    row.ended_at_ms = Some(at_ms(died));
                    row.reason = Some((*why).to_owned());
                    let since_ms = self.now_ms - at_ms(died);
                    if since_ms < BACK_OFF_MS {
                        (row.state, row.pid) = ("waiting".to_owned(), None);
                        row.wait_ms = Some(BACK_OFF_MS - since_ms);
                    }
                }
                ends.extend((1..=died).rev().take(8).map(|n| TreeEnd {
                    at_ms: at_ms(n),
                    pid: Some(format!("<0.{slot}.{n}>")),
                    reason: (*why).to_owned(),
                }));
            }
            Kind::Supervisor { .. } | Kind::Many { .. } => {
                row.pid = Some(format!("<0.{slot}.1>"));
                row.branch = Some(self.branch(&node.kind, open));
            }
        }
        if self.view.selected.as_deref() == Some(path) {
            let shutdown = (depth > 0).then(|| if row.branch.is_some() { "infinity" } else { "5000" }.to_owned());
            self.selected = Some(TreeDetail { row: row.clone(), shutdown, ends, ..TreeDetail::default() });
        }
        if (self.from..self.to).contains(&self.place) {
            self.rows.push(row);
        }
        let place = self.place;
        self.place += 1;
        if open {
            self.children(&node.kind, path, depth + 1, place, rails, slot);
        }
    }

    fn children(&mut self, kind: &Kind, path: &str, depth: u32, above: u64, rails: u64, slot: u64) {
        match kind {
            Kind::Worker { .. } => {}
            Kind::Supervisor { children, .. } => {
                for (at, node) in children.iter().enumerate() {
                    let rails = rails | u64::from(at + 1 < children.len()) << depth;
                    self.node(node, &format!("{path}/{at}"), depth, Some(above), rails, slot * 7 + at as u64);
                }
            }
            Kind::Many { child, count } => {
                let (first, last) = (self.from.max(self.place), self.to.min(self.place + count));
                let (begin, end) = (self.place, self.place + count);
                for place in first..last {
                    self.place = place;
                    let rails = rails | u64::from(place + 1 < end) << depth;
                    let at = place - begin;
                    self.node(&worker(child), &format!("{path}/{at}"), depth, Some(above), rails, 5_000 + at);
                }
                self.place = end;
            }
        }
    }

    fn branch(&self, kind: &Kind, open: bool) -> TreeBranch {
        let Kind::Supervisor { strategy, allowed, period_ms, children } = kind else {
            let running = if let Kind::Many { count, .. } = kind { *count } else { 0 };
            let strategy = "simple_one_for_one".to_owned();
            return TreeBranch { open, strategy, allowed: 100, period_ms: 1_000, running, ..TreeBranch::default() };
        };
        let died = |before_ms: u64| -> u64 {
            let of = |node: &Node| match node.kind {
                Kind::Worker { dies_every_ms: Some(every), .. } => before_ms / every,
                _ => 0,
            };
            children.iter().map(of).sum()
        };
        let waits = |node: &&Node| {
            matches!(node.kind, Kind::Worker { dies_every_ms: Some(every), .. }
                if self.now_ms >= every && self.now_ms % every < BACK_OFF_MS)
        };
        let waiting = children.iter().filter(waits).count() as u64;
        let restarts_total = died(self.now_ms);
        TreeBranch {
            open,
            strategy: (*strategy).to_owned(),
            used: restarts_total - died(self.now_ms.saturating_sub(*period_ms)),
            allowed: *allowed,
            period_ms: *period_ms,
            restarts_total,
            running: children.len() as u64 - waiting,
            waiting,
            ended: 0,
        }
    }
}
