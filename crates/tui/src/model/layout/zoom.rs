//! One panel of a view on the whole body of the screen. It also shows panels that a small screen leaves out.

use crate::model::Model;
use crate::model::layout::{self, Cells, CpuLayout, NodeLayout, SchedLayout};
use crate::model::tab::Tab;

/// Returns the panels of the Node view.
pub(crate) fn node(model: &Model) -> NodeLayout {
    let mut layout = layout::node(model.size);
    let NodeLayout { chart, schedulers, latency, memory, table, figures } = &mut layout;
    enlarge(model, [chart, memory, table, schedulers, latency, figures]);
    layout
}

/// Returns the panels of the Schedulers view.
pub(crate) fn sched(model: &Model) -> SchedLayout {
    let mut layout = layout::sched(model.size, model.scheduler_count());
    let SchedLayout { schedulers, memory, chart } = &mut layout;
    enlarge(model, [chart, schedulers, memory]);
    layout
}

/// Returns the panels of the CPU view.
pub(crate) fn cpu(model: &Model) -> CpuLayout {
    let mut layout = layout::cpu(model.size);
    let CpuLayout { chart, groups } = &mut layout;
    enlarge(model, [chart, groups]);
    layout
}

/// Returns the number of panels of a view that can be enlarged.
const fn count(tab: Tab) -> usize {
    match tab {
        Tab::Node => 6,
        Tab::Sched => 3,
        Tab::Cpu => 2,
        _ => 0,
    }
}

fn enlarge<const N: usize>(model: &Model, panels: [&mut Cells; N]) {
    if model.zoom == 0 {
        return;
    }
    for (at, panel) in (1..).zip(panels) {
        *panel = if at == model.zoom { layout::body(model.size) } else { Cells::default() };
    }
}

impl Model {
    /// Enlarges the next panel of the view; after the last one, shows all of them. Returns false if the view has one.
    pub(crate) fn zoom_next(&mut self) -> bool {
        let count = count(self.tab);
        self.zoom = if self.zoom >= count { 0 } else { self.zoom + 1 };
        count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Start;
    use crate::model::input::key::Size;

    #[test]
    fn each_panel_covers_the_body_in_turn_and_then_all_are_back() {
        for (tab, panels) in [(Tab::Node, 6), (Tab::Sched, 3), (Tab::Cpu, 2)] {
            let mut model = Model::new(Start { tab, size: Size::new(140, 45), ..Start::default() });
            let body = layout::body(model.size);
            let shown = |model: &Model| {
                let (node, sched, cpu) = (node(model), sched(model), cpu(model));
                let cells = match tab {
                    Tab::Node => {
                        vec![node.chart, node.memory, node.table, node.schedulers, node.latency, node.figures]
                    }
                    Tab::Sched => vec![sched.chart, sched.schedulers, sched.memory],
                    _ => vec![cpu.chart, cpu.groups],
                };
                cells.iter().position(|cells| *cells == body)
            };

            let seen: Vec<_> = (0..=panels)
                .map(|_| {
                    model.zoom_next();
                    shown(&model)
                })
                .collect();

            let expected: Vec<_> = (0..panels).map(Some).chain([None]).collect();
            assert_eq!(seen, expected, "{tab:?}");
        }
        assert!(!Model::new(Start { tab: Tab::Topics, ..Start::default() }).zoom_next());
    }
}
