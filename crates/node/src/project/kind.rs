//! What a project is for, and what it consists of.

/// What the component of a project is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A process, for `rusm run`.
    Guest,
    /// A handler of requests of HTTP, for `rusm serve`.
    Http,
}

/// A project that is not written yet.
pub(super) struct Project {
    /// Path and text of each file.
    pub(super) files: Vec<(&'static str, String)>,
    /// Path of the component that is built.
    pub(super) component: String,
    /// What a build needs.
    pub(super) needs: String,
}
