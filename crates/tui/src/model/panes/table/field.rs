//! The text field of the filter of the process table.

use crate::model::input::complete::Completion;
use crate::model::input::line_edit::LineEdit;

/// The filter field while it is edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilterField {
    pub(crate) edit: LineEdit,
    pub(crate) completion: Option<Completion>,
    /// Index of the filter in the history.
    pub(super) history_at: usize,
}
