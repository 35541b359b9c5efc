//! Memory usage of the node.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Width of a label and of a size, in cells.
const LABEL: usize = 15;
const VALUE: usize = 9;

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if area.height < 3 {
        return;
    }
    let theme = painter.theme;
    let title = Line::from(Span::styled(" memory ", theme.style(Role::Title)));
    let Some(now) = model.frame.as_deref() else {
        painter.panel(area, &title, &Line::default());
        return;
    };
    let memory = now.observer.memory;
    let limit = format!(" of {} ", format::bytes(memory.limit_bytes));
    let right = if memory.limit_bytes > 0 { limit } else { String::new() };
    let right = Line::from(Span::styled(right, theme.style(Role::Dim)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    let known = memory.control_block_bytes + memory.future_bytes + memory.mailbox_bytes;
    let bar_cells = inner.width.saturating_sub((LABEL + VALUE + 9) as u16);
    let whole = memory.rss_bytes.max(known).max(1) as f64;
    let share = if memory.limit_bytes > 0 { memory.rss_bytes as f64 / memory.limit_bytes as f64 } else { 0.0 };
    let mut spans = amount("resident", memory.rss_bytes, theme, Role::Strong);
    spans.extend(painter::bar(theme, bar_cells, share, |position| theme.heat(position)));
    spans.push(Span::styled(format!("{:>8}", format::percent(share * 100.0)), theme.style(Role::Text)));
    painter.line(inner, 0, &Line::from(spans));
    let parts = [
        ("control blocks", memory.control_block_bytes, false),
        ("futures", memory.future_bytes, false),
        ("mailboxes", memory.mailbox_bytes, memory.mailboxes_full),
        ("the rest", memory.rss_bytes.saturating_sub(known), false),
    ];
    for (at, (label, bytes, is_full)) in parts.into_iter().enumerate() {
        let share = bytes as f64 / whole;
        let mut spans = amount(label, bytes, theme, if is_full { Role::Bad } else { Role::Text });
        spans.extend(painter::bar(theme, bar_cells, share, |_| theme.style(Role::Store)));
        let (percent, role) =
            if is_full { ("full".to_owned(), Role::Bad) } else { (format::percent(share * 100.0), Role::Dim) };
        spans.push(Span::styled(format!("{percent:>8}"), theme.style(role)));
        painter.line(inner, at as u16 + 2, &Line::from(spans));
    }
    let processes = now.observer.process_count;
    if memory.mailbox_limit_bytes > 0 && inner.height > 8 {
        let mut spans = vec![Span::styled(format::bytes(memory.mailbox_limit_bytes), theme.style(Role::Text))];
        if memory.mailboxes_filled_total > 0 {
            let times = format!("  full {} times", format::grouped(memory.mailboxes_filled_total));
            spans.push(Span::styled(times, theme.style(Role::Warn)));
        }
        painter.labelled(inner, inner.height - 3, "mailboxes, at most", &Line::from(spans));
    }
    if processes > 0 && inner.height > 7 {
        let each = Span::styled(format::bytes(now.observer.total_memory_bytes / processes), theme.style(Role::Text));
        painter.labelled(inner, inner.height - 2, "each process, on average", &Line::from(each));
        let all = Span::styled(format::bytes(now.observer.total_memory_bytes), theme.style(Role::Text));
        painter.labelled(inner, inner.height - 1, "all processes", &Line::from(all));
    }
}

fn amount(label: &str, bytes: u64, theme: Theme, role: Role) -> Vec<Span<'static>> {
    vec![
        Span::styled(format!("{label:<LABEL$}"), theme.style(Role::Dim)),
        Span::styled(format!("{:>VALUE$} ", format::bytes(bytes)), theme.style(role)),
    ]
}
