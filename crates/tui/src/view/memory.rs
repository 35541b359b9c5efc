//! Where the node's memory is.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::{Model, format};
use crate::view::paint;
use crate::view::theme::{Role, Theme};

/// Cells of a label, and of a size.
const LABEL: usize = 15;
const VALUE: usize = 9;

pub(crate) fn render(frame: &mut Frame, area: Rect, model: &Model) {
    if area.height < 3 {
        return;
    }
    let theme = Theme::of(model.look);
    let title = Line::from(Span::styled(" memory ", theme.style(Role::Title)));
    let Some(now) = model.frame.as_deref() else {
        paint::panel(frame, area, theme, &title, &Line::default());
        return;
    };
    let memory = now.observer.memory;
    let limit = format!(" of {} ", format::bytes(memory.limit_bytes));
    let right = if memory.limit_bytes > 0 { limit } else { String::new() };
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let inner = paint::inset(paint::panel(frame, area, theme, &title, &right));
    let known = memory.control_block_bytes + memory.future_bytes + memory.mailbox_bytes;
    let bar_cells = inner.width.saturating_sub((LABEL + VALUE + 9) as u16);
    let whole = memory.rss_bytes.max(known).max(1) as f64;
    let share = if memory.limit_bytes > 0 { memory.rss_bytes as f64 / memory.limit_bytes as f64 } else { 0.0 };
    let mut spans = amount("resident", memory.rss_bytes, theme, Role::Strong);
    spans.extend(paint::bar(theme, bar_cells, share, |place| theme.heat(place)));
    spans.push(Span::styled(format!("{:>8}", format::percent(share * 100.0)), theme.style(Role::Text)));
    paint::line(frame, inner, 0, &Line::from(spans));
    let parts = [
        ("control blocks", memory.control_block_bytes),
        ("futures", memory.future_bytes),
        ("mailboxes", memory.mailbox_bytes),
        ("the rest", memory.rss_bytes.saturating_sub(known)),
    ];
    for (at, (label, bytes)) in parts.into_iter().enumerate() {
        let share = bytes as f64 / whole;
        let mut spans = amount(label, bytes, theme, Role::Text);
        spans.extend(paint::bar(theme, bar_cells, share, |_| theme.style(Role::Store)));
        spans.push(Span::styled(format!("{:>8}", format::percent(share * 100.0)), theme.style(Role::Dim)));
        paint::line(frame, inner, at as u16 + 2, &Line::from(spans));
    }
    let processes = now.observer.process_count;
    if processes > 0 && inner.height > 7 {
        let each = Span::styled(format::bytes(now.observer.total_memory_bytes / processes), theme.style(Role::Text));
        paint::labelled(frame, inner, inner.height - 2, theme, "each process, on average", &Line::from(each));
        let all = Span::styled(format::bytes(now.observer.total_memory_bytes), theme.style(Role::Text));
        paint::labelled(frame, inner, inner.height - 1, theme, "all processes", &Line::from(all));
    }
}

fn amount(label: &str, bytes: u64, theme: Theme, role: Role) -> Vec<Span<'static>> {
    vec![
        Span::styled(format!("{label:<LABEL$}"), theme.style(Role::Dim)),
        Span::styled(format!("{:>VALUE$} ", format::bytes(bytes)), theme.style(role)),
    ]
}
