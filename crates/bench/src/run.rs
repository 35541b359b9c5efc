//! Plans runs, and runs them: headless, repeatedly, or for the observers of a node.

pub(crate) mod error;
pub(crate) mod execution;
pub(crate) mod flags;
pub(crate) mod headless;
pub(crate) mod orphans;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod recipe;
pub(crate) mod runner;
pub(crate) mod series;
