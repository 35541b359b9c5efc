//! Internal items for the crates that extend a runtime: the store, the engine of guests, the server, the
//! console and the cluster. Not for applications.
//!
//! This module is the only access of these crates to items that are not public.

pub mod guest;
mod per_scheduler;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

pub use crate::embed::per_scheduler::PerScheduler;
use crate::mailbox::message::Message;
use crate::observe::extensions::servers::HttpServer;
use crate::observe::extensions::stores::Storage;
pub use crate::observe::inspect::histogram::Histogram;
use crate::process::context::Context;
pub use crate::process::context::blocking::run as run_blocking;
use crate::process::error::SpawnError;
use crate::process::exit::Outcome;
use crate::process::pid::Pid;
use crate::process::spawn;
pub use crate::runtime::file_limit::check as check_file_limit;
use crate::runtime::handle::Handle;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler;
use crate::supervision::actor::UnmatchedLog;
use crate::time::realtime::RelativePriority;

/// Maximum number of schedulers of a runtime.
pub const SCHEDULERS_MAX: usize = crate::scheduler::parking::SCHEDULERS_MAX;

/// File descriptors that guests and clients leave to the node.
pub mod descriptors {
    pub use crate::runtime::descriptors::{has_room, unreserved};
}

/// Panics that the caller catches and reports.
pub mod panics {
    pub use crate::process::exit::panic_reason as reason;
    pub use crate::runtime::panic_hook::install;
    pub use crate::runtime::panics::{print_panics, silence_panics, wake};
}

/// Persistence of topics.
pub mod topic {
    pub use crate::topic::journal::durable::{DurableLog, WeakTopic};
    pub use crate::topic::journal::{DeliveryOutcome, FlushPoint, Journal, JournalError, SavedProgress, StoreCallback};
    pub use crate::topic::registry::config::check;
}

/// The network of a runtime: processes of other nodes.
pub mod remote {
    pub use crate::runtime::remote::connection::{AttachError, ConnectError, Remote, attach};
    pub use crate::runtime::remote::frame::{Address, Frame, Kind};
    pub use crate::runtime::remote::inbound::{Delivered, Malformed};
    pub use crate::runtime::remote::network::{LinkFigures, Network, Refused};
    pub use crate::runtime::remote::peers::{Identity, Phase};
    pub use crate::runtime::remote::report::{ClusterName, NetworkPeer, NetworkReport, NodeVitals, SeenVitals};
}

/// Spawns a process that runs next on this scheduler, and that the calling process is about to wait for.
///
/// # Errors
/// [`SpawnError::Limit`] if the process limit is reached.
#[inline]
pub fn spawn_next<B, F>(context: &Context, body: B) -> Result<Pid, SpawnError>
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    context.running().spawn_next(body)
}

/// Spawns a process that serves others: a shutdown ends it after the processes of the application.
///
/// # Errors
/// [`SpawnError`] if the process limit is reached or the runtime is shutting down.
pub fn spawn_service<B, F>(handle: &Handle, body: B) -> Result<Pid, SpawnError>
where
    B: FnOnce(Context) -> F,
    F: Future<Output: Outcome> + Send + 'static,
{
    let (slot, in_progress) = handle.shared.take_slot()?;
    let end_last = |pid| handle.shared.side_tables.end_last(slot, pid);
    Ok(spawn::spawn_external((slot, in_progress), 0, end_last, body))
}

/// Returns true on the threads of schedulers, which must not block.
pub fn is_scheduler_thread() -> bool {
    scheduler::local().is_some()
}

/// A runtime with work that will become ready soon.
#[derive(Clone, Debug, Default)]
pub struct Prewake(Weak<RuntimeShared>);

impl Prewake {
    /// Sets the runtime to that of this thread; returns without effect on other threads.
    pub fn set_to_current(&mut self) {
        if let Some(local) = scheduler::local()
            && self.0.as_ptr() != Arc::as_ptr(&local.shared)
        {
            self.0 = Arc::downgrade(&local.shared);
        }
    }

    /// Wakes a scheduler that waits a moment for the work, because waking a thread takes time.
    pub fn wake(&self) {
        if let Some(shared) = self.0.upgrade() {
            shared.prewake_one();
        }
    }
}

/// Records that the running process waits for a commit of a store, for observers; returns without effect outside of
/// processes.
pub fn record_store_wait() {
    crate::stream::ring::turn::record_store_wait();
}

/// Shows a store to the observers of a runtime, at most once. With `is_own`, processes of the runtime may use it.
pub fn show_store(runtime: &Handle, store: Arc<dyn Storage>, is_own: bool) {
    runtime.shared.stores.show(store, is_own);
}

/// Hides a store from observers and processes.
pub fn hide_store(runtime: &Handle, store: &Arc<dyn Storage>) {
    runtime.shared.stores.hide(store);
}

/// Returns the first store that the processes of a runtime may use.
pub fn own_store(runtime: &Handle) -> Option<Arc<dyn Storage>> {
    runtime.shared.stores.own()
}

/// Shows a server to the observers of a runtime for as long as it exists.
pub fn show_server(runtime: &Handle, server: Weak<dyn HttpServer>) {
    runtime.shared.servers.show(server);
}

/// Writes a line about a failure to standard error, if the events of this thread reach no subscriber of `tracing`: at most 32
/// in a second; the next one tells how many were left out. The caller escapes what comes from outside.
pub fn print_without_subscriber(runtime: &Handle, line: impl FnOnce() -> String) {
    runtime.shared.crash_log.print_without_subscriber(line);
}

/// Logs a message that a process does not handle, if it is the 1st, 10th, 100th, … one; `total` counts them.
pub fn log_unmatched(receiver: &Context, message: &Message, total: &mut u64) {
    UnmatchedLog::warn(receiver, message, total);
}

/// Adds to a counter that only this thread writes.
#[inline]
pub fn bump(counter: &AtomicU64, by: u64) {
    crate::process::header::bump(counter, by);
}

/// Lets this thread run ahead of the schedulers' threads, where the system allows it.
pub fn run_ahead_of_schedulers() {
    RelativePriority::Above.apply();
}
