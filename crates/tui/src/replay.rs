//! Replays recorded messages of a node: equal messages give equal screens.
//!
//! ```text
//!   rusm-top --record FILE ──▶ recording: one JSON object per line ──▶ index ──▶ player ──▶ the same model and views
//! ```

mod error;
pub(crate) mod index;
pub(crate) mod player;
pub(crate) mod recording;

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use rusm_protocol::ServerMessage;

use crate::model::message::{LinkEvent, Msg};
use crate::model::update::update;
use crate::model::{Model, Start};
pub use crate::replay::error::RecordingError;
use crate::replay::recording::Entry;
use crate::view;

/// A message and its time of arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Time since the start of the recording.
    pub at: Duration,
    /// The recorded message.
    pub message: ServerMessage,
}

/// Parses a recording.
///
/// # Errors
/// Returns [`RecordingError`], which names the line.
pub fn read(text: &str) -> Result<Vec<Recorded>, RecordingError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let lines = lines.filter(|(_, line)| !line.starts_with("{\"rusm_recording\":"));
    let entries = lines.map(|(at, line)| Entry::parse(at + 1, line));
    entries
        .filter_map(|entry| match entry {
            Ok(entry) => Some(Ok(Recorded { at: entry.at, message: entry.server()? })),
            Err(error) => Some(Err(error)),
        })
        .collect()
}

/// Formats one line of a recording.
pub fn line(recorded: &Recorded) -> String {
    Entry::message(recorded.at, recorded.message.clone()).line()
}

/// Returns the model of an observer that has received the whole recording. Recorded rows get the id of this observer's own
/// request; answers of other views count if the recording began with them, as this observer does.
pub fn play(start: Start, recording: &[Recorded]) -> Model {
    let mut model = Model::new(start);
    update(&mut model, Msg::Link(LinkEvent::Connected), Duration::ZERO);
    for recorded in recording {
        let mut message = recorded.message.clone();
        if let (ServerMessage::Rows(rows), Some(sent)) = (&mut message, model.subscription.sent()) {
            rows.id = sent.id;
        }
        update(&mut model, Msg::Server(message), recorded.at);
        update(&mut model, Msg::Tick, recorded.at);
    }
    model
}

/// Renders the model's screen.
pub fn screen(model: &Model) -> Buffer {
    let size = model.size;
    let Ok(mut terminal) = Terminal::new(TestBackend::new(size.width, size.height));
    let Ok(_) = terminal.draw(|frame| view::draw(frame, model));
    terminal.backend().buffer().clone()
}
