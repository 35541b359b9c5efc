//! Simulated supervision tree: children that crash at intervals, and a supervisor with 100,000 sessions.

use rusm_protocol::{TreeBranch, TreeDetail, TreeEnd, TreeRow, TreeRows, TreeSum, TreeView};

/// Kind of a tree node.
enum NodeKind {
    /// A process that ends at a fixed interval, or never.
    Worker { dies_every_ms: Option<u64>, why: &'static str },
    /// A supervisor with listed children.
    Supervisor { strategy: &'static str, allowed: u64, period_ms: u64, children: &'static [TreeNode] },
    /// A supervisor with `count` children of one kind.
    Many { child: &'static str, count: u64 },
}

struct TreeNode {
    name: &'static str,
    kind: NodeKind,
}

const fn worker(name: &'static str) -> TreeNode {
    TreeNode { name, kind: NodeKind::Worker { dies_every_ms: None, why: "" } }
}

const fn crashing(name: &'static str, dies_every_ms: u64, why: &'static str) -> TreeNode {
    TreeNode { name, kind: NodeKind::Worker { dies_every_ms: Some(dies_every_ms), why } }
}

const fn supervisor(
    name: &'static str,
    strategy: &'static str,
    allowed: u64,
    children: &'static [TreeNode],
) -> TreeNode {
    TreeNode { name, kind: NodeKind::Supervisor { strategy, allowed, period_ms: 10_000, children } }
}

static TOP: [TreeNode; 2] = [
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
                    crashing("kv_writer", 4_100, "panic at src/kv.rs:7:5: disk full"),
                    worker("kv_index"),
                    crashing("compactor", 19_000, "timeout: no answer from kv_writer in 5 s"),
                ],
            ),
            supervisor(
                "topics",
                "one_for_one",
                10,
                &[worker("orders"), worker("prices"), crashing("audit", 3_300, "killed")],
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
            TreeNode { name: "sessions", kind: NodeKind::Many { child: "ws_session", count: 100_000 } },
            crashing("limiter", 61_000, "normal"),
        ],
    ),
];

/// Delay before a child is restarted.
const BACK_OFF_MS: u64 = 1_200;

/// Returns the rows in the window that a view requests.
pub(super) fn rows(view: &TreeView, seq: u64, now_ms: u64) -> TreeRows {
    let (from, to) = (view.window.offset, view.window.offset.saturating_add(view.window.len.into()));
    let mut walk = Walk { view, now_ms, from, to, position: 0, rows: Vec::new(), selected: None };
    for (at, node) in TOP.iter().enumerate() {
        walk.node(node, &format!("<0.{}.1>", 12 + at), 0, None, u64::from(at + 1 < TOP.len()), at as u64);
    }
    TreeRows {
        id: view.id,
        seq,
        top: TOP.len() as u64,
        total: walk.position,
        offset: from.min(walk.position),
        at_ms: now_ms,
        cost_us: 38.0,
        degraded: None,
        rows: walk.rows,
        selected: walk.selected.map(Box::new),
    }
}

/// State of a walk over the rows of the tree, from top to bottom.
struct Walk<'a> {
    view: &'a TreeView,
    now_ms: u64,
    /// Position of the first row in the window.
    from: u64,
    /// Position after the last row in the window.
    to: u64,
    /// Position of the next row.
    position: u64,
    rows: Vec<TreeRow>,
    selected: Option<TreeDetail>,
}

