//! Supervisors: processes that start others in order, restart them when they die, and stop them in reverse order.
//!
//! ```text
//!   Exit of a child ─▶ SupervisorState::exited ─▶ nothing │ restart ─▶ stop and start affected children, retry
//!                       (decides, pure)                   │ give up ─▶ stop all, end with `shutdown`
//!   SupervisorRef ─── Request ──▶ start, terminate, restart, delete, which, count
//! ```
//!
//! `SupervisorState` in `state.rs` holds the whole state of a supervisor and decides what to do. The process in `run_loop.rs`
//! carries the decisions out, and `branch.rs` shows the state to observers, who find it in `tree.rs`. While the process starts or stops a child,
//! everything else waits in its mailbox, so no death is lost. The rules are those of OTP's `supervisor`, with two
//! exceptions: children are listed in the order of their start, and restarts may be delayed.

mod backoff;
mod branch;
mod child;
mod child_spec;
mod command;
mod history;
mod nested;
mod policy;
pub(crate) mod queries;
pub(crate) mod restart_pressure;
mod restart_window;
mod run_loop;
mod spec;
mod state;
pub(crate) mod tree;

pub use backoff::Backoff;
pub use child_spec::ChildSpec;
pub use command::{ChildError, ChildInfo, ChildRef, ChildState, Counts, StartChildError, SupervisorRef};
pub use history::ENDS_KEPT;
pub use policy::{AutoShutdown, ChildType, Restart, Shutdown, Strategy};
pub use restart_window::{Intensity, RestartWindow};
pub use spec::{FailedChild, GaveUp, SignificantFailure, SpecError, Supervisor};
