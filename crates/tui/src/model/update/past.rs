//! Shows instants of the past: moves the cursor, applies recorded instants to the views, and returns to the present.

use rusm_protocol::{ClientMessage, History, HistoryView, Past, Rows, ServerMessage, View, ViewWindow};

use super::histories;
use crate::model::history::live::LiveData;
use crate::model::history::past::{Comparison, Purpose};
use crate::model::history::rows;
use crate::model::message::Effect;
use crate::model::overlay::Overlay;
use crate::model::panes::columns;
use crate::model::tab::Tab;
use crate::model::{Link, Model};

/// Feature of a node that has a recorder.
const FEATURE: &str = "past";

/// Returns the request for the figures of the last minutes, if the node has a recorder.
pub(super) fn history_request(model: &Model) -> Option<ClientMessage> {
    is_recorded(model).then_some(ClientMessage::History(HistoryView { id: 1 }))
}

fn is_recorded(model: &Model) -> bool {
    model.has_feature(FEATURE)
}

/// Shows an instant, once the node has sent it.
pub(super) fn go(model: &mut Model, at_ms: u64) {
    if !is_recorded(model) {
        return model.show_notice("this node records no past: its version is older, or its recorder is off", true);
    }
    let oldest_ms = model.past.span.map_or(0, |(oldest, _)| oldest);
    if at_ms < oldest_ms {
        model.show_notice("the recorder has nothing older", false);
    }
    freeze(model);
    model.past.cursor_ms = Some(at_ms.max(oldest_ms));
    model.dirty = true;
}

/// Shows the instant of the next crash, or of the one before the cursor.
pub(super) fn go_to_crash(model: &mut Model, is_forward: bool) {
    let from_ms = model.past.cursor_ms.or_else(|| frame_ms(model)).unwrap_or(0);
    if let Some(at_ms) = model.past.crash(from_ms, is_forward) {
        go(model, at_ms);
    } else {
        let side = if is_forward { "later" } else { "earlier" };
        model.show_notice(format!("no {side} crash is recorded"), false);
    }
}

/// Freezes the screen.
pub(super) fn freeze(model: &mut Model) {
    if !model.paused {
        model.paused = true;
        model.past.frozen_on = model.tab;
    }
}

/// Shows again what the views showed before the past. Returns the messages that were held since then,
/// with the view of each.
pub(super) fn thaw(model: &mut Model) -> Vec<(Tab, ServerMessage)> {
    if let Some(live) = model.past.live.take() {
        put_back(model, *live);
    }
    model.paused = false;
    model.dirty = true;
    model.past.close()
}

/// Forgets the past of another node.
pub(super) fn forget(model: &mut Model) {
    if model.past.is_on() {
        model.paused = false;
    }
    model.past.forget();
}

/// Opens the list of what changed in the minute before the cursor.
pub(super) fn compare(model: &mut Model) {
    if !is_recorded(model) {
        return model.show_notice("this node records no past: there is nothing to compare with", true);
    }
    let at_ms = model.past.cursor_ms.unwrap_or(u64::MAX);
    model.past.comparison = Some(Comparison { at_ms, ..Comparison::default() });
    model.overlay = Some(Overlay::Compare { scroll: 0 });
}

/// Requests the instant that is needed now.
pub(super) fn requests(model: &mut Model, effects: &mut Vec<Effect>) {
    if !matches!(model.overlay, Some(Overlay::Compare { .. })) {
        model.past.comparison = None;
    }
    if model.link == Link::Live && model.greeted && model.requests_paused_until.is_none() {
        effects.extend(model.past.request(model.now).map(Effect::Send));
    }
}

/// Holds a live message while the screen is frozen; returns any other.
pub(super) fn hold(model: &mut Model, message: ServerMessage) -> Option<ServerMessage> {
    match &message {
        ServerMessage::Tick { frame } => {
            model.frame_received_at = model.now;
            model.bench.observe(frame);
            histories::remember(model, frame);
        }
        ServerMessage::Rows(rows) => {
            if !model.subscription.answers(rows) {
                return None;
            }
        }
        // The question before a process is ended needs it now.
        ServerMessage::Inspection(_)
            if model.past.rows.is_none() || matches!(model.overlay, Some(Overlay::Kill { .. })) =>
        {
            return Some(message);
        }
        ServerMessage::Inspection(_)
        | ServerMessage::Events(_)
        | ServerMessage::Tree(_)
        | ServerMessage::Engines(_)
        | ServerMessage::Time(_)
        | ServerMessage::Stores(_)
        | ServerMessage::Topics(_)
        | ServerMessage::Causes(_)
        | ServerMessage::Cpu(_)
        | ServerMessage::Schedulers(_)
        | ServerMessage::Serve(_)
        | ServerMessage::Cluster(_)
        | ServerMessage::Results(_)
        | ServerMessage::Waits(_)
        | ServerMessage::Process { .. } => {}
        _ => return Some(message),
    }
    let tab = model.tab;
    model.past.hold(tab, message);
    // The header shows how far the present is ahead.
    model.dirty |= model.past.is_on();
    None
}

