//! Executes the actions of keys.

mod choose_columns;

use std::time::Duration;

use rusm_protocol::{ClientMessage, Column, KillReason};

use super::navigate::{close_filter, show};
use super::waits_and_trace;
use super::{bench, movement, past, pause, process, receive};
use crate::model::Model;
use crate::model::input::complete::as_value;
use crate::model::input::keys::Action;
use crate::model::message::{Effect, Export, QuitReason};
use crate::model::overlay::columns::ColumnChooser;
use crate::model::overlay::{Overlay, Question};
use crate::model::panes::bench::results::BenchPane;
use crate::model::panes::cluster::ClusterFocus;
use crate::model::panes::columns::ColumnSet;
use crate::model::panes::cpu::CpuPane;
use crate::model::panes::serve::ServeFocus;
use crate::model::panes::store::StoreFocus;
use crate::model::panes::table::Selection;
use crate::model::panes::wasm::WasmFocus;
use crate::model::selection::wrapped;
use crate::model::tab::Tab;

#[expect(clippy::too_many_lines, reason = "one short arm for each action")]
pub(super) fn execute(model: &mut Model, action: Action, effects: &mut Vec<Effect>) {
    if let Some(why) = model.refusal(action) {
        return model.show_notice(why, true);
    }
    match action {
        Action::Quit if model.owns_node => model.overlay = Some(Overlay::Confirm(Question::EndNode)),
        Action::RestartChild => process::confirm_restart(model),
        Action::Quit => effects.push(Effect::Quit(QuitReason::Requested)),
        Action::Help => model.overlay = Some(Overlay::Help { scroll: 0 }),
        Action::Show(tab) => show(model, tab),
        Action::Step(steps) => show(model, model.tab.step(steps, &model.tabs())),
        Action::Back => back(model, effects),
        Action::Pause => pause::pause(model, effects),
        Action::Past(seconds) => pause::step(model, seconds, effects),
        Action::Crash(is_forward) => past::go_to_crash(model, is_forward),
        Action::Now => receive::leave(model, effects),
        Action::Changes => past::compare(model),
        Action::Zoom(steps) => model.zoom(steps),
        Action::Enlarge => {
            if !model.zoom_next() {
                model.show_notice("this view has no panels to enlarge", false);
            }
        }
        Action::AllNodes => process::attach_to_all(model, effects),
        Action::NextNode => effects.push(Effect::NextNode),
        Action::OneNode => effects.push(Effect::OneNode),
        Action::Repaint => effects.push(Effect::Repaint),
        Action::Suspend => effects.push(Effect::Suspend),
        Action::Copy => process::copy(model, effects),
        Action::Retry => effects.push(Effect::Retry),
        Action::Lines(lines) => movement::lines_by(model, lines),
        Action::HalfPages(halves) => movement::lines_by(model, halves * i64::from(movement::page(model) / 2).max(1)),
        Action::Family(is_forward) => movement::to_family(model, is_forward),
        Action::First => movement::to_position(model, 0),
        Action::Last => movement::to_position(model, u64::MAX),
        Action::Run => bench::run_selected(model, effects),
        Action::Stop => bench::stop_or_ask(model, effects),
        Action::PauseRun => bench::pause(model, effects),
        Action::Profile => bench::next_profile(model, effects),
        Action::Parameters => bench::parameters(model),
        Action::About if model.selected_scenario().is_some() => model.overlay = Some(Overlay::About { scroll: 0 }),
        Action::About => model.show_notice("no scenarios on this node", true),
        Action::Filter if model.overlay == Some(Overlay::Trace) => waits_and_trace::edit_filter(model),
        Action::Filter if model.tab == Tab::Events => model.events.edit_filter(),
        Action::Filter if model.tab == Tab::Serve => model.serve.filter.edit(),
        Action::Results(in_full) => {
            bench::show_pane(model, if in_full { BenchPane::Result } else { BenchPane::History });
        }
        Action::Find => bench::find(model),
        Action::Columns(steps) => model.results.shift = model.results.shift.saturating_add_signed(steps).min(24),
        Action::Mark => bench::mark(model),
        Action::Compare => bench::compare(model),
        Action::Against => bench::against(model),
        Action::SaveReport => bench::save_report(model, effects),
        Action::SavePicture => bench::save_picture(model, effects),
        Action::SaveScreen => {
            let at_s = model.frame().map_or(0, |frame| frame.uptime_ms / 1000);
            let name = format!("rusm-top-{}-{at_s}s.txt", model.tab.id());
            effects.push(Effect::Save { name, export: Export::Screen });
        }
        Action::ExportTrace => export_trace(model, effects),
        Action::Filter => model.table.edit_filter(),
        Action::Complete(steps) => complete(model, steps),
        // Handled before.
        Action::Palette | Action::LogLevel => {}
        Action::Level => model.events.next_level(),
        Action::LogLines => log_lines(model),
        Action::Link(at) => process::follow_event_link(model, at.into(), effects),
        Action::SortMenu => {
            let at = Column::ALL.iter().position(|&column| column == model.table.sort.key);
            model.overlay = Some(Overlay::SortMenu { at: at.unwrap_or(0) });
        }
        Action::SortStep(steps) => model.table.sort_step(steps, model.table_width()),
        Action::SortNext if model.tab == Tab::Serve => model.serve.sort_next(),
        Action::SortNext => model.topics.sort_next(),
        Action::SortBy(column) => model.table.sort_by(column),
        Action::Invert => model.table.invert(),
        Action::Follow => {
            model.table.follow = !model.table.follow;
            if model.table.follow && model.table.selected().is_some() {
                model.table.reveal(model.visible_rows());
            }
        }
        Action::Reorder => model.table.reorder(),
        Action::Detail if model.tab == Tab::Tree => model.tree.in_full = !model.tree.in_full,
        Action::Unfold => model.tree.unfold(model.visible_tree()),
        Action::Fold => model.tree.fold(model.visible_tree()),
        Action::FoldAll => model.tree.fold_all(model.visible_tree()),
        Action::Panel(steps) if model.tab == Tab::Cluster => {
            let has_names = model.cluster_layout().names.height > 0;
            model.cluster.focus = if steps > 0 && has_names { ClusterFocus::Names } else { ClusterFocus::Nodes };
            model.cluster.clamp(model.visible_cluster());
        }
        Action::Panel(steps) if model.tab == Tab::Serve => {
            model.serve.focus = if steps > 0 { ServeFocus::Requests } else { ServeFocus::Routes };
            model.serve.clamp(model.visible_serve());
        }
        Action::Panel(steps) => model.wasm.focus = if steps > 0 { WasmFocus::Traps } else { WasmFocus::Modules },
        Action::Group => model.cpu.next_group(),
        Action::NextEngine if model.tab == Tab::Store => model.store.store = model.store.store.wrapping_add(1),
        Action::Page(forward) if model.tab == Tab::Processes => {
            let turned = model.detail.as_mut().is_some_and(|pane| pane.turn_page(forward));
            if !turned {
                model.show_notice("no more pages", false);
            }
        }
        Action::Page(forward) => model.store.turn_page(forward),
        Action::Return => process::return_back(model, effects),
        Action::Cause(steps) => {
            if !model.causes.step(steps) {
                model.show_notice("nothing has failed", false);
            }
        }
        Action::OpenCause => {
            if model.causes.open() {
                model.overlay = Some(Overlay::Cause { scroll: 0 });
            } else {
                model.show_notice("nothing has failed", false);
            }
        }
        Action::Children => {
            if let Some(pane) = &mut model.detail {
                pane.toggle_children();
            }
        }
        Action::Values => process::toggle_values(model),
        Action::NextEngine => model.wasm.engine = model.wasm.engine.wrapping_add(1),
        Action::GuestColumns => model.table.columns.toggle_set(),
        Action::ChooseColumns => choose_columns::open(model),
        Action::Toggle => choose_columns::change(model, ColumnChooser::toggle),
        Action::Shift(steps) => choose_columns::change(model, |chooser| chooser.shift(steps)),
        Action::Reset => choose_columns::reset(model),
        Action::Process if model.tab == Tab::Events => process::show_event(model, effects),
        Action::Process => process::show_child(model, effects),
        Action::Detail => model.rows_wanted = !model.rows_wanted,
        Action::Open => open(model, effects),
        Action::Kill => process::confirm_kill(model),
        Action::KillAll => process::confirm_kill_all(model),
        Action::Lint(steps) => {
            model.events.release();
            model.lints.step(model.frame.as_deref(), steps);
        }
        Action::HideLints => hide_lints(model),
        Action::ShowLints => model.lints.show_all(),
        Action::Waits => model.overlay = Some(Overlay::Waits),
        Action::Trace => waits_and_trace::trace(model, effects),
        Action::TraceScope => waits_and_trace::trace_next_scope(model, effects),
        Action::SaveTrace => waits_and_trace::save_trace(model, effects),
        Action::NextChoice => choose(model, 1),
        Action::PreviousChoice => choose(model, -1),
    }
}

