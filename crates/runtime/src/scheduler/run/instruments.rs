//! Instruments of a poll: the trace, spans of `tracing`, and the hooks of the program.
//!
//! Schedulers read one byte in each poll. It is 0 unless something is on, and is computed anew at each slice.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{Level, Span};

use crate::links::registry::{Released, SideTables};
use crate::process::exit::ExitReason;
use crate::process::header::NAMED;
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::process::task::Polled;
use crate::runtime::hooks::{ProcessExit, ProcessSpawn, SlowPoll};
use crate::scheduler::Local;

/// A trace follows some processes.
const TRACE: u8 = 1;
/// A subscriber of `tracing` wants a span for each process.
const SPANS: u8 = 1 << 1;
/// [`Config::on_spawn`](crate::Config::on_spawn) is set.
const SPAWNS: u8 = 1 << 2;
/// [`Config::on_slow_poll`](crate::Config::on_slow_poll) is set.
const SLOW_POLLS: u8 = 1 << 3;
/// [`Config::on_exit`](crate::Config::on_exit) is set.
const EXITS: u8 = 1 << 4;

impl Local {
    /// Computes which instruments are on, at the start of a slice or of a trace.
    pub(crate) fn set_instruments(&self) {
        let config = &self.shared.config;
        let is_traced = self.shared.tracer.is_on();
        self.tracing.set(is_traced);
        let flag = |is_on: bool, flag: u8| if is_on { flag } else { 0 };
        self.instruments.set(
            flag(is_traced, TRACE)
                | flag(tracing::enabled!(target: "rusm::process", Level::DEBUG), SPANS)
                | flag(config.on_spawn.is_some(), SPAWNS)
                | flag(config.on_slow_poll.is_some(), SLOW_POLLS)
                | flag(config.on_exit.is_some(), EXITS),
        );
    }

    /// Begins a poll while an instrument is on. Returns its start, which is never 0.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_instrumented(&self, slot: Slot) -> u64 {
        let on = self.instruments.get();
        if on & SPAWNS != 0 && slot.header().polls.load(Ordering::Relaxed) == 1 {
            self.report_spawn(slot);
        }
        if on & SPANS != 0 {
            let span = SideTables::span(slot, slot.pid(), || self.new_span(slot));
            span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
            self.span.set(Some(span));
        }
        self.shared.now_ns().max(1)
    }

    /// Ends a poll that began with an instrument on, before the process can run elsewhere.
    #[cold]
    #[inline(never)]
    pub(super) fn end_instrumented(&self, slot: Slot, start_ns: u64, polled: &Polled) {
        if let Some(span) = self.span.take() {
            span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
        }
        let on = self.instruments.get();
        if on & TRACE != 0 && slot.header().is_traced() {
            self.note_poll(slot, start_ns, polled);
        }
        if on & SLOW_POLLS != 0 {
            let took = Duration::from_nanos(self.shared.now_ns().saturating_sub(start_ns));
            if took >= self.shared.config.slow_poll {
                self.report_slow_poll(slot, took);
            }
        }
    }

    fn report_spawn(&self, slot: Slot) {
        let Some(hook) = &self.shared.config.on_spawn else { return };
        let (parent, generation) = slot.parent();
        let (_, label) = self.name_and_label(slot);
        hook.call(&ProcessSpawn {
            pid: slot.pid(),
            parent: (parent != 0).then(|| Pid::local(parent, generation)),
            label,
            future_type: slot.future_type(),
            at: self.shared.started.elapsed(),
        });
    }

    fn report_slow_poll(&self, slot: Slot, took: Duration) {
        let Some(hook) = &self.shared.config.on_slow_poll else { return };
        let (name, label) = self.name_and_label(slot);
        hook.call(&SlowPoll { pid: slot.pid(), name, label, future_type: slot.future_type(), took });
    }

    /// Returns true if [`report_exit`](Self::report_exit) must be called.
    #[inline]
    pub(in crate::scheduler) fn reports_exits(&self) -> bool {
        self.instruments.get() & EXITS != 0
    }

    /// Tells the program that a process has ended.
    #[cold]
    pub(in crate::scheduler) fn report_exit(
        &self,
        slot: Slot,
        pid: Pid,
        released: Option<&Released>,
        reason: &ExitReason,
    ) {
        let Some(hook) = &self.shared.config.on_exit else { return };
        let (header, at) = (slot.header(), self.shared.started.elapsed());
        let spawned = Duration::from_millis(header.spawned_ms());
        hook.call(&ProcessExit {
            pid,
            name: released.and_then(|released| released.rare.as_ref()?.name.clone()),
            label: released.and_then(|released| released.side_table.label.clone()).or_else(|| self.id_of(slot, pid)),
            future_type: slot.future_type(),
            reason: reason.clone(),
            age: at.saturating_sub(spawned),
            busy: Duration::from_nanos(header.busy_ns.load(Ordering::Relaxed)),
            polls: header.polls.load(Ordering::Relaxed),
            messages: header.messages.load(Ordering::Relaxed),
            at,
        });
    }

    /// Returns the name of a process, and its label or its id as a child.
    fn name_and_label(&self, slot: Slot) -> (Option<Arc<str>>, Option<Arc<str>>) {
        // Without this flag the process has neither, and may have no side table.
        let is_named = slot.header().flags.load(Ordering::Relaxed) & NAMED != 0;
        let (name, label) = if is_named { SideTables::name_and_label(slot, slot.pid()) } else { (None, None) };
        (name, label.or_else(|| self.id_of(slot, slot.pid())))
    }

    /// Returns the id under which the supervisor of a process has started it.
    fn id_of(&self, slot: Slot, pid: Pid) -> Option<Arc<str>> {
        let (parent, generation) = slot.parent();
        self.shared.tree.id_of(Pid::local(parent, generation), pid)
    }

    /// Creates the span of a process. It is the root of its own tree: the process may outlive its parent by far.
    fn new_span(&self, slot: Slot) -> Span {
        let (name, label) = self.name_and_label(slot);
        tracing::debug_span!(
            target: "rusm::process",
            parent: None,
            "process",
            pid = %slot.pid(),
            name = name.as_deref(),
            label = label.as_deref(),
        )
    }
}
