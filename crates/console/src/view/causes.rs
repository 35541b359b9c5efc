//! One client's view of the causes of failures.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rusm_protocol::{Causes, CausesView, ServerMessage};

use crate::encode::causes as encode;
use crate::host::HostError;
use crate::view::node::Node;
use crate::view::table::window::{ViewMeta, ViewSource, check_hz, check_rows};
use rusm_runtime::observe;

/// Shortest time over which rates are computed.
const RATE_SPAN_MIN: Duration = Duration::from_millis(50);

/// A client's view of the causes.
pub(crate) struct CausesSource {
    view: CausesView,
    /// Counts at the client's previous look.
    last: Option<(Instant, HashMap<u16, u64>)>,
    /// Functions of the backtrace of the selected cause, which is resolved once.
    backtrace: Option<(u16, Vec<String>)>,
}

impl CausesSource {
    /// Creates a view for a client.
    ///
    /// # Errors
    /// If the view is out of its limits; the error has a line for the client.
    pub(crate) fn new(view: CausesView) -> Result<Self, HostError> {
        check_rows(view.window)?;
        check_hz(view.hz)?;
        Ok(Self { view, last: None, backtrace: None })
    }
}

impl ViewSource for CausesSource {
    type Data = Causes;

    fn hz(&self) -> f64 {
        self.view.hz
    }

    fn read(&mut self, node: &Node) -> Causes {
        let (reports, others) = observe::causes(&node.runtime);
        let now = Instant::now();
        let last = self.last.as_ref().filter(|(at, _)| now - *at >= RATE_SPAN_MIN);
        let per_sec = |id: u16, count: u64| {
            let (at, counts) = last?;
            let before = counts.get(&id).copied().unwrap_or(0);
            Some(count.saturating_sub(before) as f64 / (now - *at).as_secs_f64())
        };
        let total = reports.len();
        let (offset, len) = (self.view.window.offset as usize, self.view.window.len as usize);
        let causes = reports.iter().skip(offset).take(len);
        let causes = causes.map(|report| encode::cause(&node.runtime, report, per_sec(report.id, report.count)));
        let found = Causes {
            total: total as u64,
            offset: offset.min(total) as u64,
            failures_total: reports.iter().map(|report| report.count).sum::<u64>() + others,
            others_total: others,
            interval_ms: observe::CAUSE_INTERVAL.as_millis() as u64,
            causes: causes.collect(),
            ..Causes::default()
        };
        let selected = self.view.selected.and_then(|id| reports.iter().find(|report| u32::from(report.id) == id));
        let selected = selected.map(|report| {
            if self.backtrace.as_ref().is_none_or(|(id, _)| *id != report.id) {
                self.backtrace = Some((report.id, encode::backtrace(&node.runtime, &report.last)));
            }
            let backtrace = self.backtrace.as_ref().map(|(_, functions)| functions.clone()).unwrap_or_default();
            // The client may open this process next.
            observe::keep_ended(&node.runtime, report.last.clone());
            Box::new(encode::detail(&node.runtime, report, per_sec(report.id, report.count), backtrace))
        });
        let counts = reports.iter().map(|report| (report.id, report.count)).collect();
        if last.is_some() || self.last.is_none() {
            self.last = Some((now, counts));
        }
        Causes { selected, ..found }
    }

    fn message(&self, found: Causes, meta: ViewMeta) -> ServerMessage {
        let ViewMeta { seq, at_ms, cost_us, .. } = meta;
        ServerMessage::Causes(Causes { id: self.view.id, seq, at_ms, cost_us, ..found })
    }
}