/// Closes the innermost open element.
fn back(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.overlay == Some(Overlay::Trace) && model.trace.field.take().is_some() {
        return;
    }
    match model.overlay.take() {
        Some(Overlay::Columns(chooser)) => return choose_columns::cancel(model, chooser),
        Some(_) => return,
        None => {}
    }
    if model.zoom > 0 {
        model.zoom = 0;
        return;
    }
    if model.table.field.is_some() {
        return close_filter(model, false);
    }
    if model.events.filter.field.is_some() {
        model.events.filter.close(false);
        return;
    }
    if model.serve.filter.field.is_some() {
        model.serve.filter.close(false);
        return;
    }
    if model.tab == Tab::Serve && model.serve.filter.clear() {
        return;
    }
    if model.tab == Tab::Bench && model.bench.find.is_some() {
        return model.bench.end_find(false);
    }
    if model.tab == Tab::Bench && bench::leave_pane(model) {
        return;
    }
    if model.tab == Tab::Store && model.store.close_bucket() {
        return;
    }
    if model.tab == Tab::Events && (model.events.release() || model.events.filter.clear()) {
        return;
    }
    if model.tab == Tab::Processes {
        if let Some(pane) = model.detail.as_mut().filter(|pane| pane.in_full) {
            pane.in_full = false;
            return;
        }
        if model.detail.is_some() {
            return process::close_detail(model, effects);
        }
        if !model.table.filter.is_empty() {
            return model.table.clear_filter();
        }
        if model.table.selection != Selection::None {
            model.table.selection = Selection::None;
            return;
        }
    }
    if let Some(tab) = model.tab_before.take() {
        model.tab = tab;
    }
}

