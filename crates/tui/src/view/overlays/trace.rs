//! A trace: its events over time, its state, and what it left out.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::TraceEvent;

use crate::model::overlay::trace::scope_words;
use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Draws the trace over the body of the screen.
pub(super) fn render(painter: &mut Painter<'_>, model: &Model) {
    let theme = painter.theme;
    let pane = &model.trace;
    let Some((pid, scope)) = &pane.target else { return };
    let title = format!(" trace {pid} {} {} ", theme.dot(), scope_words(*scope));
    let title = Line::from(Span::styled(title, theme.style(Role::Title)));
    let inner = painter.cover(layout::body(model.size).into(), &title);
    let heading = format!("{:>12}  {:<15} {:<8} {:<15} {:>9}  {}", "AT", "PROCESS", "EVENT", "PEER", "", "MESSAGE");
    let heading = painter::cut(&heading, inner.width, theme);
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let rows = inner.height.saturating_sub(3);
    let events = pane.visible(rows);
    if events.is_empty() {
        let text = match (pane.state.is_some(), pane.filter.is_empty()) {
            (false, _) => "asking the node",
            (true, true) => "nothing has happened yet",
            (true, false) => "no event matches the filter",
        };
        painter.note(Rect { y: inner.y + 1, height: rows, ..inner }, text);
    }
    for (row, event) in events.into_iter().enumerate() {
        painter.line(inner, row as u16 + 1, &line(event, inner.width, theme));
    }
    let last = inner.height.saturating_sub(2);
    painter.line(inner, last, &state(model, theme));
    painter.line(inner, last + 1, &filter(model, theme));
}

fn line(event: &TraceEvent, width: u16, theme: Theme) -> Line<'static> {
    let at = format!("{:.6}", event.at_us as f64 / 1e6);
    let peer = event.peer.clone().unwrap_or_default();
    let (amount, text) = match (event.took_us, event.bytes) {
        (Some(took_us), _) => {
            let took = format::nanos((took_us * 1e3) as u64, theme.micro());
            (took, format!("then {}", event.state.as_deref().unwrap_or("unknown")))
        }
        (None, bytes) => {
            (bytes.map(format::bytes).unwrap_or_default(), event.message.as_deref().map(short_type).unwrap_or_default())
        }
    };
    let role = match event.kind.as_str() {
        "full" => Role::Bad,
        "poll" => Role::Dim,
        _ => Role::Accent,
    };
    let room = width.saturating_sub(14 + 16 + 9 + 16 + 11);
    Line::from(vec![
        Span::styled(format!("{at:>12}  "), theme.style(Role::Dim)),
        Span::styled(format!("{:<16}", painter::cut(&event.pid, 15, theme)), theme.style(Role::Text)),
        Span::styled(format!("{:<9}", painter::cut(&event.kind, 8, theme)), theme.style(role)),
        Span::styled(format!("{:<16}", painter::cut(&peer, 15, theme)), theme.style(Role::Text)),
        Span::styled(format!("{amount:>9}  "), theme.style(Role::Text)),
        Span::styled(painter::cut(&text, room, theme), theme.style(Role::Text)),
    ])
}

/// Returns the name of a type without the paths of modules.
fn short_type(name: &str) -> String {
    let mut short = String::new();
    let mut word = 0;
    for c in name.chars() {
        if c == ':' {
            short.truncate(word);
        } else {
            short.push(c);
            if !c.is_alphanumeric() && c != '_' {
                word = short.len();
            }
        }
    }
    short
}

/// Describes the trace in one line: whether it runs, and what it has left out.
fn state(model: &Model, theme: Theme) -> Line<'static> {
    let Some(state) = &model.trace.state else { return Line::default() };
    let dot = theme.dot();
    let phase = match state.end.as_deref() {
        None => format!("runs for {:.0} s more", (state.left_ms as f64 / 1e3).ceil()),
        Some("time") => "over: its time has passed".to_owned(),
        Some("stopped") => "stopped".to_owned(),
        Some("replaced") => "over: another observer has started a trace".to_owned(),
        Some(other) => format!("over: {other}"),
    };
    let processes = if state.processes == 1 {
        "1 process".to_owned()
    } else {
        format!("{} processes", format::grouped(state.processes))
    };
    let recorded = format!("{phase} {dot} {processes} {dot} {} events", format::grouped(state.recorded));
    let left_out = if state.left_out > 0 {
        format!(" {dot} {} left out, more than {} a second", format::grouped(state.left_out), state.per_sec)
    } else {
        String::new()
    };
    Line::from(vec![Span::styled(recorded, theme.style(Role::Dim)), Span::styled(left_out, theme.style(Role::Warn))])
}

/// Draws the filter and the position in the list.
fn filter(model: &Model, theme: Theme) -> Line<'static> {
    let pane = &model.trace;
    let text = match &pane.field {
        Some(field) => format!("filter: {}_", field.text()),
        None if pane.filter.is_empty() => String::new(),
        None => format!(
            "filter: {} {} {} events match",
            pane.filter,
            theme.dot(),
            format::grouped(pane.matching().len() as u64)
        ),
    };
    let back = match pane.back {
        0 => String::new(),
        back => format!("  {} newer below", format::grouped(back as u64)),
    };
    Line::from(vec![Span::styled(text, theme.style(Role::Accent)), Span::styled(back, theme.style(Role::Dim))])
}

#[cfg(test)]
mod tests {
    use super::short_type;

    #[test]
    fn types_are_shown_without_the_paths_of_modules() {
        assert_eq!(short_type("shop::orders::Order"), "Order");
        assert_eq!(
            short_type("rusm_runtime::mailbox::Request<(u64, alloc::string::String), ()>"),
            "Request<(u64, String), ()>"
        );
        assert_eq!(short_type("&'static str"), "&'static str");
    }
}
