//! The observer's state as plain values: no terminal, no socket, no clock.
//!
//! ```text
//!   Msg ──▶ update(&mut Model, Msg, now) ──▶ Vec<Effect>      for the event loop to execute
//!                       │
//!                       ▼
//!               view::draw(&Model)                            draws the model, pure
//! ```
//!
//! Equal messages at equal times give equal models and equal screens. Replay and every screen test depend on this.

pub(crate) mod causes;
pub(crate) mod detail;
pub(crate) mod ends;
pub(crate) mod format;
pub(crate) mod history;
pub mod input;
pub(crate) mod layout;
pub mod message;
mod offers;
pub(crate) mod overlay;
pub mod palette;
pub(crate) mod panes;
pub(crate) mod selection;
pub mod tab;
pub mod update;

use std::collections::VecDeque;
use std::time::Duration;

use rusm_protocol::{Column, Frame, Hello, Role, Rows, ScenarioMeta, SortKey};

use crate::model::detail::{DetailPane, Trail};
use crate::model::history::past::PastPane;
use crate::model::history::{Series, Window};
use crate::model::input::key::Size;
use crate::model::input::keymap::KeyMap;
use crate::model::input::keys::Action;
use crate::model::message::OwnCost;
use crate::model::overlay::Overlay;
use crate::model::overlay::trace::TracePane;
use crate::model::overlay::waits::WaitsPane;
use crate::model::palette::Palette;
use crate::model::panes::bench::Bench;
use crate::model::panes::bench::menu;
use crate::model::panes::bench::results::ResultsPane;
use crate::model::panes::cluster::ClusterPane;
use crate::model::panes::columns;
use crate::model::panes::cpu::CpuPane;
use crate::model::panes::events::EventsPane;
use crate::model::panes::lints::LintsPane;
use crate::model::panes::sched::SchedPane;
use crate::model::panes::serve::ServePane;
use crate::model::panes::store::StorePane;
use crate::model::panes::subscription::Subscription;
use crate::model::panes::table::Table;
use crate::model::panes::time::TimePane;
use crate::model::panes::topics::TopicsPane;
use crate::model::panes::tree::TreePane;
use crate::model::panes::wasm::WasmPane;
use crate::model::tab::Tab;

/// Capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Use ASCII characters only.
    pub ascii: bool,
    /// Use the sixteen colours. Otherwise bold, dim and reverse carry the meaning.
    pub color: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { ascii: false, color: true }
    }
}

/// Initial state of the observer.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each one is a choice of its own")]
pub struct Start {
    /// Capabilities of the terminal.
    pub capabilities: Capabilities,
    /// Size of the terminal.
    pub size: Size,
    /// Initial view.
    pub tab: Tab,
    /// Filter of the process table.
    pub filter: String,
    /// Order of the process table.
    pub sort: SortKey,
    /// Frame rate to request from the node, in hertz.
    pub frame_hz: f64,
    /// Description of the target, for the header and the overlay.
    pub target: String,
    /// True if the data is synthetic.
    pub demo: bool,
    /// True if the data is a recording.
    pub replay: bool,
    /// Scenario to run as soon as the node has sent its greeting.
    pub run: Option<String>,
    /// Profile to select before that run.
    pub profile: Option<String>,
    /// Styles of the roles.
    pub palette: Palette,
    /// Keys of the bindings.
    pub keys: KeyMap,
    /// True if this observer must not change the node.
    pub read_only: bool,
    /// True if the node ends with this observer, which then asks before it quits.
    pub owns_node: bool,
    /// Columns of the process table that the user has chosen; empty for those that fit.
    pub columns: Vec<Column>,
    /// Columns that the user has chosen for guests; empty for those that fit.
    pub guest_columns: Vec<Column>,
    /// Ids of lints that are hidden.
    pub hidden_lints: Vec<String>,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            capabilities: Capabilities::default(),
            size: Size::new(80, 24),
            tab: Tab::Node,
            filter: String::new(),
            sort: columns::BY_CPU,
            frame_hz: 10.0,
            target: String::new(),
            demo: false,
            replay: false,
            run: None,
            profile: None,
            palette: Palette::default(),
            keys: KeyMap::default(),
            read_only: false,
            owns_node: false,
            columns: Vec::new(),
            guest_columns: Vec::new(),
            hidden_lints: Vec::new(),
        }
    }
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Link {
    /// Connecting for the first time, or again after a loss. `since` is the time of the last message from the node.
    Connecting { since: Duration },
    /// Connected.
    Live,
    /// Disconnected; the screen shows old data.
    Lost { since: Duration, reason: String, attempt: u32, retry_at: Duration },
}

