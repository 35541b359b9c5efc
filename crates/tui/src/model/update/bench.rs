//! Executes the actions of the Bench view: run, stop, results, history, find.

use rusm_protocol::ClientMessage;

use super::navigate::show;
use crate::model::Model;
use crate::model::format;
use crate::model::layout;
use crate::model::message::{Effect, Export};
use crate::model::overlay::{Ask, Overlay};
use crate::model::panes::bench::RequestedRun;
use crate::model::panes::bench::menu;
use crate::model::panes::bench::results::{Added, BenchPane, Download};
use crate::model::panes::bench::run_dialog::{Chosen, RunDialog};
use crate::model::tab::Tab;

/// Runs the selected scenario with its chosen settings; asks first as [`run_or_ask`] does.
pub(super) fn run_selected(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some(scenario) = model.selected_scenario().map(|scenario| scenario.id.clone()) else {
        return model.show_notice("no scenarios on this node", true);
    };
    run_or_ask(model, scenario, effects);
}

/// Runs a scenario with its chosen settings; asks first if that ends a run, or if the node has other processes.
pub(super) fn run_or_ask(model: &mut Model, scenario: String, effects: &mut Vec<Effect>) {
    if let Some(lacks) = lacks(model, &scenario) {
        return model.show_notice(format!("{scenario} cannot run here: {lacks}"), true);
    }
    let question = match (running(model), others(model)) {
        (None, 0) => return run(model, scenario, effects),
        (Some(running), 0) => format!("{running} is running and ends now"),
        (Some(running), others) => format!("{running} ends now, and {} of others live here", processes(others)),
        (None, others) => format!("{} of others live on this node", processes(others)),
    };
    model.overlay = Some(Overlay::Ask { question, ask: Ask::Run(scenario) });
}

/// Stops the run; asks first if there is one.
pub(super) fn stop_or_ask(model: &mut Model, effects: &mut Vec<Effect>) {
    match running(model) {
        Some(running) => {
            model.overlay = Some(Overlay::Ask { question: format!("{running} ends now"), ask: Ask::Stop });
        }
        None if model.commands.is_empty() && model.live_frame().is_some_and(|frame| !frame.running) => {
            model.show_notice("nothing to stop: no scenario is running", true);
        }
        None => stop(model, effects),
    }
}

fn stop(model: &mut Model, effects: &mut Vec<Effect>) {
    let id = Some(model.command("stop".to_owned()));
    effects.push(Effect::Send(ClientMessage::Stop { id }));
}

/// Returns what the node lacks to run a scenario.
fn lacks(model: &Model, scenario: &str) -> Option<String> {
    let scenarios = &model.hello.as_ref()?.scenarios;
    scenarios.iter().find(|known| known.id == scenario)?.lacks.clone()
}

/// Returns the scenario that is running.
fn running(model: &Model) -> Option<String> {
    model.live_frame().filter(|frame| frame.running).and_then(|frame| frame.scenario.clone())
}

/// Returns the number of processes that do not belong to a run.
fn others(model: &Model) -> u64 {
    model.live_frame().map_or(0, |frame| frame.others_alive)
}

fn processes(count: u64) -> String {
    format!("{} process{}", format::grouped(count), if count == 1 { "" } else { "es" })
}

/// Requests a run with the chosen settings.
pub(super) fn run(model: &mut Model, scenario: String, effects: &mut Vec<Effect>) {
    let chosen = model.bench.chosen(&scenario);
    match chosen.read() {
        Ok(settings) => {
            let id = Some(model.command(format!("run {scenario}")));
            let params = chosen.params;
            follow_current(model);
            effects.push(Effect::Send(ClientMessage::Run { scenario, params, settings: Box::new(settings), id }));
        }
        Err(why) => model.show_notice(why, true),
    }
}

/// Shows the result of what runs next.
fn follow_current(model: &mut Model) {
    (model.results.run, model.results.against) = (None, None);
    model.results.scroll = 0;
}

/// Requests a run with the values of the dialog, which stays open until the node has accepted them.
pub(super) fn run_with(model: &mut Model, mut dialog: RunDialog, effects: &mut Vec<Effect>) {
    let scenario = dialog.scenario.clone();
    let chosen = dialog.chosen();
    match chosen.read() {
        Ok(settings) => {
            let id = model.command(format!("run {scenario}"));
            let (settings, params) = (Box::new(settings), chosen.params.clone());
            effects.push(Effect::Send(ClientMessage::Run {
                scenario: scenario.clone(),
                params,
                settings,
                id: Some(id),
            }));
            model.bench.requested = Some(RequestedRun { id, scenario, chosen });
            dialog.refused = None;
            follow_current(model);
        }
        Err(why) => dialog.refuse(why),
    }
    model.overlay = Some(Overlay::Run(dialog));
}

/// Opens the dialog with settings and parameters.
pub(super) fn parameters(model: &mut Model) {
    let Some(scenario) = model.selected_scenario() else {
        return model.show_notice("no scenarios on this node", true);
    };
    let chosen = model.bench.chosen(&scenario.id);
    let dialog = dialog(model, &chosen);
    model.overlay = dialog.map(Overlay::Run);
}

