//! What processes wait for: replies, room in mailboxes, readers of streams, subscribers of topics, commits.
//!
//! ```text
//!   monitors of calls, by caller ────────▶ Reply       senders that wait at a mailbox ──▶ Room
//!   rings with a blocked writer ─────────▶ Reader      publishers that wait at a topic ─▶ Subscriber
//!   flag of the last poll ───────────────▶ Store
//! ```
//!
//! Nothing is recorded for it: each wait is derived, when an observer looks, from what the waiting process has left
//! anyway so that it can be woken. A wait that begins or ends during the look may be missed or listed once more.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use crate::links::registry::SideTables;
use crate::mailbox::gate::Phase;
use crate::observe::processes::{ProcessRef, for_each_process, process_ref};
use crate::process::header::{HAS_WAITING_SENDERS, WAIT_CALL, WAIT_MESSAGE, WAIT_RECEIVE, WAIT_SEND, WAIT_STORE};
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::process::waker;
use crate::runtime::handle::Handle;

/// Maximum number of callees that are listed for one process.
const CALLEES_MAX: usize = 16;
/// Maximum number of waiting processes that are listed for one mailbox or one topic.
const WAITING_MAX: usize = 256;

/// What a process waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// The reply of a process to a call, its start, or its end.
    Reply(Pid),
    /// Room in the mailbox of a process.
    Room(Pid),
    /// A reader of a stream, which is full.
    Reader {
        /// Number of the stream.
        stream: u64,
        /// Label of the stream.
        label: Option<Arc<str>>,
        /// Process that reads; `None` for a thread, and for a reader that has not read yet.
        reader: Option<Pid>,
    },
    /// The slowest receiver of a topic, which is full.
    Subscriber {
        /// Name of the topic.
        topic: Arc<str>,
        /// Process that holds up the topic, if it is known.
        slowest: Option<Pid>,
    },
    /// A commit of a store.
    Store,
}

impl WaitTarget {
    /// Returns the process that is waited for, if there is one.
    pub const fn pid(&self) -> Option<Pid> {
        match self {
            Self::Reply(pid) | Self::Room(pid) => Some(*pid),
            Self::Reader { reader: pid, .. } | Self::Subscriber { slowest: pid, .. } => *pid,
            Self::Store => None,
        }
    }

    /// Returns the word for the kind of wait.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Reply(_) => "call",
            Self::Room(_) => "full",
            Self::Reader { .. } => "stream",
            Self::Subscriber { .. } => "topic",
            Self::Store => "store",
        }
    }
}

/// A process that waits.
///
/// ```
/// # use rusm_runtime as rusm;
/// # use std::time::Duration;
/// use rusm::observe::{self, WaitTarget};
/// use rusm::{Config, Runtime};
///
/// let runtime = Runtime::start(Config::default())?;
/// let silent = runtime.spawn(|_| std::future::pending::<()>())?;
/// let caller = runtime.spawn(move |ctx| async move {
///     drop(ctx.call::<_, u32>(silent, "how many?", Duration::from_secs(60)).await);
/// })?;
/// let wait = loop {
///     if let Some(wait) = observe::waits_of(&runtime, caller).pop() {
///         break wait;
///     }
/// };
/// assert_eq!((wait.waiter, wait.target), (caller, WaitTarget::Reply(silent)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The process.
    pub waiter: Pid,
    /// What it waits for.
    pub target: WaitTarget,
    /// Number of polls of the process. If it is the same at two looks, the process has waited all the time in between.
    pub polls: u64,
    /// True if another event may end the wait as well: any message, or a timer inside the process.
    pub may_continue: bool,
}

/// Adds the waits that are found at the processes in one part of the table, until there are `limit`. Returns the number
/// of waiting processes found, listed or not.
pub fn waits_of_part(runtime: &Handle, part: usize, limit: usize, found: &mut Vec<Wait>) -> u64 {
    let mut count = 0;
    for_each_process(runtime, part, |seen| {
        let (wait, flags) = (seen.header().wait.load(Relaxed), seen.header().flags.load(Relaxed));
        if wait & (WAIT_CALL | WAIT_STORE) != 0 {
            count += own_waits(&seen, wait, limit, found);
        }
        if flags & HAS_WAITING_SENDERS != 0 {
            let senders = SideTables::waiting_senders(seen.table_slot(), seen.pid(), WAITING_MAX);
            count += at_target(runtime, &senders, limit, found, || WaitTarget::Room(seen.pid()));
        }
    });
    count
}

