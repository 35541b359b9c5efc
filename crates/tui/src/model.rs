//! Everything the observer knows, as plain values: no terminal, no socket, no clock.
//!
//! ```text
//!   Msg ──▶ update(&mut Model, Msg, now) ──▶ Vec<Effect>      what the shell is to do
//!                       │
//!                       ▼
//!               view::draw(&Model)                            a pure picture of it
//! ```
//!
//! The same messages at the same times give the same model and the same screen; that is what replay and every test of a
//! screen stand on.

pub(crate) mod bench;
pub(crate) mod columns;
pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod history;
pub mod key;
pub mod keys;
pub(crate) mod layout;
pub(crate) mod line_edit;
pub(crate) mod lints;
pub(crate) mod menu;
pub mod message;
pub(crate) mod overlay;
pub(crate) mod store;
pub(crate) mod subscription;
pub mod tab;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod topics;
pub(crate) mod tree;
pub mod update;
pub(crate) mod wasm;

use std::collections::VecDeque;
use std::time::Duration;

use rusm_protocol::{Frame, Hello, ProcessDetail, Role, Rows, ScenarioMeta, SortKey};

use crate::model::bench::Bench;
use crate::model::events::EventsPane;
use crate::model::history::Series;
use crate::model::key::Size;
use crate::model::keys::Context;
use crate::model::lints::LintsPane;
use crate::model::message::OwnCost;
use crate::model::overlay::Overlay;
use crate::model::store::StorePane;
use crate::model::subscription::Subscription;
use crate::model::tab::Tab;
use crate::model::table::Table;
use crate::model::time::TimePane;
use crate::model::topics::TopicsPane;
use crate::model::tree::TreePane;
use crate::model::wasm::WasmPane;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Only ASCII characters.
    pub ascii: bool,
    /// The sixteen colours; without them bold, dim and reverse carry the meaning.
    pub color: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self { ascii: false, color: true }
    }
}

/// How the observer starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// What the terminal can show.
    pub look: Look,
    /// The terminal's size.
    pub size: Size,
    /// The first view.
    pub tab: Tab,
    /// The filter of the process table.
    pub filter: String,
    /// The order of the process table.
    pub sort: SortKey,
    /// Frames a second to ask the node for.
    pub frame_hz: f64,
    /// What the observer is attached to, for the header and the overlay.
    pub target: String,
    /// Whether the data is made up.
    pub demo: bool,
    /// A scenario to run as soon as the node has said hello.
    pub run: Option<String>,
    /// A profile to choose before it.
    pub profile: Option<String>,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            look: Look::default(),
            size: Size::new(80, 24),
            tab: Tab::Node,
            filter: String::new(),
            sort: SortKey::default(),
            frame_hz: 10.0,
            target: String::new(),
            demo: false,
            run: None,
            profile: None,
        }
    }
}

/// The state of the connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Link {
    /// The first attempt, or one after a loss; `since` is when the node was last heard.
    Connecting { since: Duration },
    /// The node talks to us.
    Live,
    /// No connection; what is on the screen is old.
    Lost { since: Duration, reason: String, attempt: u32, retry_at: Duration },
}

/// A notice that lies above the footer for some seconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    pub(crate) text: String,
    pub(crate) is_error: bool,
    pub(crate) until: Duration,
}

/// The process that is looked into.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DetailPane {
    pub(crate) pid: String,
    pub(crate) process: Option<Box<ProcessDetail>>,
    /// The node said that it is gone.
    pub(crate) gone: bool,
    pub(crate) reds: Series,
}

/// What is drawn over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Histories {
    pub(crate) ops: Series,
    pub(crate) msgs: Series,
    pub(crate) schedulers: Vec<Series>,
}

