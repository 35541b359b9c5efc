//! The running process as seen by its own code: access to its mailbox and its turn.
//!
//! A [`Running`] is created only on the thread that runs the process and does not outlive the poll. Therefore it owns
//! the body.

#![expect(unsafe_code, reason = "accesses the body of the running process; the module docs say why this is sound")]

use std::ptr;
use std::sync::atomic::Ordering;
use std::task::Context as TaskContext;

use crate::links::registry::SideTables;
use crate::mailbox::message::Message;
use crate::mailbox::queue::{Backlog, Cursor, Envelope};
use crate::mailbox::unreceived::{Wait, Wanted};
use crate::process::header::{HAS_INNER_WAKERS, WAIT_CALL, WAIT_MESSAGE, WAIT_RECEIVE, bump};
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::process::task::Body;
use crate::scheduler::Local;
use crate::scheduler::fuzzer::ScheduleFuzzer;

/// Handle of the running process for its own code.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    pub(crate) slot: Slot,
    pub(crate) local: &'a Local,
}

impl Running<'_> {
    #[inline]
    fn body(&self) -> &Body {
        // SAFETY: a `Running` is created only on the thread that runs the process, and is used within the poll.
        unsafe { self.slot.body() }
    }

    /// Records that the poll waits for the reasons in `wait`.
    #[inline]
    pub(crate) fn record_wait(&self, wait: u8) {
        self.local.wait.set(self.local.wait.get() | wait);
    }

    /// Records that the poll waits for a message.
    #[inline]
    pub(crate) fn record_wait_for_message(&self, cx: &TaskContext<'_>) {
        self.record_wait(WAIT_RECEIVE);
        self.register_waker(cx);
    }

    /// Records that the poll waits for the reply to a call.
    #[inline]
    pub(crate) fn record_wait_for_reply(&self, cx: &TaskContext<'_>) {
        self.record_wait(WAIT_CALL);
        self.register_waker(cx);
    }

    /// Yields: other processes run first.
    pub(crate) fn yield_now(&self) {
        self.local.woken.set(true);
    }

    /// Wakes `cx` when the process runs next. Runtime events wake only the process's own waker. A combinator that polls
    /// only woken futures would not notice them.
    #[inline]
    pub(crate) fn register_waker(&self, cx: &TaskContext<'_>) {
        if !ptr::eq(cx.waker().data(), self.slot.as_ptr().cast::<()>()) {
            self.store_inner_waker(cx);
        }
    }

    #[cold]
    fn store_inner_waker(&self, cx: &TaskContext<'_>) {
        SideTables::store_inner_waker(self.slot, self.pid(), cx.waker());
    }

    /// Makes the next receive check the mailbox even if the budget of the process is used up, without yielding.
    pub(crate) fn force_mailbox_check(&self) {
        self.local.budget.set(self.local.budget.get().max(1));
        if let Some(fuzzer) = &self.local.fuzzer {
            fuzzer.suppress_preemption();
        }
    }

    /// Returns true if a seeded schedule preempts the process here. It must then return to its scheduler.
    #[inline]
    pub(crate) fn is_preempted(&self, cx: &TaskContext<'_>) -> bool {
        let is_preempted = self.local.fuzzer.as_ref().is_some_and(ScheduleFuzzer::preempts);
        if is_preempted {
            self.yield_now();
            self.register_waker(cx);
        }
        is_preempted
    }

    /// Takes one unit of the process's budget for this turn. Returns false if none is left: the process must then
    /// return to its scheduler.
    pub(crate) fn consume_budget(&self, cx: &TaskContext<'_>) -> bool {
        let budget = self.local.budget.get();
        if budget == 0 {
            self.yield_now();
            self.register_waker(cx);
            return false;
        }
        self.local.budget.set(budget - 1);
        true
    }

    /// Returns the oldest message, unless the budget for this turn is used up.
    #[inline]
    pub(crate) fn receive(&self) -> Option<Message> {
        self.next_envelope().map(|envelope| self.record_received(envelope).open(&self.local.nodes))
    }

    #[inline]
    fn next_envelope(&self) -> Option<Envelope> {
        let budget = self.local.budget.get();
        if budget == 0 {
            self.yield_now();
            return None;
        }
        let body = self.body();
        let mut backlog = body.backlog.get();
        let Some(envelope) = backlog.pop() else {
            return if self.slot.header().gate.has_arrivals() { self.next_new_envelope() } else { None };
        };
        body.backlog.set(backlog);
        self.local.budget.set(budget - 1);
        Some(envelope)
    }

    /// Like `next_envelope`, when all messages taken in before have been received.
    #[inline(never)]
    fn next_new_envelope(&self) -> Option<Envelope> {
        self.absorb()?;
        self.next_envelope()
    }

    /// Takes the messages that have reached the gate since the poll began. Returns `None` if no message has arrived.
    fn absorb(&self) -> Option<()> {
        let taken = self.slot.header().gate.absorb()?;
        self.local.take_arrivals(self.slot, taken);
        let others = || self.slot.header().flags.load(Ordering::Relaxed) & HAS_INNER_WAKERS != 0;
        if self.local.wait.get() & WAIT_MESSAGE != 0 || others() {
            // Another future has checked the mailbox and waits, perhaps for a message just taken in: it must check
            // again.
            self.yield_now();
        }
        (taken.newest() != 0).then_some(())
    }

    #[inline]
    fn record_received(&self, envelope: Envelope) -> Envelope {
        let (header, body) = (self.slot.header(), self.body());
        let left = header.backlog.load(Ordering::Relaxed) - 1;
        header.backlog.store(left, Ordering::Relaxed);
        bump(&header.messages, 1);
        bump(&self.local.me.counters.messages, 1);
        if self.local.tracing.get() {
            self.local.note_received(self.slot, &envelope);
        }
        if envelope.heap() != 0 || body.backpressured.get() {
            self.release_bytes(envelope.heap());
        }
        envelope
    }

    #[inline(never)]
    fn release_bytes(&self, heap: u32) {
        if heap != 0 {
            self.slot.header().mail_bytes.fetch_sub(heap, Ordering::Relaxed);
            self.local.shared.release_mail(Some(self.local), heap);
        }
        if self.body().backpressured.get() {
            self.local.wake_senders_if_room(self.slot);
        }
    }

    /// Returns the first message that `wanted` accepts, and continues where `search` ended before.
    ///
    /// A search without a match costs nothing of the budget, a match as much as a plain receive.
    #[inline]
    pub(crate) fn receive_match(
        &self,
        search: &mut Search,
        wanted: &mut dyn FnMut(&Message) -> bool,
    ) -> Option<Message> {
        self.find(search, wanted).map(|envelope| self.record_received(envelope).open(&self.local.nodes))
    }

    #[inline]
    fn find(&self, search: &mut Search, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<Envelope> {
        if self.body().backlog.get().oldest().is_none() && !self.slot.header().gate.has_arrivals() {
            return None;
        }
        self.resume_search(search, wanted)
    }

    /// Like `receive_match`, for a `wanted` that is deterministic. Optimised for a match of the oldest message.
    #[inline]
    pub(crate) fn receive_deterministic(
        &self,
        search: &mut Search,
        wanted: impl Fn(&Message) -> bool,
    ) -> Option<Message> {
        self.find_deterministic(search, wanted).map(|envelope| self.record_received(envelope).open(&self.local.nodes))
    }

    /// Returns the value of the first message that carries a `T`.
    #[inline]
    pub(crate) fn receive_of<T: 'static>(&self, search: &mut Search) -> Option<T> {
        let envelope = self.find_deterministic(search, Message::is::<T>)?;
        // SAFETY: this is the message that was checked for the type.
        Some(unsafe { self.record_received(envelope).open_as(&self.local.nodes) })
    }

    /// Returns the oldest message, as a `T` if it carries one.
    #[inline]
    pub(crate) fn receive_typed<T: 'static>(&self) -> Option<Result<T, Message>> {
        self.next_envelope().map(|envelope| self.open_typed(envelope))
    }

    /// Returns the first message that `wanted` accepts, as a `T` if it carries one.
    #[inline]
    pub(crate) fn receive_typed_match<T: 'static>(
        &self,
        search: &mut Search,
        wanted: impl Fn(&Message) -> bool,
    ) -> Option<Result<T, Message>> {
        self.find_deterministic(search, wanted).map(|envelope| self.open_typed(envelope))
    }

    #[inline]
    fn open_typed<T: 'static>(&self, envelope: Envelope) -> Result<T, Message> {
        let is_wanted = envelope.is::<T>();
        let envelope = self.record_received(envelope);
        if is_wanted {
            // SAFETY: the message was just checked for the type.
            Ok(unsafe { envelope.open_as(&self.local.nodes) })
        } else {
            Err(envelope.open(&self.local.nodes))
        }
    }

    #[inline]
    fn find_deterministic(&self, search: &mut Search, wanted: impl Fn(&Message) -> bool) -> Option<Envelope> {
        let mut backlog = self.body().backlog.get();
        let Some(oldest) = backlog.oldest() else {
            return if self.slot.header().gate.has_arrivals() {
                self.resume_search(search, &mut |it| wanted(it))
            } else {
                None
            };
        };
        let budget = self.local.budget.get();
        if budget == 0 || !wanted(oldest) {
            return self.resume_search(search, &mut |message| wanted(message));
        }
        let envelope = backlog.pop()?;
        self.body().backlog.set(backlog);
        self.local.budget.set(budget - 1);
        Some(envelope)
    }

    fn resume_search(&self, search: &mut Search, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<Envelope> {
        let budget = self.local.budget.get();
        if budget == 0 {
            self.yield_now();
            return None;
        }
        loop {
            let body = self.body();
            if search.received != Some(self.received()) {
                search.cursor = Cursor::START;
                search.received = Some(self.received());
            }
            // Take the backlog out of the body while `wanted` runs: what `wanted` does cannot then disturb the walk.
            let mut guard = BacklogGuard { body, backlog: body.backlog.replace(Backlog::EMPTY) };
            let found = guard.backlog.take_match(&mut search.cursor, wanted);
            drop(guard);
            if found.is_some() {
                if search.cursor != Cursor::START {
                    body.overtakes.set(body.overtakes.get().wrapping_add(1));
                }
                self.local.budget.set(budget - 1);
                return found;
            }
            self.absorb()?;
        }
    }

    /// Returns a search that skips all messages now in the backlog.
    pub(crate) fn search_from_end(&self) -> Search {
        Search { cursor: self.body().backlog.get().end(), received: Some(self.received()) }
    }

    /// Returns the number of messages received, which tells whether the cursor of a paused search is still valid.
    #[inline]
    fn received(&self) -> u32 {
        self.slot.header().messages.load(Ordering::Relaxed) as u32
    }

    /// Takes the first message that `wanted` accepts out of the mailbox, regardless of the remaining budget.
    pub(crate) fn take_match(&self, mut search: Search, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<Message> {
        let budget = self.local.budget.replace(1);
        let found = self.receive_match(&mut search, wanted);
        self.local.budget.set(budget);
        found
    }

    /// Notes what the process waits for, if its mailbox has messages.
    #[inline]
    pub(crate) fn note_unreceived(&self, wanted: Wanted) {
        if self.body().backlog.get().oldest().is_some() {
            self.note(wanted);
        }
    }

    #[inline(never)]
    fn note(&self, wanted: Wanted) {
        // A process that only yields looks at its mailbox again.
        if !self.local.woken.get() {
            self.local.shared.unreceived.note(self.slot.noted_at(), || self.wait_for(wanted));
        }
    }

    /// Notes that the process waits for a start, or for room in its own mailbox.
    pub(crate) fn note_wait(&self, wanted: Wanted) {
        self.local.shared.unreceived.note_wait(self.wait_for(wanted));
    }

    fn wait_for(&self, wanted: Wanted) -> Wait {
        let received = self.slot.header().messages.load(Ordering::Relaxed);
        Wait {
            pid: self.pid(),
            received,
            received_before: received,
            oldest_number: (received as u32).wrapping_sub(self.body().overtakes.get()),
            wanted,
            oldest: match wanted {
                Wanted::Room => None,
                _ => self.body().backlog.get().oldest().map(Message::type_name),
            },
            checks: 0,
        }
    }

    #[inline]
    pub(crate) fn pid(&self) -> Pid {
        self.slot.pid()
    }
}

/// Progress of a selective receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    cursor: Cursor,
    /// Number of messages that the process had received.
    received: Option<u32>,
}

impl Search {
    pub(crate) const START: Self = Self { cursor: Cursor::START, received: None };
}

/// Restores a backlog, also when the predicate panics.
struct BacklogGuard<'a> {
    body: &'a Body,
    backlog: Backlog,
}

impl Drop for BacklogGuard<'_> {
    fn drop(&mut self) {
        let newer = self.body.backlog.get();
        self.body.backlog.set(self.backlog.followed_by(newer));
    }
}

impl Local {
    /// Returns the pid of the process that runs on this thread.
    pub(crate) fn running_pid(&self) -> Option<Pid> {
        self.current.get().map(Slot::pid)
    }

    /// Returns the process that runs on this thread.
    #[inline]
    pub(crate) fn running(&self) -> Option<Running<'_>> {
        self.current.get().map(|slot| Running { slot, local: self })
    }
}
