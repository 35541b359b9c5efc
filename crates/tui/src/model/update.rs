//! Applies messages to the model.
//!
//! Total and pure: any message in any state gives a valid model and a list of effects. Nothing here blocks, reads a
//! clock or fails. `actions` and `process` handle keys, `receive` handles messages from the node.
//!
//! The event loop of the screen, `--once` and replays call [`update`] and execute its effects. Every message also
//! requests the data of the view that is open now.

mod actions;
mod bench;
mod fields;
mod histories;
mod mouse;
mod movement;
mod navigate;
mod other_node;
mod palette;
mod past;
mod pause;
mod process;
mod receive;
mod waits_and_trace;

use std::time::Duration;

use rusm_protocol::{ClientMessage, Column, View, ViewWindow};

use crate::model::detail::requests::Wanted;
use crate::model::input::key::{Key, KeyCode};
use crate::model::layout;
use crate::model::message::{Effect, LinkEvent, Msg};
use crate::model::overlay::{Overlay, waits};
use crate::model::panes::columns;
use crate::model::tab::Tab;
use crate::model::{Link, Model, Status};

/// Time for which a notice is shown, and longer for an error, which the user must understand.
const NOTICE_FOR: Duration = Duration::from_secs(5);
const ERROR_FOR: Duration = Duration::from_secs(10);

/// Maximum number of commands that wait for an answer.
const COMMANDS_MAX: usize = 32;

/// Applies a message to the model. `now` is the time since the start of the program.
pub fn update(model: &mut Model, msg: Msg, now: Duration) -> Vec<Effect> {
    let quarter_before = model.now.as_millis() / 250;
    model.now = model.now.max(now);
    let mut effects = Vec::new();
    let is_input = matches!(msg, Msg::Key(_) | Msg::Mouse(_) | Msg::Paste(_));
    match msg {
        Msg::Tick => {
            let expired = model.status.as_ref().is_some_and(|status| status.until <= model.now);
            if expired {
                model.status = None;
            }
            let counts = (model.link != Link::Live || model.silence().is_some())
                && model.now.as_millis() / 250 != quarter_before;
            model.dirty |= expired || counts;
        }
        Msg::Key(key) => {
            press(model, key, &mut effects);
            model.dirty = true;
        }
        Msg::Mouse(mouse) => {
            mouse::handle(model, mouse, &mut effects);
            model.dirty = true;
        }
        Msg::Paste(text) => {
            paste(model, &text);
            model.dirty = true;
        }
        Msg::Resize(size) => {
            model.size = size;
            let visible = model.visible_rows();
            model.table.clamp(visible);
            let visible = model.visible_tree();
            model.tree.clamp(visible);
            let visible = model.visible_modules();
            model.wasm.clamp(visible);
            let visible = model.visible_buckets();
            model.store.clamp(visible);
            let visible = model.visible_topics();
            model.topics.clamp(visible);
            let visible = model.visible_groups();
            model.cpu.clamp(visible);
            model.serve.clamp(model.visible_serve());
            model.cluster.clamp(model.visible_cluster());
            let visible = model.visible_history();
            model.results.clamp(visible);
            let visible = model.visible_waits();
            model.waits.clamp(visible);
            model.dirty = true;
            effects.push(Effect::Repaint);
        }
        Msg::Server(message) => receive::server(model, message, &mut effects),
        Msg::Malformed(what) => model.show_notice(what, true),
        Msg::Link(event) => link(model, event, &mut effects),
        Msg::Theme(palette) => {
            model.palette = *palette;
            model.dirty = true;
        }
        Msg::OwnCost(own) => model.own = own,
        Msg::Saved(Ok(path)) => model.show_notice(format!("saved {path}"), false),
        Msg::Saved(Err(why)) => model.show_notice(why, true),
    }
    if is_input {
        past::follow_keys(model);
    }
    request_views(model, &mut effects);
    past::requests(model, &mut effects);
    other_node::withhold(model, &mut effects);
    effects
}

