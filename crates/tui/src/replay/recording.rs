//! The format of a recording: one JSON object per line.
//!
//! ```text
//!   {"rusm_recording":1,"version":"0.1.0","node":"kv"}
//!   {"at_ms":120,"message":{"type":"tick",...}}          a message of the node, in its wire format
//!   {"at_ms":1000,"own":{"cpu_pct":0.4,...}}             resource usage of the observer
//!   {"at_ms":5000,"link":"lost"}                         the connection
//! ```

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use rusm_protocol::{SERVER_MESSAGE_MAX_BYTES, ServerMessage, decode_server, encode};

use super::error::RecordingError;
use crate::connection::sanitise;
use crate::export::save::create_private;
use crate::model::message::{LinkEvent, Msg, OwnCost};

/// Version of the format. A reader refuses newer ones.
pub(crate) const VERSION: u64 = 1;

/// Maximum length of a line: a message with its time. A message is longer here than it was on the wire where it lacked
/// fields, or had characters that no terminal gets.
pub(super) const LINE_MAX: u64 = 4 * SERVER_MESSAGE_MAX_BYTES as u64;

/// Content of a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// A message of the node.
    Message(Box<ServerMessage>),
    /// Resource usage of the observer.
    Own(OwnCost),
    /// The connection was opened.
    Connected,
    /// The connection was lost.
    Lost,
}

/// One line of a recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Time since the start of the recording.
    pub(crate) at: Duration,
    pub(crate) line: Line,
}

impl Entry {
    pub(crate) fn message(at: Duration, message: ServerMessage) -> Self {
        Self { at, line: Line::Message(Box::new(message)) }
    }

    /// Returns the line that records an event for the model; `None` for keys and other events that a replay has itself.
    pub(crate) fn of(msg: &Msg, at: Duration) -> Option<Self> {
        let line = match msg {
            // Answers about the past are read from the recording itself.
            Msg::Server(ServerMessage::Past(_) | ServerMessage::Ack { .. }) => return None,
            Msg::Server(message) => Line::Message(Box::new(message.clone())),
            Msg::OwnCost(own) => Line::Own(*own),
            Msg::Link(LinkEvent::Connected) => Line::Connected,
            Msg::Link(LinkEvent::Lost { .. }) => Line::Lost,
            _ => return None,
        };
        Some(Self { at, line })
    }

    /// Returns the message of the node, if this is one.
    pub(crate) fn server(self) -> Option<ServerMessage> {
        match self.line {
            Line::Message(message) => Some(*message),
            _ => None,
        }
    }

    /// Formats the line.
    pub(crate) fn line(&self) -> String {
        let at_ms = self.at.as_millis();
        match &self.line {
            Line::Message(message) => format!(r#"{{"at_ms":{at_ms},"message":{}}}"#, encode(message)),
            Line::Own(own) => {
                let OwnCost { cpu_pct, received_bytes_per_sec, drawn_bytes_per_sec } = own;
                let own = serde_json::json!([cpu_pct, received_bytes_per_sec, drawn_bytes_per_sec]);
                format!(r#"{{"at_ms":{at_ms},"own":{own}}}"#)
            }
            Line::Connected => format!(r#"{{"at_ms":{at_ms},"link":"connected"}}"#),
            Line::Lost => format!(r#"{{"at_ms":{at_ms},"link":"lost"}}"#),
        }
    }

    /// Parses a line; `number` is its number, for errors.
    pub(crate) fn parse(number: usize, text: &str) -> Result<Self, RecordingError> {
        let malformed = RecordingError::Malformed { line: number };
        let value: serde_json::Value = serde_json::from_str(text).map_err(|_not_json| malformed.clone())?;
        let at_ms = value.get("at_ms").and_then(serde_json::Value::as_u64).ok_or_else(|| malformed.clone())?;
        let line = if let Some(message) = value.get("message") {
            let message = decode_server(&message.to_string())
                .map_err(|source| RecordingError::Message { line: number, source })?;
            Line::Message(Box::new(sanitise::message(message)))
        } else if let Some(own) = value.get("own") {
            let figure = |at: usize| own.get(at).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
            Line::Own(OwnCost { cpu_pct: figure(0), received_bytes_per_sec: figure(1), drawn_bytes_per_sec: figure(2) })
        } else {
            match value.get("link").and_then(serde_json::Value::as_str) {
                Some("connected") => Line::Connected,
                Some("lost") => Line::Lost,
                _ => return Err(malformed),
            }
        };
        Ok(Self { at: Duration::from_millis(at_ms), line })
    }
}

/// Returns the first line of a recording.
pub(crate) fn header(node: &str) -> String {
    let (version, node) = (env!("CARGO_PKG_VERSION"), serde_json::Value::from(node));
    format!(r#"{{"rusm_recording":{VERSION},"version":"{version}","node":{node}}}"#)
}

/// Writes what the model receives to a file.
#[derive(Debug)]
pub(crate) struct Recording {
    file: BufWriter<File>,
    flushed_at: Duration,
}

/// Interval at which lines reach the file.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

impl Recording {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub(crate) fn create(path: &Path, target: &str) -> std::io::Result<Self> {
        let mut file = BufWriter::new(create_private(path)?);
        writeln!(file, "{}", header(target))?;
        file.flush()?;
        Ok(Self { file, flushed_at: Duration::ZERO })
    }

    /// Writes an event, if a replay needs it.
    ///
    /// # Errors
    /// Returns the error of the file system; the recording is then incomplete.
    pub(crate) fn write(&mut self, msg: &Msg, now: Duration) -> std::io::Result<()> {
        let line = Entry::of(msg, now).map(|entry| entry.line());
        // A longer one comes only from a node that is up to no good, and would make the recording useless.
        if let Some(line) = line.filter(|line| (line.len() as u64) < LINE_MAX) {
            writeln!(self.file, "{line}")?;
        }
        if now >= self.flushed_at + FLUSH_EVERY {
            self.flushed_at = now;
            self.file.flush()?;
        }
        Ok(())
    }
}
