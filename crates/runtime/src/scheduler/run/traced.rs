//! The hooks of the trace in scheduling and messaging. All of them are cold: they run only while a trace is on.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::mailbox::queue::Envelope;
use crate::observe::diagnosis::trace::{TraceEvent, TraceKind};
use crate::process::header::{WAIT_CALL, WAIT_RECEIVE, WAIT_SEND, WAIT_SLEEP, WAIT_STORE};
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::process::task::Polled;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::{Local, local};

/// Numbers of the events of a send: at the sender, and at the receiver.
pub(crate) type SendEvents = (Option<u64>, Option<u64>);

fn record(
    shared: &RuntimeShared,
    pid: Pid,
    kind: TraceKind,
    peer: Option<Pid>,
    message: Option<(&'static str, u64)>,
    at_ns: u64,
) -> Option<u64> {
    let event = TraceEvent { seq: 0, at: Duration::from_nanos(at_ns), pid, kind, peer, message };
    shared.tracer.record(event, at_ns)
}

/// Returns true while a trace is on. A scheduler knows it by a flag of its own.
#[inline]
pub(crate) fn is_on(shared: &RuntimeShared, local: Option<&Local>) -> bool {
    local.map_or_else(|| shared.tracer.is_on(), |local| local.tracing.get())
}

/// Records a message that is about to be sent to `to`.
#[cold]
pub(crate) fn note_send(shared: &RuntimeShared, local: Option<&Local>, to: Pid, envelope: &Envelope) -> SendEvents {
    let sender = local.and_then(|local| local.current.get());
    let message = Some((envelope.type_name(), u64::from(envelope.heap())));
    let from = sender.map(Slot::pid);
    let now_ns = shared.now_ns();
    let sent = sender
        .filter(|slot| slot.header().is_traced())
        .and_then(|slot| record(shared, slot.pid(), TraceKind::Send, Some(to), message, now_ns));
    let receiver = shared.table.slot(to).filter(|slot| slot.header().is_traced());
    let arrived = receiver.and_then(|_| record(shared, to, TraceKind::Arrive, from, message, now_ns));
    if let Some(from) = from.filter(|_| receiver.is_some()) {
        shared.tracer.remember_sender(envelope.address(), from);
    }
    (sent, arrived)
}

/// Records a message that is put into a mailbox even if that is full.
#[cold]
pub(crate) fn note_forced(slot: Slot, envelope: &Envelope) {
    let shared = slot.shared();
    // This thread may be a scheduler of another runtime.
    let local = local().filter(|local| ptr::eq(Arc::as_ptr(&local.shared), shared));
    note_send(shared, local, slot.pid(), envelope);
}

/// Corrects the events of a message that found the mailbox full.
#[cold]
pub(crate) fn note_full(shared: &RuntimeShared, (sent, arrived): SendEvents) {
    for seq in [sent, arrived].into_iter().flatten() {
        shared.tracer.mark_full(seq);
    }
}

impl Local {
    /// Records a message that the running process takes out of its mailbox.
    #[cold]
    pub(crate) fn note_received(&self, slot: Slot, envelope: &Envelope) {
        let from = self.shared.tracer.take_sender(envelope.address());
        if slot.header().is_traced() {
            let message = Some((envelope.type_name(), u64::from(envelope.heap())));
            record(&self.shared, slot.pid(), TraceKind::Receive, from, message, self.shared.now_ns());
        }
    }

    /// Records a poll of a traced process, before the process can run elsewhere.
    #[cold]
    pub(in crate::scheduler) fn note_poll(&self, slot: Slot, start_ns: u64, polled: &Polled) {
        let took_ns = self.shared.now_ns().saturating_sub(start_ns);
        let kind = TraceKind::Poll { took_ns, state: self.state_after(polled) };
        record(&self.shared, slot.pid(), kind, None, None, start_ns);
    }

    fn state_after(&self, polled: &Polled) -> &'static str {
        match polled {
            Polled::Finished(_) => return "exited",
            Polled::Panicked(_) => return "panicked",
            Polled::Pending if self.woken.get() => return "runnable",
            Polled::Pending => {}
        }
        let words = [
            (WAIT_CALL, "call"),
            (WAIT_SEND, "send"),
            (WAIT_RECEIVE, "receive"),
            (WAIT_SLEEP, "sleep"),
            (WAIT_STORE, "store"),
        ];
        let wait = self.wait.get();
        words.into_iter().find(|(flag, _)| wait & flag != 0).map_or("io", |(_, word)| word)
    }
}
