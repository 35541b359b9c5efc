//! Information that the body of a process provides to observers, in addition to the counters of every process: its
//! kind, its source and figures of its own.
//!
//! The core does not interpret the information. The code that starts such a body attaches a [`BodyInfo`] to the
//! process. Observers read it on demand, only for the rows that they show. It is released with the process's other side
//! data.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// One figure or text about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyFact {
    /// Number of bytes.
    Bytes(u64),
    /// Count of something other than bytes.
    Count(u64),
    /// Text.
    Text(Arc<str>),
}

/// Functions that a body was in at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyBacktrace {
    /// Names of the functions, innermost first.
    pub frames: Vec<String>,
    /// Instant at which they ran.
    pub taken: Instant,
}

/// Information about a process body. Observers read it while the body runs, so it must be cheap and never wait.
pub trait BodyInfo: Any + Send + Sync {
    /// Returns the kind of the body, in one word.
    fn kind(&self) -> &'static str;

    /// Returns the source of the body, for example its module.
    fn source(&self) -> Option<Arc<str>>;

    /// Returns the facts about the body, each with its name. A name ends in its unit.
    fn facts(&self) -> Vec<(&'static str, BodyFact)>;

    /// Returns the fact with this name.
    fn fact(&self, name: &str) -> Option<BodyFact> {
        self.facts().into_iter().find_map(|(known, fact)| (known == name).then_some(fact))
    }

    /// Requests a backtrace of the body while it runs. It costs nothing without a request, and is taken at most once for
    /// each.
    fn request_backtrace(&self) {}

    /// Returns the newest requested backtrace.
    fn backtrace(&self) -> Option<BodyBacktrace> {
        None
    }

    /// Returns true if the program logs the end of this process itself: the log of crashes leaves it out.
    fn logs_own_end(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::links::signal::{ExitSignal, MonitorRef};
    use crate::process::exit::ExitReason;
    use crate::process::pid::Pid;
    use crate::process::side_table::SideTable;

    struct Tale;

    impl BodyInfo for Tale {
        fn kind(&self) -> &'static str {
            "tale"
        }

        fn source(&self) -> Option<Arc<str>> {
            None
        }

        fn facts(&self) -> Vec<(&'static str, BodyFact)> {
            Vec::new()
        }
    }

    #[test]
    fn nothing_of_a_dead_process_is_left_in_the_box_for_the_next() {
        let tale: Arc<dyn BodyInfo> = Arc::new(Tale);
        let mut side_table = Box::<SideTable>::default();
        side_table.body_info = Some(Arc::clone(&tale));
        for number in 0..1_000 {
            let pid = Pid::local(number, 1);
            let reference = MonitorRef::from_number(u64::from(number) + 1).unwrap();
            side_table.links.insert(pid, ());
            side_table.monitors.insert(reference, pid);
            side_table.monitored_by.insert(reference, pid);
            side_table.exit_signals.push(ExitSignal { link: Some(pid), from: None, reason: ExitReason::Shutdown });
        }
        side_table.timers().insert(7, 7);

        side_table.reset();

        assert_eq!((side_table.links.len(), side_table.monitors.len(), side_table.monitored_by.len()), (0, 0, 0));
        assert_eq!((side_table.exit_signals.len(), side_table.timer(7)), (0, None));
        assert!(side_table.exit_signals.capacity() < 1_000 && side_table.body_info.is_none());
        assert_eq!(Arc::strong_count(&tale), 1);
    }
}
