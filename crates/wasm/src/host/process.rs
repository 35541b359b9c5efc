//! `rusm:runtime/process`: own identity, spawning, messages, links and monitors.

use std::time::Duration;

use bytes::Bytes;

use super::{convert, write_line};
use crate::bindings::rusm::runtime::log::Level;
use crate::bindings::rusm::runtime::process::{Host, SpawnOptions, Spawned, Ties};
use crate::bindings::rusm::runtime::types::{
    self, Down, Error, ExitReason, ExitSignal, GroupChange, Message, Pid, Received,
};
use crate::engine::fiber::waiting;
use crate::guest::capability::Capability;
use crate::guest::guest_info::HostCall;
use crate::guest::inline_bytes::{InlineBytes, ReceivedBytes};
use crate::guest::name::NAME_MAX_BYTES;
use crate::guest::sending::Unsent;
use crate::guest::state::{GuestState, ITEM_UNCOUNTED, REQUESTS_KEPT};
use rusm_runtime::embed::guest::ChargedBytes;
use rusm_runtime::embed::guest::SpawnParams;
use rusm_runtime::{Joined, Left, MonitorRef, Request, TaggedBytes, TrySendError};

impl Host for GuestState {
    fn self_(&mut self) -> Pid {
        self.record_call(HostCall::Self_);
        convert::pid(self.ctx.pid())
    }

    fn parent(&mut self) -> Option<Pid> {
        self.record_call(HostCall::Parent);
        self.ctx.parent().map(convert::pid)
    }

    fn label(&mut self, mut text: String) {
        self.record_call(HostCall::Label);
        text.truncate(text.floor_char_boundary(NAME_MAX_BYTES));
        self.ctx.set_label(text);
    }

    async fn spawn(&mut self, module: String, options: SpawnOptions) -> Result<Spawned, Error> {
        self.record_call(HostCall::Spawn);
        self.require(Capability::Spawn)?;
        let (pid, monitor) = waiting(self.spawn_guest(&module, options)).await?;
        Ok(Spawned { pid: convert::pid(pid), monitor: monitor.map(MonitorRef::number) })
    }

    async fn send(&mut self, to: Pid, tag: u64, body: Vec<u8>) -> Result<(), Error> {
        self.record_call(HostCall::Send);
        self.check_length(&body)?;
        let to = convert::pid_of(to);
        // Fast path: usually there is room, and the call need not wait.
        match self.send_bytes(to, tag, body) {
            Ok(()) => Ok(()),
            Err(unsent) => self.send_when_ready(to, tag, unsent).await,
        }
    }

