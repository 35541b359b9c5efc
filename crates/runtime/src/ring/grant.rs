//! Items that are written where they lie.

use std::fmt;

use super::writer::Writer;

/// The place of items that are to be written; dropping it writes none.
///
/// It holds what was there a lap ago, or the default.
pub struct Grant<'a, T: Send + Sync + 'static> {
    writer: &'a mut Writer<T>,
    count: usize,
}

impl<T: Send + Sync + 'static> fmt::Debug for Grant<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("count", &self.count).finish_non_exhaustive()
    }
}

impl<'a, T: Send + Sync + 'static> Grant<'a, T> {
    /// So many places of a ring that has room for them.
    #[inline]
    pub(super) const fn new(writer: &'a mut Writer<T>, count: usize) -> Self {
        Self { writer, count }
    }
}

impl<T: Copy + Default + Send + Sync + 'static> Grant<'_, T> {
    /// The place, in two parts where it goes round the end of the ring.
    #[inline]
    pub fn slices(&mut self) -> (&mut [T], &mut [T]) {
        self.writer.place(self.count)
    }

    /// Writes the first `count` of them, all at most.
    #[inline]
    pub fn commit(mut self, count: usize) {
        // Slots that nobody has looked at hold nothing yet.
        let _ = self.slices();
        self.writer.fill(count.min(self.count));
    }
}
