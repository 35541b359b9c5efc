//! CPU time by group, requested only while it is shown.
//!
//! The selection is a group and not an index: it follows its group when the order changes.

use std::time::Duration;

use rusm_protocol::{ClientMessage, Cpu, CpuGroup, CpuRow, CpuView, ViewWindow};

use crate::model::selection::ListCursor;

/// Minimum time between two requests: a node accepts 20 commands per second.
const PACE: Duration = Duration::from_millis(80);
/// Number of rows requested above the first visible one, so that scrolling does not have to wait.
const AROUND: u64 = 50;

/// State of the CPU view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuPane {
    /// The last request.
    sent: Option<CpuView>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<Cpu>,
    /// The subject of a row.
    pub(crate) group: CpuGroup,
    /// Position in the list.
    pub(crate) list: ListCursor<(String, Option<String>)>,
}

impl CpuPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Forgets the answer, because it is from another node or of other groups.
    pub(crate) fn forget(&mut self) {
        self.newest = None;
        self.list.selected = None;
        (self.list.top, self.list.at) = (0, 0);
    }

    /// Shows the next kind of groups.
    pub(crate) fn next_group(&mut self) {
        self.group = match self.group {
            CpuGroup::Kind => CpuGroup::Parent,
            CpuGroup::Parent => CpuGroup::Scheduler,
            CpuGroup::Scheduler | CpuGroup::Other => CpuGroup::Kind,
        };
        self.forget();
    }

    /// Returns the message that requests the groups, or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, is_shown: bool, now: Duration) -> Option<ClientMessage> {
        if !is_shown {
            return self.sent.take().map(|_| ClientMessage::Cpu { view: None });
        }
        let offset = self.list.top.saturating_sub(AROUND) / AROUND * AROUND;
        let query = CpuView { id: self.ids, group: self.group, window: ViewWindow { offset, len: 200 }, hz: 1.0 };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = CpuView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Cpu { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request. The cursor follows the selected group.
    pub(crate) fn take(&mut self, cpu: Cpu, visible: u16) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != cpu.id) {
            return false;
        }
        let selected = |row: &CpuRow| self.list.selected.as_ref().is_some_and(|known| *known == identity(row));
        if let Some(at) = cpu.rows.iter().position(selected) {
            self.list.at = cpu.offset + at as u64;
        }
        self.newest = Some(cpu);
        self.clamp(visible);
        true
    }

    /// Keeps the cursor inside the list and the visible rows.
    pub(crate) fn clamp(&mut self, visible: u16) {
        let Some(newest) = &self.newest else { return };
        self.list.clamp(newest.total, visible);
    }

    /// Moves the cursor.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        self.go_to(self.list.at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        self.list.at = position;
        self.clamp(visible);
        self.list.selected = self.row(self.list.at).map(identity);
    }

    /// Returns the group at an index, if the node has sent it.
    pub(crate) fn row(&self, position: u64) -> Option<&CpuRow> {
        let newest = self.newest.as_ref()?;
        newest.rows.get(usize::try_from(position.checked_sub(newest.offset)?).ok()?)
    }

    /// Returns the filter of the process table that shows the processes of a group, if there is one.
    pub(crate) fn filter(row: &CpuRow) -> Option<String> {
        // A filter cannot quote, so a blank becomes a wildcard.
        let pattern: String = row.name.chars().map(|c| if c.is_whitespace() { '*' } else { c }).collect();
        match row.kind.as_str() {
            "label" => Some(format!("name={pattern}")),
            "module" => Some(format!("module={pattern}")),
            _ => None,
        }
    }
}

fn identity(row: &CpuRow) -> (String, Option<String>) {
    (row.name.clone(), row.pid.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(id: u32, names: &[&str]) -> Cpu {
        let row = |name: &&str| CpuRow { name: (*name).to_owned(), ..CpuRow::default() };
        Cpu { id, total: names.len() as u64, rows: names.iter().map(row).collect(), ..Cpu::default() }
    }

    #[test]
    fn the_cursor_stays_on_its_group_when_the_order_changes() {
        let mut pane = CpuPane::default();
        pane.requests(true, Duration::ZERO);
        assert!(pane.take(answer(1, &["a", "b", "c"]), 5));
        pane.go_to(1, 5);

        assert!(pane.take(answer(1, &["c", "a", "b"]), 5));

        assert_eq!(pane.row(pane.list.at).map(|row| row.name.as_str()), Some("b"));
    }

    #[test]
    fn an_answer_to_other_groups_is_dropped() {
        let mut pane = CpuPane::default();
        pane.requests(true, Duration::ZERO);
        pane.next_group();
        let asked = pane.requests(true, Duration::from_secs(1));

        assert!(matches!(asked, Some(ClientMessage::Cpu { view: Some(CpuView { group: CpuGroup::Parent, .. }) })));
        assert!(!pane.take(answer(1, &["a"]), 5) && pane.newest.is_none());
        assert_eq!(pane.requests(false, Duration::from_secs(2)), Some(ClientMessage::Cpu { view: None }));
    }

    #[test]
    fn a_group_leads_to_its_processes() {
        let row = |name: &str, kind: &str| CpuRow { name: name.to_owned(), kind: kind.to_owned(), ..CpuRow::default() };

        assert_eq!(CpuPane::filter(&row("storm child", "label")).as_deref(), Some("name=storm*child"));
        assert_eq!(CpuPane::filter(&row("counter", "module")).as_deref(), Some("module=counter"));
        assert_eq!(CpuPane::filter(&row("app::run", "type")), None);
    }
}
