//! Starting, extending, reading and ending the trace of a runtime.

use std::collections::HashSet;

use crate::observe::diagnosis::trace::{TraceLimits, TraceReport};
use crate::observe::processes::{for_each_process, process_ref, table_parts};
use crate::process::pid::Pid;
use crate::runtime::handle::Handle;

/// Maximum number of processes that one trace follows.
const PROCESSES_MAX: usize = 1_000;

/// The processes that a trace follows.
///
/// ```
/// # use rusm_runtime as rusm;
/// # use std::time::Duration;
/// use rusm::observe::{self, TraceLimits, TraceScope};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let limits = TraceLimits { per_sec: 1_000, duration: Duration::from_secs(60) };
///
/// // Three processes of one kind: their futures have the same type.
/// let spawn = || runtime.spawn(|_| std::future::pending::<()>());
/// let (one, _two, _three) = (spawn()?, spawn()?, spawn()?);
/// let alone = observe::start_trace(&runtime, one, TraceScope::Process, limits).expect("it lives");
/// assert_eq!(observe::trace_report(&runtime, alone, 0, 100).processes, 1);
/// let kind = observe::start_trace(&runtime, one, TraceScope::Kind, limits).expect("it lives");
/// assert_eq!(observe::trace_report(&runtime, kind, 0, 100).processes, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceScope {
    /// The process alone.
    Process,
    /// All processes with the same type of future.
    Kind,
    /// The process, and those that it has spawned.
    Children,
}

/// A trace that was started. It does not end when this is dropped.
///
/// ```
/// # use rusm_runtime as rusm;
/// # use std::time::Duration;
/// use rusm::observe::{self, TraceEnd, TraceHandle, TraceLimits, TraceScope};
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let pid = runtime.spawn(|_| std::future::pending::<()>())?;
///
/// let limits = TraceLimits { per_sec: 1_000, duration: Duration::from_secs(60) };
/// let trace: TraceHandle = observe::start_trace(&runtime, pid, TraceScope::Process, limits).expect("it lives");
/// // … read it with `trace_report` …
/// observe::stop_trace(&runtime, trace);
/// assert_eq!(observe::trace_report(&runtime, trace, 0, 100).end, Some(TraceEnd::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHandle {
    id: u64,
    pid: Pid,
    scope: TraceScope,
    /// Type of the future of the process, for [`TraceScope::Kind`].
    future_type: &'static str,
}

/// Starts a trace of a process and, by `scope`, of others; it replaces a running trace. Returns `None` if the process
/// has ended.
///
/// The scheduler that calls this records from the next turn of a process on. Others begin with their next slice, within
/// a millisecond.
pub fn start_trace(runtime: &Handle, pid: Pid, scope: TraceScope, limits: TraceLimits) -> Option<TraceHandle> {
    let future_type = process_ref(runtime, pid)?.table_slot().future_type();
    let shared = &runtime.shared;
    let id = shared.tracer.start(HashSet::new(), limits, shared.now_ns());
    let trace = TraceHandle { id, pid, scope, future_type };
    add(runtime, trace, HashSet::from([pid]));
    extend_trace(runtime, trace);
    if let Some(local) = shared.local() {
        local.set_instruments();
    }
    Some(trace)
}

/// Adds processes that were spawned since the trace began, up to 1,000 in total. Reads every process, unless the trace
/// is about one alone.
pub fn extend_trace(runtime: &Handle, trace: TraceHandle) {
    if trace.scope == TraceScope::Process {
        return;
    }
    let mut found = HashSet::new();
    for part in 0..table_parts(runtime) {
        for_each_process(runtime, part, |seen| {
            let slot = seen.table_slot();
            let belongs = match trace.scope {
                TraceScope::Process => false,
                TraceScope::Kind => slot.future_type() == trace.future_type,
                TraceScope::Children => slot.parent() == (trace.pid.slot(), trace.pid.generation()),
            };
            if belongs && found.len() < PROCESSES_MAX {
                found.insert(seen.pid());
            }
        });
    }
    add(runtime, trace, found);
}

fn add(runtime: &Handle, trace: TraceHandle, pids: HashSet<Pid>) {
    for pid in &pids {
        if let Some(seen) = process_ref(runtime, *pid) {
            seen.header().mark_traced();
        }
    }
    runtime.shared.tracer.extend(trace.id, pids, PROCESSES_MAX);
}

/// Returns the state of a trace with at most `limit` events after number `seq`.
pub fn trace_report(runtime: &Handle, trace: TraceHandle, seq: u64, limit: usize) -> TraceReport {
    runtime.shared.tracer.report(trace.id, seq, limit, runtime.shared.now_ns())
}

/// Ends a trace, unless another one has replaced it.
pub fn stop_trace(runtime: &Handle, trace: TraceHandle) {
    runtime.shared.tracer.stop(trace.id);
}
