//! The terms on the screens, for the help: those of the current view first.

use crate::model::tab::Tab;

/// A term, its meaning, and the views that show it; no views for all.
type Term = (&'static str, &'static str, &'static [Tab]);

const TERMS: [Term; 38] = [
    ("reductions", "polls plus messages handled: how often a process ran, not how long", &[Tab::Processes, Tab::Node]),
    ("CPU%", "share of one scheduler that a process used", &[Tab::Processes, Tab::Node]),
    ("MAILQ", "messages that wait in the mailbox", &[Tab::Processes, Tab::Node]),
    ("MEM", "control block, future and mailbox of a process", &[Tab::Processes, Tab::Node]),
    ("STATE", "what a process does; if it waits, for what: a call, a timer, room", &[Tab::Processes, Tab::Node]),
    ("msgs/s", "messages received from mailboxes; deliveries of topics are not counted", &[Tab::Node, Tab::Processes]),
    ("ready", "time from when a process could run until it runs", &[Tab::Node, Tab::Processes]),
    ("handled", "time from when a message is sent until its receiver is done with it", &[Tab::Node, Tab::Processes]),
    ("LINEAR", "linear memory of a guest", &[Tab::Processes, Tab::Wasm]),
    ("SLICES", "times that a guest was interrupted because its time slice was over", &[Tab::Processes, Tab::Wasm]),
    ("order", "the node sorts at intervals; its age is in the title", &[Tab::Processes]),
    ("exited", "ended since the last order; the row stays until the next one", &[Tab::Processes]),
    ("supervisor", "a process that starts its children again when they end", &[Tab::Tree, Tab::Events]),
    ("budget", "restarts within a time after which a supervisor gives up", &[Tab::Tree]),
    ("lint", "a warning of the node, with what it means and what to do", &[Tab::Events]),
    ("storm", "more events at once than the node records; the rest is counted", &[Tab::Events]),
    ("stuck", "a poll that has not returned for longer than the threshold", &[Tab::Events, Tab::Processes]),
    ("module", "a program of guests; each process of it is an instance", &[Tab::Wasm]),
    ("trap", "an error of a guest that ends it", &[Tab::Wasm]),
    ("ticker", "wakes a process at a fixed rate", &[Tab::Time]),
    ("late", "time from the intended instant of a tick to its execution", &[Tab::Time]),
    ("fill", "items that the slowest reader has not read, of those that fit", &[Tab::Time]),
    ("backlog", "messages that a receiver has still to get", &[Tab::Topics]),
    ("leased", "messages that consumers hold and have not acknowledged", &[Tab::Topics]),
    ("dead letter", "a message given up after too many attempts", &[Tab::Topics]),
    ("CPU of a route", "mean CPU time of the process of a request", &[Tab::Serve]),
    ("in flight", "requests without the head of a response; further ones wait", &[Tab::Serve]),
    ("responding", "a request with a response that has begun and is not complete", &[Tab::Serve]),
    ("5xx", "responses with a status from 500 to 599: errors of the server", &[Tab::Serve]),
    ("in doubt", "sent and not acknowledged: lost if the connection ends now", &[Tab::Cluster]),
    ("CREDIT", "free share of what a connection may have in doubt", &[Tab::Cluster]),
    ("CLOCK", "clock of the other node minus the clock of this one", &[Tab::Cluster]),
    ("epoch", "grows with each owner of a name: an earlier owner can be refused", &[Tab::Cluster]),
    ("closed loop", "a load whose next operation waits for the last one", &[Tab::Bench]),
    ("p99", "99 of 100 values are at most this", &[Tab::Bench, Tab::Node, Tab::Time, Tab::Serve]),
    ("profile", "how much of the machine a run may use", &[Tab::Bench, Tab::Node]),
    ("DEMO", "the data is made up by this program", &[]),
    ("observe only", "this connection may not change anything", &[]),
];

/// Returns the terms of a view, then those of all views.
pub(crate) fn terms(tab: Tab) -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = TERMS.iter().filter(move |(.., tabs)| tabs.contains(&tab));
    let of_all = TERMS.iter().filter(|(.., tabs)| tabs.is_empty());
    own.chain(of_all).map(|(term, meaning, _)| (*term, *meaning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_fits_beside_its_term() {
        for (term, meaning, _) in TERMS {
            assert!(term.len() <= 14 && meaning.len() <= 72, "{term}");
        }
    }
}
