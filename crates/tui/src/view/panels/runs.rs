//! The runs since this observer was started, newest first, each compared with the previous one.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::model::panes::bench::RunRecord;
use crate::model::{Model, format};
use crate::view::painter::{self, Painter};
use crate::view::theme::{Role, Theme};

/// Changes below this share are noise of a single run.
const NOISE: f64 = 0.03;

pub(crate) fn render(painter: &mut Painter<'_>, area: Rect, model: &Model) {
    if area.height < 4 {
        return;
    }
    let theme = painter.theme;
    let title = Line::from(Span::styled(" runs ", theme.style(Role::Title)));
    let right = Line::from(Span::styled(" since this observer started ", theme.style(Role::Dim)));
    let inner = painter::inset(painter.panel(area, &title, &right));
    if model.bench.runs.is_empty() {
        return painter.note(inner, "no runs yet");
    }
    let heading = format!(
        "{:>3}  {:<18}{:<10}{:>7}{:>9}{:>10}{:>10}{:>8}{:>9}",
        "#", "scenario", "profile", "time", "ops/s", "p50", "p99", "errors", "change"
    );
    painter.line(inner, 0, &Line::from(Span::styled(heading, theme.style(Role::Dim))));
    let room = usize::from(inner.height.saturating_sub(1));
    for (at, run) in model.bench.runs.iter().rev().take(room).enumerate() {
        painter.line(inner, at as u16 + 1, &line(run, model, theme));
    }
}

fn line(run: &RunRecord, model: &Model, theme: Theme) -> Line<'static> {
    let micro = theme.micro();
    let figures = format!(
        "{:>7}{:>9}{:>10}{:>10}",
        format::clock(run.run_ms),
        format::short(run.ops_per_sec),
        format::nanos(run.latency.p50_ns, micro),
        format::nanos(run.latency.p99_ns, micro),
    );
    let errors = if run.errors_total > 0 { Role::Bad } else { Role::Dim };
    let (change, change_role) = change(run, model);
    Line::from(vec![
        Span::styled(format!("{:>3}  ", run.run_id), theme.style(Role::Dim)),
        Span::styled(format!("{:<18}", painter::cut(&run.scenario, 17, theme)), theme.style(Role::Strong)),
        Span::styled(format!("{:<10}", painter::cut(&run.profile, 9, theme)), theme.style(Role::Text)),
        Span::styled(figures, theme.style(Role::Text)),
        Span::styled(format!("{:>8}", format::short(run.errors_total as f64)), theme.style(errors)),
        Span::styled(format!("{change:>9}"), theme.style(change_role)),
    ])
}

fn change(run: &RunRecord, model: &Model) -> (String, Role) {
    if run.failed {
        return ("failed".to_owned(), Role::Bad);
    }
    let Some(before) = model.bench.previous(run).filter(|before| *before > 0.0) else {
        return ("-".to_owned(), Role::Dim);
    };
    let share = run.ops_per_sec / before - 1.0;
    let role = match share {
        s if s > NOISE => Role::Good,
        s if s < -NOISE => Role::Bad,
        _ => Role::Dim,
    };
    (format!("{:+.1} %", share * 100.0), role)
}
