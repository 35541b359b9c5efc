//! Result of the last call of a core module, which reads it in steps.

use rusm_runtime::topic::Lease;

use crate::bindings::rusm::runtime::types::{self, Received};
use crate::guest::inline_bytes::ReceivedBytes;
use crate::guest::shared_budget::BudgetShare;
use crate::host::convert;

/// Result of the last call, and the last error text.
#[derive(Default)]
pub(crate) struct LastResult {
    pub(crate) body: ReceivedBytes,
    /// Share of the memory of all guests that a long body takes, unless its sender has the charge.
    pub(crate) share: Option<BudgetShare>,
    pub(crate) tag: u64,
    pub(crate) pid: i64,
    pub(crate) reference: u64,
    pub(crate) reply: u64,
    pub(crate) error: String,
    pub(crate) spawned_monitor: u64,
}

impl LastResult {
    /// Releases a long result of a component.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.share.is_some() || !self.body.is_empty() {
            (self.body, self.share) = (ReceivedBytes::default(), None);
        }
    }

    /// Stores bytes that the guest requested.
    pub(crate) fn set_bytes(&mut self, body: Vec<u8>, tag: u64) {
        self.set_message(tag, body.into());
    }

    /// Stores a message of a topic: its lease, attempt and position.
    pub(crate) fn set_lease(&mut self, lease: Lease) {
        (self.tag, self.pid) = (lease.id.to_u64(), 0);
        (self.reference, self.reply, self.share) = (lease.attempt.into(), lease.position, None);
        self.body = lease.message.into_payload().into();
    }

    /// Returns the status of an error, and stores its text for the guest to read.
    pub(crate) fn fail(&mut self, error: types::Error) -> i32 {
        use types::Error;

        let (status, text) = match error {
            Error::Denied(what) => (-1, format!("denied: {what}")),
            Error::NoProcess => (-2, "no such process".to_owned()),
            Error::MailboxFull => (-3, "the mailbox is full".to_owned()),
            Error::TimedOut => (-4, "timed out".to_owned()),
            Error::CalleeExited(reason) => (-5, format!("the callee ended: {}", convert::reason_of(reason))),
            Error::NoSuch(what) => (-6, what),
            Error::Taken(what) => (-7, what),
            Error::Limit(what) => (-8, what),
            Error::Invalid(what) => (-9, what),
        };
        self.error = text;
        status
    }

    /// Stores an error text.
    pub(crate) fn set_error(&mut self, text: String) {
        self.error = text;
    }

    /// Stores received bytes; their kind is 1.
    #[inline]
    pub(crate) fn set_message(&mut self, tag: u64, body: ReceivedBytes) -> i32 {
        (self.tag, self.pid, self.reference, self.reply) = (tag, 0, 0, 0);
        (self.body, self.share) = (body, None);
        1
    }

    /// Stores what was received, and returns its kind.
    pub(crate) fn set_received(&mut self, received: Option<Received>) -> i32 {
        (self.tag, self.pid, self.reference, self.reply, self.share) = (0, 0, 0, 0, None);
        let of_reason = |reason| convert::reason_of(reason).to_string().into_bytes();
        let Some(received) = received else {
            self.body = ReceivedBytes::default();
            return 0;
        };
        let (kind, body) = match received {
            Received::Message(message) => {
                (self.tag, self.reply) = (message.tag, message.reply_to.unwrap_or(0));
                (1, message.body)
            }
            Received::Exit(exit) => {
                self.pid = number(exit.from);
                (2, of_reason(exit.reason))
            }
            Received::Down(down) => {
                (self.pid, self.reference) = (number(down.pid), down.monitor);
                (3, of_reason(down.reason))
            }
            Received::Group(change) => {
                (self.pid, self.reference) = (number(change.pid), change.monitor);
                (if change.joined { 4 } else { 5 }, change.group.into_bytes())
            }
            Received::Opaque(name) => (6, name.into_bytes()),
        };
        self.body = body.into();
        kind
    }
}

/// Converts a pid to a number: 0 for a process of another node.
pub(crate) const fn number(pid: types::Pid) -> i64 {
    if pid.node == 0 { ((pid.generation as i64) << 32) | pid.slot as i64 } else { 0 }
}
