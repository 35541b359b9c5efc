//! The filter of the process table: its field, its history, and what happens when the node refuses it.

use std::collections::BTreeSet;

use rusm_protocol::{Column, ProcessFilter, QueryError};

use crate::model::input::complete::{Vocabulary, complete};
use crate::model::input::line_edit::LineEdit;
use crate::model::panes::table::field::FilterField;
use crate::model::panes::table::{Selection, Table, text};

/// Number of remembered filters.
const HISTORY_MAX: usize = 32;

impl Table {
    /// Returns the requested filter.
    pub(crate) fn filter_in_force(&self) -> &str {
        if self.refused.is_some() { &self.filter_before } else { &self.filter }
    }

    /// Returns the filter of the current rows.
    pub(crate) fn filter_taken(&self) -> &str {
        self.shown.as_ref().map_or("", |(_, filter)| filter)
    }

    /// Handles the refusal of a filter. While the filter is being typed, only the reason is stored. Otherwise a message
    /// for the user is returned. If the table is shown, the field opens again with the text; else the previous filter is
    /// restored.
    pub(crate) fn refuse(&mut self, filter: &str, why: &str, is_shown: bool) -> Option<String> {
        if self.filter != filter {
            return None;
        }
        self.refused = Some(why.to_owned());
        if self.field.is_some() {
            return None;
        }
        if !is_shown {
            return self.take_back();
        }
        let edit = LineEdit::new(&self.filter);
        self.field = Some(FilterField { edit, completion: None, history_at: self.history.len() });
        Some(format!("filter refused: {why}"))
    }

    /// Replaces a refused filter by the previous one.
    fn take_back(&mut self) -> Option<String> {
        let why = self.refused.take()?;
        let before = std::mem::take(&mut self.filter_before);
        self.filter = if before == self.filter { String::new() } else { before };
        self.error = None;
        Some(format!("filter refused: {why}"))
    }

    /// Opens the filter field.
    pub(crate) fn edit_filter(&mut self) {
        self.filter_before.clone_from(&self.filter);
        let (edit, history_at) = (LineEdit::new(&self.filter), self.history.len());
        self.field = Some(FilterField { edit, completion: None, history_at });
    }

    /// Applies the text of the field as the filter, after each key.
    pub(crate) fn filter_typed(&mut self) {
        if let Some(field) = &mut self.field {
            field.completion = None;
            self.filter_changed();
        }
    }

    /// Completes the word before the cursor of the field.
    pub(crate) fn complete_filter(&mut self, steps: isize) {
        let (names, modules) = (self.texts(Column::Name), self.texts(Column::Module));
        if let Some(field) = &mut self.field {
            let vocabulary = Vocabulary::Processes { names: &names, modules: &modules };
            field.completion = complete(&mut field.edit, field.completion.take(), steps, vocabulary);
            self.filter_changed();
        }
    }

    /// Returns the texts of a column on this page, each once.
    fn texts(&self, column: Column) -> Vec<String> {
        let Some(rows) = &self.rows else { return Vec::new() };
        let texts: BTreeSet<&str> = rows.rows.iter().map(|row| text(rows, row, column)).collect();
        texts.into_iter().filter(|text| !text.is_empty()).map(str::to_owned).collect()
    }

    /// Applies the text of the field. A text that is not valid keeps the previous filter in force. A field that is not
    /// known here may be known to a newer node, so the node decides about it.
    fn filter_changed(&mut self) {
        let Some(field) = &self.field else { return };
        let text = field.edit.text();
        self.error = ProcessFilter::parse(&text).err();
        let is_certain = |error: &&QueryError| !error.message.starts_with("unknown filter field");
        self.refused = self.error.as_ref().filter(is_certain).map(|error| error.message.clone());
        text.trim().clone_into(&mut self.filter);
        self.rewind();
    }

    /// Closes the field and keeps the filter or restores the previous one. Returns a message for the user if the filter
    /// cannot be kept.
    pub(crate) fn close_filter(&mut self, keep: bool) -> Option<String> {
        self.field.take()?;
        let mut notice = None;
        if keep {
            if !self.filter.is_empty() && self.history.last() != Some(&self.filter) {
                if self.history.len() == HISTORY_MAX {
                    self.history.remove(0);
                }
                self.history.push(self.filter.clone());
            }
            notice = self.take_back();
        } else {
            self.filter.clone_from(&self.filter_before);
            (self.refused, self.error) = (None, None);
        }
        self.rewind();
        notice
    }

    /// Puts an earlier or later filter of the history into the field.
    pub(crate) fn recall(&mut self, steps: i64) {
        let Some(field) = &mut self.field else { return };
        let at = field.history_at.saturating_add_signed(steps as isize).min(self.history.len());
        field.history_at = at;
        field.edit = LineEdit::new(self.history.get(at).map_or("", String::as_str));
        self.filter_typed();
    }

    /// Sets the filter.
    pub(crate) fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.selection = Selection::None;
        self.rewind();
    }

    /// Removes the filter.
    pub(crate) fn clear_filter(&mut self) {
        self.filter.clear();
        self.rewind();
    }
}
