//! The trace of a runtime: events of few chosen processes, at a bounded rate and for a bounded time.
//!
//! ```text
//!   send, receive, poll ─▶ is a trace on? ─no─▶ nothing                         one branch; see `Local::tracing`
//!                                  └─yes─▶ is this process marked? ─▶ Tracer: rate, end, buffer ─▶ observers
//! ```
//!
//! Processes are marked in their header by a byte derived from their generation, so that nothing has to be reset when
//! a slot is reused; the set of pids decides. The trace ends by itself at the first event or look after its time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::process::pid::Pid;

/// Maximum number of messages whose senders are remembered until they are received.
const SENDERS_MAX: usize = 4_096;
const SECOND_NS: u64 = 1_000_000_000;

/// What happened to a traced process.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::observe::TraceKind;
///
/// fn describe(kind: &TraceKind) -> String {
///     match kind {
///         TraceKind::Poll { took_ns, state } => format!("ran for {} µs, then {state}", took_ns / 1_000),
///         other => format!("{other:?}"),
///     }
/// }
///
/// assert_eq!(describe(&TraceKind::Poll { took_ns: 7_000, state: "receive" }), "ran for 7 µs, then receive");
/// assert_eq!(describe(&TraceKind::Arrive), "Arrive");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// It sent a message.
    Send,
    /// It tried to send a message, and the mailbox was full.
    Full,
    /// A message arrived at its mailbox.
    Arrive,
    /// It took a message out of its mailbox.
    Receive,
    /// It was polled.
    Poll {
        /// Duration, in nanoseconds.
        took_ns: u64,
        /// State after the poll: `runnable`, `call`, `receive`, `send`, `sleep`, `store`, `io`, `exited` or `panicked`.
        state: &'static str,
    },
}

/// An event of a trace.
///
/// ```
/// # use rusm_runtime as rusm;
/// # use std::time::Duration;
/// use rusm::observe::{self, TraceEvent, TraceKind, TraceLimits, TraceScope};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let limits = TraceLimits { per_sec: 1_000, duration: Duration::from_secs(60) };
///
/// let pid = runtime.spawn(|ctx| async move {
///     let _ = ctx.receive_of::<u32>().await;
///     std::future::pending::<()>().await
/// })?;
/// let trace = observe::start_trace(&runtime, pid, TraceScope::Process, limits).expect("it lives");
/// runtime.try_send(pid, 7_u32)?;
/// let arrival = loop {
///     let report = observe::trace_report(&runtime, trace, 0, 100);
///     let found = report.events.into_iter().find(|event: &TraceEvent| event.kind == TraceKind::Arrive);
///     if let Some(event) = found {
///         break event;
///     }
/// };
/// assert_eq!((arrival.pid, arrival.message), (pid, Some(("u32", 0))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// Number of the event in its trace, counted from 1.
    pub seq: u64,
    /// Time since the start of the runtime.
    pub at: Duration,
    /// The traced process.
    pub pid: Pid,
    /// What happened.
    pub kind: TraceKind,
    /// Receiver of a message that it sent, or sender of one that it received, if that is known.
    pub peer: Option<Pid>,
    /// Type and heap bytes of the message.
    pub message: Option<(&'static str, u64)>,
}

/// Reason why a trace has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// Its time is over.
    Time,
    /// It was stopped.
    Stopped,
    /// Another trace has replaced it.
    Replaced,
}

/// Bounds of a trace.
///
/// ```
/// # use rusm_runtime as rusm;
/// # use std::time::Duration;
/// use rusm::observe::{self, TraceEnd, TraceLimits, TraceScope};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let pid = runtime.spawn(|_| std::future::pending::<()>())?;
///
/// let limits = TraceLimits { per_sec: 1_000, duration: Duration::from_millis(1) };
/// let trace = observe::start_trace(&runtime, pid, TraceScope::Process, limits).expect("it lives");
/// std::thread::sleep(Duration::from_millis(2));
/// assert_eq!(observe::trace_report(&runtime, trace, 0, 100).end, Some(TraceEnd::Time));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Maximum number of events per second; further ones are counted and left out.
    pub per_sec: u32,
    /// Time after which the trace ends.
    pub duration: Duration,
}

