//! The resident memory of this process by mapping, from `/proc/self/smaps`.
//!
//! ```text
//!   program, libraries │ [heap], arenas, large blocks │ stacks of threads │ guests, in ranges that engines name │ code
//! ```
//!
//! Every resident page belongs to exactly one mapping, so the sums are exact. Only the stacks of threads have no name in
//! the kernel: a stack is the writable mapping right above a small guard. Two mappings side by side may be one line;
//! then the part of it that is as long as a usual stack is the stack.

use std::fs::File;
use std::io::{BufRead, BufReader};

use rusm_runtime::observe::{MemoryRegion, MemoryUse, resident_bytes};

/// Maximum size of the guard below a thread's stack.
const GUARD_MAX_BYTES: usize = 64 << 10;
/// Size of the stack of a thread of the standard library.
const STACK_BYTES: usize = 2 << 20;
/// Alignment of glibc's arenas, which have an inaccessible rest above them.
const ARENA_BYTES: usize = 64 << 20;

/// Resident memory by kind of mapping, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resident {
    pub(super) program: u64,
    pub(super) thread_stacks: u64,
    pub(super) code: u64,
    pub(super) linear: u64,
    pub(super) guest_stacks: u64,
    pub(super) engines: u64,
    /// All other memory: what the allocator has.
    pub(super) heap: u64,
    /// Size of the allocator's arenas that is not resident: freed memory that was never used or was returned.
    pub(super) arena_unused: u64,
}

impl Resident {
    /// Returns the resident set.
    pub(super) fn bytes(&self) -> u64 {
        let Self { program, thread_stacks, code, linear, guest_stacks, engines, heap, arena_unused: _ } = *self;
        program + thread_stacks + code + linear + guest_stacks + engines + heap
    }
}

/// One mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    access: Access,
    file: MappedFile,
    rss: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Access {
    #[default]
    None,
    /// Read, or read and execute.
    Read,
    Write,
}

/// Content of a mapping, by its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MappedFile {
    #[default]
    Anonymous,
    Program,
    /// Initial content of a linear memory.
    LinearImage,
    Heap,
    MainStack,
}

/// Reads the mappings of this process, and sums their resident memory. `None` if the system does not report it.
pub(super) fn read(regions: &[MemoryRegion]) -> Option<Resident> {
    let file = File::open("/proc/self/smaps").ok()?;
    // In parts: a node with thousands of guests has megabytes of text.
    sum(BufReader::with_capacity(64 << 10, file), regions, resident_bytes)
}

/// Sums the resident memory of the mappings in the text of `smaps`; `resident` reads a part of a mapping.
fn sum(mut text: impl BufRead, regions: &[MemoryRegion], resident: impl Fn(usize, usize) -> u64) -> Option<Resident> {
    let mut sums = Sums { resident: Resident::default(), before: Mapping::default(), is_program: false };
    let mut current: Option<Mapping> = None;
    let mut line = Vec::with_capacity(256);
    loop {
        line.clear();
        let is_end = text.read_until(b'\n', &mut line).ok()? == 0;
        if let Some(next) = head(&line).map(Some).or_else(|| is_end.then_some(None)) {
            if let Some(mapping) = std::mem::replace(&mut current, next) {
                sums.add(mapping, regions, &resident);
            }
        } else if let (Some(mapping), Some(rest)) = (&mut current, line.strip_prefix(b"Rss:")) {
            mapping.rss = kib(rest) * 1024;
        }
        if is_end {
            return Some(sums.resident);
        }
    }
}

/// Sums of the mappings that were read.
struct Sums {
    resident: Resident,
    before: Mapping,
    /// True if `before` belongs to the program.
    is_program: bool,
}

