//! The filter of the live requests, and its field while it is edited.

use rusm_protocol::RequestFilter;
use rusm_text::QueryError;

use crate::model::input::complete::{Completion, Vocabulary, complete};
use crate::model::input::line_edit::LineEdit;

/// Number of remembered filters.
const FILTERS_KEPT: usize = 32;

/// The filter of the live requests, and its field while it is edited.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestFilterField {
    pub(crate) text: String,
    /// The last valid text, which the node applies.
    in_force: String,
    pub(crate) field: Option<LineEdit>,
    /// The problem of the text in the field.
    pub(crate) error: Option<QueryError>,
    pub(crate) completion: Option<Completion>,
    /// Text when the field was opened, which comes back if the changes are discarded.
    before: String,
    history: Vec<String>,
    history_at: usize,
}

impl RequestFilterField {
    /// Returns the text of the filter that the node applies.
    pub(crate) fn in_force(&self) -> &str {
        &self.in_force
    }

    /// Opens the field.
    pub(crate) fn edit(&mut self) {
        self.field = Some(LineEdit::new(&self.text));
        self.before.clone_from(&self.in_force);
        self.history_at = self.history.len();
    }

    /// Applies the text of the field, after each key. A text with an error keeps the last valid filter.
    pub(crate) fn typed(&mut self) {
        self.completion = None;
        self.apply();
    }

    /// Completes the word before the cursor.
    pub(crate) fn complete(&mut self, steps: isize) {
        if let Some(field) = &mut self.field {
            self.completion = complete(field, self.completion.take(), steps, Vocabulary::Requests);
            self.apply();
        }
    }

    fn apply(&mut self) {
        let Some(field) = &self.field else { return };
        self.text = field.text();
        self.error = RequestFilter::parse(&self.text).err();
        if self.error.is_none() {
            self.text.trim().clone_into(&mut self.in_force);
        }
    }

    /// Closes the field. Returns false if its text has an error: then it stays open.
    pub(crate) fn close(&mut self, keep: bool) -> bool {
        if keep && self.error.is_some() {
            return false;
        }
        self.field = None;
        if !keep {
            let before = std::mem::take(&mut self.before);
            self.set(before);
        } else if !self.in_force.is_empty() && self.history.last() != Some(&self.in_force) {
            self.history.push(self.in_force.clone());
            let excess = self.history.len().saturating_sub(FILTERS_KEPT);
            self.history.drain(..excess);
        }
        true
    }

    /// Sets the filter.
    pub(crate) fn set(&mut self, text: String) {
        (self.field, self.error) = (None, None);
        self.in_force.clone_from(&text);
        self.text = text;
    }

    /// Removes the filter. Returns false without a filter.
    pub(crate) fn clear(&mut self) -> bool {
        let had = !self.text.is_empty();
        self.set(String::new());
        had
    }

    /// Puts an earlier or later filter of the history into the field.
    pub(crate) fn recall(&mut self, steps: i64) {
        self.history_at = self.history_at.saturating_add_signed(steps as isize).min(self.history.len());
        self.field = Some(LineEdit::new(self.history.get(self.history_at).map_or("", String::as_str)));
        self.typed();
    }
}
