//! Reads the pages of a redb file without redb, and verifies each one against the checksum in its parent.
//!
//! ```text
//!   header ──▶ commit slot ──▶ tree of tables ──▶ tree of a table ──▶ branch ──▶ … ──▶ leaf: keys and values
//!                  └ checksum      └ a checksum beside each page number, of the page with that number
//! ```
//!
//! redb verifies these checksums only after a crash, and otherwise trusts a page: a damaged one misleads it into wrong
//! values or a panic. This module follows the file format of redb's `docs/design.md`, version 3.
//!
//! Invariant: no byte of a page is interpreted before its checksum has been verified, and none without a bounds check.

mod header;
pub(crate) mod key_range;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_128;

pub(crate) use self::header::{HEADER, Header, PAGE, PageRef, Root, Slot, newer_version};
use self::header::{array, u32_at, u64_at};
pub use self::key_range::KeyRange;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Maximum depth of a tree; redb has the same limit.
const DEPTH_MAX: usize = 128;

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    array(bytes, at).map(|bytes| u16::from_le_bytes(bytes).into())
}

/// Widths of the keys and values of a table, in bytes; `None` if they vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Widths {
    pub(crate) key: Option<usize>,
    pub(crate) value: Option<usize>,
}

/// A table, as the tree of tables describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) root: Option<Root>,
    /// Number of rows.
    pub(crate) rows: u64,
    pub(crate) widths: Widths,
    is_multimap: bool,
}

impl Table {
    fn read(bytes: &[u8]) -> Option<Self> {
        let is_multimap = match bytes.first()? {
            3 => false,
            4 => true,
            _ => return None,
        };
        let rows = u64_at(bytes, 1)?;
        let root = if *bytes.get(9)? == 0 { None } else { Some(Root::read(bytes, 10)?) };
        let width = |at: usize| {
            let width = u32_at(bytes, at + 1)?;
            Some((*bytes.get(at)? != 0).then_some(width))
        };
        Some(Self { root, rows, widths: Widths { key: width(42)?, value: width(47)? }, is_multimap })
    }
}

/// A page that was read and verified.
pub(crate) enum Page {
    Leaf(Leaf),
    Branch(Branch),
}

/// A page of keys and values.
pub(crate) struct Leaf {
    bytes: Vec<u8>,
    rows: usize,
    widths: Widths,
}

/// A page of references to pages below, and the keys between them.
pub(crate) struct Branch {
    bytes: Vec<u8>,
    keys: usize,
    width: Option<usize>,
}

impl Leaf {
    fn ends(&self) -> usize {
        let varying = usize::from(self.widths.key.is_none()) + usize::from(self.widths.value.is_none());
        4 + 4 * self.rows * varying
    }

    fn key_end(&self, row: usize) -> Option<usize> {
        match self.widths.key {
            Some(width) => width.checked_mul(row + 1)?.checked_add(self.ends()),
            None => u32_at(&self.bytes, 4 + 4 * row),
        }
    }

    fn value_end(&self, row: usize) -> Option<usize> {
        match self.widths.value {
            Some(width) => width.checked_mul(row + 1)?.checked_add(self.key_end(self.rows - 1)?),
            None => u32_at(&self.bytes, 4 + 4 * (row + if self.widths.key.is_none() { self.rows } else { 0 })),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.rows
    }

    /// Returns a key and its value.
    pub(crate) fn row(&self, row: usize) -> Option<(&[u8], &[u8])> {
        let key = if row == 0 { self.ends() } else { self.key_end(row - 1)? };
        let value = if row == 0 { self.key_end(self.rows - 1)? } else { self.value_end(row - 1)? };
        Some((self.bytes.get(key..self.key_end(row)?)?, self.bytes.get(value..self.value_end(row)?)?))
    }
}

impl KeyRange {
    /// Returns the part of the range that this child holds.
    pub(crate) fn child(&self, branch: &Branch, child: usize) -> Self {
        let before = child.checked_sub(1).and_then(|before| branch.key(before)).map(<[u8]>::to_vec);
        let end = branch.key(child).map(<[u8]>::to_vec);
        Self { after: before.or_else(|| self.after.clone()), upto: end.or_else(|| self.upto.clone()) }
    }
}

impl Branch {
    fn key_end(&self, key: usize) -> Option<usize> {
        let ends = 8 + 24 * (self.keys + 1);
        match self.width {
            Some(width) => width.checked_mul(key + 1)?.checked_add(ends),
            None => u32_at(&self.bytes, ends + 4 * key),
        }
    }

    fn keys_at(&self) -> usize {
        8 + 24 * (self.keys + 1) + if self.width.is_none() { 4 * self.keys } else { 0 }
    }

    /// Number of pages below.
    pub(crate) const fn len(&self) -> usize {
        self.keys + 1
    }

    /// Returns the key after a child: all keys of the child are less than or equal to it, those of the next are
    /// greater.
    pub(crate) fn key(&self, child: usize) -> Option<&[u8]> {
        if child >= self.keys {
            return None;
        }
        let from = if child == 0 { self.keys_at() } else { self.key_end(child - 1)? };
        self.bytes.get(from..self.key_end(child)?)
    }

