//! File descriptors of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::run::error::RunError;

/// Descriptors per connection with both ends in this process.
pub(crate) const ENDS: u64 = 2;
/// Descriptors for other files that are opened meanwhile.
const SPARE: u64 = 64;

/// The limit of file descriptors, raised as far as the system allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// Soft limit before it was raised; `None` without a limit.
    pub(crate) before: Option<u64>,
    /// Limit now; `None` without a limit.
    pub(crate) limit: Option<u64>,
    /// Number of descriptors that are open already.
    open: u64,
    /// Number of descriptors per connection.
    ends: u64,
}

impl Descriptors {
    /// Raises the soft limit of this process to the hard limit, for connections with this number of descriptors each.
    pub(crate) fn raise(ends: u64) -> Self {
        let before = getrlimit(Resource::Nofile);
        if before.current != before.maximum {
            // Fails only if the system denies it; then the soft limit stays in force.
            setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }).ok();
        }
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
        Self { before: before.current, limit: getrlimit(Resource::Nofile).current, open, ends }
    }

    /// Returns the largest number of connections.
    pub(crate) fn connections_max(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.open + SPARE) / self.ends)
    }

    /// Returns a line with the limit before and now.
    pub(crate) fn line(&self) -> String {
        let text = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
        format!("limit of file descriptors: {}, raised to {}", text(self.before), text(self.limit))
    }

    /// Checks that there are enough descriptors.
    ///
    /// # Errors
    /// [`RunError::Lacks`] with the limit that would be enough.
    pub(crate) fn check(&self, connections: u64) -> Result<(), RunError> {
        let (most, needed) = (self.connections_max(), self.ends * connections + self.open + SPARE);
        if connections <= most {
            return Ok(());
        }
        Err(RunError::Lacks(format!(
            "{connections} connections take {needed} file descriptors, which is more than the hard limit: raise it with \
             ulimit -Hn {needed}, or use at most {most} connections"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_without_descriptors_are_refused_with_the_numbers() {
        let descriptors = Descriptors { before: Some(512), limit: Some(1_024), open: 20, ends: ENDS };

        let refused = descriptors.check(1_000).unwrap_err().to_string();

        assert!(refused.starts_with("1000 connections take 2084 file descriptors"), "{refused}");
        assert!(refused.ends_with("use at most 470 connections"), "{refused}");
        assert!(descriptors.check(470).is_ok());
        assert!(Descriptors { limit: None, ..descriptors }.check(1 << 40).is_ok());
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_limit() {
        let raised = Descriptors::raise(ENDS);

        let limit = getrlimit(Resource::Nofile);
        assert_eq!((raised.limit, limit.current), (limit.current, limit.maximum));
        assert!(raised.open > 2);
    }
}
