//! The command palette: what is typed there, and its orders.

use rusm_protocol::{ClientMessage, Column};

use super::navigate::show;
use super::{actions, bench, process};
use crate::model::Model;
use crate::model::input::commands::{self, Candidate, KnownNames, Order};
use crate::model::input::keys::Action;
use crate::model::input::line_edit::LineEdit;
use crate::model::message::Effect;
use crate::model::overlay::{Overlay, Palette};
use crate::model::panes::table::text;
use crate::model::selection::wrapped;
use crate::model::tab::Tab;

/// Maximum number of processes that the palette offers.
const PROCESSES_MAX: usize = 200;

/// Handles an action of the palette. Returns false if the action is not one of the palette.
pub(super) fn handle(model: &mut Model, action: Action, effects: &mut Vec<Effect>) -> bool {
    if action == Action::Palette {
        open(model);
        return true;
    }
    if action == Action::LogLevel {
        match model.refusal(action) {
            Some(why) => model.show_notice(why, true),
            None => open_with(model, "log-level "),
        }
        return true;
    }
    let Some(Overlay::Palette(palette)) = &mut model.overlay else { return false };
    match action {
        Action::Lines(lines) => palette.at = wrapped(palette.at, lines.clamp(-99, 99) as isize, palette.found.len()),
        Action::Complete(_) => complete(model),
        Action::Open => {
            let palette = palette.clone();
            model.overlay = None;
            execute(model, palette, effects);
        }
        _ => return false,
    }
    true
}

/// Opens the palette.
fn open(model: &mut Model) {
    let found = commands::candidates("", &known(model));
    model.overlay = Some(Overlay::Palette(Palette { found, ..Palette::default() }));
}

/// Opens the palette with the beginning of a line.
fn open_with(model: &mut Model, line: &str) {
    model.overlay = Some(Overlay::Palette(Palette { edit: LineEdit::new(line), ..Palette::default() }));
    typed(model);
}

/// Finds the candidates for the changed line.
pub(super) fn typed(model: &mut Model) {
    let known = known(model);
    if let Some(Overlay::Palette(palette)) = &mut model.overlay {
        palette.found = commands::candidates(&palette.edit.text(), &known);
        (palette.at, palette.error) = (0, None);
    }
}

/// Puts the selected candidate into the line.
fn complete(model: &mut Model) {
    let Some(Overlay::Palette(palette)) = &mut model.overlay else { return };
    if let Some(candidate) = palette.found.get(palette.at) {
        palette.edit = LineEdit::new(&candidate.line);
        typed(model);
    }
}

/// Executes the candidate that the user has moved to. Without a move, executes the line if it is a command as it is, else
/// the first candidate.
fn execute(model: &mut Model, palette: Palette, effects: &mut Vec<Effect>) {
    let known = known(model);
    let line = palette.edit.text();
    let chosen: Option<&Candidate> = palette.found.get(palette.at);
    let has_moved = palette.at > 0 && chosen.is_some_and(|chosen| chosen.line.trim() != line.trim());
    let parsed = if has_moved { Err(String::new()) } else { commands::parse(&line, &known) };
    let order = match (parsed, chosen) {
        (Ok(order), _) => order,
        (Err(_), Some(chosen)) if !chosen.is_open => match commands::parse(&chosen.line, &known) {
            Ok(order) => order,
            Err(error) => return refuse(model, palette, error),
        },
        (Err(_), Some(chosen)) if chosen.line.trim() != line.trim() => {
            let edit = LineEdit::new(&chosen.line);
            model.overlay = Some(Overlay::Palette(Palette { edit, ..palette }));
            return typed(model);
        }
        (Err(error), _) => return refuse(model, palette, error),
    };
    carry_out(model, order, effects);
}

fn refuse(model: &mut Model, palette: Palette, error: String) {
    model.overlay = Some(Overlay::Palette(Palette { error: Some(error), ..palette }));
}

/// Returns the action with the permission that an order needs.
const fn action_of(order: &Order) -> Option<Action> {
    match order {
        Order::Kill(_) => Some(Action::Kill),
        Order::Run(_) => Some(Action::Run),
        Order::LogFilter(_) => Some(Action::LogLevel),
        Order::Profile(_) => Some(Action::Profile),
        Order::Do(_)
        | Order::Goto(_)
        | Order::Find(_)
        | Order::Sort(_)
        | Order::Filter(_)
        | Order::Interval(_)
        | Order::Open(_) => None,
    }
}

fn carry_out(model: &mut Model, order: Order, effects: &mut Vec<Effect>) {
    if let Some(why) = action_of(&order).and_then(|action| model.refusal(action)) {
        return model.show_notice(why, true);
    }
    match order {
        Order::Do(action) => actions::execute(model, action, effects),
        Order::Goto(pid) => process::follow(model, pid, effects),
        Order::Find(filter) => {
            show(model, Tab::Processes);
            model.table.set_filter(filter);
            model.table.go_to(0, model.visible_rows());
        }
        Order::Kill(pid) => {
            // The question shows what ends with the process, so its details are requested.
            process::show_process(model, pid.clone(), effects);
            model.overlay = Some(Overlay::kill(pid, String::new()));
        }
        Order::Sort(sort) => {
            show(model, Tab::Processes);
            model.table.set_sort(sort);
        }
        Order::Filter(filter) => {
            show(model, Tab::Processes);
            model.table.set_filter(filter);
        }
        Order::Run(scenario) => {
            if let Some(at) = model.scenarios().iter().position(|known| known.id == scenario) {
                model.bench.selected = at;
            }
            show(model, Tab::Bench);
            bench::run_or_ask(model, scenario, effects);
        }
        Order::LogFilter(filter) => {
            let id = Some(model.command(format!("log filter {filter}")));
            effects.push(Effect::Send(ClientMessage::SetLogFilter { filter, id }));
        }
        Order::Interval(time) => {
            model.frame_hz = 1.0 / time.as_secs_f64();
            effects.push(Effect::Send(ClientMessage::Watch { frame_hz: model.frame_hz }));
            effects.push(Effect::Interval(time));
        }
        Order::Open(path) => effects.push(Effect::OpenRecording(path.into())),
        Order::Profile(profile) => {
            let id = Some(model.command(format!("profile {profile}")));
            effects.push(Effect::Send(ClientMessage::SetResourceProfile { profile, id }));
        }
    }
}

/// Returns the names that arguments may have.
fn known(model: &Model) -> KnownNames {
    let rows = model.table.rows.as_ref();
    let processes = rows.map_or_else(Vec::new, |rows| {
        let process =
            |row: &Vec<_>| (text(rows, row, Column::Pid).to_owned(), text(rows, row, Column::Name).to_owned());
        rows.rows.iter().take(PROCESSES_MAX).map(process).filter(|(pid, _)| !pid.is_empty()).collect()
    });
    KnownNames {
        scenarios: model.scenarios().iter().map(|scenario| scenario.id.clone()).collect(),
        profiles: model.hello.iter().flat_map(|hello| &hello.profiles).map(|profile| profile.id.clone()).collect(),
        processes,
    }
}
