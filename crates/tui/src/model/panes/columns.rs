//! Columns of the process table: headings, widths, and the selection of columns that fit.
//!
//! The drawing of the table, the request to the node and the mouse use the same selection, so that a click hits the
//! column on the screen. The sort column is always part of it.

pub(crate) mod chosen;

use rusm_protocol::{Column, SortKey};

/// Position of a column on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnSlot {
    /// The column.
    pub(crate) column: Column,
    /// Offset from the table's left edge, in cells.
    pub(crate) x: u16,
    /// Width in cells.
    pub(crate) width: u16,
}

/// Default order: the busiest processes first.
pub(crate) const BY_CPU: SortKey = SortKey { key: Column::BusyPct, desc: true };

/// Set of columns that get space first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ColumnSet {
    /// Columns of all processes.
    #[default]
    Usual,
    /// Columns of guests.
    Guests,
}

impl ColumnSet {
    /// Returns all columns in the order in which they get space.
    const fn priority(self) -> &'static [Column; 24] {
        match self {
            Self::Usual => &[
                Column::Pid,
                Column::Name,
                Column::State,
                Column::BusyPct,
                Column::RedsPerSec,
                Column::MemoryBytes,
                Column::MailboxLen,
                Column::MsgsPerSec,
                Column::AgeMs,
                Column::Reds,
                Column::Messages,
                Column::Parent,
                Column::Kind,
                Column::Links,
                Column::Monitors,
                Column::MailboxBytes,
                Column::ArrivalsPerSec,
                Column::Module,
                Column::LinearMemoryBytes,
                Column::EpochSlices,
                Column::LastHostCall,
                Column::TableElements,
                Column::SentBytes,
                Column::Profile,
            ],
            Self::Guests => &[
                Column::Pid,
                Column::Module,
                Column::State,
                Column::BusyPct,
                Column::LinearMemoryBytes,
                Column::LastHostCall,
                Column::Name,
                Column::MailboxLen,
                Column::EpochSlices,
                Column::SentBytes,
                Column::Profile,
                Column::TableElements,
                Column::Kind,
                Column::RedsPerSec,
                Column::AgeMs,
                Column::MsgsPerSec,
                Column::MemoryBytes,
                Column::Reds,
                Column::Messages,
                Column::Parent,
                Column::Links,
                Column::Monitors,
                Column::MailboxBytes,
                Column::ArrivalsPerSec,
            ],
        }
    }
}

/// Returns the minimum width of a column.
const fn width_of(column: Column) -> u16 {
    match column {
        Column::Pid | Column::Parent => 16,
        Column::LastHostCall => 14,
        Column::Name | Column::Module => 12,
        Column::Profile => 10,
        Column::State | Column::RedsPerSec => 8,
        Column::MsgsPerSec
        | Column::ArrivalsPerSec
        | Column::Reds
        | Column::Messages
        | Column::LinearMemoryBytes
        | Column::EpochSlices
        | Column::SentBytes => 7,
        Column::BusyPct
        | Column::MemoryBytes
        | Column::MailboxLen
        | Column::MailboxBytes
        | Column::Links
        | Column::Monitors
        | Column::AgeMs
        | Column::Kind
        | Column::TableElements => 6,
    }
}

/// Returns the minimum width of a column in a table of `width` cells.
const fn width_in(column: Column, width: u16) -> u16 {
    match column {
        Column::State if width >= WIDE => STATE_WIDTH_WIDE,
        _ => width_of(column),
    }
}

/// Usual order of the columns on the screen.
pub(crate) const ORDER: [Column; 24] = [
    Column::Pid,
    Column::Name,
    Column::Module,
    Column::State,
    Column::BusyPct,
    Column::RedsPerSec,
    Column::Reds,
    Column::MemoryBytes,
    Column::LinearMemoryBytes,
    Column::TableElements,
    Column::EpochSlices,
    Column::LastHostCall,
    Column::MailboxLen,
    Column::MailboxBytes,
    Column::ArrivalsPerSec,
    Column::MsgsPerSec,
    Column::Messages,
    Column::SentBytes,
    Column::Links,
    Column::Monitors,
    Column::AgeMs,
    Column::Profile,
    Column::Kind,
    Column::Parent,
];

/// Maximum number of spare cells for the pid column, which gets them first: pids become long when a slot has been
/// reused a million times.
const PID_GROWTH: u16 = 4;

/// Width of the state column on wide screens: it names the process that another one waits for.
const STATE_WIDTH_WIDE: u16 = 15;
/// Width of a table from which on its state column is wide.
const WIDE: u16 = 90;
/// Maximum number of spare cells for the state column, which gets them next.
const STATE_GROWTH: u16 = 4;

/// Maximum width of the name column.
const NAME_WIDTH_MAX: u16 = 34;

/// Returns the heading of a column.
pub(crate) const fn heading(column: Column) -> &'static str {
    match column {
        Column::Pid => "PID",
        Column::Name => "NAME",
        Column::State => "STATE",
        Column::RedsPerSec => "REDS/s",
        Column::Reds => "REDS",
        Column::BusyPct => "CPU%",
        Column::MemoryBytes => "MEM",
        Column::MailboxLen => "MAILQ",
        Column::MailboxBytes => "MAILB",
        Column::MsgsPerSec => "MSGS/s",
        Column::ArrivalsPerSec => "IN/s",
        Column::Messages => "MSGS",
        Column::AgeMs => "AGE",
        Column::Parent => "PARENT",
        Column::Links => "LINKS",
        Column::Monitors => "MONS",
        Column::Kind => "KIND",
        Column::Module => "MODULE",
        Column::Profile => "PROFILE",
        Column::LinearMemoryBytes => "LINEAR",
        Column::TableElements => "TABLE",
        Column::EpochSlices => "SLICES",
        Column::LastHostCall => "HOST CALL",
        Column::SentBytes => "UNREAD",
    }
}

