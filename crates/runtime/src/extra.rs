//! What the body of a process tells observers about itself, beyond what every process has: what kind of body it is, what it
//! was made from, figures of its own.
//!
//! The core knows nothing about it. Whoever brings such bodies hangs an [`Extra`] on the process at its start; it is
//! read on demand for the rows that somebody looks at, and released with everything else that the process held.

use std::any::Any;
use std::sync::Arc;

use crate::handle::Handle;
use crate::holdings::Holdings;
use crate::observe::Glimpse;
use crate::pid::Pid;

/// One figure or word about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// Bytes.
    Bytes(u64),
    /// Something counted.
    Count(u64),
    /// Words.
    Text(Arc<str>),
}

/// What a body tells about itself, read by observers while it runs; must be cheap and never wait.
pub trait Extra: Any + Send + Sync {
    /// The kind of body, in a word.
    fn kind(&self) -> &'static str;

    /// What it was made from.
    fn source(&self) -> Option<Arc<str>>;

    /// Its figures, each with its name; the unit comes last in the name.
    fn facts(&self) -> Vec<(&'static str, Fact)>;

    /// The figure of this name.
    fn fact(&self, name: &str) -> Option<Fact> {
        self.facts().into_iter().find_map(|(known, fact)| (known == name).then_some(fact))
    }
}

/// What the body of a process tells about itself; `None` if it has ended, and for bodies that tell nothing.
pub fn extra(runtime: &Handle, pid: Pid) -> Option<Arc<dyn Extra>> {
    runtime.shared.slab.slot(pid).and_then(|slot| Holdings::extra(slot, pid))
}

/// The same for a process that is looked at; for one that holds nothing it costs a look at a flag.
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
