//! The end of a process: frees what it held and its slot, and notifies its links, monitors and watchers.
//!
//! ```text
//!   run.rs ──▶ end: close the mailbox ─▶ drop its messages ─▶ retire the pid ─▶ side table, report ─▶ free the slot
//! ```
//!
//! The order is the invariant: code that runs when a message is dropped still sees a live process, and the pid is
//! retired before another process can take the slot. This file also has the scheduler's spare slots and side tables,
//! and the figures for observers: events, samples of polls and previews of messages.

#![expect(unsafe_code, reason = "destroys a process that this thread runs")]

use std::iter;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Local;
use crate::links::registry::Released;
use crate::mailbox::gate::Arrivals;
use crate::mailbox::leftover::{DROPPED_AT_ONCE_MAX, Leftover};
use crate::mailbox::queue::Backlog;
use crate::observe::events::EventKind;
use crate::observe::inspect::causes::{CauseKind, Who};
use crate::observe::inspect::ended::{EndedBy, EndedProcess, LastFigures};
use crate::observe::inspect::watch::{MARK_EVERY_NS, PREVIEW_MAX, Preview, PreviewedMessage, Watch};
use crate::observe::kinds::{GroupKey, ProcessKind};
use crate::process::exit::{ExitReason, panic_reason};
use crate::process::header::{WATCHED, bump};
use crate::process::pid::Pid;
use crate::process::side_table::SideTable;
use crate::process::table::{CONTROL_BLOCK_BYTES, Slot};
use crate::process::task::Exit;
use crate::runtime::crashes::Crash;
use crate::runtime::panics;

/// Number of emptied side tables that a scheduler keeps for new processes.
const SPARE_SIDE_TABLES_MAX: usize = 256;

/// Maximum number of ancestors in the report of a crash.
const ANCESTORS_MAX: usize = 8;

impl Local {
    /// Takes a free slot; `None` at the limit or when the runtime stops.
    #[inline]
    pub(crate) fn take_slot(&self) -> Option<Slot> {
        self.slots.take().or_else(|| self.replenish())
    }

    #[cold]
    fn replenish(&self) -> Option<Slot> {
        self.shared.replenish(&self.slots);
        self.slots.take()
    }

    /// Returns the slot of an ended process to this scheduler's free list.
    #[inline]
    pub(crate) fn free_slot(&self, slot: Slot) {
        self.slots.push_balanced(slot, &self.shared.slots);
    }

    /// Ends a process that obeys an exit signal: drops its future, then the rest as [`end`](Self::end).
    pub(super) fn end_early(&self, slot: Slot, exit: &Exit) {
        // SAFETY: this thread runs the process; its future is pending.
        match unsafe { slot.body().drop_future() } {
            Ok(()) => self.end(slot, exit),
            Err(payload) => {
                // A panic is a crash, also of a process that was killed.
                self.ended_by.take();
                self.end(slot, &Some(Box::new(panic_reason(payload))));
            }
        }
    }

    /// Ends a process after its future was dropped: frees what it held, and notifies its links, monitors and watchers.
    /// An `exit` of `None` is the normal one.
    pub(super) fn end(&self, slot: Slot, exit: &Exit) {
        let header = slot.header();
        let pid = slot.pid();
        let is_remembered = exit.is_some() || header.flags.load(Ordering::Relaxed) & WATCHED != 0;
        let mailbox_len = if is_remembered { header.mailbox_len() } else { 0 };
        // Before other threads can see the exit: the processes that they start in its place must not exceed the limit.
        bump(&self.me.counters.closed, 1);
        // Dropping a message may send, spawn or panic; the process still exists for that code.
        let taken = header.gate.close();
        let has_mail = taken.newest() != 0 || header.backlog.load(Ordering::Relaxed) != 0;
        let leftover = if has_mail { self.drop_mail(slot, taken) } else { None };
        let (next_generation, has_side_table) = header.retire(pid.generation());
        let released = if has_side_table { self.shared.side_tables.release(slot, pid) } else { None };
        self.add_to_ended(slot, released.as_ref());
        if is_remembered {
            let reason = exit.as_deref().unwrap_or(&ExitReason::Normal);
            let by = origin(self.ended_by.take(), self.shared.ended.take_note(pid), reason);
            let by = if by == EndedBy::Process(pid) && *reason != ExitReason::Killed { EndedBy::Itself } else { by };
            if !reason.is_normal() {
                self.count_failure(pid, released.as_ref(), reason, CauseKind::of(&by));
            }
            self.remember_end(slot, pid, released.as_ref(), reason, &by, mailbox_len);
        }
        if self.reports_exits() {
            self.report_exit(slot, pid, released.as_ref(), exit.as_deref().unwrap_or(&ExitReason::Normal));
        }
        if let Some(released) = released {
            self.recycle_side_table(self.shared.release_side_table(pid, released, exit.as_deref()));
        }
        // Dropped values may have written to rings.
        self.turn.end();
        bump(&self.me.counters.exited, 1);
        // A slot without unused generations is never given out again, so no pid is reused.
        if next_generation != 0 {
            self.free_slot(slot);
        }
        // After the notifications: a caller that waits for a reply gets the exit reason first.
        if let Some(leftover) = leftover {
            leftover.drop_in_parts();
        }
    }

