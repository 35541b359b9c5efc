//! The node's warnings: the selected one, and the kinds hidden in this observer.

use std::collections::BTreeSet;

use rusm_protocol::{Frame, Lint, LintInfo};

use crate::model::layout::WIDE;
use crate::model::selection::wrapped;

/// Rows for the heading and borders of the panel.
pub(crate) const AROUND: u16 = 3;

/// Selection and hidden kinds of warnings. The selection is a warning and not an index: other warnings appear and
/// disappear above it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LintsPane {
    /// Lint id and pid of the selected warning. If it disappears, the first warning is selected.
    selected: Option<(String, String)>,
    hidden: BTreeSet<String>,
}

impl LintsPane {
    /// Creates the state with these kinds hidden.
    pub(crate) fn hiding(kinds: Vec<String>) -> Self {
        Self { hidden: kinds.into_iter().collect(), ..Self::default() }
    }

    /// Returns the visible warnings, most urgent first.
    pub(crate) fn shown<'a>(&self, frame: Option<&'a Frame>) -> Vec<&'a LintInfo> {
        let all = frame.map_or(&[][..], |frame| &frame.observer.lints);
        all.iter().filter(|lint| !self.hidden.contains(&lint.id)).collect()
    }

    /// Returns the number of warnings that are not hidden, including those not listed in the frame.
    pub(crate) fn count(&self, frame: &Frame) -> u64 {
        let hidden = frame.observer.lints.iter().filter(|lint| self.hidden.contains(&lint.id)).count();
        frame.observer.lints_total.saturating_sub(hidden as u64)
    }

    /// Returns the index of the selected warning among the visible ones.
    pub(crate) fn cursor(&self, shown: &[&LintInfo]) -> usize {
        let is_selected =
            |lint: &&LintInfo| self.selected.as_ref().is_some_and(|(id, pid)| (id, pid) == (&lint.id, &lint.pid));
        shown.iter().position(is_selected).unwrap_or(0)
    }

    /// Moves the selection by `steps`, wrapping around.
    pub(crate) fn step(&mut self, frame: Option<&Frame>, steps: isize) {
        let shown = self.shown(frame);
        let at = wrapped(self.cursor(&shown), steps, shown.len());
        self.selected = shown.get(at).map(|lint| (lint.id.clone(), lint.pid.clone()));
    }

    /// Hides all warnings of the same kind as the selected one. Returns the id of that kind.
    pub(crate) fn hide(&mut self, frame: Option<&Frame>) -> Option<String> {
        let shown = self.shown(frame);
        let id = shown.get(self.cursor(&shown))?.id.clone();
        self.hidden.insert(id.clone());
        Some(id)
    }

    /// Shows all hidden warnings again.
    pub(crate) fn show_all(&mut self) {
        self.hidden.clear();
    }

    /// Returns the number of rows for the facts about the selected warning: its figures on a narrow screen, what it
    /// means, and what to do.
    pub(crate) fn fact_rows(lint: &LintInfo, width: u16, height: u16) -> u16 {
        let is_known = Lint::of_id(&lint.id).is_some();
        u16::from(width < WIDE) + u16::from(is_known) + u16::from(is_known && height >= 16)
    }

    /// Returns the height of the panel of warnings in an area; 0 without warnings.
    pub(crate) fn panel_height(&self, frame: Option<&Frame>, width: u16, height: u16) -> u16 {
        let shown = self.shown(frame);
        let Some(selected) = shown.get(self.cursor(&shown)) else { return 0 };
        let around = AROUND + Self::fact_rows(selected, width, height);
        let rows = (height / 2).saturating_sub(around).clamp(1, 10).min(shown.len() as u16);
        (rows + around).min(height)
    }

    /// Returns the hidden kinds.
    pub(crate) fn hidden(&self) -> Vec<&str> {
        self.hidden.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(lints: &[(&str, &str)]) -> Frame {
        let mut frame = Frame::default();
        let info =
            |(id, pid): &(&str, &str)| LintInfo { id: (*id).to_owned(), pid: (*pid).to_owned(), ..LintInfo::default() };
        frame.observer.lints = lints.iter().map(info).collect();
        frame.observer.lints_total = lints.len() as u64;
        frame
    }

    #[test]
    fn the_selected_warning_stays_selected_when_others_come_and_go() {
        let mut pane = LintsPane::default();
        let before = frame(&[("stuck", "a"), ("mailbox_growing", "b"), ("mailbox_growing", "c")]);
        pane.step(Some(&before), 1);

        let after = frame(&[("mailbox_growing", "b"), ("mailbox_growing", "c")]);

        assert_eq!((pane.cursor(&pane.shown(Some(&before))), pane.cursor(&pane.shown(Some(&after)))), (1, 0));
        pane.step(Some(&after), -1);
        assert_eq!(pane.cursor(&pane.shown(Some(&after))), 1);
        assert_eq!(pane.cursor(&pane.shown(Some(&frame(&[("stuck", "z")])))), 0);
    }

    #[test]
    fn a_kind_is_hidden_and_shown_again() {
        let mut pane = LintsPane::default();
        let frame = frame(&[("stuck", "a"), ("mailbox_growing", "b"), ("mailbox_growing", "c")]);
        pane.step(Some(&frame), 1);

        assert_eq!(pane.hide(Some(&frame)).as_deref(), Some("mailbox_growing"));
        assert_eq!((pane.shown(Some(&frame)).len(), pane.count(&frame)), (1, 1));
        assert_eq!(pane.hidden(), ["mailbox_growing"]);
        pane.show_all();
        assert_eq!(pane.count(&frame), 3);
        assert_eq!(LintsPane::default().hide(None), None);
    }
}
