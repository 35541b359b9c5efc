//! The graph of waits as an indented list: each root cause, and below it the processes that wait for it.
//!
//! ```text
//!   waits: a ▶ c, b ▶ c, c ▶ d          rows: d  3 waiters
//!                                              c  2 waiters
//!                                                a
//!                                                b
//! ```
//!
//! A process that waits for several others is listed once, below the first of them. A cycle has no root; its row with
//! the lowest pid takes that place. Waits that another event may end as well make no cycle.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use rusm_runtime::Pid;
use rusm_runtime::observe::{Wait, WaitTarget};

/// A wait, and the time since which it is known.
#[derive(Clone, Debug)]
pub(crate) struct KnownWait {
    pub(crate) wait: Wait,
    pub(crate) since: Duration,
}

/// The target of the wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Subject {
    Process(Pid),
    /// A stream or a topic without a known process, or a store.
    Resource(String),
}

impl Subject {
    fn of(target: &WaitTarget) -> Self {
        target.pid().map_or_else(|| Self::Resource(resource(target)), Self::Process)
    }
}

/// Names what is waited for, if it is more than a process.
pub(crate) fn resource(target: &WaitTarget) -> String {
    match target {
        WaitTarget::Reply(_) | WaitTarget::Room(_) => String::new(),
        WaitTarget::Reader { stream, label: Some(label), .. } => format!("stream {stream} {label}"),
        WaitTarget::Reader { stream, .. } => format!("stream {stream}"),
        WaitTarget::Subscriber { topic, .. } => format!("topic {topic}"),
        WaitTarget::Store => "commit of a store".to_owned(),
    }
}

/// One row of the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GraphRow {
    pub(crate) depth: u32,
    pub(crate) subject: Subject,
    /// Wait of this row for the row above it; `None` for a root cause.
    pub(crate) wait: Option<WaitTarget>,
    /// Time since which the wait is known.
    pub(crate) since: Option<Duration>,
    /// Number of processes below this row: they wait for it, directly or through others. A process that waits for several
    /// counts once.
    pub(crate) waiters: u64,
    /// Number of processes in the cycle that this row is part of; 0 outside of the cycles found.
    pub(crate) cycle: u32,
}

/// A cycle of waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// The processes, each of which waits for the next one, and the last for the first. The first has the lowest pid.
    pub(crate) pids: Vec<Pid>,
    /// Time since which all of the waits are known.
    pub(crate) since: Duration,
}

/// Builds the list and finds the cycles.
pub(crate) fn build(waits: &[KnownWait]) -> (Vec<GraphRow>, Vec<Cycle>) {
    let graph = Graph::of(waits);
    let cycles = graph.cycles();
    (graph.rows(&cycles), cycles)
}

