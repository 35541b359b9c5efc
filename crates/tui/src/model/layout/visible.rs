//! The number of rows of each list that fit on the screen.

use crate::model::panes::bench::results::sheet::{self, Paper, SheetLine};
use crate::model::panes::serve::ServeFocus;
use crate::model::selection::first_visible;
use crate::model::{Model, layout};

impl Model {
    /// Returns the number of process rows that the Processes view shows.
    pub(crate) fn visible_rows(&self) -> u16 {
        layout::processes(self.size, self.detail.is_some()).visible()
    }

    /// Returns the width of the process table, in cells.
    pub(crate) fn table_width(&self) -> u16 {
        let table = layout::processes(self.size, self.detail.is_some()).table;
        table.inner().width.saturating_sub(1)
    }

    /// Returns the number of tree rows that the Tree view shows.
    pub(crate) fn visible_tree(&self) -> u16 {
        layout::tree(self.size, self.tree.in_full).visible()
    }

    /// Returns the panels of the Events view.
    pub(crate) fn events_layout(&self) -> layout::EventsLayout {
        let body = layout::body(self.size);
        let lints = self.lints.panel_height(self.frame(), body.width, body.height);
        let causes = self.causes.panel_height(body.height.saturating_sub(lints));
        layout::events(self.size, lints + causes, self.events.has_cursor())
    }

    /// Returns the number of events that the Events view shows.
    pub(crate) fn visible_events(&self) -> usize {
        self.events_layout().visible().into()
    }

    /// Returns the number of modules that the Wasm view shows.
    pub(crate) fn visible_modules(&self) -> u16 {
        layout::wasm(self.size).modules.inner().height.saturating_sub(1)
    }

    /// Returns the index of the first trap that the Wasm view shows, so that the trap under the cursor is visible.
    pub(crate) fn first_trap(&self) -> usize {
        first_visible(self.wasm.trap, layout::wasm(self.size).traps.inner().height.saturating_sub(1))
    }

    /// Returns the panels of the Store view.
    pub(crate) fn store_layout(&self) -> layout::store::StoreLayout {
        layout::store::panels(self.size, self.store.table_count(), self.store.shown().is_some())
    }

    /// Returns the number of buckets that the Store view shows.
    pub(crate) fn visible_buckets(&self) -> u16 {
        self.store_layout().buckets.inner().height.saturating_sub(1)
    }

    /// Returns the number of keys that the Store view shows.
    pub(crate) fn visible_keys(&self) -> u16 {
        self.store_layout().keys.inner().height.saturating_sub(1)
    }

    /// Returns the number of topics that the Topics view shows.
    pub(crate) fn visible_topics(&self) -> u16 {
        layout::topics(self.size).topics.inner().height.saturating_sub(1)
    }

    /// Returns the number of rows that the list of waits shows.
    pub(crate) fn visible_waits(&self) -> u16 {
        layout::body(self.size).height.saturating_sub(4)
    }

    /// Returns the number of events that a trace shows.
    pub(crate) fn visible_trace(&self) -> u16 {
        layout::body(self.size).height.saturating_sub(5)
    }

    /// Returns the number of groups that the CPU view shows.
    pub(crate) fn visible_groups(&self) -> u16 {
        // Below the heading; the runtime and its parts are below the groups.
        layout::zoom::cpu(self).groups.inner().height.saturating_sub(4)
    }

    /// Returns the number of schedulers that the Schedulers view shows.
    pub(crate) fn visible_schedulers(&self) -> u16 {
        layout::zoom::sched(self).schedulers.inner().height.saturating_sub(2)
    }

    /// Returns the panels of the Cluster view.
    pub(crate) fn cluster_layout(&self) -> layout::cluster::ClusterLayout {
        layout::cluster::panels(self.size, self.cluster.newest.as_ref().map_or(0, |newest| newest.total))
    }

    /// Returns the numbers of other nodes and of unique names that the Cluster view shows.
    pub(crate) fn visible_cluster(&self) -> (u16, u16) {
        let layout = self.cluster_layout();
        let rows = |panel: layout::Cells| panel.inner().height.saturating_sub(1);
        (rows(layout.nodes), rows(layout.names))
    }

    /// Returns the panels of the Serve view.
    pub(crate) fn serve_layout(&self) -> layout::serve::ServeLayout {
        let routes = self.serve.newest.as_ref().map_or(0, |newest| newest.total);
        layout::serve::panels(self.size, routes, self.serve.focus == ServeFocus::Routes)
    }

    /// Returns the numbers of routes and of live requests that the Serve view shows.
    pub(crate) fn visible_serve(&self) -> (u16, u16) {
        let layout = self.serve_layout();
        let rows = |panel: layout::Cells| panel.inner().height.saturating_sub(1);
        (rows(layout.routes), rows(layout.requests))
    }

    /// Returns the number of results that the list of results shows.
    pub(crate) fn visible_history(&self) -> u16 {
        layout::body(self.size).inner().height.saturating_sub(1)
    }

    /// Returns the number of lines of a result that are shown.
    pub(crate) fn visible_sheet(&self) -> u16 {
        layout::body(self.size).inner().height
    }

    /// Returns the lines of the result that the node has sent, for the whole width of the screen.
    pub(crate) fn sheet_lines(&self) -> Vec<SheetLine> {
        let width = usize::from(self.size.width.saturating_sub(4));
        let paper = Paper { width, ascii: self.capabilities.ascii, shift: self.results.shift };
        let comparison = self.results.newest.as_ref().and_then(|newest| newest.comparison.as_deref());
        self.results.result().map_or_else(Vec::new, |result| sheet::lines(result, comparison, paper))
    }
}
