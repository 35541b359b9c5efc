//! Layout of the panels on a screen of a given size.
//!
//! The model needs the layout to know how many rows to request and what a click hits. The views draw with the same
//! numbers, so that requested, drawn and clicked cells always agree.

pub(crate) mod cluster;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod tiles;
mod visible;
pub(crate) mod zoom;

use crate::model::input::key::Size;
use crate::model::tab::Tab;

/// Minimum screen size.
pub(crate) const SIZE_MIN: Size = Size::new(60, 15);

/// Minimum width at which panels are placed side by side.
pub(crate) const WIDE: u16 = 110;

/// Rows above the body: tabs and key figures.
const HEAD: u16 = 2;

/// Rows below the body: the footer.
const FOOT: u16 = 1;

/// Width of the detail pane when it is beside the table.
const DETAIL_WIDTH: u16 = 46;

/// Size of the selected child's pane: its width when beside the tree, its height when below.
const TREE_DETAIL_WIDTH: u16 = 48;
const TREE_DETAIL_HEIGHT: u16 = 8;

/// Minimum height of the card that describes the selected scenario.
const CARD: u16 = 11;

/// A rectangle of cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cells {
    pub(crate) x: u16,
    pub(crate) y: u16,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

impl Cells {
    const fn new(x: u16, y: u16, width: u16, height: u16) -> Self {
        Self { x, y, width, height }
    }

    pub(crate) const fn contains(self, x: u16, y: u16) -> bool {
        x >= self.x && x < self.x + self.width && y >= self.y && y < self.y + self.height
    }

    /// Splits off the first `height` rows. Returns them and the rest.
    pub(crate) fn split_top(self, height: u16) -> (Self, Self) {
        let height = height.min(self.height);
        (Self { height, ..self }, Self { y: self.y + height, height: self.height - height, ..self })
    }

    /// Splits off the first `width` columns. Returns them and the rest.
    pub(crate) fn split_left(self, width: u16) -> (Self, Self) {
        let width = width.min(self.width);
        (Self { width, ..self }, Self { x: self.x + width, width: self.width - width, ..self })
    }

    /// Returns the cells inside the border.
    pub(crate) fn inner(self) -> Self {
        Self {
            x: self.x + 1,
            y: self.y + 1,
            width: self.width.saturating_sub(2),
            height: self.height.saturating_sub(2),
        }
    }
}

/// Returns true if the screen is too small to draw.
pub(crate) const fn too_small(size: Size) -> bool {
    size.width < SIZE_MIN.width || size.height < SIZE_MIN.height
}

/// Returns the cells between the head and the footer.
pub(crate) fn body(size: Size) -> Cells {
    Cells::new(0, HEAD, size.width, size.height.saturating_sub(HEAD + FOOT))
}

/// Cells of the first row reserved for the node's name, the role and the connection state.
const STATE_WIDTH: u16 = 30;
/// Reserved cells when the tab titles need the space.
const STATE_WIDTH_MIN: u16 = 9;

/// Spacing of the first row, from roomy to narrow.
struct TabSpacing {
    /// Cells for the state at the right end.
    state: u16,
    /// Cells for the program's name.
    brand: u16,
    /// Cells between two tabs.
    gap: u16,
    /// Cells after a title.
    blank: u16,
    /// Maximum number of letters in the title of a tab that is not shown.
    letters: usize,
    title: fn(Tab) -> &'static str,
}

impl TabSpacing {
    const fn new(state: u16, brand: u16, gap: u16, blank: u16, letters: usize, title: fn(Tab) -> &'static str) -> Self {
        Self { state, brand, gap, blank, letters, title }
    }

    /// Returns the title of a tab. That of the current view is never shortened.
    fn word(&self, tab: Tab, is_current: bool) -> &'static str {
        let title = (self.title)(tab);
        if is_current { title } else { &title[..self.letters.min(title.len())] }
    }

    /// Returns the cells of a tab: its key between two blanks, and its title.
    fn cells(&self, tab: Tab, is_current: bool) -> u16 {
        match self.word(tab, is_current).len() as u16 {
            0 => 2,
            letters => letters + 3 + self.blank,
        }
    }

    /// Returns the width of the first row with the widest title, so that the spacing is the same for all views.
    fn width(&self) -> u16 {
        let tabs: u16 = Tab::ALL.iter().map(|&tab| self.cells(tab, false) + self.gap).sum();
        let current = Tab::ALL.iter().map(|&tab| self.cells(tab, true) - self.cells(tab, false)).max();
        self.brand + tabs + current.unwrap_or(0) + self.state
    }
}