impl Walk<'_> {
    /// Visits a node and, if the view has opened it, its children.
    ///
    /// `above` is the position of its supervisor's row. Bit `n` of `rails` is set if siblings follow at depth `n`; the
    /// observer draws a line there. `slot` makes its pid unique.
    fn node(&mut self, node: &TreeNode, path: &str, depth: u32, above: Option<u64>, rails: u64, slot: u64) {
        let slot = 12 + slot;
        let open = self.view.open.iter().any(|open| open == path);
        let mut row =
            TreeRow { path: path.to_owned(), depth, above, rails, name: node.name.to_owned(), ..TreeRow::default() };
        "running".clone_into(&mut row.state);
        let mut ends = Vec::new();
        row.restart = (depth > 0).then(|| "permanent".to_owned());
        match &node.kind {
            NodeKind::Worker { dies_every_ms, why } => {
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
            NodeKind::Supervisor { .. } | NodeKind::Many { .. } => {
                row.pid = Some(format!("<0.{slot}.1>"));
                row.branch = Some(self.branch(&node.kind, open));
            }
        }
        row.sum = (self.view.sums && row.pid.is_some()).then(|| sum(node, self.now_ms));
        if self.view.selected.as_deref() == Some(path) {
            let shutdown = (depth > 0).then(|| if row.branch.is_some() { "infinity" } else { "5000" }.to_owned());
            self.selected = Some(TreeDetail { row: row.clone(), shutdown, ends, ..TreeDetail::default() });
        }
        if (self.from..self.to).contains(&self.position) {
            self.rows.push(row);
        }
        let position = self.position;
        self.position += 1;
        if open {
            self.children(&node.kind, path, depth + 1, position, rails, slot);
        }
    }

    fn children(&mut self, kind: &NodeKind, path: &str, depth: u32, above: u64, rails: u64, slot: u64) {
        match kind {
            NodeKind::Worker { .. } => {}
            NodeKind::Supervisor { children, .. } => {
                for (at, node) in children.iter().enumerate() {
                    let rails = rails | u64::from(at + 1 < children.len()) << depth;
                    self.node(node, &format!("{path}/{at}"), depth, Some(above), rails, slot * 7 + at as u64);
                }
            }
            NodeKind::Many { child, count } => {
                // Visits only the children in the window: there are too many to visit all.
                let (first, last) = (self.from.max(self.position), self.to.min(self.position + count));
                let (begin, end) = (self.position, self.position + count);
                for position in first..last {
                    self.position = position;
                    let rails = rails | u64::from(position + 1 < end) << depth;
                    let at = position - begin;
                    self.node(&worker(child), &format!("{path}/{at}"), depth, Some(above), rails, 5_000 + at);
                }
                self.position = end;
            }
        }
    }

    fn branch(&self, kind: &NodeKind, open: bool) -> TreeBranch {
        let NodeKind::Supervisor { strategy, allowed, period_ms, children } = kind else {
            let running = if let NodeKind::Many { count, .. } = kind { *count } else { 0 };
            let strategy = "simple_one_for_one".to_owned();
            return TreeBranch { open, strategy, allowed: 100, period_ms: 1_000, running, ..TreeBranch::default() };
        };
        let died = |before_ms: u64| -> u64 {
            let of = |node: &TreeNode| match node.kind {
                NodeKind::Worker { dies_every_ms: Some(every), .. } => before_ms / every,
                _ => 0,
            };
            children.iter().map(of).sum()
        };
        let waits = |node: &&TreeNode| {
            matches!(node.kind, NodeKind::Worker { dies_every_ms: Some(every), .. }
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

/// Returns the sum of a node and of all nodes below it.
fn sum(node: &TreeNode, now_ms: u64) -> TreeSum {
    let own = |cpu_pct: f64, bytes: u64| TreeSum { cpu_pct: Some(cpu_pct), memory_bytes: bytes, processes: 1 };
    let add = |sum: TreeSum, one: TreeSum| TreeSum {
        cpu_pct: sum.cpu_pct.zip(one.cpu_pct).map(|(sum, one)| sum + one),
        memory_bytes: sum.memory_bytes + one.memory_bytes,
        processes: sum.processes + one.processes,
    };
    match &node.kind {
        NodeKind::Worker { .. } => {
            let letters: u64 = node.name.bytes().map(u64::from).sum();
            let wave = ((now_ms / 500 + letters) % 7) as f64 / 20.0;
            own((letters % 29) as f64 / 10.0 + wave, 4_096 + letters * 97)
        }
        NodeKind::Supervisor { children, .. } => {
            children.iter().map(|child| sum(child, now_ms)).fold(own(0.0, 2_048), add)
        }
        NodeKind::Many { child, count } => {
            let one = sum(&worker(child), now_ms);
            let many = TreeSum {
                cpu_pct: one.cpu_pct.map(|cpu_pct| cpu_pct * 6.0),
                memory_bytes: one.memory_bytes / 16 * count,
                processes: *count,
            };
            add(own(0.0, 2_048), many)
        }
    }
}
