//! Sending: puts a value into an envelope, and the envelope into the mailbox of the receiver or back to the sender.

use std::sync::atomic::Ordering;
use std::task::Waker;

use crate::cell::{CONFINED, CONGESTED};
use crate::gate::Push;
use crate::holdings::Holdings;
use crate::mailbox::{Letter, loose_letter};
use crate::pid::Pid;
use crate::runtime::Shared;
use crate::scheduler::{Local, enqueue};
use crate::slab::Slot;

/// Result of sending an envelope.
pub(crate) enum Posted {
    Sent,
    Full(Letter),
    NoProcess(Letter),
}

/// Creates an envelope for `to` that carries `value`.
#[inline]
pub(crate) fn letter<T: Send + 'static>(shared: &Shared, local: Option<&Local>, to: Pid, value: T) -> Letter {
    match local {
        Some(local) => local.nodes.letter(&shared.nodes, to.generation(), value),
        None => loose_letter(to.generation(), value),
    }
}

/// Puts an envelope into the mailbox of `to`, the process for which it was created.
#[inline]
pub(crate) fn post(shared: &Shared, local: Option<&Local>, to: Pid, mut letter: Letter) -> Posted {
    if let Some(local) = local {
        match local.hand(to, letter) {
            Ok(()) => return Posted::Sent,
            Err(back) => letter = back,
        }
    }
    push(shared, local, to, letter)
}

#[inline(never)]
fn push(shared: &Shared, local: Option<&Local>, to: Pid, letter: Letter) -> Posted {
    let Some(slot) = shared.slab.slot(to) else {
        return Posted::NoProcess(letter);
    };
    let cell = slot.cell();
    if cell.generation.load(Ordering::Acquire) != to.generation() {
        return Posted::NoProcess(letter);
    }
    if cell.flags.load(Ordering::Relaxed) & CONFINED != 0
        && let Some(local) = local
    {
        // Before the message is queued: its receiver may answer as soon as it has it.
        local.introduce(to);
    }
    let heap = letter.heap();
    if heap != 0 {
        cell.mail_bytes.fetch_add(heap, Ordering::Relaxed);
    }
    match cell.gate.push(letter.address(), |pending| shared.has_room(cell, pending, heap), |newest| letter.link(newest))
    {
        Push::Queued => {
            letter.posted();
            shared.charge_mail(local, heap);
        }
        Push::Wake => {
            letter.posted();
            shared.charge_mail(local, heap);
            match local {
                Some(local) => local.enqueue(slot, true),
                None => enqueue(slot, true),
            }
        }
        refused @ (Push::Full | Push::Closed) => {
            if heap != 0 {
                cell.mail_bytes.fetch_sub(heap, Ordering::SeqCst);
                // A sender that has just begun to wait may have counted these bytes.
                let waits = refused == Push::Full && cell.flags.load(Ordering::SeqCst) & CONGESTED != 0;
                if waits && shared.is_relieved(cell, cell.gate.pending()) {
                    Shared::relieve(slot, to);
                }
            }
            return if refused == Push::Full { Posted::Full(letter) } else { Posted::NoProcess(letter) };
        }
    }
    Posted::Sent
}

/// Puts an envelope into a mailbox even if that is full, and calls `unlock` before anything else can happen.
pub(crate) fn post_anyway(slot: Slot, letter: Letter, unlock: impl FnOnce()) {
    let (cell, heap) = (slot.cell(), letter.heap());
    if heap != 0 {
        cell.mail_bytes.fetch_add(heap, Ordering::Relaxed);
    }
    match cell.gate.push_anyway(letter.address(), |newest| letter.link(newest)) {
        Push::Queued => {
            letter.posted();
            slot.shared().charge_mail(None, heap);
            unlock();
        }
        Push::Wake => {
            letter.posted();
            slot.shared().charge_mail(None, heap);
            unlock();
            enqueue(slot, true);
        }
        Push::Full | Push::Closed => {
            if heap != 0 {
                cell.mail_bytes.fetch_sub(heap, Ordering::Relaxed);
            }
            unlock();
        }
    }
}

/// Sends an envelope or waits for room. A returned envelope must be sent again when `waker` is woken.
#[cold]
pub(crate) fn wait_to_post(
    shared: &Shared,
    local: Option<&Local>,
    to: Pid,
    mut letter: Letter,
    waker: &Waker,
) -> Option<Letter> {
    loop {
        let slot = shared.slab.slot(to).filter(|slot| Holdings::wait_for_room(*slot, to, waker))?;
        let cell = slot.cell();
        shared.wait_for_budget(to);
        match cell.gate.crowd(|pending| shared.is_relieved(cell, pending)) {
            Push::Closed => return None,
            Push::Full => return Some(letter),
            Push::Wake => {
                enqueue(slot, false);
                return Some(letter);
            }
            Push::Queued => {
                Shared::relieve(slot, to);
                match post(shared, local, to, letter) {
                    Posted::Sent | Posted::NoProcess(_) => return None,
                    Posted::Full(back) => letter = back,
                }
            }
        }
    }
}
