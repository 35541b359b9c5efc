//! Reads the text of `GET /metrics` from other threads of the program, for example to export it.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::view::node::Node;

/// Number of readers that may wait at once.
const WAITING_MAX: usize = 16;

/// Reads the metrics of a node from any thread; cheap to clone.
///
/// ```
/// # mod rusm { pub use rusm_runtime::*; pub use rusm_console as console; }
/// use std::time::Duration;
///
/// use rusm::console::{Console, ConsoleConfig, MetricsReader};
/// # let directory = tempfile::tempdir()?;
/// # let runtime = rusm::Runtime::start(rusm::Config::default())?;
/// # let config = ConsoleConfig { dir: directory.path().join("sockets"), ..ConsoleConfig::named("shop") };
///
/// let console = Console::bind(&runtime, config)?;
/// let metrics: MetricsReader = console.metrics();
/// let text = metrics.text(Duration::from_secs(10)).expect("the console answers");
/// assert!(text.contains("rusm_"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MetricsReader(Sender<SyncSender<String>>);

/// Requests of readers, on the console's thread.
#[derive(Debug)]
pub(crate) struct Requests(Receiver<SyncSender<String>>);

/// Returns a reader and its requests.
pub(crate) fn metrics_reader() -> (MetricsReader, Requests) {
    let (sender, requests) = channel(WAITING_MAX);
    (MetricsReader(sender), Requests(requests))
}

impl MetricsReader {
    /// Returns the text of `GET /metrics`. Waits up to `within` for the console's thread, so it must not be called inside a
    /// process. Returns `None` if the console is closed, does not answer in time, or too
    /// many readers wait.
    pub fn text(&self, within: Duration) -> Option<String> {
        let (answer, text) = sync_channel(1);
        self.0.try_send(answer).ok()?;
        text.recv_timeout(within).ok()
    }
}

impl Requests {
    /// Answers until it is cancelled.
    pub(crate) async fn answer(mut self, node: &Node) {
        while let Some(answer) = self.0.recv().await {
            // A reader may have stopped waiting.
            drop(answer.try_send(node.metrics()));
        }
    }
}
