//! A request from its head to its last byte: what observers see of it, and its line in the access log.
//!
//! ```text
//!   head ──▶ RequestRecord ◀── connection: bytes │ process: pid, kind │ body of the response
//!                 └─ when all of them have let it go: its bytes go to the route, its line to the access log
//! ```
//!
//! The line is an event of the program's log, which escapes it, bounds it, and drops it if the destination is too slow:
//! `INFO rusm::access: GET /users/7 status=200 duration_us=812 head_us=640 bytes_in=88 bytes_out=140 client=…`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::{Method, StatusCode, Version};
use rusm_runtime::Pid;
use rusm_runtime::observe::{LiveKind, LiveRequest};

use crate::connection::reply::Reply;
use crate::request::trace::TraceContext;
use crate::router::RouteRef;

/// Status in the access log of a request whose client has gone before the response. No client receives it.
const CLIENT_CLOSED: u16 = 499;

/// A request from its head to its last byte.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub(crate) method: Method,
    /// Path of the target. The query is not kept: it may contain secrets.
    pub(crate) path: Arc<str>,
    pub(crate) version: Version,
    pub(crate) route: RouteRef,
    pub(crate) peer: SocketAddr,
    pub(crate) started: Instant,
    /// The trace that the client has sent.
    pub(crate) trace: Option<TraceContext>,
    /// True if the request is written to the access log.
    pub(crate) is_logged: bool,
    /// Slot and generation of the process that handles the request; 0 before.
    pub(crate) process: AtomicU64,
    pub(crate) kind: AtomicU8,
    /// Status of the response; 0 before its head.
    pub(crate) status: AtomicU16,
    /// Time from the head of the request to that of the response, in nanoseconds.
    pub(crate) head_ns: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    /// Instant at which the last wait for the request's body ended, in ns since `started`: `u64::MAX` during a wait, and 0
    /// before the first.
    received_ns: AtomicU64,
    pub(crate) is_body_done: AtomicBool,
    pub(crate) is_crashed: AtomicBool,
    /// The response of the process that handles the request.
    pub(crate) reply: Reply,
}

impl RequestRecord {
    pub(crate) fn add_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_out(&self, bytes: u64) {
        self.bytes_out.fetch_add(bytes, Relaxed);
    }

    /// Notes that the handler waits for bytes of the request's body.
    pub(crate) fn note_wait(&self) {
        self.received_ns.store(u64::MAX, Relaxed);
    }

    /// Notes that bytes of the request's body, or its end, have arrived, and counts those that the connection does not count.
    pub(crate) fn note_received(&self, uncounted: u64) {
        self.add_in(uncounted);
        if self.received_ns.load(Relaxed) == u64::MAX {
            self.received_ns.store(self.started.elapsed().as_nanos() as u64, Relaxed);
        }
    }

    /// Returns the instant at which the handler got the bytes of the body that it had waited for: now, if it still waits.
    /// `None` if it has not waited.
    pub(crate) fn received(&self) -> Option<Instant> {
        match self.received_ns.load(Relaxed) {
            0 => None,
            u64::MAX => Some(Instant::now()),
            received => Some(self.started + Duration::from_nanos(received)),
        }
    }