    /// Adds the counters of an ended process to those of its kind and parent.
    #[inline]
    fn add_to_ended(&self, slot: Slot, released: Option<&Released>) {
        let known = if released.is_none() { self.ended_cache.get(slot.future_id(), slot.parent()) } else { None };
        match known {
            Some(group) => self.me.ended.add(group, slot.header().busy_ns.load(Ordering::Relaxed)),
            None => self.add_to_ended_group(slot, released.and_then(Released::kind)),
        }
    }

    /// Like [`add_to_ended`](Self::add_to_ended), for a process of the kind `told`, or by default of its future's type.
    #[inline(never)]
    fn add_to_ended_group(&self, slot: Slot, told: Option<ProcessKind>) {
        let (future, parent) = (slot.future_id(), slot.parent());
        let known = if told.is_none() { self.ended_cache.get(future, parent) } else { None };
        let group = known.unwrap_or_else(|| {
            let is_told = told.is_some();
            let kind = told.unwrap_or_else(|| ProcessKind::Future(slot.future_type()));
            let parent_pid = if parent.0 == 0 { Pid::NONE } else { Pid::local(parent.0, parent.1) };
            let key = GroupKey { kind, parent: parent_pid };
            let (group, merged) = self.me.ended.number(key, |pid| self.shared.is_alive(pid));
            if merged {
                self.ended_cache.clear();
            }
            if !is_told {
                self.ended_cache.insert(future, parent, group);
            }
            group
        });
        self.me.ended.add(group, slot.header().busy_ns.load(Ordering::Relaxed));
    }

    /// Returns an empty side table for a new process.
    pub(crate) fn take_side_table(&self) -> Box<SideTable> {
        let mut boxes = self.spare_side_tables.take();
        let side_table = boxes.pop();
        self.spare_side_tables.set(boxes);
        side_table.unwrap_or_default()
    }

    /// Keeps the emptied side table of an ended process for another one.
    fn recycle_side_table(&self, mut side_table: Box<SideTable>) {
        side_table.reset();
        let mut boxes = self.spare_side_tables.take();
        if boxes.len() < SPARE_SIDE_TABLES_MAX {
            boxes.push(side_table);
        }
        self.spare_side_tables.set(boxes);
    }

    /// Counts an abnormal end, and records it as an event.
    #[cold]
    fn count_failure(&self, pid: Pid, released: Option<&Released>, reason: &ExitReason, kind: CauseKind) {
        let counters = &self.me.counters;
        bump(&counters.crashed, 1);
        match kind {
            CauseKind::Crash => {}
            CauseKind::Killed => bump(&counters.killed, 1),
            CauseKind::Link => bump(&counters.linked, 1),
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            panics::contain(|| tracing::debug!(%pid, %reason, "process ended abnormally"));
        }
        // A kill is deliberate, so it is not recorded as an event.
        if *reason != ExitReason::Killed {
            let name = || released.and_then(Released::name).cloned();
            self.record_event(|| EventKind::Failure { pid, name: name(), reason: reason.clone(), kind });
        }
    }

