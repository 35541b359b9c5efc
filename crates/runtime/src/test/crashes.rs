//! The crashes of a run, which its report tells instead of the log.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::process::pid::Pid;
use crate::runtime::crashes::{Crash, CrashHook};

/// Maximum number of crashes that are kept.
const CRASHES_MAX: usize = 10;

/// The last crashes of a run.
#[derive(Default)]
pub(super) struct Crashes(Arc<Mutex<VecDeque<Crash>>>);

impl Crashes {
    /// Returns the hook that keeps crashes, and then calls that of the program.
    pub(super) fn hook(&self, own: Option<CrashHook>) -> CrashHook {
        let kept = Arc::clone(&self.0);
        CrashHook::new(move |crash: &Crash| {
            let mut crashes = kept.lock();
            if crashes.len() == CRASHES_MAX {
                crashes.pop_front();
            }
            crashes.push_back(crash.clone());
            drop(crashes);
            if let Some(own) = &own {
                own.call(crash);
            }
        })
    }

    /// Describes the crashes of all processes but the first: its end is the cause of the failure.
    pub(super) fn without(&self, first: Pid) -> Vec<String> {
        self.0.lock().iter().filter(|crash| crash.pid != first).map(ToString::to_string).collect()
    }
}
