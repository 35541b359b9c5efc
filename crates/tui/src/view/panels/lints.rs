//! The node's warnings (lints), above its events: kind, process, reason and age, and advice about the selected one.
//!
//! The badge in the header, the marks in the process table and the detail pane use the same roles.

use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use rusm_protocol::{Lint, LintInfo};

use crate::model::panes::lints::AROUND;
use crate::model::{Model, format, layout};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Returns the urgency of a warning.
pub(crate) fn role(lint: &LintInfo) -> Role {
    if lint.id == Lint::Stuck.id() { Role::Bad } else { Role::Warn }
}

/// Returns the number of warnings as a badge, if there are any.
pub(crate) fn badge(model: &Model, theme: Theme) -> Option<Span<'static>> {
    let count = model.lints.count(model.frame()?);
    let shown = model.lints.shown(model.frame());
    let role = shown.first().map_or(Role::Warn, |first| role(first));
    let text = if count == 1 { " 1 lint ".to_owned() } else { format!(" {} lints ", format::grouped(count)) };
    (count > 0).then(|| Span::styled(text, theme.style(role).add_modifier(Modifier::REVERSED)))
}

/// Returns the urgency of the warning about a process, if there is one.
pub(crate) fn mark(model: &Model, pid: &str) -> Option<Role> {
    model.lints.shown(model.frame()).into_iter().find(|lint| lint.pid == pid).map(role)
}

/// Draws the warnings, if there are any. Returns the remaining area.
pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) -> Rect {
    let theme = painter.theme;
    let shown = model.lints.shown(model.frame());
    let cursor = model.lints.cursor(&shown);
    let Some(selected) = shown.get(cursor) else { return area };
    let facts = facts(selected, area);
    let height = model.lints.panel_height(model.frame(), area.width, area.height);
    let rows = height.saturating_sub(AROUND + facts.len() as u16);
    let (mine, rest) = (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area });
    let title = Line::from(Span::styled(" lints ", theme.style(Role::Title)));
    let inner = painter::inset(painter.panel(mine, &title, &right(model, theme)));
    let why = if is_narrow(area) { "" } else { "why" };
    let heading = format!("{:>9}  {:<16} {:<17} {:<13} {why}", "since", "lint", "process", "name");
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let top = (cursor + 1).saturating_sub(rows.into());
    for (at, lint) in shown.iter().enumerate().skip(top).take(rows.into()) {
        let row = (at - top) as u16 + 1;
        painter.line(inner, row, &line(lint, inner.width, theme));
        if at == cursor {
            painter.select(painter::row(inner, row));
        }
    }
    for (at, (label, text)) in facts.into_iter().enumerate() {
        about(painter, inner, rows + 1 + at as u16, label, text);
    }
    rest
}

/// Returns true if the rows are too narrow for the reason, which is then shown below the list.
const fn is_narrow(area: Rect) -> bool {
    area.width < layout::WIDE
}

/// Returns the facts about the selected warning that are shown below the list.
fn facts(lint: &LintInfo, area: Rect) -> Vec<(&'static str, &str)> {
    let mut facts = Vec::with_capacity(3);
    if is_narrow(area) {
        facts.push(("now", lint.text.as_str()));
    }
    if let Some(known) = Lint::of_id(&lint.id) {
        facts.push(("means", known.explanation()));
        if area.height >= 16 {
            facts.push(("advice", known.advice()));
        }
    }
    facts
}

fn about(painter: &mut Painter<'_>, inner: Rect, at: u16, label: &str, text: &str) {
    let theme = painter.theme;
    let text = painter::cut(text, inner.width.saturating_sub(11), theme);
    let label = Span::styled(format!("{label:>9}  "), theme.style(Role::Dim));
    painter.line(inner, at, &Line::from(vec![label, Span::styled(text, theme.style(Role::Text))]));
}

/// Returns the hidden kinds and the total number of warnings, including those not listed.
fn right(model: &Model, theme: Theme) -> Line<'static> {
    let (count, listed) = (model.frame().map_or(0, |frame| model.lints.count(frame)), model.lints.shown(model.frame()));
    let mut text = format!(" {} in all ", format::grouped(count.max(listed.len() as u64)));
    let hidden = model.lints.hidden();
    if !hidden.is_empty() {
        text = format!(" hidden: {} {}{text}", hidden.join(", "), theme.dot());
    }
    Line::from(Span::styled(text, theme.style(Role::Dim)))
}

fn line(lint: &LintInfo, width: u16, theme: Theme) -> Line<'static> {
    let pid = if lint.pid.is_empty() { "the node" } else { lint.pid.as_str() };
    let left = if width < layout::WIDE - 4 { 0 } else { width - (11 + 17 + 18 + 14) };
    Line::from(vec![
        Span::styled(format!("{:>9}  ", format::moment(lint.since_ms)), theme.style(Role::Dim)),
        Span::styled(format!("{:<17}", painter::cut(&lint.id, 16, theme)), theme.style(role(lint))),
        Span::styled(format!("{:<18}", painter::cut(pid, 17, theme)), theme.style(Role::Text)),
        Span::styled(
            format!("{:<14}", painter::cut(lint.name.as_deref().unwrap_or_default(), 13, theme)),
            theme.style(Role::Strong),
        ),
        Span::styled(painter::cut(&lint.text, left, theme), theme.style(Role::Text)),
    ])
}
