//! Resource limits of single guests. Processes and profiles have the same keys for them.

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
