//! The window of rows that a view shows.

use serde::{Deserialize, Serialize};

/// The range of rows that a view shows of a sorted table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewWindow {
    /// Number of rows skipped.
    #[serde(default)]
    pub offset: u64,
    /// Number of rows requested, at most [`VIEW_ROWS_MAX`](crate::VIEW_ROWS_MAX).
    pub len: u32,
}

impl Default for ViewWindow {
    fn default() -> Self {
        Self { offset: 0, len: 50 }
    }
}
