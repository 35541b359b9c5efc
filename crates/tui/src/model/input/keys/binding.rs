//! The parts of a binding: a context, keys, and their action.

use rusm_protocol::Column;

use crate::model::input::key::Key;
use crate::model::tab::Tab;

/// Context in which a binding applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// Everywhere except in overlays and text fields.
    Global,
    /// Lists: the process table, the scenarios, the help.
    List,
    /// The Node view.
    Node,
    /// The Bench view.
    Bench,
    /// A result on Bench.
    Result,
    /// The list of results on Bench.
    Results,
    /// The text by which scenarios are found.
    Find,
    /// A question.
    Ask,
    /// The Processes view.
    Processes,
    /// A process on the whole screen.
    Detail,
    /// The Tree view.
    Tree,
    /// The Events view.
    Events,
    /// The Wasm view.
    Wasm,
    /// The Store view.
    Store,
    /// The Topics view.
    Topics,
    /// An event in full.
    Event,
    /// The CPU view.
    Cpu,
    /// The Serve view.
    Serve,
    /// The Cluster view.
    Cluster,
    /// The filter's text field.
    Filter,
    /// The help overlay.
    Help,
    /// The confirmation before a process is ended.
    Kill,
    /// The words of an exit reason.
    KillWords,
    /// A cause of failures in full.
    Cause,
    /// The sort menu.
    SortMenu,
    /// The column chooser.
    Columns,
    /// The dialog with the parameters of a scenario.
    RunDialog,
    /// The command palette.
    Palette,
    /// The list of processes that wait for others.
    Waits,
    /// The trace of a process.
    Trace,
    /// The filter's text field of a trace.
    TraceFilter,
    /// An instant of the past.
    Past,
    /// The overlay of a lost connection.
    Lost,
}

impl Context {
    /// All contexts, in the order of the README.
    pub const ALL: [Self; 33] = [
        Self::Global,
        Self::List,
        Self::Node,
        Self::Bench,
        Self::Result,
        Self::Results,
        Self::Find,
        Self::Ask,
        Self::Processes,
        Self::Detail,
        Self::Tree,
        Self::Events,
        Self::Event,
        Self::Wasm,
        Self::Store,
        Self::Topics,
        Self::Cpu,
        Self::Serve,
        Self::Cluster,
        Self::Filter,
        Self::SortMenu,
        Self::Columns,
        Self::Kill,
        Self::KillWords,
        Self::Cause,
        Self::RunDialog,
        Self::Palette,
        Self::Waits,
        Self::Trace,
        Self::TraceFilter,
        Self::Help,
        Self::Past,
        Self::Lost,
    ];