impl Sums {
    fn add(&mut self, mapping: Mapping, regions: &[MemoryRegion], resident: impl Fn(usize, usize) -> u64) {
        let Mapping { start, end, access, file, rss } = mapping;
        let before = std::mem::replace(&mut self.before, mapping);
        let is_adjacent = before.end == start;
        let is_guarded = is_adjacent && before.access == Access::None && before.end - before.start <= GUARD_MAX_BYTES;
        let is_bss = is_adjacent && self.is_program && file == MappedFile::Anonymous;
        let region = regions.iter().find(|region| (region.start..region.start + region.bytes).contains(&start));
        let is_arena = file == MappedFile::Anonymous && start.is_multiple_of(ARENA_BYTES) && region.is_none();
        let sums = &mut self.resident;
        if access == Access::Write && (is_arena || file == MappedFile::Heap) {
            sums.arena_unused += ((end - start) as u64).saturating_sub(rss);
        }
        self.is_program = file == MappedFile::Program || is_bss;
        let kind = match (file, region.map(|region| region.used_for)) {
            (MappedFile::LinearImage, _) | (_, Some(MemoryUse::LinearMemories)) => &mut sums.linear,
            (_, Some(MemoryUse::Stacks)) => &mut sums.guest_stacks,
            (_, Some(MemoryUse::Pool { stack_bytes, .. })) if is_guarded && end - start == stack_bytes => {
                &mut sums.guest_stacks
            }
            (_, Some(MemoryUse::Pool { linear_max_bytes, .. })) if end - start <= linear_max_bytes => &mut sums.linear,
            (_, Some(MemoryUse::Pool { .. })) => &mut sums.engines,
            (MappedFile::MainStack, _) => &mut sums.thread_stacks,
            (MappedFile::Program, _) => &mut sums.program,
            (MappedFile::Anonymous, None) if is_bss => &mut sums.program,
            (MappedFile::Anonymous, None) if access == Access::Read => &mut sums.code,
            (MappedFile::Anonymous, None) if is_guarded && access == Access::Write && !is_arena => {
                let is_longer = end - start > STACK_BYTES;
                let stack = if is_longer { resident(start, STACK_BYTES).min(rss) } else { rss };
                sums.heap += rss - stack;
                sums.thread_stacks += stack;
                return;
            }
            (MappedFile::Heap, _) | (MappedFile::Anonymous, None) => &mut sums.heap,
        };
        *kind += rss;
    }
}

/// Parses the first line of a mapping: `7f0000000000-7f0000001000 rw-p 00000000 00:00 0    [heap]`.
fn head(line: &[u8]) -> Option<Mapping> {
    if !matches!(line.first()?, b'0'..=b'9' | b'a'..=b'f') {
        return None;
    }
    let line = line.trim_ascii_end();
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let addresses = words.next()?;
    let dash = addresses.iter().position(|byte| *byte == b'-')?;
    let access = match words.next()? {
        [_, b'w', ..] => Access::Write,
        [b'r', ..] => Access::Read,
        _ => Access::None,
    };
    let file = match words.nth(3) {
        None => MappedFile::Anonymous,
        Some(path) if path.starts_with(b"/memfd:wasm") => MappedFile::LinearImage,
        Some(b"[heap]") => MappedFile::Heap,
        Some(b"[stack]") => MappedFile::MainStack,
        Some(path) if path.starts_with(b"[anon") => MappedFile::Anonymous,
        Some(_) => MappedFile::Program,
    };
    Some(Mapping { start: hex(&addresses[..dash])?, end: hex(&addresses[dash + 1..])?, access, file, rss: 0 })
}

