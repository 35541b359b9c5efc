//! Messages and signals from processes of this node to processes of other nodes.
//!
//! Everything that one process sends to another is queued for the network by its own thread, in its order.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::task::Waker;

use bytes::Bytes;

use crate::links::signal::MonitorRef;
use crate::mailbox::message::Message;
use crate::mailbox::queue::Envelope;
use crate::mailbox::request::RemoteReply;
use crate::mailbox::send::SendOutcome;
use crate::mailbox::tagged::{ChargedBytes, TaggedBytes};
use crate::process::error::TrySendError;
use crate::process::exit::ExitReason;
use crate::process::pid::Pid;
use crate::process::side_table_guard::SideTableGuard;
use crate::process::table::Slot;
use crate::runtime::remote::codec::{Encoder, Portable};
use crate::runtime::remote::exports::Outgoing;
use crate::runtime::remote::frame::{Frame, Kind};
use crate::runtime::remote::limits::{LINKS_MAX, MONITORS_MAX, share_of};
use crate::runtime::remote::network::Refused;
use crate::runtime::remote::peers::{LinkState, Peer, Phase};
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::Local;

/// An encoded message.
struct Encoded {
    kind: Kind,
    payload: Bytes,
}

/// Result of an attempt to send an envelope.
enum Pushed {
    Sent,
    /// The network was full.
    Busy {
        envelope: Envelope,
        /// Length of the encoded message.
        bytes: usize,
    },
    NoProcess(Envelope),
}

impl RuntimeShared {
    /// Sends an envelope to a process of another node. A pid of this node has ended.
    #[cold]
    pub(crate) fn push_remote(&self, local: Option<&Local>, to: Pid, envelope: Envelope) -> SendOutcome {
        match self.try_push_remote(local, to, envelope) {
            Pushed::Sent => SendOutcome::Sent,
            Pushed::Busy { envelope, .. } => SendOutcome::Full(envelope),
            Pushed::NoProcess(envelope) => SendOutcome::NoProcess(envelope),
        }
    }

    fn try_push_remote(&self, local: Option<&Local>, to: Pid, envelope: Envelope) -> Pushed {
        let (Some(peer), Some(attached)) = (self.peers.get(to.node()), self.peers.attached.get()) else {
            return Pushed::NoProcess(envelope);
        };
        let link = peer.link.read();
        if link.phase != Phase::Up {
            return Pushed::NoProcess(envelope);
        }
        let from = local.and_then(Local::running_pid).unwrap_or(Pid::NONE);
        let Some(Encoded { kind, payload }) = self.encode(&peer, &link, envelope.message()) else {
            return Pushed::NoProcess(envelope);
        };
        if payload.len() > attached.network.payload_bytes_max() {
            return Pushed::NoProcess(envelope);
        }
        let queued = self.peers.queue(&peer, Frame { kind, from: from.into(), to: to.into(), payload });
        // Code of the program runs when the message is dropped; it may use the same peer.
        drop(link);
        match queued {
            Ok(()) => {
                self.forget(envelope);
                Pushed::Sent
            }
            Err(Refused::Busy(frame)) => Pushed::Busy { envelope, bytes: frame.payload.len() },
            Err(Refused::NoConnection(_)) => Pushed::NoProcess(envelope),
        }
    }

    /// Sends an envelope to a process of another node or waits for room; see
    /// [`send_or_wait`](crate::mailbox::send::send_or_wait).
    #[cold]
    pub(crate) fn wait_for_remote_room(
        &self,
        local: Option<&Local>,
        to: Pid,
        mut envelope: Envelope,
        sender: &Waker,
    ) -> Option<Envelope> {
        let attached = self.peers.attached.get()?;
        loop {
            match self.try_push_remote(local, to, envelope) {
                Pushed::Sent => return None,
                Pushed::Busy { envelope: back, bytes } => {
                    if attached.network.wait_for_room(to.node(), to.into(), bytes, sender) {
                        return Some(back);
                    }
                    envelope = back;
                }
                Pushed::NoProcess(back) => {
                    self.drop_unsent(to, back);
                    return None;
                }
            }
        }
    }

