//! The names that most programs with typed actors use: `use rusm::prelude::*`.

#[doc(no_inline)]
pub use crate::actor;
#[doc(no_inline)]
pub use crate::actor::{Actor, Address, Flow, Inbox, Unmatched};
#[doc(no_inline)]
pub use crate::supervisor::{ChildSpec, Restart, Strategy, Supervisor, SupervisorRef};
#[doc(no_inline)]
pub use crate::{
    CallError, Caller, Config, Context, Down, Exit, ExitReason, Handle, Message, MonitorRef, Pid, ReplyTo, Request,
    Runtime,
};
