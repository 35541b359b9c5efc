//! Switches between views.

use crate::model::Model;
use crate::model::tab::Tab;

/// Shows a view.
pub(super) fn show(model: &mut Model, tab: Tab) {
    if tab != model.tab {
        close_filter(model, true);
        if !model.events.filter.close(true) {
            model.events.filter.close(false);
        }
        if !model.serve.filter.close(true) {
            model.serve.filter.close(false);
        }
        model.tab_before = Some(model.tab);
        (model.tab, model.zoom) = (tab, 0);
    }
}

/// Closes the filter field. A filter that the node refused is not kept.
pub(super) fn close_filter(model: &mut Model, keep: bool) {
    if let Some(refusal) = model.table.close_filter(keep) {
        model.show_notice(refusal, true);
    }
}
