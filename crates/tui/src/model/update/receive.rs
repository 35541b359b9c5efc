//! Handles messages from the node.

use std::time::Duration;

use rusm_protocol::{
    ClientMessage, ErrorCode, Frame, Hello, Inspection, PROTOCOL_VERSION, ProcessDetail, Rows, ServerMessage,
};

use super::{bench, histories, other_node, past, process};
use crate::model::Model;
use crate::model::detail::Trail;
use crate::model::format;
use crate::model::message::{Effect, QuitReason};
use crate::model::overlay::Overlay;
use crate::model::tab::Tab;

/// Pause of all requests after the node has dropped messages that came too fast. After it, the node accepts a burst
/// again.
const REQUEST_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn server(model: &mut Model, message: ServerMessage, effects: &mut Vec<Effect>) {
    let message = if model.paused {
        let Some(message) = past::hold(model, message) else { return };
        message
    } else {
        message
    };
    match message {
        ServerMessage::Hello(hello) => self::hello(model, hello, effects),
        ServerMessage::Tick { frame } => tick(model, frame),
        ServerMessage::Rows(rows) => self::rows(model, rows),
        ServerMessage::Process { process, pid } => detail(model, process, &pid),
        ServerMessage::Events(events) => {
            model.events.take(events);
            model.dirty = true;
        }
        ServerMessage::Tree(rows) => {
            let visible = model.visible_tree();
            model.dirty |= model.tree.take(rows, visible, model.now);
        }
        ServerMessage::Engines(engines) => {
            let visible = model.visible_modules();
            model.dirty |= model.wasm.take(engines, visible);
        }
        ServerMessage::Time(time) => model.dirty |= model.time.take(time),
        ServerMessage::Stores(stores) => {
            let visible = model.visible_buckets();
            model.dirty |= model.store.take(stores, visible);
        }
        ServerMessage::Topics(topics) => {
            let visible = model.visible_topics();
            model.dirty |= model.topics.take(topics, visible);
        }
        ServerMessage::Inspection(inspection) => self::inspection(model, inspection),
        ServerMessage::Cpu(cpu) => {
            let visible = model.visible_groups();
            model.dirty |= model.cpu.take(cpu, visible);
        }
        ServerMessage::Results(results) => {
            let visible = model.visible_history();
            model.dirty |= model.results.take(*results, visible);
        }
        ServerMessage::Report(part) => bench::report(model, &part, effects),
        ServerMessage::Waits(waits) => {
            let visible = model.visible_waits();
            model.dirty |= model.waits.take(waits, visible);
        }
        // Events are sent once, so a pause must not lose them.
        ServerMessage::Trace(trace) => model.dirty |= model.trace.take(trace),
        ServerMessage::Schedulers(schedulers) => model.dirty |= model.sched.take(schedulers),
        ServerMessage::Cluster(cluster) => {
            let visible = model.visible_cluster();
            model.dirty |= model.cluster.take(*cluster, visible);
        }
        ServerMessage::Serve(serve) => {
            let visible = model.visible_serve();
            model.dirty |= model.serve.take(*serve, visible);
        }
        ServerMessage::Causes(causes) => model.dirty |= model.causes.take(causes),
        ServerMessage::Past(answer) => {
            if let Err(reason) = past::answer(model, answer) {
                no_past(model, &reason, effects);
            }
        }
        ServerMessage::History(history) => past::fill(model, &history),
        ServerMessage::Ack { id } => acknowledged(model, id),
        ServerMessage::Killed { id, processes, left } => killed(model, id, processes, left),
        ServerMessage::Error { message, code, id } => refused(model, message, code, id, effects),
    }
}

/// Returns to the present and shows what arrived meanwhile.
pub(super) fn leave(model: &mut Model, effects: &mut Vec<Effect>) {
    for (tab, message) in past::thaw(model) {
        // Rows belong to the view for which they were requested.
        if tab == model.tab || !matches!(message, ServerMessage::Rows(_)) {
            server(model, message, effects);
        }
    }
    // The node sends these only when they change.
    if model.tab == Tab::Events {
        model.events.reset();
    }
    process::request_detail(model, effects);
}

/// Handles a refusal to show the past.
fn no_past(model: &mut Model, reason: &str, effects: &mut Vec<Effect>) {
    model.past.reset();
    if matches!(model.overlay, Some(Overlay::Compare { .. })) {
        model.overlay = None;
    }
    if model.past.is_on() {
        leave(model, effects);
    }
    model.show_notice(format!("no past: {reason}"), true);
}

fn acknowledged(model: &mut Model, id: u64) {
    if let Some(scenario) = model.bench.taken(id) {
        let is_open = matches!(&model.overlay, Some(Overlay::Run(dialog)) if dialog.scenario == scenario);
        if is_open {
            model.overlay = None;
        }
    }
    if let Some(about) = model.take_command(id) {
        model.show_notice(about, false);
    }
}

fn killed(model: &mut Model, id: u64, processes: u64, left: u64) {
    let Some(about) = model.take_command(id) else { return };
    let ended = format!("{about}: {} ended", format::grouped(processes));
    if left == 0 {
        model.show_notice(ended, false);
    } else {
        model.show_notice(
            format!("{ended}, {} remain: new ones start as fast as they end", format::grouped(left)),
            true,
        );
    }
}