    fn encode(&self, peer: &Peer, link: &LinkState, message: &Message) -> Option<Encoded> {
        if let Some(bytes) = message.downcast_ref::<Bytes>() {
            return Some(Encoded { kind: Kind::Bytes, payload: bytes.clone() });
        }
        let mut encoder = Encoder::new(&self.peers, peer.index);
        let kind = if let Some(tagged) = message.downcast_ref::<TaggedBytes>() {
            tagged.tag.encode(&mut encoder);
            encoder.put(&tagged.body);
            Kind::Tagged
        } else if let Some(charged) = message.downcast_ref::<ChargedBytes>() {
            charged.tag.encode(&mut encoder);
            encoder.put(charged.as_ref());
            Kind::Tagged
        } else {
            let outgoing = self.config.exports.outgoing(message.type_id())?;
            if !link.types.contains(outgoing.name()) {
                return None;
            }
            outgoing.name().encode(&mut encoder);
            match outgoing {
                Outgoing::Value { encode, .. } => {
                    encode(message, &mut encoder);
                    Kind::Value
                }
                Outgoing::Call { encode, caller, .. } => {
                    let (caller, reference) = caller(message)?;
                    // Only a call from this node awaits the reply here; a request that is passed on does not.
                    let is_monitored = peer.bonds.lock().monitors.contains_key(&reference);
                    is_monitored.encode(&mut encoder);
                    caller.encode(&mut encoder);
                    reference.number().encode(&mut encoder);
                    encode(message, &mut encoder);
                    Kind::Request
                }
            }
        };
        Some(Encoded { kind, payload: encoder.into_bytes().into() })
    }

    /// Drops a message that was sent or could not be sent. A request does not tell its caller: the reply or the end of
    /// the callee does.
    fn forget(&self, envelope: Envelope) {
        let message = envelope.into_message();
        match self.config.exports.outgoing(message.type_id()) {
            Some(Outgoing::Call { forget, .. }) => forget(message),
            _ => drop(message),
        }
    }

    /// Drops a message that could not be sent.
    ///
    /// # Panics
    /// If it is for another node, and its type is not exported by both nodes, or it is too long.
    #[cold]
    pub(crate) fn drop_unsent(&self, to: Pid, envelope: Envelope) {
        if to.node() == 0 {
            return drop(envelope);
        }
        if self.is_portable(to, envelope.message().type_id()) && self.is_too_large(to, envelope.message()).is_none() {
            return self.forget(envelope);
        }
        let error = self.unsent(to, envelope);
        panic!("{error}")
    }

    /// Returns the reason why a message to another node was not sent.
    #[cold]
    pub(crate) fn unsent(&self, to: Pid, envelope: Envelope) -> TrySendError {
        let message = envelope.into_message();
        if !self.is_portable(to, message.type_id()) {
            return TrySendError::NotPortable { message, to };
        }
        if let Some(bytes_max) = self.is_too_large(to, &message) {
            return TrySendError::TooLarge { message, to, bytes_max };
        }
        let is_superseded = self.peers.get(to.node()).is_none_or(|peer| peer.link.read().phase == Phase::Superseded);
        if is_superseded { TrySendError::NoProcess { message, to } } else { TrySendError::NoConnection { message, to } }
    }

    /// Returns the maximum length of an encoded message, if this one is longer.
    fn is_too_large(&self, to: Pid, message: &Message) -> Option<usize> {
        let bytes_max = self.peers.attached.get()?.network.payload_bytes_max();
        let peer = self.peers.get(to.node())?;
        let encoded = self.encode(&peer, &peer.link.read(), message)?;
        (encoded.payload.len() > bytes_max).then_some(bytes_max)
    }

    /// Returns true if messages of a type may be sent to the node of `to`, as far as that is known.
    fn is_portable(&self, to: Pid, id: TypeId) -> bool {
        if [TypeId::of::<Bytes>(), TypeId::of::<TaggedBytes>(), TypeId::of::<ChargedBytes>()].contains(&id) {
            return true;
        }
        let Some(outgoing) = self.config.exports.outgoing(id) else { return false };
        self.peers.get(to.node()).is_none_or(|peer| {
            let link = peer.link.read();
            link.phase != Phase::Up || link.types.contains(outgoing.name())
        })
    }

