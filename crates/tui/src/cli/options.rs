//! Options of the observer, for every program that starts one.

use std::path::PathBuf;
use std::time::Duration;

use rusm_protocol::SortKey;

use crate::connection::Target;
use crate::model::tab::Tab;

/// Frames per second in a local terminal.
pub const FPS_LOCAL: u8 = 10;

/// Frames per second over SSH, low enough for slow connections.
pub const FPS_REMOTE: u8 = 4;

/// Timeout of the first connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Source of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A node.
    Node(Target),
    /// Synthetic data, labelled as such on every screen.
    Demo {
        /// Seed of the generator. Equal seeds give equal data.
        seed: u64,
    },
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColorChoice {
    /// Use colours unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Use colours regardless of the environment.
    Always,
    /// Use bold, dim and reverse only.
    Never,
}

/// Output format of `--once`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The view as text.
    Text,
    /// The node, its frame and its rows as JSON.
    Json,
}

/// Options of the observer.
#[derive(Clone, Debug)]
pub struct Options {
    /// Source of the data.
    pub source: Source,
    /// Token file for TCP. Default: `tcp-<port>.token` or `tcp6-<port>.token` in the discovery folder.
    pub token_file: Option<PathBuf>,
    /// Connection timeout. Default: 5 s.
    pub timeout: Duration,
    /// Reconnect when the connection is lost. Default: true.
    pub reconnect: bool,
    /// Frames per second, 1–60. Default: 10, or 4 if the screen or the node's socket is at the other end of an SSH
    /// connection.
    pub fps: Option<u8>,
    /// Initial view. Default: Node.
    pub tab: Tab,
    /// Filter of the process table. Default: none.
    pub filter: String,
    /// Order of the process table. Default: reductions per second, largest first.
    pub sort: SortKey,
    /// Scenario to run at start. Default: none.
    pub run: Option<String>,
    /// Resource profile to select at start. Default: the node's.
    pub profile: Option<String>,
    /// Use ASCII characters only. Default: true if the locale is not UTF-8.
    pub ascii: bool,
    /// When to use colours.
    pub color: ColorChoice,
    /// Use the mouse. If false, the terminal selects text as usual. Default: true.
    pub mouse: bool,
    /// Print one frame and exit. Default: none.
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
