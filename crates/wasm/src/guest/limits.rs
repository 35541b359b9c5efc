//! Resource limits of a guest.

use crate::config::WasmConfig;
use crate::engine::allocator;

/// Resource limits of a guest, within what its node allows every guest; `None` sets no further limit.
///
/// A guest has the strictest of the limits of its node, its [profile](crate::Profiles), the process that starts it,
/// and, if that is a guest, of that guest itself. A guest that starts others can set only their memory limit. Only
/// `mailbox_capacity` may be larger than that of the node, which is a default.
///
/// ```
/// # mod rusm { pub use rusm_wasm as wasm; }
/// use rusm::wasm::{GuestOptions, GuestLimits};
///
/// let limits = GuestLimits { cpu_max_percent: Some(25), message_max_bytes: Some(4_096), ..GuestLimits::default() };
/// let guest = GuestOptions::default().limits(limits);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestLimits {
    /// Maximum linear memory in bytes, the sum of all its memories. Growing beyond it ends the guest.
    pub memory_max_bytes: Option<u64>,
    /// Maximum number of elements of a table. Growing beyond it fails in the guest.
    pub table_max_elements: Option<u32>,
    /// Maximum number of core instances, of memories and of tables. A guest with more does not start.
    pub parts_max: Option<u32>,
    /// Maximum length of a message that it sends, in bytes. A longer one is an error in the guest.
    pub message_max_bytes: Option<u32>,
    /// Maximum share of one scheduler's time in percent, 1 to 100. After using more, the guest pauses before its next
    /// turn; every turn ends with its epoch at the latest.
    pub cpu_max_percent: Option<u8>,
    /// Maximum number of bytes that it, with all guests that it starts, may have sent and that are not received yet.
    /// At the limit `send` waits and `try-send` fails.
    pub sent_max_bytes: Option<u64>,
    /// Capacity of its mailbox, in messages.
    pub mailbox_capacity: Option<u32>,
}

impl GuestLimits {
    /// Returns the lower value of each limit.
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

/// Effective resource limits of one guest.
#[derive(Clone, Copy)]
pub(crate) struct EffectiveLimits {
    pub(crate) memory_max_bytes: u64,
    pub(crate) table_max_elements: u32,
    pub(crate) parts_max: u32,
    pub(crate) message_max_bytes: u32,
    pub(crate) cpu_max_percent: u8,
    pub(crate) sent_max_bytes: u64,
    /// `None`: the default of the runtime.
    pub(crate) mailbox_capacity: Option<u32>,
}

impl EffectiveLimits {
    /// Applies `limits` to what the node allows.
    pub(crate) fn of(config: &WasmConfig, limits: GuestLimits) -> Self {
        let most = allocator::memory_bytes(config);
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

    /// Returns the limits for guests that a guest with these limits starts.
    pub(crate) fn limits(self) -> GuestLimits {
        GuestLimits {
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
