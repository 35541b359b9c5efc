//! Moves cursors and scrolls: by lines, by pages, to a position.

use rusm_protocol::Column;

use super::bench;
use crate::model::overlay::Overlay;
use crate::model::panes::bench::menu;
use crate::model::panes::cluster::ClusterFocus;
use crate::model::panes::serve::ServeFocus;
use crate::model::selection::wrapped;
use crate::model::tab::Tab;
use crate::model::{Model, layout};

/// Returns the number of rows by which a page key moves.
pub(super) fn page(model: &Model) -> u16 {
    match (model.tab, &model.overlay) {
        (_, Some(_)) => model.size.height.saturating_sub(6),
        (Tab::Processes, _) => model.visible_rows(),
        (Tab::Tree, _) => model.visible_tree(),
        (Tab::Wasm, _) => model.visible_modules(),
        (Tab::Time, _) => layout::time(model.size).tickers.inner().height.saturating_sub(1),
        (Tab::Store, _) => model.visible_buckets(),
        (Tab::Topics, _) => model.visible_topics(),
        (Tab::Cpu, _) => model.visible_groups(),
        (Tab::Cluster, _) => match model.cluster.focus {
            ClusterFocus::Nodes => model.visible_cluster().0,
            ClusterFocus::Names => model.visible_cluster().1,
        },
        (Tab::Serve, _) => match model.serve.focus {
            ServeFocus::Requests => model.visible_serve().1,
            ServeFocus::Routes => model.visible_serve().0,
        },
        (Tab::Sched, _) => layout::zoom::sched(model).memory.inner().height.saturating_sub(1),
        (Tab::Events, _) => model.visible_events() as u16,
        _ => bench::page(model),
    }
}

/// Moves by lines in what is open: an overlay, a field, or the list of the view.
pub(super) fn lines_by(model: &mut Model, lines: i64) {
    let in_full = model.detail_in_full();
    match &mut model.overlay {
        Some(
            Overlay::Help { scroll }
            | Overlay::About { scroll }
            | Overlay::Cause { scroll }
            | Overlay::Event { scroll }
            | Overlay::Trap { scroll }
            | Overlay::Compare { scroll },
        ) => {
            *scroll = scroll.saturating_add_signed(lines.clamp(-99, 99) as i16).min(200);
        }
        Some(Overlay::SortMenu { at }) => {
            *at = wrapped(*at, lines.clamp(-99, 99) as isize, Column::ALL.len());
        }
        Some(Overlay::Columns(chooser)) => chooser.move_by(lines.clamp(-99, 99) as isize),
        Some(Overlay::Waits) => {
            let visible = model.visible_waits();
            model.waits.move_by(lines, visible);
        }
        Some(Overlay::Trace) => {
            let visible = model.visible_trace();
            model.trace.scroll(lines, visible);
        }
        Some(_) => {}
        None if model.table.field.is_some() => model.table.recall(lines),
        None if model.tab == Tab::Processes && in_full => {
            if let Some(pane) = &mut model.detail {
                pane.move_by(lines);
            }
        }
        None if model.tab == Tab::Processes => model.table.move_by(lines, model.visible_rows()),
        None if model.tab == Tab::Tree => model.tree.move_by(lines, model.visible_tree()),
        None if model.events.filter.field.is_some() => model.events.filter.recall(lines),
        None if model.tab == Tab::Events => model.events.move_by(lines, model.visible_events()),
        None if model.tab == Tab::Wasm => model.wasm.move_by(lines, model.visible_modules()),
        None if model.tab == Tab::Time => model.time.scroll(lines),
        None if model.tab == Tab::Store => model.store.move_by(lines, model.visible_buckets()),
        None if model.tab == Tab::Topics => {
            let visible = model.visible_topics();
            model.topics.move_by(lines, visible);
        }
        None if model.serve.filter.field.is_some() => model.serve.filter.recall(lines),
        None if model.tab == Tab::Cluster => model.cluster.move_by(lines, model.visible_cluster()),
        None if model.tab == Tab::Serve => model.serve.move_by(lines, model.visible_serve()),
        None if model.tab == Tab::Cpu => {
            let visible = model.visible_groups();
            model.cpu.move_by(lines, visible);
        }
        None if model.tab == Tab::Sched => to_memory_kind(model, lines),
        None => bench::lines_by(model, lines),
    }
}

/// Moves to a position in what is open; `u64::MAX` is the end.
pub(super) fn to_position(model: &mut Model, position: u64) {
    match &model.overlay {
        Some(Overlay::Waits) => return model.waits.go_to(position, model.visible_waits()),
        Some(Overlay::Trace) => {
            let all = i64::try_from(model.trace.len()).unwrap_or(i64::MAX);
            let visible = model.visible_trace();
            return model.trace.scroll(if position == 0 { -all } else { all }, visible);
        }
        _ => {}
    }
    match model.tab {
        Tab::Cpu => {
            let visible = model.visible_groups();
            model.cpu.go_to(position, visible);
        }
        Tab::Serve => model.serve.go_to(position, model.visible_serve()),
        Tab::Cluster => model.cluster.go_to(position, model.visible_cluster()),
        Tab::Sched => {
            model.sched.kind = None;
            to_memory_kind(model, i64::try_from(position).unwrap_or(i64::MAX));
        }
        Tab::Processes if model.detail_in_full() => {
            if let Some(pane) = &mut model.detail {
                pane.go_to(position);
            }
        }
        Tab::Processes => model.table.go_to(position, model.visible_rows()),
        Tab::Tree => model.tree.go_to(position, model.visible_tree()),
        Tab::Wasm => model.wasm.go_to(position, model.visible_modules()),
        Tab::Time => {
            model.time.top = 0;
            model.time.scroll(i64::try_from(position).unwrap_or(i64::MAX));
        }
        Tab::Store => model.store.go_to(position, model.visible_buckets()),
        Tab::Topics => {
            let visible = model.visible_topics();
            model.topics.go_to(position, visible);
        }
        Tab::Events => model.events.go_to(position, model.visible_events()),
        _ => bench::to_position(model, position),
    }
}

/// Moves the cursor over the kinds of memory.
fn to_memory_kind(model: &mut Model, lines: i64) {
    if let Some(frame) = &model.frame {
        model.sched.move_by(lines, &frame.observer.memory);
    }
}

/// Moves to the next family of scenarios in the menu, or to the one before.
pub(super) fn to_family(model: &mut Model, is_forward: bool) {
    model.bench.selected = menu::family_from(model.scenarios(), model.bench.selected, is_forward);
}
