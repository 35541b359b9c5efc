//! Arithmetic of a selection in a list.

/// Returns the index `steps` after `at` among `count`, wrapping around.
pub(crate) fn wrapped(at: usize, steps: isize, count: usize) -> usize {
    at.cast_signed().saturating_add(steps).rem_euclid(count.max(1).cast_signed()).cast_unsigned()
}

/// Returns the index of the first visible row in a menu of `height` rows, so that the selected row is visible.
pub(crate) fn first_visible(selected: usize, height: u16) -> usize {
    (selected + 1).saturating_sub(height.into())
}
