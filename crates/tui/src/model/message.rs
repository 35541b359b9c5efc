//! Everything that can happen to the model, and every effect it can request.

use std::path::PathBuf;
use std::time::Duration;

use rusm_protocol::{ClientMessage, Column, ServerMessage};

use crate::model::input::key::{Key, Mouse, Size};
use crate::model::palette::Palette;

/// Minimum time between two requests of a view: a node accepts 20 commands per second.
pub(crate) const REQUEST_PACE: Duration = Duration::from_millis(80);

/// An event for the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Msg {
    /// A key was pressed or repeated.
    Key(Key),
    /// A mouse event.
    Mouse(Mouse),
    /// Text was pasted.
    Paste(String),
    /// The terminal has a new size.
    Resize(Size),
    /// Time has passed; ages, countdowns and paced requests are updated.
    Tick,
    /// A message from the node, without control characters.
    Server(ServerMessage),
    /// The node sent something that is not a valid message; the description is for the user.
    Malformed(String),
    /// The connection changed.
    Link(LinkEvent),
    /// The terminal has told its background, so the theme that follows it is known.
    Theme(Box<Palette>),
    /// Resource usage of this observer over the last second.
    OwnCost(OwnCost),
    /// A file was saved at this path, or not, with the reason.
    Saved(Result<String, String>),
}

/// A change of the connection to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A connection attempt began.
    Connecting,
    /// The connection was opened; the node's `hello` follows.
    Connected,
    /// The connection was lost, or an attempt failed.
    Lost {
        /// Reason, in one line.
        reason: String,
        /// Kind of fault that ended the connection.
        fault: Fault,
        /// Number of failed attempts since the last connection.
        attempt: u32,
        /// Time until the next attempt.
        retry_in: Duration,
    },
}

/// Kind of fault that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection broke, or the node could not be reached.
    Connection,
    /// The node refused the connection or violated the protocol.
    Protocol,
}

/// Resource usage of the observer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnCost {
    /// CPU time of the observer's thread, in percent of one core.
    pub cpu_pct: f64,
    /// Bytes per second received from the node.
    pub received_bytes_per_sec: f64,
    /// Bytes per second sent to the terminal.
    pub drawn_bytes_per_sec: f64,
}

/// Effect for the event loop around the model to execute.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send a message to the node.
    Send(ClientMessage),
    /// Reconnect now instead of at the end of the back-off.
    Retry,
    /// Copy a text to the clipboard.
    Copy(String),
    /// Save a file, and show its path.
    Save {
        /// Name of the file, without a folder.
        name: String,
        /// Its content.
        export: Export,
    },
    /// Save the chosen columns in the config file, and show its path.
    SaveColumns {
        /// Key in the file.
        key: &'static str,
        /// The columns; empty for those that fit.
        columns: Vec<Column>,
    },
    /// Export a part of the past as a trace, and show the path of the file.
    ExportTrace {
        /// Name of the file, without a folder.
        name: String,
        /// Its end: the uptime of the node, in milliseconds.
        until_ms: u64,
        /// Its length.
        last: Duration,
    },
    /// Draw with this time between two frames.
    Interval(Duration),
    /// Show a recording instead of the present source, until the user quits it.
    OpenRecording(PathBuf),
    /// Watch another node of the cluster instead, through the node that is watched.
    Attach(String),
    /// Watch these nodes of the cluster beside the node that is watched, through it.
    AttachBeside(Vec<String>),
    /// Give the keys to the next node on the screen.
    NextNode,
    /// Show only the node with the focus, or all again.
    OneNode,
    /// Redraw every cell.
    Repaint,
    /// Restore the terminal and suspend until the user resumes the program.
    Suspend,
    /// Quit.
    Quit(QuitReason),
}

/// Content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Export {
    /// A text.
    Text(String),
    /// The screen as text.
    Screen,
    /// The screen as an SVG picture.
    Picture,
}

/// Why the observer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuitReason {
    /// The user asked to quit.
    Requested,
    /// The node speaks a newer protocol than this program.
    NewerProtocol {
        /// Protocol version of the node.
        theirs: u32,
    },
}
