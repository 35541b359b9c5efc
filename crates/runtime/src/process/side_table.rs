//! Side tables: what processes hold beside their slots and release when they end: links, monitors, names, groups, a
//! label, timers, watchers, waiting senders.
//!
//! Few processes hold any of these, so a side table is in a box that the control block points to. It is accessed through
//! its guard, see `side_table_guard.rs`.

use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use crate::links::holdings::Holding;
use crate::links::memberships::Memberships;
use crate::links::name::label_of;
use crate::links::signal::{ExitSignal, MonitorRef};
use crate::observe::body_info::BodyInfo;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::small_map::SmallMap;

/// The side table of one process.
#[derive(Default)]
pub(crate) struct SideTable {
    pub(crate) links: SmallMap<Pid, ()>,
    /// Monitors of this process, with their targets.
    pub(crate) monitors: SmallMap<MonitorRef, Pid>,
    /// Monitors that other processes have on this one, with those processes.
    pub(crate) monitored_by: SmallMap<MonitorRef, Pid>,
    /// Exit signals that have not taken effect yet.
    pub(crate) exit_signals: Vec<ExitSignal>,
    /// Information that the body provides to observers.
    pub(crate) body_info: Option<Arc<dyn BodyInfo>>,
    /// Not a rare entry: each request of a server has one.
    pub(crate) label: Option<Arc<str>>,
    pub(crate) rare: Option<Box<RareEntries>>,
}

/// Entries that hardly any process has.
#[derive(Default)]
pub(crate) struct RareEntries {
    pub(crate) names: Vec<Arc<str>>,
    /// Span of the process, while a subscriber of `tracing` wants one.
    pub(crate) span: Option<tracing::Span>,
    pub(crate) watchers: Vec<oneshot::Sender<ExitReason>>,
    pub(crate) waiting_senders: Vec<Waker>,
    /// Wakers of futures inside the process itself.
    pub(crate) inner_wakers: Vec<Waker>,
    pub(crate) root: Option<u64>,
    /// Active timers, with the times at which they fire.
    pub(crate) timers: SmallMap<u64, u64>,
    pub(crate) memberships: Memberships,
    /// Tables and registries that learn of the end of the process.
    pub(crate) holdings: Vec<Arc<dyn Holding>>,
    /// Processes that have introduced themselves to this one; see [`CONFINED`](crate::process::header::CONFINED).
    pub(crate) acquaintances: SmallMap<Pid, ()>,
}

/// Maximum capacity for exit signals that a reset side table keeps.
const SIGNALS_KEPT: usize = 16;

impl SideTable {
    /// Sets the label, truncated to the maximum length. The header must have the flag
    /// [`NAMED`](crate::process::header::NAMED).
    pub(crate) fn set_label(&mut self, label: Arc<str>) {
        self.label = Some(label_of(label));
    }

    /// Clears the side table of an ended process, so that another process can use the box; frees what grew large.
    pub(crate) fn reset(&mut self) {
        // Name every field, so that the compiler reports a forgotten one.
        let Self { links, monitors, monitored_by, exit_signals, body_info, label, rare } = self;
        links.clear();
        monitors.clear();
        monitored_by.clear();
        if exit_signals.capacity() > SIGNALS_KEPT {
            *exit_signals = Vec::new();
        }
        exit_signals.clear();
        *body_info = None;
        *label = None;
        *rare = None;
    }

    pub(crate) fn rare(&mut self) -> &mut RareEntries {
        self.rare.get_or_insert_default()
    }

    /// Returns the active timers of the process, with the times at which they fire.
    pub(crate) fn timers(&mut self) -> &mut SmallMap<u64, u64> {
        &mut self.rare().timers
    }

    pub(crate) fn memberships(&mut self) -> &mut Memberships {
        &mut self.rare().memberships
    }

    /// Returns the time at which a timer fires.
    pub(crate) fn timer(&self, id: u64) -> Option<u64> {
        self.rare.as_ref()?.timers.get(&id).copied()
    }

    /// Removes a timer and returns the time at which it would have fired.
    pub(crate) fn take_timer(&mut self, id: u64) -> Option<u64> {
        self.rare.as_mut()?.timers.remove(&id)
    }
}
