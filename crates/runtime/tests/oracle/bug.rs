//! Bugs planted into our side of the oracle, to see whether it has teeth.

/// A way for actors to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A monitor yields two downs.
    DownTwice,
    /// A monitor on the dead yields nothing.
    MonitorOfTheDeadIsSilent,
    /// A link to the dead yields nothing.
    LinkToTheDeadIsSilent,
    /// Two calls of link make two links.
    LinksAreCounted,
    /// Unlink takes the link away on its own side only.
    UnlinkLeavesTheOtherSide,
    /// An exit signal `normal` ends others.
    NormalKills,
    /// Who traps exits survives a kill.
    KillIsTrapped,
    /// Who was killed is said to have ended by `kill`.
    KilledIsCalledKill,
    /// Exit signals stay messages once they were.
    TrappingIsForEver,
    /// A name is still taken when others hear of the death.
    NameOutlivesDown,
    /// Demonitor with flush leaves the down.
    FlushLeavesTheDown,
    /// Demonitor without flush takes the down.
    DemonitorFlushes,
    /// An exit signal overtakes the message sent before it.
    ExitOvertakes,
    /// The last message of one who ends is lost.
    LastWordsAreLost,
    /// Who is started by one that traps exits traps them too.
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
