//! The rows of a process beside its table: those that answer most in little room, without titles of sections.

use crate::model::detail::row::{Row, Tone};

/// Sections that need the whole screen.
const FULL_ONLY: [&str; 5] = ["next messages", "earlier ends", "links", "monitors", "monitored by"];
/// Labels of the rows that are left out while the pane has no room, the least useful first.
const LEAST_USEFUL: [&str; 13] = [
    "noted",
    "samples",
    "others",
    "reductions",
    "messages",
    "control block",
    "future",
    "label",
    "busy time",
    "exit signals",
    "poll",
    "runs",
    "kind",
];
/// Number of rows from which a pane has room for several senders and functions.
const ROOMY: usize = 24;

/// Chooses the rows for a pane that has room for `room` of them.
pub(crate) fn beside(rows: Vec<Row>, room: usize) -> Vec<Row> {
    let (senders_max, frames_max) = if room >= ROOMY { (4, 6) } else { (1, 1) };
    let (mut section, mut senders, mut frames) = ("", 0, 0);
    let mut chosen = Vec::with_capacity(rows.len());
    for mut row in rows {
        if let Some(head) = row.head {
            section = head;
            // Without the title, the three figures of a delay have no names.
            if let Some(names) = head.strip_prefix("delays ") {
                chosen.push(Row::fact("delays", &names.replace(' ', "  "), Tone::Dim));
            }
            continue;
        }
        if FULL_ONLY.contains(&section) {
            continue;
        }
        if section == "backtrace" {
            frames += 1;
            if frames > frames_max {
                continue;
            }
        }
        if section == "senders" && row.label.ends_with('%') {
            senders += 1;
            if senders > senders_max {
                continue;
            }
            row.label = format!("from {}", row.label);
        }
        chosen.push(row);
    }
    for label in LEAST_USEFUL {
        if chosen.len() <= room {
            break;
        }
        chosen.retain(|row| row.label != label);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let mut rows = vec![Row::title("mailbox"), Row::fact("mailbox", "7", Tone::Text), Row::title("senders")];
        rows.extend((0..6).map(|n| Row::fact(&format!("{n} %"), &format!("<0.{n}.1>"), Tone::Text)));
        rows.extend([Row::fact("others", "56", Tone::Dim), Row::fact("noted", "9 of 90", Tone::Dim)]);
        rows.extend([Row::title("next messages"), Row::fact("Order", "", Tone::Dim)]);
        rows.extend([Row::title("delays p50 p99 max"), Row::fact("handled", "1 2 3", Tone::Text)]);
        rows
    }

    fn labels(room: usize) -> Vec<String> {
        beside(rows(), room).into_iter().map(|row| row.label).collect()
    }

    #[test]
    fn the_most_frequent_sender_is_shown_also_where_room_is_scarce() {
        assert_eq!(
            labels(30),
            ["mailbox", "from 0 %", "from 1 %", "from 2 %", "from 3 %", "others", "noted", "delays", "handled"]
        );
        assert_eq!(labels(5), ["mailbox", "from 0 %", "others", "delays", "handled"]);
        assert_eq!(labels(4), ["mailbox", "from 0 %", "delays", "handled"]);
    }
}