/// Passes a key to the innermost context. Text fields receive keys without a binding.
fn press(model: &mut Model, key: Key, effects: &mut Vec<Effect>) {
    if layout::too_small(model.size) {
        let quits = [Key::char('q'), Key::ctrl('c')].contains(&key);
        if quits {
            effects.push(Effect::Quit(crate::model::message::QuitReason::Requested));
        }
        return;
    }
    if let Some(action) = model.keys.action(&model.contexts(), key) {
        if !palette::handle(model, action, effects) {
            actions::execute(model, action, effects);
        }
        return;
    }
    if let Some(Overlay::Palette(line)) = &mut model.overlay {
        if line.edit.press(key) {
            palette::typed(model);
        }
        return;
    }
    if let (None, Tab::Bench, Some((edit, _))) = (&model.overlay, model.tab, &mut model.bench.find) {
        if edit.press(key) {
            bench::found(model);
        }
        return;
    }
    if fields::press(model, key) {
        return;
    }
    match (&mut model.overlay, &mut model.table.field) {
        (Some(Overlay::Kill { words: Some(words), .. }), _) => _ = words.press(key),
        (Some(Overlay::Kill { typed, .. }), _) => process::type_number(typed, key),
        (Some(Overlay::Run(dialog)), _) => dialog.press(key),
        (Some(Overlay::Trace), _) => {
            if let Some(field) = &mut model.trace.field {
                field.press(key);
            }
        }
        (None, Some(field)) => {
            let leaves = key.code == KeyCode::Backspace && field.edit.text().is_empty();
            if leaves {
                navigate::close_filter(model, true);
            } else if field.edit.press(key) {
                model.table.filter_typed();
                // The notice was about the text before.
                model.status = None;
            }
        }
        _ => {}
    }
}

fn paste(model: &mut Model, text: &str) {
    if layout::too_small(model.size) {
        return;
    }
    if let Some(Overlay::Palette(line)) = &mut model.overlay {
        line.edit.insert(text);
        return palette::typed(model);
    }
    if let (None, Tab::Bench, Some((edit, _))) = (&model.overlay, model.tab, &mut model.bench.find) {
        edit.insert(text);
        return bench::found(model);
    }
    if fields::paste(model, text) {
        return;
    }
    match (&mut model.overlay, &mut model.table.field) {
        (Some(Overlay::Kill { words: Some(words), .. }), _) => words.insert(text),
        (Some(Overlay::Run(dialog)), _) => dialog.paste(text),
        (Some(Overlay::Trace), _) => {
            if let Some(field) = &mut model.trace.field {
                field.insert(text);
            }
        }
        (None, Some(field)) => {
            field.edit.insert(text);
            model.table.filter_typed();
        }
        _ => {}
    }
}

fn link(model: &mut Model, event: LinkEvent, effects: &mut Vec<Effect>) {
    model.dirty = true;
    let last_heard = match model.link {
        Link::Live => model.now,
        Link::Connecting { since } | Link::Lost { since, .. } => since,
    };
    match event {
        // Keep the overlay of the loss until the node answers: otherwise it would flicker with every attempt.
        LinkEvent::Connecting => {
            if let Link::Lost { retry_at, .. } = &mut model.link {
                *retry_at = model.now;
            }
        }
        LinkEvent::Connected => {
            model.link = Link::Live;
            model.greeted = false;
            model.requests_paused_until = None;
            model.commands.clear();
            model.bench.requested = None;
            effects.push(Effect::Send(ClientMessage::Watch { frame_hz: model.frame_hz }));
            request_again(model, effects);
        }
        LinkEvent::Lost { reason, attempt, retry_in, .. } => {
            model.link = Link::Lost { since: last_heard, reason, attempt, retry_at: model.now + retry_in };
        }
    }
}

/// Resets all request states: the node may not know the subscriptions of this observer.
fn request_again(model: &mut Model, effects: &mut Vec<Effect>) {
    model.subscription.reset();
    model.events.reset();
    model.tree.reset();
    model.wasm.reset();
    model.time.reset();
    model.store.reset();
    model.topics.reset();
    model.inspect.reset();
    model.causes.reset();
    model.cpu.reset();
    model.sched.reset();
    model.serve.reset();
    model.cluster.reset();
    model.results.reset();
    model.waits.reset();
    model.past.reset();
    if let Some(live) = &mut model.past.live {
        live.reset();
    }
    model.trace.connection_lost();
    process::request_detail(model, effects);
}

