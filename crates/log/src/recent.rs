//! The newest lines of the log, kept in memory for observers.
//!
//! ```text
//!   tracing event ──▶ level, target, pid, module, text ──▶ ring of 1,024 lines, at most 400 bytes of text each
//! ```
//!
//! A line is kept when its level is enabled, whether the log is written anywhere or not. It costs about as much as a
//! line that is written.

use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::io;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rusm_text::escaped;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::extra::ExtraLayer;
use crate::fields::write_value;
use crate::filter::FilterHandle;

/// Number of lines kept.
const LINES_KEPT: usize = 1024;
/// Maximum number of bytes of a line's text.
const TEXT_BYTES_MAX: usize = 400;
/// Maximum number of bytes of a pid and of a module.
const NAME_BYTES_MAX: usize = 64;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentLine {
    /// Number of the line, counted from 1.
    pub seq: u64,
    /// Time of the line.
    pub at: Instant,
    /// Level of the line.
    pub level: Level,
    /// Part of the program that wrote the line.
    pub target: String,
    /// Value of the field `pid`, if the line has one.
    pub pid: Option<String>,
    /// Value of the field `module`, if the line has one.
    pub module: Option<String>,
    /// Message and the other fields, escaped, at most 400 bytes.
    pub text: String,
}

/// The newest lines of the log; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RecentLines(Arc<Mutex<Ring>>);

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<RecentLine>,
    noted: u64,
}

impl RecentLines {
    /// Keeps lines in memory, with a further destination, without writing them. Returns the handle to their filter, too.
    ///
    /// # Errors
    /// If the program has a `tracing` subscriber already.
    pub fn install(filter: EnvFilter, extra: Option<ExtraLayer>) -> io::Result<(Self, FilterHandle)> {
        let recent = Self::default();
        let (layer, handle) = reload::Layer::new(filter);
        let subscriber = Registry::default().with(extra).with(layer).with(recent.clone());
        subscriber.try_init().map_err(io::Error::other)?;
        Ok((recent, FilterHandle::new(handle)))
    }

    /// Returns the number of lines kept since the program started.
    pub fn noted(&self) -> u64 {
        self.0.lock().noted
    }

    /// Returns the number of lines kept since the program started, and the newest lines, oldest first, at most `len`.
    pub fn newest(&self, len: usize) -> (u64, Vec<RecentLine>) {
        let ring = self.0.lock();
        let skipped = ring.lines.len().saturating_sub(len);
        (ring.noted, ring.lines.iter().skip(skipped).cloned().collect())
    }

    fn push(&self, mut line: RecentLine) {
        let mut ring = self.0.lock();
        ring.noted += 1;
        line.seq = ring.noted;
        let oldest = if ring.lines.len() == LINES_KEPT { ring.lines.pop_front() } else { None };
        ring.lines.push_back(line);
        drop(ring);
        drop(oldest);
    }
}

/// Target of the access log of servers. Its lines are not kept: they would displace all others.
const ACCESS_LOG: &str = "rusm::access";

impl<S: Subscriber> Layer<S> for RecentLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == ACCESS_LOG {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let text = format!("{}{}", fields.message, fields.others);
        let metadata = event.metadata();
        self.push(RecentLine {
            seq: 0,
            at: Instant::now(),
            level: *metadata.level(),
            target: fields.target.unwrap_or_else(|| metadata.target().to_owned()),
            pid: fields.pid,
            module: fields.module,
            text: escaped(text.trim()).within(TEXT_BYTES_MAX).to_string(),
        });
    }
}

/// The fields of an event, sorted by their use.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
    pid: Option<String>,
    module: Option<String>,
    target: Option<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            // An event of the `log` crate.
            "log.target" => self.target = Some(name(value)),
            "module" => self.module = Some(name(value)),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        match field.name() {
            "message" => _ = write!(self.message, "{value:?}"),
            "pid" => self.pid = Some(name(&format!("{value:?}"))),
            "module" => self.module = Some(name(&format!("{value:?}"))),
            other if other.starts_with("log.") => {}
            other => {
                _ = write!(self.others, " {other}=");
                _ = write_value(&mut self.others, &format!("{value:?}"), false);
            }
        }
    }
}

fn name(value: &str) -> String {
    escaped(value).within(NAME_BYTES_MAX).to_string()
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::with_default;

    use super::*;

    fn lines(write: impl FnOnce()) -> Vec<RecentLine> {
        let recent = RecentLines::default();
        with_default(Registry::default().with(recent.clone()), write);
        recent.newest(usize::MAX).1
    }

    #[test]
    fn a_line_has_its_process_and_its_module_apart_from_its_text() {
        let lines = lines(|| {
            tracing::info!(target: "rusm::guest", pid = %"<0.7.1>", module = "cart", "order {} is\npaid", 17);
            tracing::warn!(free_bytes = 9, reason = "disk full", "flush failed");
        });

        let [guest, node] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((guest.seq, guest.level, guest.target.as_str()), (1, Level::INFO, "rusm::guest"));
        assert_eq!((guest.pid.as_deref(), guest.module.as_deref()), (Some("<0.7.1>"), Some("cart")));
        assert_eq!(guest.text, "order 17 is\\npaid");
        assert_eq!(node.text, "flush failed free_bytes=9 reason=\"disk full\"");
        assert_eq!((node.seq, &node.pid), (2, &None));
    }

    #[test]
    fn lines_of_the_access_log_displace_no_others() {
        let lines = lines(|| {
            tracing::info!(target: "rusm::access", status = 200, "GET /");
            tracing::info!("started");
        });

        assert_eq!(lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["started"]);
    }

    #[test]
    fn the_newest_lines_are_kept_and_long_ones_cut() {
        let recent = RecentLines::default();
        with_default(Registry::default().with(recent.clone()), || {
            for number in 0..LINES_KEPT + 10 {
                tracing::info!("{number} {}", "x".repeat(9_000));
            }
        });

        let (noted, lines) = recent.newest(3);
        assert_eq!((noted, lines.len()), (LINES_KEPT as u64 + 10, 3));
        assert_eq!(lines.iter().map(|line| line.seq).collect::<Vec<_>>(), [1032, 1033, 1034]);
        assert!(lines.iter().all(|line| line.text.len() <= TEXT_BYTES_MAX));
        assert_eq!(recent.newest(usize::MAX).1.len(), LINES_KEPT);
    }
}
