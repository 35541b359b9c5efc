//! The recording of a console, as kept in memory; answers requests for it.
//!
//! It knows nothing of the views that are recorded, so the state of the node can hold it.

use std::time::{Duration, Instant};

use rusm_protocol::{History, Past, SERVER_MESSAGE_MAX_BYTES, ServerMessage, encode};

use super::figures::Figures;
use super::kind;
use super::ring::Ring;
use super::top_rows::TopRows;
use crate::config::RecorderConfig;

/// Time for which frames are kept at that rate.
const FRAMES_SPAN: Duration = Duration::from_mins(1);
/// Largest share of the memory that frames at that rate may take, as a divisor.
const FRAMES_PART: usize = 8;
/// Time over which the cost is measured.
const COST_SPAN: Duration = Duration::from_secs(5);

/// The recording of a console.
pub(crate) struct Recording {
    config: RecorderConfig,
    pub(super) instants: Ring,
    pub(super) frames: Ring,
    pub(super) figures: Figures,
    pub(super) top_rows: TopRows,
    pub(super) cost: Cost,
}

/// CPU time of recording.
#[derive(Debug, Default)]
pub(super) struct Cost {
    since: Option<Instant>,
    spent: Duration,
    pct: f64,
}

impl Cost {
    /// Adds the cost of a tick.
    pub(super) fn add(&mut self, now: Instant, cost: Duration) {
        self.spent += cost;
        let since = *self.since.get_or_insert(now);
        let span = now - since;
        if span >= COST_SPAN {
            self.pct = (self.spent.as_secs_f64() / span.as_secs_f64() * 1e5).round() / 1e3;
            *self = Self { since: Some(now), spent: Duration::ZERO, pct: self.pct };
        }
    }
}

impl Recording {
    pub(crate) fn new(config: RecorderConfig) -> Self {
        let memory = if config.is_on() { config.memory_bytes } else { 0 };
        let (frames, counters) = (memory / FRAMES_PART, memory * 3 / 8);
        Self {
            config,
            instants: Ring::new(config.span.as_millis() as u64, memory - frames - counters),
            frames: Ring::new(FRAMES_SPAN.min(config.span).as_millis() as u64, frames),
            figures: Figures::default(),
            top_rows: TopRows::new(counters),
            cost: Cost::default(),
        }
    }

    /// Returns true if anything is recorded.
    pub(crate) const fn is_on(&self) -> bool {
        self.config.is_on()
    }

    /// Returns the memory that the recorder takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.instants.bytes() + self.frames.bytes() + self.figures.bytes() + self.top_rows.bytes()
    }

    /// Returns the encoded answer to a request for an instant.
    pub(crate) fn past(&self, id: u32, at_ms: u64) -> String {
        let Some((found_ms, mut messages)) = self.instants.seek(at_ms) else {
            let refusal = if self.config.is_on() {
                "nothing is recorded yet"
            } else {
                "this node records nothing: set recorder.span"
            };
            return encode(&ServerMessage::Past(Past { id, refusal: Some(refusal.to_owned()), ..Past::default() }));
        };
        let mut found_ms = found_ms;
        // Over the last minute, the frame may be newer than the other views.
        if let Some((frame_ms, frame)) = self.frames.seek(at_ms).filter(|(ms, _)| *ms > found_ms && *ms <= at_ms) {
            found_ms = frame_ms;
            messages.retain(|(kind, _)| *kind != kind::TICK);
            messages.splice(0..0, frame);
        }
        let newest = [self.instants.span(), self.frames.span()].into_iter().flatten().map(|(_, newest)| newest).max();
        let oldest_ms = self.instants.span().map_or(found_ms, |(oldest, _)| oldest);
        let newest_ms = newest.unwrap_or(found_ms);
        let (memory_bytes, cost_pct) = (self.bytes() as u64, self.cost.pct);
        let past = Past { id, at_ms: found_ms, oldest_ms, newest_ms, memory_bytes, cost_pct, ..Past::default() };
        let head = encode(&ServerMessage::Past(past));
        with_messages(&head, messages.iter().map(|(_, text)| text.as_str()))
    }

    /// Returns the answer to a request for figures.
    pub(crate) fn history(&self, id: u32) -> History {
        self.figures.history(id)
    }
}

/// Puts encoded messages into an encoded `past` without any.
fn with_messages<'a>(head: &str, messages: impl Iterator<Item = &'a str>) -> String {
    let (before, after) = head.split_once("\"messages\":[]").unwrap_or((head, ""));
    let mut out = format!("{before}\"messages\":[");
    let mut is_first = true;
    for text in messages {
        if out.len() + text.len() + after.len() + 2 > SERVER_MESSAGE_MAX_BYTES {
            break;
        }
        if !is_first {
            out.push(',');
        }
        is_first = false;
        out.push_str(text);
    }
    out.push(']');
    out.push_str(after);
    out
}