/// Performs the action of Enter.
pub(super) fn open(model: &mut Model, effects: &mut Vec<Effect>) {
    match model.overlay.take() {
        Some(Overlay::Cause { .. }) => {
            if let Some(pid) = model.causes.detail().map(|detail| detail.process.pid.clone()) {
                process::follow(model, pid, effects);
            }
        }
        Some(overlay @ Overlay::Kill { .. }) => process::kill(model, overlay, effects),
        Some(Overlay::KillAll { filter, reason, .. }) => {
            let word = if reason == KillReason::Kill { "kill" } else { "ask to shut down" };
            let id = Some(model.command(format!("{word} all of {filter}")));
            effects.push(Effect::Send(ClientMessage::KillAll { filter, reason, id }));
        }
        Some(Overlay::Confirm(Question::EndNode)) => effects.push(Effect::Quit(QuitReason::Requested)),
        Some(Overlay::Confirm(Question::RestartChild { path, name })) => {
            let id = Some(model.command(format!("{name} restarted")));
            effects.push(Effect::Send(ClientMessage::RestartChild { path, id }));
        }
        Some(Overlay::SortMenu { at }) => model.table.sort_by(Column::ALL[at % Column::ALL.len()]),
        Some(Overlay::Columns(_)) => choose_columns::keep(model, effects),
        Some(Overlay::Waits) => waits_and_trace::show_waiting(model, effects),
        Some(Overlay::Trace) => waits_and_trace::apply_filter(model),
        None if model.events.filter.field.is_some() => _ = model.events.filter.close(true),
        None if model.serve.filter.field.is_some() => _ = model.serve.filter.close(true),
        // A filter with an error stays in the field, with its text.
        None if model.table.field.is_some() && model.table.refused.is_some() => {}
        Some(Overlay::Run(dialog)) => bench::run_with(model, dialog, effects),
        Some(Overlay::Ask { ask, .. }) => bench::confirmed(model, ask, effects),
        None if model.table.field.is_some() => close_filter(model, true),
        None if model.tab == Tab::Serve => process::open_request(model, effects),
        None if model.tab == Tab::Cluster => process::open_in_cluster(model, effects),
        None if matches!(model.tab, Tab::Topics | Tab::Time) => process::follow_slowest(model, effects),
        None if model.tab == Tab::Processes && model.detail_in_full() => process::follow_link(model, effects),
        None if model.tab == Tab::Bench && model.bench.find.is_some() => model.bench.end_find(true),
        None if model.tab == Tab::Bench && model.results.pane == BenchPane::History => bench::open(model),
        None if model.tab == Tab::Processes => process::open_detail(model, effects),
        None if model.tab == Tab::Tree => {
            if !model.tree.toggle() {
                process::show_child(model, effects);
            }
        }
        None if model.tab == Tab::Events && model.events.open() => {
            model.overlay = Some(Overlay::Event { scroll: 0 });
        }
        None if model.tab == Tab::Events => process::show_lint(model, effects),
        None if model.tab == Tab::Wasm => open_wasm_selection(model),
        None if model.tab == Tab::Cpu => open_group(model, effects),
        None if model.tab == Tab::Store => {
            if model.store.focus == StoreFocus::Buckets && !model.store.open_bucket() {
                model.show_notice("no buckets", false);
            }
        }
        Some(
            Overlay::Help { .. }
            | Overlay::About { .. }
            | Overlay::Trap { .. }
            | Overlay::Event { .. }
            | Overlay::Palette(_)
            | Overlay::Compare { .. }
            | Overlay::OtherNode { .. },
        )
        | None => {}
    }
}

