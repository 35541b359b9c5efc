//! The Topics view: the contents of the topics, and the receivers of the topic under the cursor.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::{ReceiverInfo, TopicInfo};

use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

/// Age from which an unprocessed message is highlighted.
const OLD_MS: u64 = 5_000;

pub(crate) fn render(painter: &mut Painter<'_>, model: &Model) {
    let layout = layout::topics(model.size);
    if model.topics.newest.as_ref().is_none_or(|newest| newest.total == 0) {
        return topics(painter, layout::body(model.size).into(), model);
    }
    topics(painter, layout.topics.into(), model);
    receivers(painter, layout.receivers.into(), model);
}

type Columns<const N: usize> = [(String, Role); N];

fn dim_if_zero(count: u64, role: Role) -> Role {
    if count == 0 { Role::Dim } else { role }
}

fn short(count: u64, role: Role) -> (String, Role) {
    (format::short(count as f64), dim_if_zero(count, role))
}

fn rate(per_sec: Option<f64>) -> (String, Role) {
    per_sec.map_or_else(|| ("-".to_owned(), Role::Dim), |rate| (format::short(rate), Role::Text))
}

/// Draws a name at the left, and columns at the right end.
fn put<const N: usize>(
    painter: &mut Painter<'_>,
    area: Rect,
    at: u16,
    name: (&str, Role),
    columns: &Columns<N>,
    widths: [u16; N],
) {
    let theme = painter.theme;
    let taken: u16 = widths.iter().map(|width| width + 1).sum();
    let room = area.width.saturating_sub(taken + 2).min(48);
    let cut = painter::cut(name.0, room, theme);
    let mut spans = vec![Span::styled(format!(" {cut:<width$}", width = usize::from(room)), theme.style(name.1))];
    for ((text, role), width) in columns.iter().zip(widths) {
        let text = painter::cut(text, width, theme);
        spans.push(Span::styled(format!(" {text:>width$}", width = usize::from(width)), theme.style(*role)));
    }
    painter.line(area, at, &Line::from(spans));
}

const TOPIC_WIDTHS: [u16; 7] = [8, 8, 5, 9, 5, 7, 7];

fn topics(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.topics;
    let total = pane.newest.as_ref().map_or(0, |newest| newest.total);
    let order = format!(" by {} {} {} ", pane.sort.label(), theme.dot(), format::grouped(total));
    let right = Line::from(Span::styled(order, theme.style(Role::Dim)));
    let title = Line::from(Span::styled(" topics ", theme.style(Role::Accent)));
    let inner = painter.panel(area, &title, &right);
    if total == 0 {
        return if pane.newest.is_some() {
            painter.note(inner, "no topic on this node");
        } else {
            painter.missing(inner, "topics");
        };
    }
    let heading = ["PUBL/S", "HELD", "FULL%", "BYTES", "RECV", "WAITING", "DROPPED"];
    put(painter, inner, 0, ("TOPIC", Role::Dim), &heading.map(|word| (word.to_owned(), Role::Dim)), TOPIC_WIDTHS);
    for at in 0..inner.height.saturating_sub(1) {
        let position = pane.list.top + u64::from(at);
        if position >= total {
            break;
        }
        if let Some(topic) = pane.row(position) {
            let figures = topic_figures(topic, pane.published_per_sec(topic));
            put(painter, inner, at + 1, (&topic.name, Role::Strong), &figures, TOPIC_WIDTHS);
        } else {
            let dots = Span::styled(format!(" {}", theme.sign("⋯", "...")), theme.style(Role::Dim));
            painter.line(inner, at + 1, &Line::from(dots));
        }
        if position == pane.list.at {
            painter.select(painter::row(inner, at + 1));
        }
    }
}

fn topic_figures(topic: &TopicInfo, per_sec: Option<f64>) -> Columns<7> {
    let percent = full_percent(topic);
    let full = if percent >= 90.0 {
        Role::Bad
    } else if percent >= 50.0 {
        Role::Warn
    } else {
        Role::Dim
    };
    [
        rate(per_sec),
        short(topic.messages, Role::Text),
        (format!("{percent:.0}"), full),
        (format::bytes(topic.bytes), dim_if_zero(topic.bytes, Role::Text)),
        short(topic.subscriptions + topic.subscribers, Role::Text),
        short(topic.publishers_waiting, Role::Warn),
        short(topic.dropped_total, Role::Warn),
    ]
}

