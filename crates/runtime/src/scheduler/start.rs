//! Turns a thread into a scheduler: creates its state, registers it for the thread, and runs its loop as a task of its
//! reactor.

use std::cell::Cell as Plain;
use std::future::poll_fn;
use std::ptr;
use std::sync::Arc;
use std::task::Poll;

use crossbeam_deque::Worker;
use tokio::task::JoinError;

use super::introductions::Introductions;
use super::{LOCAL, Local, Wards, local};
use crate::chance::Chance;
use crate::events::EVENTS_PER_SLICE;
use crate::mailbox::NodePool;
use crate::panics;
use crate::realtime::Stand;
use crate::ring::turn::Turn;
use crate::runtime::Shared;
use crate::signal::References;
use crate::slab::Slot;
use crate::stock::Stock;
use crate::stopwatch::Stopwatch;

/// Makes the current thread a scheduler until this is dropped.
struct Seat(*const Local);

impl Seat {
    fn take(local: &Local) -> Self {
        Self(LOCAL.with(|seat| seat.replace(ptr::from_ref(local))))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        LOCAL.with(|seat| seat.set(self.0));
    }
}

impl Local {
    fn new(shared: &Arc<Shared>, id: usize, queue: Worker<Slot>, chance: Option<Chance>) -> Self {
        Self {
            id,
            me: Arc::clone(&shared.schedulers[id]),
            queue,
            chance,
            slots: Stock::of(shared.slots.batch()),
            nodes: NodePool::new(),
            held: Plain::default(),
            stopwatch: Stopwatch::new(shared.started, id as u32 + 1),
            current: Plain::new(None),
            wait: Plain::new(0),
            woken: Plain::new(false),
            signalled: Plain::new(false),
            budget: Plain::new(0),
            turn: Turn::new(),
            hot_left: Plain::new(0),
            reacting: Plain::new(true),
            loop_waker: Plain::new(None),
            last_reference: Plain::new(References::USED_UP),
            listed: Plain::default(),
            owed: Plain::new(false),
            brief: Plain::new(false),
            first: Plain::new(true),
            events_left: Plain::new(EVENTS_PER_SLICE),
            now_ms: Plain::new(0),
            until_look: Plain::new(0),
            unsettled_mail: Plain::new(0),
            introduced: Introductions::new(),
            looks: Plain::new(0),
            long_slices: Plain::new(0),
            children: Plain::default(),
            preempted: Plain::new(None),
            resumed: Plain::new(None),
            resumed_long: Plain::new(false),
            resumed_ns: Plain::new(0),
            preempted_due: Plain::new(false),
            spins: Plain::new(0),
            fed: Plain::new(false),
            slept_at_ns: Plain::new(0),
            searching: Plain::new(false),
            asleep: Plain::new(false),
            wards: Wards::default(),
            shared: Arc::clone(shared),
        }
    }

    /// Body of a scheduler's thread.
    pub(crate) fn run(shared: &Arc<Shared>, id: usize, queue: Worker<Slot>, reactor: &tokio::runtime::Runtime) {
        Stand::Back.take();
        Self::drive(shared, id, queue, None, reactor, async {});
    }

    /// Makes this thread a scheduler until the runtime stops, and runs `beside` in the same reactor. Returns the result
    /// of that.
    pub(crate) fn drive<T>(
        shared: &Arc<Shared>,
        id: usize,
        queue: Worker<Slot>,
        chance: Option<Chance>,
        reactor: &tokio::runtime::Runtime,
        beside: impl Future<Output = T>,
    ) -> T {
        let local = Self::new(shared, id, queue, chance);
        let seat = Seat::take(&local);
        let work = tokio::task::unconstrained(poll_fn(|cx| match self::local() {
            Some(local) => local.slice(cx),
            None => Poll::Ready(()),
        }));
        let (given, ended) = reactor.block_on(async {
            let work = reactor.spawn(work);
            let given = beside.await;
            (given, work.await)
        });
        local.slots.spill(&shared.slots, 0);
        drop(seat);
        hear(id, ended);
        given
    }
}

/// Panics if the loop of a scheduler did. The loop catches every panic of a process, so this is a fault of the runtime,
/// and the processes queued on this thread will never run. The panic hook was silent while the thread was a scheduler.
fn hear(id: usize, ended: Result<(), JoinError>) {
    let Err(error) = ended else { return };
    match error.try_into_panic() {
        Ok(payload) => panic!("scheduler {id} ended because of a bug in the runtime: {}", panics::reason(payload)),
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

        let heard = catch_unwind(AssertUnwindSafe(|| hear(3, ended))).unwrap_err();

        let heard = *heard.downcast::<String>().unwrap();
        assert!(heard.starts_with("scheduler 3 ended because of a bug in the runtime: panic"), "{heard}");
        assert!(heard.ends_with(": of its own"), "{heard}");
        hear(3, Ok(()));
    }
}