fn dialog(model: &Model, chosen: &Chosen) -> Option<RunDialog> {
    let profiles = model.hello.as_ref().map_or(&[][..], |hello| &hello.profiles);
    let profile = model.frame.as_ref().map_or("", |frame| frame.profile.as_str());
    model.selected_scenario().map(|scenario| RunDialog::new(scenario, profiles, profile, chosen))
}

/// Pauses the run, or lets it go on.
pub(super) fn pause(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some(frame) = model.live_frame().filter(|frame| frame.running) else {
        return model.show_notice("no scenario runs: there is nothing to pause", true);
    };
    let paused = !frame.paused;
    let id = Some(model.command(if paused { "pause" } else { "continue" }.to_owned()));
    effects.push(Effect::Send(ClientMessage::Pause { paused, id }));
}

/// Executes what was asked.
pub(super) fn confirmed(model: &mut Model, ask: Ask, effects: &mut Vec<Effect>) {
    match ask {
        Ask::Run(scenario) => run(model, scenario, effects),
        Ask::Stop => stop(model, effects),
        Ask::Profile(profile) => set_profile(model, profile, effects),
    }
}

/// Selects the next profile; asks first if that restarts a run.
pub(super) fn next_profile(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some(hello) = model.hello.as_ref().filter(|hello| !hello.profiles.is_empty()) else {
        return model.show_notice("no resource profiles on this node", true);
    };
    let current = model.frame.as_ref().map_or("", |frame| frame.profile.as_str());
    let at = hello.profiles.iter().position(|profile| profile.id == current);
    let next = at.map_or(0, |at| (at + 1) % hello.profiles.len());
    let profile = hello.profiles[next].id.clone();
    match running(model) {
        Some(scenario) => {
            let question = format!("{scenario} starts again with profile {profile}");
            model.overlay = Some(Overlay::Ask { question, ask: Ask::Profile(profile) });
        }
        None => set_profile(model, profile, effects),
    }
}

fn set_profile(model: &mut Model, profile: String, effects: &mut Vec<Effect>) {
    let id = Some(model.command(format!("profile {profile}")));
    effects.push(Effect::Send(ClientMessage::SetResourceProfile { profile, id }));
}

/// Shows the result or the history, or returns to the run.
pub(super) fn show_pane(model: &mut Model, pane: BenchPane) {
    if model.tab != Tab::Bench {
        show(model, Tab::Bench);
    }
    let results = &mut model.results;
    if results.pane == pane {
        results.pane = BenchPane::Live;
        (results.run, results.against) = (None, None);
        return;
    }
    results.pane = pane;
    if pane == BenchPane::Result {
        (results.scroll, results.shift) = (0, 0);
    }
}

/// Leaves the result or the history. Returns false if the run is shown already.
pub(super) fn leave_pane(model: &mut Model) -> bool {
    let results = &mut model.results;
    let was_chosen = results.run.is_some();
    match results.pane {
        BenchPane::Live => return false,
        BenchPane::Result if was_chosen => {
            results.pane = BenchPane::History;
            (results.run, results.against) = (None, None);
        }
        BenchPane::Result | BenchPane::History => results.pane = BenchPane::Live,
    }
    true
}

/// Moves in the result, in the history or in the menu.
pub(super) fn lines_by(model: &mut Model, lines: i64) {
    match model.results.pane {
        BenchPane::Live => {
            let rows = menu::matching(model.scenarios(), model.bench.find_text().as_deref());
            let at = rows.iter().position(|at| *at == model.bench.selected).unwrap_or(0) as u64;
            let to = usize::try_from(at.saturating_add_signed(lines)).unwrap_or(usize::MAX);
            if let Some(selected) = rows.get(to.min(rows.len().saturating_sub(1))) {
                model.bench.selected = *selected;
            }
        }
        BenchPane::Result => {
            let (total, visible) = (model.sheet_lines().len(), model.visible_sheet());
            model.results.scroll_by(lines, total, visible);
        }
        BenchPane::History => model.results.move_by(lines, model.visible_history()),
    }
}

/// Moves to a position in the result, in the history or in the menu.
pub(super) fn to_position(model: &mut Model, position: u64) {
    match model.results.pane {
        BenchPane::Live | BenchPane::Result => lines_by(model, if position == 0 { i64::MIN } else { i64::MAX }),
        BenchPane::History => model.results.go_to(position, model.visible_history()),
    }
}

/// Returns the number of rows by which a page key moves.
pub(super) fn page(model: &Model) -> u16 {
    match model.results.pane {
        BenchPane::Live => layout::bench(model.size, model.menu_len()).menu.inner().height,
        BenchPane::Result => model.visible_sheet(),
        BenchPane::History => model.visible_history(),
    }
}

/// Performs the action of Enter in the history: shows the selected result.
pub(super) fn open(model: &mut Model) {
    if let Some(number) = kept_entry(model) {
        model.results.show(Some(number), None);
    }
}

/// Marks the selected result, or removes its mark.
pub(super) fn mark(model: &mut Model) {
    let Some(number) = kept_entry(model) else { return };
    let is_marked = model.results.marked == Some(number);
    model.results.marked = (!is_marked).then_some(number);
}

