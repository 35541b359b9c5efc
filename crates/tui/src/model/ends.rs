//! Counts of a frame that several views show: abnormal ends by cause, and running and ready processes.

use rusm_protocol::ObserverSnapshot;

/// Abnormal ends since the node started, by cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Panics, and errors returned.
    pub(crate) crashed: u64,
    /// Exit signals of other processes, and from outside.
    pub(crate) killed: u64,
    /// Ends of linked processes.
    pub(crate) linked: u64,
}

impl Ends {
    pub(crate) const fn of(seen: &ObserverSnapshot) -> Self {
        let (killed, linked) = (seen.killed_total, seen.linked_total);
        Self { crashed: seen.crashed_total.saturating_sub(killed).saturating_sub(linked), killed, linked }
    }
}

/// Returns the number of processes inside a poll, and in run queues. An older node sends only their sum.
pub(crate) const fn running_and_ready(seen: &ObserverSnapshot) -> (u64, u64) {
    if seen.polled + seen.ready == 0 { (seen.running, 0) } else { (seen.polled, seen.ready) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_add_up_to_the_abnormal_ends() {
        let seen =
            ObserverSnapshot { crashed_total: 16, killed_total: 6, linked_total: 7, ..ObserverSnapshot::default() };

        assert_eq!(Ends::of(&seen), Ends { crashed: 3, killed: 6, linked: 7 });
    }

    #[test]
    fn an_older_node_has_no_ready_processes_of_its_own() {
        let seen = ObserverSnapshot { running: 5, ..ObserverSnapshot::default() };

        assert_eq!(running_and_ready(&seen), (5, 0));
        assert_eq!(running_and_ready(&ObserverSnapshot { polled: 2, ready: 3, ..seen }), (2, 3));
    }
}
