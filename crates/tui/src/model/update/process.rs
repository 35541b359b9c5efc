//! Executes the actions on a process: show details, end it, copy its pid.

use rusm_protocol::{ClientMessage, Column, KillReason, Role};

use super::navigate::show;
use crate::model::detail::{DetailPane, Place};
use crate::model::input::key::{Key, KeyCode};
use crate::model::message::Effect;
use crate::model::overlay::{Overlay, Question};
use crate::model::panes::cluster::ClusterFocus;
use crate::model::panes::events::Item;
use crate::model::panes::serve::ServeFocus;
use crate::model::panes::table::{Selection, text};
use crate::model::tab::Tab;
use crate::model::{Model, format};

/// Maximum length of text copied to the clipboard, in bytes.
const COPY_MAX: usize = 64 * 1024;

/// Opens the detail pane of the selected process.
pub(super) fn open_detail(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.table.selection == Selection::None {
        model.table.go_to(model.table.top, model.visible_rows());
    }
    let Some(pid) = subject(model).map(str::to_owned) else {
        return explain_no_selection(model);
    };
    let is_open = model.detail.as_ref().is_some_and(|pane| pane.pid == pid);
    if is_open {
        // The second time, the pane covers the screen and takes the keys.
        if let Some(pane) = &mut model.detail {
            pane.in_full = true;
        }
        return;
    }
    if show_detail(model, pid, effects) {
        model.table.reveal(model.visible_rows());
    }
}

/// Follows a pid from any screen: shows the process in full. Backspace returns.
pub(super) fn follow(model: &mut Model, pid: String, effects: &mut Vec<Effect>) {
    let detail = model.detail.as_ref().map(|pane| (pane.pid.clone(), pane.in_full, pane.at));
    model.trail.push(Place { tab: model.tab, detail });
    model.table.selection = Selection::Away(pid.clone());
    show(model, Tab::Processes);
    show_detail(model, pid, effects);
    if let Some(pane) = &mut model.detail {
        pane.in_full = true;
    }
}

/// Follows the process that holds up others: the slowest receiver of the selected topic, or the reader for which a
/// stream waits.
pub(super) fn follow_slowest(model: &mut Model, effects: &mut Vec<Effect>) {
    let slowest = if model.tab == Tab::Topics {
        let receivers = model.topics.shown().map(|topic| topic.receivers.as_slice()).unwrap_or_default();
        let behind = receivers.iter().filter(|receiver| receiver.slowest.is_some());
        behind.max_by_key(|receiver| receiver.backlog).and_then(|receiver| receiver.slowest.clone())
    } else {
        let streams = model.time.newest.as_ref().map(|time| time.streams.as_slice()).unwrap_or_default();
        streams.iter().find_map(|stream| stream.waits_for.as_ref()?.pid.clone())
    };
    match slowest {
        Some(pid) => follow(model, pid, effects),
        None => model.show_notice("no process holds up others here", false),
    }
}

/// Follows the process of the selected request, or shows the requests of the selected route.
pub(super) fn open_request(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.serve.focus == ServeFocus::Routes {
        if !model.serve.show_requests_of_route() {
            model.show_notice("no server runs on this node", false);
        }
        return;
    }
    match model.serve.request().map(|request| request.pid.clone()) {
        Some(pid) => follow(model, pid, effects),
        None => model.show_notice("no request is handled now", false),
    }
}

/// Watches the selected node, or follows the process that owns the selected unique name.
pub(super) fn open_in_cluster(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.cluster.focus == ClusterFocus::Nodes {
        let node = model.cluster.node().map(|node| (node.name.clone(), node.state == "up"));
        return match node {
            Some((name, true)) => attach(model, name, effects),
            Some((name, false)) => model.show_notice(format!("node {name} is not connected"), true),
            None => model.show_notice("no other node is known", false),
        };
    }
    let owner = model.cluster.owner().map(str::to_owned);
    let node = model.cluster.name_at(model.cluster.names.at).map(|name| name.node.clone());
    match (owner, node) {
        (Some(pid), _) if pid.starts_with("<0.") => follow(model, pid, effects),
        (Some(_), Some(node)) => {
            model.show_notice(format!("its owner runs on node {node}: select that node and press enter"), false);
        }
        _ => model.show_notice("this name has no owner that is connected", false),
    }
}

