//! Everything that can happen to the model, and everything it can ask for.

use std::time::Duration;

use rusm_protocol::{ClientMessage, ServerMessage};

use crate::model::key::{Key, Mouse, Size};

/// Something happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Msg {
    /// A key went down or repeats.
    Key(Key),
    /// The mouse.
    Mouse(Mouse),
    /// Text was pasted.
    Paste(String),
    /// The terminal has a new size.
    Resize(Size),
    /// Time went by; ages, countdowns and paced requests move on.
    Tick,
    /// The node said something; its text is free of control characters.
    Server(ServerMessage),
    /// The node said something that is no message; what came of it in words.
    Nonsense(String),
    /// The connection changed.
    Link(LinkEvent),
    /// What this observer itself cost over the last second.
    OwnCost(OwnCost),
}

/// A change of the connection to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// An attempt began.
    Connecting,
    /// The node answered; its `hello` follows.
    Connected,
    /// The connection is gone, or an attempt failed.
    Lost {
        /// Why, in one line.
        reason: String,
        /// Whether the node went away or broke the protocol.
        fault: Fault,
        /// Attempts that failed since it was last up.
        attempt: u32,
        /// When the next attempt begins.
        retry_in: Duration,
    },
}

/// Whose fault the end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The node went away, or could not be reached.
    Connection,
    /// The node refused us, or said what no node says.
    Protocol,
}

/// What the observer itself costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnCost {
    /// CPU time of the observer's thread, in per cent of one core.
    pub cpu_pct: f64,
    /// Bytes a second that the node sent.
    pub received_bytes_per_sec: f64,
    /// Bytes a second that went to the terminal.
    pub drawn_bytes_per_sec: f64,
}

/// What the shell around the model is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Say this to the node.
    Send(ClientMessage),
    /// Connect now instead of at the end of the back-off.
    Retry,
    /// Put this text on the clipboard.
    Copy(String),
    /// Draw every cell again.
    Repaint,
    /// Give the terminal back until the shell resumes us.
    Suspend,
    /// Leave.
    Quit(Ending),
}

/// Why the observer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The user asked.
    Asked,
    /// The node speaks a newer protocol than this program.
    NewerProtocol {
        /// The version that the node announced.
        theirs: u32,
    },
}
