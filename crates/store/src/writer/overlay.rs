//! A storage that is changed in memory only: a journal is replayed in front of a file that stays unchanged.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, ErrorKind};

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::file::pages::PAGE;

/// A storage in front of another one, which is only read.
#[derive(Debug)]
pub(crate) struct Overlay<B> {
    base: B,
    changed: Mutex<Changed>,
}

#[derive(Debug)]
struct Changed {
    len: u64,
    /// Bytes of the base that are still valid; the storage may have been truncated.
    base_len: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl<B: StorageBackend> Overlay<B> {
    pub(crate) fn new(base: B) -> io::Result<Self> {
        let len = base.len()?;
        Ok(Self { base, changed: Mutex::new(Changed { len, base_len: len, blocks: BTreeMap::new() }) })
    }

    fn read_base(&self, base_len: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(0);
        let there = base_len.saturating_sub(offset).min(out.len() as u64) as usize;
        if there > 0 { self.base.read(offset, &mut out[..there]) } else { Ok(()) }
    }
}

/// Returns the blocks that a range touches: the block's number, the offset within it, and the part of the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let end = offset + len as u64;
    (offset / PAGE..end.div_ceil(PAGE)).map(move |block| {
        let (from, to) = (offset.max(block * PAGE), end.min((block + 1) * PAGE));
        (block, (from - block * PAGE) as usize, (from - offset) as usize..(to - offset) as usize)
    })
}

impl<B: StorageBackend> StorageBackend for Overlay<B> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changed.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changed = self.changed.lock();
        if offset + out.len() as u64 > changed.len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.read_base(changed.base_len, offset, out)?;
        for (block, within, part) in parts(offset, out.len()) {
            if let Some(bytes) = changed.blocks.get(&block) {
                let len = part.len();
                out[part].copy_from_slice(&bytes[within..within + len]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changed = self.changed.lock();
        changed.blocks.retain(|block, bytes| {
            let left = len.saturating_sub(block * PAGE).min(PAGE) as usize;
            bytes[left..].fill(0);
            left > 0
        });
        changed.len = len;
        changed.base_len = changed.base_len.min(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changed = self.changed.lock();
        changed.len = changed.len.max(offset + data.len() as u64);
        let base_len = changed.base_len;
        for (block, within, part) in parts(offset, data.len()) {
            let bytes = match changed.blocks.entry(block) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(place) => {
                    let mut bytes = vec![0; PAGE as usize];
                    self.read_base(base_len, block * PAGE, &mut bytes)?;
                    place.insert(bytes)
                }
            };
            bytes[within..within + part.len()].copy_from_slice(&data[part]);
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.base.close()
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_base_stays_as_it_is() {
        let base = InMemoryBackend::new();
        base.set_len(3 * PAGE).unwrap();
        base.write(0, &[1; 3 * PAGE as usize]).unwrap();
        let overlay = Overlay::new(base).unwrap();

        overlay.write(PAGE - 1, &[2; 3]).unwrap();
        overlay.write(4 * PAGE, &[3]).unwrap();
        let mut found = vec![0; 4 * PAGE as usize + 1];
        overlay.read(0, &mut found).unwrap();
        let at = PAGE as usize;
        assert_eq!((&found[at - 2..at + 3], found[4 * at], found[3 * at]), (&[1, 2, 2, 2, 1][..], 3, 0));

        overlay.set_len(PAGE).unwrap();
        overlay.set_len(3 * PAGE).unwrap();
        overlay.read(0, &mut found[..3 * at]).unwrap();
        assert_eq!((&found[at - 2..at + 3], found[2 * at]), (&[1, 2, 0, 0, 0][..], 0));
        overlay.base.read(0, &mut found[..3 * at]).unwrap();
        assert!(found[..3 * at].iter().all(|byte| *byte == 1));
    }
}