fn attach(model: &mut Model, node: String, effects: &mut Vec<Effect>) {
    if model.demo || model.replay {
        return model.show_notice(format!("node {node} is only a row here: its data is not in this source"), false);
    }
    effects.push(Effect::Attach(node));
}

/// Watches all nodes that the Cluster view lists as connected.
pub(super) fn attach_to_all(model: &mut Model, effects: &mut Vec<Effect>) {
    let nodes = model.cluster.newest.iter().flat_map(|newest| &newest.nodes).filter(|node| node.state == "up");
    let names: Vec<String> = nodes.map(|node| node.name.clone()).collect();
    if model.beside {
        return model.show_notice("all nodes are on the screen", false);
    }
    if model.demo || model.replay || names.is_empty() {
        let text = if names.is_empty() { "no other node is connected" } else { "this source has the data of one node" };
        return model.show_notice(text, false);
    }
    effects.push(Effect::AttachBeside(names));
}

/// Follows the selected link of the process on the screen.
pub(super) fn follow_link(model: &mut Model, effects: &mut Vec<Effect>) {
    let link = model.detail.as_ref().and_then(|pane| pane.links().get(pane.at).cloned());
    match link {
        Some(pid) => follow(model, pid, effects),
        None => model.show_notice("nothing to follow here", false),
    }
}

/// Returns to the place from which the last process was opened.
pub(super) fn return_back(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some(place) = model.trail.pop() else {
        if let Some(pane) = model.detail.as_mut().filter(|pane| pane.in_full) {
            pane.in_full = false;
            return;
        }
        return model.show_notice("there is no place to return to", false);
    };
    show(model, place.tab);
    match place.detail {
        Some((pid, in_full, at)) => {
            model.table.selection = Selection::Away(pid.clone());
            show_detail(model, pid, effects);
            if let Some(pane) = &mut model.detail {
                (pane.in_full, pane.at) = (in_full, at);
            }
        }
        None => close_detail(model, effects),
    }
}

/// Closes the detail pane.
pub(super) fn close_detail(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.detail.take().is_some() {
        effects.push(Effect::Send(ClientMessage::Detail { pid: None }));
    }
}

/// Toggles the values of messages.
pub(super) fn toggle_values(model: &mut Model) {
    if model.role() != Some(Role::Control) {
        return model.show_notice("values of messages need the control role", true);
    }
    if let Some(pane) = &mut model.detail {
        pane.values = !pane.values;
    }
}

/// Opens the detail pane of a process. Returns false if it is open already.
fn show_detail(model: &mut Model, pid: String, effects: &mut Vec<Effect>) -> bool {
    if model.detail.as_ref().is_some_and(|pane| pane.pid == pid) {
        return false;
    }
    model.detail = Some(DetailPane::of(pid.clone()));
    effects.push(Effect::Send(ClientMessage::Detail { pid: Some(pid) }));
    true
}

/// Requests the details of the open process.
pub(super) fn request_detail(model: &Model, effects: &mut Vec<Effect>) {
    if let Some(detail) = &model.detail {
        let pid = Some(detail.pid.clone());
        effects.push(Effect::Send(ClientMessage::Detail { pid }));
    }
}

/// Shows the process that the selected lint is about.
pub(super) fn show_lint(model: &mut Model, effects: &mut Vec<Effect>) {
    let shown = model.lints.shown(model.frame());
    let pid = shown.get(model.lints.cursor(&shown)).map(|lint| lint.pid.clone());
    match pid {
        None => model.show_notice("no lints", false),
        Some(pid) if pid.is_empty() => model.show_notice("this lint is about the node as a whole", false),
        Some(pid) => show_process(model, pid, effects),
    }
}

/// Shows a process in the Processes view.
pub(super) fn show_process(model: &mut Model, pid: String, effects: &mut Vec<Effect>) {
    model.overlay = None;
    follow(model, pid, effects);
}

/// Shows the first process of the selected event.
pub(super) fn show_event(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some(item) = model.events.selected() else {
        return model.show_notice("select an event first: j", false);
    };
    match item.processes().first().map(|(_, pid)| (*pid).to_owned()) {
        Some(pid) => show_process(model, pid, effects),
        None => model.show_notice("no process wrote this line", false),
    }
}