    fn try_send(&mut self, to: Pid, tag: u64, body: Vec<u8>) -> Result<(), Error> {
        self.record_call(HostCall::TrySend);
        self.check_length(&body)?;
        match self.try_send_bytes(convert::pid_of(to), tag, body) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(TrySendError::NoProcess { .. } | TrySendError::NoConnection { .. })) => Err(Error::NoProcess),
            Ok(Err(refused @ (TrySendError::NotPortable { .. } | TrySendError::TooLarge { .. }))) => {
                Err(Error::Invalid(refused.to_string()))
            }
            Ok(Err(TrySendError::Full { .. })) | Err(Unsent::Full(_)) => Err(Error::MailboxFull),
            Err(Unsent::Denied(error)) => Err(error),
            Err(Unsent::Quota(_)) => Err(self.over_quota()),
        }
    }

    async fn receive(&mut self, timeout_ms: Option<u64>) -> Option<Received> {
        self.record_call(HostCall::Receive);
        self.receive_within(timeout_ms).await
    }

    async fn receive_tagged(&mut self, tag: u64, timeout_ms: Option<u64>) -> Option<Message> {
        self.record_call(HostCall::ReceiveTagged);
        let message = self.tagged_within(tag, timeout_ms).await?;
        match self.received(message) {
            Received::Message(message) => Some(message),
            // Only messages of bytes have a tag.
            _ => None,
        }
    }

    async fn call(&mut self, to: Pid, tag: u64, body: Vec<u8>, timeout_ms: u64) -> Result<Vec<u8>, Error> {
        self.record_call(HostCall::Call);
        self.check_length(&body)?;
        let (to, timeout) = (convert::pid_of(to), Duration::from_millis(timeout_ms));
        self.may_send(to)?;
        let (body, timeout) = self.charge_within(timeout, body).await?;
        let reply: Result<Bytes, _> = waiting(async {
            if tag == 0 {
                self.ctx.call(to, body, timeout).await
            } else {
                self.ctx.call(to, TaggedBytes { tag, body }, timeout).await
            }
        })
        .await;
        let reply = reply.map(|reply| self.hold_body(reply));
        reply.map_err(|error| match error {
            rusm_runtime::CallError::CallingSelf { .. } => Error::Invalid("a process cannot call itself".to_owned()),
            rusm_runtime::CallError::NoProcess { .. } => Error::NoProcess,
            rusm_runtime::CallError::Timeout { .. } => Error::TimedOut,
            rusm_runtime::CallError::NoConnection { .. } => {
                Error::CalleeExited(convert::reason(&rusm_runtime::ExitReason::NoConnection))
            }
            refused @ rusm_runtime::CallError::NotPortable { .. } => Error::Invalid(refused.to_string()),
            rusm_runtime::CallError::Ended { reason, .. } => Error::CalleeExited(convert::reason(&reason)),
            // The interface has no case for these: they are told as a reason in words.
            other @ (rusm_runtime::CallError::Dropped { .. } | rusm_runtime::CallError::AwaitsStart { .. }) => {
                Error::CalleeExited(convert::reason(&rusm_runtime::ExitReason::other(other)))
            }
        })
    }

    fn reply(&mut self, to: u64, body: Vec<u8>) -> bool {
        self.record_call(HostCall::Reply);
        if self.check_length(&body).is_err() {
            return false;
        }
        let Some(reply) = self.take_reply(to) else { return false };
        let body = self.charge_unchecked(body);
        reply.send(&self.ctx, body).is_none()
    }

    fn link(&mut self, other: Pid) {
        self.record_call(HostCall::Link);
        let other = convert::pid_of(other);
        // A link can end the other process. A guest that may not do that is told that no such link exists.
        if !self.is_self_or_child(other) && self.require(Capability::ExitOthers).is_err() {
            return self.process().refuse_link(other, format!("denied: {}", Capability::ExitOthers.word()));
        }
        // The end of a linked process is delivered at any time, to either of them.
        if [self.ctx.pid(), other].into_iter().all(|pid| self.process().mailbox_has_room(pid, true)) {
            self.ctx.link(other);
        } else {
            self.process().refuse_link(other, "noproc".to_owned());
        }
    }

    fn unlink(&mut self, other: Pid) {
        self.record_call(HostCall::Unlink);
        self.ctx.unlink(convert::pid_of(other));
    }

    fn monitor(&mut self, target: Pid) -> u64 {
        self.record_call(HostCall::Monitor);
        let target = convert::pid_of(target);
        // A monitor of oneself has ended from the start.
        if target != self.ctx.pid() && !self.has_room_for_monitor() {
            self.process().refuse_link(target, "limit: too many monitors: demonitor some".to_owned());
            return 0;
        }
        self.ctx.monitor(target).number()
    }

    fn demonitor(&mut self, monitor: u64) -> bool {
        self.record_call(HostCall::Demonitor);
        let Some(reference) = MonitorRef::from_number(monitor) else { return false };
        let was_there = self.ctx.demonitor(reference);
        if was_there || self.process().remove_down(reference) {
            self.monitor_is_over();
        }
        was_there
    }

    fn trap_exits(&mut self, trap: bool) -> bool {
        self.record_call(HostCall::TrapExits);
        self.ctx.trap_exits(trap)
    }

    async fn exit(&mut self, target: Pid, reason: ExitReason) -> Result<(), Error> {
        self.record_call(HostCall::Exit);
        let target = convert::pid_of(target);
        if !self.is_self_or_child(target) {
            self.require(Capability::ExitOthers)?;
        }
        let reason = convert::reason_of(reason);
        if reason != rusm_runtime::ExitReason::Killed && !self.process().mailbox_has_room(target, true) {
            return Err(Error::MailboxFull);
        }
        self.ctx.exit(target, reason);
        if target == self.ctx.pid() {
            // Yield, so that a signal to itself takes effect here and not some instructions later.
            waiting(self.ctx.yield_now()).await;
        }
        Ok(())
    }

    async fn sleep(&mut self, ms: u64) {
        self.record_call(HostCall::Sleep);
        waiting(self.ctx.sleep(Duration::from_millis(ms))).await;
    }

    async fn yield_(&mut self) {
        self.record_call(HostCall::Yield);
        waiting(self.ctx.yield_now()).await;
    }
}

impl GuestState {
    /// Receives the next message, waiting for at most `timeout_ms` milliseconds, or without a limit.
    pub(crate) async fn receive_within(&mut self, timeout_ms: Option<u64>) -> Option<Received> {
        let message = self.message_within(timeout_ms).await?;
        Some(self.received(message))
    }

