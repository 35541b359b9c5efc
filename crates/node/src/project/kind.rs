//! Purpose and content of a project.

/// Purpose of a project's component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A process, for `rusm run`.
    Guest,
    /// A handler of HTTP requests, for `rusm serve`.
    Http,
}

/// A project that is not written yet.
pub(super) struct Project {
    /// Path and text of each file.
    pub(super) files: Vec<(&'static str, String)>,
    /// Path of the component that is built.
    pub(super) component: String,
    /// Tools that a build needs.
    pub(super) needs: String,
}