/// A notice shown above the footer for some seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) until: Duration,
}

/// Values that are drawn over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Histories {
    /// CPU time of the node, in cores.
    pub(crate) cpu: Series,
    pub(crate) ops: Series,
    pub(crate) msgs: Series,
    pub(crate) schedulers: Vec<Series>,
    /// Resident set, in bytes.
    pub(crate) rss: Series,
    /// Memory in bytes, by [`MemoryKind`](panes::sched::memory_kind::MemoryKind).
    pub(crate) memory: Vec<Series>,
    /// Number of the run that `ops` is about.
    pub(crate) run_id: Option<u64>,
    /// Uptime of the newest frame, in milliseconds.
    pub(crate) newest_ms: Option<u64>,
}

/// The complete state of the observer.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts")]
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(crate) capabilities: Capabilities,
    pub(crate) size: Size,
    pub(crate) tab: Tab,
    pub(crate) tab_before: Option<Tab>,
    /// Panel of the view that covers the screen, from 1; 0 for all panels.
    pub(crate) zoom: usize,
    pub(crate) target: String,
    pub(crate) demo: bool,
    pub(crate) replay: bool,
    pub(crate) frame_hz: f64,
    pub(crate) palette: Palette,
    pub(crate) keys: KeyMap,
    pub(crate) read_only: bool,
    /// True if the node ends with this observer.
    pub(crate) owns_node: bool,
    /// True if other nodes are on the screen too.
    pub(crate) beside: bool,
    pub(crate) link: Link,
    pub(crate) hello: Option<Box<Hello>>,
    /// True after the node of this connection has sent its greeting. `hello` may still be from the previous node.
    pub(crate) greeted: bool,
    pub(crate) frame: Option<Box<Frame>>,
    pub(crate) histories: Histories,
    pub(crate) table: Table,
    /// Busiest processes, for the Node view.
    pub(crate) top: Option<Rows>,
    pub(crate) rows_wanted: bool,
    pub(crate) subscription: Subscription,
    pub(crate) events: EventsPane,
    pub(crate) causes: causes::CausesPane,
    pub(crate) tree: TreePane,
    pub(crate) wasm: WasmPane,
    pub(crate) time: TimePane,
    pub(crate) store: StorePane,
    pub(crate) topics: TopicsPane,
    pub(crate) cpu: CpuPane,
    pub(crate) sched: SchedPane,
    pub(crate) serve: ServePane,
    pub(crate) cluster: ClusterPane,
    pub(crate) results: ResultsPane,
    pub(crate) lints: LintsPane,
    pub(crate) waits: WaitsPane,
    pub(crate) trace: TracePane,
    pub(crate) detail: Option<DetailPane>,
    /// Requests of one process in depth.
    pub(crate) inspect: detail::requests::Requests,
    /// Information of the node about the process that is about to be ended.
    pub(crate) victim: Option<Box<rusm_protocol::Inspection>>,
    /// Places to which backspace returns.
    pub(crate) trail: Trail,
    pub(crate) bench: Bench,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) status: Option<Status>,
    pub(crate) paused: bool,
    pub(crate) past: PastPane,
    pub(crate) window: Window,
    pub(crate) own: OwnCost,
    pub(crate) now: Duration,
    /// Time of arrival of the newest frame.
    pub(crate) frame_received_at: Duration,
    /// Commands not answered yet: id and description.
    pub(crate) commands: VecDeque<(u64, String)>,
    pub(crate) command_ids: u64,
    pub(crate) on_hello: (Option<String>, Option<String>),
    /// Time until which no views are requested, because the node has dropped messages that came too fast.
    pub(crate) requests_paused_until: Option<Duration>,
    dirty: bool,
}

impl Model {
    /// Creates an observer that has received nothing yet.
    pub fn new(start: Start) -> Self {
        Self {
            capabilities: start.capabilities,
            size: start.size,
            tab: start.tab,
            tab_before: None,
            zoom: 0,
            target: start.target,
            demo: start.demo,
            replay: start.replay,
            frame_hz: start.frame_hz,
            palette: start.palette,
            keys: start.keys,
            read_only: start.read_only,
            owns_node: start.owns_node,
            beside: false,
            link: Link::Connecting { since: Duration::ZERO },
            hello: None,
            greeted: false,
            frame: None,
            histories: Histories::default(),
            table: Table::new(start.sort, start.filter).with_columns(start.columns, start.guest_columns),
            top: None,
            rows_wanted: true,
            subscription: Subscription::default(),
            events: EventsPane::default(),
            causes: causes::CausesPane::default(),
            tree: TreePane::default(),
            wasm: WasmPane::default(),
            time: TimePane::default(),
            store: StorePane::default(),
            topics: TopicsPane::default(),
            cpu: CpuPane::default(),
            sched: SchedPane::default(),
            serve: ServePane::default(),
            cluster: ClusterPane::default(),
            results: ResultsPane::default(),
            lints: LintsPane::hiding(start.hidden_lints),
            waits: WaitsPane::default(),
            trace: TracePane::default(),
            detail: None,
            inspect: detail::requests::Requests::default(),
            victim: None,
            trail: Trail::default(),
            bench: Bench::default(),
            overlay: None,
            status: None,
            paused: false,
            past: PastPane::default(),
            window: Window::default(),
            own: OwnCost::default(),
            now: Duration::ZERO,
            frame_received_at: Duration::ZERO,
            commands: VecDeque::new(),
            command_ids: 0,
            on_hello: (start.profile, start.run),
            requests_paused_until: None,
            dirty: true,
        }
    }

