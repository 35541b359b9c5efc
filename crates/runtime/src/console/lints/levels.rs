//! Which lints are raised.

use rusm_protocol::Lint;

/// Whether a lint is raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LintLevel {
    /// Observers are warned.
    #[default]
    Warn,
    /// Nobody is told.
    Allow,
}

impl LintLevel {
    /// The level's word in settings.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Allow => "allow",
        }
    }

    /// The level of this word.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Warn, Self::Allow].into_iter().find(|level| level.word() == word)
    }
}

/// The level of each lint. Default: all of them warn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LintLevels([LintLevel; Lint::ALL.len()]);

impl LintLevels {
    /// The level of a lint.
    pub const fn level(&self, lint: Lint) -> LintLevel {
        self.0[lint as usize]
    }

    /// The same levels but for one lint.
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

        assert_eq!(Lint::ALL.map(|lint| levels.level(lint) == LintLevel::Allow), [true, false, false, false]);
        assert_eq!(LintLevel::of_word("allow"), Some(LintLevel::Allow));
        assert_eq!(LintLevel::of_word("deny"), None);
    }
}
