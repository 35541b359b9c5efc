//! The running process as seen by its own code: access to its mailbox and its turn.
//!
//! A [`Running`] is created only on the thread that runs the process and does not outlive the poll. Therefore it owns
//! the body.

#![expect(unsafe_code, reason = "accesses the body of the running process; the module docs say why this is sound")]

use std::ptr;
use std::sync::atomic::Ordering;
use std::task::Context as TaskContext;

use crate::cell::{OWN_WAKERS, WAIT_RECEIVE, bump};
use crate::chance::Chance;
use crate::holdings::Holdings;
use crate::mailbox::{Backlog, Cursor, Letter};
use crate::message::Message;
use crate::pid::Pid;
use crate::runtime::Shared;
use crate::scheduler::Local;
use crate::slab::{Body, Slot};

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
    pub(crate) fn waits_for(&self, wait: u8) {
        self.local.wait.set(self.local.wait.get() | wait);
    }

    /// Records that the poll waits for a message.
    #[inline]
    pub(crate) fn waits_for_mail(&self, cx: &TaskContext<'_>) {
        self.waits_for(WAIT_RECEIVE);
        self.is_awaited_by(cx);
    }

    /// Yields: other processes run first.
    pub(crate) fn yield_now(&self) {
        self.local.woken.set(true);
    }

    /// Wakes `cx` when the process runs next. Runtime events wake only the process's own waker. A combinator that polls
    /// only woken futures would not notice them.
    #[inline]
    pub(crate) fn is_awaited_by(&self, cx: &TaskContext<'_>) {
        if !ptr::eq(cx.waker().data(), self.slot.as_ptr().cast::<()>()) {
            self.keep_waker(cx);
        }
    }

    #[cold]
    fn keep_waker(&self, cx: &TaskContext<'_>) {
        Holdings::keep_waker(self.slot, self.pid(), cx.waker());
    }

    /// Makes the next receive check the mailbox even if the budget of the process is used up, without yielding.
    pub(crate) fn must_look(&self) {
        self.local.budget.set(self.local.budget.get().max(1));
        if let Some(chance) = &self.local.chance {
            chance.hold();
        }
    }

    /// Returns true if a seeded schedule preempts the process here. It must then return to its scheduler.
    #[inline]
    pub(crate) fn strays(&self, cx: &TaskContext<'_>) -> bool {
        let strays = self.local.chance.as_ref().is_some_and(Chance::strays);
        if strays {
            self.yield_now();
            self.is_awaited_by(cx);
        }
        strays
    }

    /// Takes one unit of the process's budget for this turn. Returns false if none is left: the process must then
    /// return to its scheduler.
    pub(crate) fn has_share(&self, cx: &TaskContext<'_>) -> bool {
        let budget = self.local.budget.get();
        if budget == 0 {
            self.yield_now();
            self.is_awaited_by(cx);
            return false;
        }
        self.local.budget.set(budget - 1);
        true
    }

    /// Returns the oldest message, unless the budget for this turn is used up.
    #[inline]
    pub(crate) fn receive(&self) -> Option<Message> {
        self.next_letter().map(|letter| self.counted(letter).open(&self.local.nodes))
    }

    #[inline]
    fn next_letter(&self) -> Option<Letter> {
        let budget = self.local.budget.get();
        if budget == 0 {
            self.yield_now();
            return None;
        }
        let body = self.body();
        let mut backlog = body.backlog.get();
        let Some(letter) = backlog.pop() else {
            return if self.slot.cell().gate.has_some() { self.new_letter() } else { None };
        };
        body.backlog.set(backlog);
        self.local.budget.set(budget - 1);
        Some(letter)
    }

    /// Like `next_letter`, when all messages taken in before have been received.
    #[inline(never)]
    fn new_letter(&self) -> Option<Letter> {
        self.absorb()?;
        self.next_letter()
    }

    /// Takes the messages that have reached the gate since the poll began. Returns `None` if no message has arrived.
    fn absorb(&self) -> Option<()> {
        let taken = self.slot.cell().gate.absorb()?;
        self.local.take_in(self.slot, taken);
        let others = || self.slot.cell().flags.load(Ordering::Relaxed) & OWN_WAKERS != 0;
        if self.local.wait.get() & WAIT_RECEIVE != 0 || others() {
            // Another future has checked the mailbox and waits, perhaps for a message just taken in: it must check
            // again.
            self.yield_now();
        }
        (taken.newest() != 0).then_some(())
    }

    #[inline]
    fn counted(&self, letter: Letter) -> Letter {
        let (cell, body) = (self.slot.cell(), self.body());
        let left = cell.backlog.load(Ordering::Relaxed) - 1;
        cell.backlog.store(left, Ordering::Relaxed);
        body.removals.set(body.removals.get().wrapping_add(1));
        bump(&cell.messages, 1);
        bump(&self.local.me.counters.messages, 1);
        if letter.heap() != 0 || body.crowded.get() {
            self.frees(letter.heap());
        }
        letter
    }

    #[inline(never)]
    fn frees(&self, heap: u32) {
        if heap != 0 {
            self.slot.cell().mail_bytes.fetch_sub(heap, Ordering::Relaxed);
            self.local.shared.release_mail(Some(self.local), heap);
        }
        if self.body().crowded.get() {
            self.room();
        }
    }

    /// Wakes the senders that wait for room, when half of the mailbox is free.
    #[cold]
    pub(crate) fn room(&self) {
        let cell = self.slot.cell();
        if self.local.shared.is_relieved(cell, cell.gate.pending()) {
            self.body().crowded.set(false);
            Shared::relieve(self.slot, self.slot.pid());
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
        self.find(search, wanted).map(|letter| self.counted(letter).open(&self.local.nodes))
    }

    #[inline]
    fn find(&self, search: &mut Search, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<Letter> {
        if self.body().backlog.get().oldest().is_none() && !self.slot.cell().gate.has_some() {
            return None;
        }
        self.search_on(search, wanted)
    }

    /// Like `receive_match`, for a `wanted` that is deterministic. Optimised for a match of the oldest message.
    #[inline]
    pub(crate) fn receive_certain(&self, search: &mut Search, wanted: impl Fn(&Message) -> bool) -> Option<Message> {
        self.find_certain(search, wanted).map(|letter| self.counted(letter).open(&self.local.nodes))
    }

    /// Returns the value of the first message that carries a `T`.
    #[inline]
    pub(crate) fn receive_of<T: 'static>(&self, search: &mut Search) -> Option<T> {
        let letter = self.find_certain(search, Message::is::<T>)?;
        // SAFETY: this is the message that was checked for the type.
        Some(unsafe { self.counted(letter).open_as(&self.local.nodes) })
    }

    #[inline]
    fn find_certain(&self, search: &mut Search, wanted: impl Fn(&Message) -> bool) -> Option<Letter> {
        let mut backlog = self.body().backlog.get();
        let Some(oldest) = backlog.oldest() else {
            return if self.slot.cell().gate.has_some() { self.search_on(search, &mut |it| wanted(it)) } else { None };
        };
        let budget = self.local.budget.get();
        if budget == 0 || !wanted(oldest) {
            return self.search_on(search, &mut |message| wanted(message));
        }
        let letter = backlog.pop()?;
        self.body().backlog.set(backlog);
        self.local.budget.set(budget - 1);
        Some(letter)
    }

    fn search_on(&self, search: &mut Search, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<Letter> {
        let budget = self.local.budget.get();
        if budget == 0 {
            self.yield_now();
            return None;
        }
        loop {
            let body = self.body();
            if search.removals != Some(body.removals.get()) {
                search.cursor = Cursor::START;
                search.removals = Some(body.removals.get());
            }
            // Take the backlog out of the body while `wanted` runs: what `wanted` does cannot then disturb the walk.
            let mut away = Away { body, backlog: body.backlog.replace(Backlog::EMPTY) };
            let found = away.backlog.take_match(&mut search.cursor, wanted);
            drop(away);
            if found.is_some() {
                self.local.budget.set(budget - 1);
                return found;
            }
            self.absorb()?;
        }
    }

    /// Returns a search that skips all messages now in the backlog.
    pub(crate) fn search_from_here(&self) -> Search {
        let body = self.body();
        Search { cursor: body.backlog.get().end(), removals: Some(body.removals.get()) }
    }

    /// Takes the first message that `wanted` accepts out of the mailbox, regardless of the remaining budget.
    pub(crate) fn take_match(&self, mut search: Search, wanted: &mut dyn FnMut(&Message) -> bool) -> Option<Message> {
        let budget = self.local.budget.replace(1);
        let found = self.receive_match(&mut search, wanted);
        self.local.budget.set(budget);
        found
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
    removals: Option<u32>,
}

impl Search {
    pub(crate) const START: Self = Self { cursor: Cursor::START, removals: None };
}

/// Restores a backlog, also when the predicate panics.
struct Away<'a> {
    body: &'a Body,
    backlog: Backlog,
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        let newer = self.body.backlog.get();
        self.body.backlog.set(self.backlog.followed_by(newer));
    }
}