    /// Like [`receive_within`](Self::receive_within), without a conversion of the message.
    pub(crate) async fn message_within(&mut self, timeout_ms: Option<u64>) -> Option<rusm_runtime::Message> {
        waiting(async {
            match timeout_ms {
                None => Some(self.ctx.receive().await),
                Some(ms) => self.ctx.receive_timeout(Duration::from_millis(ms)).await,
            }
        })
        .await
    }

    /// Receives the next message with a tag, waiting for at most `timeout_ms` milliseconds, or without a limit.
    pub(crate) async fn tagged_within(&mut self, tag: u64, timeout_ms: Option<u64>) -> Option<rusm_runtime::Message> {
        let wanted = move |message: &rusm_runtime::Message| tag_of(message) == Some(tag);
        waiting(async {
            match timeout_ms {
                None => Some(self.ctx.receive_match(wanted).await),
                Some(ms) => self.ctx.receive_match_timeout(Duration::from_millis(ms), wanted).await,
            }
        })
        .await
    }

    /// Stores a long message, which takes a share of the memory of all guests. Without room there, it stays charged to its
    /// sender until the next result.
    #[cold]
    fn store_long(&mut self, charged: ChargedBytes) -> i32 {
        self.last_result.set_received(None);
        match self.share_if_long(charged.as_ref().len()) {
            Ok(share) => {
                let kind = self.last_result.set_message(charged.tag, charged.into_body().into());
                self.last_result.share = share;
                kind
            }
            Err(_full) => self.last_result.set_message(charged.tag, Bytes::from_owner(charged).into()),
        }
    }

    /// Stores the next message of a core module, if there is one; returns its kind, or 0.
    pub(crate) fn store_received_or_none(&mut self, message: Option<rusm_runtime::Message>) -> i32 {
        match message {
            Some(message) => self.store_message(message),
            None => self.last_result.set_received(None),
        }
    }

    /// Stores what a core module has received, and returns its kind; a request that finds no memory is dropped.
    fn store_received(&mut self, received: Received) -> i32 {
        let bytes = if let Received::Message(message) = &received { message.body.len() } else { 0 };
        self.last_result.set_received(None);
        match self.share_if_long(bytes) {
            Ok(share) => {
                let kind = self.last_result.set_received(Some(received));
                self.last_result.share = share;
                kind
            }
            Err(full) => self.last_result.fail(full.into()),
        }
    }

    /// Stores the next message of a core module as its item; returns its kind.
    #[inline]
    pub(crate) fn store_message(&mut self, message: rusm_runtime::Message) -> i32 {
        let message = match message.downcast::<InlineBytes>() {
            Ok(short) => return self.last_result.set_message(short.tag, ReceivedBytes::Inline(short)),
            Err(message) => message,
        };
        let message = match message.downcast::<Bytes>() {
            Ok(body) => return self.last_result.set_message(0, ReceivedBytes::Heap(body)),
            Err(message) => message,
        };
        let message = match message.downcast::<ChargedBytes>() {
            Ok(charged) if charged.as_ref().len() > ITEM_UNCOUNTED => return self.store_long(charged),
            Ok(charged) => return self.last_result.set_message(charged.tag, charged.into_body().into()),
            Err(message) => message,
        };
        match message.downcast::<TaggedBytes>() {
            Ok(TaggedBytes { tag, body }) => self.last_result.set_message(tag, ReceivedBytes::Heap(body)),
            Err(message) => {
                let received = self.received_request_or_signal(message);
                self.store_received(received)
            }
        }
    }

    /// Converts the next message of a component.
    pub(super) fn received(&mut self, message: rusm_runtime::Message) -> Received {
        let message = match message.downcast::<InlineBytes>() {
            Ok(short) => return Received::Message(Message { tag: short.tag, body: short.to_vec(), reply_to: None }),
            Err(message) => message,
        };
        let message = match message.downcast::<Bytes>() {
            Ok(body) => return self.received_bytes(0, body),
            Err(message) => message,
        };
        let message = match message.downcast::<TaggedBytes>() {
            Ok(TaggedBytes { tag, body }) => return self.received_bytes(tag, body),
            Err(message) => message,
        };
        let message = match message.downcast::<ChargedBytes>() {
            Ok(charged) if charged.as_ref().len() > ITEM_UNCOUNTED => {
                return self.received_bytes(charged.tag, Bytes::from_owner(charged));
            }
            Ok(charged) => {
                self.last_result.release();
                return Received::Message(Message { tag: charged.tag, body: charged.into_body(), reply_to: None });
            }
            Err(message) => message,
        };
        self.received_request_or_signal(message)
    }

