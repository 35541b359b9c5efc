//! Behaviours as in OTP: supervisors, servers and state machines; and typed actors.

pub mod actor;
pub mod server;
pub mod state_machine;
pub mod supervisor;
pub(crate) mod tasks;
