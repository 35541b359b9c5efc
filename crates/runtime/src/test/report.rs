//! The report of a failed run: its last turns, its crashes, and what its processes wait for.

use std::fmt;
use std::sync::Arc;

use crate::observe::diagnosis::waits::{WaitTarget, waits_of_part, waits_on_buffers};
use crate::observe::processes::{ProcessState, display_name, for_each_process, table_parts};
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;
use crate::scheduler;
use crate::scheduler::fuzzer::ScheduleFuzzer;

/// Maximum number of processes that are listed.
const PROCESSES_MAX: usize = 50;

/// The state of an application when its run failed.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::test::find;
///
/// let failure = find(0..10, |ctx| async move {
///     ctx.set_label("shop");
///     drop(ctx.receive().await) // nothing sends a message
/// });
/// let report = failure.expect("it never ends").report;
/// assert_eq!((report.live, report.processes[0].name.as_deref()), (1, Some("shop")));
/// println!("{report}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// The end of the schedule, oldest first: a process, and the number of turns that it had in a row.
    pub last_turns: Vec<(Pid, u32)>,
    /// The last crashes of other processes than the first, oldest first, at most 10: one line each.
    pub crashes: Vec<String>,
    /// The live processes, in the order of their pids, at most 50.
    pub processes: Vec<LiveProcess>,
    /// Number of live processes.
    pub live: u64,
}

/// A process that was alive when a run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveProcess {
    /// Pid of the process.
    pub pid: Pid,
    /// Name, label, or id of the child.
    pub name: Option<Arc<str>>,
    /// State of the process.
    pub state: ProcessState,
    /// Number of messages in its mailbox.
    pub mailbox_len: u64,
    /// Processes and other things that it waits for; empty if any message or event can wake it.
    pub waits: Vec<WaitTarget>,
}

impl RunReport {
    /// Describes the application of this thread's scheduler, without its crashes: the caller adds them.
    pub(super) fn of(runtime: &Handle) -> Self {
        let mut waits = Vec::new();
        for part in 0..table_parts(runtime) {
            waits_of_part(runtime, part, usize::MAX, &mut waits);
        }
        waits_on_buffers(runtime, usize::MAX, &mut waits);
        let mut processes = Vec::new();
        for part in 0..table_parts(runtime) {
            for_each_process(runtime, part, |seen| {
                let of_process = waits.iter().filter(|wait| wait.waiter == seen.pid());
                processes.push(LiveProcess {
                    pid: seen.pid(),
                    name: display_name(runtime, &seen),
                    state: seen.state(),
                    mailbox_len: seen.mailbox_len(),
                    waits: of_process.map(|wait| wait.target.clone()).collect(),
                });
            });
        }
        let live = processes.len() as u64;
        processes.sort_by_key(|process: &LiveProcess| process.pid);
        processes.truncate(PROCESSES_MAX);
        let fuzzer = scheduler::local().and_then(|local| local.fuzzer.as_ref());
        let last_turns = fuzzer.map(ScheduleFuzzer::last_turns).unwrap_or_default();
        Self { last_turns, crashes: Vec::new(), processes, live }
    }
}

/// Writes the report in lines that each begin with a line break.
impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.last_turns.is_empty() {
            write!(f, "\n  last turns:")?;
            for (pid, turns) in &self.last_turns {
                write!(f, " {pid}")?;
                if *turns > 1 {
                    write!(f, "x{turns}")?;
                }
            }
        }
        for crash in &self.crashes {
            write!(f, "\n  {crash}")?;
        }
        for process in &self.processes {
            write!(f, "\n  {process}")?;
        }
        match self.live.saturating_sub(self.processes.len() as u64) {
            0 => Ok(()),
            others => write!(f, "\n  and {others} more processes"),
        }
    }
}

impl fmt::Display for LiveProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)?;
        if let Some(name) = &self.name {
            write!(f, " {}", rusm_text::escaped(name))?;
        }
        write!(f, " is {}", self.state.word())?;
        for (index, target) in self.waits.iter().enumerate() {
            f.write_str(if index == 0 { " for " } else { ", " })?;
            match target {
                WaitTarget::Reply(pid) => write!(f, "the reply of {pid}")?,
                WaitTarget::Room(pid) => write!(f, "room in the mailbox of {pid}")?,
                WaitTarget::Reader { stream, .. } => write!(f, "the reader of stream {stream}")?,
                WaitTarget::Subscriber { topic, .. } => write!(f, "a subscriber of {}", rusm_text::escaped(topic))?,
                WaitTarget::Store => write!(f, "a commit of a store")?,
            }
        }
        if self.waits.is_empty() && self.state == ProcessState::Waiting {
            write!(f, " for a message")?;
        }
        write!(f, ", with {} in its mailbox", self.mailbox_len)
    }
}