/// The waits by index: `edges[i]` belongs to `waits[i]`.
struct Graph<'a> {
    waits: &'a [KnownWait],
    subjects: Vec<Subject>,
    /// Waiter and subject of each wait.
    edges: Vec<(usize, usize)>,
    /// Indices of the waits of each subject, and of the waits for it.
    outgoing: Vec<Vec<usize>>,
    incoming: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn of(waits: &'a [KnownWait]) -> Self {
        let mut known = HashMap::new();
        let mut subjects = Vec::new();
        let mut index = |subject: Subject| {
            *known.entry(subject.clone()).or_insert_with(|| {
                subjects.push(subject);
                subjects.len() - 1
            })
        };
        let edges: Vec<(usize, usize)> = waits
            .iter()
            .map(|KnownWait { wait, .. }| (index(Subject::Process(wait.waiter)), index(Subject::of(&wait.target))))
            .collect();
        let (mut outgoing, mut incoming) = (vec![Vec::new(); subjects.len()], vec![Vec::new(); subjects.len()]);
        for (at, (waiter, subject)) in edges.iter().enumerate() {
            outgoing[*waiter].push(at);
            incoming[*subject].push(at);
        }
        Self { waits, subjects, edges, outgoing, incoming }
    }

    /// Finds cycles: at least one in each set of subjects that wait for each other. Every subject is visited once, so a
    /// subject that is only part of a second cycle of its set may be missed.
    fn cycles(&self) -> Vec<Cycle> {
        const NEW: usize = 0;
        const DONE: usize = usize::MAX;
        let mut cycles = Vec::new();
        // Position on the current path, from 1.
        let mut path_position = vec![NEW; self.subjects.len()];
        for start in 0..self.subjects.len() {
            // The path: a subject, the number of its waits that were followed, and the wait by which it was reached.
            let mut path: Vec<(usize, usize, usize)> = Vec::new();
            if path_position[start] == NEW {
                path_position[start] = 1;
                path.push((start, 0, usize::MAX));
            }
            while let Some((at, followed, _)) = path.last_mut() {
                let Some(wait) = self.outgoing[*at].get(*followed).copied() else {
                    path_position[*at] = DONE;
                    path.pop();
                    continue;
                };
                *followed += 1;
                let next = self.edges[wait].1;
                if self.waits[wait].wait.may_continue {
                    continue;
                }
                if path_position[next] == NEW {
                    path_position[next] = path.len() + 1;
                    path.push((next, 0, wait));
                } else if path_position[next] != DONE {
                    let from = path_position[next] - 1;
                    let waits = path[from + 1..].iter().map(|(_, _, wait)| *wait).chain([wait]);
                    cycles.extend(self.cycle(path[from..].iter().map(|(at, _, _)| *at), waits));
                }
            }
        }
        cycles.sort_by_key(|cycle| (cycle.since, cycle.pids[0]));
        cycles
    }

    fn cycle(&self, members: impl Iterator<Item = usize>, waits: impl Iterator<Item = usize>) -> Option<Cycle> {
        let mut pids: Vec<Pid> = members
            .filter_map(|at| match self.subjects[at] {
                Subject::Process(pid) => Some(pid),
                Subject::Resource(_) => None,
            })
            .collect();
        let lowest = pids.iter().enumerate().min_by_key(|(_, pid)| **pid)?.0;
        pids.rotate_left(lowest);
        let since = waits.map(|wait| self.waits[wait].since).max()?;
        Some(Cycle { pids, since })
    }

    fn rows(&self, cycles: &[Cycle]) -> Vec<GraphRow> {
        let mut sizes: HashMap<Pid, u32> = HashMap::new();
        for cycle in cycles {
            for pid in &cycle.pids {
                sizes.entry(*pid).or_insert(cycle.pids.len() as u32);
            }
        }
        let index: HashMap<&Subject, usize> =
            self.subjects.iter().enumerate().map(|(at, subject)| (subject, at)).collect();
        let heads = cycles.iter().filter_map(|cycle| index.get(&Subject::Process(cycle.pids[0])).copied());
        let causes = (0..self.subjects.len()).filter(|at| self.outgoing[*at].is_empty());
        // Cycles of waits that may continue are neither; their members come last.
        let starts: Vec<usize> = heads.chain(causes).chain(0..self.subjects.len()).collect();
        let mut is_listed = vec![false; self.subjects.len()];
        let mut trees: Vec<Vec<GraphRow>> = Vec::new();
        for start in starts {
            if !is_listed[start] {
                trees.push(self.tree(start, &mut is_listed, &sizes));
            }
        }
        let oldest = |tree: &Vec<GraphRow>| tree.iter().filter_map(|row| row.since).min();
        trees.sort_by_key(|tree| (tree[0].cycle == 0, Reverse(tree[0].waiters), oldest(tree), tree[0].subject.clone()));
        trees.into_iter().flatten().collect()
    }

    /// Lists a subject and all that wait for it, the oldest waits first.
    fn tree(&self, start: usize, is_listed: &mut [bool], sizes: &HashMap<Pid, u32>) -> Vec<GraphRow> {
        let mut rows: Vec<GraphRow> = Vec::new();
        let mut open = vec![(start, 0, None)];
        is_listed[start] = true;
        while let Some((at, depth, by)) = open.pop() {
            let by: Option<usize> = by;
            let subject = self.subjects[at].clone();
            let cycle = match &subject {
                Subject::Process(pid) => sizes.get(pid).copied().unwrap_or(0),
                Subject::Resource(_) => 0,
            };
            let wait = by.map(|wait| self.waits[wait].wait.target.clone());
            rows.push(GraphRow {
                depth,
                subject,
                wait,
                since: by.map(|wait| self.waits[wait].since),
                waiters: 0,
                cycle,
            });
            let mut waiting = self.incoming[at].clone();
            waiting.sort_by_key(|wait| Reverse((self.waits[*wait].since, self.waits[*wait].wait.waiter)));
            for wait in waiting {
                let waiter = self.edges[wait].0;
                if !std::mem::replace(&mut is_listed[waiter], true) {
                    open.push((waiter, depth + 1, Some(wait)));
                }
            }
        }
        count_waiters(&mut rows);
        rows
    }
}

