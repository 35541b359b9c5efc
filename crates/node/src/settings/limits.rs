//! Resource limits of single guests. Processes and profiles have the same keys for them.

use rusm_wasm::{GuestLimits, WasmConfig};

use crate::settings::error::SettingsError;
use crate::settings::size::format_bytes;
use crate::settings::value::{Number, Size};

/// Largest value of the settings that have 32 bits.
pub(super) const U32_MAX: u64 = u32::MAX as u64;

// Values of the limits, here and in `[limits]`.
pub(super) type MemoryMax = Size<{ 4 << 30 }>;
pub(super) type TableMax = Number<1, 10_000_000>;
pub(super) type PartsMax = Number<1, 1_000>;
pub(super) type MessageMax = Size<U32_MAX>;
pub(super) type SentMax = Size<{ u64::MAX }>;

/// Defines a section that has the limits of a guest among its keys. (`#[serde(flatten)]` would accept unknown keys.)
macro_rules! section_with_limits {
    ($(#[$attribute:meta])* struct $name:ident { $($field:ident: $type:ty,)+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct $name {
            $($field: $type,)+
            memory_max: Option<$crate::settings::limits::MemoryMax>,
            table_max_elements: Option<$crate::settings::limits::TableMax>,
            parts_max: Option<$crate::settings::limits::PartsMax>,
            message_max: Option<$crate::settings::limits::MessageMax>,
            cpu_max: Option<$crate::settings::value::Number<1, 100>>,
            sent_max: Option<$crate::settings::limits::SentMax>,
            mailbox_capacity: Option<$crate::settings::value::Number<1, { $crate::settings::limits::U32_MAX }>>,
        }

        impl $name {
            /// Returns the limits that are set.
            fn limits(&self) -> rusm_wasm::GuestLimits {
                rusm_wasm::GuestLimits {
                    memory_max_bytes: self.memory_max.map(|bytes| bytes.0),
                    table_max_elements: self.table_max_elements.map(|elements| elements.0 as u32),
                    parts_max: self.parts_max.map(|parts| parts.0 as u32),
                    message_max_bytes: self.message_max.map(|bytes| bytes.0 as u32),
                    cpu_max_percent: self.cpu_max.map(|percent| percent.0 as u8),
                    sent_max_bytes: self.sent_max.map(|bytes| bytes.0),
                    mailbox_capacity: self.mailbox_capacity.map(|messages| messages.0 as u32),
                }
            }
        }
    };
}
pub(super) use section_with_limits;

/// Writes the value of a limit for people.
type Format = fn(u64) -> String;

/// Refuses a limit of the section `key` of `origin` above that of the section `above`: it would be ignored.
pub(super) fn check_within(
    own: &GuestLimits,
    (key, origin): (&str, &str),
    most: &GuestLimits,
    above: &str,
) -> Result<(), SettingsError> {
    let wide = |value: Option<u32>| value.map(u64::from);
    let count = |count: u64| count.to_string();
    let limits: [(_, _, _, Format); 7] = [
        ("memory_max", own.memory_max_bytes, most.memory_max_bytes, format_bytes),
        ("table_max_elements", wide(own.table_max_elements), wide(most.table_max_elements), count),
        ("parts_max", wide(own.parts_max), wide(most.parts_max), count),
        ("message_max", wide(own.message_max_bytes), wide(most.message_max_bytes), format_bytes),
        ("cpu_max", own.cpu_max_percent.map(u64::from), most.cpu_max_percent.map(u64::from), count),
        ("sent_max", own.sent_max_bytes, most.sent_max_bytes, format_bytes),
        ("mailbox_capacity", wide(own.mailbox_capacity), wide(most.mailbox_capacity), count),
    ];
    for (limit, own, most, text) in limits {
        let (Some(own), Some(most)) = (own, most) else { continue };
        if own > most {
            // Sizes are rounded.
            let text = if text(own) == text(most) { count } else { text };
            return Err(SettingsError::AboveLimit {
                key: format!("{key}.{limit}"),
                origin: origin.to_owned(),
                value: text(own),
                limit: format!("{above}.{limit}"),
                most: text(most),
            });
        }
    }
    Ok(())
}

/// Returns the limits of all guests; the memory in whole pages.
pub(super) const fn limits_of_all(wasm: &WasmConfig) -> GuestLimits {
    GuestLimits {
        memory_max_bytes: Some(wasm.memory_max_bytes.next_multiple_of(0x1_0000)),
        table_max_elements: Some(wasm.table_max_elements),
        parts_max: Some(wasm.parts_max),
        message_max_bytes: Some(wasm.message_max_bytes),
        cpu_max_percent: None,
        sent_max_bytes: Some(wasm.sent_max_bytes),
        mailbox_capacity: None,
    }
}

/// Raises the limits of all guests to those of the only one, which the command line describes.
pub(super) fn raised_to(limits: &GuestLimits, wasm: WasmConfig) -> WasmConfig {
    fn higher<T: Ord>(most: T, limit: Option<T>) -> T {
        match limit {
            Some(limit) => most.max(limit),
            None => most,
        }
    }
    WasmConfig {
        memory_max_bytes: higher(wasm.memory_max_bytes, limits.memory_max_bytes),
        table_max_elements: higher(wasm.table_max_elements, limits.table_max_elements),
        parts_max: higher(wasm.parts_max, limits.parts_max),
        message_max_bytes: higher(wasm.message_max_bytes, limits.message_max_bytes),
        sent_max_bytes: higher(wasm.sent_max_bytes, limits.sent_max_bytes),
        ..wasm
    }
}
