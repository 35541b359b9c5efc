//! The simulated past: the demo is a function of time, so an instant of the past is computed like the present.

use rusm_protocol::{
    Column, EnginesView, Frame, History, HistoryRun, HistorySeries, Past, PastView, ResultsView, ServeView,
    ServerMessage, SortKey, StoresView, TimeView, TopicsView, TreeView, View, ViewWindow, WaitsView,
};

use super::processes::Processes;
use super::{events, guests, results, stores, time, topics, tree, watches};

/// Time between two instants, in milliseconds.
const STEP_MS: u64 = 1000;

/// Returns the instant at or before an uptime, of the node with this seed, these processes and these frames.
pub(super) fn instant(
    asked: PastView,
    now_ms: u64,
    seed: u64,
    mut processes: Processes,
    frame: impl FnOnce(u64) -> Frame,
) -> ServerMessage {
    let at_ms = asked.at_ms.min(now_ms) / STEP_MS * STEP_MS;
    let window = ViewWindow { offset: 0, len: 100 };
    let columns = Column::ALL.to_vec();
    let view = View { columns, sort: SortKey::default(), window, ..View::default() };
    let messages = vec![
        ServerMessage::Tick { frame: Box::new(frame(at_ms)) },
        ServerMessage::Rows(processes.rows(&view, 1, at_ms)),
        ServerMessage::Tree(tree::rows(&TreeView::default(), 1, at_ms)),
        ServerMessage::Waits(watches::waits(&WaitsView::default(), at_ms)),
        ServerMessage::Results(Box::new(results::results(&ResultsView::default(), None, 1, at_ms))),
        ServerMessage::Engines(guests::engines(&EnginesView::default(), 1, at_ms)),
        ServerMessage::Time(time::time(&TimeView::default(), 1, at_ms)),
        ServerMessage::Stores(stores::stores(&StoresView::default(), 1, at_ms)),
        ServerMessage::Topics(topics::topics(&TopicsView::default(), 1, at_ms)),
        ServerMessage::Serve(Box::new(super::network::serve::serve(&ServeView::default(), 1, at_ms))),
        ServerMessage::Events(events::recent(seed, at_ms, 64)),
    ];
    let newest_ms = now_ms / STEP_MS * STEP_MS;
    ServerMessage::Past(Past {
        id: asked.id,
        at_ms,
        oldest_ms: 0,
        newest_ms,
        messages,
        memory_bytes: 3_145_728,
        cost_pct: 0.2,
        ..Past::default()
    })
}

/// Returns the figures up to now, of the node with this run and these frames.
pub(super) fn history(id: u32, now_ms: u64, run: Option<HistoryRun>, frame: impl FnMut(u64) -> Frame) -> ServerMessage {
    let at_ms: Vec<u64> = (0..=now_ms / STEP_MS).map(|step| step * STEP_MS).collect();
    let frames: Vec<_> = at_ms.iter().copied().map(frame).collect();
    let series = |name: &str, of: &dyn Fn(&Frame) -> f64| HistorySeries {
        name: name.to_owned(),
        points: frames.iter().map(of).collect(),
    };
    ServerMessage::History(History {
        id,
        series: vec![
            series("ops_per_sec", &|frame| frame.ops_per_sec),
            series("messages_per_sec", &|frame| frame.observer.messages_per_sec),
            series("cpu_pct", &|frame| frame.observer.cpu_pct),
            series("rss_bytes", &|frame| frame.observer.memory.rss_bytes as f64),
            series("crashed_total", &|frame| frame.observer.crashed_total as f64),
        ],
        runs: run.into_iter().collect(),
        at_ms,
    })
}
