//! The process in the detail pane: what the node says about it, the selected link, and the way back.
//!
//! ```text
//!   enter on a row ──▶ pane beside the table ── enter ──▶ whole screen: j and k select a pid, enter follows it
//!                                                               ▲                     │ the place before: Trail
//!                                                               └───── backspace ─────┘
//! ```

pub(crate) mod beside;
mod mailbox;
pub(crate) mod requests;
pub(crate) mod row;
pub(crate) mod rows;

use rusm_protocol::{BondView, Inspection, ProcessDetail, ViewWindow};

use crate::model::history::Series;
use crate::model::tab::Tab;

/// Number of related processes on a page.
const PAGE: u32 = 24;
/// Number of places that the way back holds.
const TRAIL_MAX: usize = 64;

/// The process shown in the detail pane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DetailPane {
    pub(crate) pid: String,
    pub(crate) process: Option<Box<ProcessDetail>>,
    /// Details from the node; absent if it does not know such requests.
    pub(crate) inspection: Option<Box<Inspection>>,
    /// True after the node has reported that the process does not exist any more.
    pub(crate) gone: bool,
    pub(crate) reds: Series,
    /// True if the pane covers the whole body of the screen and takes the keys.
    pub(crate) in_full: bool,
    /// Index of the selected link.
    pub(crate) at: usize,
    /// Relation that is shown by page.
    pub(crate) page: Option<BondView>,
    /// True if values of messages are requested.
    pub(crate) values: bool,
}

impl DetailPane {
    /// Creates the pane of a process of which nothing is known yet.
    pub(crate) fn of(pid: String) -> Self {
        Self {
            pid,
            process: None,
            inspection: None,
            gone: false,
            reds: Series::default(),
            in_full: false,
            at: 0,
            page: None,
            values: false,
        }
    }

    /// Returns the pids that can be followed, in the order of the rows.
    pub(crate) fn links(&self) -> Vec<String> {
        rows::rows(self.subject(), "u").into_iter().filter_map(|row| row.link).collect()
    }

    /// Returns what is known about the process.
    pub(crate) fn subject(&self) -> rows::Subject<'_> {
        rows::Subject {
            process: self.process.as_deref(),
            inspection: self.inspection.as_deref(),
            gone: self.gone,
            paged: self.page.as_ref().map(|page| page.bond.as_str()),
        }
    }

    /// Moves the selection among the links.
    pub(crate) fn move_by(&mut self, lines: i64) {
        let last = self.links().len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(lines.clamp(-10_000, 10_000) as isize).min(last);
    }

    /// Selects the first or the last link.
    pub(crate) fn go_to(&mut self, position: u64) {
        self.at = usize::try_from(position).unwrap_or(usize::MAX).min(self.links().len().saturating_sub(1));
    }

    /// Shows the next or the previous page of a relation: of the one that has more processes than are shown, the
    /// children if `children` is true. Returns false if such a page does not exist.
    pub(crate) fn turn_page(&mut self, forward: bool) -> bool {
        let Some(inspection) = &self.inspection else { return false };
        let has_more = |total: u64, shown: usize| total > shown as u64;
        let paged = match &self.page {
            Some(page) => inspection.bonds.iter().find(|bonds| bonds.bond == page.bond),
            None => inspection.bonds.iter().find(|bonds| has_more(bonds.total, bonds.processes.len())),
        };
        let Some(paged) = paged else { return false };
        let offset = match &self.page {
            None => 0,
            Some(page) if forward => page.window.offset + u64::from(PAGE),
            Some(page) => page.window.offset.saturating_sub(PAGE.into()),
        };
        let is_beyond = offset >= paged.total || (!forward && self.page.is_none());
        if !is_beyond {
            self.page = Some(BondView { bond: paged.bond.clone(), window: ViewWindow { offset, len: PAGE } });
        }
        !is_beyond
    }

    /// Requests the children of the process, or ends that request.
    pub(crate) fn toggle_children(&mut self) {
        let is_shown = self.page.as_ref().is_some_and(|page| page.bond == rows::CHILDREN);
        let window = ViewWindow { offset: 0, len: PAGE };
        self.page = (!is_shown).then(|| BondView { bond: rows::CHILDREN.to_owned(), window });
    }

    /// Returns the name of the process, if the node knows one.
    pub(crate) fn name(&self) -> Option<&str> {
        let alive = self.process.as_ref().and_then(|process| process.name.as_deref().or(process.label.as_deref()));
        let ended = || self.inspection.as_ref()?.ended.as_ref()?.name.as_deref();
        alive.or_else(ended)
    }
}

/// A place on the screen to which backspace returns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) tab: Tab,
    /// The process in the detail pane, whether it covered the screen, and the selected link.
    pub(crate) detail: Option<(String, bool, usize)>,
}

/// The places before the current one, the newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trail(Vec<Place>);

impl Trail {
    /// Adds a place; the oldest one is dropped if there are too many.
    pub(crate) fn push(&mut self, place: Place) {
        if self.0.len() == TRAIL_MAX {
            self.0.remove(0);
        }
        self.0.push(place);
    }

    /// Takes the newest place.
    pub(crate) fn pop(&mut self) -> Option<Place> {
        self.0.pop()
    }

    /// Returns the number of places.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::{BondPage, NamedPid};

    use super::*;

    fn bonds(bond: &str, total: u64, shown: u64) -> BondPage {
        let process = |n| NamedPid { pid: format!("<0.{n}.1>"), name: None };
        BondPage { bond: bond.to_owned(), total, offset: 0, processes: (1..=shown).map(process).collect() }
    }

    #[test]
    fn a_relation_with_more_processes_than_are_shown_has_pages() {
        let mut pane = DetailPane::of("<0.1.1>".to_owned());
        assert!(!pane.turn_page(true), "nothing is known yet");
        let bonds = vec![bonds("links", 3, 3), bonds("monitors", 60, 8)];
        pane.inspection = Some(Box::new(Inspection { bonds, is_alive: true, ..Inspection::default() }));

        let mut offsets = Vec::new();
        while pane.turn_page(true) {
            offsets.push(pane.page.clone().unwrap());
        }
        assert!(pane.turn_page(false));

        assert_eq!(offsets.iter().map(|page| page.window.offset).collect::<Vec<_>>(), [0, 24, 48]);
        assert!(offsets.iter().all(|page| page.bond == "monitors"));
        assert_eq!(pane.page.unwrap().window.offset, 24);
    }

    #[test]
    fn the_way_back_is_bounded_and_ends_at_its_start() {
        let mut trail = Trail::default();
        for n in 0..100 {
            trail.push(Place { tab: Tab::Processes, detail: Some((format!("<0.{n}.1>"), true, 0)) });
        }

        assert_eq!(trail.len(), TRAIL_MAX);
        assert_eq!(trail.pop().and_then(|place| place.detail), Some(("<0.99.1>".to_owned(), true, 0)));
        while trail.pop().is_some() {}
        assert_eq!(trail.len(), 0);
    }
}
