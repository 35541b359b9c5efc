//! Reports of crashes: each process that fails by itself is logged at `error`, and given to the program as data.
//!
//! ```text
//!   process fails ──▶ Config::on_crash, always
//!              └────▶ log: at once, or if its cause was logged less than a second ago, as a number in the next line;
//!                     a line with a backtrace by a thread of its own, and the lines after it as well
//!   watchdog ───────▶ log: the number that no later crash has told
//! ```
//!
//! The log is `tracing`, or standard error if the program has no subscriber.

use std::backtrace::Backtrace;
use std::collections::VecDeque;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rusm_text::escaped;

use crate::mailbox::unreceived::{Wait, Wanted};
use crate::observe::inspect::causes::CAUSES_MAX;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::runtime::backtrace::frames_of_process;
use crate::runtime::hooks::Hook;
use crate::runtime::panics::{self, has_subscriber};
use crate::time::line_budget::LineBudget;

/// Shortest time between two lines about one cause, in nanoseconds.
const LOG_INTERVAL_NS: u64 = 1_000_000_000;
/// Environment variable that asks for backtraces: `full` for all frames, and 0 for none.
const BACKTRACE: &str = "RUST_BACKTRACE";
/// Maximum number of bytes of a name in a line.
const NAME_MAX_BYTES: usize = 256;

/// A process that has failed: it panicked, or returned a reason that is not [normal](ExitReason::is_normal).
///
/// Processes that were ended by others, by an exit signal or through a link, do not count.
///
/// ```
/// # use rusm_runtime as rusm;
/// use std::sync::mpsc;
///
/// use rusm::{Config, Crash, Hook, Runtime};
///
/// let (tell, crashes) = mpsc::channel();
/// let on_crash = Hook::new(move |crash: &Crash| drop(tell.send((crash.label.clone(), crash.reason.to_string()))));
/// let runtime = Runtime::start(Config { on_crash: Some(on_crash), log_crashes: false, ..Config::default() })?;
/// runtime.spawn(|ctx| async move {
///     ctx.set_label("fragile");
///     panic!("oh");
/// })?;
/// let (label, reason) = crashes.recv()?;
/// assert!(label.as_deref() == Some("fragile") && reason.contains("oh"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Crash {
    /// Pid of the process.
    pub pid: Pid,
    /// First registered name.
    pub name: Option<Arc<str>>,
    /// Label, or else its id as a child, or the source of its body, such as the module of a guest.
    pub label: Option<Arc<str>>,
    /// Processes that had spawned it, its parent first, at most 8, with their names, labels or ids as children while they are alive.
    pub ancestors: Vec<(Pid, Option<Arc<str>>)>,
    /// Rust type of its future.
    pub future_type: &'static str,
    /// Exit reason.
    pub reason: ExitReason,
    /// Backtrace of the first panic at the same place.
    pub backtrace: Option<Arc<Backtrace>>,
    /// Time since the runtime started.
    pub at: Duration,
}

/// A process in a log line: its pid, and its name if it has one.
pub(crate) struct Called {
    pub(crate) pid: Pid,
    pub(crate) name: Option<Arc<str>>,
}

/// Writes the name escaped.
impl fmt::Display for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pid)?;
        self.name.iter().try_for_each(|name| write!(f, " {}", escaped(name).within(NAME_MAX_BYTES)))
    }
}

/// Writes one line, with the names escaped.
impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        let label = self.label.as_ref().filter(|label| self.name.as_ref() != Some(label));
        for name in self.name.iter().chain(label) {
            write!(f, " {}", escaped(name).within(NAME_MAX_BYTES))?;
        }
        write!(f, " crashed: {} ({}", self.reason, self.future_type)?;
        if !self.ancestors.is_empty() {
            write!(f, " in {}", self.ancestor_list())?;
        }
        f.write_str(")")
    }
}

impl Crash {
    fn ancestor_list(&self) -> String {
        let called = |(pid, name): &(Pid, Option<Arc<str>>)| Called { pid: *pid, name: name.clone() }.to_string();
        self.ancestors.iter().map(called).collect::<Vec<_>>().join(" in ")
    }
}

/// Function that is called with each crash; see [`Config::on_crash`](crate::Config::on_crash).
pub type CrashHook = Hook<Crash>;

/// The log of the crashes of a runtime.
pub(crate) struct CrashLog {
    /// Time at which each cause was last logged, in nanoseconds since the start of the runtime; 0 for never. The last one
    /// stands for all causes beyond the limit.
    logged_ns: Box<[AtomicU64]>,
    /// Crashes of each cause since then that were not logged, by scheduler: in a storm, all of them count.
    skipped: Box<[Box<[AtomicU64]>]>,
    has_skipped: AtomicBool,
    budget: LineBudget,
    /// Lines of other failures without a subscriber: they must not take the place of crashes.
    others: LineBudget,
    /// Lines about supervisors that give up, processes that may wait for ever and guests that are killed.
    pub(crate) notices: LineBudget,
    later: Arc<Mutex<LaterLines>>,
}

