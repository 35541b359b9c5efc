//! Frames of other nodes, in their order, from one thread for each node.
//!
//! A message enters the mailbox even if that is full, so that later signals of its sender stay behind it. Its credit is
//! then withheld: the mailbox exceeds its capacity by at most the credit of its senders' nodes, and only these senders
//! wait. All that exceeds the room of mailboxes has a limit; a node whose message would exceed it loses its connection.

use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use thiserror::Error;

use crate::links::bonds::deliver_envelope;
use crate::links::registry::SideTables;
use crate::links::signal::MonitorRef;
use crate::mailbox::gate::Push;
use crate::mailbox::message::Message;
use crate::mailbox::queue::message_envelope;
use crate::mailbox::request::RemoteReply;
use crate::mailbox::tagged::TaggedBytes;
use crate::process::exit::ExitReason;
use crate::process::header::CONFINED;
use crate::process::pid::Pid;
use crate::runtime::remote::codec::{Decoder, Portable};
use crate::runtime::remote::frame::{Address, Frame, Kind};
use crate::runtime::remote::limits::{HELLO_BYTES_MAX, LINKS_MAX, MEMBERSHIPS_MAX, MONITORS_MAX};
use crate::runtime::remote::peers::{Bonds, Peer, Phase, Withheld};
use crate::runtime::shared::RuntimeShared;
use crate::scheduler::enqueue;
use crate::sync::atomic::Ordering;

/// Result of the delivery of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Its credit, if it has any, may be returned at once.
    Accepted,
    /// The mailbox is full: its credit is returned by
    /// [`Network::release`](crate::embed::remote::Network::release).
    Withheld,
}

/// Error returned for a frame that is not valid. The connection should be closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The content of the frame is not that of its kind.
    #[error("a frame of kind {kind:?} has a content that is not valid")]
    Payload {
        /// Kind of the frame.
        kind: Kind,
    },
    /// The frame came before the first frame of its connection.
    #[error("a frame of kind {kind:?} came before the first frame of its connection")]
    TooEarly {
        /// Kind of the frame.
        kind: Kind,
    },
    /// The messages that wait in full mailboxes would have too many bytes.
    #[error("messages of other nodes that wait in full mailboxes would have more than {limit} bytes")]
    NoRoom {
        /// Maximum length, in bytes.
        limit: u64,
    },
    /// The node uses more of this one than a node may.
    #[error("its processes may have {limit} {what} here, and it asks for more")]
    TooMany {
        /// Kind of the things that are too many.
        what: &'static str,
        /// Maximum number.
        limit: usize,
    },
}

impl RuntimeShared {
    /// Delivers a frame of a node.
    pub(crate) fn deliver(self: &Arc<Self>, peer: &Arc<Peer>, frame: Frame) -> Result<Delivered, Malformed> {
        let Frame { kind, from, to, payload } = frame;
        let counters = &peer.counters;
        counters.frames_received.fetch_add(1, Ordering::Relaxed);
        counters.payload_bytes_received.fetch_add(payload.len() as u64, Ordering::Relaxed);
        let phase = peer.link.read().phase;
        match phase {
            Phase::Up => {}
            Phase::Greeting if kind == Kind::Hello => {}
            // A connection that was lost: nothing of it is delivered any more.
            Phase::Down | Phase::Superseded => return Ok(Delivered::Accepted),
            Phase::Greeting => return Err(Malformed::TooEarly { kind }),
        }
        check(peer, kind, payload.len())?;
        let (from, to) = (if from == Address::NODE { Pid::NONE } else { from.on(peer.index) }, to.on(0));
        let bytes = payload.len();
        let mut decoder = Decoder::new(&self.peers, peer.index, payload);
        let malformed = || Malformed::Payload { kind };
        let delivered = match kind {
            Kind::Bytes => self.deliver_mail(peer, (from, to), bytes, Message::new(decoder.rest()), None)?,
            Kind::Tagged => {
                let tag = u64::decode(&mut decoder).ok_or_else(malformed)?;
                let message = Message::new(TaggedBytes { tag, body: decoder.rest() });
                self.deliver_mail(peer, (from, to), bytes, message, None)?
            }
            Kind::Value => self.deliver_value(peer, (from, to), bytes, &mut decoder).ok_or_else(malformed)??,
            Kind::Request => self.deliver_request(peer, (from, to), bytes, &mut decoder).ok_or_else(malformed)??,
            signal => {
                self.deliver_signal(peer, signal, (from, to), &mut decoder).ok_or_else(malformed)?;
                Delivered::Accepted
            }
        };
        tracing::trace!(node = %peer.identity.name, ?kind, bytes, ?delivered, "a frame was delivered");
        Ok(delivered)
    }

