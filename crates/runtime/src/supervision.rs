//! Behaviours as in OTP: supervisors, servers and state machines; typed actors, pools and pipelines.

pub mod actor;
pub mod pipeline;
pub mod pool;
pub mod registry;
pub mod server;
pub mod state_machine;
pub(crate) mod state_query;
pub mod supervisor;
pub mod table;
pub(crate) mod tasks;
pub(crate) mod tied;