/// Handles an answer about an instant.
///
/// # Errors
/// Returns why the node cannot show the past.
pub(super) fn answer(model: &mut Model, past: Past) -> Result<(), String> {
    let Some(purpose) = model.past.answered(&past) else { return Ok(()) };
    model.dirty = true;
    if let Some(refusal) = past.refusal {
        return Err(refusal);
    }
    match purpose {
        Purpose::Show if model.past.is_on() => apply(model, past),
        Purpose::Show => {}
        Purpose::After => {
            if let Some(comparison) = &mut model.past.comparison {
                comparison.after = Some(past);
            }
        }
        Purpose::Before => {
            if let Some(comparison) = &mut model.past.comparison {
                comparison.before = Some(past);
            }
        }
    }
    Ok(())
}

/// Shows a recorded instant in all views.
fn apply(model: &mut Model, past: Past) {
    if model.past.live.is_none() {
        model.past.live = Some(Box::new(live_data(model)));
    }
    model.past.shown_ms = Some(past.at_ms);
    model.past.rows = None;
    model.frame = None;
    model.events.forget();
    model.tree.forget_rows();
    model.wasm.newest = None;
    model.causes.newest = None;
    model.cpu.newest = None;
    model.sched.newest = None;
    model.serve.forget_answers();
    model.cluster.newest = None;
    model.time.newest = None;
    model.store.forget_stores();
    model.topics.forget_topics();
    model.waits.newest = None;
    model.results.newest = None;
    for message in past.messages {
        match message {
            ServerMessage::Tick { frame } => model.frame = Some(frame),
            ServerMessage::Rows(rows) => model.past.rows = Some(rows),
            ServerMessage::Events(events) => model.events.take(events),
            ServerMessage::Tree(rows) => {
                let visible = model.visible_tree();
                model.tree.show(rows, visible, model.now);
            }
            ServerMessage::Engines(engines) => {
                let visible = model.visible_modules();
                model.wasm.show(engines, visible);
            }
            ServerMessage::Causes(causes) => model.causes.newest = Some(causes),
            ServerMessage::Schedulers(schedulers) => model.sched.newest = Some(schedulers),
            ServerMessage::Cpu(cpu) => model.cpu.newest = Some(cpu),
            ServerMessage::Cluster(cluster) => {
                let visible = model.visible_cluster();
                model.cluster.show(*cluster, visible);
            }
            ServerMessage::Serve(serve) => {
                let visible = model.visible_serve();
                model.serve.show(*serve, visible);
            }
            ServerMessage::Time(time) => model.time.show(time),
            ServerMessage::Stores(stores) => {
                let visible = model.visible_buckets();
                model.store.show(stores, visible);
            }
            ServerMessage::Topics(topics) => {
                let visible = model.visible_topics();
                model.topics.show(topics, visible);
            }
            ServerMessage::Waits(waits) => {
                let visible = model.visible_waits();
                model.waits.show(waits, visible);
            }
            ServerMessage::Results(results) => {
                let visible = model.visible_history();
                model.results.show_recorded(*results, visible);
            }
            _ => {}
        }
    }
    refill(model);
}

/// Shows the recorded rows by the order, the filter and the open process of now.
pub(super) fn refill(model: &mut Model) {
    let Some(recorded) = &model.past.rows else { return };
    let filter = model.table.filter.clone();
    let selected = rows::select(recorded, model.table.sort, &filter);
    let top = rows::select(recorded, columns::BY_CPU, "").ok();
    let all = rows::select(recorded, model.table.sort, "").ok();
    let open = model.detail.as_ref().map(|pane| rows::detail(recorded, &pane.pid));
    model.top = top;
    let (shown, filter_shown) = match selected {
        Ok(rows) => {
            model.table.refused = None;
            (Some(rows), filter)
        }
        Err(reason) if model.table.field.is_some() => {
            model.table.refused = Some(reason);
            (all, String::new())
        }
        Err(reason) => {
            model.table.clear_filter();
            model.show_notice(reason, true);
            (all, String::new())
        }
    };
    take_rows(model, shown, filter_shown);
    model.past.lacks_detail = false;
    if let (Some(found), Some(pane)) = (open, &mut model.detail) {
        model.past.lacks_detail = found.is_none();
        pane.process = found.map(Box::new);
        pane.inspection = None;
        pane.gone = false;
    }
}

