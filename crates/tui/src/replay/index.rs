//! Index of a recording: where each message is, so that a replay reads only what it shows.
//!
//! The file is read once, line by line. 24 bytes of each line are kept, at most [`LINES_MAX`] times.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use rusm_protocol::ServerMessage;
use rusm_text::open_regular;

use super::error::RecordingError;
use super::recording::{Entry, LINE_MAX, VERSION};

/// Maximum number of lines that are replayed: more than a day of a busy screen.
pub(crate) const LINES_MAX: usize = 2_000_000;
/// Number of lines that are searched for the messages of one instant.
const SEARCHED: usize = 20_000;

/// Types of messages of which the newest is the state of the node.
const STATES: [&str; 17] = [
    "tick",
    "rows",
    "tree",
    "engines",
    "time",
    "stores",
    "topics",
    "events",
    "process",
    "causes",
    "inspection",
    "cpu",
    "schedulers",
    "serve",
    "cluster",
    "waits",
    "results",
];

/// A line of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    offset: u64,
    /// Time since the start of the recording.
    at_ms: u32,
    /// Uptime of the node, as far as known, in milliseconds.
    uptime_ms: u64,
    /// Position of its type in [`STATES`], or `OTHER`.
    kind: u8,
}

const OTHER: u8 = u8::MAX;
const TICK: u8 = 0;

/// A recording that is open for replay.
#[derive(Debug)]
pub(crate) struct Index {
    file: BufReader<File>,
    lines: Vec<Line>,
    /// Why the rest of the file is left out.
    pub(crate) cut: Option<String>,
}

impl Index {
    /// Reads a recording.
    ///
    /// # Errors
    /// Returns one line if the file cannot be read, is not a recording, or is of a newer version. A file that was cut
    /// within a line is replayed up to there.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let file = open_regular(path).map_err(|error| format!("{shown}: {error}"))?;
        let mut index = Self { file: BufReader::new(file), lines: Vec::new(), cut: None };
        index.read().map_err(|error| format!("{shown}: {error}"))?;
        if index.lines.is_empty() {
            return Err(format!("{shown}: the recording is empty"));
        }
        Ok(index)
    }

    fn read(&mut self) -> Result<(), RecordingError> {
        let (mut offset, mut number, mut uptime_ms, mut text) = (0, 0, 0, String::new());
        loop {
            text.clear();
            number += 1;
            let read = (&mut self.file).take(LINE_MAX).read_line(&mut text);
            let Ok(length) = read else { return Err(RecordingError::Malformed { line: number }) };
            if length == 0 {
                return Ok(());
            }
            let line = text.trim();
            let is_whole = text.ends_with('\n');
            if !line.is_empty() {
                match head(line) {
                    Some(Head::Version(version)) if version > VERSION => {
                        return Err(RecordingError::Newer { version });
                    }
                    Some(Head::Version(_)) => {}
                    Some(Head::Message { at_ms, kind, uptime }) => {
                        uptime_ms = uptime.unwrap_or(uptime_ms);
                        self.lines.push(Line { offset, at_ms, uptime_ms, kind });
                    }
                    None if number == 1 => return Err(RecordingError::Foreign),
                    // The observer was killed while it wrote this line.
                    None if !is_whole => {
                        self.cut = Some(format!("the recording ends within line {number}"));
                        return Ok(());
                    }
                    None => return Err(RecordingError::Malformed { line: number }),
                }
            }
            if self.lines.len() == LINES_MAX {
                self.cut = Some(format!("the recording is longer than {LINES_MAX} messages: the rest is left out"));
                return Ok(());
            }
            offset += length as u64;
        }
    }

    /// Returns the number of messages.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the time of a message since the start of the recording, in milliseconds.
    pub(crate) fn at_ms(&self, at: usize) -> Option<u64> {
        self.lines.get(at).map(|line| line.at_ms.into())
    }

    /// Returns the uptime of the node at a message, in milliseconds.
    pub(crate) fn uptime_ms(&self, at: usize) -> u64 {
        self.lines.get(at).map_or(0, |line| line.uptime_ms)
    }

    /// Returns the first and the last uptime among the first `end` messages.
    pub(crate) fn span(&self, end: usize) -> (u64, u64) {
        let known = self.lines[..end.min(self.len())].iter().filter(|line| line.uptime_ms > 0);
        let mut known = known.map(|line| line.uptime_ms);
        let first = known.next().unwrap_or(0);
        (first, known.next_back().unwrap_or(first))
    }

    /// Returns the position after the last message at or before an uptime.
    pub(crate) fn position(&self, uptime_ms: u64) -> usize {
        // A recording over a restart of the node has an uptime that goes back: search from the end.
        let at = self.lines.iter().rposition(|line| line.uptime_ms > 0 && line.uptime_ms <= uptime_ms);
        at.map_or(0, |at| at + 1)
    }

    /// Reads a message.
    pub(crate) fn message(&mut self, at: usize) -> Option<Entry> {
        let line = self.lines.get(at)?;
        self.file.seek(SeekFrom::Start(line.offset)).ok()?;
        let mut text = String::new();
        (&mut self.file).take(LINE_MAX).read_line(&mut text).ok()?;
        Entry::parse(at + 1, text.trim()).ok()
    }

    /// Reads the state of the node after the first `end` messages: the newest message of each type.
    pub(crate) fn state(&mut self, end: usize) -> Vec<ServerMessage> {
        let end = end.min(self.len());
        let mut newest = [None; STATES.len()];
        for at in (end.saturating_sub(SEARCHED)..end).rev() {
            let kind = usize::from(self.lines[at].kind);
            if let Some(slot) = newest.get_mut(kind)
                && slot.is_none()
            {
                *slot = Some(at);
            }
            if newest.iter().all(Option::is_some) {
                break;
            }
        }
        newest.into_iter().flatten().filter_map(|at| self.message(at).and_then(Entry::server)).collect()
    }

    /// Returns the positions of frames among the first `end` messages, at least `step_ms` apart, oldest first.
    pub(crate) fn frames(&self, end: usize, step_ms: u64) -> Vec<usize> {
        let mut next = 0;
        let mut found = Vec::new();
        for (at, line) in self.lines[..end.min(self.len())].iter().enumerate() {
            if line.kind == TICK && line.uptime_ms >= next {
                next = line.uptime_ms + step_ms;
                found.push(at);
            }
        }
        found
    }
}