    fn deliver_value(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        (from, to): (Pid, Pid),
        bytes: usize,
        decoder: &mut Decoder<'_>,
    ) -> Option<Result<Delivered, Malformed>> {
        let name = Arc::<str>::decode(decoder)?;
        let decode = self.config.exports.value(&name)?;
        // The code of the program may panic; this thread serves a whole node.
        let Some(message) = catch_unwind(AssertUnwindSafe(|| decode(decoder))).ok().flatten() else {
            self.note_undecodable(peer, (to, from), &name);
            return Some(Ok(Delivered::Accepted));
        };
        Some(self.deliver_mail(peer, (from, to), bytes, message, None))
    }

    fn deliver_request(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        (from, to): (Pid, Pid),
        bytes: usize,
        decoder: &mut Decoder<'_>,
    ) -> Option<Result<Delivered, Malformed>> {
        let call = Arc::<str>::decode(decoder)?;
        let is_monitored = bool::decode(decoder)?;
        let caller = Pid::decode(decoder)?;
        let reference = MonitorRef::from_number(u64::decode(decoder)?)?;
        let codec = self.config.exports.call_codec(&call)?;
        let reply = RemoteReply { runtime: self.number, caller, reference, callee: to, call: Arc::clone(&call) };
        let told = reply.clone();
        let request = catch_unwind(AssertUnwindSafe(|| (codec.decode_request)(decoder, reply)));
        let Some(message) = request.ok().flatten() else {
            self.note_undecodable(peer, (to, from), &call);
            self.no_reply_remote(&told);
            return Some(Ok(Delivered::Accepted));
        };
        Some(self.deliver_mail(peer, (from, to), bytes, message, is_monitored.then_some((caller, reference))))
    }

    /// Puts a message into a mailbox. With `monitor`, the caller monitors the receiver until it has a reply.
    fn deliver_mail(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        (from, to): (Pid, Pid),
        bytes: usize,
        message: Message,
        monitor: Option<(Pid, MonitorRef)>,
    ) -> Result<Delivered, Malformed> {
        let own = monitor.map(|(caller, theirs)| (self.add_inbound(peer, theirs, to), caller, theirs));
        let Some(mut locked) = self.lock_process(to) else {
            if let Some((own, caller, _)) = own {
                self.down_remote(caller, own, to, &ExitReason::NoProcess);
            }
            return Ok(Delivered::Accepted);
        };
        if let Some((own, caller, _)) = own {
            locked.side_table().monitored_by.insert(own, caller);
        }
        let (slot, envelope) = (locked.slot(), message_envelope(to.generation(), message));
        let header = slot.header();
        // While all mailboxes together are full, an empty one accepts a message of this node, because its sender has a quota.
        // A message of another node is withheld.
        let has_room = !self.mailboxes.is_full() && self.has_room(header, header.gate.pending(), envelope.heap());
        let cost = if has_room {
            0
        } else {
            let limit = self.config.mailbox_total_bytes / 2;
            self.peers.overflow.take(bytes as u64, limit).ok_or(Malformed::NoRoom { limit })?
        };
        let is_confined = header.flags.load(Ordering::Relaxed) & CONFINED != 0 && from != Pid::NONE;
        if is_confined {
            drop(locked);
            SideTables::introduce(slot, to, from, |_| true);
            let Some(again) = self.lock_process(to) else {
                self.peers.overflow.give(cost);
                return Ok(Delivered::Accepted);
            };
            deliver_envelope(again, envelope);
        } else {
            deliver_envelope(locked, envelope);
        }
        Ok(if has_room { Delivered::Accepted } else { self.withhold(peer, to, bytes as u64, cost) })
    }

    /// Keeps the credit of a message until the mailbox has room.
    fn withhold(self: &Arc<Self>, peer: &Arc<Peer>, to: Pid, bytes: u64, cost: u64) -> Delivered {
        let is_first = {
            let mut withheld = peer.withheld.lock();
            let sum = withheld.entry(to).or_default();
            let is_first = sum.cost == 0;
            *sum = Withheld { frames: sum.frames + 1, bytes: sum.bytes + bytes, cost: sum.cost + cost };
            is_first
        };
        if is_first {
            let room = Arc::new(RoomWaker { shared: Arc::downgrade(self), peer: Arc::clone(peer), to });
            self.await_room(to, &room);
        }
        Delivered::Withheld
    }

