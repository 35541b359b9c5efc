//! Kinds of memory of a node, in the order of their subsystems.
//!
//! All views and histories use this list, so they show the same numbers under the same names.

use rusm_protocol::{MemorySnapshot, MemoryUses};

macro_rules! kinds {
    ($($name:ident $label:literal $bytes:expr),+ $(,)?) => {
        /// A kind of memory.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum MemoryKind { $($name),+ }

        impl MemoryKind {
            /// All kinds.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns the name of the kind, in at most 18 characters.
            pub(crate) const fn label(self) -> &'static str {
                match self { $(Self::$name => $label),+ }
            }

            /// Returns the bytes of this kind.
            pub(crate) fn bytes(self, memory: &MemorySnapshot) -> u64 {
                let none = MemoryUses::default();
                let uses = memory.uses.as_ref().unwrap_or(&none);
                let bytes: fn(&MemorySnapshot, &MemoryUses) -> u64 = match self { $(Self::$name => $bytes),+ };
                bytes(memory, uses)
            }
        }
    };
}

kinds! {
    ControlBlocks "control blocks" |memory, _| memory.control_block_bytes,
    FreeSlots "free slots" |_, uses| uses.free_slot_bytes,
    Futures "futures" |memory, _| memory.future_bytes,
    SideTables "links and names" |_, uses| uses.side_table_bytes,
    Mailboxes "mailboxes" |memory, _| memory.mailbox_bytes,
    FreeNodes "free message nodes" |_, uses| uses.free_node_bytes,
    Topics "topics" |_, uses| uses.topic_bytes,
    Rings "rings" |_, uses| uses.ring_bytes,
    Timers "timers" |_, uses| uses.timer_bytes,
    Stores "store cache" |_, uses| uses.store_bytes,
    Linear "linear memory" |_, uses| uses.linear_bytes,
    GuestStacks "guest stacks" |_, uses| uses.guest_stack_bytes,
    GuestTables "guest tables" |_, uses| uses.engine_bytes,
    Code "compiled code" |_, uses| uses.code_bytes,
    Observers "observers" |_, uses| uses.observer_bytes,
    Recorder "flight recorder" |_, uses| uses.recorder_bytes,
    Log "log queue" |_, uses| uses.log_bytes,
    ThreadStacks "thread stacks" |_, uses| uses.thread_stack_bytes,
    Program "program, libraries" |_, uses| uses.program_bytes,
    Other "other allocations" |_, uses| uses.other_bytes,
    Allocator "freed, kept" |_, uses| uses.allocator_bytes,
    Rest "the rest" |memory, uses| whole_bytes(memory, uses).saturating_sub(known_bytes(memory)),
}

/// Returns the resident set at the time of the figures.
const fn whole_bytes(memory: &MemorySnapshot, uses: &MemoryUses) -> u64 {
    if uses.resident_bytes == 0 { memory.rss_bytes } else { uses.resident_bytes }
}

fn known_bytes(memory: &MemorySnapshot) -> u64 {
    match memory.uses {
        Some(_) => memory.known_bytes(),
        // An older node reports these three only.
        None => memory.control_block_bytes + memory.future_bytes + memory.mailbox_bytes,
    }
}

/// Returns the kinds that are not empty with their bytes, largest first. Kinds of nearly the same size keep their order,
/// so that the list is calm.
pub(crate) fn shown(memory: &MemorySnapshot) -> Vec<(MemoryKind, u64)> {
    let magnitude = |bytes: u64| ((bytes.max(1) as f64).log2() * 4.0) as u32;
    let kinds = MemoryKind::ALL.iter().map(|&kind| (kind, kind.bytes(memory)));
    let mut kinds: Vec<_> = kinds.filter(|(_, bytes)| *bytes > 0).collect();
    kinds.sort_by_key(|(_, bytes)| std::cmp::Reverse(magnitude(*bytes)));
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_together_are_the_resident_set() {
        let uses = MemoryUses {
            free_slot_bytes: 1,
            side_table_bytes: 2,
            free_node_bytes: 4,
            topic_bytes: 8,
            ring_bytes: 16,
            timer_bytes: 32,
            store_bytes: 64,
            linear_bytes: 128,
            linear_size_bytes: 1 << 40,
            guest_stack_bytes: 256,
            engine_bytes: 512,
            code_bytes: 1 << 10,
            observer_bytes: 1 << 11,
            recorder_bytes: 1 << 21,
            log_bytes: 1 << 12,
            thread_stack_bytes: 1 << 13,
            program_bytes: 1 << 14,
            other_bytes: 1 << 15,
            allocator_bytes: 1 << 16,
            resident_bytes: (1 << 22) - 1,
            age_ms: 7,
            cost_us: 7,
        };
        let memory = MemorySnapshot {
            rss_bytes: 5 << 20,
            control_block_bytes: 1 << 17,
            future_bytes: 1 << 18,
            mailbox_bytes: 1 << 19,
            uses: Some(uses),
            ..MemorySnapshot::default()
        };

        let sum: u64 = MemoryKind::ALL.iter().map(|kind| kind.bytes(&memory)).sum();

        assert_eq!(sum, uses.resident_bytes);
        assert_eq!(MemoryKind::Rest.bytes(&memory), 1 << 20);
        assert_eq!(shown(&memory).len(), MemoryKind::ALL.len());
        assert!(MemoryKind::ALL.iter().all(|kind| kind.label().len() <= 18));
    }

    #[test]
    fn an_older_node_has_the_three_kinds_and_the_rest() {
        let memory = MemorySnapshot { rss_bytes: 100, control_block_bytes: 10, ..MemorySnapshot::default() };

        assert_eq!(shown(&memory), [(MemoryKind::Rest, 90), (MemoryKind::ControlBlocks, 10)]);
    }
}