/// Shows the selected result beside the marked one, or beside the one before it of the same scenario.
pub(super) fn compare(model: &mut Model) {
    let Some(number) = kept_entry(model) else { return };
    let results = &model.results;
    let entries = results.newest.as_ref().map_or(&[][..], |newest| &newest.history);
    let scenario = results.entry().map(|entry| entry.scenario.clone()).unwrap_or_default();
    let previous = || {
        let is_before = |number: u64, other: u64| other > 0 && other < number;
        let mut same = entries.iter().filter(|entry| entry.scenario == scenario && entry.kind == "run");
        same.find(|entry| is_before(number, entry.number)).map(|entry| entry.number)
    };
    let marked = results.marked.filter(|marked| *marked != number);
    match marked.or_else(previous) {
        // The later one is judged by the earlier one.
        Some(other) => model.results.show(Some(number.max(other)), Some(number.min(other))),
        None => model.show_notice(format!("m marks a result to compare #{number} with"), false),
    }
}

/// Opens the dialog for an interleaved comparison of new settings with the selected result.
pub(super) fn against(model: &mut Model) {
    let Some(number) = kept_entry(model) else { return };
    let Some(entry) = model.results.entry().cloned() else { return };
    let at = model.scenarios().iter().position(|scenario| scenario.id == entry.scenario);
    let Some(at) = at else {
        return model.show_notice(format!("{} is not a scenario of this node", entry.scenario), true);
    };
    model.bench.selected = at;
    let mut chosen = model.bench.chosen(&entry.scenario);
    for (name, value) in [("kind", "ab".to_owned()), ("baseline", number.to_string())] {
        chosen.settings.insert(name.to_owned(), value);
    }
    let dialog = dialog(model, &chosen);
    model.results.pane = BenchPane::Live;
    model.overlay = dialog.map(Overlay::Run);
}

/// Returns the number of the selected result, or the reason why it is missing.
fn kept_entry(model: &mut Model) -> Option<u64> {
    let number = model.results.entry().map(|entry| entry.number);
    match number {
        None => model.show_notice("no results yet: enter on Bench runs a scenario", false),
        Some(0) => model.show_notice("only the summary of this result is kept: it is of another program", false),
        Some(_) => {}
    }
    number.filter(|number| *number > 0)
}

/// Requests the JSON report of the shown result.
pub(super) fn save_report(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some((number, scenario)) = shown_result(model) else {
        return model.show_notice("no complete result to save yet", true);
    };
    let id = model.command(format!("report of #{number}"));
    model.results.download = Some(Download { id, number, scenario, text: String::new() });
    effects.push(Effect::Send(ClientMessage::Report { run: number, offset: 0, id }));
}

/// Saves a picture of the screen.
pub(super) fn save_picture(model: &mut Model, effects: &mut Vec<Effect>) {
    let name = match (model.results.pane, model.results.result()) {
        (BenchPane::History, _) | (_, None) => "results".to_owned(),
        (_, Some(result)) => format!("{}-{}", result.scenario, result.number),
    };
    effects.push(Effect::Save { name: format!("rusm-{name}.svg"), export: Export::Picture });
}

/// Returns number and scenario of the complete result that is shown, or of the one under the cursor.
fn shown_result(model: &Model) -> Option<(u64, String)> {
    let results = &model.results;
    if results.pane == BenchPane::History {
        let entry = results.entry().filter(|entry| entry.number > 0)?;
        return Some((entry.number, entry.scenario.clone()));
    }
    let result = results.result().filter(|result| result.verdict.is_some())?;
    Some((result.number, result.scenario.clone()))
}

/// Adds a part of a report to the download.
pub(super) fn report(model: &mut Model, part: &rusm_protocol::ReportPart, effects: &mut Vec<Effect>) {
    model.take_command(part.id);
    let next = model.command_ids + 1;
    match model.results.add(part, next) {
        Added::Ignored => {}
        Added::Next(request) => {
            let id = model.command(format!("report of #{}", part.number));
            debug_assert_eq!(id, next, "the id was announced");
            effects.push(Effect::Send(request));
        }
        Added::Whole(Download { number, scenario, text, .. }) => {
            let name = format!("rusm-{}-{number}.json", file_name(&scenario));
            effects.push(Effect::Save { name, export: Export::Text(text) });
        }
    }
}

/// Returns a text as a part of a file name: the node is not trusted with paths.
fn file_name(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect()
}

/// Edits the text that scenarios are found by.
pub(super) fn find(model: &mut Model) {
    if model.scenarios().is_empty() {
        return model.show_notice("no scenarios on this node", true);
    }
    model.results.pane = BenchPane::Live;
    model.bench.begin_find();
}

/// Selects the first scenario that matches, unless the selected one does.
pub(super) fn found(model: &mut Model) {
    let rows = menu::matching(model.scenarios(), model.bench.find_text().as_deref());
    if !rows.contains(&model.bench.selected)
        && let Some(first) = rows.first()
    {
        model.bench.selected = *first;
    }
}
