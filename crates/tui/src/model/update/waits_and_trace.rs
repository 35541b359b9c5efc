//! Executes the actions on the list of waits and on a trace.

use rusm_protocol::TraceScope;

use super::process;
use crate::model::Model;
use crate::model::input::line_edit::LineEdit;
use crate::model::message::{Effect, Export};
use crate::model::overlay::Overlay;
use crate::model::overlay::trace::{next_scope, scope_words};

/// Shows the selected process of the list of waits.
pub(super) fn show_waiting(model: &mut Model, effects: &mut Vec<Effect>) {
    match model.waits.shown().map(|row| (row.pid.clone(), row.name.clone())) {
        Some((Some(pid), _)) => process::show_process(model, pid, effects),
        Some((None, name)) => {
            model.overlay = Some(Overlay::Waits);
            model.show_notice(format!("{} is not a process", name.unwrap_or_default()), false);
        }
        None => model.show_notice("nothing is selected", true),
    }
}

/// Starts a trace of the selected process, or of the one that was traced last.
pub(super) fn trace(model: &mut Model, effects: &mut Vec<Effect>) {
    let known = model.trace.target.clone().filter(|_| model.overlay == Some(Overlay::Trace));
    let in_full = model.detail.as_ref().filter(|_| model.detail_in_full()).map(|pane| pane.pid.clone());
    let subject = in_full.or_else(|| process::subject(model).map(str::to_owned));
    let target = known.or_else(|| Some((subject?, TraceScope::Process)));
    match target {
        Some((pid, scope)) => start(model, pid, scope, effects),
        None => process::explain_no_selection(model),
    }
}

/// Starts a trace of other processes related to the traced one.
pub(super) fn trace_next_scope(model: &mut Model, effects: &mut Vec<Effect>) {
    if let Some((pid, scope)) = model.trace.target.clone() {
        start(model, pid, next_scope(scope), effects);
    }
}

fn start(model: &mut Model, pid: String, scope: TraceScope, effects: &mut Vec<Effect>) {
    let id = model.command(format!("trace {pid}, {}", scope_words(scope)));
    effects.push(Effect::Send(model.trace.start(pid, scope, id)));
    model.overlay = Some(Overlay::Trace);
}

/// Opens the filter's text field of the trace.
pub(super) fn edit_filter(model: &mut Model) {
    model.trace.field = Some(LineEdit::new(&model.trace.filter));
}

/// Applies the filter of the trace that was edited.
pub(super) fn apply_filter(model: &mut Model) {
    model.overlay = Some(Overlay::Trace);
    if let Some(field) = model.trace.field.take() {
        model.trace.filter = field.text();
        model.trace.back = 0;
    }
}

/// Saves the events of the trace that match its filter.
pub(super) fn save_trace(model: &mut Model, effects: &mut Vec<Effect>) {
    if model.trace.matching().is_empty() {
        return model.show_notice("the trace is empty", true);
    }
    let pid = model.trace.target.as_ref().map_or("", |(pid, _)| pid.trim_matches(['<', '>']));
    let name = format!("rusm-trace-{pid}-{}.tsv", model.trace.len());
    effects.push(Effect::Save { name, export: Export::Text(model.trace.text()) });
}
