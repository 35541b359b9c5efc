//! One client's view of a process in depth.
//!
//! ```text
//!   view ──▶ InspectSource ── 4 Hz ──▶ counters, bonds, supervisor, watch ──▶ Inspection
//!                 └─ after the end: what the node remembers of it, and the history of the child
//! ```
//!
//! A look reads a bounded part of each relation. Only the children of a process need a scan of all processes, so they
//! are read only for a client that requests them.

mod poll;

use std::time::{Duration, Instant};

use rusm_protocol::{BacktraceInfo, BondPage, BondView, ErrorCode, InspectView, Inspection, Role, ServerMessage};

use crate::encode::inspect as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe::{self, Bond, ChildKey, ProcessRef, Watching};
use rusm_runtime::{Handle, Pid};

/// Number of related processes of each kind that are sent without a page.
const BONDS_SHOWN: usize = 8;
/// Number of children among which a process is searched for in its supervisor.
const CHILDREN_SEARCHED: usize = 1024;
/// Number of looks that search the supervisor for the process.
const SEARCHES_MAX: u32 = 4;
/// Number of processes that the search for the effect of an end follows.
const REACH_MAX: usize = 4096;
/// Interval between two requests for the first messages of a mailbox.
const PREVIEW_EVERY: Duration = Duration::from_millis(900);
/// Interval between two requests for the backtrace of a guest: a deep stack costs its scheduler milliseconds.
const BACKTRACE_EVERY: Duration = Duration::from_secs(1);
/// Shortest time over which rates are computed.
const RATE_SPAN_MIN: Duration = Duration::from_millis(50);

/// A client's view of a process.
pub(crate) struct InspectSource {
    view: InspectView,
    pid: Pid,
    page: Option<(PagedBond, BondView)>,
    /// Supervisor of the process, and the child that it is there.
    child: Option<(Pid, ChildKey)>,
    searches: u32,
    last: Option<MailboxCounts>,
    full_since: Option<Instant>,
    /// Watches the process while it is alive and requested.
    watching: Option<Watching>,
    previewed: Option<Instant>,
    traced: Option<Instant>,
}

#[derive(Clone, Copy)]
enum PagedBond {
    Of(Bond),
    Children,
}

/// Counts of a mailbox at one look.
#[derive(Clone, Copy)]
struct MailboxCounts {
    at: Instant,
    received: u64,
    arrived: u64,
    /// Rates that were sent with these counts.
    rates: Option<(f64, f64)>,
}

impl InspectSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits, or the client may not see values; the error has a line for the client.
    pub(crate) fn new(view: InspectView, role: Role) -> Result<Self, HostError> {
        check_hz(view.hz)?;
        if view.values && role != Role::Control {
            let message = "values of messages need the control role: request types only".to_owned();
            return Err(HostError { code: ErrorCode::Forbidden, message });
        }
        let pid = view.pid.parse().map_err(|error| {
            let shown: String = view.pid.chars().take(64).collect();
            HostError { code: ErrorCode::Malformed, message: format!("{shown:?}: {error}") }
        })?;
        let page = view.page.clone().map(paged).transpose()?;
        Ok(Self {
            view,
            pid,
            page,
            child: None,
            searches: 0,
            last: None,
            full_since: None,
            watching: None,
            previewed: None,
            traced: None,
        })
    }

    /// Returns true if the client sees values of messages.
    pub(crate) const fn shows_values(&self) -> bool {
        self.view.values
    }

    fn bonds(&self, runtime: &Handle) -> Vec<BondPage> {
        let kinds = [Bond::Links, Bond::Monitors, Bond::MonitoredBy];
        let mut pages: Vec<BondPage> = kinds
            .into_iter()
            .filter_map(|bond| {
                let (offset, len) = match &self.page {
                    Some((PagedBond::Of(paged), view)) if *paged == bond => window(view),
                    _ => (0, BONDS_SHOWN),
                };
                let (total, pids) = observe::bonds(runtime, self.pid, bond, offset, len)?;
                (total > 0).then(|| encode::page(runtime, word(bond), total, offset, &pids))
            })
            .collect();
        if let Some((PagedBond::Children, view)) = &self.page {
            let (offset, len) = window(view);
            let (total, pids) = observe::children_of(runtime, self.pid, offset, len);
            pages.push(encode::page(runtime, CHILDREN, total, offset, &pids));
        }
        pages
    }

    /// Finds the child that the process is in its supervisor, once.
    fn find_child(&mut self, runtime: &Handle) {
        if self.child.is_none() && self.searches < SEARCHES_MAX {
            self.searches += 1;
            self.child = observe::child_of(runtime, self.pid, CHILDREN_SEARCHED);
        }
    }

    /// Returns the newest backtrace of a guest, and requests the next one.
    fn backtrace(&mut self, process: &ProcessRef<'_>) -> Option<BacktraceInfo> {
        let body = observe::body_info_of(process)?;
        if self.traced.is_none_or(|at| at.elapsed() >= BACKTRACE_EVERY) {
            self.traced = Some(Instant::now());
            body.request_backtrace();
        }
        body.backtrace().map(|backtrace| encode::backtrace(&backtrace))
    }

    /// Returns messages that arrived and were received per second, since the earlier look.
    fn rates(&mut self, received: u64, len: u64) -> Option<(f64, f64)> {
        let now = MailboxCounts { at: Instant::now(), received, arrived: received + len, rates: None };
        let Some(last) = self.last else {
            self.last = Some(now);
            return None;
        };
        let span = now.at - last.at;
        if span < RATE_SPAN_MIN {
            return last.rates;
        }
        let per_sec = |new: u64, old: u64| new.saturating_sub(old) as f64 / span.as_secs_f64();
        let rates = Some((per_sec(now.arrived, last.arrived), per_sec(now.received, last.received)));
        self.last = Some(MailboxCounts { rates, ..now });
        rates
    }
}

