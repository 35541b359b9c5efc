//! WebAssembly guests: their engines, modules and traps, requested only while they are shown.
//!
//! The keyboard focus is on one of two lists. The selection is a module or a trap and not an index: it follows its item
//! when the order changes.

use std::time::Duration;

use rusm_protocol::{ClientMessage, EngineInfo, Engines, EnginesView, FaultDetail, FaultId, ModuleInfo, ViewWindow};

use crate::model::message::REQUEST_PACE;

/// List that has the keyboard focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WasmFocus {
    /// The modules.
    #[default]
    Modules,
    /// The most recent traps.
    Traps,
}

/// State of the Wasm view.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WasmPane {
    /// The last request.
    sent: Option<EnginesView>,
    sent_at: Duration,
    ids: u32,
    pub(crate) newest: Option<Engines>,
    /// Index of the shown engine, taken modulo the number of engines.
    pub(crate) engine: usize,
    pub(crate) focus: WasmFocus,
    /// Number of modules above the first visible one, followed by the index of the module under the cursor.
    pub(crate) top: u64,
    pub(crate) module: u64,
    selected: Option<(u32, String)>,
    pub(crate) trap: usize,
    selected_trap: Option<FaultId>,
    /// The trap shown in full.
    pub(crate) open_trap: Option<FaultId>,
}

impl WasmPane {
    /// Resets the request state: a new connection starts without subscriptions.
    pub(crate) fn reset(&mut self) {
        self.sent = None;
    }

    /// Returns the message that requests the visible modules, or ends the subscription, if a change is needed.
    pub(crate) fn requests(&mut self, visible: Option<u16>, now: Duration) -> Option<ClientMessage> {
        let Some(visible) = visible else {
            return self.sent.take().map(|_| ClientMessage::Engines { view: None });
        };
        // Request extra rows on either side, so that scrolling does not have to wait.
        let around = u64::from(visible.max(1));
        let window = ViewWindow { offset: self.top.saturating_sub(around), len: (visible.max(1) * 3).min(200).into() };
        let query = EnginesView { id: self.ids, window, fault: self.open_trap, ..EnginesView::default() };
        let waits = self.sent.is_some() && now.saturating_sub(self.sent_at) < REQUEST_PACE;
        if waits || self.sent.as_ref() == Some(&query) {
            return None;
        }
        self.ids = self.ids.wrapping_add(1);
        let view = EnginesView { id: self.ids, ..query };
        self.sent = Some(view.clone());
        self.sent_at = now;
        Some(ClientMessage::Engines { view: Some(view) })
    }

    /// Stores an answer unless it belongs to an earlier request. The cursors follow the selected items.
    pub(crate) fn take(&mut self, engines: Engines, visible: u16) -> bool {
        if self.sent.as_ref().is_none_or(|sent| sent.id != engines.id) {
            return false;
        }
        self.show(engines, visible);
        true
    }

    /// Shows engines, those of an answer or recorded ones.
    pub(crate) fn show(&mut self, engines: Engines, visible: u16) {
        let is_same = |known: &ModuleInfo| self.selected.as_ref().is_some_and(|of| *of == key(known));
        if let Some(at) = engines.modules.iter().position(is_same) {
            self.module = engines.offset + at as u64;
        }
        if let Some(at) = engines.faults.iter().position(|fault| Some(fault.id) == self.selected_trap) {
            self.trap = at;
        }
        self.newest = Some(engines);
        self.clamp(visible);
    }

    /// Keeps both cursors inside their lists, and the module cursor inside the visible rows.
    pub(crate) fn clamp(&mut self, visible: u16) {
        let Some(newest) = &self.newest else { return };
        self.trap = self.trap.min(newest.faults.len().saturating_sub(1));
        self.module = self.module.min(newest.total.saturating_sub(1));
        let visible = u64::from(visible.max(1));
        self.top = self.top.min(newest.total.saturating_sub(visible));
        self.top = self.top.clamp((self.module + 1).saturating_sub(visible), self.module);
    }

    /// Moves the cursor of the focused list.
    pub(crate) fn move_by(&mut self, lines: i64, visible: u16) {
        let at = match self.focus {
            WasmFocus::Modules => self.module,
            WasmFocus::Traps => self.trap as u64,
        };
        self.go_to(at.saturating_add_signed(lines), visible);
    }

