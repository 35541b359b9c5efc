//! Records how the guests of an application end: each end is logged, and the last ones decide the result of the run.
//!
//! A watch on each process delivers its exit reason, whether or not the guest is restarted. Ends that come faster than
//! the log limit are only counted. The number of watches is limited, so that a storm of restarts does not fill the
//! memory; the end of a process that is not watched is neither logged nor a cause of failure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rusm_runtime::supervisor::Restart;
use rusm_runtime::{ExitReason, Pid, Watch};
use rusm_text::escaped;
use rusm_wasm::{LogRateLimiter, Trap};
use tokio::runtime::Handle as Reactor;

/// Maximum number of ends logged per second.
const LINES_PER_SEC: u32 = 20;
/// Maximum size of these lines per second, in bytes.
const BYTES_PER_SEC: u64 = 64 * 1024;
/// Maximum size of a logged backtrace, in bytes: the guest chooses the names in it.
const BACKTRACE_MAX_BYTES: usize = 8 * 1024;
/// Number of watches in addition to those of live processes.
const WATCHES_SPARE: usize = 10_000;

/// The end of the last process of a guest: the guest has not been started again since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestExit {
    pub(crate) id: Arc<str>,
    pub(crate) restart: Restart,
    pub(crate) reason: ExitReason,
    /// Number of this end, in the order in which ends were recorded.
    number: u64,
}

/// Records the ends of all guests.
#[derive(Clone, Debug)]
pub(crate) struct ExitRecorder {
    reactor: Reactor,
    watches_max: usize,
    state: Arc<Mutex<RecorderState>>,
}

#[derive(Debug)]
struct RecorderState {
    last: HashMap<Arc<str>, LastRun>,
    /// Number of starts.
    starts: u64,
    /// Number of watched processes.
    watched: usize,
    /// Number of ends.
    count: u64,
    budget: LogRateLimiter,
}

/// The last start of a guest, and its end.
#[derive(Debug)]
struct LastRun {
    start: u64,
    end: Option<GuestExit>,
}

impl ExitRecorder {
    /// Creates a recorder for at most this many live processes. It uses the caller's reactor.
    pub(crate) fn new(processes: usize) -> Self {
        let (reactor, watches_max) = (Reactor::current(), processes + WATCHES_SPARE);
        let budget = LogRateLimiter::per_sec(LINES_PER_SEC).with_bytes_per_sec(BYTES_PER_SEC);
        let state = RecorderState { last: HashMap::new(), starts: 0, watched: 0, count: 0, budget };
        Self { reactor, watches_max, state: Arc::new(Mutex::new(state)) }
    }

    /// Records the start of a guest by a supervisor, and awaits the end of its process.
    pub(crate) fn started(&self, supervisor: Pid, id: &Arc<str>, restart: Restart, pid: Pid, end: Watch) {
        let start = {
            let mut state = self.state.lock();
            state.starts += 1;
            let start = state.starts;
            state.last.insert(Arc::clone(id), LastRun { start, end: None });
            if state.watched == self.watches_max {
                return;
            }
            state.watched += 1;
            start
        };
        let (recorder, id) = (self.clone(), Arc::clone(id));
        self.reactor.spawn(async move {
            let reason = end.await;
            recorder.ended(start, supervisor, id, restart, pid, reason);
        });
    }

    fn ended(&self, start: u64, supervisor: Pid, id: Arc<str>, restart: Restart, pid: Pid, reason: ExitReason) {
        let mut state = self.state.lock();
        state.watched -= 1;
        state.count += 1;
        let (words, backtrace) = (reason.to_string(), backtrace(&reason));
        let bytes = words.len() + backtrace.as_ref().map_or(0, String::len);
        if let Some(cut) = state.budget.spend(Instant::now(), bytes) {
            if cut != 0 {
                tracing::warn!(target: "rusm::run", cut, "ends of guests were not logged");
            }
            if reason.is_normal() {
                tracing::info!(target: "rusm::run", guest = &*id, %pid, reason = %words, "guest has ended");
            } else if reason == ExitReason::Killed {
                tracing::warn!(target: "rusm::run", guest = &*id, %pid, reason = %words, "guest has ended");
            } else {
                // The line of a crash.
                tracing::error!(
                    target: "rusm::run",
                    guest = &*id,
                    %pid,
                    reason = %words,
                    backtrace,
                    ancestors = %supervisor,
                    "guest has ended"
                );
            }
        }
        let number = state.count;
        // If the guest was started again meanwhile, that start will have its own end.
        if let Some(last) = state.last.get_mut(&id).filter(|last| last.start == start) {
            last.end = Some(GuestExit { id, restart, reason, number });
        }
    }

    /// Returns true if the end of every watched process has been recorded.
    pub(crate) fn are_all_reported(&self) -> bool {
        self.state.lock().watched == 0
    }

    /// Returns the most recent end after which the guest must be restarted, or in which a temporary guest failed.
    ///
    /// The guest may still wait for that restart: the end is the cause of a failure only if the supervisor has ended,
    /// or if the guest is temporary. The caller checks this.
    pub(crate) fn failure_cause(&self) -> Option<GuestExit> {
        failure_cause(self.state.lock().last.values().filter_map(|last| last.end.as_ref()))
    }
}

/// Returns the functions that were running when a guest trapped, innermost first.
fn backtrace(reason: &ExitReason) -> Option<String> {
    let ExitReason::Other(detail) = reason else { return None };
    let frames = &detail.value::<Trap>()?.backtrace;
    (!frames.is_empty()).then(|| escaped(frames.join(" < ")).within(BACKTRACE_MAX_BYTES).to_string())
}

fn failure_cause<'a>(ends: impl Iterator<Item = &'a GuestExit>) -> Option<GuestExit> {
    let is_failure = |end: &&GuestExit| match end.restart {
        Restart::Temporary => !end.reason.is_normal(),
        restart => restart.after(&end.reason),
    };
    // A kill or a shutdown is usually the consequence of another guest's end, so other reasons take precedence.
    let is_cause = |end: &GuestExit| !matches!(end.reason, ExitReason::Killed | ExitReason::Shutdown);
    ends.filter(is_failure).max_by_key(|end| (is_cause(end), end.number)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(id: &str, restart: Restart, reason: ExitReason, number: u64) -> GuestExit {
        GuestExit { id: id.into(), restart, reason, number }
    }

    #[test]
    fn the_last_end_that_requires_a_restart_is_the_cause() {
        let ends = [
            end("well", Restart::Transient, ExitReason::Normal, 9),
            end("first", Restart::Transient, ExitReason::other("trap"), 3),
            end("server", Restart::Permanent, ExitReason::Normal, 4),
            end("stopped", Restart::Permanent, ExitReason::Shutdown, 6),
            end("killed", Restart::Transient, ExitReason::Killed, 7),
        ];

        assert_eq!(failure_cause(ends.iter()).map(|end| end.id), Some("server".into()));
        assert_eq!(failure_cause(ends[..2].iter()).map(|end| end.id), Some("first".into()));
        assert_eq!(failure_cause(ends[..1].iter()), None);
        assert_eq!(failure_cause(ends[4..].iter()).map(|end| end.id), Some("killed".into()));
    }
}
