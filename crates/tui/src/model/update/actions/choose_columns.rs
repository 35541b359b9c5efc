//! Executes the actions of the column chooser.

use crate::model::Model;
use crate::model::message::Effect;
use crate::model::overlay::Overlay;
use crate::model::overlay::columns::ColumnChooser;
use crate::model::panes::columns::ColumnSet;

/// Opens the chooser of the columns that are shown.
pub(super) fn open(model: &mut Model) {
    let columns = &model.table.columns;
    let shown: Vec<_> = match columns.chosen() {
        [] => columns.fit(model.table_width(), model.table.sort).iter().map(|slot| slot.column).collect(),
        chosen => chosen.to_vec(),
    };
    model.overlay = Some(Overlay::Columns(ColumnChooser::new(&shown, columns.chosen().to_vec())));
}

/// Changes the chooser and applies the choice.
pub(super) fn change(model: &mut Model, change: impl FnOnce(&mut ColumnChooser)) {
    if let Some(Overlay::Columns(chooser)) = &mut model.overlay {
        change(chooser);
        model.table.columns.choose(chooser.chosen());
    }
}

/// Shows the columns that fit again.
pub(super) fn reset(model: &mut Model) {
    let Some(Overlay::Columns(chooser)) = model.overlay.take() else { return };
    model.table.columns.choose(Vec::new());
    open(model);
    if let Some(Overlay::Columns(opened)) = &mut model.overlay {
        opened.before = chooser.before;
    }
}

/// Restores the choice from before the chooser was opened.
pub(super) fn cancel(model: &mut Model, chooser: ColumnChooser) {
    model.table.columns.choose(chooser.before);
}

/// Keeps the choice in the config file.
pub(super) fn keep(model: &Model, effects: &mut Vec<Effect>) {
    let columns = &model.table.columns;
    let key = match columns.set {
        ColumnSet::Usual => "columns",
        ColumnSet::Guests => "guest_columns",
    };
    effects.push(Effect::SaveColumns { key, columns: columns.chosen().to_vec() });
}