fn refused(model: &mut Model, message: String, code: ErrorCode, id: Option<u64>, effects: &mut Vec<Effect>) {
    model.dirty = true;
    if id.is_none() && model.past.is_waiting() && message.contains("\"past\"") {
        return no_past(model, &message, effects);
    }
    if code == ErrorCode::RateLimited && id.is_none() {
        model.requests_paused_until = Some(model.now + REQUEST_PAUSE);
    }
    if id.is_none() && (model.inspect.refused(&message) || model.causes.refused(&message)) {
        // An older node: what it does not know is not shown.
        return;
    }
    let view = model.subscription.refused().map(|view| view.filter.clone());
    // Views do not have a command id: while a view with a filter is in flight, an error without an id is about it.
    let filter = view.filter(|filter| id.is_none() && code != ErrorCode::RateLimited && !filter.is_empty());
    if let Some(filter) = filter {
        if let Some(notice) = model.table.refuse(&filter, &message, model.tab == Tab::Processes) {
            model.show_notice(notice, true);
        }
        return;
    }
    let about = id.and_then(|id| model.take_command(id));
    let requested = model.bench.requested.take_if(|requested| Some(requested.id) == id);
    if let (Some(requested), Some(Overlay::Run(dialog))) = (requested, &mut model.overlay)
        && dialog.scenario == requested.scenario
    {
        dialog.refuse(message);
        return;
    }
    model.show_notice(about.map_or_else(|| message.clone(), |about| format!("{about}: {message}")), true);
}

fn hello(model: &mut Model, hello: Box<Hello>, effects: &mut Vec<Effect>) {
    if model.greeted {
        // A node sends one hello for each connection. A hostile node could otherwise open the question about another node
        // faster than the user can close it.
        return;
    }
    model.dirty = true;
    if hello.protocol_version > PROTOCOL_VERSION {
        let theirs = hello.protocol_version;
        effects.push(Effect::Quit(QuitReason::NewerProtocol { theirs }));
        return;
    }
    model.greeted = true;
    // In a container every node has the same process id, so its start time is part of its identity.
    let which = |hello: &Hello| (hello.node.os_pid, hello.node.started_unix_ms);
    let is_other_node = model.hello.as_ref().is_some_and(|known| which(known) != which(&hello));
    if is_other_node {
        model.histories = crate::model::Histories::default();
        model.bench.forget();
        model.frame = None;
        // A pid of the previous node may be another process here.
        model.detail = None;
        model.victim = None;
        model.trail = Trail::default();
        model.causes.forget();
        model.table.deselect();
        model.table.rows = None;
        model.top = None;
        model.events.forget();
        past::forget(model);
        if matches!(model.overlay, Some(Overlay::Kill { .. } | Overlay::KillAll { .. })) {
            model.overlay = None;
            model.show_notice("connected to another node: nothing was ended", true);
        }
        model.tree.forget();
        model.wasm.newest = None;
        model.time.newest = None;
        model.store.forget();
        model.topics.forget_topics();
        model.cpu.forget();
        model.sched.newest = None;
        model.serve.forget();
        model.cluster.forget();
        model.results.forget();
        model.waits.forget();
        model.trace.forget();
        if matches!(model.overlay, Some(Overlay::Trace | Overlay::Waits)) {
            model.overlay = None;
        }
        other_node::announce(model, &hello);
    }
    model.bench.selected = model.bench.selected.min(hello.scenarios.len().saturating_sub(1));
    let (profile, run) = std::mem::take(&mut model.on_hello);
    if let Some(profile) = profile {
        let id = Some(model.command(format!("profile {profile}")));
        effects.push(Effect::Send(ClientMessage::SetResourceProfile { profile, id }));
    }
    if let Some(scenario) = run {
        if let Some(at) = hello.scenarios.iter().position(|known| known.id == scenario) {
            model.bench.selected = at;
        }
        bench::run(model, scenario, effects);
    }
    model.hello = Some(hello);
    if model.tab == Tab::Bench && !model.has_scenarios() {
        model.tab = Tab::Node;
    }
    effects.extend(past::history_request(model).map(Effect::Send));
}

fn tick(model: &mut Model, frame: Box<Frame>) {
    model.frame_received_at = model.now;
    model.bench.observe(&frame);
    histories::remember(model, &frame);
    model.frame = Some(frame);
    model.dirty = true;
}

fn rows(model: &mut Model, rows: Rows) {
    if !model.subscription.answers(&rows) {
        return;
    }
    match model.tab {
        Tab::Processes => {
            let visible = model.visible_rows();
            model.table.take(rows, model.subscription.sent(), visible, model.now);
        }
        _ => model.top = Some(rows),
    }
    model.dirty = true;
}

/// Stores what the node says about a process in depth: for the detail pane, for the question before it is ended, or
/// for both.
fn inspection(model: &mut Model, inspection: Box<Inspection>) {
    if !model.inspect.answers(&inspection) {
        return;
    }
    let is_victim = matches!(&model.overlay, Some(Overlay::Kill { pid, .. }) if *pid == inspection.pid);
    if is_victim {
        model.victim = Some(inspection.clone());
        model.dirty = true;
    }
    let Some(pane) = model.detail.as_mut().filter(|pane| pane.pid == inspection.pid) else { return };
    pane.gone |= !inspection.is_alive;
    pane.inspection = Some(inspection);
    pane.move_by(0);
    model.dirty = true;
}

fn detail(model: &mut Model, process: Option<Box<ProcessDetail>>, pid: &str) {
    let at_ms = model.now.as_millis() as u64;
    let Some(pane) = model.detail.as_mut().filter(|pane| pane.pid == pid) else {
        return;
    };
    match process {
        Some(process) => {
            if let Some(reds_per_sec) = process.reds_per_sec {
                pane.reds.push(at_ms, reds_per_sec);
            }
            pane.process = Some(process);
            pane.gone = false;
        }
        None => pane.gone = true,
    }
    model.dirty = true;
}
