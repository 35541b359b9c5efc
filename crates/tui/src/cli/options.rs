//! Options of the observer, for every program that starts one.

use std::path::PathBuf;
use std::time::Duration;

use rusm_protocol::{Column, KillReason, SortKey};

use crate::connection::Target;
use crate::model::input::keymap::KeyMap;
use crate::model::palette::{ColorDepth, Palette};
use crate::model::panes::columns;
use crate::model::tab::Tab;

/// Frames per second in a local terminal.
pub const FPS_LOCAL: u8 = 10;

/// Frames per second over SSH, low enough for slow connections.
pub const FPS_REMOTE: u8 = 4;

/// Timeout of the first connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Source of the data.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A node.
    Node(Target),
    /// Synthetic data, labelled as such on every screen.
    Demo {
        /// Seed of the generator. Equal seeds give equal data.
        seed: u64,
    },
    /// A recording made with `--record`.
    Replay {
        /// The recording.
        path: PathBuf,
        /// Speed as a factor of the recorded one.
        speed: f64,
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
    /// Use this many colours.
    Depth(ColorDepth),
}

/// Output format of `--once` and `--batch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Once {
    /// The view as text.
    Text,
    /// The node, its frame and its rows as JSON, with what the view shows.
    Json,
    /// The same with what all views show.
    AllViews,
}

/// Options of the observer.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each one is an option of its own")]
pub struct Options {
    /// Source of the data.
    pub source: Source,
    /// More nodes to show on the same screen. Default: none.
    pub beside: Vec<Target>,
    /// Token file for TCP. Default: `tcp-<port>.token` or `tcp6-<port>.token` in the discovery folder.
    pub token_file: Option<PathBuf>,
    /// Connection timeout. Default: 5 s.
    pub timeout: Duration,
    /// Reconnect when the connection is lost. Default: true.
    pub reconnect: bool,
    /// Never change the node. Default: false.
    pub read_only: bool,
    /// The node ends with this observer, which then asks before it quits. Default: false.
    pub owns_node: bool,
    /// Frames per second, 1–60. Default: 10, or 4 if the screen or the node's socket is at the other end of an SSH
    /// connection.
    pub fps: Option<u8>,
    /// Time between two frames, instead of `fps`. Default: none.
    pub interval: Option<Duration>,
    /// Initial view. Default: Node.
    pub tab: Tab,
    /// Filter of the process table. Default: none.
    pub filter: String,
    /// Order of the process table. Default: reductions per second, largest first.
    pub sort: SortKey,
    /// Columns of the process table. Default: none, those that fit.
    pub columns: Vec<Column>,
    /// Columns of the process table for guests. Default: none, those that fit.
    pub guest_columns: Vec<Column>,
    /// Scenario to run at start. Default: none.
    pub run: Option<String>,
    /// Resource profile to select at start. Default: the node's.
    pub profile: Option<String>,
    /// Use ASCII characters only. Default: true if the locale is not UTF-8.
    pub ascii: bool,
    /// When to use colours.
    pub color: ColorChoice,
    /// Styles of the roles. Default: none, the theme follows the terminal.
    pub palette: Option<Palette>,
    /// Use the mouse. If false, the terminal selects text as usual. Default: true.
    pub mouse: bool,
    /// Keys of the bindings.
    pub keys: KeyMap,
    /// File in which the chosen columns are saved. Default: none.
    pub config_file: Option<PathBuf>,
    /// Print frames instead of drawing a screen. Default: none.
    pub once: Option<Once>,
    /// Number of frames to print; `None` for no end. Default: 1.
    pub frames: Option<u64>,
    /// Commands to execute without a screen. Default: none.
    pub acts: Vec<Act>,
    /// Command that runs ssh, with its arguments. Default: `ssh`.
    pub ssh: Vec<String>,
    /// Print what is wrong in the node and exit. Default: none.
    pub diagnose: Option<Once>,
    /// Ids of lints that are hidden from the start. Default: none.
    pub hidden_lints: Vec<String>,
    /// File for a recording of all messages, which must not exist. Default: none.
    pub record: Option<PathBuf>,
    /// Export a span of the node's past as a trace and exit. Default: none.
    pub export: Option<Export>,
}

impl Options {
    /// Returns true if these print, export or execute something, and draw nothing.
    pub(crate) const fn needs_no_screen(&self) -> bool {
        self.diagnose.is_some() || self.export.is_some() || !self.acts.is_empty() || self.once.is_some()
    }
}

/// A command that changes the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ends a process.
    Kill {
        /// Pid of the process.
        pid: String,
        /// Exit reason that it receives.
        reason: KillReason,
        /// Words of the reason.
        text: Option<String>,
    },
    /// Ends all processes that match a filter.
    KillAll {
        /// The filter.
        filter: String,
        /// Exit reason that they receive.
        reason: KillReason,
    },
    /// Stops the run.
    Stop,
    /// Replaces the filter of the node's log.
    LogFilter(String),
}

/// Export of a span of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// File for the trace, as Chrome trace JSON.
    pub path: PathBuf,
    /// Time before now.
    pub last: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            source: Source::Node(Target::Discover),
            beside: Vec::new(),
            token_file: None,
            timeout: CONNECT_TIMEOUT,
            reconnect: true,
            read_only: false,
            owns_node: false,
            fps: None,
            interval: None,
            tab: Tab::default(),
            filter: String::new(),
            sort: columns::BY_CPU,
            columns: Vec::new(),
            guest_columns: Vec::new(),
            run: None,
            profile: None,
            ascii: false,
            color: ColorChoice::default(),
            palette: None,
            mouse: true,
            keys: KeyMap::default(),
            config_file: None,
            once: None,
            frames: Some(1),
            acts: Vec::new(),
            ssh: Vec::new(),
            diagnose: None,
            hidden_lints: Vec::new(),
            record: None,
            export: None,
        }
    }
}
