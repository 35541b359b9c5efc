//! One client's window of the supervision tree.
//!
//! ```text
//!   top ──▶ [a] ──▶ children of a, in runs between open ones ──▶ [b] ──▶ ...      rows, as in a list
//!            └─ a run outside of the window is counted, but not read
//! ```
//!
//! The cost depends on the rows in the window and on the open supervisors, not on the number of their children.

mod sums;

use std::collections::BTreeMap;
use std::ops::Range;

use rusm_protocol::{ErrorCode, ServerMessage, TREE_OPEN_MAX, TreeDetail, TreeRow, TreeRows, TreeView};

use self::sums::TreeSums;
use crate::encode::tree::{self as encode, TreePosition};
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe::{self, ChildKey};
use rusm_runtime::{Handle, Pid};

/// Maximum depth of nested supervisors in a path.
const DEPTH_MAX: usize = 60;

/// A client's view of the supervision tree.
pub(crate) struct TreeSource {
    view: TreeView,
    open: Open,
    selected: Option<(Pid, Vec<ChildKey>)>,
    sums: Option<TreeSums>,
}

/// The open supervisors.
#[derive(Debug, Default)]
struct Open(BTreeMap<Pid, Branch>);

/// A supervisor that is open, or that has an open one below it.
#[derive(Debug, Default)]
struct Branch {
    open: bool,
    under: BTreeMap<ChildKey, Self>,
}

impl TreeSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: TreeView) -> Result<Self, HostError> {
        check(&view)?;
        let mut open = Open::default();
        for path in &view.open {
            let (pid, keys) = parse(path)?;
            keys.iter()
                .fold(open.0.entry(pid).or_default(), |branch, key| branch.under.entry(*key).or_default())
                .open = true;
        }
        let selected = view.selected.as_deref().map(parse).transpose()?;
        let sums = view.sums.then(TreeSums::default);
        Ok(Self { view, open, selected, sums })
    }

    /// Keeps the sums of an earlier view of the client: they need two looks.
    pub(crate) fn continuing(mut self, before: &mut Self) -> Self {
        if self.sums.is_some() {
            self.sums = before.sums.take().or(self.sums);
        }
        self
    }
}

impl ViewSource for TreeSource {
    type Data = TreeRows;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> TreeRows {
        let runtime = &node.runtime;
        let from = self.view.window.offset;
        let mut walk =
            Walk { runtime, from, to: from.saturating_add(self.view.window.len.into()), place: 0, rows: vec![] };
        let top = walk.top(&self.open);
        let selected = self.selected.as_ref().and_then(|(pid, keys)| detail(runtime, *pid, keys));
        let (total, mut rows) = (walk.place, walk.rows);
        if let Some(sums) = &mut self.sums {
            let pid = |row: &TreeRow| row.pid.as_ref()?.parse().ok();
            let pids: Vec<Pid> = rows.iter().filter_map(pid).collect();
            let sums = sums.read(runtime, &pids);
            for row in &mut rows {
                row.sum = pid(row).and_then(|pid| sums.get(&pid).copied());
            }
        }
        let offset = from.min(total);
        TreeRows { top, total, offset, rows, selected: selected.map(Box::new), ..TreeRows::default() }
    }

    fn message(&self, found: TreeRows, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, degraded } = meta;
        ServerMessage::Tree(TreeRows { id: self.view.id, seq, at_ms, cost_us, degraded, ..found })
    }
}

fn check(view: &TreeView) -> Result<(), HostError> {
    check_rows(view.window)?;
    check_hz(view.hz)?;
    if view.open.len() > TREE_OPEN_MAX {
        let message = format!("{} open supervisors are over the limit of {TREE_OPEN_MAX}", view.open.len());
        return Err(HostError::out_of_range(message));
    }
    Ok(())
}

/// Parses `<0.12.1>/3/0`: a top supervisor, and keys of children.
fn parse(path: &str) -> Result<(Pid, Vec<ChildKey>), HostError> {
    let mut parts = path.split('/');
    let pid = parts.next().and_then(|pid| pid.parse().ok());
    let keys: Option<Vec<ChildKey>> = parts.map(|key| key.parse().ok().map(ChildKey::of)).collect();
    match (pid, keys) {
        (Some(pid), Some(keys)) if keys.len() <= DEPTH_MAX => Ok((pid, keys)),
        _ => {
            let shown: String = path.chars().take(64).collect();
            let message = format!(
                "{shown:?} is not a tree path: expected <node.slot.generation>/key/key, at most {DEPTH_MAX} keys"
            );
            Err(HostError { code: ErrorCode::Malformed, message })
        }
    }
}

/// Returns the supervisor and the key of the child with this path.
pub(crate) fn child_at(runtime: &Handle, path: &str) -> Result<(Pid, ChildKey), HostError> {
    let (top, keys) = parse(path)?;
    let unknown = |message: String| HostError { code: ErrorCode::Unknown, message };
    let Some((last, above)) = keys.split_last() else {
        return Err(unknown(format!("{top} is not a child: no supervisor could start it again")));
    };
    let gone = || unknown(format!("no child {path}: it has been removed"));
    let step = |supervisor: Pid, key: &ChildKey| observe::child(runtime, supervisor, *key)?.0.state.pid();
    let supervisor = above.iter().try_fold(top, step).ok_or_else(gone)?;
    observe::child(runtime, supervisor, *last).map(|_| (supervisor, *last)).ok_or_else(gone)
}