fn hex(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Parses `   1234 kB`.
fn kib(text: &[u8]) -> u64 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u64, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55a000000000-55a000100000 r-xp 00000000 08:01 77                         /usr/bin/a node
Size:               1024 kB
Rss:                 600 kB
Pss:                 600 kB
VmFlags: rd ex mr mw me sd
55a000100000-55a000110000 rw-p 00100000 08:01 77                         /usr/bin/a node
Rss:                  64 kB
55a000110000-55a000120000 rw-p 00000000 00:00 0
Rss:                  32 kB
55a000200000-55a000300000 rw-p 00000000 00:00 0                          [heap]
Rss:                1000 kB
7f0000000000-7f0000001000 ---p 00000000 00:00 0
Rss:                   0 kB
7f0000001000-7f0000201000 rw-p 00000000 00:00 0
Rss:                  20 kB
7f0000300000-7f0000301000 ---p 00000000 00:00 0
Rss:                   0 kB
7f0000301000-7f0000801000 rw-p 00000000 00:00 0
Rss:                3000 kB
7f0004000000-7f0004021000 rw-p 00000000 00:00 0
Rss:                 132 kB
7f0004021000-7f0008000000 ---p 00000000 00:00 0
Rss:                   0 kB
7f0008000000-7f0008021000 rw-p 00000000 00:00 0
Rss:                 100 kB
7f1000000000-7f1000010000 r--p 00000000 00:00 0
Rss:                  10 kB
7f1000010000-7f1000020000 r-xp 00000000 00:00 0
Rss:                  30 kB
7f2000000000-7f2000010000 rw-p 00000000 00:01 9                          /memfd:wasm-memory-image (deleted)
Rss:                   8 kB
7f2000010000-7f2000020000 rw-p 00000000 00:00 0
Rss:                   4 kB
7f3000000000-7f3000040000 rw-p 00000000 00:00 0
Rss:                  12 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]
Rss:                  40 kB
7ffd00030000-7ffd00032000 r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
";

    fn region(start: usize, used_for: MemoryUse) -> MemoryRegion {
        MemoryRegion { used_for, start, bytes: 256 << 20 }
    }

    fn sums(text: &str, regions: &[MemoryRegion]) -> Resident {
        sum(text.as_bytes(), regions, |_, _| 50 << 10).unwrap()
    }

    #[test]
    fn each_mapping_counts_once_and_for_its_kind() {
        let regions =
            [region(0x7f20_0000_0000, MemoryUse::LinearMemories), region(0x7f30_0000_0000, MemoryUse::Stacks)];

        let sums = sums(SMAPS, &regions);

        let kib = |bytes: u64| bytes / 1024;
        assert_eq!(kib(sums.program), 600 + 64 + 32 + 4, "with its static data");
        assert_eq!(kib(sums.thread_stacks), 20 + 50 + 40, "also from a line that is longer than a stack");
        assert_eq!(kib(sums.heap), 1000 + 2950 + 132 + 100, "an arena above the rest of another one is no stack");
        assert_eq!(kib(sums.arena_unused), 24 + 32, "of [heap] and of the second arena");
        assert_eq!((kib(sums.code), kib(sums.linear), kib(sums.guest_stacks)), (40, 12, 12));
    }

    #[test]
    fn the_parts_of_a_pool_are_told_apart_by_their_guards_and_sizes() {
        let pool = "\
7f2000000000-7f2000001000 ---p 00000000 00:00 0
Rss:                   0 kB
7f2000001000-7f2000041000 rw-p 00000000 00:00 0
Rss:                  12 kB
7f2000041000-7f2000051000 rw-p 00000000 00:00 0
Rss:                  40 kB
7f2000051000-7f2008000000 rw-p 00000000 00:00 0
Rss:                   7 kB
";
        let used_for = MemoryUse::Pool { stack_bytes: 256 << 10, linear_max_bytes: 1 << 20 };

        let sums = sums(pool, &[region(0x7f20_0000_0000, used_for)]);

        assert_eq!((sums.guest_stacks, sums.linear, sums.engines), (12 << 10, 40 << 10, 7 << 10));
        assert_eq!((sums.heap, sums.thread_stacks), (0, 0));
    }

    #[test]
    fn lines_of_another_form_are_skipped() {
        for text in ["", "\n", "what is this\nRss: 9 kB\n", "7f00-7f0\nRss: x kB", "zz-yy rw-p 0 0 0 /a\nRss: 1 kB"] {
            assert_eq!(sums(text, &[]), Resident::default(), "{text}");
        }
    }

    /// Environment variable of the part of the next test that runs in its own process.
    const ALONE: &str = "RUSM_TEST_MAPPINGS_ALONE";

    #[test]
    fn the_sums_are_the_resident_set() {
        if std::env::var_os(ALONE).is_some() {
            return sums_equal_the_resident_set();
        }
        // Other tests of this program allocate and free memory between the two readings.
        let name = "sampler::memory::mappings::tests::the_sums_are_the_resident_set";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());

        let ended = child.args([name, "--exact"]).env(ALONE, "1").output().unwrap();

        let printed = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{printed}{}", String::from_utf8_lossy(&ended.stderr));
        assert!(printed.contains("1 passed"), "the filter must match the name of this test");
    }

    fn sums_equal_the_resident_set() {
        let block = std::hint::black_box(vec![1_u8; 32 << 20]);
        let before = status_bytes();
        let sums = read(&[]).unwrap();
        let after = status_bytes();
        drop(block);

        // The reading itself allocates, much of it with a sanitizer.
        let sum = sums.bytes();
        assert!(sum >= before - before / 20 && sum <= after + after / 20, "{sum} of {before} to {after}");
        assert!(sums.heap >= 32 << 20 && sums.program > 0, "{sums:?}");
    }

    /// Returns the resident set, from another file of the kernel.
    fn status_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        rss.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}
