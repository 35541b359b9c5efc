//! Cost of a frame: one write, few bytes, none when nothing changed, and no control bytes from names.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use rusm_protocol::{Cell, ServerMessage};
use rusm_tui::demo::Demo;
use rusm_tui::model::input::key::{Key, Size};
use rusm_tui::model::message::{Effect, LinkEvent, Msg};
use rusm_tui::model::tab::Tab;
use rusm_tui::model::update::update;
use rusm_tui::model::{Capabilities, Model, Start};
use rusm_tui::terminal::Screen;

/// Maximum mean size of a frame at 140x45, in bytes.
const FRAME_BYTES_MAX: usize = 2_500;

const LARGE: Size = Size::new(140, 45);

/// A writer that records every write.
#[derive(Clone, Default)]
struct Line(Rc<RefCell<Vec<Vec<u8>>>>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Line {
    fn take(&self) -> Vec<Vec<u8>> {
        self.0.take()
    }
}

struct Watched {
    model: Model,
    demo: Demo,
    screen: Screen<Line>,
    line: Line,
    now: Duration,
    /// Modifies each message from the node.
    twist: fn(&mut ServerMessage),
}

impl Watched {
    fn new(start: Start, twist: fn(&mut ServerMessage)) -> Self {
        let line = Line::default();
        let screen = Screen::new(line.clone(), start.size, start.capabilities.ascii);
        let mut watched =
            Self { model: Model::new(start), demo: Demo::new(3), screen, line, now: Duration::from_secs(100), twist };
        watched.feed(Msg::Link(LinkEvent::Connected));
        let hello = watched.demo.hello();
        watched.feed(Msg::Server(hello));
        watched
    }

    fn feed(&mut self, mut msg: Msg) {
        if let Msg::Server(message) = &mut msg {
            (self.twist)(message);
        }
        for effect in update(&mut self.model, msg, self.now) {
            if let Effect::Send(message) = effect {
                self.demo.receive(message, self.now);
            }
        }
    }

    /// Advances the clock by a tenth of a second and draws a frame.
    fn frame(&mut self) -> Vec<Vec<u8>> {
        self.now += Duration::from_millis(100);
        for message in self.demo.poll(self.now) {
            self.feed(Msg::Server(message));
        }
        self.feed(Msg::Tick);
        self.screen.draw(&self.model).expect("writing to memory cannot fail");
        self.line.take()
    }
}

fn on(tab: Tab) -> Watched {
    Watched::new(Start { tab, size: LARGE, ..Start::default() }, |_| {})
}

#[test]
fn a_frame_is_one_write_inside_one_synchronized_update() {
    for &tab in Tab::ALL {
        let mut watched = on(tab);
        for _ in 0..50 {
            let writes = watched.frame();

            assert_eq!(writes.len(), 1, "{tab:?}");
            let text = String::from_utf8(writes.concat()).unwrap();
            assert_eq!((text.matches("\x1b[?2026h").count(), text.matches("\x1b[?2026l").count()), (1, 1));
            assert!(text.ends_with("\x1b[?2026l"));
        }
    }
}

#[test]
fn a_busy_node_costs_few_bytes_a_frame() {
    for &tab in Tab::ALL {
        let mut watched = on(tab);
        // Fill the chart first: a full one is the most expensive.
        (0..800).for_each(|_| drop(watched.frame()));

        let sizes: Vec<usize> = (0..100).map(|_| watched.frame().concat().len()).collect();

        let mean = sizes.iter().sum::<usize>() / sizes.len();
        eprintln!("{tab:?}: mean {mean} bytes a frame, most {:?}", sizes.iter().max());
        assert!(mean <= FRAME_BYTES_MAX, "{tab:?}: {mean} bytes a frame");
    }
}

#[test]
fn a_clear_stands_before_the_synchronized_update() {
    let mut watched = on(Tab::Node);
    watched.frame();

    watched.screen.repaint();
    let text = String::from_utf8(watched.frame().concat()).unwrap();

    assert!(text.find("\x1b[2J").unwrap() < text.find("\x1b[?2026h").unwrap());
}

#[test]
fn nothing_is_written_when_nothing_changed_or_the_screen_is_paused() {
    let mut watched = on(Tab::Node);
    watched.frame();

    watched.screen.draw(&watched.model).unwrap();
    assert!(watched.line.take().is_empty());
    watched.feed(Msg::Key(Key::char(' ')));
    watched.frame();
    let paused: Vec<_> = (0..20).flat_map(|_| watched.frame()).collect();

    assert!(paused.is_empty(), "{} writes", paused.len());
}

#[test]
fn no_escape_in_a_name_reaches_the_terminal() {
    let evil = "\x1b]0;owned\x07\u{9b}31m\x1b[2J";
    for &tab in Tab::ALL {
        let mut watched = Watched::new(Start { tab, size: LARGE, ..Start::default() }, |message| {
            let evil = || "\x1b]0;owned\x07\u{9b}31m\x1b[2J".to_owned();
            match message {
                ServerMessage::Hello(hello) => {
                    hello.node.name = evil();
                    hello.scenarios[0].id = evil();
                    hello.scenarios[0].description = evil();
                }
                ServerMessage::Tick { frame } => {
                    frame.scenario = Some(evil());
                    frame.profile = evil();
                    frame.observer.stuck = vec![evil()];
                }
                ServerMessage::Rows(rows) => {
                    rows.rows.iter_mut().flatten().for_each(|cell| *cell = Cell::Text(evil()));
                }
                _ => {}
            }
        });
        watched.frame();
        watched.screen.repaint();

        let text = String::from_utf8(watched.frame().concat()).unwrap();

        assert!(!text.contains('\x07') && !text.contains('\u{9b}') && !text.contains("\x1b]"), "{tab:?}");
        assert!(text.matches("\x1b[2J").count() <= 1, "only our own clear");
        assert!(!text.contains(evil));
    }
}

#[test]
fn in_ascii_mode_every_byte_is_ascii_even_where_a_name_is_not() {
    let capabilities = Capabilities { ascii: true, color: true };
    let start = Start { tab: Tab::Processes, size: LARGE, capabilities, ..Start::default() };
    let mut watched = Watched::new(start, |message| {
        if let ServerMessage::Rows(rows) = message {
            rows.rows.iter_mut().flatten().for_each(|cell| *cell = Cell::Text("münchen-東京".to_owned()));
        }
    });
    watched.frame();

    let bytes = watched.frame().concat();
    watched.screen.repaint();
    let all = watched.frame().concat();

    assert!(bytes.is_ascii() && all.is_ascii());
}