/// Walks the tree in the order of the list in which it is shown.
struct Walk<'a> {
    runtime: &'a Handle,
    /// Positions of the list that are needed.
    from: u64,
    to: u64,
    /// The next position.
    place: u64,
    rows: Vec<TreeRow>,
}

impl Walk<'_> {
    fn top(&mut self, open: &Open) -> u64 {
        let count = observe::top_supervisors(self.runtime, 0, 0).0;
        let is_open = |pid: &Pid| open.0.get(pid).is_some_and(|branch| branch.open);
        let mut at = 0;
        for (place, pid) in observe::top_positions(self.runtime, open.0.keys().copied().filter(is_open)) {
            // Supervisors may have started or ended since they were counted.
            if !(at..count).contains(&place) {
                continue;
            }
            self.tops(at..place + 1, count, is_open);
            at = place + 1;
            let rails = bit(at < count, 0);
            let under = TreePosition { path: pid.to_string(), depth: 1, above: Some(self.place - 1), rails };
            self.children(pid, &under, &open.0[&pid]);
        }
        self.tops(at..count, count, is_open);
        count as u64
    }

    /// Adds consecutive top supervisors; reads only those inside the window.
    fn tops(&mut self, run: Range<usize>, count: usize, is_open: impl Fn(&Pid) -> bool) {
        let Some((offset, most)) = self.wanted(&run) else { return };
        for (at, pid) in (offset..).zip(observe::top_supervisors(self.runtime, offset, most).1) {
            let position = TreePosition { path: pid.to_string(), depth: 0, above: None, rails: bit(at + 1 < count, 0) };
            self.rows.extend(encode::top(self.runtime, pid, position, is_open(&pid)));
        }
    }

    /// Counts a run of this level; returns the start and length of its part inside the window.
    fn wanted(&mut self, run: &Range<usize>) -> Option<(usize, usize)> {
        let end = self.place + run.len() as u64;
        let (first, last) = (self.place.max(self.from), end.min(self.to));
        let offset = run.start + first.saturating_sub(self.place) as usize;
        self.place = end;
        (first < last).then(|| (offset, (last - first) as usize))
    }

    /// Adds the rows below an open supervisor.
    fn children(&mut self, supervisor: Pid, under: &TreePosition, branch: &Branch) {
        let Some(report) = observe::supervisor(self.runtime, supervisor) else { return };
        let count = report.counts.total();
        let opened: Vec<(ChildKey, &Branch)> =
            branch.under.iter().filter(|(_, branch)| branch.open).map(|(key, branch)| (*key, branch)).collect();
        let keys: Vec<ChildKey> = opened.iter().map(|(key, _)| *key).collect();
        let places = observe::child_positions(self.runtime, supervisor, &keys).unwrap_or_default();
        let mut at = 0;
        for ((key, branch), place) in opened.into_iter().zip(places) {
            let Some(place) = place.filter(|place| (at..count).contains(place)) else { continue };
            self.run(supervisor, at..place + 1, count, under, branch_keys(&keys));
            at = place + 1;
            let child = observe::child(self.runtime, supervisor, key).and_then(|(child, _)| child.state.pid());
            if let Some(pid) = child {
                let rails = under.rails | bit(place + 1 < count, under.depth);
                let position = TreePosition {
                    path: format!("{}/{}", under.path, key.number()),
                    depth: under.depth + 1,
                    above: Some(self.place - 1),
                    rails,
                };
                self.children(pid, &position, branch);
            }
        }
        self.run(supervisor, at..count, count, under, branch_keys(&keys));
    }

    /// Adds consecutive children of one supervisor; reads only those inside the window.
    fn run(
        &mut self,
        supervisor: Pid,
        run: Range<usize>,
        count: usize,
        under: &TreePosition,
        is_open: impl Fn(ChildKey) -> bool,
    ) {
        let Some((offset, most)) = self.wanted(&run) else { return };
        let page = observe::children(self.runtime, supervisor, offset, most);
        for (at, child) in (offset..).zip(page.unwrap_or_default().children) {
            let position = TreePosition {
                path: format!("{}/{}", under.path, child.key.number()),
                depth: under.depth,
                above: under.above,
                rails: under.rails | bit(at + 1 < count, under.depth),
            };
            self.rows.push(encode::child(self.runtime, &child, position, is_open(child.key)));
        }
    }
}

/// Returns a function that is true for open children; `keys` must be sorted.
fn branch_keys(keys: &[ChildKey]) -> impl Fn(ChildKey) -> bool + '_ {
    |key| keys.binary_search(&key).is_ok()
}

fn bit(set: bool, depth: u32) -> u64 {
    if set { 1_u64.checked_shl(depth).unwrap_or(0) } else { 0 }
}

/// Returns one row in full, if the path exists.
fn detail(runtime: &Handle, top: Pid, keys: &[ChildKey]) -> Option<TreeDetail> {
    let mut path = top.to_string();
    let Some((last, above)) = keys.split_last() else {
        let row = encode::top(runtime, top, TreePosition { path, depth: 0, above: None, rails: 0 }, false)?;
        return Some(encode::top_detail(runtime, top, row));
    };
    let mut supervisor = top;
    for key in above {
        supervisor = observe::child(runtime, supervisor, *key)?.0.state.pid()?;
        path = format!("{path}/{}", key.number());
    }
    let (report, ends) = observe::child(runtime, supervisor, *last)?;
    let position =
        TreePosition { path: format!("{path}/{}", last.number()), depth: keys.len() as u32, above: None, rails: 0 };
    let row = encode::child(runtime, &report, position, false);
    Some(encode::child_detail(&report, &ends, row))
}
