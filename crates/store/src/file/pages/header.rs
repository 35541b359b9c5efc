//! redb's header: determines which of its two commits is the last one, and the positions of pages.

use xxhash_rust::xxh3::xxh3_128;

/// Size of the smallest page, and of the first one, which holds the header.
pub(crate) const PAGE: u64 = 4096;

/// Size of redb's header, at the beginning of the file.
pub(crate) const HEADER: usize = 320;
/// First bytes of every redb file.
const MAGIC: &[u8] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// The version of the file format that this module reads.
const VERSION: u8 = 3;
const SLOTS: [usize; 2] = [64, 192];
const SLOT: usize = 128;
/// Largest order of a page: its size is 4 KiB times two to the power of the order.
const ORDER_MAX: u32 = 20;
/// The bit of the header's flags that selects the primary slot.
const PRIMARY: u8 = 1;
/// The bit that is set while the file is not closed.
const UNCLEAN: u8 = 2;
/// The bit that is set if the primary slot was written by a two-phase commit.
const TWO_PHASE: u8 = 4;
const FLAGS: usize = 9;

pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(array(bytes, at)?)).ok()
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// A page number and the page's checksum, as stored in its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(super) number: u64,
    pub(super) checksum: u128,
}

/// The root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) page: PageRef,
    /// Number of rows.
    pub(crate) rows: u64,
}

impl Root {
    pub(super) fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let (number, checksum) = (u64_at(bytes, at)?, array(bytes, at + 8).map(u128::from_le_bytes)?);
        Some(Self { page: PageRef { number, checksum }, rows: u64_at(bytes, at + 24)? })
    }
}

/// A commit in a header, which has two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The tree of the tables.
    pub(crate) tables: Option<Root>,
    /// The tree of redb's own tables.
    pub(crate) system: Option<Root>,
    pub(crate) transaction: u64,
}

impl Slot {
    /// Reads a slot; returns `None` if its checksum does not match.
    fn read(bytes: &[u8]) -> Option<Self> {
        let checksum = array(bytes, SLOT - 16).map(u128::from_le_bytes)?;
        if bytes[0] != VERSION || xxh3_128(&bytes[..SLOT - 16]) != checksum {
            return None;
        }
        let root = |flag: usize, at| if bytes[flag] == 0 { Some(None) } else { Root::read(bytes, at).map(Some) };
        Some(Self { tables: root(1, 8)?, system: root(2, 40)?, transaction: u64_at(bytes, 104)? })
    }
}

/// Returns the version of the file format in both slots, if this module cannot read it.
pub(crate) fn newer_version(header: &[u8; HEADER]) -> Option<u8> {
    let [first, second] = SLOTS.map(|at| header[at]);
    (first == second && first > VERSION).then_some(first)
}

/// The header of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    flags: u8,
    region_header_pages: u64,
    region_pages: u64,
    slots: [Option<Slot>; 2],
}

impl Header {
    /// Reads a header; the error text says what is wrong with it.
    pub(crate) fn read(bytes: &[u8; HEADER]) -> Result<Self, String> {
        let field = |at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if !bytes.starts_with(MAGIC) {
            return Err("it does not begin with the signature of a store".to_owned());
        }
        if let Some(found) = newer_version(bytes) {
            return Err(format!("Expected file format version <= {VERSION}, found {found}"));
        }
        let (page, region_header_pages, region_pages) = (field(12), u64::from(field(16)), u64::from(field(20)));
        let pages_max = 1 << ORDER_MAX;
        if u64::from(page) != PAGE || !(1..=pages_max).contains(&region_pages) || region_header_pages > pages_max {
            return Err(format!("its header is not valid: pages of {page} bytes and regions of {region_pages} pages"));
        }
        let slots = SLOTS.map(|at| Slot::read(&bytes[at..at + SLOT]));
        Ok(Self { flags: bytes[FLAGS], region_header_pages, region_pages, slots })
    }

    /// Returns true if the file was closed.
    pub(crate) const fn is_clean(&self) -> bool {
        self.flags & UNCLEAN == 0
    }

    /// Returns the commit that is the last one according to the header, if it is intact.
    pub(crate) fn primary(&self) -> Option<&Slot> {
        self.slots[usize::from(self.flags & PRIMARY)].as_ref()
    }

    fn secondary(&self) -> Option<&Slot> {
        self.slots[usize::from(self.flags & PRIMARY ^ 1)].as_ref()
    }

    /// Returns the commits that redb would use after a crash, in the order in which it tries them.
    pub(crate) fn candidates(&self) -> Vec<Slot> {
        let (primary, secondary) = (self.primary().copied(), self.secondary().copied());
        if self.is_clean() || self.flags & TWO_PHASE != 0 {
            return primary.into_iter().collect();
        }
        let newer = |a: Option<Slot>, b: Option<Slot>| a.map(|slot| slot.transaction) >= b.map(|slot| slot.transaction);
        let both = if newer(primary, secondary) { [primary, secondary] } else { [secondary, primary] };
        both.into_iter().flatten().collect()
    }

    /// Returns the intact commits, the newest first, regardless of the header's flags.
    pub(crate) fn any_order(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.slots.iter().flatten().copied().collect();
        slots.sort_by_key(|slot| std::cmp::Reverse(slot.transaction));
        slots
    }

    /// Returns the highest transaction number in the header.
    pub(crate) fn last_transaction(&self) -> u64 {
        self.slots.iter().flatten().map(|slot| slot.transaction).max().unwrap_or(0)
    }

    /// Returns true if both slots are intact.
    pub(crate) const fn is_intact(&self) -> bool {
        self.slots[0].is_some() && self.slots[1].is_some()
    }

    /// Returns the offset and the length of a page, in bytes.
    pub(super) fn location(&self, number: u64) -> Option<(u64, u64)> {
        let order = u32::try_from(number >> 59).ok().filter(|order| *order <= ORDER_MAX)?;
        let (index, region) = (number & (0xf_ffff >> order), number >> 20 & 0xf_ffff);
        let first = region.checked_mul((self.region_header_pages + self.region_pages) * PAGE)?;
        let len = PAGE << order;
        let offset = first.checked_add((1 + self.region_header_pages) * PAGE)?.checked_add(index.checked_mul(len)?)?;
        Some((offset, len))
    }
}
