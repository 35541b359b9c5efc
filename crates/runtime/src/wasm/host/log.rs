//! `rusm:runtime/log`: lines of guests in the node's log.
//!
//! A guest gets a budget of lines for each second; what is beyond it is counted, and told with the next line.

use std::time::Instant;

use crate::Pid;
use crate::wasm::LineBudget;
use crate::wasm::bindings::rusm::runtime::log::{Host, Level};
use crate::wasm::state::State;
use crate::wasm::vitals::HostCall;

/// Lines that a guest may write in one second.
const LINES_PER_SEC: u32 = 1_000;
/// Bytes of a line that are shown.
const LINE_MAX_BYTES: usize = 16 * 1024;

/// The log of one guest.
pub(crate) struct GuestLog {
    budget: LineBudget,
}

impl Default for GuestLog {
    fn default() -> Self {
        Self { budget: LineBudget::per_sec(LINES_PER_SEC) }
    }
}

impl GuestLog {
    /// Writes a line of a guest, or counts it.
    pub(crate) fn write(&mut self, pid: Pid, module: &str, level: Level, text: &str) {
        let Some(cut) = self.budget.spend(Instant::now()) else { return };
        let text = printable(text);
        if cut != 0 {
            tracing::warn!(target: "rusm::guest", %pid, module, cut, "lines were cut");
        }
        match level {
            Level::Error => tracing::error!(target: "rusm::guest", %pid, module, "{text}"),
            Level::Warn => tracing::warn!(target: "rusm::guest", %pid, module, "{text}"),
            Level::Info => tracing::info!(target: "rusm::guest", %pid, module, "{text}"),
            Level::Debug => tracing::debug!(target: "rusm::guest", %pid, module, "{text}"),
        }
    }
}

/// The text with control characters shown, cut to the longest line.
fn printable(text: &str) -> String {
    let end = text.floor_char_boundary(LINE_MAX_BYTES);
    let mut shown = String::with_capacity(end);
    for character in text[..end].trim_end_matches(['\r', '\n']).chars() {
        if character.is_control() && character != '\t' {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if end < text.len() {
        shown.push('…');
    }
    shown
}

impl Host for State {
    fn line(&mut self, level: Level, text: String) {
        self.asks(HostCall::Log);
        self.lines.write(self.ctx.pid(), &self.vitals.module.name, level, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("red \u{1b}[31m\n"), "red \\u{1b}[31m");
        assert_eq!(printable("a\rb\tc"), "a\\rb\tc");
        assert_eq!(printable(&"é".repeat(LINE_MAX_BYTES)).len(), LINE_MAX_BYTES + '…'.len_utf8());
    }
}
