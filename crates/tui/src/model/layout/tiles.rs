//! Places several nodes on one screen: below each other first, then beside each other. Nodes that do not fit are on
//! other pages; the page with the focus is shown.
//!
//! ```text
//!   ── a ──────────      ── a ────│── b ────
//!   …                    …        │ …
//!   ── b ──────────      ── c ──────────────
//!   …                    …
//! ```

use crate::model::input::key::Size;
use crate::model::layout::{Cells, SIZE_MIN};

/// Rows above a node: its name.
const TITLE: u16 = 1;

/// The place of a node on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    /// Index of the node.
    pub(crate) node: usize,
    /// Row of its name; without height on a low screen.
    pub(crate) title: Cells,
    /// Its screen.
    pub(crate) screen: Cells,
}

impl Tile {
    /// Returns a node on the whole screen, without its name above it.
    pub(crate) const fn whole(size: Size, node: usize) -> Self {
        let (title, screen) = (Cells::new(0, 0, size.width, 0), Cells::new(0, 0, size.width, size.height));
        Self { node, title, screen }
    }
}

/// Returns the places of the nodes on the page with the focus.
pub(crate) fn tiles(size: Size, nodes: usize, focus: usize) -> Vec<Tile> {
    let rows_max = usize::from(size.height / (SIZE_MIN.height + TITLE)).max(1);
    let columns_max = usize::from((size.width + 1) / (SIZE_MIN.width + 1)).max(1);
    let first = focus - focus % (rows_max * columns_max);
    let shown = (nodes - first).min(rows_max * columns_max);
    let columns = shown.div_ceil(rows_max);
    let rows = shown.div_ceil(columns);
    let place = |at: usize| {
        // The nodes of the last row share its width.
        let in_row = columns.min(shown - at / columns * columns);
        let (x, width) = part(size.width + 1, in_row, at % columns);
        let (y, height) = part(size.height, rows, at / columns);
        // A column of cells separates two nodes.
        let cells = Cells::new(x, y, width - 1, height);
        let (title, screen) = cells.split_top(if height > SIZE_MIN.height { TITLE } else { 0 });
        Tile { node: first + at, title, screen }
    };
    (0..shown).map(place).collect()
}

/// Returns start and length of one of several parts of equal length, up to rounding.
fn part(length: u16, parts: usize, at: usize) -> (u16, u16) {
    let border = |at: usize| (usize::from(length) * at / parts) as u16;
    (border(at), border(at + 1) - border(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::layout::too_small;

    #[test]
    fn every_shown_node_has_the_least_size_and_no_cell_has_two_nodes() {
        for (width, height) in [(60, 15), (80, 24), (97, 31), (140, 45), (200, 50), (300, 120)] {
            for nodes in 1..=20 {
                for focus in 0..nodes {
                    let tiles = tiles(Size::new(width, height), nodes, focus);

                    assert!(tiles.iter().any(|tile| tile.node == focus), "{width}x{height}: {focus} of {nodes}");
                    for tile in &tiles {
                        let Cells { width, height, .. } = tile.screen;
                        assert!(!too_small(Size::new(width, height)), "{tile:?}");
                    }
                    let owners = |x, y| tiles.iter().filter(|tile| tile.screen.contains(x, y)).count();
                    assert!((0..height).all(|y| (0..width).all(|x| owners(x, y) <= 1)));
                }
            }
        }
    }

    #[test]
    fn nodes_are_below_each_other_until_the_rows_are_used_up() {
        let places = |width, height, nodes, focus| {
            let tiles = tiles(Size::new(width, height), nodes, focus);
            tiles.iter().map(|tile| (tile.node, tile.title.x, tile.title.y)).collect::<Vec<_>>()
        };

        assert_eq!(places(140, 45, 2, 0), [(0, 0, 0), (1, 0, 22)]);
        assert_eq!(places(140, 45, 3, 2), [(0, 0, 0), (1, 70, 0), (2, 0, 22)]);
        assert_eq!(places(80, 24, 3, 2), [(2, 0, 0)]);
        assert_eq!(places(140, 45, 6, 4), [(4, 0, 0), (5, 0, 22)]);
    }
}