/// Lines that a thread of its own writes, in order: the first of them has a backtrace.
#[derive(Default)]
struct LaterLines {
    crashes: VecDeque<(Crash, u64)>,
    is_written: bool,
    writer: Option<JoinHandle<()>>,
}

impl CrashLog {
    pub(crate) fn new(schedulers: usize) -> Self {
        let of_causes = || (0..=CAUSES_MAX).map(|_| AtomicU64::new(0)).collect();
        Self {
            logged_ns: of_causes(),
            skipped: (0..schedulers).map(|_| of_causes()).collect(),
            has_skipped: AtomicBool::new(false),
            budget: LineBudget::new(),
            others: LineBudget::new(),
            notices: LineBudget::new(),
            later: Arc::default(),
        }
    }

    /// Logs a crash; `skipped` crashes of the same cause came before it and were not logged.
    #[cold]
    pub(crate) fn write(&self, crash: Crash, skipped: u64) {
        let mut later = self.later.lock();
        if !later.is_written && (crash.backtrace.is_none() || !wants_backtrace()) {
            drop(later);
            return panics::contain(|| log(&crash, skipped));
        }
        later.crashes.push_back((crash, skipped));
        if later.is_written {
            return;
        }
        later.is_written = true;
        // To find the names of the first backtrace takes a tenth of a second, for which no scheduler may wait.
        let lines = Arc::clone(&self.later);
        match Builder::new().name("rusm-backtrace".to_owned()).spawn(move || write_later(&lines)) {
            Ok(writer) => later.writer = Some(writer),
            Err(_no_thread) => {
                drop(later);
                write_later(&self.later);
            }
        }
    }

    /// Writes the line of another failure to standard error if no subscriber gets its event.
    pub(crate) fn print_without_subscriber(&self, line: impl FnOnce() -> String) {
        if has_subscriber() {
            return;
        }
        if let Some(skipped) = self.others.take() {
            print(&format!("{}{}", line(), left_out_before(skipped)), None);
        }
    }

    /// Logs what is left to tell, and waits until all lines are written.
    pub(crate) fn finish(&self, now_ns: u64, describe: impl Fn(u16) -> Option<(Arc<str>, Arc<str>)>) {
        self.flush(now_ns, true, describe);
        let writer = self.later.lock().writer.take();
        if let Some(writer) = writer {
            drop(writer.join());
        }
    }

