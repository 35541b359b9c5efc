//! Configuration of which lints are raised.

use rusm_protocol::Lint;

/// Level of a lint.
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use rusm::console::{Lint, LintLevel, LintLevels};
///
/// let lints = LintLevels::default().with(Lint::BusyLoop, LintLevel::Allow);
/// assert_eq!(lints.level(Lint::BusyLoop).word(), "allow");
/// assert_eq!(lints.level(Lint::Hog), LintLevel::Warn);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LintLevel {
    /// Observers are warned.
    #[default]
    Warn,
    /// The lint is not raised.
    Allow,
}

impl LintLevel {
    /// Returns the level's word in settings.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Allow => "allow",
        }
    }

    /// Returns the level that this word names.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Warn, Self::Allow].into_iter().find(|level| level.word() == word)
    }
}

/// Level of each lint. Default: all of them warn.
///
/// ```
/// # mod rusm { pub use rusm_console as console; }
/// use rusm::console::{ConsoleConfig, Lint, LintLevel, LintLevels};
///
/// let lints = LintLevels::default().with(Lint::BusyLoop, LintLevel::Allow);
/// let config = ConsoleConfig { lints, ..ConsoleConfig::named("shop") };
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LintLevels([LintLevel; Lint::ALL.len()]);

impl LintLevels {
    /// Returns the level of a lint.
    pub const fn level(&self, lint: Lint) -> LintLevel {
        self.0[lint as usize]
    }

    /// Returns these levels with one lint's level replaced.
    #[must_use]
    pub const fn with(mut self, lint: Lint, level: LintLevel) -> Self {
        self.0[lint as usize] = level;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lint_is_allowed_and_the_others_warn() {
        let levels = LintLevels::default().with(Lint::Stuck, LintLevel::Allow);

        assert_eq!(
            Lint::ALL.map(|lint| levels.level(lint) == LintLevel::Allow),
            Lint::ALL.map(|lint| lint == Lint::Stuck)
        );
        assert_eq!(LintLevel::of_word("allow"), Some(LintLevel::Allow));
        assert_eq!(LintLevel::of_word("deny"), None);
    }
}