    /// Counts the cause of an abnormal end, and keeps the process for observers, unless too many ended in this slice.
    #[cold]
    fn remember_end(
        &self,
        slot: Slot,
        pid: Pid,
        released: Option<&Released>,
        reason: &ExitReason,
        by: &EndedBy,
        mailbox_len: u64,
    ) {
        let shared = &self.shared;
        let is_watched = shared.watches.find(pid).is_some();
        if reason.is_normal() && *by == EndedBy::Itself && !is_watched {
            return;
        }
        let name = released.and_then(Released::name);
        let source = || released.and_then(|released| released.side_table.body_info.as_ref()?.source());
        let source = if name.is_none() { source() } else { None };
        let who = name.or(source.as_ref()).map_or_else(|| Who::Type(slot.future_type()), |name| Who::Named(name));
        let kept = self.ends_left.get();
        let is_kept = kept != 0 || is_watched;
        // A storm is counted; only a few of its ends are described.
        let known = if is_kept { None } else { shared.causes.record_again(self.id, &who, by, reason) };
        let (cause, keep) = if known.is_some() {
            (known, None)
        } else {
            let ended = self.ended_process(slot, pid, name.cloned(), reason.without_value(), by.clone(), mailbox_len);
            let keep = is_kept.then(|| ended.clone());
            (if reason.is_normal() { None } else { shared.causes.record(self.id, &who, ended) }, keep)
        };
        if *by == EndedBy::Itself && !reason.is_normal() {
            self.report_failure(slot, pid, released, reason, cause);
        }
        if let Some(ended) = keep {
            self.ends_left.set(kept.saturating_sub(1));
            shared.ended.record(cause, ended);
        }
    }

    /// Returns the processes that had spawned a process, its parent first, as far as they are alive, and the first that
    /// is not.
    fn ancestors(&self, slot: Slot) -> Vec<(Pid, Option<Arc<str>>)> {
        let mut ancestors = Vec::new();
        let mut parent = slot.parent();
        while parent.0 != 0 && ancestors.len() < ANCESTORS_MAX {
            let pid = Pid::local(parent.0, parent.1);
            ancestors.push((pid, self.shared.name_of(pid)));
            let Some(alive) = self.shared.live_slot(pid) else { break };
            parent = alive.parent();
        }
        ancestors
    }

    /// Logs a process that has failed by itself, and tells the program.
    fn report_failure(
        &self,
        slot: Slot,
        pid: Pid,
        released: Option<&Released>,
        reason: &ExitReason,
        cause: Option<u16>,
    ) {
        let shared = &self.shared;
        let body_info = released.and_then(|released| released.side_table.body_info.as_ref());
        let is_logged = shared.config.log_crashes && !body_info.is_some_and(|info| info.logs_own_end());
        // The last time that was read is exact enough for an interval of a second.
        let turn = || shared.crash_log.take_turn(self.id, cause, self.busy_timer.last_ns());
        let turn = if is_logged { turn() } else { None };
        if turn.is_none() && shared.config.on_crash.is_none() {
            return;
        }
        // The hook is the program's, and may take long.
        self.me.counters.crashed_generation.store(pid.generation(), Ordering::Relaxed);
        let rare = released.and_then(|released| released.rare.as_ref());
        let (parent, generation) = slot.parent();
        let id = || shared.tree.id_of(Pid::local(parent, generation), pid);
        let location = if let ExitReason::Panic(info) = reason { info.location.as_deref() } else { None };
        let crash = Crash {
            pid,
            name: rare.and_then(|rare| rare.name.clone()),
            label: released
                .and_then(|released| released.side_table.label.clone())
                .or_else(id)
                .or_else(|| body_info.and_then(|info| info.source())),
            ancestors: self.ancestors(slot),
            future_type: slot.future_type(),
            reason: reason.clone(),
            backtrace: location.and_then(|location| shared.causes.backtrace(location)),
            at: shared.started.elapsed(),
        };
        if let Some(hook) = &shared.config.on_crash {
            hook.call(&crash);
        }
        if let Some(skipped) = turn {
            shared.crash_log.write(crash, skipped);
        }
        self.me.counters.crashed_generation.store(0, Ordering::Relaxed);
    }

    /// Describes a process that has just ended.
    fn ended_process(
        &self,
        slot: Slot,
        pid: Pid,
        name: Option<Arc<str>>,
        reason: ExitReason,
        by: EndedBy,
        mailbox_len: u64,
    ) -> EndedProcess {
        let header = slot.header();
        let at = self.shared.started.elapsed();
        let (parent, parent_generation) = slot.parent();
        EndedProcess {
            pid,
            name,
            future_type: slot.future_type(),
            parent: (parent != 0).then(|| Pid::local(parent, parent_generation)),
            at,
            reason,
            by,
            figures: LastFigures {
                age_ms: (at.as_millis() as u64).saturating_sub(header.spawned_ms()),
                reductions: header.reductions(),
                busy_ns: header.busy_ns.load(Ordering::Relaxed),
                messages: header.messages.load(Ordering::Relaxed),
                mailbox_len,
                memory_bytes: CONTROL_BLOCK_BYTES as u64 + u64::from(header.future_bytes.load(Ordering::Relaxed)),
            },
        }
    }

