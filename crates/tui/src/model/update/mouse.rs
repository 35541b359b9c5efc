//! Handles the mouse: the wheel scrolls, a click selects, and a click on the selected row opens it where there is more
//! to see.

use rusm_protocol::{Cluster, Serve};

use super::{actions, movement, navigate};
use crate::model::input::key::{Mouse, MouseKind};
use crate::model::message::Effect;
use crate::model::panes::bench::menu::{self, MenuRow};
use crate::model::panes::bench::results::BenchPane;
use crate::model::panes::cluster::ClusterFocus;
use crate::model::panes::serve::ServeFocus;
use crate::model::panes::store::StoreFocus;
use crate::model::panes::wasm::WasmFocus;
use crate::model::tab::Tab;
use crate::model::{Model, layout};

/// Number of rows scrolled per notch of the wheel.
const WHEEL_ROWS: i64 = 3;

pub(super) fn handle(model: &mut Model, mouse: Mouse, effects: &mut Vec<Effect>) {
    if layout::too_small(model.size) {
        return;
    }
    match mouse.kind {
        MouseKind::Wheel(notches) => wheel(model, i64::from(notches.clamp(-1000, 1000))),
        MouseKind::Click if model.overlay.is_none() => click(model, mouse.x, mouse.y, effects),
        MouseKind::Drag if model.overlay.is_none() => _ = drag(model, mouse.x, mouse.y),
        MouseKind::Click | MouseKind::Drag => {}
    }
}

fn wheel(model: &mut Model, notches: i64) {
    if model.overlay.is_some() || (model.detail_in_full() && model.tab == Tab::Processes) {
        movement::lines_by(model, notches);
    } else if model.tab == Tab::Processes {
        let visible = model.visible_rows();
        model.table.scroll(notches * WHEEL_ROWS, visible);
    } else if model.tab == Tab::Tree {
        let visible = model.visible_tree();
        model.tree.scroll(notches * WHEEL_ROWS, visible);
    } else if model.tab == Tab::Events {
        let visible = model.visible_events();
        model.events.scroll(notches * WHEEL_ROWS, visible);
    } else if model.tab == Tab::Serve {
        // Not the history of a filter that is being typed.
        model.serve.move_by(notches, model.visible_serve());
    } else if matches!(
        model.tab,
        Tab::Bench | Tab::Wasm | Tab::Time | Tab::Store | Tab::Topics | Tab::Cpu | Tab::Sched | Tab::Cluster
    ) {
        movement::lines_by(model, notches);
    }
}

fn click(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let hit = layout::tabs(model.size, model.tab, &model.tabs()).find(|(.., cells)| cells.contains(x, y));
    if let Some((tab, ..)) = hit {
        return navigate::show(model, tab);
    }
    if drag(model, x, y) {
        return;
    }
    match model.tab {
        Tab::Processes => click_table(model, x, y, effects),
        Tab::Bench if model.results.pane == BenchPane::History => click_history(model, x, y, effects),
        Tab::Bench if model.results.pane == BenchPane::Result => {}
        Tab::Bench => {
            let cells = layout::bench(model.size, model.menu_len()).menu.inner();
            if cells.contains(x, y) {
                let rows = menu::visible(
                    model.scenarios(),
                    model.bench.find_text().as_deref(),
                    model.bench.selected,
                    cells.height,
                );
                if let Some(MenuRow::Scenario(at, _)) = rows.get(usize::from(y - cells.y)) {
                    model.bench.selected = *at;
                }
            }
        }
        Tab::Tree => click_tree(model, x, y, effects),
        Tab::Wasm => click_wasm(model, x, y, effects),
        Tab::Store => click_store(model, x, y, effects),
        Tab::Topics => click_topics(model, x, y),
        Tab::Events => click_events(model, x, y, effects),
        Tab::Node | Tab::Time | Tab::Sched => {}
        Tab::Cpu => click_cpu(model, x, y, effects),
        Tab::Serve => click_serve(model, x, y, effects),
        Tab::Cluster => click_cluster(model, x, y, effects),
    }
}

