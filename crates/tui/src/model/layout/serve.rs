//! Panels of the Serve view.

use crate::model::input::key::Size;
use crate::model::layout::{Cells, WIDE, body};

/// Panels of the Serve view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServeLayout {
    pub(crate) totals: Cells,
    /// Limits that were hit; empty on a narrow screen.
    pub(crate) limits: Cells,
    /// Includes the border. The first row inside is the heading. Empty on a low screen while the requests have the focus.
    pub(crate) routes: Cells,
    /// Live requests, with border and heading. Empty on a low screen while the routes have the focus.
    pub(crate) requests: Cells,
}

/// Computes the panels of the Serve view for this number of routes.
pub(crate) fn panels(size: Size, routes: u64, has_routes_focus: bool) -> ServeLayout {
    let body = body(size);
    let (top, rest) = body.split_top(match body.height {
        30.. => 9,
        18.. => 6,
        _ => 5,
    });
    let (totals, limits) =
        if size.width >= WIDE { top.split_left(size.width - size.width * 3 / 8) } else { (top, Cells::default()) };
    let wanted = u16::try_from(routes).unwrap_or(u16::MAX).saturating_add(3).max(5);
    let (routes, requests) = match (rest.height, has_routes_focus) {
        (12.., _) => rest.split_top(wanted.min(rest.height * 2 / 5)),
        (_, true) => (rest, Cells::default()),
        (_, false) => (Cells::default(), rest),
    };
    ServeLayout { totals, limits, routes, requests }
}
