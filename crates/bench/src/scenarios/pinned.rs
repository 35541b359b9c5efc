//! Pins the threads of a scenario to one core each if a parameter asks for it, and checks for hardware counters.
//!
//! Only the cores in this thread's affinity mask are used, in turn: a program under `taskset` stays within its cores.

use std::io;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::parameter::{Kind, Parameter};
use crate::run::error::RunError;

/// The parameter that turns pinning on.
pub(crate) const PIN: Parameter = Parameter {
    name: "pin",
    description: "yes: each thread stays on a core. Processes run on the cores of their schedulers.",
    kind: Kind::Choice { words: &["no", "yes"] },
};

/// Paths at which Linux shows the hardware counters of a processor.
const COUNTERS: [&str; 2] = ["/sys/bus/event_source/devices/cpu", "/sys/bus/event_source/devices/cpu_core"];

/// Pins the current thread to one core; dropping it restores the previous affinity mask.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Pins the current thread to the core at index `place`, modulo the number of allowed cores, if `pin` is true.
    ///
    /// # Errors
    /// [`RunError::Lacks`] if the system denies it.
    pub(crate) fn at(place: usize, pin: bool) -> Result<Option<Self>, RunError> {
        pin.then(|| Self::new(place))
            .transpose()
            .map_err(|error| RunError::Lacks(format!("cannot pin threads: {error}; set pin=no")))
    }

    fn new(place: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).collect();
        let mut one = CpuSet::new();
        one.set(cores[place % cores.len()]);
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Cannot fail: this mask was in force before.
        sched_setaffinity(None, &self.before).ok();
    }
}

/// Returns the note below a table of pinned threads: why it has no column for instructions per cycle, which the seed
/// project (`docs/counters.md`) reports.
pub(crate) fn no_ipc() -> &'static str {
    if COUNTERS.iter().any(|path| Path::new(path).exists()) {
        "instructions per cycle, the seed project's figure for pinned threads: not measured; use perf stat -e \
         instructions,cycles"
    } else {
        "instructions per cycle, the seed project's figure for pinned threads: this machine has no hardware counters"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core_and_gets_the_others_back() {
        let before = sched_getaffinity(None).unwrap();

        for place in [0, 1, 1_000] {
            let pinned = Pinned::at(place, true).unwrap();
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
            drop(pinned);
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        }
        assert!(Pinned::at(0, false).unwrap().is_none());
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