/// Counts the rows below each row of a list in which a row follows the one that it is below of.
fn count_waiters(rows: &mut [GraphRow]) {
    let mut above: Vec<usize> = Vec::new();
    for at in 0..rows.len() {
        above.truncate(rows[at].depth as usize);
        for row in &above {
            rows[*row].waiters += 1;
        }
        above.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(slot: u32) -> Pid {
        Pid::local(slot, 1)
    }

    fn wait(waiter: u32, target: WaitTarget, since: u64) -> KnownWait {
        let wait = Wait { waiter: pid(waiter), target, polls: 1, may_continue: false };
        KnownWait { wait, since: Duration::from_secs(since) }
    }

    fn call(waiter: u32, callee: u32) -> KnownWait {
        wait(waiter, WaitTarget::Reply(pid(callee)), u64::from(waiter))
    }

    /// Draws the rows: two blanks for each level, the slot or the resource, waiters, and `!` with the size of a cycle.
    fn drawn(waits: &[KnownWait]) -> Vec<String> {
        let draw = |row: &GraphRow| {
            let subject = match &row.subject {
                Subject::Process(pid) => pid.slot().to_string(),
                Subject::Resource(name) => name.clone(),
            };
            let word = row.wait.as_ref().map_or("", WaitTarget::word);
            let cycle = if row.cycle > 0 { format!(" !{}", row.cycle) } else { String::new() };
            format!("{}{subject} {word}{}{cycle}", "  ".repeat(row.depth as usize), row.waiters)
        };
        build(waits).0.iter().map(draw).collect()
    }

    #[test]
    fn the_root_cause_with_the_most_waiters_comes_first_and_the_oldest_wait_below_it() {
        let waits = [
            call(1, 3),
            call(2, 3),
            call(3, 4),
            wait(9, WaitTarget::Room(pid(8)), 1),
            wait(7, WaitTarget::Store, 1),
            wait(6, WaitTarget::Subscriber { topic: "orders".into(), slowest: None }, 1),
        ];

        let expected = [
            "4 3",
            "  3 call2",
            "    1 call0",
            "    2 call0",
            "8 1",
            "  9 full0",
            "commit of a store 1",
            "  7 store0",
            "topic orders 1",
            "  6 topic0",
        ];
        assert_eq!(drawn(&waits), expected);
    }

    #[test]
    fn cycles_of_two_and_three_are_found_once_each_and_marked() {
        let waits = [call(1, 2), call(2, 1), call(5, 6), call(6, 7), call(7, 5), call(9, 6)];

        let (_, cycles) = build(&waits);

        let cycle = |slots: &[u32], since| Cycle {
            pids: slots.iter().map(|slot| pid(*slot)).collect(),
            since: Duration::from_secs(since),
        };
        assert_eq!(cycles, [cycle(&[1, 2], 2), cycle(&[5, 6, 7], 7)]);
        assert_eq!(
            drawn(&waits),
            ["5 3 !3", "  7 call2 !3", "    6 call1 !3", "      9 call0", "1 1 !2", "  2 call0 !2"]
        );
    }

    #[test]
    fn a_cycle_that_another_event_may_end_is_listed_and_not_reported() {
        let mut waits = vec![call(1, 2), call(2, 1)];
        waits[0].wait.may_continue = true;

        let (rows, cycles) = build(&waits);

        assert_eq!((rows.len(), cycles), (2, vec![]));
        assert!(rows.iter().all(|row| row.cycle == 0));
    }

    #[test]
    fn a_process_that_waits_for_several_is_listed_once_and_a_call_to_itself_is_a_cycle() {
        assert_eq!(drawn(&[call(1, 2), call(1, 3)]), ["2 1", "  1 call0", "3 0"]);
        assert_eq!(build(&[call(1, 1)]).1.len(), 1);
    }

    #[test]
    fn every_waiting_process_is_listed_exactly_once_in_random_graphs() {
        let mut random = 7_u32;
        let mut next = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % below
        };
        for _ in 0..300 {
            let waits: Vec<KnownWait> = (0..next(40)).map(|_| call(1 + next(20), 1 + next(20))).collect();
            let (rows, cycles) = build(&waits);

            let mut listed: Vec<&Subject> = rows.iter().map(|row| &row.subject).collect();
            listed.sort();
            listed.dedup();
            assert_eq!(listed.len(), rows.len());
            let expected: std::collections::HashSet<Pid> =
                waits.iter().flat_map(|known| [Some(known.wait.waiter), known.wait.target.pid()]).flatten().collect();
            assert_eq!(rows.len(), expected.len());
            for cycle in cycles {
                for (from, to) in cycle.pids.iter().zip(cycle.pids.iter().cycle().skip(1)) {
                    let exists = |known: &KnownWait| (known.wait.waiter, known.wait.target.pid()) == (*from, Some(*to));
                    assert!(waits.iter().any(exists));
                }
            }
        }
    }

    #[test]
    fn a_chain_of_thousands_needs_no_deep_stack() {
        let waits: Vec<KnownWait> = (1..4_000).map(|at| call(at, at + 1)).collect();

        let (rows, cycles) = build(&waits);

        assert_eq!((rows.len(), rows[0].waiters, rows[3_999].depth, cycles.len()), (4_000, 3_999, 3_999, 0));
    }
}
