//! Typing into the filters of the Events view and the Serve view.

use crate::model::Model;
use crate::model::input::key::{Key, KeyCode};

/// Passes a key to the open filter field. Returns false if none is open.
pub(super) fn press(model: &mut Model, key: Key) -> bool {
    if model.overlay.is_some() {
        return false;
    }
    let leaves = |text: String| key.code == KeyCode::Backspace && text.is_empty();
    if let Some(field) = &mut model.events.filter.field {
        if leaves(field.text()) {
            model.events.filter.close(true);
        } else if field.press(key) {
            model.events.filter.typed();
        }
        return true;
    }
    if let Some(field) = &mut model.serve.filter.field {
        if leaves(field.text()) {
            model.serve.filter.close(true);
        } else if field.press(key) {
            model.serve.filter.typed();
        }
        return true;
    }
    false
}

/// Inserts a text into the open filter field. Returns false if none is open.
pub(super) fn paste(model: &mut Model, text: &str) -> bool {
    if model.overlay.is_some() {
        return false;
    }
    if let Some(field) = &mut model.events.filter.field {
        field.insert(text);
        model.events.filter.typed();
        return true;
    }
    if let Some(field) = &mut model.serve.filter.field {
        field.insert(text);
        model.serve.filter.typed();
        return true;
    }
    false
}
