//! Threads of a scenario that stay on one core each, where a parameter asks for it; and whether the machine counts instructions.
//!
//! Cores are those that this thread may run on, in turn: a program under `taskset` pins to what it was given.

use std::io;
use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::parameter::{Kind, Parameter};
use crate::run::RunError;

/// The parameter that asks for it.
pub(crate) const PIN: Parameter = Parameter {
    name: "pin",
    description: "Whether each thread stays on a core. Processes are where their schedulers are.",
    kind: Kind::Choice { words: &["no", "yes"] },
};

/// Where Linux shows the hardware counters of a processor.
const COUNTERS: [&str; 2] = ["/sys/bus/event_source/devices/cpu", "/sys/bus/event_source/devices/cpu_core"];

/// This thread on one core, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Has this thread stay on the core that comes in turn at `place`, if `pin` is true.
    ///
    /// # Errors
    /// [`RunError::Lacks`] when the system refuses it.
    pub(crate) fn at(place: usize, pin: bool) -> Result<Option<Self>, RunError> {
        pin.then(|| Self::new(place))
            .transpose()
            .map_err(|error| RunError::Lacks(format!("no pinning: {error}; set pin=no")))
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
        // It was allowed before.
        sched_setaffinity(None, &self.before).ok();
    }
}

/// Why there is no column for instructions per cycle.
pub(crate) fn no_ipc() -> &'static str {
    if COUNTERS.iter().any(|path| Path::new(path).exists()) {
        "instructions per cycle, the seed's figure for pinned threads: not read; perf stat -e instructions,cycles does"
    } else {
        "instructions per cycle, the seed's figure for pinned threads: this machine has no hardware counters"
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
