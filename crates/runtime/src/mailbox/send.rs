//! Sending: puts a value into an envelope, and the envelope into the mailbox of the receiver or back to the sender.

use std::sync::atomic::Ordering;
use std::task::Waker;

use crate::links::registry::SideTables;
use crate::mailbox::gate::Push;
use crate::mailbox::queue::{Envelope, unpooled_envelope};
use crate::process::header::{CONFINED, HAS_WAITING_SENDERS, WATCHED};
use crate::process::pid::Pid;
use crate::process::table::Slot;
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::{Local, enqueue, traced};

/// Result of sending an envelope.
pub(crate) enum SendOutcome {
    Sent,
    Full(Envelope),
    NoProcess(Envelope),
}

/// Creates an envelope for `to` that carries `value`.
#[inline]
pub(crate) fn envelope<T: Send + 'static>(
    shared: &RuntimeShared,
    local: Option<&Local>,
    to: Pid,
    value: T,
) -> Envelope {
    match local {
        Some(local) => local.nodes.envelope(&shared.nodes, to.generation(), value),
        None => unpooled_envelope(to.generation(), value),
    }
}

/// Puts an envelope into the mailbox of `to`, the process for which it was created.
#[inline]
pub(crate) fn send_envelope(shared: &RuntimeShared, local: Option<&Local>, to: Pid, envelope: Envelope) -> SendOutcome {
    if traced::is_on(shared, local) {
        return send_traced(shared, local, to, envelope);
    }
    send_untraced(shared, local, to, envelope)
}

#[cold]
fn send_traced(shared: &RuntimeShared, local: Option<&Local>, to: Pid, envelope: Envelope) -> SendOutcome {
    let events = traced::note_send(shared, local, to, &envelope);
    let outcome = send_untraced(shared, local, to, envelope);
    if matches!(outcome, SendOutcome::Full(_)) {
        traced::note_full(shared, events);
    }
    outcome
}

#[inline]
fn send_untraced(shared: &RuntimeShared, local: Option<&Local>, to: Pid, mut envelope: Envelope) -> SendOutcome {
    if let Some(local) = local {
        match local.hand_off(to, envelope) {
            Ok(()) => return SendOutcome::Sent,
            Err(back) => envelope = back,
        }
    }
    push(shared, local, to, envelope)
}

#[inline(never)]
fn push(shared: &RuntimeShared, local: Option<&Local>, to: Pid, envelope: Envelope) -> SendOutcome {
    let Some(slot) = shared.table.slot(to) else {
        return shared.push_remote(local, to, envelope);
    };
    let header = slot.header();
    if header.generation.load(Ordering::Acquire) != to.generation() {
        return SendOutcome::NoProcess(envelope);
    }
    let flags = header.flags.load(Ordering::Relaxed) & (CONFINED | WATCHED);
    if flags != 0 {
        // Before the message is queued: its receiver may answer as soon as it has it.
        push_flagged(shared, local, slot, to, flags);
    }
    let heap = envelope.heap();
    if heap != 0 {
        header.mail_bytes.fetch_add(heap, Ordering::Relaxed);
    }
    match header.gate.push(
        envelope.address(),
        |pending| shared.has_room(header, pending, heap),
        |newest| envelope.link(newest),
    ) {
        Push::Queued => {
            envelope.leak();
            shared.charge_mail(local, heap);
        }
        Push::Wake => {
            envelope.leak();
            shared.charge_mail(local, heap);
            match local {
                Some(local) => local.enqueue(slot, true),
                None => enqueue(slot, true),
            }
        }
        refused @ (Push::Full | Push::Closed) => {
            if heap != 0 {
                header.mail_bytes.fetch_sub(heap, Ordering::SeqCst);
                // A sender that has just begun to wait may have counted these bytes.
                let waits = refused == Push::Full && header.flags.load(Ordering::SeqCst) & HAS_WAITING_SENDERS != 0;
                if waits && shared.is_below_low_watermark(header, header.gate.pending()) {
                    RuntimeShared::wake_waiting_senders(slot, to);
                }
            }
            return if refused == Push::Full { SendOutcome::Full(envelope) } else { SendOutcome::NoProcess(envelope) };
        }
    }
    SendOutcome::Sent
}

/// Introduces the sender to a confined receiver, and samples the send to a watched one.
#[cold]
fn push_flagged(shared: &RuntimeShared, local: Option<&Local>, slot: Slot, to: Pid, flags: u16) {
    if flags & CONFINED != 0
        && let Some(local) = local
    {
        local.introduce(to);
    }
    if flags & WATCHED != 0 {
        shared.note_send(slot, to, local.and_then(Local::running_pid));
    }
}

/// Puts an envelope into a mailbox even if that is full, and calls `unlock` once the message is queued: the receiver
/// is woken only then.
pub(crate) fn force_send(slot: Slot, envelope: Envelope, unlock: impl FnOnce()) {
    let (header, heap) = (slot.header(), envelope.heap());
    let charge = || {
        if heap != 0 {
            slot.shared().charge_mail(slot.shared().local(), heap);
        }
    };
    if traced::is_on(slot.shared(), None) {
        traced::note_forced(slot, &envelope);
    }
    if heap != 0 {
        header.mail_bytes.fetch_add(heap, Ordering::Relaxed);
    }
    if header.flags.load(Ordering::Relaxed) & WATCHED != 0 {
        slot.shared().note_send(slot, slot.pid(), None);
    }
    match header.gate.force_push(envelope.address(), |newest| envelope.link(newest)) {
        Push::Queued => {
            envelope.leak();
            charge();
            unlock();
        }
        Push::Wake => {
            envelope.leak();
            charge();
            unlock();
            enqueue(slot, true);
        }
        Push::Full | Push::Closed => {
            if heap != 0 {
                header.mail_bytes.fetch_sub(heap, Ordering::Relaxed);
            }
            unlock();
        }
    }
}

/// Sends an envelope or waits for room. A returned envelope must be sent again when `waker` is woken.
#[cold]
pub(crate) fn send_or_wait(
    shared: &RuntimeShared,
    local: Option<&Local>,
    to: Pid,
    mut envelope: Envelope,
    waker: &Waker,
) -> Option<Envelope> {
    if to.node() != 0 {
        return shared.wait_for_remote_room(local, to, envelope, waker);
    }
    loop {
        let slot = shared.table.slot(to).filter(|slot| SideTables::wait_for_room(*slot, to, waker))?;
        let header = slot.header();
        shared.wait_for_budget(to);
        let room = |pending| shared.is_below_low_watermark(header, pending);
        let push = shared.request_own_room(slot, to).unwrap_or_else(|| header.gate.request_room(room));
        match push {
            Push::Closed => return None,
            Push::Full => return Some(envelope),
            Push::Wake => {
                enqueue(slot, false);
                return Some(envelope);
            }
            Push::Queued => {
                RuntimeShared::wake_waiting_senders(slot, to);
                match send_envelope(shared, local, to, envelope) {
                    SendOutcome::Sent | SendOutcome::NoProcess(_) => return None,
                    SendOutcome::Full(back) => envelope = back,
                }
            }
        }
    }
}
