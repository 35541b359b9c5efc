//! SDK for guests in Rust: processes of a rusm node.
//!
//! A guest is a function, and [`actor!`] makes it a process:
//!
//! ```ignore
//! fn run(args: &[String]) {
//!     rusm::info!("hello from {} with {args:?}", rusm::pid());
//! }
//!
//! rusm::actor!(run);
//! ```
//!
//! A call that waits suspends this process only. What a guest may do depends on its capabilities: an operation without
//! its capability returns [`Error::Denied`] with the name of the capability. The functions are those of
//! `wit/runtime/rusm.wit`; the guarantees are those of `docs/semantics.md`.

/// Bindings that `wit-bindgen` generates from the world; an implementation detail of [`actor!`].
#[doc(hidden)]
#[allow(clippy::same_length_and_capacity, reason = "in code that the macro generates")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/runtime",
        world: "actor",
        pub_export_macro: true,
        default_bindings_module: "rusm::bindings",
        generate_all,
    });
}

/// Bindings of the world `streaming`; a guest imports only the functions that it calls.
mod streaming {
    wit_bindgen::generate!({
        path: "../../wit/runtime",
        world: "streaming",
        with: { "rusm:runtime/types@0.1.0": crate::bindings::rusm::runtime::types },
    });
}

/// Bindings of the world `publishing`; a guest imports only the functions that it calls.
mod publishing {
    wit_bindgen::generate!({
        path: "../../wit/runtime",
        world: "publishing",
        with: { "rusm:runtime/types@0.1.0": crate::bindings::rusm::runtime::types },
    });
}

/// Bindings of the world `storage`; a guest imports only the functions that it calls.
mod storage {
    wit_bindgen::generate!({ path: "../../wit/store", world: "storage" });
}

pub mod clock;
pub mod crypto;
mod error;
mod exit;
pub mod groups;
pub mod kv;
pub mod log;
mod message;
pub mod names;
mod pid;
mod process;
pub mod random;
mod run;
mod spawn;
pub mod streams;
mod supervisor;
pub mod timers;
pub mod topics;

pub use error::Error;
pub use exit::{Exit, ExitReason};
pub use groups::GroupChange;
pub use message::{
    Message, Received, Tag, call, receive, receive_tagged, receive_tagged_timeout, receive_timeout, send, send_tagged,
    try_send,
};
pub use pid::{ParsePidError, Pid};
pub use process::{
    Down, MonitorRef, demonitor, exit, label, link, monitor, parent, pid, sleep, trap_exits, unlink, yield_now,
};
#[doc(hidden)]
pub use run::start;
pub use run::{Body, Outcome};
pub use spawn::Spawn;
pub use supervisor::{Child, Supervisor};

use std::time::Duration;

/// Converts to whole milliseconds, rounded up so that no wait ends early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
