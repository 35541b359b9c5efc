//! Slab allocator for hundreds of thousands of instances: two mappings, one cut into stacks, one cut into memories.
//!
//! ```text
//!   stacks    │g│ headroom of the node │ guest ▲│g│ ...    top of each slot; g is a guard page
//!   memories  │ memory ──▶ grows          │ memory ... │    the guest's code checks the bounds
//! ```
//!
//! The limit of wasmtime's pool is not memory but memory maps: Linux allows 65,530 per process. Here two are enough
//! for any number of instances. Only touched pages use memory. Before Linux 6.13 each guard page takes two more maps;
//! when none are left, stacks get a canary instead, which uses one page of each.

#![expect(unsafe_code, reason = "implements wasmtime's unsafe traits for stacks and memories")]

mod arena;
mod canary;

use std::ops::Range;
use std::sync::Arc;

use wasmtime::{
    Engine, InstanceAllocationStrategy, LinearMemory, MemoryCreator, MemoryType, StackCreator, StackMemory,
};

use rusm_runtime::observe::{MemoryRegion, MemoryUse};

use crate::config::WasmConfig;
use crate::engine::allocator::{self, CodeSettings};
pub(crate) use arena::Arena;

/// Size of a stack with its guard page. Guests may use half of it; the rest is for host calls.
const STACK_SLOT_BYTES: usize = 256 << 10;
/// Size of the guard page, which stops a stack overflow.
const GUARD_BYTES: usize = 4096;
/// Number of stacks that are reused without clearing, while they are in the processor's cache.
const STACKS_KEPT: usize = 256;
/// Address space for the memories of components that have several.
const MEMORY_SPACE_BYTES: u64 = 32 << 40;

/// The two mappings.
pub(crate) struct Slabs {
    pub(crate) stacks: Arc<Arena>,
    pub(crate) memories: Arc<Arena>,
}

impl Slabs {
    /// Reserves the address space, and creates an engine that uses it.
    pub(crate) fn engine(config: &WasmConfig) -> wasmtime::Result<(Engine, Self)> {
        let memory_bytes = allocator::memory_bytes(config);
        let capacity = u64::from(config.capacity);
        let memories = (MEMORY_SPACE_BYTES / memory_bytes).clamp(capacity, capacity * u64::from(config.parts_max));
        let slabs = Self {
            stacks: Arc::new(Arena::new(STACK_SLOT_BYTES, config.capacity as usize, GUARD_BYTES, STACKS_KEPT)?),
            memories: Arc::new(Arena::new(memory_bytes as usize, memories as usize, 0, 0)?),
        };
        // No part of a memory is ever protected, so bounds must not rely on page faults.
        let mut engine = CodeSettings::GROWING.config();
        engine
            .async_stack_size(STACK_SLOT_BYTES - GUARD_BYTES)
            .max_wasm_stack(STACK_SLOT_BYTES / 2)
            .allocation_strategy(InstanceAllocationStrategy::OnDemand)
            .with_host_stack(Arc::new(Stacks(Arc::clone(&slabs.stacks))))
            .with_host_memory(Arc::new(Memories(Arc::clone(&slabs.memories))));
        Ok((Engine::new(&engine)?, slabs))
    }

    /// Returns the address ranges of the mappings.
    pub(crate) fn regions(&self) -> Vec<MemoryRegion> {
        let region = |used_for, arena: &Arena| MemoryRegion {
            used_for,
            start: arena.address(0) as usize,
            bytes: arena.slot_bytes() * arena.slots() as usize,
        };
        vec![region(MemoryUse::LinearMemories, &self.memories), region(MemoryUse::Stacks, &self.stacks)]
    }
}

struct Stacks(Arc<Arena>);

struct Stack {
    arena: Arc<Arena>,
    slot: u32,
}

// SAFETY: each stack is its own slot: readable, writable, page-aligned, with a guard page or canary below.
unsafe impl StackCreator for Stacks {
    fn new_stack(&self, _: usize, _: bool) -> wasmtime::Result<Box<dyn StackMemory>> {
        let Some(slot) = self.0.take() else {
            return Err(wasmtime::format_err!("all {} stacks are in use: raise capacity", self.0.slots()));
        };
        Ok(Box::new(Stack { arena: Arc::clone(&self.0), slot }))
    }
}

// SAFETY: the slot belongs to this stack until the drop.
unsafe impl StackMemory for Stack {
    fn top(&self) -> *mut u8 {
        self.arena.address(self.slot).wrapping_add(STACK_SLOT_BYTES)
    }

    fn range(&self) -> Range<usize> {
        let start = self.arena.address(self.slot) as usize;
        start + GUARD_BYTES..start + STACK_SLOT_BYTES
    }

    fn guard_range(&self) -> Range<*mut u8> {
        let start = self.arena.address(self.slot);
        start..start.wrapping_add(GUARD_BYTES)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.arena.release(self.slot);
    }
}

struct Memories(Arc<Arena>);

struct Memory {
    arena: Arc<Arena>,
    slot: u32,
    bytes: usize,
}

// SAFETY: each memory is its own zeroed slot. The engine is configured to check bounds, so guard pages are not needed.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _: MemoryType,
        minimum: usize,
        _: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let most = self.0.slot_bytes();
        if minimum > most || reserved.is_some_and(|reserved| reserved > most) || guard != 0 {
            return Err(format!("a memory of {minimum} bytes is larger than memory_max_bytes = {most}"));
        }
        let Some(slot) = self.0.take() else {
            return Err(format!("all {} memories are in use: raise capacity", self.0.slots()));
        };
        Ok(Box::new(Memory { arena: Arc::clone(&self.0), slot, bytes: minimum }))
    }
}

// SAFETY: the slot belongs to this memory until the drop, never moves, and has room for its capacity.
unsafe impl LinearMemory for Memory {
    fn byte_size(&self) -> usize {
        self.bytes
    }

    fn byte_capacity(&self) -> usize {
        self.arena.slot_bytes()
    }

    fn grow_to(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if bytes > self.byte_capacity() {
            return Err(wasmtime::format_err!(
                "{bytes} bytes are more than memory_max_bytes = {}",
                self.byte_capacity()
            ));
        }
        self.bytes = bytes;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.arena.address(self.slot)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.arena.release(self.slot);
    }
}