/// Shows one of the processes of the event that is shown in full.
pub(super) fn follow_event_link(model: &mut Model, at: usize, effects: &mut Vec<Effect>) {
    let pid = model.events.opened().and_then(|(item, _)| item.processes().get(at).map(|(_, pid)| (*pid).to_owned()));
    if let Some(pid) = pid {
        show_process(model, pid, effects);
    }
}

/// Shows the process of the selected tree row in the Processes view.
pub(super) fn show_child(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some((pid, _)) = child(model) else { return };
    follow(model, pid, effects);
}

/// Returns the pid and name of the selected tree row, or shows a notice if it is not a running process.
fn child(model: &mut Model) -> Option<(String, String)> {
    let row = model.tree.selected_row();
    let child = row.and_then(|row| row.pid.clone().map(|pid| (pid, row.name.clone())));
    if child.is_none() {
        let why = match row {
            Some(row) => format!("{} has no process: it is {}", row.name, row.state),
            None => "nothing is selected".to_owned(),
        };
        model.show_notice(why, true);
    }
    child
}

/// Asks for confirmation to start the selected child again.
pub(super) fn confirm_restart(model: &mut Model) {
    match model.tree.selected_row().map(|row| (row.path.clone(), row.name.clone())) {
        Some((path, name)) if path.contains('/') => {
            model.overlay = Some(Overlay::Confirm(Question::RestartChild { path, name }));
        }
        Some((_, name)) => model.show_notice(format!("{name} has no supervisor that could start it again"), true),
        None => model.show_notice("nothing is selected", true),
    }
}

pub(super) fn explain_no_selection(model: &mut Model) {
    let text = match &model.table.selection {
        Selection::Away(pid) => format!("{pid} has left this page; move to select another"),
        Selection::Awaited => "the node has not sent this page yet".to_owned(),
        _ => "no process is selected".to_owned(),
    };
    model.show_notice(text, true);
}

/// Number of processes from which on a number must be typed to end them all.
const TYPED_FROM: u64 = 11;

/// Returns true if a process may be ended now: the node has said what ends with it, and if that is much, its number was
/// typed. Otherwise shows a notice.
pub(super) fn is_confirmed(model: &mut Model, pid: &str, typed: &str) -> bool {
    let reach = model.victim.as_ref().filter(|victim| victim.pid == pid).and_then(|victim| victim.reach.as_ref());
    match reach.map(|reach| reach.ends) {
        None if model.inspect.is_pending(model.now) => {
            model.show_notice("the node still counts what ends with it", false);
            false
        }
        Some(ends) if ends >= TYPED_FROM && typed != ends.to_string() => {
            model.show_notice(format!("type {ends} to end it together with that many processes"), true);
            false
        }
        _ => true,
    }
}

/// Ends a process after the question, or asks for the words of the reason first.
pub(super) fn kill(model: &mut Model, overlay: Overlay, effects: &mut Vec<Effect>) {
    let Overlay::Kill { pid, name, reason, typed, words } = overlay else { return };
    if !is_confirmed(model, &pid, &typed) {
        model.overlay = Some(Overlay::Kill { pid, name, reason, typed, words });
        return;
    }
    let text = words.as_ref().map(|words| words.text().trim().to_owned());
    if reason == KillReason::Error && text.as_ref().is_none_or(String::is_empty) {
        let words = Some(words.unwrap_or_default());
        model.overlay = Some(Overlay::Kill { pid, name, reason, typed, words });
        return;
    }
    model.victim = None;
    let about = match (reason, &text) {
        (KillReason::Kill, _) => format!("{pid} killed"),
        (KillReason::Shutdown, _) => format!("{pid} asked to shut down"),
        (KillReason::Error, text) => format!("{pid} ended: {}", text.as_deref().unwrap_or_default()),
    };
    let id = Some(model.command(about));
    effects.push(Effect::Send(ClientMessage::Kill { pid, reason, text, id }));
}

