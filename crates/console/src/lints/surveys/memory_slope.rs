//! `memory_slope`: the resident set has grown in each of six windows of ten seconds, and in total faster than the
//! threshold.
//!
//! A node that fills its caches grows too, but not without a pause for a minute. The finding names the kind of memory
//! that grew most, so that the growth has a cause.

use std::collections::VecDeque;
use std::time::Duration;

use rusm_protocol::Lint;

use crate::lints::finding::{Finding, HOLD};
use rusm_runtime::Pid;

/// Length of a window.
const WINDOW: Duration = Duration::from_secs(10);
/// Number of windows in a row that raise the lint.
const WINDOWS: usize = 6;

/// Memory of the node at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryUse {
    pub(super) rss: u64,
    pub(super) processes: u64,
    pub(super) futures: u64,
    pub(super) mailboxes: u64,
}

/// Memory at the ends of the last windows.
#[derive(Debug)]
pub(super) struct MemorySlope {
    per_min: u64,
    ends: VecDeque<(Duration, MemoryUse)>,
}

impl MemorySlope {
    pub(super) fn new(per_min: u64) -> Self {
        Self { per_min, ends: VecDeque::new() }
    }

    /// Returns a finding for as long as the memory grows without a pause.
    pub(super) fn check(&mut self, memory: MemoryUse, now: Duration) -> Option<Finding> {
        if self.ends.back().is_none_or(|(last, _)| now.saturating_sub(*last) >= WINDOW) {
            self.ends.push_back((now, memory));
            if self.ends.len() > WINDOWS + 1 {
                self.ends.pop_front();
            }
        }
        let (first_at, first) = *self.ends.front()?;
        let rises = |(a, b): (&(Duration, MemoryUse), &(Duration, MemoryUse))| a.1.rss < b.1.rss;
        if self.ends.len() <= WINDOWS || !self.ends.iter().zip(self.ends.iter().skip(1)).all(rises) {
            return None;
        }
        let minutes = now.saturating_sub(first_at).as_secs_f64() / 60.0;
        let grown = memory.rss.saturating_sub(first.rss);
        let per_min = grown as f64 / minutes.max(1e-9);
        let text = format!(
            "resident memory grew by {} MiB in {:.0} s, {}",
            grown >> 20,
            minutes * 60.0,
            cause(first, memory, grown)
        );
        (per_min >= self.per_min as f64).then(|| Finding {
            lint: Lint::MemorySlope,
            pid: Pid::NONE,
            value: per_min.round(),
            text,
            hold: HOLD.max(WINDOW),
        })
    }
}

/// Names the kind of memory that explains most of the growth, if one explains a quarter of it.
fn cause(before: MemoryUse, now: MemoryUse, grown: u64) -> String {
    let kinds = [
        ("messages in mailboxes", now.mailboxes.saturating_sub(before.mailboxes)),
        ("futures", now.futures.saturating_sub(before.futures)),
        ("processes", now.processes.saturating_sub(before.processes)),
    ];
    let inside: u64 = kinds.iter().map(|(_, bytes)| bytes).sum();
    let (name, bytes) = kinds.into_iter().max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
    if bytes * 4 >= grown.max(1) {
        format!("{} MiB of it in {name}", bytes >> 20)
    } else if inside * 2 >= grown {
        format!("{} MiB of it in processes and mailboxes", inside >> 20)
    } else {
        "most of it outside of processes and mailboxes".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn texts(seconds: u64, of: impl Fn(u64) -> MemoryUse) -> Vec<String> {
        let mut slope = MemorySlope::new(16 * MIB);
        (0..seconds).filter_map(|at| slope.check(of(at), Duration::from_secs(at))).map(|found| found.text).collect()
    }

    #[test]
    fn steady_growth_is_found_after_a_minute_with_its_cause() {
        let grows = |at| MemoryUse { rss: (100 + at) * MIB, mailboxes: at * MIB * 9 / 10, ..MemoryUse::default() };

        let found = texts(62, grows);

        assert_eq!(found.len(), 2);
        assert_eq!(found[0], "resident memory grew by 60 MiB in 60 s, 54 MiB of it in messages in mailboxes");
        assert_eq!(texts(59, grows), [""; 0]);
        let unknown = |at| MemoryUse { rss: (100 + at) * MIB, ..MemoryUse::default() };
        assert!(texts(62, unknown)[0].ends_with("most of it outside of processes and mailboxes"));
    }

    #[test]
    fn a_plateau_a_saw_tooth_and_slow_growth_are_healthy() {
        let rss = |mib: u64| MemoryUse { rss: mib * MIB, ..MemoryUse::default() };

        assert_eq!(texts(300, |at| rss(100 + at.min(50))), [""; 0], "it has filled its caches");
        assert_eq!(texts(300, |at| rss(100 + 5 * (at % 25))), [""; 0], "it frees what it takes");
        assert_eq!(texts(300, |at| rss(100 + at / 10)), [""; 0], "6 MiB a minute");
    }
}
