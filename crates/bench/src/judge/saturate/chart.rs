//! Curve of latency over load, as text and as an SVG image.

use std::fmt::Write;

use super::{Level, Saturation};
use crate::report::numbers::{Amount, Nanos};

const COLUMNS: usize = 60;
const ROWS: usize = 12;
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const MARGIN: f64 = 70.0;

/// Maps levels to points with both axes from 0 to 1; the latency axis is logarithmic.
struct Frame {
    rate_max: f64,
    low_ns: f64,
    high_ns: f64,
}

impl Frame {
    fn of(levels: &[Level]) -> Option<Self> {
        let drawn = || levels.iter().filter(|level| level.latency.p99_ns > 0);
        let rate_max = drawn().map(|level| level.offered_per_sec).fold(0.0, f64::max);
        let low = drawn().map(|level| level.latency.p99_ns as f64).fold(f64::INFINITY, f64::min);
        let high = drawn().map(|level| level.latency.p99_ns as f64).fold(0.0, f64::max);
        (rate_max > 0.0 && high > 0.0).then(|| Self {
            rate_max,
            low_ns: 10_f64.powf(low.log10().floor()),
            high_ns: 10_f64.powf((high * 1.000_1).log10().ceil()),
        })
    }

    fn x(&self, rate: f64) -> f64 {
        rate / self.rate_max
    }

    fn y(&self, ns: f64) -> f64 {
        (ns.max(self.low_ns) / self.low_ns).log10() / (self.high_ns / self.low_ns).log10()
    }

    fn decades(&self) -> impl Iterator<Item = f64> {
        let first = self.low_ns.log10().round() as i32;
        (first..=self.high_ns.log10().round() as i32).map(|decade| 10_f64.powi(decade))
    }
}

/// Draws the curve as text; stable levels are filled.
pub(super) fn terminal(found: &Saturation) -> String {
    let Some(frame) = Frame::of(&found.levels) else {
        return String::new();
    };
    let mut cells = vec![[' '; COLUMNS]; ROWS];
    for level in found.levels.iter().filter(|level| level.latency.p99_ns > 0) {
        let column = (frame.x(level.offered_per_sec) * (COLUMNS - 1) as f64).round() as usize;
        let row = (frame.y(level.latency.p99_ns as f64) * (ROWS - 1) as f64).round() as usize;
        cells[ROWS - 1 - row.min(ROWS - 1)][column.min(COLUMNS - 1)] = if level.stable { '●' } else { '○' };
    }
    let mut marks = vec![String::new(); ROWS];
    for ns in frame.decades() {
        marks[ROWS - 1 - ((frame.y(ns) * (ROWS - 1) as f64).round() as usize).min(ROWS - 1)] = Nanos(ns).to_string();
    }
    let mut text = String::from("  p99 over the rate offered; ● stable, ○ not\n");
    for (mark, row) in marks.iter().zip(&cells) {
        let row: String = row.iter().collect();
        push(&mut text, &format!("  {mark:>8} ┤{}", row.trim_end()));
    }
    push(&mut text, &format!("  {:>8} └{}", "", "─".repeat(COLUMNS)));
    let end = format!("{}/s", Amount(frame.rate_max));
    push(&mut text, &format!("  {:>8}  0{end:>width$}", "", width = COLUMNS - 1));
    text
}

fn push(text: &mut String, line: &str) {
    let written = writeln!(text, "{line}");
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// Draws the curve as an SVG image.
pub fn svg(found: &Saturation) -> String {
    let mut text = String::new();
    push(
        &mut text,
        &format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
        ),
    );
    push(&mut text, &format!(r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#));
    push(
        &mut text,
        &format!(
            r#"<text x="{MARGIN}" y="24" font-size="14">{}: p99 latency over the rate offered</text>"#,
            found.scenario
        ),
    );
    let Some(frame) = Frame::of(&found.levels) else {
        text.push_str("</svg>\n");
        return text;
    };
    let x = |rate: f64| MARGIN + frame.x(rate) * (WIDTH - 2.0 * MARGIN);
    let y = |ns: f64| HEIGHT - MARGIN - frame.y(ns) * (HEIGHT - 2.0 * MARGIN);
    let (left, right) = (MARGIN, WIDTH - MARGIN);
    for ns in frame.decades() {
        let height = y(ns);
        push(&mut text, &format!(r##"<path d="M{left} {height:.1}H{right}" stroke="#ddd"/>"##));
        push(&mut text, &format!(r#"<text x="8" y="{:.1}">{}</text>"#, height + 4.0, Nanos(ns)));
    }
    for quarter in 0..=4 {
        let rate = frame.rate_max * f64::from(quarter) / 4.0;
        push(&mut text, &format!(r#"<text x="{:.1}" y="{}">{}/s</text>"#, x(rate) - 16.0, HEIGHT - 44.0, Amount(rate)));
    }
    if let Some(rate) = found.max_stable_rate {
        let at = x(rate);
        let (top, bottom) = (MARGIN, HEIGHT - MARGIN);
        push(&mut text, &format!(r##"<path d="M{at:.1} {top}V{bottom}" stroke="#2a7" stroke-dasharray="4"/>"##));
        push(
            &mut text,
            &format!(
                r##"<text x="{:.1}" y="{}" fill="#2a7">stable to {}/s</text>"##,
                at - 60.0,
                top - 8.0,
                Amount(rate)
            ),
        );
    }
    let drawn = || found.levels.iter().filter(|level| level.latency.p99_ns > 0);
    let path: Vec<String> =
        drawn().map(|level| format!("{:.1},{:.1}", x(level.offered_per_sec), y(level.latency.p99_ns as f64))).collect();
    push(&mut text, &format!(r##"<polyline points="{}" fill="none" stroke="#57c"/>"##, path.join(" ")));
    for level in drawn() {
        let fill = if level.stable { "#57c" } else { "white" };
        let (cx, cy) = (x(level.offered_per_sec), y(level.latency.p99_ns as f64));
        push(
            &mut text,
            &format!(
                r##"<circle cx="{cx:.1}" cy="{cy:.1}" r="4" fill="{fill}" stroke="#57c"><title>{}</title></circle>"##,
                level.line()
            ),
        );
    }
    text.push_str("</svg>\n");
    text
}