/// Adds a key to the number that confirms the end of many processes.
pub(super) fn type_number(typed: &mut String, key: Key) {
    match key.code {
        KeyCode::Char(c) if c.is_ascii_digit() && typed.len() < 12 => typed.push(c),
        KeyCode::Backspace => drop(typed.pop()),
        _ => {}
    }
}

pub(super) fn confirm_kill(model: &mut Model) {
    model.victim = None;
    if let Some(pane) = model.detail.as_ref().filter(|pane| pane.in_full && model.tab == Tab::Processes) {
        if pane.gone {
            return model.show_notice(format!("{} has already ended", pane.pid), false);
        }
        let (pid, name) = (pane.pid.clone(), pane.name().unwrap_or_default().to_owned());
        model.overlay = Some(Overlay::kill(pid, name));
        return;
    }
    if model.tab == Tab::Serve {
        return match model.serve.request().map(|request| (request.pid.clone(), request.route.clone())) {
            Some((pid, name)) => {
                model.overlay = Some(Overlay::kill(pid, name));
            }
            None => model.show_notice("no request is selected", true),
        };
    }
    if model.tab == Tab::Tree {
        if let Some((pid, name)) = child(model) {
            model.overlay = Some(Overlay::kill(pid, name));
        }
        return;
    }
    let table = &model.table;
    let row = table.selected().and_then(|_| table.rows.as_ref().zip(table.row(table.cursor)));
    let in_detail = model.detail.as_ref().and_then(|pane| pane.process.as_ref()?.name.as_deref());
    let name = match row {
        Some((rows, row)) => text(rows, row, Column::Name),
        None => in_detail.unwrap_or_default(),
    };
    let name = name.to_owned();
    match subject(model).map(str::to_owned) {
        Some(pid) => model.overlay = Some(Overlay::kill(pid, name)),
        None => explain_no_selection(model),
    }
}

/// Asks for confirmation to end every process of the filtered table.
pub(super) fn confirm_kill_all(model: &mut Model) {
    if model.past.is_on() {
        return model
            .show_notice("these are the processes of the past: return to the present to end those of now", true);
    }
    let filter = model.table.filter_in_force().to_owned();
    if filter.is_empty() {
        return model.show_notice("set a filter first: it selects the processes to end", true);
    }
    let matched = model.table.matched();
    model.overlay = Some(Overlay::KillAll { filter, matched, reason: KillReason::Kill });
}

/// Returns the process that an action applies to: the selected one, or the one in the detail pane if it has left the
/// page.
pub(super) fn subject(model: &Model) -> Option<&str> {
    let in_detail = model.detail.as_ref().filter(|pane| !pane.gone).map(|pane| pane.pid.as_str());
    let away = in_detail.filter(|&pid| matches!(&model.table.selection, Selection::Away(away) if away == pid));
    model.table.selected().or(away)
}

pub(super) fn copy(model: &mut Model, effects: &mut Vec<Effect>) {
    let selected = match model.tab {
        Tab::Processes => subject(model),
        Tab::Tree => model.tree.selected_row().and_then(|row| row.pid.as_deref()),
        Tab::Serve => model.serve.request().map(|request| request.pid.as_str()),
        Tab::Cluster => model.cluster.owner().or_else(|| model.cluster.node().map(|node| node.name.as_str())),
        Tab::Events => model.events.opened().map(|(item, _)| item).or_else(|| model.events.selected()).map(Item::text),
        _ => None,
    };
    let mut text = match (selected, &model.frame) {
        (Some(pid), _) => pid.to_owned(),
        (None, Some(frame)) => summary(frame),
        (None, None) => return,
    };
    text.truncate(text.floor_char_boundary(COPY_MAX));
    model.show_notice(format!("copied: {text}"), false);
    effects.push(Effect::Copy(text));
}

/// Formats a one-line summary of the node's state.
fn summary(frame: &rusm_protocol::Frame) -> String {
    let latency = &frame.latency;
    format!(
        "{} {} ops/s, p50 {}, p99 {}, {} processes, profile {}",
        frame.scenario.as_deref().unwrap_or("idle"),
        format::short(frame.ops_per_sec),
        format::nanos(latency.p50_ns, "u"),
        format::nanos(latency.p99_ns, "u"),
        format::grouped(frame.observer.process_count),
        frame.profile,
    )
}
