//! The arrival of the data that a view shows.

use crate::model::Model;

impl Model {
    /// Returns true if the node has sent the supervision tree with the currently open supervisors.
    pub(crate) fn has_tree(&self) -> bool {
        self.tree.is_settled()
    }

    /// Returns true if the node has sent its stores.
    pub(crate) fn has_stores(&self) -> bool {
        self.store.newest().is_some() && self.store.has_rates()
    }

    /// Returns true if the node has sent its topics.
    pub(crate) fn has_topics(&self) -> bool {
        self.topics.newest.is_some()
    }

    /// Returns true if the node has sent shares of its CPU time.
    pub(crate) fn has_cpu(&self) -> bool {
        self.cpu.newest.as_ref().is_some_and(|cpu| cpu.span_ms > 0)
    }

    /// Returns true if the node has sent its schedulers.
    pub(crate) fn has_schedulers(&self) -> bool {
        self.sched.newest.is_some()
    }

    /// Returns true if the node has sent the state of the cluster.
    pub(crate) fn has_cluster(&self) -> bool {
        self.cluster.newest.is_some()
    }

    /// Returns true if the node has sent its servers.
    pub(crate) fn has_servers(&self) -> bool {
        self.serve.newest.is_some()
    }

    /// Returns true if the node has sent its recent events.
    pub(crate) fn has_events(&self) -> bool {
        self.events.newest.is_some()
    }

    /// Returns true if the node has sent its engines.
    pub(crate) fn has_engines(&self) -> bool {
        self.wasm.newest.is_some()
    }

    /// Returns true if the node has sent its tickers and streams.
    pub(crate) fn has_time(&self) -> bool {
        self.time.newest.is_some()
    }

    /// Returns true if the node has sent its results.
    pub(crate) fn has_results(&self) -> bool {
        self.results.newest.is_some()
    }
}