/// The observer's whole state.
#[expect(clippy::struct_excessive_bools, reason = "they are facts that do not depend on each other")]
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(crate) look: Look,
    pub(crate) size: Size,
    pub(crate) tab: Tab,
    pub(crate) tab_before: Option<Tab>,
    pub(crate) target: String,
    pub(crate) demo: bool,
    pub(crate) frame_hz: f64,
    pub(crate) link: Link,
    pub(crate) hello: Option<Box<Hello>>,
    /// The node of this connection has said who it is; `hello` may be of the one before.
    pub(crate) greeted: bool,
    pub(crate) frame: Option<Box<Frame>>,
    pub(crate) histories: Histories,
    pub(crate) table: Table,
    /// The busiest processes on the Node view.
    pub(crate) top: Option<Rows>,
    pub(crate) rows_wanted: bool,
    pub(crate) subscription: Subscription,
    pub(crate) events: EventsPane,
    pub(crate) tree: TreePane,
    pub(crate) wasm: WasmPane,
    pub(crate) time: TimePane,
    pub(crate) store: StorePane,
    pub(crate) topics: TopicsPane,
    pub(crate) lints: LintsPane,
    pub(crate) detail: Option<DetailPane>,
    pub(crate) bench: Bench,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) status: Option<Status>,
    pub(crate) paused: bool,
    pub(crate) own: OwnCost,
    pub(crate) now: Duration,
    /// When the newest frame came.
    pub(crate) heard: Duration,
    /// Commands that were not yet answered, with what they were about.
    pub(crate) commands: VecDeque<(u64, String)>,
    pub(crate) command_ids: u64,
    pub(crate) on_hello: (Option<String>, Option<String>),
    /// Until when the node is asked for no view: it has dropped what came too fast.
    pub(crate) hushed_until: Option<Duration>,
    dirty: bool,
}

impl Model {
    /// An observer that has heard nothing yet.
    pub fn new(start: Start) -> Self {
        Self {
            look: start.look,
            size: start.size,
            tab: start.tab,
            tab_before: None,
            target: start.target,
            demo: start.demo,
            frame_hz: start.frame_hz,
            link: Link::Connecting { since: Duration::ZERO },
            hello: None,
            greeted: false,
            frame: None,
            histories: Histories::default(),
            table: Table::new(start.sort, start.filter),
            top: None,
            rows_wanted: true,
            subscription: Subscription::default(),
            events: EventsPane::default(),
            tree: TreePane::default(),
            wasm: WasmPane::default(),
            time: TimePane::default(),
            store: StorePane::default(),
            topics: TopicsPane::default(),
            lints: LintsPane::default(),
            detail: None,
            bench: Bench::default(),
            overlay: None,
            status: None,
            paused: false,
            own: OwnCost::default(),
            now: Duration::ZERO,
            heard: Duration::ZERO,
            commands: VecDeque::new(),
            command_ids: 0,
            on_hello: (start.profile, start.run),
            hushed_until: None,
            dirty: true,
        }
    }

    /// Whether something on the screen may have changed since the last call.
    pub fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    /// Whether the node is heard and has said who it is.
    pub fn is_live(&self) -> bool {
        self.link == Link::Live && self.hello.is_some()
    }

    /// The newest frame.
    pub fn frame(&self) -> Option<&Frame> {
        self.frame.as_deref()
    }

    /// What the node said about itself.
    pub fn hello(&self) -> Option<&Hello> {
        self.hello.as_deref()
    }

    /// The newest page of the process table.
    pub fn rows(&self) -> Option<&Rows> {
        self.table.rows.as_ref()
    }

    /// Whether the node has sent the tree of supervisors as it is open now.
    pub(crate) fn knows_tree(&self) -> bool {
        self.tree.is_settled()
    }

    /// The view that is shown.
    pub fn tab(&self) -> Tab {
        self.tab
    }

