//! Draws a curve as lines of text: dots in braille and marks on the points, or in ASCII `.`, `*` and `o`.

use rusm_protocol::Curve;

use crate::model::format;

/// Width of the axis labels, in cells.
const AXIS: usize = 9;

/// A drawing of `width` cells and `height` rows, with the axes below and on the left.
pub(crate) fn draw(curve: &Curve, width: usize, height: usize, ascii: bool) -> Vec<String> {
    let points: Vec<(f64, f64, bool)> = curve
        .points
        .iter()
        .filter(|point| point.x.is_finite() && point.y.is_finite() && (!curve.log_y || point.y > 0.0))
        .map(|point| (point.x, if curve.log_y { point.y.log10() } else { point.y }, point.good))
        .collect();
    if points.is_empty() || width < AXIS + 8 || height < 3 {
        return Vec::new();
    }
    let ends = |pick: fn(&(f64, f64, bool)) -> f64| {
        let (low, high) = points
            .iter()
            .map(pick)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if high > low { (low, high) } else { (low - 0.5, high + 0.5) }
    };
    let ((x_low, x_high), (y_low, y_high)) = (ends(|point| point.0), ends(|point| point.1));
    let (columns, rows) = (width - AXIS - 1, height - 1);
    let mut canvas = Canvas::new(columns, rows, ascii);
    let place = |x: f64, y: f64| ((x - x_low) / (x_high - x_low), (y - y_low) / (y_high - y_low));
    if let Some([first, last]) = curve.line {
        for step in 0..=columns * 2 {
            let share = step as f64 / (columns * 2) as f64;
            let y = first + (last - first) * share;
            let y = if curve.log_y { y.max(f64::MIN_POSITIVE).log10() } else { y };
            let (_, at) = place(x_low, y);
            if step % 3 == 0 {
                canvas.dot(share, at);
            }
        }
    }
    // Dots lead from each point to the next one.
    for pair in points.windows(2) {
        let ((x0, y0), (x1, y1)) = (place(pair[0].0, pair[0].1), place(pair[1].0, pair[1].1));
        let steps = columns * 2;
        for step in 0..=steps {
            let share = step as f64 / steps as f64;
            canvas.dot(x0 + (x1 - x0) * share, y0 + (y1 - y0) * share);
        }
    }
    for (x, y, good) in &points {
        let (x, y) = place(*x, *y);
        canvas.mark(x, y, *good);
    }
    if let Some(mark) = curve.mark.filter(|mark| (x_low..=x_high).contains(mark)) {
        canvas.column(place(mark, 0.0).0);
    }
    let value = |y: f64| if curve.log_y { 10f64.powf(y) } else { y };
    let label = |y: f64| format!("{:>AXIS$}", format::in_unit(value(y), &curve.y_unit, if ascii { "u" } else { "µ" }));
    let blank = " ".repeat(AXIS);
    let mut lines: Vec<String> = canvas
        .rows()
        .into_iter()
        .enumerate()
        .map(|(row, text)| {
            let mark = if row == 0 {
                label(y_high)
            } else if row + 1 == rows {
                label(y_low)
            } else if row == rows / 2 && rows >= 7 {
                label(f64::midpoint(y_low, y_high))
            } else {
                blank.clone()
            };
            format!("{mark} {text}")
        })
        .collect();
    let x_text = |x: f64| format::in_unit(x, &curve.x_unit, if ascii { "u" } else { "µ" });
    let (from, to) = (x_text(x_low), x_text(x_high));
    let gap = columns.saturating_sub(from.chars().count() + to.chars().count());
    lines.push(format!("{blank} {from}{}{to}", " ".repeat(gap)));
    lines
}

/// Cells of a drawing.
struct Canvas {
    columns: usize,
    rows: usize,
    ascii: bool,
    /// Dots of braille, and signs that replace them.
    dots: Vec<u8>,
    signs: Vec<Option<char>>,
}

