//! The running process in the hands of its own code: what it may do with its mailbox and its turn.
//!
//! A [`Running`] is only made on the thread that runs the process and lives no longer than the poll, which is what makes
//! it the owner of the body.

#![expect(unsafe_code, reason = "touches the body of the running process; the module says why it may")]

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

/// The running process, in the hands of its own code.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    pub(crate) slot: Slot,
    pub(crate) local: &'a Local,
}

impl Running<'_> {
    #[inline]
    fn body(&self) -> &Body {
        // SAFETY: a `Running` is only made on the thread that runs the process, and is used within the poll.
        unsafe { self.slot.body() }
    }

    /// Notes that the poll waits for what `wait` says.
    #[inline]
    pub(crate) fn waits_for(&self, wait: u8) {
        self.local.wait.set(self.local.wait.get() | wait);
    }

    /// Notes that the poll waits for a message.
    #[inline]
    pub(crate) fn waits_for_mail(&self, cx: &TaskContext<'_>) {
        self.waits_for(WAIT_RECEIVE);
        self.is_awaited_by(cx);
    }

    /// Lets others run first.
    pub(crate) fn yield_now(&self) {
        self.local.woken.set(true);
    }

    /// Has `cx` woken when the process runs next. What wakes a process is its own waker, which something that holds several
    /// futures, and polls those whose wakers were woken, does not hear of.
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

    /// Has the next receive look into the mailbox even if the process has had its share: it does not wait for its turn.
    pub(crate) fn must_look(&self) {
        self.local.budget.set(self.local.budget.get().max(1));
        if let Some(chance) = &self.local.chance {
            chance.hold();
        }
    }

    /// Whether a seeded schedule lets others run before the process goes on; it must return to its scheduler then.
    #[inline]
    pub(crate) fn strays(&self, cx: &TaskContext<'_>) -> bool {
        let strays = self.local.chance.as_ref().is_some_and(Chance::strays);
        if strays {
            self.yield_now();
            self.is_awaited_by(cx);
        }
        strays
    }

    /// Whether the process has any of its share for this turn left, of which this takes one; else it must return to its
    /// scheduler.
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

    /// The oldest message, unless the process has had its share for this turn.
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

    /// The same where all that was taken in before has been received.
    #[inline(never)]
    fn new_letter(&self) -> Option<Letter> {
        self.absorb()?;
        self.next_letter()
    }

    /// Takes what has come to the gate since the poll began; `None` if nothing has.
    fn absorb(&self) -> Option<()> {
        let taken = self.slot.cell().gate.absorb()?;
        self.local.take_in(self.slot, taken);
        let others = || self.slot.cell().flags.load(Ordering::Relaxed) & OWN_WAKERS != 0;
        if self.local.wait.get() & WAIT_RECEIVE != 0 || others() {
            // Something else has looked and waits, perhaps for what was just taken in: it must look again.
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

    /// Wakes the senders that wait for room, once half of the mailbox is free.
    #[cold]
    pub(crate) fn room(&self) {
        let cell = self.slot.cell();
        if self.local.shared.is_relieved(cell, cell.gate.pending()) {
            self.body().crowded.set(false);
            Shared::relieve(self.slot, self.slot.pid());
        }
    }

    /// The first message that `wanted` accepts, from where `search` left off.
    ///
    /// A miss costs nothing of the process's share, a hit as much as a plain receive.
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

    /// The same for a `wanted` that says the same of a message whenever it is asked: mostly it wants the oldest one.
    #[inline]
    pub(crate) fn receive_certain(&self, search: &mut Search, wanted: impl Fn(&Message) -> bool) -> Option<Message> {
        self.find_certain(search, wanted).map(|letter| self.counted(letter).open(&self.local.nodes))
    }

    /// The value of the first message that carries a `T`.
    #[inline]
    pub(crate) fn receive_of<T: 'static>(&self, search: &mut Search) -> Option<T> {
        let letter = self.find_certain(search, Message::is::<T>)?;
        // SAFETY: it is the message that was looked at.
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
            // While `wanted` looks, the backlog is not in its place: what `wanted` does cannot disturb the walk.
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

    /// A search that passes over what the process has in its backlog now.
    pub(crate) fn search_from_here(&self) -> Search {
        let body = self.body();
        Search { cursor: body.backlog.get().end(), removals: Some(body.removals.get()) }
    }

    /// Takes the first message that `wanted` accepts out of the mailbox, whatever is left of the process's share.
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

/// How far a selective receive has looked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    cursor: Cursor,
    removals: Option<u32>,
}

impl Search {
    pub(crate) const START: Self = Self { cursor: Cursor::START, removals: None };
}

/// Puts a backlog back where it was, also when the predicate panics.
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