    /// Returns the first child that may hold keys greater than or equal to this one.
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        (0..self.keys).find(|child| self.key(*child).is_some_and(|end| key <= end)).unwrap_or(self.keys)
    }

    pub(crate) fn child(&self, child: usize) -> Option<PageRef> {
        let number = u64_at(&self.bytes, 8 + 16 * (self.keys + 1) + 8 * child)?;
        Some(PageRef { number, checksum: array(&self.bytes, 8 + 16 * child).map(u128::from_le_bytes)? })
    }
}

/// Tables with their names, and the ranges of names that cannot be read.
pub(crate) type FoundTables = (Vec<(String, Table)>, Vec<KeyRange>);

/// Reason why a page was not returned.
#[derive(Debug)]
pub(crate) enum PageError {
    /// Its checksum does not match, or it is outside of the file.
    Damaged,
    /// The disk failed to read it.
    Io(io::Error),
}

/// Reads pages of a file at the positions that its header defines.
pub(crate) struct Pages<'a> {
    storage: &'a dyn StorageBackend,
    header: Header,
    len: u64,
    /// Number of bytes that may still be read page by page. An intact file has no page twice, so a file that needs more
    /// is forged, and reading it all could take forever.
    unread: Cell<u64>,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(storage: &'a dyn StorageBackend, header: &Header) -> io::Result<Self> {
        let len = storage.len()?;
        Ok(Self { storage, header: *header, len, unread: Cell::new(len) })
    }

    fn read(&self, page: PageRef) -> Result<(u64, Vec<u8>), PageError> {
        let place = self.header.location(page.number);
        let (offset, len) = place.filter(|(offset, len)| offset + len <= self.len).ok_or(PageError::Damaged)?;
        self.unread.set(self.unread.get().checked_sub(len).ok_or(PageError::Damaged)?);
        let mut bytes = vec![0; len as usize];
        self.storage.read(offset, &mut bytes).map_err(PageError::Io)?;
        Ok((offset, bytes))
    }

    /// Reads a page and verifies it. Each instance reads no more bytes than the file has.
    pub(crate) fn page(&self, page: PageRef, widths: Widths) -> Result<Page, PageError> {
        let (_, bytes) = self.read(page)?;
        parse(bytes, page.checksum, widths).ok_or(PageError::Damaged)
    }

    /// Passes the rows of a tree, in key order, and the unreadable ranges of keys to `visit`.
    pub(crate) fn walk(
        &self,
        root: PageRef,
        widths: Widths,
        visit: &mut dyn FnMut(Found<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        self.descend(root, widths, &KeyRange::default(), DEPTH_MAX, visit)
    }

    fn descend(
        &self,
        page: PageRef,
        widths: Widths,
        range: &KeyRange,
        depth: usize,
        visit: &mut dyn FnMut(Found<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let found = if depth == 0 { Err(PageError::Damaged) } else { self.page(page, widths) };
        match found {
            Err(PageError::Io(error)) => Err(error),
            Err(PageError::Damaged) => visit(Found::Damaged(range.clone())),
            Ok(Page::Leaf(leaf)) => {
                for row in 0..leaf.len() {
                    match leaf.row(row) {
                        Some((key, value)) => visit(Found::Row(key, value))?,
                        None => visit(Found::Damaged(range.clone()))?,
                    }
                }
                Ok(())
            }
            Ok(Page::Branch(branch)) => {
                for child in 0..branch.len() {
                    let below = range.child(&branch, child);
                    match branch.child(child) {
                        Some(page) => self.descend(page, widths, &below, depth - 1, visit)?,
                        None => visit(Found::Damaged(below))?,
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the tables of a commit with their names, and the ranges of names that cannot be read.
    pub(crate) fn tables(&self, root: Option<Root>) -> io::Result<FoundTables> {
        let (mut tables, mut damaged) = (Vec::new(), Vec::new());
        let Some(root) = root else { return Ok((tables, damaged)) };
        self.walk(root.page, Widths::default(), &mut |found| {
            match found {
                Found::Row(name, table) => match (std::str::from_utf8(name), Table::read(table)) {
                    (Ok(name), Some(table)) => tables.push((name.to_owned(), table)),
                    _ => damaged.push(KeyRange::of(name)),
                },
                Found::Damaged(range) => damaged.push(range),
            }
            Ok(())
        })?;
        Ok((tables, damaged))
    }

    /// Verifies all pages of a commit, and passes the offset and bytes of each to `visit`; returns true if all are
    /// intact.
    ///
    /// Pages are read level by level in file order, with adjacent pages in one read: about as fast as copying the file.
    pub(crate) fn verify(&self, slot: &Slot, visit: &mut dyn FnMut(u64, &[u8])) -> io::Result<bool> {
        let mut level: Vec<Pending> = Vec::new();
        for root in [slot.tables, slot.system].into_iter().flatten() {
            level.push(Pending::new(root.page, Widths::default(), true));
        }
        let mut verified = 0;
        for _ in 0..DEPTH_MAX * 2 {
            verified += level
                .iter()
                .filter_map(|pending| self.header.location(pending.page.number))
                .map(|at| at.1)
                .sum::<u64>();
            if verified > self.len {
                return Ok(false);
            }
            if level.is_empty() {
                return Ok(true);
            }
            match self.verify_level(level, visit)? {
                Some(below) => level = below,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Verifies these pages; returns those below them, or `None` if one is damaged.
    fn verify_level(
        &self,
        mut level: Vec<Pending>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> io::Result<Option<Vec<Pending>>> {
        level.sort_unstable_by_key(|pending| self.header.location(pending.page.number).map_or(0, |(offset, _)| offset));
        let (mut below, mut rest, mut buffer) = (Vec::new(), &*level, Vec::new());
        while let Some(first) = rest.first() {
            let (mut count, mut end) = (0, None);
            let from = self.header.location(first.page.number).map_or(0, |(offset, _)| offset);
            for pending in rest {
                let Some((offset, len)) = self.header.location(pending.page.number) else { return Ok(None) };
                let reach = offset + len;
                if reach > self.len || end.is_some_and(|end| offset != end || reach - from > READ_BYTES_MAX) {
                    break;
                }
                end = Some(reach);
                count += 1;
            }
            let Some(end) = end else { return Ok(None) };
            buffer.resize((end - from) as usize, 0);
            self.storage.read(from, &mut buffer)?;
            let (these, others) = rest.split_at(count);
            rest = others;
            let mut bytes = &*buffer;
            let mut at = from;
            for pending in these {
                let len = self.header.location(pending.page.number).map_or(0, |(_, len)| len);
                let (page, after) = bytes.split_at(len as usize);
                if !pending.verify(page, &mut below) {
                    return Ok(None);
                }
                visit(at, page);
                at += len;
                bytes = after;
            }
        }
        Ok(Some(below))
    }
}

/// Maximum number of bytes in one read during verification, unless one page is larger.
const READ_BYTES_MAX: u64 = 1024 * 1024;

/// A page to be verified.
#[derive(Clone, Copy)]
struct Pending {
    page: PageRef,
    widths: Widths,
    /// True if its rows are tables; their pages are verified as well.
    has_tables: bool,
}

impl Pending {
    const fn new(page: PageRef, widths: Widths, has_tables: bool) -> Self {
        Self { page, widths, has_tables }
    }

    /// Verifies the page, and adds those below it.
    fn verify(self, bytes: &[u8], below: &mut Vec<Self>) -> bool {
        let (page, widths) = (self.page, self.widths);
        // Most pages are leaves of tables, of which only the checksum matters: avoid the copy.
        if bytes.first() == Some(&LEAF) && !self.has_tables {
            return leaf_end(bytes, widths).is_some_and(|end| xxh3_128(&bytes[..end]) == page.checksum);
        }
        match parse(bytes.to_vec(), page.checksum, widths) {
            None => false,
            Some(Page::Branch(branch)) => (0..branch.len()).all(|child| {
                let child = branch.child(child).map(|page| Self { page, ..self });
                child.inspect(|child| below.push(*child)).is_some()
            }),
            Some(Page::Leaf(leaf)) => (0..leaf.len()).all(|row| {
                let table = leaf.row(row).and_then(|(_, table)| Table::read(table));
                // This program does not use multimaps; redb verifies them when it needs them.
                let root = table.as_ref().filter(|table| !table.is_multimap).and_then(|table| table.root);
                below.extend(root.iter().zip(&table).map(|(root, table)| Self::new(root.page, table.widths, false)));
                table.is_some()
            }),
        }
    }
}

fn leaf_end(bytes: &[u8], widths: Widths) -> Option<usize> {
    let rows = u16_at(bytes, 2).filter(|rows| *rows > 0)?;
    let varying = usize::from(widths.key.is_none()) + usize::from(widths.value.is_none());
    let end = match (widths.key, widths.value) {
        (_, None) => u32_at(bytes, 4 * rows * varying)?,
        (None, Some(value)) => u32_at(bytes, 4 * rows)?.checked_add(value.checked_mul(rows)?)?,
        (Some(key), Some(value)) => key.checked_add(value)?.checked_mul(rows)?.checked_add(4)?,
    };
    (end <= bytes.len()).then_some(end)
}

fn parse(bytes: Vec<u8>, checksum: u128, widths: Widths) -> Option<Page> {
    match *bytes.first()? {
        LEAF => {
            let end = leaf_end(&bytes, widths)?;
            let rows = u16_at(&bytes, 2)?;
            (xxh3_128(&bytes[..end]) == checksum).then_some(Page::Leaf(Leaf { bytes, rows, widths }))
        }
        BRANCH => {
            let keys = u16_at(&bytes, 2).filter(|keys| *keys > 0)?;
            let branch = Branch { bytes, keys, width: widths.key };
            let end = branch.key_end(keys - 1)?;
            (xxh3_128(branch.bytes.get(..end)?) == checksum).then_some(Page::Branch(branch))
        }
        _ => None,
    }
}

/// An item that a [walk](Pages::walk) visits.
pub(crate) enum Found<'a> {
    Row(&'a [u8], &'a [u8]),
    Damaged(KeyRange),
}