/// Returns how much of the tighter of its two bounds a topic uses, in percent.
fn full_percent(topic: &TopicInfo) -> f64 {
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    100.0 * share(topic.messages, topic.messages_max).max(share(topic.bytes, topic.bytes_max))
}

fn receivers(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let pane = &model.topics;
    let Some(topic) = pane.shown() else {
        painter.panel(area, &Line::default(), &Line::default());
        return;
    };
    let title = format!(" {} ", painter::cut(&topic.name, area.width / 2, theme));
    let right = format!(
        " {} of {} {} {} of {} ",
        format::short(topic.messages as f64),
        format::short(topic.messages_max as f64),
        theme.dot(),
        format::bytes(topic.bytes),
        format::bytes(topic.bytes_max)
    );
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let title = Line::from(Span::styled(title, theme.style(Role::Title)));
    let inner = painter.panel(area, &title, &right);
    if topic.receivers.is_empty() {
        return painter.note(inner, "no receivers of this topic");
    }
    let wide = inner.width >= 110;
    line(painter, inner, 0, wide, ("RECEIVER", Role::Dim), &HEADING.map(|word| (word.to_owned(), Role::Dim)));
    let rows = usize::from(inner.height.saturating_sub(1));
    // Reserve the last row for the number of receivers that do not fit.
    let fits = if topic.receivers.len() > rows { rows.saturating_sub(1) } else { rows };
    for (at, receiver) in (1..).zip(topic.receivers.iter().take(fits)) {
        let figures = receiver_figures(receiver, pane.received_per_sec(topic, receiver));
        line(painter, inner, at, wide, (&receiver_name(receiver), Role::Strong), &figures);
    }
    let described = topic.receivers.len().min(fits) as u64;
    let more = (topic.subscriptions + topic.subscribers).saturating_sub(described);
    if more > 0 && usize::from(inner.height) > fits + 1 {
        let text = format!(" {} more", format::grouped(more));
        painter.line(inner, fits as u16 + 1, &Line::from(Span::styled(text, theme.style(Role::Dim))));
    }
}

fn receiver_name(receiver: &ReceiverInfo) -> String {
    receiver.name.clone().unwrap_or_else(|| "subscriber".to_owned())
}

const HEADING: [&str; 11] =
    ["POLICY", "RECV/S", "BACKLOG", "OUT", "OLDEST", "RETRY", "DROPPED", "SLOWEST", "CONS", "EXPIRED", "DEAD"];
/// Widths of the columns. The last three are shown only on a wide screen.
const WIDTHS: [u16; 11] = [11, 7, 7, 5, 6, 6, 7, 12, 5, 7, 6];

fn line(painter: &mut Painter<'_>, area: Rect, at: u16, wide: bool, name: (&str, Role), columns: &Columns<11>) {
    if wide {
        return put(painter, area, at, name, columns, WIDTHS);
    }
    let few: [usize; 7] = [1, 2, 3, 4, 5, 6, 7];
    put(painter, area, at, name, &few.map(|position| columns[position].clone()), few.map(|position| WIDTHS[position]));
}

fn receiver_figures(receiver: &ReceiverInfo, per_sec: Option<f64>) -> Columns<11> {
    let old = if receiver.oldest_ms >= OLD_MS { Role::Warn } else { Role::Text };
    let oldest =
        if receiver.backlog + receiver.outstanding == 0 { "-".to_owned() } else { format::age(receiver.oldest_ms) };
    [
        (receiver.policy.clone(), Role::Dim),
        rate(per_sec),
        short(receiver.backlog, Role::Text),
        short(receiver.outstanding, Role::Text),
        (oldest, if receiver.backlog + receiver.outstanding == 0 { Role::Dim } else { old }),
        short(receiver.redelivered_total, Role::Warn),
        short(receiver.dropped_total, Role::Bad),
        (receiver.slowest.clone().unwrap_or_else(|| "-".to_owned()), Role::Text),
        short(receiver.consumers, Role::Text),
        short(receiver.expired_total, Role::Warn),
        short(receiver.dead_lettered_total, Role::Bad),
    ]
}
