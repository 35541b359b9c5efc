//! Tests of the journal on in-memory disks that lose unsynced data.

use super::*;

/// A storage with its current content, and its content after a power cut, which lacks everything unsynced.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<[Vec<u8>; 2]>>);

impl Disk {
    fn cut(&self) -> Self {
        let [_, durable] = self.0.lock().clone();
        Self(Arc::new(Mutex::new([durable.clone(), durable])))
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock()[0].len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.0.lock()[0][offset as usize..][..out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock()[0].resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let [current, durable] = &mut *self.0.lock();
        durable.clone_from(current);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (mut both, from) = (self.0.lock(), offset as usize);
        let len = both[0].len().max(from + data.len());
        both[0].resize(len, 0);
        both[0][from..from + data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[derive(Clone, Default)]
struct Files {
    storage: Disk,
    journal: Disk,
}

impl Files {
    fn open(&self) -> Journaled {
        let journal = self.journal.clone();
        let opened = Journaled::new(self.storage.clone(), move || Ok(journal.clone()));
        opened.len().unwrap();
        opened
    }

    fn cut(&self) -> Self {
        Self { storage: self.storage.cut(), journal: self.journal.cut() }
    }
}

fn at(storage: &Journaled, offset: u64) -> u8 {
    let mut byte = [0];
    storage.read(offset, &mut byte).unwrap();
    byte[0]
}

fn begun() -> (Files, Journaled) {
    let files = Files::default();
    let opened = files.open();
    opened.set_len(2 * BLOCK).unwrap();
    opened.write(0, b"redb").unwrap();
    opened.sync_data().unwrap();
    // After the first record, the label says that the journal has records.
    opened.write(BLOCK, b"first").unwrap();
    opened.sync_data().unwrap();
    (files, opened)
}

#[test]
fn a_length_that_was_synced_is_there_again() {
    let (files, opened) = begun();
    for len in [9, 7, 8] {
        opened.set_len(len * BLOCK).unwrap();
        opened.sync_data().unwrap();
        assert_eq!(files.storage.cut().len().unwrap(), 2 * BLOCK, "only the journal has it");
        assert_eq!(files.cut().open().len().unwrap(), len * BLOCK);
    }
}

#[test]
fn the_last_write_of_a_place_wins() {
    let (files, opened) = begun();
    for value in 1..=9 {
        opened.write(5000, &[value]).unwrap();
        opened.write(5000 + u64::from(value), &[value]).unwrap();
        opened.sync_data().unwrap();
    }
    opened.write(5000, &[100]).unwrap();

    let again = files.cut().open();
    assert!((1..=9).all(|value| at(&again, 5000 + u64::from(value)) == value));
    assert_eq!(at(&again, 5000), 9, "what was not synced may be gone, here it is");
}

#[test]
fn exchanged_sectors_of_the_last_record_are_damage_and_not_a_partial_write() {
    let (files, opened) = begun();
    opened.write(5000, &[7; 3 * BLOCK as usize]).unwrap();
    opened.sync_data().unwrap();
    let sector = record::SECTOR;
    let open = |swap: &dyn Fn(&mut [u8])| {
        let cut = files.cut();
        swap(&mut cut.journal.0.lock()[0]);
        let journal = cut.journal.clone();
        let opened = Journaled::new(cut.storage.clone(), move || Ok(journal.clone()));
        opened.len().map(|_| ()).map_err(|error| error.kind())
    };
    let journal = files.journal.0.lock()[1].clone();
    let end = (0..journal.len() / sector).rfind(|place| journal[place * sector..][..sector] != [0; 512]).unwrap();
    // The last block of a record may end in padding.
    let last = end - BLOCK as usize / sector;

    assert_eq!(open(&|_| ()), Ok(()));
    for distance in 1..6 {
        let exchanged = |journal: &mut [u8]| {
            let (before, after) = journal.split_at_mut(last * sector);
            before[(last - distance) * sector..][..sector].swap_with_slice(&mut after[..sector]);
        };
        assert_eq!(open(&exchanged), Err(io::ErrorKind::InvalidData), "exchanged with the {distance}th before it");
        let copied = |journal: &mut [u8]| {
            journal.copy_within(last * sector..(last + 1) * sector, (last - distance) * sector);
        };
        assert_eq!(open(&copied), Err(io::ErrorKind::InvalidData), "copied over the {distance}th before it");
    }
}

#[test]
fn what_was_done_again_is_not_done_once_more() {
    let (files, opened) = begun();
    opened.write(5000, &[1]).unwrap();
    opened.sync_data().unwrap();
    let files = files.cut();
    let again = files.open();
    again.write(5000, &[2]).unwrap();
    again.sync_data().unwrap();
    again.write(5000, &[3]).unwrap();
    again.sync_data().unwrap();

    assert_eq!(at(&files.cut().open(), 5000), 3);
    // redb has not closed it, so the journal is kept.
    again.close().unwrap();
    assert!(files.journal.len().unwrap() > 0);
    assert_eq!(at(&files.cut().open(), 5000), 3);
}