    /// Samples a timed poll: its time, and for a watched process what its turn completes. Marks a process now and then,
    /// so that its next turn is sampled.
    #[cold]
    pub(super) fn sample_poll(&self, slot: Slot, (start_ns, end_ns): (u64, u64), weight: u32, is_pending: bool) {
        let (watches, header) = (&self.shared.watches, slot.header());
        let took_ns = end_ns.saturating_sub(start_ns);
        if watches.samples_node() {
            watches.polled(self.id, took_ns, weight);
        }
        let pid = slot.pid();
        if header.flags.load(Ordering::Relaxed) & WATCHED != 0 {
            if is_pending && let Some(watch) = watches.find(pid) {
                self.preview(slot, &watch);
            }
            if watches.ended(pid, self.id, header.messages.load(Ordering::Relaxed), took_ns) {
                header.flags.fetch_and(!WATCHED, Ordering::Relaxed);
            }
        } else if is_pending && watches.samples_node() {
            let is_due = weight > 1 || end_ns.saturating_sub(self.marked_ns.get()) > MARK_EVERY_NS;
            if is_due && watches.mark(pid, |other| self.shared.is_alive(other)) {
                self.marked_ns.set(end_ns);
                header.flags.fetch_or(WATCHED, Ordering::Relaxed);
            }
        }
    }

    /// Describes the first messages of the running process, if an observer has requested that.
    fn preview(&self, slot: Slot, watch: &Watch) {
        let Some(values) = watch.take_preview_request() else { return };
        let mut messages = Vec::new();
        // SAFETY: this thread runs the process.
        let backlog = unsafe { slot.body() }.backlog.get();
        backlog.peek(PREVIEW_MAX, &mut |message| {
            messages.push(PreviewedMessage {
                type_name: message.type_name(),
                heap_bytes: message.heap_bytes() as u64,
                value: values.then(|| message.preview()).flatten(),
            });
        });
        watch.show(Preview { at: self.shared.started.elapsed(), messages });
    }

    /// Records an event, unless there were too many in this slice.
    pub(crate) fn record_event(&self, kind: impl FnOnce() -> EventKind) {
        let left = self.events_left.get();
        if left == 0 {
            return bump(&self.me.counters.events_dropped, 1);
        }
        self.events_left.set(left - 1);
        self.shared.events.record(kind);
    }

    /// Drops the messages that the process did not receive: those in its backlog and the `taken` ones. Returns the rest
    /// if there are too many to drop at once.
    #[cold]
    fn drop_mail(&self, slot: Slot, taken: Arrivals) -> Option<Leftover> {
        self.take_arrivals(slot, taken);
        // SAFETY: this thread still owns the body: the gate is closed, and the slot is not in a free list.
        let body = unsafe { slot.body() };
        let mut backlog = body.backlog.replace(Backlog::EMPTY);
        for envelope in iter::from_fn(|| backlog.pop()).take(DROPPED_AT_ONCE_MAX) {
            // Subtracted per message and never reset: a sender that finds the gate closed subtracts its own bytes.
            slot.header().mail_bytes.fetch_sub(envelope.heap(), Ordering::Relaxed);
            self.shared.release_mail(Some(self), envelope.heap());
            panics::contain(|| drop(envelope.open(&self.nodes)));
        }
        slot.header().backlog.store(0, Ordering::Relaxed);
        let heap = backlog.heap_bytes()?;
        slot.header().mail_bytes.fetch_sub(heap, Ordering::Relaxed);
        Some(Leftover::new(&self.shared, backlog))
    }
}

/// Returns the origin of an end: of the signal that the process obeyed, if any. A note names the observer or the
/// killer; if the process has trapped that signal and fails later, it does so by itself. A note of a link was made by a
/// process that traps the signal and ends because of it.
fn origin(obeyed: Option<EndedBy>, note: Option<EndedBy>, reason: &ExitReason) -> EndedBy {
    match (obeyed, note) {
        (Some(EndedBy::Outside), Some(note)) | (None, Some(note @ EndedBy::Link(_))) => note,
        (Some(by), _) => by,
        (None, Some(note)) if reason.is_normal() || *reason == ExitReason::Killed => note,
        (None, _) => EndedBy::Itself,
    }
}