const TAB_SPACINGS: [TabSpacing; 10] = [
    TabSpacing::new(STATE_WIDTH, 10, 1, 1, usize::MAX, Tab::title),
    TabSpacing::new(STATE_WIDTH, 10, 0, 1, usize::MAX, Tab::title),
    TabSpacing::new(STATE_WIDTH, 10, 0, 0, usize::MAX, Tab::title),
    TabSpacing::new(STATE_WIDTH, 0, 0, 0, usize::MAX, Tab::short),
    TabSpacing::new(STATE_WIDTH_MIN, 0, 0, 1, usize::MAX, Tab::title),
    TabSpacing::new(STATE_WIDTH_MIN, 0, 0, 0, usize::MAX, Tab::short),
    TabSpacing::new(STATE_WIDTH_MIN, 0, 0, 0, 4, Tab::short),
    TabSpacing::new(STATE_WIDTH_MIN, 0, 0, 0, 3, Tab::short),
    TabSpacing::new(STATE_WIDTH_MIN, 0, 0, 0, 2, Tab::short),
    TabSpacing::new(STATE_WIDTH_MIN, 0, 0, 1, 0, Tab::title),
];

/// Returns each tab with its title in the first row and its cells, such as ` 1 Node `.
///
/// On a narrow screen, the blanks are dropped first, then the program's name, then the ends of all titles except that of
/// the `current` view, and last these titles. Only the
/// tabs that are `shown` get cells.
pub(crate) fn tabs(size: Size, current: Tab, shown: &[Tab]) -> impl Iterator<Item = (Tab, &'static str, Cells)> {
    let spacing = TAB_SPACINGS.iter().find(|spacing| spacing.width() <= size.width);
    let spacing = spacing.unwrap_or(&TAB_SPACINGS[TAB_SPACINGS.len() - 1]);
    shown.iter().scan(spacing.brand, move |x, &tab| {
        let cells = Cells::new(*x, 0, spacing.cells(tab, tab == current), 1);
        *x += cells.width + spacing.gap;
        Some((tab, spacing.word(tab, tab == current), cells))
    })
}

/// Panels of the Node view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeLayout {
    pub(crate) chart: Cells,
    pub(crate) schedulers: Cells,
    pub(crate) latency: Cells,
    /// Empty on a narrow screen.
    pub(crate) memory: Cells,
    /// Empty on a low screen.
    pub(crate) table: Cells,
    /// Empty on a narrow screen.
    pub(crate) figures: Cells,
}

/// Computes the panels of the Node view.
pub(crate) fn node(size: Size) -> NodeLayout {
    let body = body(size);
    let (chart, middle) = match body.height {
        30.. => (body.height * 28 / 100, 13),
        18.. => (body.height - 15, 9),
        _ => (5, body.height.saturating_sub(5)),
    };
    let (chart, rest) = body.split_top(chart);
    let (middle, bottom) = rest.split_top(middle);
    let mut layout = NodeLayout { chart, table: bottom, ..NodeLayout::default() };
    if size.width >= WIDE {
        let third = size.width / 3;
        let (schedulers, others) = middle.split_left(size.width - 2 * third);
        (layout.latency, layout.memory) = others.split_left(third);
        layout.schedulers = schedulers;
        (layout.table, layout.figures) = bottom.split_left(size.width - third);
    } else {
        (layout.schedulers, layout.latency) = middle.split_left(size.width / 2);
    }
    layout
}

/// Panels of the Bench view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BenchLayout {
    pub(crate) menu: Cells,
    /// Description of the selected scenario; empty on a low screen.
    pub(crate) card: Cells,
    pub(crate) headline: Cells,
    pub(crate) chart: Cells,
    pub(crate) latency: Cells,
    /// Empty on a narrow screen.
    pub(crate) figures: Cells,
    /// Table of past runs; empty on a low screen.
    pub(crate) runs: Cells,
}

impl BenchLayout {
    /// Returns the number of rows below the headline.
    pub(crate) const fn below_headline(&self) -> u16 {
        self.menu.height + self.card.height - self.headline.height
    }
}

/// Computes the panels of the Bench view.
pub(crate) fn bench(size: Size, menu_rows: usize) -> BenchLayout {
    let body = body(size);
    let menu_width = match size.width {
        WIDE.. => 40,
        80.. => 26,
        _ => 20,
    };
    let (left, right) = body.split_left(menu_width);
    let menu_height = (menu_rows.min(100) as u16 + 2).max(6).min(left.height.saturating_sub(CARD));
    let (menu, card) = if left.height >= CARD + 6 { left.split_top(menu_height) } else { (left, Cells::default()) };
    let (headline, rest) = right.split_top(if body.height >= 18 { 5 } else { 3 });
    let (chart, rest) = rest.split_top(match body.height {
        30.. => 13,
        18.. => rest.height - 9,
        _ => 0,
    });
    let (middle, runs) = rest.split_top(if body.height >= 30 { 11 } else { rest.height });
    let both = middle.width >= 50;
    let (latency, figures) = middle.split_left(if both { middle.width / 2 + 1 } else { middle.width });
    BenchLayout { menu, card, headline, chart, latency, figures, runs }
}

/// Panels of the Processes view and the Tree view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessesLayout {
    /// Includes the border. The first row inside is the heading.
    pub(crate) table: Cells,
    /// Empty if no details are shown.
    pub(crate) detail: Cells,
}

