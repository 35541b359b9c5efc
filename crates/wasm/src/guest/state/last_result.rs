//! Result of the last call of a core module, which reads it in steps.

use rusm_runtime::topic::Lease;

use crate::bindings::rusm::runtime::types::{self, Received};
use crate::guest::inline_bytes::ReceivedBytes;
use crate::host::convert;

/// Result of the last call, and the last error text.
#[derive(Default)]
pub(crate) struct LastResult {
    pub(crate) body: ReceivedBytes,
    pub(crate) tag: u64,
    pub(crate) pid: i64,
    pub(crate) reference: u64,
    pub(crate) reply: u64,
    pub(crate) error: String,
    pub(crate) spawned_monitor: u64,
}

impl LastResult {
    /// Stores bytes that the guest requested.
    pub(crate) fn set_bytes(&mut self, body: Vec<u8>, tag: u64) {
        (self.tag, self.pid, self.reference, self.reply) = (tag, 0, 0, 0);
        self.body = body.into();
    }

    /// Stores a message of a topic: its lease, attempt and position.
    pub(crate) fn set_lease(&mut self, lease: Lease) {
        (self.tag, self.pid) = (lease.id.to_u64(), 0);
        (self.reference, self.reply) = (lease.attempt.into(), lease.position);
        self.body = lease.message.into_payload().into();
    }

    /// Stores an error text.
    pub(crate) fn set_error(&mut self, text: String) {
        self.error = text;
    }

    /// Stores received bytes; their kind is 1.
    #[inline]
    pub(crate) fn set_message(&mut self, tag: u64, body: ReceivedBytes) -> i32 {
        (self.tag, self.pid, self.reference, self.reply) = (tag, 0, 0, 0);
        self.body = body;
        1
    }

    /// Stores what was received, and returns its kind.
    pub(crate) fn set_received(&mut self, received: Option<Received>) -> i32 {
        (self.tag, self.pid, self.reference, self.reply) = (0, 0, 0, 0);
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

/// Converts a pid to a number.
pub(crate) const fn number(pid: types::Pid) -> i64 {
    ((pid.generation as i64) << 32) | pid.slot as i64
}
