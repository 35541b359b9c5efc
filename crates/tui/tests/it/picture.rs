//! Pictures of screens: deterministic, well-formed, and generated from the recorded messages alone.

use std::time::Duration;

use rusm_protocol::{ClientMessage, SortKey, View, ViewWindow};
use rusm_tui::demo::Demo;
use rusm_tui::model::Start;
use rusm_tui::model::input::key::Size;
use rusm_tui::model::tab::Tab;
use rusm_tui::picture::{DARK, LIGHT, svg};
use rusm_tui::replay::{Recorded, line, play, read, screen};

/// Records ninety seconds of the demo.
fn recording() -> Vec<Recorded> {
    let mut demo = Demo::new(1);
    let mut out = vec![Recorded { at: Duration::ZERO, message: demo.hello() }];
    demo.receive(
        ClientMessage::View(View {
            window: ViewWindow { offset: 0, len: 120 },
            sort: SortKey::default(),
            ..View::default()
        }),
        Duration::ZERO,
    );
    for at in (0..90_000).step_by(100).map(Duration::from_millis) {
        out.extend(demo.poll(at).into_iter().map(|message| Recorded { at, message }));
    }
    out
}

fn picture(tab: Tab, size: Size) -> String {
    let start = Start { tab, size, demo: true, ..Start::default() };
    svg(&screen(&play(start, &recording())), &DARK)
}

#[test]
fn fuzz_recordings() {
    let recorded = include_str!("../recorded/storm.jsonl");
    let lines: Vec<&str> = recorded.lines().collect();
    let mut target = rusm_fuzz::Fuzz::new("recording")
        .words(&["\\u001b[2J", "\\u202e", "\"type\":\"rows\"", "null", "[[[["])
        .cases(600);
    for chunk in lines.chunks(8) {
        target = target.seed(chunk.join("\n"));
    }
    target.run(|input| {
        let Ok(recording) = read(&String::from_utf8_lossy(input)) else { return };
        let start = Start { size: Size::new(80, 24), ..Start::default() };
        let screen = screen(&play(start, &recording));
        let harmful = screen.content().iter().find(|cell| cell.symbol().chars().any(char::is_control));
        assert!(harmful.is_none(), "{harmful:?}");
    });
}

#[test]
fn the_same_recording_gives_the_same_picture() {
    let size = Size::new(140, 45);

    assert_eq!(picture(Tab::Node, size), picture(Tab::Node, size));
}

#[test]
fn a_recording_survives_its_file() {
    let recording: Vec<Recorded> = recording().into_iter().take(40).collect();
    let text: Vec<String> = recording.iter().map(line).collect();

    let again = read(&text.join("\n")).unwrap();

    let shown = |recording: &[Recorded]| svg(&screen(&play(Start::default(), recording)), &DARK);
    assert!(again.len() == recording.len() && shown(&again) == shown(&recording));
}

#[test]
fn a_broken_recording_names_its_line() {
    let errors = ["{}", "x", r#"{"at_ms":1,"message":{"type":"reboot"}}"#].map(|line| {
        let text = format!("\n{line}");
        read(&text).unwrap_err().to_string()
    });

    assert_eq!(errors[0], "line 2 of the recording is malformed");
    assert_eq!(errors[1], "line 2 of the recording is malformed");
    assert!(errors[2].starts_with("line 2 of the recording: unknown message \"reboot\""), "{}", errors[2]);
}

#[test]
fn every_view_is_well_formed() {
    for &tab in Tab::ALL {
        for size in [Size::new(80, 24), Size::new(140, 45)] {
            let svg = picture(tab, size);

            assert_well_formed(&svg);
            assert!(svg.contains("DEMO"), "synthetic data is labelled");
            if let Some(folder) = std::env::var_os("PICTURES_FOLDER") {
                let name = format!("{}-{}x{}.svg", tab.id(), size.width, size.height);
                std::fs::write(std::path::Path::new(&folder).join(name), svg).unwrap();
            }
        }
    }
}

#[test]
fn a_light_picture_has_dark_ink_on_light_paper() {
    let start = Start { size: Size::new(80, 24), ..Start::default() };

    let svg = svg(&screen(&play(start, &recording())), &LIGHT);

    assert!(svg.contains(LIGHT.background) && svg.contains(LIGHT.foreground) && !svg.contains(DARK.foreground));
}

/// Checks that tags are closed in order, and that no text contains a bare `<` or `&`.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(!text.contains('>'), "{text}");
        for entity in text.match_indices('&').map(|(at, _)| &text[at..]) {
            assert!(["&amp;", "&lt;", "&gt;"].iter().any(|known| entity.starts_with(known)), "{entity}");
        }
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("a name");
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty() && rest.trim().is_empty());
}

/// Checks the README's picture, which replays a real storm recorded from a node's own socket.
///
/// `RUSM_BLESS=1 cargo test -p rusm-tui --test it picture` draws it again.
#[test]
fn the_picture_of_the_readme_is_the_recorded_storm() {
    let recording = read(include_str!("../recorded/storm.jsonl")).unwrap();
    let start = Start { size: Size::new(120, 36), ..Start::default() };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/screen.svg");

    let drawn = svg(&screen(&play(start, &recording)), &DARK);

    if std::env::var_os("RUSM_BLESS").is_some() {
        std::fs::write(path, &drawn).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap() == drawn, "docs/screen.svg is not what the recording shows");
}
