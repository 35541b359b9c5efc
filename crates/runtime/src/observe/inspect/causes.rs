//! Causes of failures: abnormal ends grouped by what ended and by reason without its numbers.
//!
//! ```text
//!   abnormal end ──▶ key = hash(who, why, both without numbers) ──▶ counts of this scheduler: total, 15 minutes, last end
//!                                      └─ first time ──▶ text of the cause, shared by all schedulers, at most 256
//! ```
//!
//! Every abnormal end is counted, also in a storm. A scheduler counts under a lock of its own, which only an observer
//! shares. The 257th cause and those after it are counted together.

use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::ended::{EndedBy, EndedProcess};
use crate::process::exit::ExitReason;

/// Maximum number of causes; later ones are counted together.
pub const CAUSES_MAX: usize = 256;
/// Number of intervals in the history of a cause.
pub const CAUSE_INTERVALS: usize = 60;
/// Length of an interval: the history covers 15 minutes.
pub const CAUSE_INTERVAL: Duration = Duration::from_secs(15);

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CauseKind {
    /// The process failed by itself.
    Crash,
    /// An exit signal of another process, or from outside, ended it.
    Killed,
    /// A linked process had ended.
    Link,
}

impl CauseKind {
    pub(crate) const fn of(by: &EndedBy) -> Self {
        match by {
            EndedBy::Itself => Self::Crash,
            EndedBy::Link(_) => Self::Link,
            EndedBy::Process(_) | EndedBy::Outside | EndedBy::Observer(_) => Self::Killed,
        }
    }
}

/// A cause of failures, with its counts.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::{Config, ExitReason, Runtime, observe};
///
/// let runtime = Runtime::start(Config { log_crashes: false, ..Config::default() })?;
/// for number in 0..3 {
///     let failing = runtime.spawn(move |_| async move { ExitReason::other(format_args!("disk {number} is full")) })?;
///     runtime.wait(failing);
/// }
/// let (causes, _others) = observe::causes(&runtime);
/// assert_eq!((causes.len(), causes[0].count, &*causes[0].why), (1, 3, "disk * is full"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseReport {
    /// Number of the cause in this runtime.
    pub id: u16,
    /// Kind of the failure.
    pub kind: CauseKind,
    /// Name, module or future type of the processes, with `*` for numbers.
    pub who: Arc<str>,
    /// Reason of the end, with `*` for numbers.
    pub why: Arc<str>,
    /// Number of ends.
    pub count: u64,
    /// Time of the first end since the runtime started.
    pub first_at: Duration,
    /// Number of ends in each of the last [`CAUSE_INTERVALS`] intervals, oldest first.
    pub intervals: Vec<u32>,
    /// The newest end; in a storm, one of the last slice of a scheduler.
    pub last: EndedProcess,
}

/// The text of a cause, created at its first end.
struct CauseText {
    kind: CauseKind,
    who: Arc<str>,
    why: Arc<str>,
    first_at: Duration,
}

/// Counts of one cause on one scheduler.
struct CauseCounts {
    count: u64,
    intervals: [u32; CAUSE_INTERVALS],
    /// Number of the newest interval.
    interval: u64,
    last: EndedProcess,
}

#[derive(Default)]
struct SchedulerCauses {
    ids: FxHashMap<u64, Option<u16>>,
    counts: HashMap<u16, Box<CauseCounts>, FxBuildHasher>,
    /// Number of ends of causes beyond the limit.
    others: u64,
}

#[derive(Default)]
struct Interned {
    ids: FxHashMap<u64, u16>,
    texts: Vec<CauseText>,
}

/// The causes of failures of a runtime.
pub(crate) struct Causes {
    interned: Mutex<Interned>,
    schedulers: Box<[CachePadded<Mutex<SchedulerCauses>>]>,
    panics: Mutex<HashMap<String, PanicPlace>>,
}

/// A location of panics.
struct PanicPlace {
    /// Backtrace of the first panic.
    backtrace: Arc<Backtrace>,
    /// Time of the last panic that the program's hook got.
    told_at: Duration,
}