fn click_cpu(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let inner = layout::zoom::cpu(model).groups.inner();
    let visible = model.visible_groups();
    let total = model.cpu.newest.as_ref().map_or(0, |newest| newest.total);
    if !inner.contains(x, y) || y == inner.y || y > inner.y + visible {
        return;
    }
    let position = model.cpu.list.top + u64::from(y - inner.y - 1);
    if position < total {
        let was_selected = model.cpu.list.at == position;
        model.cpu.go_to(position, visible);
        if was_selected {
            actions::open(model, effects);
        }
    }
}

fn click_store(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let layout = model.store_layout();
    let total = model.store.newest().map_or(0, |newest| newest.total);
    let keys = model.store.page().map_or(0, |page| page.keys.len() as u64);
    let lists = [
        (StoreFocus::Buckets, layout.buckets.inner(), model.store.top, total),
        (StoreFocus::Keys, layout.keys.inner(), 0, keys),
    ];
    for (focus, inner, first, count) in lists {
        if !inner.contains(x, y) || y == inner.y {
            continue;
        }
        let position = first + u64::from(y - inner.y - 1);
        if position < count {
            let was_selected = model.store.focus == focus && model.store.bucket == position;
            model.store.focus = focus;
            model.store.go_to(position, model.visible_buckets());
            if was_selected {
                actions::open(model, effects);
            }
        }
    }
}

fn click_wasm(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let layout = layout::wasm(model.size);
    let Some(newest) = &model.wasm.newest else { return };
    let lists = [
        (WasmFocus::Modules, layout.modules.inner(), model.wasm.top, newest.total),
        (WasmFocus::Traps, layout.traps.inner(), model.first_trap() as u64, newest.faults.len() as u64),
    ];
    for (focus, inner, first, count) in lists {
        if !inner.contains(x, y) || y == inner.y {
            continue;
        }
        let position = first + u64::from(y - inner.y - 1);
        if position < count {
            let under = if focus == WasmFocus::Modules { model.wasm.module } else { model.wasm.trap as u64 };
            let was_selected = model.wasm.focus == focus && under == position;
            model.wasm.focus = focus;
            model.wasm.go_to(position, model.visible_modules());
            if was_selected {
                actions::open(model, effects);
            }
        }
    }
}

fn click_events(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let inner = model.events_layout().events.inner();
    if inner.contains(x, y) && y > inner.y {
        let (row, visible) = (usize::from(y - inner.y - 1), model.visible_events());
        if row < visible && model.events.point_at(row, visible) {
            actions::open(model, effects);
        }
    }
}

fn click_history(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let inner = layout::body(model.size).inner();
    if !inner.contains(x, y) || y == inner.y {
        return;
    }
    let position = model.results.list.top + u64::from(y - inner.y - 1);
    if position >= model.results.newest.as_ref().map_or(0, |newest| newest.history_total) {
        return;
    }
    let was_selected = model.results.list.at == position;
    model.results.go_to(position, model.visible_history());
    if was_selected {
        actions::open(model, effects);
    }
}

fn click_topics(model: &mut Model, x: u16, y: u16) {
    let inner = layout::topics(model.size).topics.inner();
    if inner.contains(x, y) && y > inner.y {
        let position = model.topics.list.top + u64::from(y - inner.y - 1);
        let visible = model.visible_topics();
        if position < model.topics.newest.as_ref().map_or(0, |newest| newest.total) {
            model.topics.go_to(position, visible);
        }
    }
}