    /// Returns how many crashes of a cause were not logged before this one; `None` if this one must wait as well.
    pub(crate) fn take_turn(&self, scheduler: usize, cause: Option<u16>, now_ns: u64) -> Option<u64> {
        let cause = cause.map_or(CAUSES_MAX, usize::from);
        let logged_ns = &self.logged_ns[cause];
        let before = logged_ns.load(Ordering::Relaxed);
        let is_due = before == 0 || now_ns.saturating_sub(before) >= LOG_INTERVAL_NS;
        let won = is_due
            && self.budget.has_room(now_ns)
            && logged_ns.compare_exchange(before, now_ns.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if won {
            return Some(self.take_skipped(cause));
        }
        self.skipped[scheduler][cause].fetch_add(1, Ordering::Relaxed);
        if !self.has_skipped.load(Ordering::Relaxed) {
            self.has_skipped.store(true, Ordering::Relaxed);
        }
        None
    }

    /// Logs how many lines about other failures were left out.
    pub(crate) fn tell_left_out(&self, at_end: bool) {
        let budgets = [
            (&self.others, "jobs and connections"),
            (&self.notices, "processes that wait or give up, and guests that are killed"),
            (&panics::PANIC_LINES, "panics outside of the body of a process"),
        ];
        for (budget, about) in budgets {
            let Some(left) = budget.take_left(at_end) else { continue };
            if has_subscriber() {
                tracing::warn!(left, about, "lines were left out");
            } else {
                print(&format!("{left} more lines about {about} were left out"), None);
            }
        }
    }

    fn take_skipped(&self, cause: usize) -> u64 {
        self.skipped.iter().map(|scheduler| scheduler[cause].swap(0, Ordering::Relaxed)).sum()
    }

    /// Logs the numbers of crashes that no later crash has told, `at_end` also those of the last second. `describe`
    /// returns kind and reason of a cause.
    pub(crate) fn flush(&self, now_ns: u64, at_end: bool, describe: impl Fn(u16) -> Option<(Arc<str>, Arc<str>)>) {
        self.tell_left_out(at_end);
        if !self.has_skipped.swap(false, Ordering::Relaxed) {
            return;
        }
        for (number, logged_ns) in self.logged_ns.iter().enumerate() {
            if self.skipped.iter().all(|scheduler| scheduler[number].load(Ordering::Relaxed) == 0) {
                continue;
            }
            let is_early = now_ns.saturating_sub(logged_ns.load(Ordering::Relaxed)) < LOG_INTERVAL_NS;
            if !at_end && (is_early || !self.budget.has_room(now_ns)) {
                self.has_skipped.store(true, Ordering::Relaxed);
                continue;
            }
            logged_ns.store(now_ns.max(1), Ordering::Relaxed);
            let skipped = self.take_skipped(number);
            let (who, why) = describe(number as u16).unwrap_or_else(|| ("others".into(), "various reasons".into()));
            let (who, why) = (escaped(&who).within(NAME_MAX_BYTES), escaped(&why).within(NAME_MAX_BYTES));
            if has_subscriber() {
                tracing::error!(more = skipped, %who, reason = %why, "more crashes");
            } else {
                print(&format!("{skipped} more crashes of {who}: {why}"), None);
            }
        }
    }
}

/// Writes the lines that wait, until there are none.
fn write_later(lines: &Mutex<LaterLines>) {
    loop {
        let mut later = lines.lock();
        let Some((crash, skipped)) = later.crashes.pop_front() else {
            later.is_written = false;
            return;
        };
        drop(later);
        panics::contain(|| log(&crash, skipped));
    }
}

fn log(crash: &Crash, skipped: u64) {
    let backtrace = crash.backtrace.as_ref().filter(|_| wants_backtrace());
    if has_subscriber() {
        tracing::error!(
            pid = %crash.pid,
            name = crash.name.as_deref(),
            label = crash.label.as_deref(),
            reason = %crash.reason,
            ancestors = (!crash.ancestors.is_empty()).then(|| tracing::field::display(crash.ancestor_list())),
            future = crash.future_type,
            not_logged = (skipped > 0).then_some(skipped),
            backtrace = backtrace.map(|backtrace| text_of(backtrace)),
            "process crashed"
        );
        return;
    }
    let before = if skipped > 0 { format!("; {skipped} more of this kind before it") } else { String::new() };
    print(&format!("{crash}{before}"), backtrace.map(Arc::as_ref));
}

/// Logs that a supervisor gives up; `skipped` others have done so without a line.
#[cold]
pub(crate) fn log_gave_up(supervisor: &Called, why: &dyn fmt::Display, skipped: u64) {
    if has_subscriber() {
        let not_logged = (skipped > 0).then_some(skipped);
        let (pid, name) = (supervisor.pid, supervisor.name.as_deref());
        tracing::error!(supervisor = %pid, name, reason = %why, not_logged, "supervisor gave up");
    } else {
        print(&format!("supervisor {supervisor} gave up: {why}{}", left_out_before(skipped)), None);
    }
}

/// Logs that a process does not handle a message; `total` counts such messages of this type.
#[cold]
pub(crate) fn log_unmatched(receiver: &Called, actor: Option<&'static str>, type_name: &'static str, total: u64) {
    if has_subscriber() {
        let (pid, name) = (receiver.pid, receiver.name.as_deref());
        tracing::warn!(%pid, name, actor, message_type = type_name, total, "process does not handle a message");
    } else {
        let actor = actor.filter(|_| receiver.name.is_none()).map_or(String::new(), |actor| format!(" {actor}"));
        let line = format!("process {receiver}{actor} does not handle messages of type {type_name} ({total} so far)");
        print(&line, None);
    }
}

/// Logs that a process waits beside `waiting` messages, and whether it has received others; `skipped` other processes do so
/// without a line.
#[cold]
pub(crate) fn log_unreceived(receiver: &Called, wait: &Wait, waiting: u64, has_received: bool, skipped: u64) {
    let (wanted, oldest) = (&wait.wanted, wait.oldest);
    if has_subscriber() {
        let not_logged = (skipped > 0).then_some(skipped);
        let (pid, name) = (receiver.pid, receiver.name.as_deref());
        let what = match (wait.is_receive(), has_received) {
            (false, _) if matches!(wanted, Wanted::Acknowledgement) => {
                "process has not acknowledged its start for seconds"
            }
            (false, _) => "process waits for what does not happen",
            (true, true) => "process leaves messages in its mailbox and receives others",
            (true, false) => "process receives none of the messages in its mailbox",
        };
        tracing::warn!(%pid, name, %wanted, waiting, oldest, not_logged, "{what}");
    } else {
        let beside = match oldest {
            None => String::new(),
            Some(oldest) => {
                let others =
                    if has_received { "it leaves others in its mailbox" } else { "in its mailbox are only others" };
                format!("; {others} ({waiting}), the oldest of type {oldest}")
            }
        };
        print(&format!("process {receiver} waits for {wanted}{beside}{}", left_out_before(skipped)), None);
    }
}

/// Logs that a guest is killed because it asks for links without end.
#[cold]
pub(crate) fn log_full_of_refusals(guest: &Called, skipped: u64) {
    if has_subscriber() {
        let not_logged = (skipped > 0).then_some(skipped);
        let (pid, name) = (guest.pid, guest.name.as_deref());
        tracing::warn!(%pid, name, not_logged, "the mailbox of a guest is full of refusals: the guest is killed");
    } else {
        let before = left_out_before(skipped);
        print(&format!("guest {guest} is killed: its mailbox is full of refusals{before}"), None);
    }
}

fn left_out_before(skipped: u64) -> String {
    if skipped > 0 { format!("; {skipped} more lines before it were left out") } else { String::new() }
}

/// Logs that an item of a pipeline has failed; `total` counts such items of that worker.
#[cold]
pub(crate) fn log_failed_item(worker: &Called, reason: &ExitReason, total: u64) {
    if has_subscriber() {
        let (pid, name) = (worker.pid, worker.name.as_deref());
        tracing::warn!(%pid, name, %reason, total, "item of a pipeline failed");
    } else {
        print(&format!("process {worker} failed to handle an item: {reason} ({total} in all)"), None);
    }
}

fn wants_backtrace() -> bool {
    std::env::var_os(BACKTRACE).is_some_and(|value| value != "0")
}

/// Returns the frames of the code of the process; all frames if the environment variable says so, or if it has none.
fn text_of(backtrace: &Backtrace) -> String {
    let all = backtrace.to_string();
    let wants_all = std::env::var_os(BACKTRACE).is_some_and(|value| value == "full");
    let own: String = frames_of_process(&all).iter().map(|frame| frame.text).collect();
    if wants_all || own.is_empty() { all } else { own }
}

fn print(line: &str, backtrace: Option<&Backtrace>) {
    let text = backtrace.map_or_else(|| format!("{line}\n"), |backtrace| format!("{line}\n{}", text_of(backtrace)));
    // Without standard error there is nobody to tell.
    drop(std::io::stderr().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::line_budget::LINES_PER_SECOND;

    const SECOND: u64 = LOG_INTERVAL_NS;

    #[test]
    fn a_storm_of_one_cause_is_logged_once_in_a_second_with_the_number() {
        let log = CrashLog::new(2);
        assert_eq!(log.take_turn(1, Some(3), 5), Some(0));
        let logged = (0..1_000).filter_map(|n| log.take_turn(1, Some(3), 5 + n)).count();
        assert_eq!(logged, 0);
        assert_eq!(log.take_turn(1, Some(4), 6), Some(0), "another cause does not wait");
        assert_eq!(log.take_turn(1, Some(3), 5 + SECOND), Some(1_000));
    }

    #[test]
    fn a_storm_of_many_causes_is_bounded_too() {
        let log = CrashLog::new(2);
        let logged = (0..CAUSES_MAX as u16).filter_map(|cause| log.take_turn(1, Some(cause), 1)).count();
        assert_eq!(logged as u64, LINES_PER_SECOND);
        assert_eq!(log.take_turn(1, Some(200), SECOND + 1), Some(1));
    }

    #[test]
    fn a_label_that_is_the_name_is_written_once() {
        let crash = |name: &str, label: &str| Crash {
            pid: Pid::local(1, 2),
            name: Some(name.into()),
            label: Some(label.into()),
            ancestors: Vec::new(),
            future_type: "f",
            reason: ExitReason::other("no change"),
            backtrace: None,
            at: Duration::ZERO,
        };

        assert_eq!(crash("till", "till").to_string(), "process <0.1.2> till crashed: no change (f)");
        assert_eq!(crash("till", "first").to_string(), "process <0.1.2> till first crashed: no change (f)");
    }

    #[test]
    fn rare_crashes_are_all_logged() {
        let log = CrashLog::new(2);
        let turns: Vec<_> = (1..100).map(|n| log.take_turn(0, None, n * SECOND)).collect();
        assert!(turns.iter().all(|turn| *turn == Some(0)), "{turns:?}");
    }

    #[test]
    fn the_rest_of_a_storm_is_told_after_a_second() {
        let log = CrashLog::new(2);
        for _ in 0..10 {
            log.take_turn(1, Some(0), 1);
        }
        log.flush(2, false, |_| None);
        assert_eq!(log.skipped[1][0].load(Ordering::Relaxed), 9, "too early");
        log.flush(1 + SECOND, false, |_| None);
        assert_eq!(log.skipped[1][0].load(Ordering::Relaxed), 0);
    }
}
