//! Several nodes on one screen.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::model::layout::tiles::tiles;
use crate::view::tiles::{ShownNode, draw};

/// Returns the screen of several nodes, all of them busy with the same.
fn text(nodes: usize, focus: usize, size: Size, ascii: bool) -> String {
    let watched = tiles(size, nodes, focus).into_iter().map(|tile| {
        let mut fixture = busy(Tab::Processes, Size::new(tile.screen.width, tile.screen.height), ascii);
        fixture.model.beside = true;
        (tile, fixture)
    });
    let watched: Vec<_> = watched.collect();
    let shown: Vec<_> = watched
        .iter()
        .map(|(tile, fixture)| ShownNode { tile: *tile, model: &fixture.model, has_focus: tile.node == focus })
        .collect();
    let Ok(mut terminal) = Terminal::new(TestBackend::new(size.width, size.height));
    let Ok(_) = terminal.draw(|frame| draw(frame, &shown, nodes));
    lines(terminal.backend().buffer())
}

#[test]
fn three_nodes_share_a_large_screen() {
    insta::assert_snapshot!(text(3, 1, LARGE, false));
}

#[test]
fn a_small_screen_shows_the_node_with_the_focus() {
    let second = text(3, 1, USUAL, false);

    assert!(second.lines().next().unwrap().contains("2 of 3"), "{second}");
    assert!(text(3, 1, USUAL, true).is_ascii());
}