/// Computes the panels of the Processes view.
pub(crate) fn processes(size: Size, detail: bool) -> ProcessesLayout {
    let body = body(size);
    let (table, detail) = if !detail {
        (body, Cells::default())
    } else if size.width >= WIDE {
        body.split_left(size.width - DETAIL_WIDTH)
    } else {
        body.split_top(body.height.saturating_sub(11).max(body.height / 2))
    };
    ProcessesLayout { table, detail }
}

/// Computes the panels of the Tree view.
pub(crate) fn tree(size: Size, in_full: bool) -> ProcessesLayout {
    let body = body(size);
    let (table, detail) = match (in_full, size.width) {
        (true, WIDE..) => body.split_left(size.width - TREE_DETAIL_WIDTH),
        (true, _) if body.height >= 18 => body.split_top(body.height - TREE_DETAIL_HEIGHT),
        _ => (body, Cells::default()),
    };
    ProcessesLayout { table, detail }
}

/// Panels of the Wasm view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WasmLayout {
    pub(crate) engine: Cells,
    /// Counts of traps and refusals by kind.
    pub(crate) counts: Cells,
    /// Includes the border. The first row inside is the heading.
    pub(crate) modules: Cells,
    /// Most recent traps.
    pub(crate) traps: Cells,
}

/// Computes the panels of the Wasm view.
pub(crate) fn wasm(size: Size) -> WasmLayout {
    let body = body(size);
    let (top, rest) = body.split_top(7.min(body.height));
    let (engine, counts) = top.split_left(size.width - size.width * 3 / 8);
    let (modules, traps) = rest.split_top(rest.height.div_ceil(2));
    WasmLayout { engine, counts, modules, traps }
}

/// Panels of the Time view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeLayout {
    pub(crate) tickers: Cells,
    pub(crate) streams: Cells,
}

/// Computes the panels of the Time view.
pub(crate) fn time(size: Size) -> TimeLayout {
    let body = body(size);
    let (tickers, streams) = body.split_top(body.height.div_ceil(2));
    TimeLayout { tickers, streams }
}

/// Panels of the Events view below the lints.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventsLayout {
    /// Includes the border. The first row inside is the heading.
    pub(crate) events: Cells,
    /// Rows at the end of the panel for the reason of the selected event, with a rule above it; 0 if nothing is
    /// selected.
    pub(crate) reason: u16,
}

impl EventsLayout {
    /// Returns the number of visible events.
    pub(crate) fn visible(self) -> u16 {
        self.events.inner().height.saturating_sub(1 + self.reason)
    }
}

/// Computes the panel of the Events view below `lints` rows of lints.
pub(crate) fn events(size: Size, lints: u16, is_selected: bool) -> EventsLayout {
    let (_, events) = body(size).split_top(lints);
    let reason = match events.height {
        _ if !is_selected => 0,
        16.. => 5,
        10.. => 3,
        _ => 0,
    };
    EventsLayout { events, reason }
}

/// Panels of the Topics view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TopicsLayout {
    /// Includes the border. The first row inside is the heading.
    pub(crate) topics: Cells,
    /// Receivers of the topic under the cursor.
    pub(crate) receivers: Cells,
}

/// Computes the panels of the Topics view.
pub(crate) fn topics(size: Size) -> TopicsLayout {
    let body = body(size);
    let (topics, receivers) = body.split_top(body.height * 2 / 5);
    TopicsLayout { topics, receivers }
}

/// Panels of the CPU view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuLayout {
    /// Cores used over time; empty on a low screen.
    pub(crate) chart: Cells,
    /// Includes the border. The first row inside is the heading.
    pub(crate) groups: Cells,
}

/// Computes the panels of the CPU view.
pub(crate) fn cpu(size: Size) -> CpuLayout {
    let body = body(size);
    let (chart, groups) = body.split_top(match body.height {
        34.. => 10,
        26.. => 7,
        _ => 0,
    });
    CpuLayout { chart, groups }
}

/// Panels of the Schedulers view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SchedLayout {
    /// Includes the border, the heading, and the sums below the rows.
    pub(crate) schedulers: Cells,
    /// Memory by kind.
    pub(crate) memory: Cells,
    /// One kind of memory over time. Empty on a narrow screen.
    pub(crate) chart: Cells,
}

/// Computes the panels of the Schedulers view for this number of schedulers.
pub(crate) fn sched(size: Size, schedulers: usize) -> SchedLayout {
    let body = body(size);
    let wanted = u16::try_from(schedulers).unwrap_or(u16::MAX).saturating_add(4).max(6);
    let (schedulers, rest) = body.split_top(wanted.min(body.height.div_ceil(2)));
    let (memory, chart) =
        if size.width >= WIDE { rest.split_left(rest.width * 11 / 20) } else { (rest, Cells::default()) };
    SchedLayout { schedulers, memory, chart }
}

impl ProcessesLayout {
    /// Returns the number of visible rows.
    pub(crate) fn visible(self) -> u16 {
        self.table.inner().height.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests;