/// Adds the waits for readers of streams and for subscribers of topics, until there are `limit`. Returns the number of
/// waiting processes found, listed or not.
pub fn waits_on_buffers(runtime: &Handle, limit: usize, found: &mut Vec<Wait>) -> u64 {
    let mut count = 0;
    for ring in runtime.shared.streams.views(0) {
        let (Some(writer), Some(reader)) = (ring.writer, ring.waits_for) else { continue };
        let Some(slot) = process_ref(runtime, writer).map(|seen| seen.table_slot()) else { continue };
        let target = || WaitTarget::Reader { stream: ring.id, label: ring.label.clone(), reader: reader.pid };
        count += blocked(slot, limit, found, &target);
    }
    for (topic, publishers) in runtime.shared.topics.with_waiting_publishers(WAITING_MAX) {
        let view = topic.view(1);
        let behind = |at: usize| view.subscriptions[at].backlog + view.subscriptions[at].outstanding;
        let slowest = (0..view.subscriptions.len()).max_by_key(|at| behind(*at));
        let slowest = slowest.and_then(|at| view.subscriptions[at].slowest);
        let target = || WaitTarget::Subscriber { topic: Arc::clone(&view.name), slowest };
        count += at_target(runtime, &publishers, limit, found, target);
    }
    count
}

/// Returns what a process waits for, as far as the process itself shows it: replies and commits.
pub fn waits_of(runtime: &Handle, pid: Pid) -> Vec<Wait> {
    let mut found = Vec::new();
    if let Some(seen) = process_ref(runtime, pid) {
        own_waits(&seen, seen.header().wait.load(Relaxed), CALLEES_MAX, &mut found);
    }
    found
}

fn own_waits(seen: &ProcessRef<'_>, wait: u8, limit: usize, found: &mut Vec<Wait>) -> u64 {
    if seen.header().gate.phase() != Phase::Parked || wait & (WAIT_CALL | WAIT_STORE) == 0 {
        return 0;
    }
    let mut add = |target| {
        if found.len() < limit {
            let may_continue = wait & WAIT_RECEIVE != 0;
            found.push(Wait { waiter: seen.pid(), target, polls: seen.header().polls.load(Relaxed), may_continue });
        }
    };
    if wait & WAIT_CALL != 0 {
        let callees = SideTables::callees(seen.table_slot(), seen.pid(), CALLEES_MAX);
        for callee in callees {
            add(WaitTarget::Reply(callee));
        }
    }
    if wait & WAIT_STORE != 0 {
        add(WaitTarget::Store);
    }
    1
}

/// Adds the processes of this runtime among `wakers` that still wait for the other side of a buffer.
fn at_target(
    runtime: &Handle,
    wakers: &[Waker],
    limit: usize,
    found: &mut Vec<Wait>,
    target: impl Fn() -> WaitTarget,
) -> u64 {
    // A sender that waits inside a combinator has another waker, as has a thread outside: neither is recognised.
    let slots = wakers.iter().filter_map(waker::process_of);
    let own = slots.filter(|slot| std::ptr::eq(slot.shared(), Arc::as_ptr(&runtime.shared)));
    own.map(|slot| blocked(slot, limit, found, &target)).sum()
}

/// Adds the process in `slot` if it waits for the other side of a buffer. Returns the number of processes that do.
fn blocked(slot: Slot, limit: usize, found: &mut Vec<Wait>, target: &impl Fn() -> WaitTarget) -> u64 {
    let header = slot.header();
    let wait = header.wait.load(Relaxed);
    // A sender that has ended since may have left its waker behind.
    if header.gate.phase() != Phase::Parked || wait & WAIT_SEND == 0 {
        return 0;
    }
    if found.len() < limit {
        let polls = header.polls.load(Relaxed);
        found.push(Wait { waiter: slot.pid(), target: target(), polls, may_continue: wait & WAIT_MESSAGE != 0 });
    }
    1
}
