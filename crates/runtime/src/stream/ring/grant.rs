//! Writes items in place.

use std::fmt;

use super::writer::Writer;

/// Slots for items to be written in place; dropping it writes nothing.
///
/// The slots contain the items of one lap ago, or the default.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::ring::Builder;
///
/// let (mut writer, subscriber) = Builder::new(64).build::<u32>()?;
/// let mut reader = subscriber.join()?;
///
/// let mut grant = writer.try_grant(4)?;
/// let (slots, _wrapped) = grant.slices();
/// slots[..2].copy_from_slice(&[8, 9]);
/// grant.commit(2); // the other two slots stay free
///
/// let mut items = [0; 4];
/// assert_eq!(reader.try_read(&mut items), Ok(2));
/// assert_eq!(items[..2], [8, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// Creates a grant of `count` slots in a ring that has room for them.
    #[inline]
    pub(super) const fn new(writer: &'a mut Writer<T>, count: usize) -> Self {
        Self { writer, count }
    }
}

impl<T: Copy + Default + Send + Sync + 'static> Grant<'_, T> {
    /// Returns the slots, in two parts if they wrap around the end of the ring.
    #[inline]
    pub fn slices(&mut self) -> (&mut [T], &mut [T]) {
        self.writer.slots_to_fill(self.count)
    }

    /// Writes the first `count` items, at most all of them.
    #[inline]
    pub fn commit(mut self, count: usize) {
        // Slots that were never accessed are not initialised yet; `slices` fills them with the default.
        let _ = self.slices();
        self.writer.fill(count.min(self.count));
    }
}
