//! Panels of the Cluster view.

use crate::model::input::key::Size;
use crate::model::layout::{Cells, WIDE, body};

/// Panels of the Cluster view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterLayout {
    /// The node that is watched.
    pub(crate) own: Cells,
    /// Includes the border. The first row inside is the heading.
    pub(crate) nodes: Cells,
    /// The node under the cursor. Empty on a low screen.
    pub(crate) node: Cells,
    /// Unique names, with border and heading. Empty on a low screen.
    pub(crate) names: Cells,
}

/// Computes the panels of the Cluster view for this number of other nodes.
pub(crate) fn panels(size: Size, nodes: u64) -> ClusterLayout {
    let body = body(size);
    let (own, rest) = body.split_top(if body.height >= 18 { 5 } else { 4 });
    let wanted = u16::try_from(nodes).unwrap_or(u16::MAX).saturating_add(3).max(5);
    if rest.height < 12 {
        return ClusterLayout { own, nodes: rest, ..ClusterLayout::default() };
    }
    // The facts of a node need nine lines.
    let (nodes, rest) = rest.split_top(wanted.min(rest.height.saturating_sub(9).max(rest.height * 2 / 5)));
    let left = if size.width >= WIDE { size.width / 2 } else { size.width * 11 / 20 };
    let (node, names) = rest.split_left(left);
    ClusterLayout { own, nodes, node, names }
}
