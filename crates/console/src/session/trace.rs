//! One client's trace: started and ended on the runtime, and sent as it goes on.
//!
//! The runtime bounds the rate and the time of a trace; this bounds the size and the rate of messages. A trace ends with
//! its session.

use std::time::{Duration, Instant};

use rusm_protocol::{
    ErrorCode, TRACE_PER_SEC_MAX, TRACE_SECONDS_MAX, Trace, TraceEvent as EventInfo, TraceRequest, TraceScope,
};
use rusm_runtime::observe::{self, TraceEnd, TraceEvent, TraceHandle, TraceKind, TraceLimits, TraceReport};
use rusm_runtime::{Handle, Pid};

use crate::budget::{refresh_every, thread_cpu, thread_cpu_since};
use crate::encode::text::cut;
use crate::host::HostError;

/// Interval between two messages.
const EVERY: Duration = Duration::from_millis(200);
/// Interval at which new processes of the kind, or new children, are added.
const EXTEND_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of events in one message: twice those of an interval, so that a client catches up.
const EVENTS_MAX: usize = 400;
/// Maximum length of a type's name, in bytes.
const TYPE_MAX_BYTES: usize = 200;

/// A trace that a client has started.
pub(super) struct ClientTrace {
    runtime: Handle,
    handle: TraceHandle,
    request: TraceRequest,
    /// Number of the last event that was sent.
    sent: u64,
    next: Instant,
    next_extend: Instant,
    /// True once the client knows the end.
    pub(super) is_over: bool,
}

impl ClientTrace {
    /// Starts a trace.
    ///
    /// # Errors
    /// If a bound is out of range or the process has ended; the error has a line for the client.
    pub(super) fn start(runtime: &Handle, pid: Pid, request: TraceRequest) -> Result<Self, HostError> {
        let check = |name: &str, value: u32, max: u32| {
            let is_valid = (1..=max).contains(&value);
            let message = || format!("{name} of {value} is not between 1 and {max}");
            if is_valid { Ok(()) } else { Err(HostError::out_of_range(message())) }
        };
        check("per_sec", request.per_sec, TRACE_PER_SEC_MAX)?;
        check("seconds", request.seconds, TRACE_SECONDS_MAX)?;
        let scope = match request.scope {
            TraceScope::Process => observe::TraceScope::Process,
            TraceScope::Kind => observe::TraceScope::Kind,
            TraceScope::Children => observe::TraceScope::Children,
        };
        let duration = Duration::from_secs(request.seconds.into());
        let limits = TraceLimits { per_sec: request.per_sec, duration };
        let Some(handle) = observe::start_trace(runtime, pid, scope, limits) else {
            return Err(HostError { code: ErrorCode::Unknown, message: format!("no process {pid}") });
        };
        let now = Instant::now();
        let next_extend = now + EXTEND_EVERY;
        Ok(Self { runtime: runtime.clone(), handle, request, sent: 0, next: now, next_extend, is_over: false })
    }

    /// Returns the state and the new events, if a message is due.
    pub(super) fn read(&mut self, now: Instant) -> Option<Trace> {
        if now < self.next || self.is_over {
            return None;
        }
        self.next = now + EVERY;
        if now >= self.next_extend {
            let before = thread_cpu();
            observe::extend_trace(&self.runtime, self.handle);
            self.next_extend = now + refresh_every(EXTEND_EVERY, thread_cpu_since(before));
        }
        let report = observe::trace_report(&self.runtime, self.handle, self.sent, EVENTS_MAX);
        self.sent = report.events.last().map_or(self.sent, |event| event.seq);
        // The rest of the events comes before the end.
        self.is_over = report.end.is_some() && (self.sent == report.recorded || report.events.is_empty());
        let at_ms = observe::uptime(&self.runtime).as_millis() as u64;
        Some(encode(&self.request, report, self.is_over, at_ms))
    }
}

impl Drop for ClientTrace {
    fn drop(&mut self) {
        observe::stop_trace(&self.runtime, self.handle);
    }
}

fn encode(request: &TraceRequest, report: TraceReport, is_over: bool, at_ms: u64) -> Trace {
    let end = report.end.filter(|_| is_over).map(|end| match end {
        TraceEnd::Time => "time",
        TraceEnd::Stopped => "stopped",
        TraceEnd::Replaced => "replaced",
    });
    Trace {
        pid: request.pid.clone(),
        scope: request.scope,
        at_ms,
        processes: report.processes as u64,
        per_sec: request.per_sec,
        left_ms: report.left.as_millis() as u64,
        end: end.map(str::to_owned),
        recorded: report.recorded,
        left_out: report.left_out,
        events: report.events.into_iter().map(event).collect(),
    }
}

fn event(event: TraceEvent) -> EventInfo {
    let TraceEvent { seq, at, pid, kind, peer, message } = event;
    let (word, took_us, state) = match kind {
        TraceKind::Send => ("send", None, None),
        TraceKind::Full => ("full", None, None),
        TraceKind::Arrive => ("arrive", None, None),
        TraceKind::Receive => ("receive", None, None),
        TraceKind::Poll { took_ns, state } => ("poll", Some(took_ns as f64 / 1e3), Some(state.to_owned())),
    };
    EventInfo {
        seq,
        at_us: at.as_micros() as u64,
        pid: pid.to_string(),
        kind: word.to_owned(),
        peer: peer.map(|peer| peer.to_string()),
        message: message.map(|(name, _)| cut(name, TYPE_MAX_BYTES)),
        bytes: message.map(|(_, bytes)| bytes),
        took_us,
        state,
    }
}
