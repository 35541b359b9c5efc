//! One client's subscription to events and log lines.
//!
//! Each message holds the newest ones as a whole. A message is sent only when there is something new.

use std::time::{Duration, Instant};

use rusm_protocol::{BACKLOG_MAX, EventsRequest, Role, ServerMessage};

use crate::encode::events as encode;
use crate::view::node::Node;
use rusm_runtime::observe;

/// Number of events, and of log lines, in a message.
const SHOWN: usize = 64;

/// A client's subscription.
pub(super) struct EventsWatch {
    request: EventsRequest,
    /// Number of events and lines in the next message.
    next_len: usize,
    next: Instant,
    /// Numbers of events and lines noted when they were last sent.
    sent: Option<(u64, u64)>,
    refusal: Option<String>,
}

impl EventsWatch {
    /// Creates a subscription with a first message that is due at once.
    pub(super) fn new(request: EventsRequest, role: Role, now: Instant) -> Self {
        let next_len = request.backlog.map_or(SHOWN, |backlog| backlog.min(BACKLOG_MAX) as usize);
        let is_refused = request.log && role != Role::Control;
        let refusal = is_refused.then(|| "log lines need the control role: attach with the control token".to_owned());
        Self { request, next_len, next: now, sent: None, refusal }
    }

    /// Returns the next message if it is due and there is something new.
    pub(super) fn message(&mut self, node: &Node, now: Instant, every: Duration) -> Option<ServerMessage> {
        if now < self.next {
            return None;
        }
        self.next = now + every;
        let lines = node.log_lines.as_ref().filter(|_| self.request.log && self.refusal.is_none());
        let (noted, _) = observe::event_counts(&node.runtime);
        let newest = (noted, lines.map_or(0, |lines| lines.noted()));
        if self.sent == Some(newest) {
            return None;
        }
        // First the event in full: the list that is read after it contains it, even if it is noted just now.
        let opened = self.request.open.and_then(|seq| encode::detail(&node.runtime, seq)).map(Box::new);
        let len = std::mem::replace(&mut self.next_len, SHOWN);
        let mut events = encode::events(&node.runtime, len);
        if let Some(lines) = lines {
            (events.log_noted, events.log) = lines.newest(len);
        }
        self.sent = Some(newest);
        events.log_refusal.clone_from(&self.refusal);
        events.opened = opened;
        Some(ServerMessage::Events(events))
    }
}
