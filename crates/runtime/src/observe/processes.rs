//! Views of processes: counters that are read in place, and descriptions that look up names.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::links::registry::{ProcessLinks, SideTables};
use crate::mailbox::gate::Phase;
use crate::observe::body_info::BodyInfo;
use crate::process::header::{
    HAS_SIDE_TABLE, NAMED, ProcessHeader, TRAPS, WAIT_HANDOFF, WAIT_MESSAGE, WAIT_SEND, WAIT_SLEEP,
};
use crate::process::pid::Pid;
use crate::process::side_table::{RareEntries, SideTable};
use crate::process::table::{self, CHUNK_SLOTS, CONTROL_BLOCK_BYTES, ProcessTable, Slot};
use crate::runtime::handle::Handle;

/// State of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProcessState {
    /// Inside a poll.
    Running,
    /// In a run queue.
    Runnable,
    /// Waits for a message, for room in a mailbox, or for the other side of a ring.
    Waiting,
    /// Waits for a timer.
    Sleeping,
    /// Waits for a socket, blocking code or another future.
    Io,
    /// Has ended or is ending.
    Exiting,
}

impl ProcessState {
    /// Returns the name of the state in tables and on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Waiting => "waiting",
            Self::Sleeping => "sleeping",
            Self::Io => "io",
            Self::Exiting => "exiting",
        }
    }
}

/// Returns the maximum number of live processes.
pub fn process_limit(runtime: &Handle) -> usize {
    runtime.shared.config.process_limit
}

/// Number of slots in one part of the process table.
pub const TABLE_PART_SLOTS: usize = CHUNK_SLOTS;

/// Returns the number of parts of the process table, which only grows; [`for_each_process`] reads one part.
pub fn table_parts(runtime: &Handle) -> usize {
    runtime.shared.table.chunk_count()
}

/// Calls `visit` for every process in one part of the table: at most 1,023 processes.
#[inline]
pub fn for_each_process(runtime: &Handle, part: usize, mut visit: impl FnMut(ProcessRef<'_>)) {
    let Some((first, headers)) = runtime.shared.table.headers(part) else {
        return;
    };
    for (slot, header) in (first..).zip(headers).skip(1) {
        ProcessTable::prefetch(header);
        if header.gate.phase() != Phase::Closed {
            visit(ProcessRef { slot, header });
        }
    }
}

/// Returns a view of the process in a slot; `None` if the slot is free.
#[inline]
pub fn process_in_slot(runtime: &Handle, slot: u32) -> Option<ProcessRef<'_>> {
    let (first, headers) = runtime.shared.table.headers(slot as usize / CHUNK_SLOTS)?;
    let header = headers.get((slot - first) as usize).filter(|_| slot != first)?;
    (header.gate.phase() != Phase::Closed).then_some(ProcessRef { slot, header })
}

/// Returns a view of a process; `None` if it has ended, or belongs to another node.
pub fn process_ref(runtime: &Handle, pid: Pid) -> Option<ProcessRef<'_>> {
    if pid.node() != 0 {
        return None;
    }
    process_in_slot(runtime, pid.slot()).filter(|seen| seen.generation() == pid.generation())
}

/// A live view of a process's counters; each method reads the current value.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime, observe};
///
/// let runtime = Runtime::start(Config::default())?;
/// for _ in 0..100 {
///     runtime.spawn(|_| std::future::pending::<()>())?;
/// }
/// let mut longest = None;
/// for part in 0..observe::table_parts(&runtime) {
///     observe::for_each_process(&runtime, part, |seen| {
///         longest = longest.max(Some((seen.mailbox_len(), seen.pid())));
///     });
/// }
/// assert_eq!(longest.map(|(len, _)| len), Some(0), "no process has a message");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct ProcessRef<'a> {
    slot: u32,
    header: &'a ProcessHeader,
}

impl std::fmt::Debug for ProcessRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ProcessRef({})", self.pid())
    }
}