    /// Returns true if something on the screen may have changed since the last call.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// Returns true if the node is connected and has sent its greeting.
    pub fn is_live(&self) -> bool {
        self.link == Link::Live && self.hello.is_some()
    }

    /// Shows the same view as another observer: its tab and panel, the time of its charts, and the order and filter of
    /// its process table.
    pub(crate) fn show_like(&mut self, other: &Self) {
        if other.tab != self.tab && self.offers(Action::Show(other.tab)) {
            (self.tab_before, self.tab, self.overlay) = (Some(self.tab), other.tab, None);
        }
        if self.tab == other.tab {
            self.zoom = other.zoom;
        }
        self.window = other.window;
        self.rows_wanted = other.rows_wanted;
        self.table.sort = other.table.sort;
        if other.table.field.is_none() && self.table.filter != other.table.filter {
            self.table.set_filter(other.table.filter.clone());
        }
        self.dirty = true;
    }

    /// Returns the newest frame.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_deref()
    }

    /// Returns the greeting of the node.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_deref()
    }

    /// Returns the newest page of the process table.
    pub fn rows(&self) -> Option<&Rows> {
        self.table.rows.as_ref()
    }

    /// Returns the current view.
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Returns true if the detail pane covers the Processes view.
    pub(crate) fn detail_in_full(&self) -> bool {
        self.detail.as_ref().is_some_and(|pane| pane.in_full)
    }

    /// Returns the number of schedulers of the node.
    pub(crate) fn scheduler_count(&self) -> usize {
        let known = self.sched.newest.as_ref().map_or(0, |newest| newest.total as usize);
        known.max(self.frame.as_ref().map_or(0, |frame| frame.observer.scheduler_load.len()))
    }

    /// Returns the scenarios that the node can run.
    pub(crate) fn scenarios(&self) -> &[ScenarioMeta] {
        self.hello.as_ref().map_or(&[], |hello| &hello.scenarios)
    }

    /// Returns the number of rows in the scenario menu.
    pub(crate) fn menu_len(&self) -> usize {
        menu::rows(self.scenarios(), None).len()
    }

    /// Returns the scenario under the cursor of the Bench view.
    pub(crate) fn selected_scenario(&self) -> Option<&ScenarioMeta> {
        self.scenarios().get(self.bench.selected)
    }

    /// Returns the time since the newest frame if the connection is open but frames are overdue.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let silence = self.now.saturating_sub(self.frame_received_at);
        let is_silent = self.link == Link::Live && self.frame.is_some() && silence >= SILENT_AFTER;
        is_silent.then_some(silence)
    }

    /// Selects a longer or a shorter window of the charts.
    pub(crate) fn zoom(&mut self, steps: isize) {
        self.window = self.window.step(steps);
        self.show_notice(format!("charts show {}", self.window.text()), false);
    }

    /// Returns the newest frame of the node, also while the screen shows an earlier one.
    pub(crate) fn live_frame(&self) -> Option<&Frame> {
        let live = self.past.live.as_ref().map_or(self.frame.as_deref(), |live| live.frame.as_deref());
        self.past.held_frame().or(live)
    }

    /// Returns the uptime at the right end of the charts, in milliseconds.
    pub(crate) fn chart_end_ms(&self) -> u64 {
        self.frame.as_ref().map_or(0, |frame| frame.captured_at_ns / 1_000_000)
    }

    /// Returns the role of this connection, which determines whether it may change anything; `None` before the
    /// greeting.
    pub(crate) fn role(&self) -> Option<Role> {
        self.hello.as_ref().map(|hello| hello.role)
    }
}

/// Frames come several times per second. A node that sends none for this long has stopped or hangs.
const SILENT_AFTER: Duration = Duration::from_secs(3);
