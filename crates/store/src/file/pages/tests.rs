//! Reads files that redb wrote, without redb.

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, TableDefinition};

use super::*;

/// A storage that can be read while redb uses it.
#[derive(Clone, Debug, Default)]
struct Shared(std::sync::Arc<InMemoryBackend>);

impl StorageBackend for Shared {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

const BYTES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bytes");
const TEXT: TableDefinition<'_, &str, i64> = TableDefinition::new("text");
const NUMBERS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("numbers");
const FIXED: TableDefinition<'_, u64, u64> = TableDefinition::new("fixed");

/// Returns a storage that redb has filled and closed, and its header. A value of 100,000 bytes needs a page of its own.
fn filled() -> (Shared, Header) {
    let storage = Shared::default();
    let database: Database = Builder::new().create_with_backend(storage.clone()).unwrap();
    let txn = database.begin_write().unwrap();
    for number in 0..3000_u64 {
        let value = vec![number as u8; number as usize % 300];
        txn.open_table(BYTES).unwrap().insert(&number.to_be_bytes()[..], &*value).unwrap();
        txn.open_table(TEXT).unwrap().insert(&*format!("key {number}"), number.cast_signed()).unwrap();
        txn.open_table(NUMBERS).unwrap().insert(number, &*value).unwrap();
        txn.open_table(FIXED).unwrap().insert(number, number * 2).unwrap();
    }
    txn.open_table(BYTES).unwrap().insert(&b"large"[..], &*vec![7; 100_000]).unwrap();
    txn.commit().unwrap();
    drop(database);
    let mut header = [0; HEADER];
    storage.read(0, &mut header).unwrap();
    (storage, Header::read(&header).unwrap())
}

#[test]
fn what_redb_wrote_is_read_and_verified() {
    let (storage, header) = filled();
    assert!(header.is_clean() && header.is_intact());
    let pages = Pages::new(&storage, &header).unwrap();
    let slot = *header.primary().unwrap();
    let mut seen = 0;
    assert!(pages.verify(&slot, &mut |_, page| seen += page.len()).unwrap());
    assert!(seen > 1_000_000, "{seen}");

    let (tables, damaged) = pages.tables(slot.tables).unwrap();
    assert_eq!(damaged, []);
    let names: Vec<&str> = tables.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["bytes", "fixed", "numbers", "text"]);
    for (name, table) in tables {
        let mut rows = 0;
        pages
            .walk(table.root.unwrap().page, table.widths, &mut |found| {
                let Found::Row(key, value) = found else { panic!("damaged") };
                match &*name {
                    "bytes" if key == b"large" => assert_eq!(value, vec![7; 100_000]),
                    "bytes" => assert_eq!((key, value.len()), (&(rows as u64).to_be_bytes()[..], rows % 300)),
                    "fixed" => assert_eq!(value, (rows as u64 * 2).to_le_bytes()),
                    "numbers" => assert_eq!(key, (rows as u64).to_le_bytes()),
                    _ => assert!(key.starts_with(b"key ") && value.len() == 8),
                }
                rows += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(rows as u64, table.rows, "{name}");
    }
}

#[test]
fn every_damaged_page_is_found_as_one_range_and_the_other_rows_are_read() {
    let (storage, header) = filled();
    let slot = *header.primary().unwrap();
    let mut places = Vec::new();
    let pages = Pages::new(&storage, &header).unwrap();
    pages.verify(&slot, &mut |offset, _| places.push(offset)).unwrap();
    let all: u64 = pages.tables(slot.tables).unwrap().0.iter().map(|(_, table)| table.rows).sum();
    for offset in places {
        let mut byte = [0];
        storage.read(offset + 5, &mut byte).unwrap();
        storage.write(offset + 5, &[byte[0] ^ 4]).unwrap();

        let pages = Pages::new(&storage, &header).unwrap();
        assert!(!pages.verify(&slot, &mut |_, _| {}).unwrap(), "page at {offset}");
        let (tables, mut damaged) = pages.tables(slot.tables).unwrap();
        let mut rows = 0;
        for (_, table) in tables {
            pages
                .walk(table.root.unwrap().page, table.widths, &mut |found| {
                    match found {
                        Found::Row(..) => rows += 1,
                        Found::Damaged(range) => damaged.push(range),
                    }
                    Ok(())
                })
                .unwrap();
        }
        assert!(damaged.len() <= 1, "the page at {offset} is reported as several ranges");
        assert_eq!(rows < all, !damaged.is_empty(), "the page at {offset}: {rows} of {all} rows");
        storage.write(offset + 5, &byte).unwrap();
    }
}

#[test]
fn a_forged_file_whose_pages_refer_to_one_page_again_and_again_is_read_in_finite_time() {
    let (storage, header) = filled();
    let write = |number: u64, page: &[u8]| {
        storage.write(header.location(number).unwrap().0, page).unwrap();
        PageRef { number, checksum: xxh3_128(page) }
    };
    // A table without rows, of which each level above doubles the number.
    let table = [&[3_u8][..], &[0; 60]].concat();
    let ends = [13_u32.to_le_bytes(), (13 + table.len() as u32).to_le_bytes()].concat();
    let mut root = write(0, &[&[LEAF, 0, 1, 0][..], &ends, b"k", &table].concat());
    for level in 1..=60 {
        let checksum = root.checksum.to_le_bytes();
        let below = [&checksum[..], &checksum, &root.number.to_le_bytes(), &root.number.to_le_bytes()].concat();
        root = write(level, &[&[BRANCH, 0, 1, 0, 0, 0, 0, 0][..], &below, &61_u32.to_le_bytes(), b"k"].concat());
    }

    let pages = Pages::new(&storage, &header).unwrap();
    let slot = Slot { tables: Some(Root { page: root, rows: 1 }), system: None, transaction: 1 };
    assert!(!pages.verify(&slot, &mut |_, _| {}).unwrap());
    let (mut rows, mut damaged) = (0, 0);
    let mut count = |found: Found<'_>| {
        match found {
            Found::Row(..) => rows += 1,
            Found::Damaged(_) => damaged += 1,
        }
        Ok(())
    };
    pages.walk(root, Widths::default(), &mut count).unwrap();
    assert!(rows > 0 && rows < 1000 && damaged > 0 && damaged <= 60, "{rows} rows, {damaged} ranges");
}