/// Returns true if nothing may be requested yet. After the pause, ends all subscriptions and requests them again: the
/// node did not report which messages it dropped, and those that end a subscription may be among them.
fn requests_are_paused(model: &mut Model, effects: &mut Vec<Effect>) -> bool {
    let Some(until) = model.requests_paused_until else { return false };
    if model.now < until {
        return true;
    }
    model.requests_paused_until = None;
    let none = [
        ClientMessage::SetObserverDetail { enabled: false },
        ClientMessage::Events(rusm_protocol::EventsRequest::default()),
        ClientMessage::Tree { view: None },
        ClientMessage::Engines { view: None },
        ClientMessage::Time { view: None },
        ClientMessage::Stores { view: None },
        ClientMessage::Topics { view: None },
        ClientMessage::Inspect { view: None },
        ClientMessage::Causes { view: None },
        ClientMessage::Cpu { view: None },
        ClientMessage::Schedulers { view: None },
        ClientMessage::Serve { view: None },
        ClientMessage::Cluster { view: None },
        ClientMessage::Results { view: None },
        ClientMessage::Waits { view: None },
        ClientMessage::Detail { pid: None },
    ];
    effects.extend(none.map(Effect::Send));
    request_again(model, effects);
    false
}

/// Requests what the open view shows, and ends the subscriptions of the others.
fn request_views(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.link != Link::Live || model.hello.is_none() || requests_are_paused(model, effects) {
        return;
    }
    if model.paused {
        // The question before a process is ended also needs an answer on a frozen screen.
        if matches!(model.overlay, Some(Overlay::Kill { .. })) {
            let wanted = inspected(model);
            effects.extend(model.inspect.requests(wanted, model.now).map(Effect::Send));
        }
        return;
    }
    let query = query(model);
    let asks = query.is_some();
    let messages = model.subscription.requests(query, model.now);
    if asks && !messages.is_empty() {
        model.table.requested();
    }
    effects.extend(messages.into_iter().map(Effect::Send));
    if !matches!(model.overlay, Some(Overlay::Event { .. })) {
        model.events.close();
    }
    effects.extend(model.events.requests(model.tab == Tab::Events).map(Effect::Send));
    model.causes.is_open &= matches!(model.overlay, Some(Overlay::Cause { .. }));
    let wanted = inspected(model);
    effects.extend(model.inspect.requests(wanted, model.now).map(Effect::Send));
    effects.extend(model.causes.requests(model.tab == Tab::Events, model.now).map(Effect::Send));
    // A terminal that is too small shows no view.
    let open = (!layout::too_small(model.size)).then_some(model.tab);
    let visible = (open == Some(Tab::Tree)).then(|| model.visible_tree());
    effects.extend(model.tree.requests(visible, model.now).map(Effect::Send));
    if !matches!(model.overlay, Some(Overlay::Trap { .. })) {
        model.wasm.open_trap = None;
    }
    let visible = (open == Some(Tab::Wasm)).then(|| model.visible_modules());
    effects.extend(model.wasm.requests(visible, model.now).map(Effect::Send));
    let is_shown = open == Some(Tab::Time);
    effects.extend(model.time.requests(is_shown).map(Effect::Send));
    let is_shown = open == Some(Tab::Store);
    let visible = is_shown.then(|| (model.visible_buckets(), model.visible_keys()));
    effects.extend(model.store.requests(visible, model.now).map(Effect::Send));
    let visible = (open == Some(Tab::Topics)).then(|| model.visible_topics());
    effects.extend(model.topics.requests(visible, model.now).map(Effect::Send));
    let is_shown = open == Some(Tab::Cpu);
    effects.extend(model.cpu.requests(is_shown, model.now).map(Effect::Send));
    let visible = (open == Some(Tab::Sched)).then(|| model.visible_schedulers());
    effects.extend(model.sched.requests(visible, model.now).map(Effect::Send));
    let visible = (open == Some(Tab::Serve)).then(|| model.visible_serve());
    effects.extend(model.serve.requests(visible, model.now).map(Effect::Send));
    let visible = (open == Some(Tab::Cluster)).then(|| model.visible_cluster());
    effects.extend(model.cluster.requests(visible, model.now).map(Effect::Send));
    let has_scenarios = !model.scenarios().is_empty();
    let is_shown = open == Some(Tab::Bench) && has_scenarios;
    let visible = is_shown.then(|| model.visible_history());
    effects.extend(model.results.requests(visible, model.now).map(Effect::Send));
    let is_open = open.is_some() && model.overlay == Some(Overlay::Waits);
    let visible = is_open.then(|| model.visible_waits());
    effects.extend(waits::requests(&mut model.waits, visible, model.now).map(Effect::Send));
    if model.overlay != Some(Overlay::Trace) {
        effects.extend(model.trace.stop().map(Effect::Send));
    }
}

