//! How the observer is to start, for every program that starts one.

use std::path::PathBuf;
use std::time::Duration;

use rusm_protocol::SortKey;

use crate::connection::Target;
use crate::model::tab::Tab;

/// Frames a second in a local terminal.
pub const FPS_LOCAL: u8 = 10;

/// Frames a second over SSH: few enough for any line.
pub const FPS_REMOTE: u8 = 4;

/// How long the first connection may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the data comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A node.
    Node(Target),
    /// Made-up data, labelled as such on every screen.
    Demo {
        /// The same seed gives the same data.
        seed: u64,
    },
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// Unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Whatever the environment says.
    Always,
    /// Bold, dim and reverse only.
    Never,
}

/// What `--once` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The view as text.
    Text,
    /// The node, its frame and its rows as JSON.
    Json,
}

/// How the observer is to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the data comes from.
    pub source: Source,
    /// The token for TCP; default: `tcp-<port>.token` or `tcp6-<port>.token` in the discovery folder.
    pub token_file: Option<PathBuf>,
    /// How long a connection may take to be made. Default: 5 s.
    pub timeout: Duration,
    /// Whether to connect again when the connection is lost. Default: yes.
    pub reconnect: bool,
    /// Frames a second, 1–60. Default: 10, or 4 where the screen, or the node's socket, is at the other end of SSH.
    pub fps: Option<u8>,
    /// The first view. Default: Node.
    pub tab: Tab,
    /// The filter of the process table. Default: none.
    pub filter: String,
    /// The order of the process table. Default: reductions a second, largest first.
    pub sort: SortKey,
    /// A scenario to run at once. Default: none.
    pub run: Option<String>,
    /// A resource profile to choose at once. Default: the node's.
    pub profile: Option<String>,
    /// ASCII only. Default: when the locale is not UTF-8.
    pub ascii: bool,
    /// Colours.
    pub color: ColorChoice,
    /// Whether the mouse is used; without, the terminal selects text as usual. Default: yes.
    pub mouse: bool,
    /// Print one frame and leave.
    pub once: Option<Once>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            source: Source::Node(Target::Discover),
            token_file: None,
            timeout: CONNECT_TIMEOUT,
            reconnect: true,
            fps: None,
            tab: Tab::default(),
            filter: String::new(),
            sort: SortKey::default(),
            run: None,
            profile: None,
            ascii: false,
            color: ColorChoice::default(),
            mouse: true,
            once: None,
        }
    }
}