    /// Moves the cursor of the focused list to an index.
    pub(crate) fn go_to(&mut self, position: u64, visible: u16) {
        match self.focus {
            WasmFocus::Modules => self.module = position,
            WasmFocus::Traps => self.trap = usize::try_from(position).unwrap_or(usize::MAX),
        }
        self.clamp(visible);
        match self.focus {
            WasmFocus::Modules => self.selected = self.module_at(self.module).map(key),
            WasmFocus::Traps => self.selected_trap = self.trap_id(),
        }
    }

    /// Returns the module at an index, if the node has sent it.
    pub(crate) fn module_at(&self, position: u64) -> Option<&ModuleInfo> {
        let newest = self.newest.as_ref()?;
        newest.modules.get(usize::try_from(position.checked_sub(newest.offset)?).ok()?)
    }

    /// Returns the id of the trap under the cursor.
    pub(crate) fn trap_id(&self) -> Option<FaultId> {
        self.newest.as_ref()?.faults.get(self.trap).map(|fault| fault.id)
    }

    /// Returns the trap shown in full, once the node has sent it.
    pub(crate) fn read(&self) -> Option<&FaultDetail> {
        let fault = self.newest.as_ref()?.fault.as_deref()?;
        (Some(fault.fault.id) == self.open_trap).then_some(fault)
    }

    /// Returns the shown engine and its index.
    pub(crate) fn shown_engine(&self) -> Option<(usize, &EngineInfo)> {
        let engines = &self.newest.as_ref()?.engines;
        let at = self.engine % engines.len().max(1);
        engines.get(at).map(|engine| (at, engine))
    }
}

fn key(module: &ModuleInfo) -> (u32, String) {
    (module.engine, module.name.clone())
}

#[cfg(test)]
mod tests {
    use rusm_protocol::FaultInfo;

    use super::*;

    fn engines(id: u32, names: &[&str], faults: &[u64]) -> Engines {
        let module = |name: &&str| ModuleInfo { name: (*name).to_owned(), ..ModuleInfo::default() };
        let fault = |seq: &u64| FaultInfo { id: FaultId { engine: 0, seq: *seq }, ..FaultInfo::default() };
        Engines {
            id,
            total: names.len() as u64,
            modules: names.iter().map(module).collect(),
            faults: faults.iter().map(fault).collect(),
            ..Engines::default()
        }
    }

    fn shown(pane: &mut WasmPane, now_ms: u64) -> Option<EnginesView> {
        match pane.requests(Some(4), Duration::from_millis(now_ms)) {
            Some(ClientMessage::Engines { view }) => view,
            _ => None,
        }
    }

    #[test]
    fn the_node_is_asked_while_it_is_shown_and_told_when_it_is_not() {
        let mut pane = WasmPane::default();

        assert_eq!(pane.requests(None, Duration::ZERO), None);
        assert_eq!(shown(&mut pane, 0).map(|view| (view.id, view.window.len)), Some((1, 12)));
        assert_eq!(shown(&mut pane, 1000), None);
        pane.open_trap = Some(FaultId { engine: 0, seq: 3 });
        assert_eq!(shown(&mut pane, 1001).and_then(|view| view.fault), pane.open_trap);
        assert_eq!(pane.requests(None, Duration::from_secs(2)), Some(ClientMessage::Engines { view: None }));
        assert_eq!(pane.requests(None, Duration::from_secs(2)), None);
    }

    #[test]
    fn what_is_selected_stays_so_when_the_order_changes() {
        let mut pane = WasmPane::default();
        shown(&mut pane, 0);
        assert!(!pane.take(engines(0, &["z"], &[]), 4), "an answer without a request");
        assert!(pane.take(engines(1, &["a", "b", "c"], &[7, 6]), 4));

        pane.move_by(1, 4);
        pane.focus = WasmFocus::Traps;
        pane.go_to(0, 4);
        pane.take(engines(1, &["b", "c", "a"], &[9, 8, 7]), 4);

        assert_eq!(pane.module_at(pane.module).map(|module| module.name.as_str()), Some("b"));
        assert_eq!(pane.trap_id(), Some(FaultId { engine: 0, seq: 7 }));
    }

    #[test]
    fn a_cursor_never_leaves_what_there_is() {
        let mut pane = WasmPane::default();
        shown(&mut pane, 0);
        pane.take(engines(1, &["a"; 9], &[1]), 4);

        pane.go_to(u64::MAX, 4);
        assert_eq!((pane.module, pane.top), (8, 5));
        pane.take(engines(1, &["a"], &[]), 4);
        assert_eq!((pane.module, pane.top), (0, 0));
    }
}