impl ProcessRef<'_> {
    /// Returns the slot number in the process table.
    #[inline]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    pub(crate) const fn header(&self) -> &ProcessHeader {
        self.header
    }

    pub(crate) fn table_slot(&self) -> Slot {
        Slot::of(self.header)
    }

    /// Returns a number that is the same for all processes whose futures have one type.
    #[inline]
    pub fn future_id(&self) -> usize {
        self.table_slot().future_id()
    }

    /// Returns true if the process may have a label or information about its body, so that its kind is not certain to be
    /// the type of its future.
    #[inline]
    pub fn may_have_kind(&self) -> bool {
        self.header.flags.load(Relaxed) & (NAMED | HAS_SIDE_TABLE) != 0
    }

    /// Returns the parent; `None` if the process was spawned from outside.
    #[inline]
    pub fn parent(&self) -> Option<Pid> {
        self.table_slot().parent_pid()
    }

    /// Returns the generation, which distinguishes the successive processes of one slot.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.header.generation.load(Relaxed)
    }

    /// Returns the pid.
    pub fn pid(&self) -> Pid {
        Pid::local(self.slot, self.generation())
    }

    /// Returns true if exit signals arrive as messages.
    pub fn traps_exits(&self) -> bool {
        self.header.flags.load(Relaxed) & TRAPS != 0
    }

    /// Returns the state of the process.
    pub fn state(&self) -> ProcessState {
        match self.header.gate.phase() {
            Phase::Closed => ProcessState::Exiting,
            Phase::Running if self.header.wait.load(Relaxed) & WAIT_HANDOFF != 0 => ProcessState::Runnable,
            Phase::Running => ProcessState::Running,
            Phase::Runnable => ProcessState::Runnable,
            Phase::Parked => {
                let wait = self.header.wait.load(Relaxed);
                if wait & (WAIT_MESSAGE | WAIT_SEND) != 0 {
                    ProcessState::Waiting
                } else if wait & WAIT_SLEEP != 0 {
                    ProcessState::Sleeping
                } else {
                    ProcessState::Io
                }
            }
        }
    }

    /// Returns true if the last poll waited for the other side of a buffer, and not for a message.
    pub fn waits_to_send(&self) -> bool {
        self.header.wait.load(Relaxed) & (WAIT_SEND | WAIT_MESSAGE) == WAIT_SEND
    }

    /// Returns true if a poll has run for longer than the threshold.
    pub fn is_stuck(&self) -> bool {
        // Only a running process can be stuck, so most processes need no look at the list.
        self.header.gate.phase() == Phase::Running && self.table_slot().shared().stuck.lock().contains(&self.pid())
    }

    /// Returns true if the process may have a name or a label.
    #[inline]
    pub fn may_be_named(&self) -> bool {
        self.header.flags.load(Relaxed) & NAMED != 0
    }

    /// Returns the number of polls plus the number of messages received.
    #[inline]
    pub fn reductions(&self) -> u64 {
        self.header.reductions()
    }

    /// Returns the time inside polls that have ended, in nanoseconds.
    #[inline]
    pub fn busy_ns(&self) -> u64 {
        table::busy_ns(self.header)
    }

    /// Returns the number of messages received.
    #[inline]
    pub fn messages(&self) -> u64 {
        self.header.messages.load(Relaxed)
    }

    /// Returns the number of waiting messages.
    #[inline]
    pub fn mailbox_len(&self) -> u64 {
        self.header.mailbox_len()
    }

    /// Returns the maximum number of waiting messages.
    pub fn mailbox_capacity(&self) -> u64 {
        u64::from(self.header.capacity.load(Relaxed))
    }

    /// Returns the bytes of the waiting messages.
    #[inline]
    pub fn mailbox_bytes(&self) -> u64 {
        self.header.mailbox_bytes()
    }

    /// Returns the bytes of a future that is too large for the control block.
    #[inline]
    pub fn future_bytes(&self) -> u64 {
        u64::from(self.header.future_bytes.load(Relaxed))
    }

    /// Returns the bytes of the side table with links, monitors and names; 0 if the process holds none of these.
    #[inline]
    pub fn side_table_bytes(&self) -> u64 {
        let flags = self.header.flags.load(Relaxed);
        if flags & HAS_SIDE_TABLE == 0 {
            return 0;
        }
        let rare = if flags & NAMED == 0 { 0 } else { size_of::<RareEntries>() };
        (size_of::<SideTable>() + rare) as u64
    }

    /// Returns the bytes of control block, future and mailbox.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        self.header.memory_bytes()
    }

    /// Returns the bytes of a control block, including the space for a small future.
    pub const fn control_block_bytes() -> u64 {
        CONTROL_BLOCK_BYTES as u64
    }

    /// Returns the slot of the parent process; 0 if the process was spawned from outside.
    #[inline]
    pub fn parent_slot(&self) -> u32 {
        Slot::of(self.header).parent().0
    }

    /// Returns the time of the spawn, in milliseconds since the runtime started.
    #[inline]
    pub fn spawned_ms(&self) -> u64 {
        self.header.spawned_ms()
    }
}

