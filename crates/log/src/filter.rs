//! The filter of the running log, which can be replaced while the program runs.
//!
//! A node does that when an observer sends `set_log_filter`.

use std::fmt;
use std::sync::Arc;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::Handle;

/// Levels of a log, the quietest first.
pub const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Returns the filter that a text describes: a level, or directives that each end in one, such as
/// `info,rusm_store=debug`.
///
/// Values of fields are compared as they are, not as regular expressions: compiling a short one can take minutes and
/// gigabytes, and the text may come from an observer.
///
/// # Errors
/// A line that says what the text must be. The parser of the filter alone takes a mistyped level for the name of a module,
/// and then almost nothing would be logged.
pub fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    let has_level = |directive: &str| {
        let level = directive.rsplit('=').next().unwrap_or("").trim();
        LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level))
    };
    let filter = text.split(',').all(has_level).then(|| EnvFilter::builder().with_regex(false).parse(text).ok());
    filter
        .flatten()
        .ok_or_else(|| format!("it must be a level ({}) or directives such as rusm_runtime=debug", LEVELS.join(", ")))
}

/// Handle to the filter of the running log; cheap to clone.
#[derive(Clone)]
pub struct FilterHandle(Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>);

impl FilterHandle {
    pub(crate) fn new<S: 'static>(handle: Handle<EnvFilter, S>) -> Self {
        Self(Arc::new(move |filter| handle.reload(filter).map_err(|error| error.to_string())))
    }

    /// Replaces the filter of all lines from now on.
    ///
    /// # Errors
    /// A line that says why, if the subscriber does not exist any more.
    pub fn replace(&self, filter: EnvFilter) -> Result<(), String> {
        (self.0)(filter)
    }
}

impl fmt::Debug for FilterHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterHandle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Registry, reload};

    use super::*;

    #[test]
    fn the_value_of_a_field_is_no_regular_expression() {
        // As one, it would take minutes and gigabytes.
        let filter = format!("x[{{y=.*a{}}}]=trace", ".".repeat(60));

        assert!(parse_filter(&filter).is_ok());
        assert!(parse_filter("info,x=lots").is_err());
    }

    #[test]
    fn a_filter_has_a_level_in_each_part() {
        let due = "it must be a level (off, error, warn, info, debug, trace) or directives such as rusm_runtime=debug";

        for good in ["warn", "INFO", "rusm_runtime=debug", "warn,rusm_runtime=debug", "info,a[b{c=1}]=trace"] {
            assert!(parse_filter(good).is_ok(), "{good}");
        }
        for bad in ["", "loud", "rusm_store", "bogus=,", "warn,", "loud,rusm_runtime=debug", "a=b=info,=", "a=loud"] {
            assert_eq!(parse_filter(bad).unwrap_err(), due, "{bad:?}");
        }
    }
    use crate::RecentLines;

    #[test]
    fn a_replaced_filter_lets_other_lines_through() {
        let (layer, handle) = reload::Layer::new(EnvFilter::new("warn"));
        let (handle, recent) = (FilterHandle::new(handle), RecentLines::default());
        let subscriber = Registry::default().with(layer).with(recent.clone());

        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!("before");
            handle.replace(EnvFilter::new("debug")).unwrap();
            tracing::debug!("after");
        });

        let texts: Vec<String> = recent.newest(9).1.into_iter().map(|line| line.text).collect();
        assert_eq!(texts, ["after"]);
    }
}
