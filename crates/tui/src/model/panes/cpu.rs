//! CPU time by group, requested only while it is shown.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use rusm_protocol::{ClientMessage, Cpu, CpuGroup, CpuRow, CpuView, ViewWindow};

use crate::model::input::complete::as_value;
use crate::model::selection::paged_list::PagedList;

/// Number of rows requested above the first visible one, so that scrolling does not have to wait.
const AROUND: u64 = 50;

/// State of the CPU view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuPane {
    pages: PagedList<CpuView, Cpu>,
    /// The subject of a row.
    pub(crate) group: CpuGroup,
}

impl Deref for CpuPane {
    type Target = PagedList<CpuView, Cpu>;

    fn deref(&self) -> &Self::Target {
        &self.pages
    }
}

impl DerefMut for CpuPane {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.pages
    }
}

impl CpuPane {
    /// Forgets the answer, because it is from another node or of other groups.
    pub(crate) fn forget(&mut self) {
        self.pages.forget();
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
            return self.end().then_some(ClientMessage::Cpu { view: None });
        }
        let offset = self.list.top.saturating_sub(AROUND) / AROUND * AROUND;
        let (group, window) = (self.group, ViewWindow { offset, len: 200 });
        let view = self.request(now, |id| CpuView { id, group, window, hz: 1.0 });
        view.map(|view| ClientMessage::Cpu { view: Some(view) })
    }

    /// Returns the filter of the process table that shows the processes of a group, if there is one.
    pub(crate) fn filter(row: &CpuRow) -> Option<String> {
        let name = as_value(&row.name);
        match row.kind.as_str() {
            "label" => Some(format!("name={name}")),
            "module" => Some(format!("module={name}")),
            _ => None,
        }
    }
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

        assert_eq!(CpuPane::filter(&row("storm child", "label")).as_deref(), Some("name=\"storm child\""));
        assert_eq!(CpuPane::filter(&row("counter", "module")).as_deref(), Some("module=counter"));
        assert_eq!(CpuPane::filter(&row("app::run", "type")), None);
    }
}