impl Canvas {
    fn new(columns: usize, rows: usize, ascii: bool) -> Self {
        Self { columns, rows, ascii, dots: vec![0; columns * rows], signs: vec![None; columns * rows] }
    }

    fn cell(&self, x: f64, y: f64) -> (usize, usize, usize) {
        let column = (x * (self.columns * 2 - 1) as f64).round().clamp(0.0, (self.columns * 2 - 1) as f64) as usize;
        let row = ((1.0 - y) * (self.rows * 4 - 1) as f64).round().clamp(0.0, (self.rows * 4 - 1) as f64) as usize;
        (column, row, row / 4 * self.columns + column / 2)
    }

    fn dot(&mut self, x: f64, y: f64) {
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        if !(0.0..=1.0).contains(&y) {
            return;
        }
        let (column, row, at) = self.cell(x, y);
        self.dots[at] |= BITS[row % 4][column % 2];
    }

    fn mark(&mut self, x: f64, y: f64, good: bool) {
        let (.., at) = self.cell(x, y);
        self.signs[at] = Some(match (self.ascii, good) {
            (false, true) => '●',
            (false, false) => '○',
            (true, true) => '*',
            (true, false) => 'o',
        });
    }

    /// Draws a vertical line behind everything else.
    fn column(&mut self, x: f64) {
        for row in 0..self.rows {
            let (.., at) = self.cell(x, 1.0 - (row as f64 + 0.5) / self.rows as f64);
            self.signs[at].get_or_insert(if self.ascii { '|' } else { '┆' });
        }
    }

    fn rows(&self) -> Vec<String> {
        let cell = |at: usize| match (self.signs[at], self.dots[at]) {
            (Some(sign), _) => sign,
            (None, 0) => ' ',
            (None, _) if self.ascii => '.',
            (None, dots) => char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '),
        };
        (0..self.rows)
            .map(|row| {
                let text: String = (0..self.columns).map(|column| cell(row * self.columns + column)).collect();
                text.trim_end().to_owned()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::CurvePoint;

    use super::*;

    fn curve() -> Curve {
        let point = |at: i32| CurvePoint { x: f64::from(at) * 1e3, y: 10f64.powi(at + 3), good: at < 4 };
        let points = (0..6).map(point).collect();
        Curve {
            y_unit: "ns".to_owned(),
            x_unit: "amount".to_owned(),
            log_y: true,
            points,
            mark: Some(3_500.0),
            ..Curve::default()
        }
    }

    #[test]
    fn a_curve_of_latencies_rises_from_left_to_right() {
        let lines = draw(&curve(), 60, 9, false);

        assert_eq!(lines.len(), 9);
        assert!(lines[0].starts_with("   100 ms ") && lines[0].ends_with('○'), "{lines:#?}");
        assert!(lines[7].starts_with("  1.00 µs ●"), "{lines:#?}");
        assert!(lines[8].trim_start().starts_with('0') && lines[8].ends_with("5.00k"), "{lines:#?}");
    }

    #[test]
    fn in_ascii_everything_is_ascii_and_nothing_is_drawn_without_room() {
        assert!(draw(&curve(), 60, 9, true).iter().all(|line| line.is_ascii()));
        assert_eq!(draw(&curve(), 9, 9, false), [""; 0]);
        assert_eq!(draw(&Curve::default(), 60, 9, false), [""; 0]);
        let odd = CurvePoint { x: f64::NAN, y: f64::INFINITY, good: true };
        assert_eq!(draw(&Curve { points: vec![odd], ..Curve::default() }, 60, 9, false), [""; 0]);
    }

    #[test]
    fn no_size_panics() {
        let flat = Curve {
            points: vec![CurvePoint { x: 1.0, y: 1.0, good: true }],
            line: Some([0.0, 2.0]),
            ..Curve::default()
        };
        for width in 0..40 {
            for height in 0..12 {
                draw(&curve(), width, height, false);
                draw(&flat, width, height, true);
            }
        }
    }
}
