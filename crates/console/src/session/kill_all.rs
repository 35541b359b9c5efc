//! Ends every process that a filter matches.
//!
//! ```text
//!   pass: read the table, send exits ──▶ a second pass finds new ones ──▶ passes while all schedulers pause
//! ```
//!
//! A process of a spawn bomb starts the next one before its exit signal arrives. During a pause no process starts: each
//! matching process gets its signal before it can run again. So does each of its children that has not run yet,
//! although it may not have the name or label yet that the filter would match. A pause does not wait for long polls: while
//! a process that got its signal is in one, it may start others, and another pass is due.
//!
//! A process that a supervisor starts after the first pass is left alone: it is most likely the restart of one that has
//! just ended, and to end it again would use up what the supervisor allows.

use std::time::{Duration, Instant};

use rusm_protocol::{KILL_TEXT_MAX_BYTES, KillReason};
use rustc_hash::FxHashSet;

use crate::host::HostError;
use crate::view::filter::Filter;
use crate::view::table::sort_key::FilterRates;
use rusm_runtime::{ExitReason, Handle, Pid, observe};

/// Time limit for all passes.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Time limit for polls to return when a pause begins.
const PAUSE_WITHIN: Duration = Duration::from_millis(20);
/// Time between the first two passes, in which exit signals take effect. It grows with each pass.
const PASS_INTERVAL: Duration = Duration::from_millis(1);

/// Outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Killed {
    /// Number of processes that got the exit signal.
    pub(super) processes: u64,
    /// Number of processes that the last pass still found: they start faster than they can be ended.
    pub(super) left: u64,
}

/// Sends the exit reason to every process that the filter matches, in passes until one finds no more.
///
/// Each process gets the reason once. A process that traps exits may survive a shutdown.
pub(super) async fn kill_all(runtime: &Handle, filter: &Filter, reason: &ExitReason) -> Killed {
    let until = Instant::now() + TIME_LIMIT;
    let mut search = Search { runtime, filter, reason, is_first: true, ended: FxHashSet::default() };
    let mut is_proof = false;
    for round in 1.. {
        let left = match round {
            1 | 2 => search.pass(),
            _ => observe::while_paused(runtime, PAUSE_WITHIN, || {
                is_proof = !search.is_one_running();
                search.pass() + search.pass_over_children()
            }),
        };
        // Only a pass during a pause proves that none is left: a process may be about to start another.
        if (left == 0 && is_proof) || Instant::now() >= until {
            return Killed { processes: search.ended.len() as u64, left };
        }
        tokio::time::sleep(PASS_INTERVAL * round).await;
    }
    unreachable!("the loop returns at the deadline")
}

struct Search<'a> {
    runtime: &'a Handle,
    filter: &'a Filter,
    reason: &'a ExitReason,
    is_first: bool,
    ended: FxHashSet<Pid>,
}

impl Search<'_> {
    /// Ends every process that the filter matches; returns the number that no earlier pass has ended.
    fn pass(&mut self) -> u64 {
        let (filter, now_ms) = (self.filter, observe::uptime(self.runtime).as_millis() as u64);
        let is_first = std::mem::take(&mut self.is_first);
        let (runtime, ended) = (self.runtime, self.ended.clone());
        let is_restarted = |seen: &observe::ProcessRef<'_>| {
            let supervisor = seen.parent().filter(|parent| !is_first && !ended.contains(parent));
            supervisor.is_some_and(|parent| observe::supervisor(runtime, parent).is_some())
        };
        self.end_matching(|seen| filter.matches_process(seen, now_ms, &FilterRates::default()) && !is_restarted(seen))
    }

    /// Ends children of ended processes that have not run yet.
    fn pass_over_children(&mut self) -> u64 {
        let parents = self.ended.clone();
        let has_ended = |parent: Option<Pid>| parent.is_some_and(|parent| parents.contains(&parent));
        self.end_matching(|seen| seen.reductions() == 0 && has_ended(seen.parent()))
    }

    /// Returns true if a process that got its signal is in a poll.
    fn is_one_running(&self) -> bool {
        let is_running = |seen: observe::ProcessRef<'_>| seen.state() == observe::ProcessState::Running;
        self.ended.iter().any(|pid| observe::process_ref(self.runtime, *pid).is_some_and(is_running))
    }

    fn end_matching(&mut self, matches: impl Fn(&observe::ProcessRef<'_>) -> bool) -> u64 {
        let mut found = Vec::new();
        for part in 0..observe::table_parts(self.runtime) {
            observe::for_each_process(self.runtime, part, |seen| {
                // If the process ends meanwhile, the slot has the pid of the next one, which is not there yet.
                let pid = seen.pid();
                if matches(&seen) && observe::process_ref(self.runtime, pid).is_some() {
                    found.push(pid);
                }
            });
        }
        found.retain(|pid| self.ended.insert(*pid));
        for pid in &found {
            self.runtime.exit(*pid, self.reason.clone());
        }
        found.len() as u64
    }
}

/// Returns the exit reason of a command.
///
/// # Errors
/// If the reason needs words or must be without them; the error contains a line for the client.
pub(super) fn exit_reason(reason: KillReason, text: Option<&str>) -> Result<ExitReason, HostError> {
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    let refused = |message: &str| Err(HostError::out_of_range(message.to_owned()));
    match (reason, text) {
        (_, Some(text)) if text.len() > KILL_TEXT_MAX_BYTES => {
            refused(&format!("a text of {} bytes: at most {KILL_TEXT_MAX_BYTES}", text.len()))
        }
        (KillReason::Shutdown, None) => Ok(ExitReason::Shutdown),
        (KillReason::Shutdown, Some(text)) => Ok(ExitReason::ShutdownWith(text.into())),
        (KillReason::Kill, None) => Ok(ExitReason::Killed),
        (KillReason::Kill, Some(_)) => refused("kill has no text: use the reason error or shutdown"),
        (KillReason::Error, Some(text)) => Ok(ExitReason::Other(text.into())),
        (KillReason::Error, None) => refused("the reason error needs a text, and kill_all has none"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rusm_runtime::{Config, Runtime, SpawnOptions};

    use super::*;

    #[test]
    fn a_process_in_a_long_poll_is_waited_for_because_it_may_start_others() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let (begin, runs) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let blocked = move |_| async move {
            begin.send(()).unwrap();
            held.recv().unwrap();
        };
        let pid = runtime.spawn_with(&SpawnOptions::default().label("bomb"), blocked).unwrap();
        runs.recv().unwrap();
        let (filter, reason) = (Filter::parse("name=bomb").unwrap(), ExitReason::Killed);
        let mut search =
            Search { runtime: &runtime, filter: &filter, reason: &reason, is_first: true, ended: FxHashSet::default() };

        assert_eq!((search.pass(), search.pass(), search.is_one_running()), (1, 0, true));

        release.send(()).unwrap();
        runtime.wait(pid);
        assert!(!search.is_one_running());
    }
}