    /// Returns true if messages of type `T` may be sent to the node of `to`.
    pub(crate) fn is_sendable<T: 'static>(&self, to: Pid) -> bool {
        self.is_portable(to, TypeId::of::<T>())
    }

    /// Runs `act` with a connected peer; false without a connection.
    pub(crate) fn with_link(&self, node: u32, act: impl FnOnce(&Arc<Peer>)) -> bool {
        let Some(peer) = self.peers.get(node) else { return false };
        let link = peer.link.read();
        let is_up = link.phase == Phase::Up;
        if is_up {
            act(&peer);
        }
        is_up
    }

    /// Returns the reason with which bonds to a node end that is not connected.
    pub(crate) fn lost_reason(&self, node: u32) -> ExitReason {
        self.peers.get(node).map_or(ExitReason::NoProcess, |peer| peer.lost_reason())
    }

    pub(crate) fn payload<T: Portable>(&self, peer: &Peer, value: &T) -> Vec<u8> {
        let mut encoder = Encoder::new(&self.peers, peer.index);
        value.encode(&mut encoder);
        encoder.into_bytes()
    }

    /// Sends the request for a link that this side has recorded.
    #[cold]
    pub(crate) fn link_remote(&self, pid: Pid, other: Pid) {
        let limit = self.remote_share_of(pid, LINKS_MAX);
        let mut is_refused = false;
        let linked = self.with_link(other.node(), |peer| {
            let mut bonds = peer.bonds.lock();
            is_refused = bonds.links.len() >= limit && !bonds.links.contains_key(&(pid, other));
            if is_refused {
                return;
            }
            bonds.links_sent += 1;
            let number = bonds.links_sent;
            bonds.links.entry((pid, other)).or_default().own = number;
            self.peers.signal(peer, Kind::Link, (pid, other), self.payload(peer, &number));
        });
        if is_refused {
            self.exit_by_link(pid, other, &ExitReason::NoConnection);
        } else if !linked {
            self.exit_by_link(pid, other, &self.lost_reason(other.node()));
        }
    }

    fn remote_share_of(&self, pid: Pid, limit: usize) -> usize {
        self.table.slot(pid).map_or(limit, |slot| share_of(slot.header(), limit))
    }

    /// Tells the other node that a link was removed.
    #[cold]
    pub(crate) fn unlink_remote(&self, pid: Pid, other: Pid) {
        self.with_link(other.node(), |peer| {
            let mut bonds = peer.bonds.lock();
            if let Some(numbers) = bonds.links.remove(&(pid, other)) {
                let payload = self.payload(peer, &numbers.theirs);
                self.peers.signal(peer, Kind::Unlink, (pid, other), payload);
            }
        });
    }

    /// Tells a process of another node that `ended`, to which it was linked, has ended.
    #[cold]
    pub(crate) fn link_exit_remote(&self, to: Pid, ended: Pid, reason: &ExitReason) {
        self.with_link(to.node(), |peer| {
            if peer.bonds.lock().links.remove(&(ended, to)).is_some() {
                self.peers.signal(peer, Kind::LinkExit, (ended, to), self.payload(peer, reason));
            }
        });
    }

    /// Sends the request for a monitor that this side has recorded. The monitor of a call needs none: the request of the
    /// call tells the other node to monitor the callee.
    #[cold]
    pub(crate) fn monitor_remote(&self, pid: Pid, reference: MonitorRef, target: Pid) {
        let limit = self.remote_share_of(pid, MONITORS_MAX);
        let mut is_refused = false;
        let monitored = self.with_link(target.node(), |peer| {
            let mut bonds = peer.bonds.lock();
            is_refused = bonds.monitors.len() >= limit;
            if is_refused {
                return;
            }
            bonds.monitors.insert(reference, (pid, target));
            drop(bonds);
            if !reference.is_call() {
                self.peers.signal(peer, Kind::Monitor, (pid, target), self.payload(peer, &reference.number()));
            }
        });
        if is_refused {
            self.down(pid, reference, target, &ExitReason::NoConnection);
        } else if !monitored {
            self.down(pid, reference, target, &self.lost_reason(target.node()));
        }
    }

    /// Sends the request for a monitor that was recorded like that of a call.
    #[cold]
    pub(crate) fn send_monitor(&self, pid: Pid, reference: MonitorRef, target: Pid) {
        self.with_link(target.node(), |peer| {
            if peer.bonds.lock().monitors.contains_key(&reference) {
                self.peers.signal(peer, Kind::Monitor, (pid, target), self.payload(peer, &reference.number()));
            }
        });
    }

    /// Records a monitor for an answer of another node or of its process. The request for the answer tells the other
    /// side.
    pub(crate) fn expect_reply(&self, own: Slot, pid: Pid, target: Pid, reference: MonitorRef) {
        if let Some(mut locked) = SideTableGuard::lock_live(own, pid) {
            locked.side_table().monitors.insert(reference, target);
        }
        let connected = self.with_link(target.node(), |peer| {
            peer.bonds.lock().monitors.insert(reference, (pid, target));
        });
        if !connected {
            self.down(pid, reference, target, &self.lost_reason(target.node()));
        }
    }

    /// Tells the other node that a monitor was removed. Returns without effect if it has ended.
    #[cold]
    pub(crate) fn demonitor_remote(&self, target: Pid, reference: MonitorRef) {
        self.with_link(target.node(), |peer| {
            if let Some((pid, _)) = peer.bonds.lock().monitors.remove(&reference) {
                self.peers.signal(peer, Kind::Demonitor, (pid, target), self.payload(peer, &reference.number()));
            }
        });
    }

    /// Tells a process of another node that `ended`, which it monitors by a reference of this node, has ended.
    #[cold]
    pub(crate) fn down_remote(&self, to: Pid, own: MonitorRef, ended: Pid, reason: &ExitReason) {
        self.with_link(to.node(), |peer| {
            let theirs = peer.bonds.lock().take_inbound_own(own);
            if let Some(theirs) = theirs {
                self.send_down(peer, (ended, to), theirs, reason);
            }
        });
    }

    /// Sends the end of a monitor; the caller has locked the link.
    pub(crate) fn send_down(&self, peer: &Peer, ends: (Pid, Pid), theirs: MonitorRef, reason: &ExitReason) {
        let mut encoder = Encoder::new(&self.peers, peer.index);
        theirs.number().encode(&mut encoder);
        reason.encode(&mut encoder);
        self.peers.signal(peer, Kind::Down, ends, encoder.into_bytes());
    }

    /// Sends an exit signal to a process of another node; dropped without a connection.
    #[cold]
    pub(crate) fn exit_remote(&self, from: Option<Pid>, to: Pid, reason: &ExitReason) {
        self.with_link(to.node(), |peer| {
            self.peers.signal(peer, Kind::Exit, (from.unwrap_or(Pid::NONE), to), self.payload(peer, reason));
        });
    }

    /// Sends the reply to a request of another node. Returns false without a connection, and for a reply that is too long:
    /// its caller learns that there is none.
    #[cold]
    pub(crate) fn reply_remote(&self, reply: &RemoteReply, value: &dyn Any) -> bool {
        let Some(codec) = self.config.exports.call_codec(&reply.call) else { return false };
        let bytes_max = self.peers.attached.get().map_or(usize::MAX, |attached| attached.network.payload_bytes_max());
        let mut too_long = None;
        let sent = self.with_link(reply.caller.node(), |peer| {
            let mut encoder = Encoder::new(&self.peers, peer.index);
            reply.reference.number().encode(&mut encoder);
            reply.call.encode(&mut encoder);
            (codec.encode_reply)(value, &mut encoder);
            let payload = encoder.into_bytes();
            if payload.len() > bytes_max {
                too_long = Some(payload.len());
            } else {
                self.peers.signal(peer, Kind::Reply, (reply.callee, reply.caller), payload);
            }
        });
        if let Some(bytes) = too_long {
            tracing::warn!(caller = %reply.caller, bytes, bytes_max, "a reply is too long for another node");
            self.no_reply_remote(reply);
            return false;
        }
        self.end_remote_call(reply);
        sent
    }

    /// Tells the caller on another node that its request was dropped.
    #[cold]
    pub(crate) fn no_reply_remote(&self, reply: &RemoteReply) {
        self.with_link(reply.caller.node(), |peer| {
            let payload = self.payload(peer, &reply.reference.number());
            self.peers.signal(peer, Kind::NoReply, (reply.callee, reply.caller), payload);
        });
        self.end_remote_call(reply);
    }

    /// Removes the monitor that the request has set on the callee.
    fn end_remote_call(&self, reply: &RemoteReply) {
        let Some(peer) = self.peers.get(reply.caller.node()) else { return };
        let taken = peer.bonds.lock().take_inbound(reply.reference);
        if let Some((own, target)) = taken {
            self.remove_monitored_by(target, own);
        }
    }
}
