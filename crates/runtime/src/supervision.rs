//! Behaviours as in OTP: supervisors, servers and state machines; and typed actors.

pub mod actor;
pub mod pool;
pub mod registry;
pub mod server;
pub mod state_machine;
pub mod supervisor;
pub mod table;
pub(crate) mod tasks;