/// Returns the name of a column for use in a sentence.
pub(crate) const fn label(column: Column) -> &'static str {
    match column {
        Column::Pid => "pid",
        Column::Name => "name",
        Column::State => "state",
        Column::RedsPerSec => "reductions/s",
        Column::Reds => "reductions",
        Column::BusyPct => "cpu",
        Column::MemoryBytes => "memory",
        Column::MailboxLen => "mailbox length",
        Column::MailboxBytes => "mailbox size",
        Column::MsgsPerSec => "messages/s",
        Column::ArrivalsPerSec => "arrivals/s",
        Column::Messages => "messages",
        Column::AgeMs => "age",
        Column::Parent => "parent",
        Column::Links => "links",
        Column::Monitors => "monitors",
        Column::Kind => "kind",
        Column::Module => "module",
        Column::Profile => "profile",
        Column::LinearMemoryBytes => "linear memory",
        Column::TableElements => "table elements",
        Column::EpochSlices => "epoch slices",
        Column::LastHostCall => "last host call",
        Column::SentBytes => "unread bytes",
    }
}

/// Returns true if the values of a column are left-aligned.
pub(crate) const fn is_text(column: Column) -> bool {
    matches!(
        column,
        Column::Pid
            | Column::Name
            | Column::State
            | Column::Parent
            | Column::Kind
            | Column::Module
            | Column::Profile
            | Column::LastHostCall
    )
}

/// Returns true if a column is sorted from the largest value down by default.
pub(crate) const fn falls(column: Column) -> bool {
    !is_text(column)
}

/// Returns the columns that fit into `width` cells. The sort column is always among them.
pub(crate) fn fit(width: u16, sort: SortKey, set: ColumnSet) -> Vec<ColumnSlot> {
    let (chosen, spare) = chosen(width, sort, set.priority().iter().copied());
    let shown = ORDER.iter().filter_map(|column| chosen.iter().find(|(c, _)| c == column));
    let shown: Vec<(Column, u16)> = shown.copied().collect();
    let long = if set == ColumnSet::Usual { Column::Name } else { Column::Module };
    placed(&shown, spare, Some(long))
}

/// Returns the columns of the user that fit into `width` cells, in their order. The sort column is always among them.
pub(crate) fn fit_chosen(width: u16, sort: SortKey, columns: &[Column]) -> Vec<ColumnSlot> {
    let (shown, spare) = chosen(width, sort, columns.iter().copied());
    let long = [Column::Name, Column::Module].into_iter().find(|long| shown.iter().any(|(c, _)| c == long));
    placed(&shown, spare, long)
}

/// Takes columns as long as they and the sort column fit. Returns them with their widths, and the cells that are left.
fn chosen(width: u16, sort: SortKey, columns: impl Iterator<Item = Column> + Clone) -> (Vec<(Column, u16)>, u16) {
    let mut taken: Vec<(Column, u16)> = Vec::new();
    let mut used = 0;
    let has_sort_later = columns.clone().any(|column| column == sort.key);
    for column in columns.chain((!has_sort_later).then_some(sort.key)) {
        let w = width_in(column, width);
        let has_sort = column == sort.key || taken.iter().any(|(c, _)| *c == sort.key);
        let reserve = if has_sort { 0 } else { width_in(sort.key, width) + 1 };
        if used + w + reserve <= width || taken.is_empty() || column == sort.key {
            taken.push((column, w));
            used += w + 1;
        }
    }
    (taken, (width + 1).saturating_sub(used))
}

/// Places columns beside each other. The spare cells go to pids, then to states, then to the column `long`.
fn placed(shown: &[(Column, u16)], mut spare: u16, long: Option<Column>) -> Vec<ColumnSlot> {
    let mut growth = |wanted: Column, most: u16| {
        let is_shown = shown.iter().any(|(column, _)| *column == wanted);
        let cells = if is_shown { spare.min(most) } else { 0 };
        spare -= cells;
        (wanted, cells)
    };
    let mut growing = vec![growth(Column::Pid, PID_GROWTH), growth(Column::State, STATE_GROWTH)];
    growing.extend(long.map(|long| growth(long, NAME_WIDTH_MAX.saturating_sub(width_of(long)))));
    let mut x = 0;
    let place = |&(column, w): &(Column, u16)| {
        let extra: u16 = growing.iter().filter(|(grown, _)| *grown == column).map(|(_, cells)| cells).sum();
        let slot = ColumnSlot { column, x, width: w + extra };
        x += slot.width + 1;
        slot
    };
    shown.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_never_overlap_and_stay_inside_where_there_is_room() {
        for width in 40..200 {
            for key in Column::ALL {
                for set in [ColumnSet::Usual, ColumnSet::Guests] {
                    let slots = fit(width, SortKey { key, desc: true }, set);

                    assert!(slots.iter().any(|slot| slot.column == key), "{key:?} at {width}");
                    assert!(slots.windows(2).all(|pair| pair[0].x + pair[0].width < pair[1].x + 1));
                    let last = slots.last().unwrap();
                    assert!(last.x + last.width <= width, "{key:?} at {width}: {slots:?}");
                }
            }
        }
    }

    #[test]
    fn eighty_columns_show_the_eight_that_matter() {
        let shown: Vec<_> =
            fit(77, SortKey::default(), ColumnSet::Usual).iter().map(|slot| heading(slot.column)).collect();

        assert_eq!(shown, ["PID", "NAME", "STATE", "CPU%", "REDS/s", "MEM", "MAILQ", "MSGS/s"]);
    }
}
