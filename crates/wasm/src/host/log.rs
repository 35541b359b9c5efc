//! `rusm:runtime/log`: lines of guests in the node's log.
//!
//! ```text
//!   log, standard output, standard error ──▶ escaped, cut ──▶ budget of the guest ──▶ budget of all guests ──▶ log
//! ```
//!
//! Lines beyond a budget are counted, shown to observers, and reported with the guest's next line.

use std::time::Instant;

use rusm_text::escaped;

use crate::bindings::rusm::runtime::log::{Host, Level};
use crate::guest::guest_info::{GuestInfo, HostCall};
use crate::guest::state::GuestState;
use rusm_runtime::Pid;

/// Maximum length of a line after escaping, in bytes.
const LINE_MAX_BYTES: usize = 8 * 1024;
/// Number of bytes of a log line besides its text: time, level, target and pid, in the longer of both formats.
const LINE_OVERHEAD_BYTES: usize = 160;

/// Beginning of the line that the SDK for Rust logs for a panic, before it traps.
const PANIC: &str = "panicked at ";

/// Number of bytes of a text that can appear in a line, and of a character more, which shows that the text was cut.
pub(crate) const TEXT_MAX_BYTES: usize = LINE_MAX_BYTES + 4;

/// Writes a line of a guest to the log, or counts it.
pub(crate) fn write_line(info: &GuestInfo, pid: Pid, level: Level, text: &str) {
    let is_written = match level {
        Level::Error => tracing::enabled!(target: "rusm::guest", tracing::Level::ERROR),
        Level::Warn => tracing::enabled!(target: "rusm::guest", tracing::Level::WARN),
        Level::Info => tracing::enabled!(target: "rusm::guest", tracing::Level::INFO),
        Level::Debug => tracing::enabled!(target: "rusm::guest", tracing::Level::DEBUG),
    };
    if !is_written {
        return;
    }
    let text = printable(text);
    let module = &*info.module.name;
    let bytes = written_bytes(&text) + module.len() + LINE_OVERHEAD_BYTES;
    let Some(cut) = info.spend_log_line(Instant::now(), bytes) else { return };
    if cut != 0 {
        tracing::warn!(target: "rusm::guest", %pid, module, cut, "lines were truncated");
    }
    match level {
        Level::Error => tracing::error!(target: "rusm::guest", %pid, module, "{text}"),
        Level::Warn => tracing::warn!(target: "rusm::guest", %pid, module, "{text}"),
        Level::Info => tracing::info!(target: "rusm::guest", %pid, module, "{text}"),
        Level::Debug => tracing::debug!(target: "rusm::guest", %pid, module, "{text}"),
    }
}

/// Returns the largest number of bytes that the log writes for an escaped text: within quotes, it escapes some characters
/// again.
fn written_bytes(text: &str) -> usize {
    text.len() + text.bytes().filter(|byte| matches!(byte, b'"' | b'\\' | b'\t')).count()
}

/// Returns the text escaped, and shortened to the longest line.
fn printable(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(TEXT_MAX_BYTES)];
    escaped(text.trim_end_matches(['\r', '\n'])).within(LINE_MAX_BYTES).to_string()
}

impl Host for GuestState {
    fn line(&mut self, level: Level, text: String) {
        self.record_call(HostCall::Log);
        if level == Level::Error && text.starts_with(PANIC) {
            self.keep_panic(&text);
        }
        write_line(&self.info, self.ctx.pid(), level, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("red \u{1b}[31m\n"), "red \\u{1b}[31m");
        assert_eq!(printable("a\rb\tc"), "a\\rb\tc");
    }

    #[test]
    fn what_the_log_escapes_again_counts() {
        assert_eq!(written_bytes("plain"), 5);
        assert_eq!(written_bytes("a=\"\\\t"), 8);
    }

    #[test]
    fn a_line_is_cut_after_it_was_escaped() {
        for letter in ["é", "\u{1b}"] {
            let shown = printable(&letter.repeat(LINE_MAX_BYTES));
            assert!(
                shown.ends_with('…') && (LINE_MAX_BYTES - 4..=LINE_MAX_BYTES).contains(&shown.len()),
                "{}",
                shown.len()
            );
        }
        assert_eq!(printable(&"x".repeat(LINE_MAX_BYTES)).len(), LINE_MAX_BYTES);
    }
}
