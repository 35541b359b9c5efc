//! Memory of a runtime by its use, read only on request.
//!
//! Each part knows its own size; nothing is counted when processes start or send. For memory that is allocated before
//! it is used, such as process slots and rings, the resident part counts: the pages that the system really holds.

#![expect(unsafe_code, reason = "asks the system which pages of a range are resident")]

use crate::mailbox::queue::NODE_BYTES;
use crate::runtime::handle::Handle;

/// Memory of a runtime by its use, in bytes; see also the memory of each process in
/// [`ProcessRef`](super::ProcessRef).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeMemory {
    /// Resident part of the process table: control blocks of live processes, and of slots that are kept free.
    pub table_bytes: u64,
    /// Nodes of messages that are kept free for the next messages.
    pub free_node_bytes: u64,
    /// Resident part of the rings that observers see, with the streams on them.
    pub ring_bytes: u64,
    /// Messages that topics hold, with their slots in the logs.
    pub topic_bytes: u64,
    /// Timers that have not fired yet.
    pub timer_bytes: u64,
}

/// Reads the memory of a runtime. Takes about a microsecond for each thousand processes that ever lived at once, for each
/// ring and for each topic.
pub fn memory(runtime: &Handle) -> RuntimeMemory {
    let shared = &runtime.shared;
    RuntimeMemory {
        table_bytes: shared.table.ranges().map(|(start, bytes)| resident_bytes(start, bytes)).sum(),
        free_node_bytes: (shared.nodes.batches() * shared.nodes.batch() as usize * NODE_BYTES) as u64,
        ring_bytes: shared.streams.memory_bytes(resident_bytes),
        topic_bytes: shared.topics.memory_bytes(),
        timer_bytes: shared.timers.memory_bytes(),
    }
}

/// Returns the number of bytes in a range of addresses that are resident. Parts of the range that are not mapped count as
/// not resident.
pub fn resident_bytes(start: usize, bytes: usize) -> u64 {
    /// Number of pages for which the system is asked at once.
    const PAGES: usize = 4096;
    let page = rustix::param::page_size();
    let (first, end) = (start / page * page, start.saturating_add(bytes).next_multiple_of(page));
    let mut pages = [0_u8; PAGES];
    let mut resident = 0;
    for at in (first..end).step_by(PAGES * page) {
        let count = (end - at).div_ceil(page).min(PAGES);
        // SAFETY: the call reads nothing at the address, fails for ranges that are not mapped, and writes one byte for
        // each page, for which `pages` has room.
        let told = unsafe { libc::mincore(at as *mut libc::c_void, count * page, pages.as_mut_ptr()) };
        if told == 0 {
            resident += pages[..count].iter().filter(|page| **page & 1 == 1).count();
        }
    }
    // A range that begins or ends inside a page is at most as long as it says.
    ((resident * page) as u64).min(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Runtime};

    #[test]
    fn only_pages_that_were_touched_are_resident() {
        let bytes = 64 << 20;
        let mut block = Vec::<u8>::with_capacity(bytes);
        let start = block.as_ptr() as usize;
        let before = resident_bytes(start, bytes);

        block.resize(48 << 20, 1);
        let after = resident_bytes(start, bytes);

        // A transparent huge page may make its neighbours resident.
        assert!(before <= 2 << 20, "{before}");
        assert!((48 << 20..=50 << 20).contains(&after), "{after}");
        assert_eq!(resident_bytes(start, 100), 100);
        assert_eq!(resident_bytes(16, 4096), 0, "nothing is mapped there");
    }

    #[test]
    fn a_table_grows_by_the_control_blocks_of_its_processes() {
        let runtime = Runtime::start(Config { schedulers: 1, ..Config::default() }).unwrap();
        let before = memory(&runtime).table_bytes;

        for _ in 0..20_000 {
            runtime.spawn(|ctx| async move { drop(ctx.receive().await) }).unwrap();
        }
        let grown = memory(&runtime).table_bytes - before;

        let needed = 20_000 * crate::observe::ProcessRef::control_block_bytes();
        assert!((needed..needed + needed / 10).contains(&grown), "{grown} for {needed}");
    }
}