    /// Calls the waker when the mailbox is at most half full, or its process has ended; maybe at once.
    fn await_room(&self, to: Pid, room: &Arc<RoomWaker>) {
        let waker = Waker::from(Arc::clone(room));
        let Some(slot) = self.table.slot(to).filter(|slot| SideTables::wait_for_room(*slot, to, &waker)) else {
            return room.release();
        };
        let header = slot.header();
        self.wait_for_budget(to);
        match header.gate.request_room(|pending| self.is_below_low_watermark(header, pending)) {
            Push::Closed => room.release(),
            Push::Full => {}
            Push::Wake => enqueue(slot, false),
            Push::Queued => Self::wake_waiting_senders(slot, to),
        }
    }

    pub(crate) fn add_inbound(&self, peer: &Peer, theirs: MonitorRef, target: Pid) -> MonitorRef {
        let own = self.next_reference();
        let mut bonds = peer.bonds.lock();
        bonds.inbound.insert(own, (theirs, target));
        bonds.inbound_by_theirs.insert(theirs, own);
        own
    }

    fn deliver_signal(
        self: &Arc<Self>,
        peer: &Arc<Peer>,
        kind: Kind,
        (from, to): (Pid, Pid),
        decoder: &mut Decoder<'_>,
    ) -> Option<()> {
        match kind {
            Kind::Hello => self.greet(peer, decoder)?,
            Kind::Reply => self.deliver_remote_reply(peer, (from, to), decoder)?,
            Kind::NoReply => {
                let reference = reference(decoder)?;
                peer.bonds.lock().monitors.remove(&reference);
                self.deliver_no_reply(to, reference);
            }
            Kind::Exit => self.exit(Some(from), to, ExitReason::decode(decoder)?),
            Kind::Link => self.linked_by(peer, from, to, u64::decode(decoder)?),
            Kind::Unlink => self.unlinked_by(peer, from, to, u64::decode(decoder)?),
            Kind::LinkExit => {
                let reason = ExitReason::decode(decoder)?;
                peer.bonds.lock().links.remove(&(to, from));
                self.exit_by_link(to, from, &reason);
            }
            Kind::Monitor => self.monitored_by(peer, from, to, reference(decoder)?),
            Kind::Demonitor => {
                let taken = peer.bonds.lock().take_inbound(reference(decoder)?);
                if let Some((own, target)) = taken {
                    self.remove_monitored_by(target, own);
                }
            }
            Kind::Down => {
                let (reference, reason) = (reference(decoder)?, ExitReason::decode(decoder)?);
                let bond = peer.bonds.lock().monitors.remove(&reference);
                if let Some((pid, target)) = bond {
                    self.down(pid, reference, target, &reason);
                }
            }
            Kind::Join => {
                self.join_of_remote(from, &String::decode(decoder)?)?;
                peer.bonds.lock().memberships += 1;
            }
            Kind::Leave => {
                let has_left = self.leave_of_remote(from, &String::decode(decoder)?);
                peer.bonds.lock().memberships -= usize::from(has_left);
            }
            Kind::Ask => self.answer(peer, from, decoder)?,
            Kind::Answer => self.answered(peer, (from, to), decoder)?,
            Kind::Undecodable => undecodable_there(peer, (from, to), &Arc::<str>::decode(decoder)?),
            Kind::Bytes | Kind::Tagged | Kind::Value | Kind::Request => unreachable!("delivered as messages"),
        }
        Some(())
    }

    fn deliver_remote_reply(&self, peer: &Peer, (from, to): (Pid, Pid), decoder: &mut Decoder<'_>) -> Option<()> {
        let (reference, call) = (reference(decoder)?, Arc::<str>::decode(decoder)?);
        let codec = self.config.exports.call_codec(&call)?;
        peer.bonds.lock().monitors.remove(&reference);
        let reply = catch_unwind(AssertUnwindSafe(|| (codec.decode_reply)(decoder, reference)));
        if let Some(message) = reply.ok().flatten() {
            self.deliver_reply_message(to, reference, message);
        } else {
            self.note_undecodable(peer, (to, from), &call);
            self.deliver_no_reply(to, reference);
        }
        Some(())
    }