/// State of a trace, with its events after a number.
///
/// To follow a trace, ask each time for the events after the last one that was seen:
///
/// ```
/// # use rusm_runtime as rusm;
/// # use std::time::Duration;
/// use rusm::observe::{self, TraceLimits, TraceReport, TraceScope};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let limits = TraceLimits { per_sec: 1_000, duration: Duration::from_secs(60) };
///
/// let pid = runtime.spawn(|ctx| async move {
///     loop {
///         let _ = ctx.receive().await;
///     }
/// })?;
/// let trace = observe::start_trace(&runtime, pid, TraceScope::Process, limits).expect("it lives");
/// let mut seen = 0;
/// while seen < 10 {
///     runtime.try_send(pid, "hello")?;
///     let TraceReport { events, left_out, .. } = observe::trace_report(&runtime, trace, seen, 100);
///     assert!(events.iter().all(|event| event.pid == pid) && left_out == 0);
///     seen = events.last().map_or(seen, |event| event.seq);
/// #   std::thread::sleep(Duration::from_millis(1));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceReport {
    /// Number of traced processes.
    pub processes: usize,
    /// Time until it ends.
    pub left: Duration,
    /// Reason of its end; `None` while it runs.
    pub end: Option<TraceEnd>,
    /// Number of events recorded.
    pub recorded: u64,
    /// Number of events left out.
    pub left_out: u64,
    /// Events, oldest first.
    pub events: Vec<TraceEvent>,
}

/// The trace of a runtime.
#[derive(Default)]
pub(crate) struct Tracer {
    on: AtomicBool,
    state: Mutex<TracerState>,
}

#[derive(Default)]
struct TracerState {
    /// Number of the trace, counted from 1.
    id: u64,
    per_sec: u32,
    ends_ns: u64,
    pids: HashSet<Pid>,
    /// Start of the current second of the trace, and number of events in it.
    second_ns: u64,
    in_second: u32,
    /// All events of the trace: at most its rate times its duration.
    events: VecDeque<TraceEvent>,
    recorded: u64,
    left_out: u64,
    /// Senders of messages that wait, by the address of the message.
    senders: HashMap<u64, Pid>,
    end: Option<TraceEnd>,
}

impl Tracer {
    /// Returns true while a trace runs.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Starts a trace, which replaces the previous one. Returns its number.
    pub(crate) fn start(&self, pids: HashSet<Pid>, limits: TraceLimits, now_ns: u64) -> u64 {
        let mut state = self.state.lock();
        *state = TracerState {
            id: state.id + 1,
            per_sec: limits.per_sec,
            ends_ns: now_ns.saturating_add(u64::try_from(limits.duration.as_nanos()).unwrap_or(u64::MAX)),
            pids,
            second_ns: now_ns,
            ..TracerState::default()
        };
        self.on.store(true, Ordering::Relaxed);
        state.id
    }

    /// Adds processes to a running trace, up to `limit` in total.
    pub(crate) fn extend(&self, id: u64, pids: impl IntoIterator<Item = Pid>, limit: usize) {
        let mut state = self.state.lock();
        for pid in pids {
            if state.id == id && state.end.is_none() && state.pids.len() < limit {
                state.pids.insert(pid);
            }
        }
    }

    /// Ends a trace.
    pub(crate) fn stop(&self, id: u64) {
        let mut state = self.state.lock();
        if state.id == id {
            self.finish(&mut state, TraceEnd::Stopped);
        }
    }