/// Identity of the process in a cause.
pub(crate) enum Who<'a> {
    /// Its name or label, or the source of its body.
    Named(&'a str),
    /// The Rust type of its future.
    Type(&'static str),
}

impl Causes {
    pub(crate) fn new(schedulers: usize) -> Self {
        Self {
            interned: Mutex::default(),
            schedulers: (0..schedulers).map(|_| CachePadded::default()).collect(),
            panics: Mutex::default(),
        }
    }

    /// Counts an abnormal end like earlier ones of this slice, without its description. Returns the number of its cause;
    /// `None` if this scheduler does not know it.
    pub(crate) fn record_again(
        &self,
        scheduler: usize,
        who: &Who<'_>,
        by: &EndedBy,
        reason: &ExitReason,
    ) -> Option<u16> {
        let mut mine = self.schedulers[scheduler].lock();
        let id = mine.ids.get(&key(CauseKind::of(by), who, reason)).copied()??;
        mine.counts.get_mut(&id)?.add();
        Some(id)
    }

    /// Counts an abnormal end on a scheduler. Returns the number of its cause; `None` beyond the limit.
    pub(crate) fn record(&self, scheduler: usize, who: &Who<'_>, ended: EndedProcess) -> Option<u16> {
        let kind = CauseKind::of(&ended.by);
        let key = key(kind, who, &ended.reason);
        let interval = interval(ended.at);
        let mut mine = self.schedulers[scheduler].lock();
        let known = mine.ids.get(&key).copied();
        let id = known.unwrap_or_else(|| self.intern(key, kind, who, &ended));
        // The ids of a scheduler are bounded too: keys beyond the limit are looked up again each time.
        if known.is_none() && id.is_some() {
            mine.ids.insert(key, id);
        }
        let Some(id) = id else {
            mine.others += 1;
            return None;
        };
        let before = if let Some(counts) = mine.counts.get_mut(&id) {
            counts.advance(interval);
            counts.add();
            Some(std::mem::replace(&mut counts.last, ended))
        } else {
            let mut intervals = [0; CAUSE_INTERVALS];
            intervals[CAUSE_INTERVALS - 1] = 1;
            mine.counts.insert(id, Box::new(CauseCounts { count: 1, intervals, interval, last: ended }));
            None
        };
        drop(mine);
        // Drop the earlier reason after the lock: the destructor of a value in it may read the causes.
        drop(before);
        Some(id)
    }

    #[cold]
    fn intern(&self, key: u64, kind: CauseKind, who: &Who<'_>, ended: &EndedProcess) -> Option<u16> {
        let mut interned = self.interned.lock();
        if let Some(id) = interned.ids.get(&key) {
            return Some(*id);
        }
        if interned.texts.len() == CAUSES_MAX {
            return None;
        }
        let id = interned.texts.len() as u16;
        let who = match who {
            Who::Named(name) => general(name),
            Who::Type(name) => short_type(name),
        };
        let text = CauseText { kind, who: who.into(), why: why(kind, &ended.reason).into(), first_at: ended.at };
        interned.texts.push(text);
        interned.ids.insert(key, id);
        Some(id)
    }

    /// Returns all causes, and the number of ends with causes beyond the limit.
    pub(crate) fn report(&self, now: Duration) -> (Vec<CauseReport>, u64) {
        let interval = interval(now);
        let mut reports: Vec<CauseReport> = Vec::new();
        let mut by_id: FxHashMap<u16, usize> = FxHashMap::default();
        let mut others = 0;
        for scheduler in &self.schedulers {
            let mut theirs = scheduler.lock();
            others += theirs.others;
            for (id, counts) in &mut theirs.counts {
                counts.advance(interval);
                let at = *by_id.entry(*id).or_insert(reports.len());
                if at == reports.len() {
                    reports.push(self.empty_report(*id, counts.last.clone()));
                }
                let report = &mut reports[at];
                report.count += counts.count;
                for (sum, part) in report.intervals.iter_mut().zip(&counts.intervals) {
                    *sum = sum.saturating_add(*part);
                }
                if counts.last.at > report.last.at {
                    report.last = counts.last.clone();
                }
            }
        }
        (reports, others)
    }

    fn empty_report(&self, id: u16, last: EndedProcess) -> CauseReport {
        let interned = self.interned.lock();
        let text = &interned.texts[usize::from(id)];
        CauseReport {
            id,
            kind: text.kind,
            who: Arc::clone(&text.who),
            why: Arc::clone(&text.why),
            count: 0,
            first_at: text.first_at,
            intervals: vec![0; CAUSE_INTERVALS],
            last,
        }
    }

    /// Returns who and why of a cause, with `*` for numbers.
    pub(crate) fn text(&self, id: u16) -> Option<(Arc<str>, Arc<str>)> {
        let interned = self.interned.lock();
        interned.texts.get(usize::from(id)).map(|text| (Arc::clone(&text.who), Arc::clone(&text.why)))
    }

    /// Keeps the backtrace of the first panic at a location; `capture` runs only then. Returns true if none was told in
    /// the last second before `now`.
    pub(crate) fn keep_backtrace(&self, location: &str, now: Duration, capture: impl FnOnce() -> Backtrace) -> bool {
        let mut panics = self.panics.lock();
        if let Some(known) = panics.get_mut(location) {
            let is_due = now.saturating_sub(known.told_at) >= Duration::from_secs(1);
            if is_due {
                known.told_at = now;
            }
            return is_due;
        }
        if panics.len() < CAUSES_MAX {
            let backtrace = Arc::new(capture());
            panics.insert(location.to_owned(), PanicPlace { backtrace, told_at: now });
        }
        true
    }

    /// Returns the backtrace of the first panic at a location.
    pub(crate) fn backtrace(&self, location: &str) -> Option<Arc<Backtrace>> {
        let panics = self.panics.lock();
        panics.get(location).map(|place| Arc::clone(&place.backtrace))
    }
}

impl CauseCounts {
    fn add(&mut self) {
        self.count += 1;
        let newest = &mut self.intervals[CAUSE_INTERVALS - 1];
        *newest = newest.saturating_add(1);
    }

    /// Moves the history so that its newest interval is `interval`.
    fn advance(&mut self, interval: u64) {
        let steps = usize::try_from(interval.saturating_sub(self.interval)).unwrap_or(usize::MAX).min(CAUSE_INTERVALS);
        if steps > 0 {
            self.intervals.rotate_left(steps);
            self.intervals[CAUSE_INTERVALS - steps..].fill(0);
            self.interval = interval;
        }
    }
}

const fn interval(at: Duration) -> u64 {
    at.as_secs() / CAUSE_INTERVAL.as_secs()
}

/// Maximum number of bytes of a text that take part in the key of a cause.
const KEY_TEXT_MAX_BYTES: usize = 256;

fn key(kind: CauseKind, who: &Who<'_>, reason: &ExitReason) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    hasher.write_u8(kind as u8);
    match who {
        Who::Named(name) => hash_general(&mut hasher, name),
        Who::Type(name) => hasher.write(&name.as_bytes()[..name.len().min(KEY_TEXT_MAX_BYTES)]),
    }
    hasher.write(&std::mem::discriminant(reason).hash_bytes());
    match reason {
        ExitReason::Panic(info) => {
            hasher.write(info.location.as_deref().unwrap_or_default().as_bytes());
            hash_general(&mut hasher, &info.message);
        }
        ExitReason::Other(detail) | ExitReason::ShutdownWith(detail) => hash_general(&mut hasher, detail.text()),
        _ => {}
    }
    hasher.finish()
}

trait HashBytes {
    fn hash_bytes(&self) -> [u8; 8];
}

impl HashBytes for std::mem::Discriminant<ExitReason> {
    fn hash_bytes(&self) -> [u8; 8] {
        FxBuildHasher.hash_one(self).to_ne_bytes()
    }
}

/// Adds a text without its numbers to a hash.
fn hash_general(hasher: &mut impl Hasher, text: &str) {
    let mut rest = &text.as_bytes()[..text.len().min(KEY_TEXT_MAX_BYTES)];
    loop {
        // Whole words are hashed much faster than bytes.
        let (words, number) = rest.split_at(rest.iter().position(u8::is_ascii_digit).unwrap_or(rest.len()));
        hasher.write(words);
        if number.is_empty() {
            return hasher.write_u8(0xff);
        }
        hasher.write_u8(b'*');
        rest = &number[number.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(number.len())..];
    }
}

/// Returns a text with `*` for each number, and `<*>` for each pid.
fn general(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(KEY_TEXT_MAX_BYTES));
    for c in text.chars() {
        if out.len() >= KEY_TEXT_MAX_BYTES {
            out.push('…');
            break;
        }
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('*') {
            out.push('*');
        }
    }
    out.replace("<*.*.*>", "<*>")
}