/// Description of a process.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, Runtime, SpawnOptions, observe};
///
/// let runtime = Runtime::start(Config::default())?;
/// let options = SpawnOptions::default().label("import");
/// let pid = runtime.spawn_with(&options, |_| std::future::pending::<()>())?;
/// let report = observe::process(&runtime, pid).expect("it lives");
/// assert_eq!((report.label.as_deref(), report.name, report.parent), (Some("import"), None, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessReport {
    /// Pid of the process.
    pub pid: Pid,
    /// First registered name.
    pub name: Option<Arc<str>>,
    /// Label that the process has set; by default the id under which its supervisor has started it.
    pub label: Option<Arc<str>>,
    /// State of the process.
    pub state: ProcessState,
    /// Process that spawned it; `None` if it was spawned from outside.
    pub parent: Option<Pid>,
    /// Rust type of its future.
    pub future_type: &'static str,
}

/// Returns the description of a process; `None` if it has ended.
pub fn process(runtime: &Handle, pid: Pid) -> Option<ProcessReport> {
    let process_ref = process_ref(runtime, pid)?;
    let slot = runtime.shared.table.slot(pid)?;
    let (name, label) = names(&process_ref);
    let label = label.or_else(|| child_id(runtime, &process_ref));
    Some(ProcessReport {
        pid,
        name,
        label,
        state: process_ref.state(),
        parent: slot.parent_pid(),
        future_type: slot.future_type(),
    })
}

/// Returns the links and monitors of a process, at most `limit` of each kind; `None` if the process has ended.
pub fn links(runtime: &Handle, pid: Pid, limit: usize) -> Option<ProcessLinks> {
    runtime.shared.table.slot(pid).and_then(|slot| SideTables::links_and_monitors(slot, pid, limit))
}

/// Returns the number of links and the number of monitors on others of a viewed process.
pub fn link_counts(seen: &ProcessRef<'_>) -> (u64, u64) {
    let counts = |side_table: &SideTable| (side_table.links.len() as u64, side_table.monitors.len() as u64);
    SideTables::read(seen.table_slot(), seen.pid(), counts).unwrap_or_default()
}

/// Returns the first registered name and the label of a process.
pub fn names(process_ref: &ProcessRef<'_>) -> (Option<Arc<str>>, Option<Arc<str>>) {
    if process_ref.may_be_named() {
        SideTables::name_and_label(Slot::of(process_ref.header), process_ref.pid())
    } else {
        (None, None)
    }
}

/// Returns the information about the body of a process; `None` if the process has ended or its body provides nothing.
pub fn body_info(runtime: &Handle, pid: Pid) -> Option<Arc<dyn BodyInfo>> {
    runtime.shared.table.slot(pid).and_then(|slot| SideTables::body_info(slot, pid))
}

/// Returns the information about the body of a viewed process. If the process holds nothing, this only reads a flag.
pub fn body_info_of(seen: &ProcessRef<'_>) -> Option<Arc<dyn BodyInfo>> {
    SideTables::body_info(seen.table_slot(), seen.pid())
}

/// Returns the name that observers show for a process: its first registered name, its label, or the id under which its
/// supervisor has started it.
pub fn display_name(runtime: &Handle, process_ref: &ProcessRef<'_>) -> Option<Arc<str>> {
    let (name, label) = names(process_ref);
    name.or(label).or_else(|| child_id(runtime, process_ref))
}

fn child_id(runtime: &Handle, process_ref: &ProcessRef<'_>) -> Option<Arc<str>> {
    runtime.shared.tree.id_of(process_ref.parent()?, process_ref.pid())
}
