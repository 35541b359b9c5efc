//! Links, monitors and their signals, and groups of processes.

pub(crate) mod bonds;
pub(crate) mod groups;
pub(crate) mod memberships;
pub(crate) mod registry;
pub(crate) mod release;
pub(crate) mod signal;
