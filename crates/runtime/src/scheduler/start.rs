//! Turns a thread into a scheduler: creates its state, registers it for the thread, and runs its loop as a task of its
//! reactor.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use crossbeam_deque::Worker;
use tokio::task::JoinError;

use super::Local;
use super::busy_time::BusyTimer;
use super::fuzzer::ScheduleFuzzer;
use super::local::LOCAL;
use super::queue::age::QueueAge;
use super::steal_monitor::StealMonitor;
use super::turn_end::Turn;
use crate::links::signal::ReferenceAllocator;
use crate::mailbox::introductions::IntroductionCache;
use crate::mailbox::queue::NodePool;
use crate::observe::events::EVENTS_PER_SLICE;
use crate::observe::kinds::EndedCache;
use crate::process::exit::panic_reason;
use crate::process::free_list::FreeList;
use crate::process::table::Slot;
use crate::runtime::shared::RuntimeShared;
use crate::time::realtime::RelativePriority;

/// Makes the current thread a scheduler until this is dropped.
struct EnterGuard(*const Local);

impl EnterGuard {
    fn take(local: &Local) -> Self {
        Self(LOCAL.with(|current| current.replace(ptr::from_ref(local))))
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        LOCAL.with(|current| current.set(self.0));
    }
}

impl Local {
    fn new(shared: &Arc<RuntimeShared>, id: usize, queue: Worker<Slot>, fuzzer: Option<ScheduleFuzzer>) -> Self {
        Self {
            id,
            me: Arc::clone(&shared.schedulers[id]),
            queue,
            queue_age: QueueAge::default(),
            fuzzer,
            slots: FreeList::of(shared.slots.batch()),
            nodes: NodePool::new(),
            spare_side_tables: Cell::default(),
            busy_timer: BusyTimer::new(shared.started, id as u32 + 1),
            current: Cell::new(None),
            wait: Cell::new(0),
            woken: Cell::new(false),
            signalled: Cell::new(false),
            budget: Cell::new(0),
            tracing: Cell::new(false),
            instruments: Cell::new(0),
            span: Cell::default(),
            turn: Turn::new(),
            lifo_left: Cell::new(0),
            in_reactor: Cell::new(true),
            loop_waker: Cell::new(None),
            last_reference: Cell::new(ReferenceAllocator::USED_UP),
            deferred_timeouts: Cell::default(),
            wake_deferred: Cell::new(false),
            ends_after_enqueue: Cell::new(false),
            first: Cell::new(true),
            events_left: Cell::new(EVENTS_PER_SLICE),
            ends_left: Cell::new(EVENTS_PER_SLICE),
            samples: Cell::new(false),
            marked_ns: Cell::new(0),
            ended_by: Cell::new(None),
            now_ms: Cell::new(0),
            polls_until_check: Cell::new(0),
            unsettled_mail: Cell::new(0),
            introduction_cache: IntroductionCache::new(),
            checks: Cell::new(0),
            long_slices: Cell::new(0),
            children: Cell::default(),
            child_places: Box::default(),
            preempted: Cell::new(None),
            resumed: Cell::new(None),
            resumed_long: Cell::new(false),
            resumed_ns: Cell::new(0),
            balanced_ns: Cell::new(0),
            preempted_due: Cell::new(0),
            spins: Cell::new(0),
            fed_by_reactor: Cell::new(false),
            expects_peer_work: Cell::new(false),
            slept_at_ns: Cell::new(0),
            searching: Cell::new(false),
            search_since_ns: Cell::new(0),
            ended_cache: EndedCache::default(),
            dropped_replies: RefCell::default(),
            asleep: Cell::new(false),
            steal_monitor: StealMonitor::default(),
            shared: Arc::clone(shared),
        }
    }

    /// Body of a scheduler's thread.
    pub(crate) fn run(shared: &Arc<RuntimeShared>, id: usize, queue: Worker<Slot>, reactor: &tokio::runtime::Runtime) {
        RelativePriority::Below.apply();
        Self::drive(shared, id, queue, None, reactor, async {});
    }

    /// Makes this thread a scheduler until the runtime stops, and runs `companion` in the same reactor. Returns the
    /// result of that.
    pub(crate) fn drive<T>(
        shared: &Arc<RuntimeShared>,
        id: usize,
        queue: Worker<Slot>,
        fuzzer: Option<ScheduleFuzzer>,
        reactor: &tokio::runtime::Runtime,
        companion: impl Future<Output = T>,
    ) -> T {
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        shared.schedulers[id].thread_id.store(thread_id, Ordering::Relaxed);
        let local = Self::new(shared, id, queue, fuzzer);
        let guard = EnterGuard::take(&local);
        let work = tokio::task::unconstrained(poll_fn(|cx| match super::local() {
            Some(local) => local.slice(cx),
            None => Poll::Ready(()),
        }));
        let (output, ended) = reactor.block_on(async {
            let work = reactor.spawn(work);
            let output = companion.await;
            (output, work.await)
        });
        local.slots.spill(&shared.slots, 0);
        drop(guard);
        propagate_panic(id, ended);
        output
    }
}

/// Panics if the loop of a scheduler did. The loop catches every panic of a process, so this is a fault of the runtime,
/// and the processes queued on this thread will never run. The panic hook was silent while the thread was a scheduler.
fn propagate_panic(id: usize, ended: Result<(), JoinError>) {
    let Err(error) = ended else { return };
    match error.try_into_panic() {
        Ok(payload) => panic!("scheduler {id} ended because of a bug in the runtime: {}", panic_reason(payload)),
        Err(error) => panic!("scheduler {id} ended because of a bug in the runtime: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_scheduler_that_panics_is_heard() {
        let reactor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ended = reactor.block_on(reactor.spawn(async { panic!("of its own") }));

        let message = catch_unwind(AssertUnwindSafe(|| propagate_panic(3, ended))).unwrap_err();

        let message = *message.downcast::<String>().unwrap();
        assert!(message.starts_with("scheduler 3 ended because of a bug in the runtime: panic"), "{message}");
        assert!(message.ends_with(": of its own"), "{message}");
        propagate_panic(3, Ok(()));
    }
}
