//! The engine: compiled code and its cache, memory of instances and stacks, and the ticker that preempts guests.

pub(crate) mod address_space;
pub(crate) mod allocator;
pub(crate) mod cache;
pub(crate) mod compiler;
pub(crate) mod concurrent;
pub(crate) mod counters;
pub(crate) mod epoch_ticker;
pub(crate) mod error;
pub(crate) mod fiber;
pub(crate) mod idle_instances;
pub(crate) mod inner;
pub(crate) mod pooled_future;
pub(crate) mod slabs;
mod start;
mod tick_checks;