const CHILDREN: &str = "children";

const fn word(bond: Bond) -> &'static str {
    match bond {
        Bond::Links => "links",
        Bond::Monitors => "monitors",
        Bond::MonitoredBy => "monitored_by",
    }
}

fn paged(view: BondView) -> Result<(PagedBond, BondView), HostError> {
    check_rows(view.window)?;
    let bond = match view.bond.as_str() {
        "links" => PagedBond::Of(Bond::Links),
        "monitors" => PagedBond::Of(Bond::Monitors),
        "monitored_by" => PagedBond::Of(Bond::MonitoredBy),
        CHILDREN => PagedBond::Children,
        other => {
            let shown: String = other.chars().take(64).collect();
            let message = format!("unknown bond {shown:?}: expected links, monitors, monitored_by or children");
            return Err(HostError { code: ErrorCode::Unknown, message });
        }
    };
    Ok((bond, view))
}

fn window(view: &BondView) -> (usize, usize) {
    (usize::try_from(view.window.offset).unwrap_or(usize::MAX), view.window.len as usize)
}

impl ViewSource for InspectSource {
    type Data = Inspection;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Inspection {
        let runtime = &node.runtime;
        let pid = self.pid;
        self.find_child(runtime);
        let mut found = Inspection {
            pid: pid.to_string(),
            supervised: self
                .child
                .and_then(|(supervisor, key)| encode::supervised(runtime, supervisor, key))
                .map(Box::new),
            ..Inspection::default()
        };
        let Some(process) = observe::process_ref(runtime, pid) else {
            found.ended = observe::ended(runtime, pid).map(|ended| Box::new(encode::ended(runtime, &ended)));
            return found;
        };
        found.is_alive = true;
        encode::identity(runtime, &process, &mut found);
        found.poll = poll::poll(runtime, pid).map(Box::new);
        found.backtrace = self.backtrace(&process).map(Box::new);
        found.bonds = self.bonds(runtime);
        let mut mailbox = encode::mailbox(runtime, &process);
        let rates = self.rates(process.messages(), mailbox.len);
        (mailbox.in_per_sec, mailbox.out_per_sec) = rates.map(encode::rounded).unzip();
        let is_full = mailbox.capacity > 0 && mailbox.len >= mailbox.capacity;
        self.full_since = if is_full { self.full_since.or_else(|| Some(Instant::now())) } else { None };
        mailbox.full_ms = self.full_since.map(|since| since.elapsed().as_millis() as u64);
        if self.watching.is_none() {
            self.watching = observe::watch(runtime, pid);
        }
        if let Some(watching) = &self.watching
            && let Some(report) = watching.report()
        {
            encode::watched(runtime, &report, &mut mailbox);
            found.delays = Some(Box::new(encode::delays(&report.delays)));
            found.waits = found.waits.or_else(|| encode::waits(runtime, &process, &report, &node.newest().waits));
            let is_due = self.previewed.is_none_or(|at| at.elapsed() >= PREVIEW_EVERY);
            if mailbox.len > 0 && is_due {
                self.previewed = Some(Instant::now());
                watching.request_preview(self.view.values);
            }
        }
        found.mailbox = Some(Box::new(mailbox));
        if self.view.reach {
            found.reach = Some(encode::reach(observe::end_reach(runtime, pid, REACH_MAX)));
        }
        found
    }

    fn message(&self, found: Inspection, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Inspection(Box::new(Inspection { id: self.view.id, seq, at_ms, cost_us, ..found }))
    }
}