    /// Returns the numbers of bytes received and sent.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes_in.load(Relaxed), self.bytes_out.load(Relaxed))
    }

    pub(crate) fn set_process(&self, pid: Pid) {
        self.process.store(u64::from(pid.slot()) << 32 | u64::from(pid.generation()), Relaxed);
    }

    fn pid(&self) -> Option<Pid> {
        let process = self.process.load(Relaxed);
        (process != 0).then(|| Pid::local((process >> 32) as u32, process as u32))
    }

    pub(crate) fn set_kind(&self, kind: LiveKind) {
        self.kind.store(kind as u8, Relaxed);
    }

    /// Creates the record of a request at the arrival of its head.
    pub(crate) fn new(
        (method, path, version): (Method, Arc<str>, Version),
        route: RouteRef,
        peer: SocketAddr,
        started: Instant,
    ) -> Self {
        Self {
            method,
            path,
            version,
            route,
            peer,
            started,
            trace: None,
            is_logged: false,
            process: AtomicU64::new(0),
            kind: AtomicU8::new(LiveKind::Request as u8),
            status: AtomicU16::new(0),
            head_ns: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            received_ns: AtomicU64::new(0),
            is_body_done: AtomicBool::new(false),
            is_crashed: AtomicBool::new(false),
            reply: Reply::default(),
        }
    }

    fn kind(&self) -> LiveKind {
        let kinds = [LiveKind::Request, LiveKind::WebSocket, LiveKind::Events];
        kinds[usize::from(self.kind.load(Relaxed)) % kinds.len()]
    }

    pub(crate) fn set_answered(&self, status: StatusCode, took: Duration) {
        self.head_ns.store(took.as_nanos() as u64, Relaxed);
        self.status.store(status.as_u16(), Relaxed);
    }

    /// Counts the request as crashed.
    pub(crate) fn set_crashed(&self) {
        if !self.is_crashed.swap(true, Relaxed) {
            self.route.stats().count_crash();
        }
    }

    /// Notes that no byte of the response's body will follow.
    pub(crate) fn set_body_done(&self) {
        self.is_body_done.store(true, Relaxed);
    }

    /// Returns true if the connection's next bytes belong to another request.
    pub(crate) fn is_complete(&self) -> bool {
        let is_upgraded = self.status.load(Relaxed) == StatusCode::SWITCHING_PROTOCOLS.as_u16();
        self.is_body_done.load(Relaxed) && !is_upgraded
    }

    /// Returns the request as observers see it; `None` if it has no process.
    pub(crate) fn live(&self) -> Option<LiveRequest> {
        let (bytes_in, bytes_out) = self.bytes();
        Some(LiveRequest {
            pid: self.pid()?,
            kind: self.kind(),
            is_answered: self.status.load(Relaxed) != 0,
            method: method_name(&self.method),
            route: Arc::clone(self.route.label()),
            path: Arc::clone(&self.path),
            peer: self.peer,
            age: self.started.elapsed(),
            bytes_in,
            bytes_out,
        })
    }
}

fn method_name(method: &Method) -> Cow<'static, str> {
    const USUAL: [Method; 7] =
        [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS, Method::PATCH];
    const NAMES: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
    match USUAL.iter().position(|usual| usual == method) {
        Some(at) => Cow::Borrowed(NAMES[at]),
        None => Cow::Owned(method.as_str().to_owned()),
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        let (bytes_in, bytes_out) = self.bytes();
        self.route.stats().add_bytes(bytes_in, bytes_out);
        if self.is_logged {
            write_line(self);
        }
    }
}

/// Writes the line of a request that has ended.
fn write_line(record: &RequestRecord) {
    let status = match record.status.load(Relaxed) {
        0 => CLIENT_CLOSED,
        status => status,
    };
    let (bytes_in, bytes_out) = record.bytes();
    let (method, path) = (&record.method, &record.path);
    let trace = record.trace.as_ref();
    tracing::info!(
        target: "rusm::access",
        status,
        duration_us = record.started.elapsed().as_micros() as u64,
        head_us = record.head_ns.load(Relaxed) / 1_000,
        bytes_in,
        bytes_out,
        client = %record.peer,
        route = %record.route.label(),
        version = ?record.version,
        pid = record.pid().map(tracing::field::display),
        crashed = record.is_crashed.load(Relaxed).then_some(true),
        trace_id = trace.map(|trace| tracing::field::display(trace.trace_id())),
        span_id = trace.map(|trace| tracing::field::display(trace.span_id())),
        "{method} {path}",
    );
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::router::Route;

    /// Returns the record of a request that has just arrived.
    pub(crate) fn record_of(route: &str, started: Instant) -> RequestRecord {
        let route = Arc::new(Arc::new(Route::new(route, Vec::new(), Box::new(async |_: crate::Request| ()))));
        let head = (Method::GET, "/".into(), Version::HTTP_11);
        RequestRecord::new(head, route, ([127, 0, 0, 1], 1).into(), started)
    }

    #[test]
    fn the_bytes_of_a_socket_belong_to_its_request_for_as_long_as_it_is_open() {
        let record = record_of("GET /ws", Instant::now());

        record.set_answered(StatusCode::SWITCHING_PROTOCOLS, Duration::ZERO);
        record.set_body_done();
        assert!(!record.is_complete());

        record.set_answered(StatusCode::OK, Duration::ZERO);
        assert!(record.is_complete());
    }
}