    /// Counts and logs a message that is dropped, because its bytes are not valid for its type, and tells its sender's node.
    /// The first one is logged, then those with which the count has doubled.
    #[cold]
    fn note_undecodable(&self, peer: &Peer, (receiver, sender): (Pid, Pid), name: &Arc<str>) {
        let count = peer.counters.undecodable.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::error!(
                node = %peer.identity.name, %receiver, %sender, name = &**name, count,
                "a message was dropped: its bytes are not those of the type that this node exports under the name"
            );
        }
        self.with_link(peer.index, |peer| {
            self.peers.signal(peer, Kind::Undecodable, (receiver, sender), self.payload(peer, name));
        });
    }

    pub(crate) fn linked_by(&self, peer: &Peer, from: Pid, to: Pid, number: u64) {
        peer.bonds.lock().links.entry((to, from)).or_default().theirs = number;
        match self.lock_process(to) {
            Some(mut locked) => drop(locked.side_table().links.insert(from, ())),
            None => self.link_exit_remote(from, to, &ExitReason::NoProcess),
        }
    }

    /// Removes a link, unless this side has asked for it again after the request that the other side had seen.
    fn unlinked_by(&self, peer: &Peer, from: Pid, to: Pid, seen: u64) {
        {
            let mut bonds = peer.bonds.lock();
            if bonds.links.get(&(to, from)).is_none_or(|numbers| numbers.own > seen) {
                return;
            }
            bonds.links.remove(&(to, from));
        }
        if let Some(mut locked) = self.lock_process(to) {
            locked.side_table().links.remove(&from);
        }
    }

    pub(crate) fn monitored_by(&self, peer: &Peer, from: Pid, to: Pid, theirs: MonitorRef) {
        let own = self.add_inbound(peer, theirs, to);
        match self.lock_process(to) {
            Some(mut locked) => drop(locked.side_table().monitored_by.insert(own, from)),
            None => self.down_remote(from, own, to, &ExitReason::NoProcess),
        }
    }
}

/// Checks that a frame of a node does not exceed what the node may use.
fn check(peer: &Peer, kind: Kind, bytes: usize) -> Result<(), Malformed> {
    let count = |count: fn(&Bonds) -> usize| count(&peer.bonds.lock());
    let (what, used, limit) = match kind {
        Kind::Hello if bytes > HELLO_BYTES_MAX => return Err(Malformed::Payload { kind }),
        Kind::Link => ("links", count(|bonds| bonds.links.len()), LINKS_MAX),
        Kind::Monitor | Kind::Request => ("monitors", count(|bonds| bonds.inbound.len()), MONITORS_MAX),
        Kind::Join => ("memberships", count(|bonds| bonds.memberships), MEMBERSHIPS_MAX),
        _ => return Ok(()),
    };
    if used < limit { Ok(()) } else { Err(Malformed::TooMany { what, limit }) }
}

fn reference(decoder: &mut Decoder<'_>) -> Option<MonitorRef> {
    MonitorRef::from_number(u64::decode(decoder)?)
}

/// Counts and logs a message of this node that the other one has dropped.
#[cold]
fn undecodable_there(peer: &Peer, (receiver, sender): (Pid, Pid), name: &str) {
    let count = peer.counters.undecodable_there.fetch_add(1, Ordering::Relaxed) + 1;
    if count.is_power_of_two() {
        tracing::error!(
            node = %peer.identity.name, %sender, %receiver, name, count,
            "a message was lost: the other node exports another type under its name; update one of the nodes"
        );
    }
}

/// Returns the credit of withheld messages when their mailbox has room.
struct RoomWaker {
    shared: Weak<RuntimeShared>,
    peer: Arc<Peer>,
    to: Pid,
}

impl RoomWaker {
    fn release(&self) {
        let withheld = self.peer.withheld.lock().remove(&self.to);
        let (Some(withheld), Some(shared)) = (withheld, self.shared.upgrade()) else { return };
        shared.peers.overflow.give(withheld.cost);
        if let Some(attached) = shared.peers.attached.get().filter(|_| withheld.frames > 0) {
            attached.network.release(self.peer.index, self.to.into(), withheld.frames, withheld.bytes);
        }
    }
}

impl Wake for RoomWaker {
    fn wake(self: Arc<Self>) {
        self.release();
    }
}

impl std::fmt::Debug for RoomWaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", type_name::<Self>(), self.to)
    }
}
