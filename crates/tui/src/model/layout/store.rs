//! Panels of the Store view.

use crate::model::input::key::Size;
use crate::model::layout::{self, Cells};

/// Rows of the lists below the stores from which tables have a panel beside them.
const ROOMY: u16 = 18;
/// Rows of the lists of buckets and keys on a node without a store.
const EMPTY_LISTS: u16 = 6;

/// Panels of the Store view.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreLayout {
    pub(crate) store: Cells,
    /// Failures.
    pub(crate) faults: Cells,
    /// Includes the border. The first row inside is the heading.
    pub(crate) buckets: Cells,
    /// Keys of the open bucket, with border and heading.
    pub(crate) keys: Cells,
    /// Tables and registries in memory, with border and heading; empty without any, and on a low screen.
    pub(crate) tables: Cells,
}

/// Computes the panels of the Store view.
pub(crate) fn panels(size: Size, tables: usize, has_store: bool) -> StoreLayout {
    let body = layout::body(size);
    let (top, rest) = body.split_top(7.min(body.height));
    let most = match rest.height {
        height if !has_store => height.saturating_sub(EMPTY_LISTS),
        height @ ROOMY.. => height / 3,
        _ => 0,
    };
    // A border, a heading, and a row for each.
    let wanted = if tables == 0 { 0 } else { (tables as u16).saturating_add(3).min(most) };
    let (rest, tables) = rest.split_top(rest.height - if wanted < 4 { 0 } else { wanted });
    let (store, faults) = top.split_left(size.width - size.width * 3 / 8);
    let (buckets, keys) = rest.split_top(rest.height.div_ceil(2));
    StoreLayout { store, faults, buckets, keys, tables }
}
