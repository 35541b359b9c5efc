//! What a node once said, said again: the same messages give the same screens.
//!
//! A recording is a text file with one JSON object a line, `{"at_ms": 120, "message": {...}}`, the message as it came
//! over the wire.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use rusm_protocol::{DecodeError, ServerMessage, decode_server, encode};
use thiserror::Error;

use crate::connection::sanitise;
use crate::model::message::{LinkEvent, Msg};
use crate::model::update::update;
use crate::model::{Model, Start};
use crate::view;

/// A message and when it came.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The time since the recording began.
    pub at: Duration,
    /// What the node said.
    pub message: ServerMessage,
}

/// Why a text is no recording.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordingError {
    /// The line is not `{"at_ms": .., "message": ..}`.
    #[error("line {line} of the recording is malformed")]
    Malformed {
        /// Counted from 1.
        line: usize,
    },
    /// The message is none.
    #[error("line {line} of the recording: {source}")]
    Message {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        source: DecodeError,
    },
}

/// Reads a recording.
///
/// # Errors
/// [`RecordingError`], which names the line.
pub fn read(text: &str) -> Result<Vec<Recorded>, RecordingError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| recorded(at + 1, line)).collect()
}

fn recorded(line: usize, text: &str) -> Result<Recorded, RecordingError> {
    let malformed = RecordingError::Malformed { line };
    let value: serde_json::Value = serde_json::from_str(text).map_err(|_not_json| malformed.clone())?;
    let at_ms = value.get("at_ms").and_then(serde_json::Value::as_u64).ok_or_else(|| malformed.clone())?;
    let message = value.get("message").ok_or(malformed)?.to_string();
    let message = decode_server(&message).map_err(|source| RecordingError::Message { line, source })?;
    Ok(Recorded { at: Duration::from_millis(at_ms), message: sanitise::message(message) })
}

/// The line of a recording.
pub fn line(recorded: &Recorded) -> String {
    format!(r#"{{"at_ms":{},"message":{}}}"#, recorded.at.as_millis(), encode(&recorded.message))
}

/// An observer that has heard all of it. The ids of its own requests are matched to those of the recording.
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

/// The model's screen, cell by cell.
pub fn screen(model: &Model) -> Buffer {
    let size = model.size;
    let Ok(mut terminal) = Terminal::new(TestBackend::new(size.width, size.height));
    let Ok(_) = terminal.draw(|frame| view::draw(frame, model));
    terminal.backend().buffer().clone()
}