fn why(kind: CauseKind, reason: &ExitReason) -> String {
    let text = match reason {
        ExitReason::Panic(info) => {
            let message = general(&rusm_text::escaped(&info.message).to_string());
            match &info.location {
                // Keep the line, which is a place and not a figure.
                Some(location) => format!("panic at {location}: {message}"),
                None => format!("panic: {message}"),
            }
        }
        other => general(&other.to_string()),
    };
    if kind == CauseKind::Link { format!("link: {text}") } else { text }
}

/// Returns the last two segments of a path of Rust, without closures and type arguments.
fn short_type(name: &str) -> String {
    let path = name.split('<').next().unwrap_or(name);
    let segments: Vec<&str> = path.split("::").filter(|part| !part.is_empty() && !part.starts_with('{')).collect();
    let shown = &segments[segments.len().saturating_sub(2)..];
    if shown.is_empty() { "process".to_owned() } else { shown.join("::") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::inspect::ended::LastFigures;
    use crate::process::pid::Pid;

    fn ended(slot: u32, at_s: u64, by: EndedBy, reason: ExitReason) -> EndedProcess {
        EndedProcess {
            pid: Pid::local(slot, 1),
            name: None,
            future_type: "",
            parent: None,
            at: Duration::from_secs(at_s),
            reason,
            by,
            figures: LastFigures::default(),
        }
    }

    #[test]
    fn ends_that_differ_in_numbers_only_are_one_cause() {
        let causes = Causes::new(2);
        let fails = |n: u32| ended(n, 1, EndedBy::Itself, ExitReason::other(format!("no row {n} for <0.{n}.1>")));

        for n in [7, 1234, 99] {
            causes.record((n % 2) as usize, &Who::Named(&format!("shard {n}")), fails(n));
        }
        causes.record(0, &Who::Named("shard 7"), ended(7, 1, EndedBy::Itself, ExitReason::other("disk full")));

        let (mut reports, others) = causes.report(Duration::from_secs(2));
        reports.sort_by_key(|report| report.count);
        assert_eq!((reports.len(), others), (2, 0));
        assert_eq!((&*reports[1].who, &*reports[1].why), ("shard *", "no row * for <*>"));
        assert_eq!((reports[1].count, reports[1].kind), (3, CauseKind::Crash));
    }

    #[test]
    fn a_kill_and_an_end_by_a_link_are_causes_of_their_own() {
        let causes = Causes::new(1);
        for by in [EndedBy::Outside, EndedBy::Link(Pid::local(9, 1)), EndedBy::Link(Pid::local(8, 1))] {
            causes.record(0, &Who::Type("a::b::run::{{closure}}"), ended(7, 1, by, ExitReason::Killed));
        }

        let (mut reports, _) = causes.report(Duration::from_secs(1));
        reports.sort_by_key(|report| report.count);

        let shown: Vec<_> = reports.iter().map(|report| (report.kind, &*report.who, &*report.why)).collect();
        assert_eq!(shown, [(CauseKind::Killed, "b::run", "killed"), (CauseKind::Link, "b::run", "link: killed")]);
    }

    #[test]
    fn the_history_moves_with_time_and_forgets_after_a_quarter_of_an_hour() {
        let causes = Causes::new(1);
        let fail = |at_s| ended(1, at_s, EndedBy::Itself, ExitReason::other("x"));
        causes.record(0, &Who::Named("a"), fail(0));
        causes.record(0, &Who::Named("a"), fail(14));
        causes.record(0, &Who::Named("a"), fail(30));

        let intervals = |at_s| causes.report(Duration::from_secs(at_s)).0.remove(0).intervals;

        assert_eq!(intervals(30)[CAUSE_INTERVALS - 3..], [2, 0, 1]);
        assert_eq!(intervals(60)[CAUSE_INTERVALS - 3..], [1, 0, 0]);
        assert_eq!(intervals(2_000).iter().sum::<u32>(), 0);
        assert_eq!(causes.report(Duration::from_mins(150)).0[0].count, 3);
    }

    #[test]
    fn causes_beyond_the_limit_are_counted_together() {
        let causes = Causes::new(1);
        for n in 0..CAUSES_MAX as u32 + 5 {
            let name: String = format!("{n:x}").bytes().map(|byte| char::from(b'g' + byte % 16)).collect();
            let reason = ExitReason::other(format!("{name}{}", "q".repeat(n as usize)));
            causes.record(0, &Who::Named("a"), ended(n, 1, EndedBy::Itself, reason));
        }

        let (reports, others) = causes.report(Duration::from_secs(1));

        assert_eq!(reports.len() as u64 + others, CAUSES_MAX as u64 + 5);
        assert!(reports.len() <= CAUSES_MAX);
    }

    #[test]
    fn a_type_is_shortened_to_its_function() {
        assert_eq!(short_type("kv::writer::run::{{closure}}"), "writer::run");
        assert_eq!(short_type("main::{{closure}}::{{closure}}"), "main");
        assert_eq!(short_type(""), "process");
    }
}
