//! Wakes schedulers once for all processes that a thread queues, instead of once for each.
//!
//! A scheduler that is woken for the first of many messages often takes the core of the thread that delivers them, finds the
//! one message, and sleeps again.

use std::cell::Cell;
use std::ptr;

use crate::runtime::shared::RuntimeShared;

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { runtime: ptr::null(), is_due: false }) };
}

#[derive(Clone, Copy)]
struct Held {
    /// The runtime that this thread does not wake; compared, never dereferenced.
    runtime: *const RuntimeShared,
    is_due: bool,
}

/// While it exists, this thread, which is not a scheduler, does not wake schedulers of a runtime for processes that it queues.
/// When it is dropped, one scheduler is woken for all of them; that one wakes others, as for any work it finds.
pub(crate) struct HeldWakes<'a> {
    runtime: &'a RuntimeShared,
    before: Held,
}

impl<'a> HeldWakes<'a> {
    pub(crate) fn hold(runtime: &'a RuntimeShared) -> Self {
        Self { runtime, before: HELD.replace(Held { runtime, is_due: false }) }
    }

    /// Notes that a scheduler must be woken for queued work. Returns false if the caller has to do it now.
    pub(super) fn defer(runtime: &RuntimeShared) -> bool {
        let held = HELD.get();
        let is_held = ptr::eq(held.runtime, runtime);
        if is_held && !held.is_due {
            HELD.set(Held { is_due: true, ..held });
        }
        is_held
    }
}

impl Drop for HeldWakes<'_> {
    fn drop(&mut self) {
        if HELD.replace(self.before).is_due {
            self.runtime.wake_for_injected();
        }
    }
}
