//! The key bindings: one table for dispatch, the footer, the `?` overlay, the README and their tests.
//!
//! A binding of a context shadows the global one. Contexts with a text field never fall through to the global bindings,
//! so that letters can be typed there.

use rusm_protocol::Column;

use crate::model::input::key::{Key, KeyCode};
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
    /// The filter's text field.
    Filter,
    /// The help overlay.
    Help,
    /// The confirmation before a process is ended.
    Kill,
    /// A cause of failures in full.
    Cause,
    /// The sort menu.
    SortMenu,
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
    pub const ALL: [Self; 29] = [
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
        Self::Filter,
        Self::SortMenu,
        Self::Kill,
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
            Self::Filter => "filter",
            Self::Help => "help",
            Self::Kill => "kill",
            Self::Ask => "question",
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
    /// Edit the filter.
    Filter,
    /// Complete the word in a text field with the candidate this many positions further.
    Complete(isize),
    /// Open the sort menu.
    SortMenu,
    /// Sort the topics by the next figure.
    SortTopics,
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

const fn bind(
    context: Context,
    keys: &'static [Key],
    action: Action,
    hint: &'static str,
    help: &'static str,
) -> Binding {
    Binding { context, keys, action, hint, help }
}

const fn c(c: char) -> Key {
    Key::char(c)
}

const fn k(code: KeyCode) -> Key {
    Key::plain(code)
}

use KeyCode::{BackTab, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp, Right, Up};

/// All bindings. Within a context, the footer shows hints in this order.
pub static BINDINGS: &[Binding] = &[
    bind(Context::Node, &[c('x')], Action::Stop, "stop", "stop the run"),
    bind(Context::Node, &[c('d')], Action::Detail, "rows", "toggle the process rows"),
    bind(Context::Bench, &[k(Enter), c('r')], Action::Run, "run", "run the selected scenario"),
    bind(Context::Bench, &[c('x'), k(F(9))], Action::Stop, "stop", "stop the run"),
    bind(Context::Bench, &[c('p')], Action::Profile, "profile", "next resource profile"),
    bind(Context::Bench, &[c('e'), c('P')], Action::Parameters, "settings", "settings and parameters, then run"),
    bind(Context::Bench, &[c('o')], Action::Results(true), "result", "the current or newest result in full"),
    bind(Context::Bench, &[c('H')], Action::Results(false), "history", "the results of this node and earlier ones"),
    bind(
        Context::Bench,
        &[c('/'), k(F(3))],
        Action::Find,
        "find",
        "find a scenario by words of its name, family or text",
    ),
    bind(Context::Bench, &[c('i')], Action::About, "about", "describe the selected scenario"),
    bind(Context::Bench, &[c('l'), k(Right)], Action::Family(true), "", "next family of scenarios"),
    bind(Context::Bench, &[c('h'), k(Left)], Action::Family(false), "", "previous family"),
    bind(Context::Result, &[c('l'), k(Right)], Action::Columns(1), "", "scroll wide tables to the right"),
    bind(Context::Result, &[c('h'), k(Left)], Action::Columns(-1), "", "scroll wide tables to the left"),
    bind(Context::Result, &[c('v')], Action::SaveReport, "json", "save the report as JSON"),
    bind(Context::Result, &[c('w')], Action::SavePicture, "picture", "save the screen as an SVG picture"),
    bind(Context::Result, &[c('H')], Action::Results(false), "history", "the list of results"),
    bind(Context::Result, &[c('x'), k(F(9))], Action::Stop, "stop", "stop the run"),
    bind(Context::Result, &[c('o')], Action::Results(true), "close", "back to the run"),
    bind(Context::Results, &[k(Enter)], Action::Open, "open", "show the selected result"),
    bind(Context::Results, &[c('m')], Action::Mark, "mark", "mark the selected result, or remove its mark"),
    bind(Context::Results, &[c('c')], Action::Compare, "compare", "beside the marked result, else the one before it"),
    bind(Context::Results, &[c('a')], Action::Against, "a/b", "new settings against the selected result, interleaved"),
    bind(Context::Results, &[c('v')], Action::SaveReport, "json", "save the report as JSON"),
    bind(Context::Results, &[c('w')], Action::SavePicture, "", "save the screen as an SVG picture"),
    bind(Context::Results, &[c('x'), k(F(9))], Action::Stop, "", "stop the run"),
    bind(Context::Results, &[c('H')], Action::Results(false), "close", "back to the run"),
    bind(Context::Find, &[k(Enter)], Action::Open, "select", "keep the selected scenario"),
    bind(Context::Find, &[k(Esc), Key::ctrl('c')], Action::Back, "cancel", "select the scenario from before"),
    bind(Context::Find, &[k(Down)], Action::Lines(1), "next", "next match"),
    bind(Context::Find, &[k(Up)], Action::Lines(-1), "", "previous match"),
    bind(Context::Ask, &[k(Enter), c('y')], Action::Open, "yes", "do it"),
    bind(Context::Ask, &[k(Esc), c('n'), c('q'), Key::ctrl('c')], Action::Back, "no", "do not"),
    bind(Context::Processes, &[k(Enter)], Action::Open, "detail", "show the selected process; again: in full"),
    bind(Context::Processes, &[c('/'), k(F(3))], Action::Filter, "filter", "filter on the node: name=kv* and mailq>0"),
    bind(Context::Processes, &[c('s'), k(F(6))], Action::SortMenu, "sort", "choose the sort column"),
    bind(Context::Processes, &[c('i')], Action::Invert, "", "reverse the order"),
    bind(Context::Processes, &[c('x'), k(F(9))], Action::Kill, "kill", "end the selected process (asks first)"),
    bind(Context::Processes, &[c('X')], Action::KillAll, "", "end all processes that match (asks first)"),
    bind(Context::Processes, &[c('F')], Action::Follow, "follow", "keep the selected process in view"),
    bind(Context::Processes, &[c('d')], Action::Detail, "rows", "toggle the process rows and the node's stream"),
    bind(Context::Processes, &[c('w')], Action::GuestColumns, "wasm", "toggle the columns of WebAssembly guests"),
    bind(Context::Processes, &[c('o')], Action::Reorder, "", "sort again now"),
    bind(Context::Processes, &[c('>'), k(Right)], Action::SortStep(1), "", "sort by the next column"),
    bind(Context::Processes, &[c('<'), k(Left)], Action::SortStep(-1), "", "sort by the previous column"),
    bind(Context::Processes, &[c('C')], Action::SortBy(Column::BusyPct), "", "sort by CPU"),
    bind(Context::Processes, &[c('R')], Action::SortBy(Column::RedsPerSec), "", "sort by reductions/s"),
    bind(Context::Processes, &[c('M')], Action::SortBy(Column::MemoryBytes), "", "sort by memory"),
    bind(Context::Processes, &[c('Q')], Action::SortBy(Column::MailboxLen), "", "sort by mailbox length"),
    bind(Context::Processes, &[c('A')], Action::SortBy(Column::AgeMs), "", "sort by age"),
    bind(Context::Processes, &[c('N')], Action::SortBy(Column::Name), "", "sort by name"),
    bind(Context::Processes, &[c('P')], Action::SortBy(Column::Pid), "", "sort by pid"),
    bind(Context::Processes, &[c('t'), k(F(5))], Action::Trace, "trace", "trace the selected process for ten seconds"),
    bind(Context::Detail, &[k(Enter)], Action::Open, "follow", "show the process of the selected link"),
    bind(Context::Detail, &[k(KeyCode::Backspace)], Action::Return, "back", "return to the place before"),
    bind(Context::Detail, &[c('n'), c('l'), k(Right)], Action::Page(true), "more", "next page of a long list of links"),
    bind(Context::Detail, &[c('p'), c('h'), k(Left)], Action::Page(false), "", "previous page"),
    bind(Context::Detail, &[c('c')], Action::Children, "children", "toggle the list of children"),
    bind(Context::Detail, &[c('v')], Action::Values, "values", "toggle the values of messages (control role)"),
    bind(Context::Detail, &[c('t'), k(F(5))], Action::Trace, "trace", "trace the process for ten seconds"),
    bind(Context::Detail, &[c('x'), k(F(9))], Action::Kill, "kill", "end the process (asks first)"),
    bind(Context::Tree, &[k(Enter)], Action::Open, "open", "open or close a supervisor; show any other process"),
    bind(Context::Tree, &[c('l'), k(Right)], Action::Unfold, "", "open it, or go to its first child"),
    bind(Context::Tree, &[c('h'), k(Left)], Action::Fold, "", "close the supervisor, or go to its parent"),
    bind(Context::Tree, &[c('E')], Action::FoldAll, "fold all", "close all supervisors"),
    bind(Context::Tree, &[c('p')], Action::Process, "process", "show the process of the selected row"),
    bind(Context::Tree, &[c('x'), k(F(9))], Action::Kill, "kill", "end the selected process (asks first)"),
    bind(Context::Tree, &[c('R')], Action::RestartChild, "restart", "start the selected child again (asks first)"),
    bind(Context::Tree, &[c('d')], Action::Detail, "detail", "toggle the selected row in full"),
    bind(
        Context::Events,
        &[k(Enter)],
        Action::Open,
        "open",
        "show the selected event in full, or the process of a lint",
    ),
    bind(Context::Events, &[c('p')], Action::Process, "process", "show the process of the selected event"),
    bind(Context::Events, &[c('/'), k(F(3))], Action::Filter, "filter", "filter events: level>=warn and name~kv"),
    bind(Context::Events, &[c('l')], Action::Level, "level", "show only events of a higher level; after error, all"),
    bind(Context::Events, &[c('L')], Action::LogLines, "log", "show the node's log and the output of guests"),
    bind(Context::Events, &[c('n')], Action::Lint(1), "next lint", "select the next lint"),
    bind(Context::Events, &[c('N')], Action::Lint(-1), "", "select the previous lint"),
    bind(Context::Events, &[c('h')], Action::HideLints, "hide", "hide all lints of this kind, on this screen only"),
    bind(Context::Events, &[c('H')], Action::ShowLints, "", "show the hidden lints"),
    bind(Context::Event, &[k(Enter), c('1'), c('p')], Action::Link(0), "process", "show the first of its processes"),
    bind(Context::Event, &[c('2')], Action::Link(1), "", "show the second of its processes"),
    bind(Context::Event, &[c('3')], Action::Link(2), "", "show the third of its processes"),
    bind(Context::Event, &[c('y')], Action::Copy, "copy", "copy the reason"),
    bind(Context::Event, &[c('j'), k(Down)], Action::Lines(1), "down", "down"),
    bind(Context::Event, &[c('k'), k(Up)], Action::Lines(-1), "", "up"),
    bind(Context::Event, &[k(PageDown)], Action::HalfPages(2), "", "a page down"),
    bind(Context::Event, &[k(PageUp)], Action::HalfPages(-2), "", "a page up"),
    bind(Context::Event, &[k(Esc), c('q'), Key::ctrl('c')], Action::Back, "close", "close"),
    bind(Context::Events, &[c('c')], Action::Cause(1), "", "select the next cause of failures"),
    bind(Context::Events, &[c('C')], Action::Cause(-1), "", "select the previous cause"),
    bind(
        Context::Events,
        &[c('o')],
        Action::OpenCause,
        "cause",
        "show the selected cause: reason, backtrace, last state",
    ),
    bind(Context::Wasm, &[k(Enter)], Action::Open, "open", "show a module's processes, or a trap in full"),
    bind(Context::Wasm, &[c('l'), k(Right)], Action::Panel(1), "traps", "to the traps"),
    bind(Context::Wasm, &[c('h'), k(Left)], Action::Panel(-1), "modules", "to the modules"),
    bind(Context::Wasm, &[c('e')], Action::NextEngine, "engine", "show the next engine"),
    bind(Context::Store, &[k(Enter)], Action::Open, "open", "open the bucket"),
    bind(Context::Store, &[c('n'), c('l'), k(Right)], Action::Page(true), "next", "next page of keys"),
    bind(Context::Store, &[c('p'), c('h'), k(Left)], Action::Page(false), "previous", "previous page of keys"),
    bind(Context::Store, &[c('e')], Action::NextEngine, "store", "show the next store"),
    bind(Context::Cpu, &[k(Enter)], Action::Open, "processes", "show the processes of the group, or its parent"),
    bind(Context::Cpu, &[c('b')], Action::Group, "group", "by kind, by parent, by scheduler"),
    bind(Context::Topics, &[k(Enter)], Action::Open, "slowest", "show the process that holds up the topic"),
    bind(Context::Topics, &[c('s')], Action::SortTopics, "sort", "sort by the next figure"),
    bind(Context::List, &[c('j'), k(Down)], Action::Lines(1), "", "down"),
    bind(Context::List, &[c('k'), k(Up)], Action::Lines(-1), "", "up"),
    bind(Context::List, &[k(PageDown), Key::ctrl('f')], Action::HalfPages(2), "", "a page down"),
    bind(Context::List, &[k(PageUp), Key::ctrl('b')], Action::HalfPages(-2), "", "a page up"),
    bind(Context::List, &[Key::ctrl('d')], Action::HalfPages(1), "", "half a page down"),
    bind(Context::List, &[Key::ctrl('u')], Action::HalfPages(-1), "", "half a page up"),
    bind(Context::List, &[k(Enter)], Action::Open, "", "Time, Topics: show the process that holds up the others"),
    bind(Context::List, &[c('g'), k(Home)], Action::First, "", "first"),
    bind(Context::List, &[c('G'), k(End)], Action::Last, "", "last"),
    bind(Context::Global, &[c('?'), k(F(1))], Action::Help, "help", "this help"),
    bind(Context::Global, &[c('q'), Key::ctrl('c')], Action::Quit, "quit", "quit"),
    bind(Context::Global, &[c(':')], Action::Palette, "", "command palette: goto, view, sort, filter, run"),
    bind(Context::Global, &[c(' ')], Action::Pause, "pause", "freeze the screen, not the node"),
    bind(Context::Global, &[c('[')], Action::Past(-1), "past", "a second back, in every view"),
    bind(Context::Global, &[c(']')], Action::Past(1), "", "a second forward"),
    bind(Context::Global, &[c('{')], Action::Past(-60), "", "a minute back"),
    bind(Context::Global, &[c('}')], Action::Past(60), "", "a minute forward"),
    bind(Context::Global, &[c('(')], Action::Crash(false), "", "back to the previous crash"),
    bind(Context::Global, &[c(')')], Action::Crash(true), "", "forward to the next crash"),
    bind(Context::Global, &[c('D')], Action::Changes, "", "what changed in the minute before"),
    bind(Context::Global, &[c('+'), c('=')], Action::Zoom(-1), "", "shorter charts: 10, 5, 1 min"),
    bind(Context::Global, &[c('-')], Action::Zoom(1), "", "longer charts: 1, 5, 10 min"),
    bind(Context::Global, &[c('1')], Action::Show(Tab::Node), "", "Node"),
    bind(Context::Global, &[c('2')], Action::Show(Tab::Bench), "", "Bench"),
    bind(Context::Global, &[c('3')], Action::Show(Tab::Processes), "", "Processes"),
    bind(Context::Global, &[c('4')], Action::Show(Tab::Tree), "", "Tree"),
    bind(Context::Global, &[c('5')], Action::Show(Tab::Events), "", "Events"),
    bind(Context::Global, &[c('6')], Action::Show(Tab::Wasm), "", "Wasm"),
    bind(Context::Global, &[c('7')], Action::Show(Tab::Time), "", "Time and streams"),
    bind(Context::Global, &[c('8')], Action::Show(Tab::Store), "", "Store"),
    bind(Context::Global, &[c('9')], Action::Show(Tab::Topics), "", "Topics"),
    bind(Context::Global, &[c('0')], Action::Show(Tab::Cpu), "", "CPU"),
    bind(Context::Global, &[c('S')], Action::Show(Tab::Sched), "", "Schedulers"),
    bind(Context::Global, &[c('W')], Action::Waits, "", "who waits for whom"),
    bind(Context::Global, &[k(KeyCode::Tab)], Action::Step(1), "", "next view"),
    bind(Context::Global, &[k(BackTab)], Action::Step(-1), "", "previous view"),
    bind(Context::Global, &[k(Esc)], Action::Back, "", "close, else clear the filter, else go back"),
    bind(
        Context::Global,
        &[k(KeyCode::Backspace)],
        Action::Return,
        "",
        "return to the place before a process was opened",
    ),
    bind(Context::Global, &[c('y')], Action::Copy, "", "copy the pid or a summary"),
    bind(Context::Global, &[Key::ctrl('l')], Action::Repaint, "", "repaint"),
    bind(Context::Global, &[Key::ctrl('z')], Action::Suspend, "", "suspend"),
    bind(Context::Filter, &[k(Enter)], Action::Open, "apply", "apply the filter"),
    bind(
        Context::Filter,
        &[k(KeyCode::Tab)],
        Action::Complete(1),
        "complete",
        "complete the word; again: the next one",
    ),
    bind(Context::Filter, &[k(BackTab)], Action::Complete(-1), "", "complete with the previous word"),
    bind(Context::Filter, &[k(Esc), Key::ctrl('c')], Action::Back, "cancel", "discard the changes"),
    bind(Context::Filter, &[k(Up)], Action::Lines(-1), "earlier", "an earlier filter"),
    bind(Context::Filter, &[k(Down)], Action::Lines(1), "later", "a later filter"),
    bind(Context::SortMenu, &[k(Enter)], Action::Open, "sort", "sort by this column; again: invert"),
    bind(Context::SortMenu, &[c('j'), k(Down)], Action::Lines(1), "", "down"),
    bind(Context::SortMenu, &[c('k'), k(Up)], Action::Lines(-1), "", "up"),
    bind(Context::SortMenu, &[c('i')], Action::Invert, "", "reverse the order"),
    bind(Context::SortMenu, &[k(Esc), c('q'), c('s'), Key::ctrl('c')], Action::Back, "close", "close"),
    bind(Context::Kill, &[k(Enter), c('y')], Action::Open, "confirm", "end the process"),
    bind(Context::Kill, &[k(KeyCode::Tab), k(Right), c('l')], Action::NextChoice, "reason", "the other reason"),
    bind(Context::Kill, &[k(BackTab), k(Left), c('h')], Action::PreviousChoice, "", "the other reason"),
    bind(Context::Kill, &[k(Esc), c('n'), c('q'), Key::ctrl('c')], Action::Back, "cancel", "do not end the process"),
    bind(Context::Cause, &[k(Enter)], Action::Open, "process", "show the process that failed last"),
    bind(Context::Cause, &[k(Esc), c('q'), c('o'), Key::ctrl('c')], Action::Back, "close", "close"),
    bind(Context::Cause, &[c('j'), k(Down)], Action::Lines(1), "", "down"),
    bind(Context::Cause, &[c('k'), k(Up)], Action::Lines(-1), "", "up"),
    bind(Context::RunDialog, &[k(Enter)], Action::Open, "run", "run with these values; left and right change a choice"),
    bind(Context::RunDialog, &[k(KeyCode::Tab), k(Down)], Action::NextChoice, "next", "next field"),
    bind(Context::RunDialog, &[k(BackTab), k(Up)], Action::PreviousChoice, "", "previous field"),
    bind(Context::RunDialog, &[k(Esc), Key::ctrl('c')], Action::Back, "cancel", "close"),
    bind(Context::Palette, &[k(Enter)], Action::Open, "run", "run the line, or the selected one"),
    bind(
        Context::Palette,
        &[k(KeyCode::Tab), k(Right)],
        Action::Complete(1),
        "complete",
        "take the selected line for editing",
    ),
    bind(Context::Palette, &[k(Down)], Action::Lines(1), "down", "next line"),
    bind(Context::Palette, &[k(Up)], Action::Lines(-1), "up", "previous line"),
    bind(Context::Palette, &[k(Esc), Key::ctrl('c')], Action::Back, "close", "close"),
    bind(Context::Waits, &[k(Enter)], Action::Open, "process", "show the selected process"),
    bind(Context::Waits, &[c('j'), k(Down)], Action::Lines(1), "", "down"),
    bind(Context::Waits, &[c('k'), k(Up)], Action::Lines(-1), "", "up"),
    bind(Context::Waits, &[k(PageDown)], Action::HalfPages(2), "", "a page down"),
    bind(Context::Waits, &[k(PageUp)], Action::HalfPages(-2), "", "a page up"),
    bind(Context::Waits, &[c('g'), k(Home)], Action::First, "", "first"),
    bind(Context::Waits, &[c('G'), k(End)], Action::Last, "", "last"),
    bind(Context::Waits, &[k(Esc), c('q'), c('W'), Key::ctrl('c')], Action::Back, "close", "close"),
    bind(Context::Trace, &[c('t'), k(Enter)], Action::Trace, "again", "start the trace again"),
    bind(Context::Trace, &[k(KeyCode::Tab)], Action::TraceScope, "scope", "trace all of its kind, or its children too"),
    bind(Context::Trace, &[c('/'), k(F(3))], Action::Filter, "filter", "show only events that contain a text"),
    bind(Context::Trace, &[c('w')], Action::SaveTrace, "save", "save the shown events to a file"),
    bind(Context::Trace, &[c('j'), k(Down)], Action::Lines(1), "", "down"),
    bind(Context::Trace, &[c('k'), k(Up)], Action::Lines(-1), "", "up"),
    bind(Context::Trace, &[k(PageDown)], Action::HalfPages(2), "", "a page down"),
    bind(Context::Trace, &[k(PageUp)], Action::HalfPages(-2), "", "a page up"),
    bind(Context::Trace, &[c('g'), k(Home)], Action::First, "", "oldest event"),
    bind(Context::Trace, &[c('G'), k(End)], Action::Last, "", "newest events"),
    bind(Context::Trace, &[k(Esc), c('q'), Key::ctrl('c')], Action::Back, "stop", "stop the trace and close"),
    bind(Context::TraceFilter, &[k(Enter)], Action::Open, "apply", "apply the filter"),
    bind(Context::TraceFilter, &[k(Esc), Key::ctrl('c')], Action::Back, "cancel", "discard the changes"),
    bind(Context::Help, &[k(Esc), c('q'), c('?'), k(F(1)), k(Enter), Key::ctrl('c')], Action::Back, "close", "close"),
    bind(Context::Help, &[c('j'), k(Down)], Action::Lines(1), "down", "down"),
    bind(Context::Help, &[c('k'), k(Up)], Action::Lines(-1), "up", "up"),
    bind(Context::Help, &[k(PageDown)], Action::HalfPages(2), "", "a page down"),
    bind(Context::Help, &[k(PageUp)], Action::HalfPages(-2), "", "a page up"),
    bind(Context::Help, &[Key::ctrl('z')], Action::Suspend, "", "suspend"),
    bind(Context::Past, &[c('['), k(Left)], Action::Past(-1), "1 s back", "a second back"),
    bind(Context::Past, &[c(']'), k(Right)], Action::Past(1), "forward", "a second forward"),
    bind(Context::Past, &[c('D')], Action::Changes, "changes", "what changed in the minute before"),
    bind(Context::Past, &[c('G'), k(End), c(' ')], Action::Now, "now", "return to the present"),
    bind(Context::Lost, &[c('r')], Action::Retry, "retry now", "reconnect now"),
];

/// Returns the bindings of a context.
pub fn bindings(context: Context) -> impl Iterator<Item = &'static Binding> {
    BINDINGS.iter().filter(move |binding| binding.context == context)
}

/// Formats the table as Markdown, for the README.
pub fn markdown() -> String {
    let mut out = String::from("| Where | Keys | Action |\n|---|---|---|\n");
    for context in Context::ALL {
        for binding in bindings(context) {
            let keys: Vec<String> = binding.keys.iter().map(|key| format!("`{}`", key.text())).collect();
            let row = format!("| {} | {} | {} |\n", context.title(), keys.join(" "), binding.help);
            out.push_str(&row);
        }
    }
    out
}

#[cfg(test)]
mod tests;
