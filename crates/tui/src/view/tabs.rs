//! The views, one file each.

pub(crate) mod bench;
pub(crate) mod cluster;
pub(crate) mod cpu;
pub(crate) mod events;
pub(crate) mod node;
pub(crate) mod processes;
pub(crate) mod sched;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod time;
pub(crate) mod topics;
pub(crate) mod tree;
pub(crate) mod wasm;
