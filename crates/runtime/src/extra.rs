//! Information that the body of a process provides to observers, in addition to the counters of every process: its
//! kind, its source and figures of its own.
//!
//! The core does not interpret the information. The code that starts such a body attaches an [`Extra`] to the process.
//! Observers read it on demand, only for the rows that they show. It is released with the process's other side data.

use std::any::Any;
use std::sync::Arc;

use crate::handle::Handle;
use crate::holdings::Holdings;
use crate::observe::Glimpse;
use crate::pid::Pid;

/// One figure or text about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Number of bytes.
    Bytes(u64),
    /// Count of something other than bytes.
    Count(u64),
    /// Text.
    Text(Arc<str>),
}

/// Information about a process body. Observers read it while the body runs, so it must be cheap and never wait.
pub trait Extra: Any + Send + Sync {
    /// Returns the kind of the body, in one word.
    fn kind(&self) -> &'static str;

    /// Returns the source of the body, for example its module.
    fn source(&self) -> Option<Arc<str>>;

    /// Returns the facts about the body, each with its name. A name ends in its unit.
    fn facts(&self) -> Vec<(&'static str, Fact)>;

    /// Returns the fact with this name.
    fn fact(&self, name: &str) -> Option<Fact> {
        self.facts().into_iter().find_map(|(known, fact)| (known == name).then_some(fact))
    }
}

/// Returns the information about the body of a process; `None` if the process has ended or its body provides nothing.
pub fn extra(runtime: &Handle, pid: Pid) -> Option<Arc<dyn Extra>> {
    runtime.shared.slab.slot(pid).and_then(|slot| Holdings::extra(slot, pid))
}

/// Returns the information about the body of a viewed process. If the process holds nothing, this only reads a flag.
pub fn extra_of(seen: &Glimpse<'_>) -> Option<Arc<dyn Extra>> {
    Holdings::extra(seen.cell_slot(), seen.pid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitReason;
    use crate::holdings::Held;
    use crate::signal::{ExitSignal, MonitorRef};

    struct Tale;

    impl Extra for Tale {
        fn kind(&self) -> &'static str {
            "tale"
        }

        fn source(&self) -> Option<Arc<str>> {
            None
        }

        fn facts(&self) -> Vec<(&'static str, Fact)> {
            Vec::new()
        }
    }

    #[test]
    fn nothing_of_a_dead_process_is_left_in_the_box_for_the_next() {
        let tale: Arc<dyn Extra> = Arc::new(Tale);
        let mut held = Box::<Held>::default();
        held.extra = Some(Arc::clone(&tale));
        for number in 0..1_000 {
            let pid = Pid::local(number, 1);
            let reference = MonitorRef::numbered(u64::from(number) + 1).unwrap();
            held.links.insert(pid, ());
            held.monitors.insert(reference, pid);
            held.monitored_by.insert(reference, pid);
            held.exit_signals.push(ExitSignal { link: Some(pid), reason: ExitReason::Shutdown });
        }
        held.timers().insert(7, 7);

        held.reset();

        assert_eq!((held.links.len(), held.monitors.len(), held.monitored_by.len()), (0, 0, 0));
        assert_eq!((held.exit_signals.len(), held.timer(7)), (0, None));
        assert!(held.exit_signals.capacity() < 1_000 && held.extra.is_none());
        assert_eq!(Arc::strong_count(&tale), 1);
    }
}
