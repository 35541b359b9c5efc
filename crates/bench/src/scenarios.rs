//! The scenarios, one file each, in a folder for each part of the node that they load; and what several parts share.

pub(crate) mod actors;
pub(crate) mod background;
pub(crate) mod cases;
pub(crate) mod cluster;
pub(crate) mod counters;
pub(crate) mod live_cap;
pub(crate) mod pinned;
pub(crate) mod rings;
pub(crate) mod serving;
pub(crate) mod store;
pub(crate) mod timing;
pub(crate) mod topics;
pub(crate) mod wasm;
