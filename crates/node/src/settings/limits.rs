//! Resource limits of single guests. Processes and profiles have the same keys for them.

use rusm_wasm::GuestLimits;

use crate::settings::SettingsError;
use crate::settings::look::Look;

/// Maximum values of these keys, here and in `[limits]`.
pub(super) const MEMORY_MAX_BYTES: u64 = 4 << 30;
pub(super) const TABLE_MAX_ELEMENTS: u64 = 10_000_000;
pub(super) const PARTS_MAX: u64 = 1_000;
pub(super) const MESSAGE_MAX_BYTES: u64 = u32::MAX as u64;

/// The keys of the limits in one section.
pub(super) struct LimitKeys {
    memory_max: &'static str,
    table_max_elements: &'static str,
    parts_max: &'static str,
    message_max: &'static str,
    cpu_max: &'static str,
    sent_max: &'static str,
    mailbox_capacity: &'static str,
}

/// Keys of a process.
pub(super) const OF_PROCESS: LimitKeys = LimitKeys {
    memory_max: "process.memory_max",
    table_max_elements: "process.table_max_elements",
    parts_max: "process.parts_max",
    message_max: "process.message_max",
    cpu_max: "process.cpu_max",
    sent_max: "process.sent_max",
    mailbox_capacity: "process.mailbox_capacity",
};

/// Keys of a profile.
pub(super) const OF_PROFILE: LimitKeys = LimitKeys {
    memory_max: "profile.NAME.memory_max",
    table_max_elements: "profile.NAME.table_max_elements",
    parts_max: "profile.NAME.parts_max",
    message_max: "profile.NAME.message_max",
    cpu_max: "profile.NAME.cpu_max",
    sent_max: "profile.NAME.sent_max",
    mailbox_capacity: "profile.NAME.mailbox_capacity",
};

/// Returns the limits that are set.
pub(super) fn limits(look: &Look<'_>, keys: &LimitKeys) -> Result<GuestLimits, SettingsError> {
    Ok(GuestLimits {
        memory_max_bytes: look.bytes(keys.memory_max, MEMORY_MAX_BYTES)?,
        table_max_elements: look
            .number(keys.table_max_elements, 1, TABLE_MAX_ELEMENTS)?
            .map(|elements| elements as u32),
        parts_max: look.number(keys.parts_max, 1, PARTS_MAX)?.map(|parts| parts as u32),
        message_max_bytes: look.bytes(keys.message_max, MESSAGE_MAX_BYTES)?.map(|bytes| bytes as u32),
        cpu_max_percent: look.number(keys.cpu_max, 1, 100)?.map(|percent| percent as u8),
        sent_max_bytes: look.bytes(keys.sent_max, u64::MAX)?,
        mailbox_capacity: look.number(keys.mailbox_capacity, 1, u64::from(u32::MAX))?.map(|messages| messages as u32),
    })
}
