//! Replays recorded messages of a node: equal messages give equal screens.
//!
//! A recording is a text file with one JSON object per line, `{"at_ms": 120, "message": {...}}`, in which the message
//! has its wire format.

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

/// A message and its time of arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Time since the start of the recording.
    pub at: Duration,
    /// The recorded message.
    pub message: ServerMessage,
}

/// Error returned when a text is not a valid recording.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordingError {
    /// The line is not `{"at_ms": .., "message": ..}`.
    #[error("line {line} of the recording is malformed")]
    Malformed {
        /// Line number, counted from 1.
        line: usize,
    },
    /// The message cannot be decoded.
    #[error("line {line} of the recording: {source}")]
    Message {
        /// Line number, counted from 1.
        line: usize,
        /// Error of the decoder.
        source: DecodeError,
    },
}

/// Parses a recording.
///
/// # Errors
/// Returns [`RecordingError`], which names the line.
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

/// Formats one line of a recording.
pub fn line(recorded: &Recorded) -> String {
    format!(r#"{{"at_ms":{},"message":{}}}"#, recorded.at.as_millis(), encode(&recorded.message))
}

/// Returns the model of an observer that has received the whole recording. The recorded answers get the ids of this
/// observer's own requests.
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