    fn finish(&self, state: &mut TracerState, end: TraceEnd) {
        if state.end.is_none() {
            state.end = Some(end);
            state.senders = HashMap::new();
            self.on.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the state of a trace with at most `limit` events after number `seq`.
    pub(crate) fn report(&self, id: u64, seq: u64, limit: usize, now_ns: u64) -> TraceReport {
        let mut state = self.state.lock();
        if state.id != id {
            let end = Some(TraceEnd::Replaced);
            let left = Duration::ZERO;
            return TraceReport { processes: 0, left, end, recorded: 0, left_out: 0, events: Vec::new() };
        }
        if now_ns >= state.ends_ns {
            self.finish(&mut state, TraceEnd::Time);
        }
        let first = state.events.partition_point(|event| event.seq <= seq);
        let left_ns = if state.end.is_some() { 0 } else { state.ends_ns - now_ns };
        TraceReport {
            processes: state.pids.len(),
            left: Duration::from_nanos(left_ns),
            end: state.end,
            recorded: state.recorded,
            left_out: state.left_out,
            events: state.events.iter().skip(first).take(limit).cloned().collect(),
        }
    }

    /// Records an event, unless its process is not traced, the trace is over, or too many events came in this second.
    /// Returns the number of the event.
    pub(crate) fn record(&self, event: TraceEvent, now_ns: u64) -> Option<u64> {
        let mut state = self.state.lock();
        if state.end.is_some() || !state.pids.contains(&event.pid) {
            return None;
        }
        if now_ns >= state.ends_ns {
            self.finish(&mut state, TraceEnd::Time);
            return None;
        }
        let seconds = now_ns.saturating_sub(state.second_ns) / SECOND_NS;
        if seconds > 0 {
            state.second_ns += seconds * SECOND_NS;
            state.in_second = 0;
        }
        if state.in_second >= state.per_sec {
            state.left_out += 1;
            return None;
        }
        state.in_second += 1;
        state.recorded += 1;
        let seq = state.recorded;
        state.events.push_back(TraceEvent { seq, ..event });
        Some(seq)
    }

    /// Marks the send with this number as one that found the mailbox full.
    pub(crate) fn mark_full(&self, seq: u64) {
        let mut state = self.state.lock();
        let at = state.events.partition_point(|event| event.seq < seq);
        if let Some(event) = state.events.get_mut(at).filter(|event| event.seq == seq) {
            event.kind = TraceKind::Full;
        }
    }

    /// Remembers the sender of the message at this address.
    pub(crate) fn remember_sender(&self, address: u64, sender: Pid) {
        let mut state = self.state.lock();
        if state.end.is_none() && state.senders.len() < SENDERS_MAX {
            state.senders.insert(address, sender);
        }
    }

    /// Returns the sender of the message at this address, if it was remembered, and forgets it.
    pub(crate) fn take_sender(&self, address: u64) -> Option<Pid> {
        self.state.lock().senders.remove(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn event(slot: u32) -> TraceEvent {
        let pid = Pid::local(slot, 1);
        TraceEvent { seq: 0, at: Duration::ZERO, pid, kind: TraceKind::Receive, peer: None, message: None }
    }

    fn tracer(per_sec: u32, seconds: u64) -> (Tracer, u64) {
        let tracer = Tracer::default();
        let limits = TraceLimits { per_sec, duration: Duration::from_secs(seconds) };
        let id = tracer.start(HashSet::from([Pid::local(1, 1)]), limits, 0);
        (tracer, id)
    }

    #[test]
    fn each_second_has_its_own_allowance_and_the_rest_is_counted() {
        let (tracer, id) = tracer(3, 10);
        for at in 0..20 {
            tracer.record(event(1), at * 100 * MS);
        }
        tracer.record(event(2), 5 * MS);

        let report = tracer.report(id, 0, 100, 2_000 * MS);

        assert_eq!((report.recorded, report.left_out, report.end), (6, 14, None));
        assert_eq!(report.events.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(tracer.report(id, 4, 1, 0).events[0].seq, 5);
    }

    #[test]
    fn a_trace_ends_by_itself_at_the_first_event_or_look_after_its_time() {
        let (tracer, id) = tracer(10, 2);
        assert!(tracer.is_on() && tracer.record(event(1), 1_999 * MS).is_some());
        assert!(tracer.record(event(1), 2_000 * MS).is_none() && !tracer.is_on());
        assert_eq!(tracer.report(id, 0, 9, 2_000 * MS).end, Some(TraceEnd::Time));

        let next = tracer.start(HashSet::new(), TraceLimits { per_sec: 1, duration: Duration::from_secs(1) }, 0);
        assert_eq!(tracer.report(id, 0, 9, 0).end, Some(TraceEnd::Replaced));
        tracer.stop(id);
        assert!(tracer.is_on(), "an old trace cannot stop a new one");
        assert_eq!(tracer.report(next, 0, 9, 1_000 * MS).end, Some(TraceEnd::Time));
        assert!(!tracer.is_on());
    }

    #[test]
    fn a_refused_send_and_the_sender_of_a_message_are_told() {
        let (tracer, id) = tracer(10, 2);
        let seq = tracer.record(event(1), 0).unwrap();
        tracer.mark_full(seq);
        tracer.remember_sender(64, Pid::local(9, 1));

        assert_eq!(tracer.report(id, 0, 9, 0).events[0].kind, TraceKind::Full);
        assert_eq!((tracer.take_sender(64), tracer.take_sender(64)), (Some(Pid::local(9, 1)), None));
    }
}
