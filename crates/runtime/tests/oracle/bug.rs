//! Bugs planted into rusm's side of the oracle, to check that the oracle finds them.

/// A way in which actors misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A monitor causes two down messages.
    DownTwice,
    /// A monitor on a dead process causes no down message.
    MonitorOfTheDeadIsSilent,
    /// A link to a dead process causes no exit signal.
    LinkToTheDeadIsSilent,
    /// Linking twice creates two links.
    LinksAreCounted,
    /// Unlink removes the link only on its own side.
    UnlinkLeavesTheOtherSide,
    /// An exit signal with the reason `normal` ends other processes.
    NormalKills,
    /// A process that traps exits survives a kill.
    KillIsTrapped,
    /// A killed process is reported to have ended with `kill`.
    KilledIsCalledKill,
    /// Exit signals are still delivered as messages after a process has stopped trapping them.
    TrappingIsForEver,
    /// A name is still taken when other processes receive the down message.
    NameOutlivesDown,
    /// Demonitor with flush does not remove the down message.
    FlushLeavesTheDown,
    /// Demonitor without flush removes the down message.
    DemonitorFlushes,
    /// An exit signal overtakes a message that was sent before it.
    ExitOvertakes,
    /// The last message of an ending process is lost.
    LastWordsAreLost,
    /// A process spawned by one that traps exits traps them, too.
    TrappingIsInherited,
}

impl Bug {
    pub(crate) const ALL: [Self; 15] = [
        Self::DownTwice,
        Self::MonitorOfTheDeadIsSilent,
        Self::LinkToTheDeadIsSilent,
        Self::LinksAreCounted,
        Self::UnlinkLeavesTheOtherSide,
        Self::NormalKills,
        Self::KillIsTrapped,
        Self::KilledIsCalledKill,
        Self::TrappingIsForEver,
        Self::NameOutlivesDown,
        Self::FlushLeavesTheDown,
        Self::DemonitorFlushes,
        Self::ExitOvertakes,
        Self::LastWordsAreLost,
        Self::TrappingIsInherited,
    ];
}
