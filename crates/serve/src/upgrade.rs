//! Work of a request's process after the head of its response: to serve a WebSocket, or to stream events.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hyper::upgrade::{OnUpgrade, Upgraded};
use parking_lot::Mutex;
use rusm_runtime::observe::LiveKind;
use rusm_runtime::{Context, Pid};

use crate::shared::Shared;
use crate::stats::ServerStats;
use crate::stats::record::RequestRecord;

/// Serves an upgraded connection.
type Run = Box<dyn FnOnce(Upgraded, &Shared, Arc<Context>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// An extension of a response, from the handler to the process that runs it.
#[derive(Clone)]
pub(crate) struct Continuation(Arc<Mutex<Option<Kind>>>);

enum Kind {
    WebSocket { upgrade: OnUpgrade, run: Run },
    Events,
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation").finish_non_exhaustive()
    }
}

/// Counts a socket or an event stream as long as it exists.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(stats: &'a ServerStats, kind: LiveKind) -> Self {
        let counter = match kind {
            LiveKind::WebSocket => &stats.websockets,
            LiveKind::Request | LiveKind::Events => &stats.event_streams,
        };
        counter.fetch_add(1, Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Continuation {
    pub(crate) fn events() -> Self {
        Self(Arc::new(Mutex::new(Some(Kind::Events))))
    }

    pub(crate) fn websocket(upgrade: OnUpgrade, run: Run) -> Self {
        Self(Arc::new(Mutex::new(Some(Kind::WebSocket { upgrade, run }))))
    }

    /// Runs the WebSocket until its handler returns, or until the drain cuts it.
    pub(crate) async fn run_socket(self, shared: &Arc<Shared>, record: &RequestRecord, context: Arc<Context>) {
        let Some(Kind::WebSocket { upgrade, run }) = self.0.lock().take() else { return };
        // From here on, because its connection counts no more after the upgrade, and a drain waits for both.
        let _counted = Counted::new(&shared.stats, LiveKind::WebSocket);
        let upgraded = match upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => {
                tracing::debug!(%error, "a client has gone before its upgrade");
                return;
            }
        };
        record.set_kind(LiveKind::WebSocket);
        let mut drain = shared.drain_signal();
        tokio::select! {
            () = run(upgraded, shared, context) => {}
            () = drain.deadline() => shared.was_cut.store(true, Relaxed),
        }
    }

    /// Streams events until the stream ends, or its turn in the drain has come.
    pub(crate) async fn stream_events(
        self,
        shared: &Arc<Shared>,
        record: &RequestRecord,
        pid: Pid,
        stream: impl Future<Output = ()>,
    ) {
        record.set_kind(LiveKind::Events);
        let _counted = Counted::new(&shared.stats, LiveKind::Events);
        let mut drain = shared.drain_signal();
        tokio::select! {
            () = stream => {}
            () = drain.turn(u64::from(pid.slot())) => {}
        }
    }
}
