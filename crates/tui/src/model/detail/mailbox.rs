//! The rows of a mailbox: its counts, its senders, its first messages, and the delays of its owner.

use rusm_protocol::{DelaysInfo, LatencySnapshot, MailboxInfo, ProcessDetail};

use crate::model::detail::row::{Rows, Tone, millis, or_dash};
use crate::model::format;

pub(super) fn counts(rows: &mut Rows, process: &ProcessDetail) {
    let (len, capacity) = (process.mailbox_len, process.mailbox_capacity);
    let of_capacity = match capacity {
        0 => format::grouped(len),
        capacity => format!("{} of {}", format::grouped(len), format::grouped(capacity)),
    };
    let tone = match len {
        0 => Tone::Text,
        len if capacity > 0 && len >= capacity => Tone::Bad,
        _ => Tone::Strong,
    };
    rows.fact("mailbox", of_capacity, tone);
    rows.fact("messages/s", or_dash(process.msgs_per_sec, format::short), Tone::Text);
    rows.fact("messages", format::grouped(process.messages), Tone::Text);
}

pub(super) fn in_depth(rows: &mut Rows, mailbox: &MailboxInfo) {
    if let Some(full_ms) = mailbox.full_ms {
        rows.fact("full for", format::age(full_ms), Tone::Bad);
    }
    if mailbox.waiting_senders > 0 {
        rows.fact("wait for room", format::grouped(mailbox.waiting_senders), Tone::Warn);
    }
    if let Some(oldest_ms) = mailbox.oldest_ms {
        let least = if mailbox.oldest_is_minimum { ">= " } else { "" };
        rows.fact("oldest", format!("{least}{}", millis(oldest_ms)), Tone::Strong);
    }
    if let (Some(into), Some(out)) = (mailbox.in_per_sec, mailbox.out_per_sec) {
        rows.fact("in/s  out/s", format!("{}  {}", format::short(into), format::short(out)), Tone::Text);
    }
    if !mailbox.senders.is_empty() {
        rows.head("senders");
        for sender in &mailbox.senders {
            let share = format::percent(sender.pct);
            match &sender.process {
                Some(process) => rows.link(&share, process),
                None => rows.fact(&share, "outside", Tone::Text),
            }
        }
        let others = mailbox.senders_total.saturating_sub(mailbox.senders.len() as u64);
        if others > 0 {
            rows.fact("others", format::grouped(others), Tone::Dim);
        }
        let sampled = format!("{} of {}", format::grouped(mailbox.sampled), format::grouped(mailbox.seen));
        rows.fact("noted", sampled, Tone::Dim);
    }
    let Some(preview) = mailbox.preview.as_ref().filter(|preview| !preview.is_empty()) else { return };
    rows.head("next messages");
    for message in preview {
        let bytes = if message.bytes > 0 { format::bytes(message.bytes) } else { String::new() };
        match &message.value {
            Some(value) => rows.fact(short_type(&message.kind), value.clone(), Tone::Text),
            None => rows.fact(short_type(&message.kind), bytes, Tone::Dim),
        }
    }
    if let Some(age_ms) = mailbox.preview_age_ms.filter(|ms| *ms >= 2000) {
        rows.fact("seen", format!("{} ago", format::age(age_ms)), Tone::Dim);
    }
}

/// Returns the last segment of a path of Rust.
fn short_type(name: &str) -> &str {
    let path = name.split('<').next().unwrap_or(name);
    let start = path.rfind("::").map_or(0, |at| at + 2);
    &name[start..]
}

pub(super) fn delays(rows: &mut Rows, delays: &DelaysInfo, micro: &str) {
    rows.head("delays p50 p99 max");
    for (label, of) in [("ready", delays.scheduling), ("poll", delays.poll), ("handled", delays.handling)] {
        rows.fact(label, percentiles(of, micro), Tone::Text);
    }
    let count = format::grouped(delays.scheduling.count.max(delays.poll.count));
    rows.fact("samples", count, Tone::Dim);
}

fn percentiles(latency: LatencySnapshot, micro: &str) -> String {
    if latency.count == 0 {
        return "-".to_owned();
    }
    [latency.p50_ns, latency.p99_ns, latency.max_ns].map(|ns| format::nanos(ns, micro)).join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_shown_by_its_last_segment() {
        assert_eq!(short_type("shop::orders::Order"), "Order");
        assert_eq!(short_type("alloc::vec::Vec<shop::Order>"), "Vec<shop::Order>");
        assert_eq!(short_type("u64"), "u64");
    }
}