fn click_cluster(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let (panels, before) = (model.cluster_layout(), model.cluster.focus);
    let lists = [(panels.nodes, ClusterFocus::Nodes), (panels.names, ClusterFocus::Names)];
    let hit = lists.into_iter().find(|(panel, _)| panel.height > 0 && panel.inner().contains(x, y));
    let Some((panel, focus)) = hit.filter(|(panel, _)| y > panel.inner().y) else { return };
    model.cluster.focus = focus;
    let cursor = if focus == ClusterFocus::Nodes { &model.cluster.nodes } else { &model.cluster.names };
    let (at, position) = (cursor.at, cursor.top + u64::from(y - panel.inner().y - 1));
    let of_nodes = focus == ClusterFocus::Nodes;
    let total = |newest: &Cluster| if of_nodes { newest.total } else { newest.names_total };
    if position >= model.cluster.newest.as_ref().map_or(0, total) {
        return;
    }
    model.cluster.go_to(position, model.visible_cluster());
    if before == focus && at == position {
        actions::open(model, effects);
    }
}

fn click_serve(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let (panels, before) = (model.serve_layout(), model.serve.focus);
    let lists = [(panels.routes, ServeFocus::Routes), (panels.requests, ServeFocus::Requests)];
    let hit = lists.into_iter().find(|(panel, _)| panel.height > 0 && panel.inner().contains(x, y));
    let Some((panel, focus)) = hit.filter(|(panel, _)| y > panel.inner().y) else { return };
    model.serve.focus = focus;
    let cursor = if focus == ServeFocus::Routes { &model.serve.routes } else { &model.serve.requests };
    let (at, position) = (cursor.at, cursor.top + u64::from(y - panel.inner().y - 1));
    let of_routes = focus == ServeFocus::Routes;
    let total = |newest: &Serve| if of_routes { newest.total } else { newest.matched };
    if position >= model.serve.newest.as_ref().map_or(0, total) {
        return;
    }
    model.serve.go_to(position, model.visible_serve());
    if before == focus && at == position {
        actions::open(model, effects);
    }
}

fn click_tree(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let inner = layout::tree(model.size, model.tree.in_full).table.inner();
    if !inner.contains(x, y) || y == inner.y {
        return;
    }
    let position = model.tree.top + u64::from(y - inner.y - 1);
    if position >= model.tree.total() {
        return;
    }
    let was_selected = model.tree.selected_row().is_some() && model.tree.cursor == position;
    model.tree.go_to(position, model.visible_tree());
    if was_selected {
        actions::open(model, effects);
    }
}

/// Scrolls to the place of the scrollbar under the mouse. Returns false if the mouse is not on it.
fn drag(model: &mut Model, x: u16, y: u16) -> bool {
    let (panel, visible) = match model.tab {
        Tab::Processes if !model.detail_in_full() => {
            (layout::processes(model.size, model.detail.is_some()).table, model.visible_rows())
        }
        Tab::Events => (model.events_layout().events, model.visible_events() as u16),
        _ => return false,
    };
    let inner = panel.inner();
    if x + 1 != panel.x + panel.width || y < inner.y || y >= inner.y + inner.height {
        return false;
    }
    let share = f64::from(y - inner.y) / f64::from(inner.height.saturating_sub(1).max(1));
    if model.tab == Tab::Processes {
        model.table.scroll_to(share, visible);
    } else {
        model.events.scroll_to(share, visible.into());
    }
    true
}

fn click_table(model: &mut Model, x: u16, y: u16, effects: &mut Vec<Effect>) {
    let inner = layout::processes(model.size, model.detail.is_some()).table.inner();
    if !inner.contains(x, y) || model.detail_in_full() {
        return;
    }
    if y == inner.y {
        let slots = model.table.columns.fit(model.table_width(), model.table.sort);
        let at = x - inner.x;
        let slot = slots.iter().find(|slot| at > slot.x && at <= slot.x + slot.width);
        if let Some(slot) = slot {
            model.table.sort_by(slot.column);
        }
        return;
    }
    let position = model.table.top + u64::from(y - inner.y - 1);
    if position >= model.table.matched() {
        return;
    }
    let was_selected = model.table.selected().is_some() && model.table.cursor == position;
    model.table.point_at(position, model.visible_rows());
    if was_selected {
        actions::open(model, effects);
    }
}
