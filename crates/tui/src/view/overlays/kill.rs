//! The confirmation before processes are ended: the reason, and what their end means to others.

use ratatui::text::{Line, Span};
use rusm_protocol::KillReason;

use super::text::keys_line;
use crate::model::input::keys::Context;
use crate::model::input::line_edit::LineEdit;
use crate::model::overlay::Overlay;
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::Role;

pub(super) fn render(painter: &mut Painter<'_>, model: &Model, overlay: &Overlay) {
    match overlay {
        Overlay::Kill { pid, name, reason, typed, words } => {
            let name = if name.is_empty() { String::new() } else { format!(" {name}") };
            let effect = effect(model, pid, typed);
            question(painter, &format!("{pid}{name}"), *reason, words.as_ref(), &effect, true);
        }
        Overlay::KillAll { filter, matched, reason } => {
            let subject = format!("all {} of {filter}", format::grouped(*matched));
            question(painter, &subject, *reason, None, &[], false);
        }
        _ => {}
    }
}

/// Draws the confirmation before processes are ended.
fn question(
    painter: &mut Painter<'_>,
    subject: &str,
    reason: KillReason,
    words: Option<&LineEdit>,
    effect: &[(String, Role)],
    is_one: bool,
) {
    let theme = painter.theme;
    let title = Line::from(format!(" end {subject}? "));
    let width = (title.width() as u16 + 8).clamp(58, 70);
    let width = effect.iter().map(|(text, _)| painter::width(text) + 4).max().unwrap_or(0).max(width).min(74);
    let below = effect.len() as u16;
    let inner = painter.popup(width, 7 + below, &title);
    let choice = |this: KillReason, word: &'static str| {
        let chosen = this == reason;
        let sign = if chosen { theme.sign("◉ ", "(*) ") } else { theme.sign("○ ", "( ) ") };
        let role = if chosen { Role::Accent } else { Role::Dim };
        Span::styled(format!("{sign}{word}   "), theme.style(role))
    };
    let mut reasons = vec![
        Span::styled("reason   ", theme.style(Role::Dim)),
        choice(KillReason::Shutdown, "shutdown"),
        choice(KillReason::Kill, "kill"),
    ];
    if is_one {
        reasons.push(choice(KillReason::Error, "own words"));
    }
    painter.line(inner, 1, &Line::from(reasons));
    let meaning = match reason {
        KillReason::Shutdown => "the process can trap it",
        KillReason::Kill => "cannot be trapped",
        KillReason::Error => "an abnormal end with a text; the process can trap it",
    };
    let (meaning, role) = match words {
        Some(words) => {
            let before: String = words.text().chars().take(words.cursor()).collect();
            let x = inner.x + (9 + painter::width(&before)).min(inner.width.saturating_sub(1));
            painter.cursor = Some((x, inner.y + 2));
            (words.text(), Role::Strong)
        }
        None => (meaning.to_owned(), Role::Dim),
    };
    painter.line(inner, 2, &Line::from(Span::styled(format!("         {meaning}"), theme.style(role))));
    for (at, (text, role)) in (3..).zip(effect) {
        let text = painter::cut(text, inner.width, theme);
        painter.line(inner, at, &Line::from(Span::styled(text, theme.style(*role))));
    }
    let keys = keys_line(if words.is_some() { Context::KillWords } else { Context::Kill }, painter);
    painter.line(inner, 4 + below, &keys);
}

/// Shows the effects of the end of a process: processes that end with it, that learn of it, or that start it again.
fn effect(model: &Model, pid: &str, typed: &str) -> Vec<(String, Role)> {
    let Some(victim) = model.victim.as_ref().filter(|victim| victim.pid == pid) else {
        return vec![("counting what ends with it".to_owned(), Role::Dim)];
    };
    let mut lines = Vec::new();
    if let Some(reach) = &victim.reach {
        let least = if reach.is_more { "at least " } else { "" };
        lines.push(match reach.ends {
            0 => ("no other process ends with it".to_owned(), Role::Text),
            1 => ("1 linked process ends with it".to_owned(), Role::Warn),
            ends => (format!("{least}{} linked processes end with it", format::grouped(ends)), Role::Bad),
        });
        if reach.told > 0 {
            lines.push((format!("{} others learn of it", format::grouped(reach.told)), Role::Text));
        }
    }
    lines.push(match &victim.supervised {
        Some(info) => {
            let name = info.supervisor.name.as_ref().unwrap_or(&info.supervisor.pid);
            let text = match info.restart.as_str() {
                "permanent" => format!("{name} restarts it: {} of {} used", info.budget.used, info.budget.allowed),
                "transient" => {
                    format!("{name} restarts it if killed: {} of {} used", info.budget.used, info.budget.allowed)
                }
                _ => format!("{name} does not restart it"),
            };
            (text, Role::Text)
        }
        None => ("no supervisor restarts it".to_owned(), Role::Dim),
    });
    if let Some(ends) = victim.reach.as_ref().map(|reach| reach.ends).filter(|ends| *ends > 10) {
        lines.push((format!("type {ends} to confirm: {typed}"), Role::Accent));
    }
    lines
}
