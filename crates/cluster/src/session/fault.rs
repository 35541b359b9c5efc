//! Bugs that tests plant, to show that the simulation finds them.

/// A planted bug. In builds without the feature `simulation`, no configuration can name one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Delivers what comes after a missing packet.
    DeliversPastAGap,
    /// Delivers a packet that arrives twice, twice.
    DeliversTwice,
    /// Takes packets of any session.
    IgnoresTags,
    /// Computes tags without boot ids, so that two lives have the same.
    ForgetsBootIds,
    /// Does not count its own sessions.
    KeepsItsEpoch,
    /// Ends a session without an event.
    ForgetsDown,
    /// Reports the end of a session again when the link is lost.
    RepeatsDown,
    /// Ends a session because of any HELLO of another life, although it may be an old one.
    TrustsOldHellos,
    /// Takes the answer to another life of this node as one to itself.
    TakesAnswersOfOthers,
    /// Sends signals past messages that wait.
    LetsSignalsOvertake,
    /// Sends short messages past a long one of the same processes.
    LetsMessagesOvertake,
    /// Does not wait for the credit of a target.
    IgnoresTargetCredit,
    /// Stops everything when one target is full.
    StallsOnOneTarget,
    /// Never reports that there is room.
    ForgetsRoom,
    /// Drops a message instead of handing it back.
    DropsWhenBusy,
    /// Never notices that nothing is acknowledged.
    IgnoresSilence,
    /// Returns no credit for the last messages of a target.
    LosesCredit,
    /// Leaves without waiting for what it sent.
    LeavesAtOnce,
}

impl Fault {
    /// All planted bugs.
    pub const ALL: [Self; 18] = [
        Self::DeliversPastAGap,
        Self::DeliversTwice,
        Self::IgnoresTags,
        Self::ForgetsBootIds,
        Self::KeepsItsEpoch,
        Self::ForgetsDown,
        Self::RepeatsDown,
        Self::TrustsOldHellos,
        Self::TakesAnswersOfOthers,
        Self::LetsSignalsOvertake,
        Self::LetsMessagesOvertake,
        Self::IgnoresTargetCredit,
        Self::StallsOnOneTarget,
        Self::ForgetsRoom,
        Self::DropsWhenBusy,
        Self::IgnoresSilence,
        Self::LosesCredit,
        Self::LeavesAtOnce,
    ];
}