    /// Where a key is looked up, the innermost first.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        if let Some(overlay) = &self.overlay {
            return vec![overlay.context()];
        }
        if self.table.field.is_some() {
            return vec![Context::Filter];
        }
        let mut contexts = Vec::with_capacity(4);
        if matches!(self.link, Link::Lost { .. }) {
            contexts.push(Context::Lost);
        }
        match self.tab {
            Tab::Node => contexts.push(Context::Node),
            Tab::Bench => contexts.extend([Context::Bench, Context::List]),
            Tab::Processes => contexts.extend([Context::Processes, Context::List]),
            Tab::Tree => contexts.extend([Context::Tree, Context::List]),
            Tab::Events => contexts.extend([Context::Events, Context::List]),
            Tab::Wasm => contexts.extend([Context::Wasm, Context::List]),
            Tab::Store => contexts.extend([Context::Store, Context::List]),
            Tab::Time | Tab::Topics => contexts.push(Context::List),
        }
        contexts.push(Context::Global);
        contexts
    }

    /// Rows of processes that the Processes view shows.
    pub(crate) fn visible_rows(&self) -> u16 {
        layout::processes(self.size, self.detail.is_some()).visible()
    }

    /// Rows of the tree that the Tree view shows.
    pub(crate) fn visible_tree(&self) -> u16 {
        layout::tree(self.size, self.tree.in_full).visible()
    }

    /// Modules that the Wasm view shows.
    pub(crate) fn visible_modules(&self) -> u16 {
        layout::wasm(self.size).modules.inner().height.saturating_sub(1)
    }

    /// The first trap that the Wasm view shows so that the one under the cursor is among them.
    pub(crate) fn first_trap(&self) -> usize {
        bench_scroll(self.wasm.trap, layout::wasm(self.size).traps.inner().height.saturating_sub(1))
    }

    /// Buckets that the Store view shows.
    pub(crate) fn visible_buckets(&self) -> u16 {
        layout::store(self.size).buckets.inner().height.saturating_sub(1)
    }

    /// Keys that it shows.
    pub(crate) fn visible_keys(&self) -> u16 {
        layout::store(self.size).keys.inner().height.saturating_sub(1)
    }

    /// Whether the node has said how its stores do.
    pub(crate) fn knows_stores(&self) -> bool {
        self.store.newest().is_some()
    }

    /// Topics that the Topics view shows.
    pub(crate) fn visible_topics(&self) -> u16 {
        layout::topics(self.size).topics.inner().height.saturating_sub(1)
    }

    /// Whether the node has said which topics it has.
    pub(crate) fn knows_topics(&self) -> bool {
        self.topics.newest.is_some()
    }

    /// Whether the node has said what happened lately.
    pub(crate) fn knows_events(&self) -> bool {
        self.events.newest.is_some()
    }

    /// Whether the node has said how its engines do.
    pub(crate) fn knows_engines(&self) -> bool {
        self.wasm.newest.is_some()
    }

    /// Whether the node has said what tickers and streams it has.
    pub(crate) fn knows_time(&self) -> bool {
        self.time.newest.is_some()
    }

    /// Cells across which the process table is drawn.
    pub(crate) fn table_width(&self) -> u16 {
        let table = layout::processes(self.size, self.detail.is_some()).table;
        table.inner().width.saturating_sub(1)
    }

    /// What the node can run.
    pub(crate) fn scenarios(&self) -> &[ScenarioMeta] {
        self.hello.as_ref().map_or(&[], |hello| &hello.scenarios)
    }

    /// Rows of the menu that they are in.
    pub(crate) fn menu_len(&self) -> usize {
        menu::rows(self.scenarios()).len()
    }

    /// For how long the node has said nothing though the connection stands, once that is longer than a frame may take.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let silence = self.now.saturating_sub(self.heard);
        let is_silent = self.link == Link::Live && self.frame.is_some() && silence >= SILENT_AFTER;
        is_silent.then_some(silence)
    }

    /// Whether the node lets this connection change anything; `None` before it said so.
    pub(crate) fn role(&self) -> Option<Role> {
        self.hello.as_ref().map(|hello| hello.role)
    }
}

/// Frames come several times a second: a node that says nothing for so long is stopped, or hangs.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// The place `steps` further among `count`, around the end.
pub(crate) fn around(at: usize, steps: isize, count: usize) -> usize {
    at.cast_signed().saturating_add(steps).rem_euclid(count.max(1).cast_signed()).cast_unsigned()
}

/// The first scenario that a menu of `height` rows shows so that the selected one is in it.
pub(crate) fn bench_scroll(selected: usize, height: u16) -> usize {
    (selected + 1).saturating_sub(height.into())
}