/// Shows the processes of the selected group, or the parent that spawned them.
fn open_group(model: &mut Model, effects: &mut Vec<Effect>) {
    let Some(row) = model.cpu.row(model.cpu.list.at).cloned() else {
        return model.show_notice("the node has not sent this group yet", true);
    };
    if let Some(pid) = row.pid {
        return process::show_process(model, pid, effects);
    }
    match CpuPane::filter(&row) {
        Some(filter) => {
            model.table.set_filter(filter);
            show(model, Tab::Processes);
        }
        None => model.show_notice(format!("{}: no filter selects these processes", row.name), false),
    }
}

/// Shows the processes of the selected module, or the selected trap in full.
fn open_wasm_selection(model: &mut Model) {
    match model.wasm.focus {
        WasmFocus::Modules => match model.wasm.module_at(model.wasm.module) {
            Some(module) => {
                let filter = format!("module={}", as_value(&module.name));
                model.table.set_filter(filter);
                model.table.columns.set = ColumnSet::Guests;
                show(model, Tab::Processes);
            }
            None => model.show_notice("no module is loaded", false),
        },
        WasmFocus::Traps => {
            model.wasm.open_trap = model.wasm.trap_id();
            if model.wasm.open_trap.is_some() {
                model.overlay = Some(Overlay::Trap { scroll: 0 });
            } else {
                model.show_notice("no guest has trapped", false);
            }
        }
    }
}

/// Completes the word in the open text field.
fn complete(model: &mut Model, steps: isize) {
    if model.events.filter.field.is_some() {
        model.events.filter.complete(steps);
    } else if model.serve.filter.field.is_some() {
        model.serve.filter.complete(steps);
    } else {
        model.table.complete_filter(steps);
    }
}

/// Shows or hides log lines between the events.
fn log_lines(model: &mut Model) {
    model.events.with_log = !model.events.with_log;
    model.events.release();
}

fn hide_lints(model: &mut Model) {
    match model.lints.hide(model.frame.as_deref()) {
        Some(id) => model.show_notice(format!("{id} is hidden here; H shows it again"), false),
        None => model.show_notice("no lints", false),
    }
}

fn choose(model: &mut Model, steps: isize) {
    match &mut model.overlay {
        Some(Overlay::Kill { reason, .. }) => {
            let all = [KillReason::Shutdown, KillReason::Kill, KillReason::Error];
            let at = all.iter().position(|known| known == reason).unwrap_or(0);
            *reason = all[wrapped(at, steps, all.len())];
        }
        Some(Overlay::KillAll { reason, .. }) => {
            *reason = match reason {
                KillReason::Shutdown => KillReason::Kill,
                KillReason::Kill | KillReason::Error => KillReason::Shutdown,
            };
        }
        Some(Overlay::Run(dialog)) => dialog.step(steps),
        _ => {}
    }
}

/// Exports the time that the charts show. The instants of a node are requested one by one, so it takes some seconds.
fn export_trace(model: &mut Model, effects: &mut Vec<Effect>) {
    let until_ms = model.frame().map_or(0, |frame| frame.captured_at_ns / 1_000_000);
    let last = Duration::from_millis(model.window.ms());
    if until_ms == 0 {
        return model.show_notice("nothing has been received that could be exported", true);
    }
    let name = format!("rusm-trace-{}s-{}s.json", until_ms.saturating_sub(model.window.ms()) / 1000, until_ms / 1000);
    model.show_notice(format!("exporting {} as a trace", model.window.text()), false);
    effects.push(Effect::ExportTrace { name, until_ms, last });
}
