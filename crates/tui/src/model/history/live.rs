//! The live state of the views: saved when the past is shown, and restored on the return.

use rusm_protocol::{Frame, Rows};

use crate::model::causes::CausesPane;
use crate::model::detail::DetailPane;
use crate::model::overlay::waits::WaitsPane;
use crate::model::panes::bench::results::ResultsPane;
use crate::model::panes::cluster::ClusterPane;
use crate::model::panes::cpu::CpuPane;
use crate::model::panes::events::EventsPane;
use crate::model::panes::sched::SchedPane;
use crate::model::panes::serve::ServePane;
use crate::model::panes::store::StorePane;
use crate::model::panes::table::TableData;
use crate::model::panes::time::TimePane;
use crate::model::panes::topics::TopicsPane;
use crate::model::panes::tree::TreePane;
use crate::model::panes::wasm::WasmPane;

/// Data of the present, without what the user selected in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveData {
    pub(crate) frame: Option<Box<Frame>>,
    pub(crate) top: Option<Rows>,
    pub(crate) table: TableData,
    pub(crate) events: EventsPane,
    pub(crate) tree: TreePane,
    pub(crate) wasm: WasmPane,
    pub(crate) time: TimePane,
    pub(crate) store: StorePane,
    pub(crate) topics: TopicsPane,
    pub(crate) causes: CausesPane,
    pub(crate) cpu: CpuPane,
    pub(crate) sched: SchedPane,
    pub(crate) serve: ServePane,
    pub(crate) cluster: ClusterPane,
    pub(crate) waits: WaitsPane,
    pub(crate) results: ResultsPane,
    pub(crate) detail: Option<DetailPane>,
}

impl LiveData {
    /// Resets the request states of the views: a new connection does not know their subscriptions.
    pub(crate) fn reset(&mut self) {
        self.events.reset();
        self.tree.reset();
        self.wasm.reset();
        self.time.reset();
        self.store.reset();
        self.topics.reset();
        self.causes.reset();
        self.cpu.reset();
        self.sched.reset();
        self.serve.reset();
        self.cluster.reset();
        self.results.reset();
        self.waits.reset();
    }
}