/// Returns the process that is wanted in depth: the one that is about to be ended, else the one in the detail pane.
fn inspected(model: &Model) -> Option<Wanted> {
    if let Some(Overlay::Kill { pid, .. }) = &model.overlay {
        return Some(Wanted { pid: pid.clone(), reach: true, ..Wanted::default() });
    }
    let pane = model.detail.as_ref().filter(|_| model.tab == Tab::Processes)?;
    Some(Wanted { pid: pane.pid.clone(), page: pane.page.clone(), values: pane.values, reach: false })
}

/// Returns the part of the process table that is visible; `None` if the open view does not show it.
fn query(model: &Model) -> Option<View> {
    let mut view = visible_table(model)?;
    // An older node would refuse the view.
    let is_known = |column: Column| column.feature().is_none_or(|feature| model.has_feature(feature));
    view.columns.retain(|column| is_known(*column));
    if !is_known(view.sort.key) {
        view.sort = columns::BY_CPU;
    }
    Some(view)
}

fn visible_table(model: &Model) -> Option<View> {
    if !model.rows_wanted || layout::too_small(model.size) {
        return None;
    }
    match model.tab {
        Tab::Processes => {
            let (visible, width) = (model.visible_rows(), model.table_width());
            (visible > 0).then(|| model.table.query(model.subscription.sent(), visible, width))
        }
        Tab::Node => {
            let table = layout::zoom::node(model).table.inner();
            let rows = u32::from(table.height.saturating_sub(1));
            let slots = columns::fit(table.width, columns::BY_CPU, columns::ColumnSet::Usual);
            (rows > 0).then(|| View {
                sort: columns::BY_CPU,
                columns: slots.iter().map(|slot| slot.column).collect(),
                window: ViewWindow { offset: 0, len: rows },
                hz: 2.0,
                waits: true,
                ..View::default()
            })
        }
        Tab::Bench
        | Tab::Tree
        | Tab::Events
        | Tab::Wasm
        | Tab::Time
        | Tab::Store
        | Tab::Topics
        | Tab::Cpu
        | Tab::Sched
        | Tab::Serve
        | Tab::Cluster => None,
    }
}

impl Model {
    /// Shows a notice above the footer for some seconds.
    pub(crate) fn show_notice(&mut self, text: impl Into<String>, is_error: bool) {
        let shown_for = if is_error { ERROR_FOR } else { NOTICE_FOR };
        self.status = Some(Status { text: text.into(), is_error, until: self.now + shown_for });
        self.dirty = true;
    }

    /// Creates the id of a command. The answer with this id is shown with the description `about`.
    pub(crate) fn command(&mut self, about: String) -> u64 {
        self.command_ids += 1;
        if self.commands.len() == COMMANDS_MAX {
            self.commands.pop_front();
        }
        self.commands.push_back((self.command_ids, about));
        self.command_ids
    }

    /// Removes an answered command and returns its description.
    pub(crate) fn take_command(&mut self, id: u64) -> Option<String> {
        let at = self.commands.iter().position(|(other, _)| *other == id)?;
        self.commands.remove(at).map(|(_, about)| about)
    }
}

#[cfg(test)]
mod tests;
