//! State of each view: what it shows, where its cursor is, and what it requests from the node.

pub(crate) mod bench;
pub(crate) mod cluster;
pub(crate) mod columns;
pub(crate) mod cpu;
pub(crate) mod events;
pub(crate) mod lints;
pub(crate) mod sched;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod subscription;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod topics;
pub(crate) mod tree;
pub(crate) mod wasm;
