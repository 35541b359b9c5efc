//! One check: what it found, what that means, and what improves it.

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// Works, but not as well as it could, or disturbs measurements.
    Warning,
    /// A node with default settings does not work.
    Broken,
}

impl Health {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warn",
            Self::Broken => "fail",
        }
    }
}

/// A check with its result.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) health: Health,
    pub(super) seen: String,
    /// Meaning of the finding for rusm.
    pub(super) means: String,
    /// Command or advice; `None` if all is well.
    pub(super) remedy: Option<String>,
}

impl Check {
    /// Creates a check with a warning unless `good` is true.
    pub(super) fn of(
        name: &'static str,
        good: bool,
        seen: impl Into<String>,
        means: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let health = if good { Health::Good } else { Health::Warning };
        let remedy = (!good).then(|| remedy.into());
        Self { name, health, seen: seen.into(), means: means.into(), remedy }
    }

    /// Turns a warning into an error, for something that a node cannot do without.
    pub(super) fn vital(self) -> Self {
        let health = if self.health == Health::Good { Health::Good } else { Health::Broken };
        Self { health, ..self }
    }
}