/// The information at the start of a line.
enum Head {
    Version(u64),
    Message { at_ms: u32, kind: u8, uptime: Option<u64> },
}

/// Reads the start of a line without its message. Returns `None` if it is not a line of a recording.
fn head(line: &str) -> Option<Head> {
    if let Some(rest) = line.strip_prefix("{\"rusm_recording\":") {
        return Some(Head::Version(number(rest)?));
    }
    if !line.ends_with('}') {
        return None;
    }
    let rest = line.strip_prefix("{\"at_ms\":")?;
    let at_ms = u32::try_from(number(rest)?).ok()?;
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let Some(message) = rest.strip_prefix(",\"message\":{\"type\":\"") else {
        let is_known = [",\"own\":", ",\"link\":", ",\"message\":"].iter().any(|field| rest.starts_with(field));
        return is_known.then_some(Head::Message { at_ms, kind: OTHER, uptime: None });
    };
    let name = message.split('"').next()?;
    let kind = STATES.iter().position(|state| *state == name).map_or(OTHER, |at| at as u8);
    let captured = (kind == TICK).then(|| message.split_once("\"captured_at_ns\":").and_then(|(_, ns)| number(ns)));
    Some(Head::Message { at_ms, kind, uptime: captured.flatten().map(|ns| ns / 1_000_000) })
}

fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use rusm_protocol::{Events, Frame};

    use super::*;
    use crate::replay::recording::header;

    fn recording(lines: &[String]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.concat().as_bytes()).unwrap();
        file
    }

    fn tick(second: u64) -> String {
        let frame = Frame { captured_at_ns: second * 1_000_000_000, seq: second, ..Frame::default() };
        let message = ServerMessage::Tick { frame: Box::new(frame) };
        Entry::message(Duration::from_millis(second * 1000 - 500), message).line() + "\n"
    }

    #[test]
    fn the_state_at_an_uptime_is_the_newest_message_of_each_type() {
        let events = ServerMessage::Events(Events { noted: 7, ..Events::default() });
        let events = Entry::message(Duration::from_millis(2_600), events).line() + "\n";
        let file = recording(&[header("kv") + "\n", tick(1), tick(2), tick(3), events, tick(4), tick(5)]);

        let mut index = Index::open(file.path()).unwrap();

        assert_eq!((index.len(), index.span(usize::MAX)), (6, (1_000, 5_000)));
        let at = index.position(4_500);
        let state = index.state(at);
        assert!(matches!(&state[0], ServerMessage::Tick { frame } if frame.seq == 4), "{state:?}");
        assert!(matches!(&state[1], ServerMessage::Events(events) if events.noted == 7));
        let before = index.position(2_000);
        assert_eq!(index.state(before).len(), 1);
        assert_eq!(index.frames(usize::MAX, 2_000).len(), 3);
    }

    #[test]
    fn a_file_that_was_cut_is_replayed_up_to_there_and_others_are_refused_in_one_line() {
        let cut = recording(&[header("kv") + "\n", tick(1), tick(2)[..40].to_owned()]);
        let index = Index::open(cut.path()).unwrap();
        assert_eq!((index.len(), index.cut.as_deref()), (1, Some("the recording ends within line 3")));

        for (lines, reason) in [
            (vec!["PK\u{3}\u{4}binary\n".to_owned()], "is not a recording of rusm-top"),
            (vec!["{\"rusm_recording\":99}\n".to_owned()], "version 99"),
            (vec![header("kv") + "\n", "nonsense\n".to_owned()], "line 2 of the recording is malformed"),
            (vec![header("kv") + "\n"], "is empty"),
            (vec![], "is empty"),
        ] {
            let file = recording(&lines);
            let error = Index::open(file.path()).unwrap_err();
            assert!(error.contains(reason) && !error.contains('\n'), "{error}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(Index::open(&dir.path().join("missing")).unwrap_err().contains("No such file"));
        let error = Index::open(Path::new("/dev/zero")).unwrap_err();
        assert!(error.ends_with("it is not a regular file"), "{error}");
    }
}
