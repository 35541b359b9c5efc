//! The configuration of all lints.

use rusm_protocol::Lint;

use super::levels::{LintLevel, LintLevels};
use super::thresholds::LintThresholds;

/// Which lints are raised, and from which values on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LintConfig {
    pub(crate) levels: LintLevels,
    pub(crate) thresholds: LintThresholds,
}

impl LintConfig {
    /// Returns true if warnings of this lint are raised.
    pub(super) fn warns(&self, lint: Lint) -> bool {
        self.levels.level(lint) == LintLevel::Warn
    }
}
