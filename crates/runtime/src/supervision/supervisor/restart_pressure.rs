//! Restart pressure: supervisors that have used more than half of their allowed restarts, for observers.

use std::time::Duration;

use parking_lot::Mutex;

use super::restart_window::Intensity;
use crate::process::pid::Pid;

/// Largest number of supervisors kept; a new report replaces the oldest.
const SUPERVISORS_KEPT: usize = 256;

/// Restart pressure of a supervisor: it had used more than half of its allowed restarts when it last spent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPressure {
    /// The supervisor, which may have ended since.
    pub supervisor: Pid,
    /// Number of restarts within its period.
    pub used: u32,
    /// Restarts that it allows, and the period.
    pub intensity: Intensity,
    /// Time of the last restart, since the start of the runtime.
    pub at: Duration,
}

/// Latest restart pressure of each supervisor.
#[derive(Default)]
pub(crate) struct RestartPressures(Mutex<Vec<RestartPressure>>);

impl RestartPressures {
    pub(crate) fn record(&self, pressure: RestartPressure) {
        let mut all = self.0.lock();
        let place = all.iter().position(|known| known.supervisor == pressure.supervisor).or_else(|| {
            let oldest = all.iter().enumerate().min_by_key(|(_, known)| known.at).map(|(at, _)| at);
            oldest.filter(|_| all.len() == SUPERVISORS_KEPT)
        });
        match place {
            Some(place) => all[place] = pressure,
            None => all.push(pressure),
        }
    }

    pub(crate) fn all(&self) -> Vec<RestartPressure> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_supervisor_stands_once_and_the_oldest_give_way() {
        let pressures = RestartPressures::default();
        let pressure = |slot, at| RestartPressure {
            supervisor: Pid::local(slot, 1),
            used: 2,
            intensity: Intensity::default(),
            at: Duration::from_secs(at),
        };

        for slot in 1..=SUPERVISORS_KEPT as u32 + 10 {
            pressures.record(pressure(slot, slot.into()));
        }
        pressures.record(pressure(100, 9_999));

        let all = pressures.all();
        assert_eq!(all.len(), SUPERVISORS_KEPT);
        assert!(all.iter().all(|known| known.supervisor.slot() > 10));
        assert_eq!(all.iter().filter(|known| **known == pressure(100, 9_999)).count(), 1);
    }
}