fn take_rows(model: &mut Model, rows: Option<Rows>, filter: String) {
    let Some(rows) = rows else { return };
    let view = View { sort: model.table.sort, filter, window: ViewWindow::default(), ..View::default() };
    let visible = model.visible_rows();
    model.table.take(rows, Some(&view), visible, model.now);
}

/// After a key on a frozen screen: shows what the key asked for as it was recorded, or says why it cannot.
pub(super) fn follow_keys(model: &mut Model) {
    if !model.paused || model.link != Link::Live {
        return;
    }
    if model.past.is_on() {
        return refill(model);
    }
    let asks_for_rows = model.tab == Tab::Processes && model.table.rows.is_some() && model.table.is_stale();
    let opens = model.detail.as_ref().is_some_and(|pane| pane.process.is_none() && !pane.gone);
    if model.tab == model.past.frozen_on && !asks_for_rows && !opens {
        return;
    }
    match frame_ms(model).filter(|_| is_recorded(model)) {
        Some(at_ms) => go(model, at_ms),
        None if asks_for_rows || opens => model.show_notice("paused: press space to resume", false),
        None => {}
    }
}

/// Fills the charts with what the node has recorded before this observer attached.
pub(super) fn fill(model: &mut Model, history: &History) {
    let series = |name: &str| history.series.iter().find(|series| series.name == name);
    let points = |name: &str| {
        let values = series(name).map_or(&[][..], |series| &series.points);
        history.at_ms.iter().copied().zip(values.iter().copied())
    };
    let histories = &mut model.histories;
    // Rates of another run have neither unit nor scale in common with those of this one.
    let runs: Vec<u64> = points("run_id").map(|(_, run_id)| run_id as u64).collect();
    let run_id = histories.run_id.or_else(|| runs.last().copied());
    let of_run = points("ops_per_sec").zip(&runs).filter(|(_, run)| Some(**run) == run_id).map(|(point, _)| point);
    histories.ops.fill(of_run.collect::<Vec<_>>().into_iter());
    histories.msgs.fill(points("messages_per_sec"));
    histories.cpu.fill(points("cpu_pct").map(|(at_ms, pct)| (at_ms, pct / 100.0)));
    histories.rss.fill(points("rss_bytes"));
    for (at, scheduler) in histories.schedulers.iter_mut().enumerate() {
        scheduler.fill(points(&format!("utilisation/{at}")));
    }
    // An older node has recorded no ends by other causes.
    let others = |at: usize| {
        ["killed_total", "linked_total"].iter().filter_map(|name| series(name)?.points.get(at)).sum::<f64>()
    };
    let crashed: Vec<(u64, f64)> =
        points("crashed_total").enumerate().map(|(at, (at_ms, all))| (at_ms, all - others(at))).collect();
    let rises = crashed.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| pair[1].0);
    model.past.mark_earlier(rises.collect::<Vec<_>>().into_iter());
    model.dirty = true;
}

/// Returns the uptime of the frame on the screen, in milliseconds.
pub(super) fn frame_ms(model: &Model) -> Option<u64> {
    model.frame.as_ref().map(|frame| frame.captured_at_ns / 1_000_000)
}

/// Copies what the views show.
fn live_data(model: &Model) -> LiveData {
    LiveData {
        frame: model.frame.clone(),
        top: model.top.clone(),
        table: model.table.data(),
        events: model.events.clone(),
        tree: model.tree.clone(),
        wasm: model.wasm.clone(),
        time: model.time.clone(),
        store: model.store.clone(),
        topics: model.topics.clone(),
        causes: model.causes.clone(),
        cpu: model.cpu.clone(),
        sched: model.sched.clone(),
        serve: model.serve.clone(),
        cluster: model.cluster.clone(),
        waits: model.waits.clone(),
        results: model.results.clone(),
        detail: model.detail.clone(),
    }
}

/// Puts back what the views showed before the past.
fn put_back(model: &mut Model, live: LiveData) {
    model.frame = live.frame;
    model.top = live.top;
    model.table.put_back(live.table);
    model.events = live.events;
    model.tree = live.tree;
    model.wasm = live.wasm;
    model.time = live.time;
    model.store = live.store;
    model.topics = live.topics;
    model.causes = live.causes;
    model.cpu = live.cpu;
    model.sched = live.sched;
    model.serve = live.serve;
    model.cluster = live.cluster;
    model.waits = live.waits;
    model.results = live.results;
    if let Some(pane) = &mut model.detail {
        let known = live.detail.filter(|known| known.pid == pane.pid);
        (pane.process, pane.inspection, pane.gone) =
            known.map_or((None, None, false), |known| (known.process, known.inspection, known.gone));
    }
}
