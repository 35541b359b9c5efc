//! Contexts in which a key is looked up in the present state.

use crate::model::input::keys::Context;
use crate::model::overlay::Overlay;
use crate::model::panes::bench::results::BenchPane;
use crate::model::tab::Tab;
use crate::model::{Link, Model};

impl Model {
    /// Returns the contexts in which a key is looked up, innermost first.
    pub(crate) fn contexts(&self) -> Vec<Context> {
        if let Some(overlay) = &self.overlay {
            if self.trace.field.is_some() && *overlay == Overlay::Trace {
                return vec![Context::TraceFilter];
            }
            return vec![overlay.context()];
        }
        if self.table.field.is_some() || self.events.filter.field.is_some() || self.serve.filter.field.is_some() {
            return vec![Context::Filter];
        }
        if self.tab == Tab::Bench && self.bench.find.is_some() {
            return vec![Context::Find];
        }
        let mut contexts = Vec::with_capacity(4);
        if self.past.is_on() {
            contexts.push(Context::Past);
        }
        if matches!(self.link, Link::Lost { .. }) {
            contexts.push(Context::Lost);
        }
        match self.tab {
            Tab::Node => contexts.push(Context::Node),
            Tab::Processes if self.detail_in_full() => contexts.extend([Context::Detail, Context::List]),
            Tab::Bench => {
                let context = match self.results.pane {
                    BenchPane::Live => Context::Bench,
                    BenchPane::Result => Context::Result,
                    BenchPane::History => Context::Results,
                };
                contexts.extend([context, Context::List]);
            }
            Tab::Processes => contexts.extend([Context::Processes, Context::List]),
            Tab::Tree => contexts.extend([Context::Tree, Context::List]),
            Tab::Events => contexts.extend([Context::Events, Context::List]),
            Tab::Wasm => contexts.extend([Context::Wasm, Context::List]),
            Tab::Store => contexts.extend([Context::Store, Context::List]),
            Tab::Topics => contexts.extend([Context::Topics, Context::List]),
            Tab::Time | Tab::Sched => contexts.push(Context::List),
            Tab::Cpu => contexts.extend([Context::Cpu, Context::List]),
            Tab::Serve => contexts.extend([Context::Serve, Context::List]),
            Tab::Cluster => contexts.extend([Context::Cluster, Context::List]),
        }
        contexts.push(Context::Global);
        contexts
    }
}
