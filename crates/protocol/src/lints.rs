//! Lints: warnings that a node raises by itself about processes that do not behave as healthy ones do.

use serde::{Deserialize, Serialize};

/// The lints, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lint {
    /// A poll does not return.
    Stuck,
    /// Processes wait for each other in a circle.
    WaitCycle,
    /// A scheduler sleeps while processes wait to run.
    IdleScheduler,
    /// A process takes a scheduler for itself.
    NeverYields,
    /// A process never waits and receives nothing.
    BusyLoop,
    /// Children are restarted again and again.
    RestartStorm,
    /// Messages arrive faster than the process receives them.
    MailboxGrowing,
    /// A process waits for a message while others that it does not receive wait in its mailbox.
    Unreceived,
    /// A subscriber or a reader holds up the others, or loses items.
    SlowSubscriber,
    /// A limited resource of the node is almost used up.
    PoolNearlyFull,
    /// The memory of the node grows steadily.
    MemorySlope,
    /// A process uses most of a scheduler while others wait to run.
    Hog,
}

impl Lint {
    /// All lints, most urgent first.
    pub const ALL: [Self; 12] = [
        Self::Stuck,
        Self::WaitCycle,
        Self::IdleScheduler,
        Self::NeverYields,
        Self::BusyLoop,
        Self::RestartStorm,
        Self::MailboxGrowing,
        Self::Unreceived,
        Self::SlowSubscriber,
        Self::PoolNearlyFull,
        Self::MemorySlope,
        Self::Hog,
    ];

    /// Returns the id used on the wire, in settings and in documents; it never changes.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Stuck => "stuck",
            Self::NeverYields => "never_yields",
            Self::RestartStorm => "restart_storm",
            Self::MailboxGrowing => "mailbox_growing",
            Self::Unreceived => "unreceived",
            Self::WaitCycle => "wait_cycle",
            Self::IdleScheduler => "idle_scheduler",
            Self::BusyLoop => "busy_loop",
            Self::SlowSubscriber => "slow_subscriber",
            Self::PoolNearlyFull => "pool_nearly_full",
            Self::MemorySlope => "memory_slope",
            Self::Hog => "hog",
        }
    }

    /// Returns the lint with this id.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|lint| lint.id() == id)
    }

    /// Returns an explanation of the problem, in one line.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Stuck => "one poll does not return, and nothing else runs on its scheduler",
            Self::NeverYields => "it never waits and its polls are long: this delays others on its scheduler",
            Self::RestartStorm => "children are restarted again and again: most of the allowed restarts have been used",
            Self::MailboxGrowing => "messages come faster than it takes them",
            Self::Unreceived => "it waits for a message, and receives none of those in its mailbox",
            Self::WaitCycle => "these processes wait for each other: none of them can continue",
            Self::IdleScheduler => "processes are ready to run, and a scheduler sleeps",
            Self::BusyLoop => "it never waits and receives no message: it may poll in a loop",
            Self::SlowSubscriber => "it reads more slowly than others: it holds them up, or loses items",
            Self::PoolNearlyFull => "a limited resource of the node is almost used up",
            Self::MemorySlope => "the memory of the node has grown without a pause",
            Self::Hog => "it uses most of a scheduler while other processes wait to run",
        }
    }

    /// Returns advice for this lint, in one line.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Stuck => "move blocking code to spawn_blocking, and let long loops yield",
            Self::NeverYields => "split its work into short steps with yield_now, or move it to spawn_blocking",
            Self::RestartStorm => "see in the Events view why children ended; a back-off gains time",
            Self::MailboxGrowing => "spread its work over more processes; slow down or reduce senders",
            Self::Unreceived => "send it the type that it receives, by its address; or let it receive this type too",
            Self::WaitCycle => "give the calls a timeout, or let one process reply before it calls",
            Self::IdleScheduler => "pin fewer processes to one scheduler",
            Self::BusyLoop => "wait for a message, a timer or a reply instead of asking again",
            Self::SlowSubscriber => "let it read faster, give it a larger buffer, or let it drop items",
            Self::PoolNearlyFull => "raise the limit, or end what is not needed any more",
            Self::MemorySlope => "see in the Node view which kind of memory grows",
            Self::Hog => "spread its work over more processes",
        }
    }
}

/// A warning about one process, or about the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LintInfo {
    /// Id of the lint; a newer node may send an id that is not listed in [`Lint`].
    pub id: String,
    /// Pid of the process; empty if the lint is about the node as a whole.
    pub pid: String,
    /// Name or label of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Measured value behind the lint: milliseconds in one poll or in a cycle of waits, per cent of a scheduler or of a
    /// limit, restarts, messages waiting, items behind, or bytes per minute.
    pub value: f64,
    /// The measured value in words, in one line.
    pub text: String,
    /// Time at which the lint was raised, in milliseconds since the node started.
    pub since_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lint_is_found_by_its_id_and_says_something() {
        for lint in Lint::ALL {
            assert_eq!(Lint::of_id(lint.id()), Some(lint));
            assert!(!lint.explanation().is_empty() && !lint.advice().is_empty());
        }
        assert_eq!(Lint::of_id("Stuck"), None);
    }
}
