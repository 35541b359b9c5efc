//! Supervisors: sentences 17 to 23 of `docs/semantics.md` by their numbers, hostile children, and the supervision tree
//! that observers see.

mod hostile;
mod losses;
mod nested;
mod requests;
mod restarts;
mod starts;
mod stops;
mod tree;
pub(crate) mod world;