    fn received_bytes(&mut self, tag: u64, body: Bytes) -> Received {
        Received::Message(Message { tag, body: self.hold_body(body), reply_to: None })
    }

    #[cold]
    fn received_request_or_signal(&mut self, message: rusm_runtime::Message) -> Received {
        let message = match message.downcast::<Request<Bytes, Bytes>>() {
            Ok(Request { request, reply }) => return self.requested(0, request, reply),
            Err(message) => message,
        };
        let message = match message.downcast::<Request<TaggedBytes, Bytes>>() {
            Ok(Request { request: TaggedBytes { tag, body }, reply }) => return self.requested(tag, body, reply),
            Err(message) => message,
        };
        let message = match message.downcast::<rusm_runtime::Exit>() {
            Ok(exit) => {
                let (from, reason) = (convert::pid(exit.from), convert::reason(&exit.reason));
                return Received::Exit(ExitSignal { from, reason });
            }
            Err(message) => message,
        };
        let message = match message.downcast::<rusm_runtime::Down>() {
            Ok(down) => {
                self.monitor_is_over();
                let (pid, reason) = (convert::pid(down.pid), convert::reason(&down.reason));
                return Received::Down(Down { monitor: down.reference.number(), pid, reason });
            }
            Err(message) => message,
        };
        match self.offered(message) {
            Ok(word) => Received::Opaque(word.to_owned()),
            Err(message) => self.received_group_change_or_other(message),
        }
    }

    fn requested(&mut self, tag: u64, body: Bytes, reply: rusm_runtime::ReplyTo<Bytes>) -> Received {
        let (number, dropped_oldest) = self.store_reply(reply);
        if dropped_oldest {
            let text = format!("a guest answers too few requests: the oldest of {REQUESTS_KEPT} is dropped");
            write_line(&self.info, self.ctx.pid(), Level::Warn, &text);
        }
        let reply_to = Some(number);
        Received::Message(Message { tag, body: self.hold_body(body), reply_to })
    }

    fn received_group_change_or_other(&mut self, message: rusm_runtime::Message) -> Received {
        let message = match message.downcast::<Joined>() {
            Ok(Joined { reference, group, pid }) => {
                self.allow_sending_to(pid);
                return change(reference, &group, pid, true);
            }
            Err(message) => message,
        };
        let message = match message.downcast::<Left>() {
            Ok(Left { reference, group, pid }) => return change(reference, &group, pid, false),
            Err(message) => message,
        };
        let message = match message.downcast::<Vec<u8>>() {
            Ok(body) => return self.received_bytes(0, body.into()),
            Err(message) => message,
        };
        match message.downcast::<String>() {
            Ok(text) => self.received_bytes(0, text.into()),
            Err(message) => Received::Opaque(message.type_name().to_owned()),
        }
    }
}

fn change(reference: MonitorRef, group: &str, pid: rusm_runtime::Pid, joined: bool) -> Received {
    Received::Group(GroupChange {
        monitor: reference.number(),
        group: group.to_owned(),
        pid: convert::pid(pid),
        joined,
    })
}

/// Returns the tag by which a guest can select a message; `None` if it is not bytes.
fn tag_of(message: &rusm_runtime::Message) -> Option<u64> {
    if let Some(short) = message.downcast_ref::<InlineBytes>() {
        return Some(short.tag);
    }
    if let Some(tagged) = message.downcast_ref::<TaggedBytes>() {
        return Some(tagged.tag);
    }
    if let Some(charged) = message.downcast_ref::<ChargedBytes>() {
        return Some(charged.tag);
    }
    if let Some(tagged) = message.downcast_ref::<Request<TaggedBytes, Bytes>>() {
        return Some(tagged.request.tag);
    }
    let untagged = message.is::<Bytes>()
        || message.is::<Request<Bytes, Bytes>>()
        || message.is::<Vec<u8>>()
        || message.is::<String>();
    untagged.then_some(0)
}

/// Converts the options of a spawn: name, link and monitor.
pub(crate) fn spawn_params(options: &SpawnOptions) -> SpawnParams {
    SpawnParams {
        name: options.name.as_deref().map(Into::into),
        label: None,
        link: options.ties.contains(Ties::LINK),
        monitor: options.ties.contains(Ties::MONITOR),
        scheduler: None,
    }
}

impl types::Host for GuestState {}
