//! Address ranges that an engine reserves for its instances, so that observers can tell which resident memory is theirs.
//!
//! wasmtime's pool does not name its ranges. They are found by comparing the mappings of this process before and after
//! the pool is created: only ranges that are larger than anything else that appears by chance count.

use std::fs;
use std::iter;
use std::ops::Range;

/// Minimum size of a range. The largest thing that another thread maps by chance, an arena of the C library, is half of
/// it.
const BYTES_MIN: usize = 128 << 20;

/// Runs `create` and returns its result with the large address ranges that it has mapped. Empty if the system does not
/// list mappings.
pub(crate) fn reserved_by<T>(create: impl FnOnce() -> T) -> (T, Vec<Range<usize>>) {
    let before = mapped();
    let created = create();
    let mut new = added(&before, mapped());
    new.retain(|range| range.len() >= BYTES_MIN);
    (created, new)
}

/// Returns the parts of `after` that `before` does not cover; neighbours are one range. Both are sorted.
fn added(before: &[Range<usize>], after: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut new: Vec<Range<usize>> = Vec::new();
    for range in after {
        let mut start = range.start;
        let known = before.iter().filter(|known| known.start < range.end && known.end > range.start);
        for known in known.cloned().chain(iter::once(range.end..range.end)) {
            if start < known.start {
                match new.last_mut() {
                    Some(last) if last.end == start => last.end = known.start,
                    _ => new.push(start..known.start),
                }
            }
            start = start.max(known.end);
        }
    }
    new
}

/// Returns the mapped ranges of this process.
fn mapped() -> Vec<Range<usize>> {
    let text = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    let range = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        Some(address(start)?..address(end)?)
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_there_before_is_new() {
        let before = [10..20, 50..60];

        // A new mapping may be joined with an old one, and two new ones may touch.
        let new = added(&before, vec![5..20, 20..30, 30..40, 45..70, 80..90]);

        assert_eq!(new, [5..10, 20..40, 45..50, 60..70, 80..90]);
        assert_eq!(added(&[], vec![1..2, 3..4]), [1..2, 3..4]);
        assert_eq!(added(&before, before.to_vec()), []);
    }

    #[test]
    fn a_large_mapping_is_found() {
        let (block, ranges) = reserved_by(|| Vec::<u8>::with_capacity(512 << 20));

        let at = block.as_ptr() as usize;
        assert!(ranges.iter().any(|range| range.contains(&at)), "{ranges:x?} {at:x}");
    }
}
