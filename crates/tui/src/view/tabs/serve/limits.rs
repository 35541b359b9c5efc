//! The limits of servers that clients have hit: a panel, and one line for narrow screens.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rusm_protocol::LimitInfo;

use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Returns the limits that were hit most often, for a narrow screen.
pub(super) fn line(hit: &[&LimitInfo], theme: Theme) -> Line<'static> {
    let Some(most) = hit.first() else { return Line::default() };
    let more = if hit.len() > 1 { format!(" +{}", hit.len() - 1) } else { String::new() };
    Line::from(vec![
        Span::styled("limits ", theme.style(Role::Dim)),
        Span::styled(format!("{} {}", most.name, format::short(most.hits_total as f64)), theme.style(Role::Warn)),
        Span::styled(more, theme.style(Role::Dim)),
    ])
}

pub(super) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    let theme = painter.theme;
    let title = Line::from(Span::styled(" limits hit ", theme.style(Role::Title)));
    let hit = model.serve.limits_hit();
    let of = model.serve.newest.as_ref().map_or(0, |newest| newest.limits.len());
    let right = if of > 0 { format!(" {} of {of} ", hit.len()) } else { String::new() };
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    if hit.is_empty() {
        return painter.note(inner, if of > 0 { "no client has hit a limit" } else { "" });
    }
    let row = |cells: [&str; 4], roles: [Role; 4]| {
        let room = usize::from(inner.width.saturating_sub(31));
        let texts = [
            format!("{:<room$}", painter::cut(cells[0], room as u16, theme)),
            format!(" {:>9}", cells[1]),
            format!(" {:>8}", cells[2]),
            format!(" {:>9}", cells[3]),
        ];
        Line::from(
            texts.into_iter().zip(roles).map(|(text, role)| Span::styled(text, theme.style(role))).collect::<Vec<_>>(),
        )
    };
    painter.line(inner, 0, &row(["LIMIT", "BOUND", "STATUS", "HITS"], [Role::Dim; 4]));
    for (at, limit) in (1..inner.height).zip(hit) {
        let status = limit.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
        let hits = format::count_within(limit.hits_total, 9);
        let cells = [limit.name.as_str(), &bound(limit), &status, &hits];
        painter.line(inner, at, &row(cells, [Role::Strong, Role::Dim, Role::Text, Role::Warn]));
    }
}

fn bound(limit: &LimitInfo) -> String {
    match (limit.count, limit.bytes, limit.ms) {
        (Some(count), ..) => format::count_within(count, 9),
        (_, Some(bytes), _) => format::bytes(bytes),
        (_, _, Some(ms)) => format::age(ms),
        _ => "-".to_owned(),
    }
}
