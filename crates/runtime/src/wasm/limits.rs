//! How much one guest may use.

use super::config::WasmConfig;
use super::room;

/// How much one guest may use of what its node allows every guest; `None` is all of that.
///
/// A guest is held to the narrowest of what its node says, its [profile](super::Profiles), whoever starts it, and, if that is
/// a guest, what that one is held to. Guests themselves only say how much memory those may have that they start.
///
/// ```
/// use rusm_runtime::wasm::{Guest, Limits};
///
/// let limits = Limits { cpu_max_percent: Some(25), message_max_bytes: Some(4_096), ..Limits::default() };
/// let guest = Guest::default().limits(limits);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory that it may have, in bytes, all its memories together. To grow beyond is its end.
    pub memory_max_bytes: Option<u64>,
    /// Elements that one of its tables may have. To grow beyond fails in the guest.
    pub table_max_elements: Option<u32>,
    /// Core instances, memories and tables that it may consist of. With more it does not start.
    pub parts_max: Option<u32>,
    /// Bytes of one message that it sends. A longer one is an error in the guest.
    pub message_max_bytes: Option<u32>,
    /// The share of one scheduler's time that it may take, in percent, 1 to 100. When it took more, it rests before its next
    /// turn, at the latest at the end of an epoch.
    pub cpu_max_percent: Option<u8>,
    /// Bytes of messages that it, and all that it starts, may have sent that are not received yet. At the limit `send` waits and
    /// `try-send` fails.
    pub sent_max_bytes: Option<u64>,
    /// Messages that its mailbox holds.
    pub mailbox_capacity: Option<u32>,
}

impl Limits {
    /// Of each limit the narrower one.
    #[must_use]
    pub fn narrowed_to(self, other: Self) -> Self {
        fn narrower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            }
        }
        Self {
            memory_max_bytes: narrower(self.memory_max_bytes, other.memory_max_bytes),
            table_max_elements: narrower(self.table_max_elements, other.table_max_elements),
            parts_max: narrower(self.parts_max, other.parts_max),
            message_max_bytes: narrower(self.message_max_bytes, other.message_max_bytes),
            cpu_max_percent: narrower(self.cpu_max_percent, other.cpu_max_percent),
            sent_max_bytes: narrower(self.sent_max_bytes, other.sent_max_bytes),
            mailbox_capacity: narrower(self.mailbox_capacity, other.mailbox_capacity),
        }
    }
}

/// What one guest is held to.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) memory_max_bytes: u64,
    pub(crate) table_max_elements: u32,
    pub(crate) parts_max: u32,
    pub(crate) message_max_bytes: u32,
    pub(crate) cpu_max_percent: u8,
    pub(crate) sent_max_bytes: u64,
    /// `None` is what the runtime gives every process.
    pub(crate) mailbox_capacity: Option<u32>,
}

impl Bounds {
    /// What `limits` leave of what the node allows.
    pub(super) fn of(config: &WasmConfig, limits: Limits) -> Self {
        let most = room::memory_bytes(config);
        Self {
            memory_max_bytes: limits.memory_max_bytes.map_or(most, |bytes| bytes.min(most)),
            table_max_elements: limits
                .table_max_elements
                .map_or(config.table_max_elements, |elements| elements.min(config.table_max_elements)),
            parts_max: limits.parts_max.map_or(config.parts_max, |parts| parts.min(config.parts_max)),
            message_max_bytes: limits
                .message_max_bytes
                .map_or(config.message_max_bytes, |bytes| bytes.min(config.message_max_bytes)),
            cpu_max_percent: limits.cpu_max_percent.map_or(100, |percent| percent.clamp(1, 100)),
            sent_max_bytes: limits
                .sent_max_bytes
                .map_or(config.sent_max_bytes, |bytes| bytes.min(config.sent_max_bytes)),
            mailbox_capacity: limits.mailbox_capacity.map(|messages| messages.max(1)),
        }
    }

    /// What those may have that a guest with these bounds starts.
    pub(super) fn limits(self) -> Limits {
        Limits {
            memory_max_bytes: Some(self.memory_max_bytes),
            table_max_elements: Some(self.table_max_elements),
            parts_max: Some(self.parts_max),
            message_max_bytes: Some(self.message_max_bytes),
            cpu_max_percent: Some(self.cpu_max_percent),
            sent_max_bytes: Some(self.sent_max_bytes),
            mailbox_capacity: self.mailbox_capacity,
        }
    }
}