    /// Returns the heading in the help.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Global => "everywhere",
            Self::List => "moving",
            Self::Node => "node",
            Self::Bench => "bench",
            Self::Result => "result",
            Self::Results => "results",
            Self::Find => "find",
            Self::Processes => "processes",
            Self::Detail => "process",
            Self::Cause => "cause of failures",
            Self::Tree => "tree",
            Self::Events => "events",
            Self::Event => "event",
            Self::Wasm => "wasm",
            Self::Store => "store",
            Self::Topics => "topics",
            Self::Cpu => "cpu",
            Self::Serve => "serve",
            Self::Cluster => "cluster",
            Self::Filter => "filter",
            Self::Help => "help",
            Self::Kill => "kill",
            Self::KillWords => "words of a reason",
            Self::Ask => "question",
            Self::Columns => "columns",
            Self::SortMenu => "sort menu",
            Self::RunDialog => "run dialog",
            Self::Palette => "palette",
            Self::Waits => "waits",
            Self::Trace => "trace",
            Self::TraceFilter => "filter of a trace",
            Self::Past => "past",
            Self::Lost => "connection lost",
        }
    }
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Quit the program.
    Quit,
    /// Open or close the help.
    Help,
    /// Show a view.
    Show(Tab),
    /// Show the next or the previous view.
    Step(isize),
    /// Close the innermost open element, else undo one step.
    Back,
    /// Freeze the screen, or return to the present.
    Pause,
    /// Show the past, this many seconds later or earlier.
    Past(i64),
    /// Show the instant of the next crash (true) or of the previous one.
    Crash(bool),
    /// Return to the present.
    Now,
    /// Show what changed in the minute before.
    Changes,
    /// Show a longer or a shorter time in charts.
    Zoom(isize),
    /// Shows the next panel of the view on the whole screen.
    Enlarge,
    /// Redraw every cell.
    Repaint,
    /// Suspend the program and return to the shell.
    Suspend,
    /// Copy the selected pid, or a summary.
    Copy,
    /// Reconnect now.
    Retry,
    /// Move by lines.
    Lines(i64),
    /// Move by half pages.
    HalfPages(i64),
    /// Move to the first scenario of the next family (true) or of the previous one.
    Family(bool),
    /// Move to the first item.
    First,
    /// Move to the last item.
    Last,
    /// Run the selected scenario.
    Run,
    /// Stop the run.
    Stop,
    /// Pause the run, or let it go on.
    PauseRun,
    /// Select the next resource profile.
    Profile,
    /// Open the run dialog.
    Parameters,
    /// Show the full description of the selected scenario.
    About,
    /// Show a result in full (true) or the list of results, or return to the run.
    Results(bool),
    /// Find a scenario by a part of its name.
    Find,
    /// Scroll wide tables by this many columns.
    Columns(isize),
    /// Mark the selected result.
    Mark,
    /// Compare the selected result with the marked one.
    Compare,
    /// Compare new settings with the selected result, interleaved.
    Against,
    /// Save the JSON report of a result.
    SaveReport,
    /// Save the screen as a picture.
    SavePicture,
    /// Save the screen as text.
    SaveScreen,
    /// Export the time of the charts as a trace.
    ExportTrace,
    /// Edit the filter.
    Filter,
    /// Complete the word in a text field with the candidate this many positions further.
    Complete(isize),
    /// Open the sort menu.
    SortMenu,
    /// Sort the list by its next order.
    SortNext,
    /// Sort by the column this many positions to the right.
    SortStep(isize),
    /// Sort by this column; if it is the sort column already, reverse the order.
    SortBy(Column),
    /// Reverse the order.
    Invert,
    /// Keep the selected process in view.
    Follow,
    /// Compute the order again.
    Reorder,
    /// Turn the process table on or off.
    Detail,
    /// Open the selected supervisor, or move into it if it is open.
    Unfold,
    /// Close the selected supervisor, or move to its parent.
    Fold,
    /// Close all supervisors.
    FoldAll,
    /// Move the focus by this many panels.
    Panel(isize),
    /// Show the next kind of groups.
    Group,
    /// Show the next engine.
    NextEngine,
    /// Show the next page of keys (true) or the previous one.
    Page(bool),
    /// Switch between the columns of guests and the usual ones.
    GuestColumns,
    /// Open the column chooser.
    ChooseColumns,
    /// Show or hide the item under the cursor.
    Toggle,
    /// Move the item under the cursor by this many places.
    Shift(isize),
    /// Return to the usual choice.
    Reset,
    /// Show the process of the selected child.
    Process,
    /// Return to the place from which a process was opened.
    Return,
    /// Request the children of the process in full.
    Children,
    /// Request the values of messages besides their types.
    Values,
    /// Move the selection by this many causes of failures.
    Cause(isize),
    /// Show the selected cause of failures in full.
    OpenCause,
    /// Perform the action of Enter in this context.
    Open,
    /// Ask for confirmation to end the selected process.
    Kill,
    /// Ask for confirmation to start the selected child again.
    RestartChild,
    /// Ask for confirmation to end all processes that match the filter.
    KillAll,
    /// Move the selection by this many lints.
    Lint(isize),
    /// Show only events of a higher level.
    Level,
    /// Show or hide log lines between the events.
    LogLines,
    /// Change the filter of the node's log.
    LogLevel,
    /// Show the process at this place of a list of links.
    Link(u8),
    /// Hide all lints of the same kind as the selected one.
    HideLints,
    /// Show hidden lints again.
    ShowLints,
    /// Open the command palette.
    Palette,
    /// Select the next choice in a dialog.
    NextChoice,
    /// Select the previous choice in a dialog.
    PreviousChoice,
    /// Open or close the list of processes that wait for others.
    Waits,
    /// Trace the selected process, or start its trace again.
    Trace,
    /// Trace other processes: of the same kind, or the children.
    TraceScope,
    /// Save the trace to a file.
    SaveTrace,
    /// Show all nodes of the cluster at once.
    AllNodes,
    /// Move the focus to the next node on the screen.
    NextNode,
    /// Show only the node with the focus, or all again.
    OneNode,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// Context in which the binding applies.
    pub context: Context,
    /// Keys, the usual one first.
    pub keys: &'static [Key],
    /// Action of the keys.
    pub action: Action,
    /// Word in the footer; empty for none.
    pub hint: &'static str,
    /// Sentence in the help.
    pub help: &'static str,
}
