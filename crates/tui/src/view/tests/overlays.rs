//! Every overlay at five sizes, in ASCII, and in each theme.

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::Color;

use super::*;
use crate::model::palette;

/// Overlays: a name, the view, the keys that open it, and a text that it shows.
const OVERLAYS: [(&str, Tab, &str, &str); 12] = [
    ("filter", Tab::Processes, "/name=kv*", "name=kv*"),
    ("kill", Tab::Processes, "jx", "shutdown"),
    ("sort", Tab::Processes, "s", "mailbox"),
    ("columns", Tab::Processes, "c", "columns"),
    ("help", Tab::Processes, "?", "help: Processes"),
    ("run", Tab::Bench, "P", "warm-up"),
    ("palette", Tab::Node, ":go", "goto"),
    ("waits", Tab::Tree, "W", "who waits for whom"),
    ("trace", Tab::Processes, "jt", "trace"),
    ("changes", Tab::Node, "D", "what changed"),
    ("event", Tab::Events, "jjjjj\n", "after the start"),
    ("cause", Tab::Events, "co", "disk full"),
];
const SIZES: [Size; 5] = [SMALL, USUAL, Size::new(97, 31), LARGE, Size::new(200, 50)];

fn opened(tab: Tab, keys: &str, seconds: u64, start: Start) -> Fixture {
    let mut watched = Fixture::new(Start { tab, demo: true, ..start });
    watched.pass(seconds).press(keys).pass(2);
    watched
}

/// Returns the number of cells whose text has the colour of their background.
fn hidden(screen: &Buffer) -> usize {
    let is_hidden = |cell: &&Cell| cell.symbol() != " " && cell.fg == cell.bg && cell.fg != Color::Reset;
    screen.content().iter().filter(is_hidden).count()
}

fn inks(screen: &Buffer) -> Vec<Color> {
    screen.content().iter().map(|cell| cell.fg).collect()
}

#[test]
fn every_overlay_at_five_sizes() {
    for (name, tab, keys, shown) in OVERLAYS {
        let screens = SIZES.map(|size| opened(tab, keys, 65, Start { size, ..Start::default() }).text());

        for (size, text) in SIZES.iter().zip(&screens) {
            assert!(text.contains(shown), "{name} at {}x{}:\n{text}", size.width, size.height);
        }
        insta::assert_snapshot!(format!("overlay_{name}"), screens.join("\n\n"));
    }
}

#[test]
fn every_overlay_in_ascii() {
    let capabilities = Capabilities { ascii: true, color: true };
    for (name, tab, keys, _) in OVERLAYS {
        let text = opened(tab, keys, 9, Start { size: USUAL, capabilities, ..Start::default() }).text();

        assert!(text.is_ascii(), "{name}: {text}");
    }
}

#[test]
fn every_view_and_overlay_is_readable_in_dark_and_in_light() {
    let views = Tab::ALL.iter().map(|&tab| (tab.id(), tab, ""));
    let overlays = OVERLAYS.map(|(name, tab, keys, _)| (name, tab, keys));
    for (name, tab, keys) in views.chain(overlays) {
        let mut themes = ["dark", "light", "contrast"].map(|theme| {
            let palette = palette::by_name(theme).unwrap();
            let screen = screen(&opened(tab, keys, 9, Start { size: USUAL, palette, ..Start::default() }).model);
            assert_eq!(hidden(&screen), 0, "{name} in {theme}");
            inks(&screen)
        });
        themes.sort_by_key(|inks| format!("{inks:?}"));
        assert!(themes.windows(2).all(|pair| pair[0] != pair[1]), "{name}: the themes differ");
    }
}
