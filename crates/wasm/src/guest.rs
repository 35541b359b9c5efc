//! A guest: how it starts, what it holds, its capabilities, limits and quotas, and how it ends.

pub(crate) mod body;
pub(crate) mod capability;
pub(crate) mod cpu_share;
pub(crate) mod guest_info;
pub(crate) mod inline_bytes;
pub(crate) mod limits;
pub(crate) mod log_rate_limiter;
pub(crate) mod name;
pub(crate) mod quota;
pub(crate) mod sending;
pub(crate) mod shared_budget;
pub(crate) mod spawn;
pub(crate) mod state;
pub(crate) mod traps;
