//! Links, monitors and their signals, and groups of processes.

pub(crate) mod groups;
pub(crate) mod signal;
