//! rusm compared with Erlang: the same random scripts run on both sides, and both must do the same.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test, in helpers too")]

mod bug;
mod erlang;
mod links;
mod script;
mod stage;
mod trace;
mod tree_script;
mod tree_stage;
mod trees;
