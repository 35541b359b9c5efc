//! Reads a damaged store: verifies every page that a read touches, and does not use redb.
//!
//! Invariant: a row is returned as it was written, or the read fails with the bucket and the damaged range of keys.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use crate::error::{Damage, StoreError};
use crate::file::pages::{Found, Header, KeyRange, Page, PageError, PageRef, Pages, Slot, Table, Widths};
use crate::file::tables;

/// The readable rest of a damaged store.
pub(crate) struct Salvage {
    storage: Box<dyn StorageBackend>,
    header: Header,
    tables: BTreeMap<String, Table>,
    /// Ranges of table names that cannot be read.
    lost: Vec<KeyRange>,
}

impl fmt::Debug for Salvage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}

/// A row of a table, or a range of keys that cannot be read.
pub(crate) enum Salvaged<'a> {
    Row(&'a [u8], &'a [u8]),
    Damaged(KeyRange),
}

impl Salvage {
    /// Reads the list of tables.
    pub(crate) fn new(storage: Box<dyn StorageBackend>, header: &Header, slot: Slot) -> io::Result<Self> {
        let (tables, lost) = Pages::new(&*storage, header)?.tables(slot.tables)?;
        Ok(Self { storage, header: *header, tables: tables.into_iter().collect(), lost })
    }

    /// Returns the tables that can be read.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.tables.iter().map(|(name, table)| (&**name, table))
    }

    /// Returns the ranges of table names that cannot be read.
    pub(crate) fn lost_tables(&self) -> &[KeyRange] {
        &self.lost
    }

    /// Passes all rows of a table to `visit`, in key order.
    pub(crate) fn walk(&self, table: &Table, visit: &mut dyn FnMut(Salvaged<'_>) -> io::Result<()>) -> io::Result<()> {
        let Some(root) = table.root else { return Ok(()) };
        Pages::new(&*self.storage, &self.header)?.walk(root.page, table.widths, &mut |found| {
            visit(match found {
                Found::Row(key, value) => Salvaged::Row(key, value),
                Found::Damaged(range) => Salvaged::Damaged(range),
            })
        })
    }

    /// Returns the table of a bucket, if it exists.
    fn bucket(&self, bucket: &Arc<str>) -> Result<Option<&Table>, StoreError> {
        let name = tables::table_name(bucket);
        match self.tables.get(&name) {
            Some(table) => Ok(Some(table)),
            None if self.lost.iter().any(|range| range.contains(name.as_bytes())) => {
                Err(damaged(bucket, KeyRange::default()))
            }
            None => Ok(None),
        }
    }

    /// Returns the row of a key.
    pub(crate) fn get(&self, bucket: &Arc<str>, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(table) = self.bucket(bucket)? else { return Ok(None) };
        let Some(root) = table.root else { return Ok(None) };
        let pages = Pages::new(&*self.storage, &self.header).map_err(|error| StoreError::io(&error))?;
        let (mut page, mut range) = (root.page, KeyRange::default());
        loop {
            match read(&pages, page, table.widths, bucket, &range)? {
                Page::Leaf(leaf) => {
                    for row in 0..leaf.len() {
                        let (found, value) = leaf.row(row).ok_or_else(|| damaged(bucket, range.clone()))?;
                        if found == key {
                            return Ok(Some(value.to_vec()));
                        }
                    }
                    return Ok(None);
                }
                Page::Branch(branch) => {
                    let child = branch.child_of(key);
                    range = range.child(&branch, child);
                    page = branch.child(child).ok_or_else(|| damaged(bucket, range.clone()))?;
                }
            }
        }
    }

    /// Passes the rows from key `from` up to but excluding `to` to `visit`, in key order, until it returns false.
    pub(crate) fn scan(
        &self,
        bucket: &Arc<str>,
        (from, to): (&[u8], Option<&[u8]>),
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let Some(table) = self.bucket(bucket)? else { return Ok(()) };
        let Some(root) = table.root else { return Ok(()) };
        let pages = Pages::new(&*self.storage, &self.header).map_err(|error| StoreError::io(&error))?;
        let mut scan = Scan { pages, widths: table.widths, bucket, from, to, visit };
        scan.descend(root.page, &KeyRange::default()).map(drop)
    }

    /// Returns everything that is damaged.
    pub(crate) fn damage(&self) -> io::Result<Vec<Damage>> {
        let mut found: Vec<Damage> = Vec::new();
        for range in &self.lost {
            found.push(Damage { bucket: None, table: None, range: range.clone() });
        }
        for (name, table) in &self.tables {
            self.walk(table, &mut |salvaged| {
                if let Salvaged::Damaged(range) = salvaged {
                    let bucket = tables::bucket_of(name).map(Arc::from);
                    found.push(Damage { table: bucket.is_none().then(|| name.as_str().into()), bucket, range });
                }
                Ok(())
            })?;
        }
        if found.is_empty() {
            // Every row is intact, but redb cannot determine which pages are free.
            found.push(Damage { bucket: None, table: Some("redb's own".into()), range: KeyRange::default() });
        }
        Ok(found)
    }
}

impl Drop for Salvage {
    fn drop(&mut self) {
        // Closing releases the locks even if it fails.
        let _closed = self.storage.close();
    }
}

/// Reads a page with keys in this range.
fn read(
    pages: &Pages<'_>,
    page: PageRef,
    widths: Widths,
    bucket: &Arc<str>,
    range: &KeyRange,
) -> Result<Page, StoreError> {
    pages.page(page, widths).map_err(|error| match error {
        PageError::Damaged => damaged(bucket, range.clone()),
        PageError::Io(error) => StoreError::io(&error),
    })
}

/// A scan of the rows of a bucket.
struct Scan<'a> {
    pages: Pages<'a>,
    widths: Widths,
    bucket: &'a Arc<str>,
    from: &'a [u8],
    to: Option<&'a [u8]>,
    visit: &'a mut dyn FnMut(&[u8], &[u8]) -> bool,
}

impl Scan<'_> {
    /// Visits the rows below a page; returns false if the scan has ended.
    fn descend(&mut self, page: PageRef, range: &KeyRange) -> Result<bool, StoreError> {
        match read(&self.pages, page, self.widths, self.bucket, range)? {
            Page::Leaf(leaf) => {
                for row in 0..leaf.len() {
                    let (key, value) = leaf.row(row).ok_or_else(|| damaged(self.bucket, range.clone()))?;
                    if self.to.is_some_and(|to| key >= to) || (key >= self.from && !(self.visit)(key, value)) {
                        return Ok(false);
                    }
                }
            }
            Page::Branch(branch) => {
                for child in branch.child_of(self.from)..branch.len() {
                    let below = range.child(&branch, child);
                    if self.to.zip(below.after.as_deref()).is_some_and(|(to, after)| after >= to) {
                        return Ok(false);
                    }
                    let page = branch.child(child).ok_or_else(|| damaged(self.bucket, below.clone()))?;
                    if !self.descend(page, &below)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

fn damaged(bucket: &Arc<str>, range: KeyRange) -> StoreError {
    StoreError::Damaged(Box::new(Damage { bucket: Some(Arc::clone(bucket)), table: None, range }))
}
