//! Links, monitors and their signals, groups of processes, and the registry of names.

pub(crate) mod bonds;
pub(crate) mod groups;
pub(crate) mod holdings;
pub(crate) mod memberships;
pub(crate) mod name;
mod name_map;
pub(crate) mod registry;
pub(crate) mod release;
pub(crate) mod signal;
