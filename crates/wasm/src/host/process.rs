//! `rusm:runtime/process`: own identity, spawning, messages, links and monitors.

use std::time::Duration;

use bytes::Bytes;

use super::words;
use crate::bindings::rusm::runtime::process::{Host, SpawnOptions, Spawned, Ties};
use crate::bindings::rusm::runtime::types::{
    self, Down, Error, ExitReason, ExitSignal, GroupChange, Message, Pid, Received,
};
use crate::capability::Capability;
use crate::fiber::waiting;
use crate::sending::Unsent;
use crate::short::{Given, ShortBytes};
use crate::state::State;
use crate::vitals::HostCall;
use rusm_runtime::embed::guest::Beginning;
use rusm_runtime::embed::guest::ChargedBytes;
use rusm_runtime::{Joined, Left, MonitorRef, Request, TaggedBytes, TrySendError};

impl Host for State {
    fn self_(&mut self) -> Pid {
        self.asks(HostCall::Self_);
        words::pid(self.ctx.pid())
    }

    fn parent(&mut self) -> Option<Pid> {
        self.asks(HostCall::Parent);
        self.ctx.parent().map(words::pid)
    }

    fn label(&mut self, text: String) {
        self.asks(HostCall::Label);
        self.ctx.set_label(text);
    }

    async fn spawn(&mut self, module: String, options: SpawnOptions) -> Result<Spawned, Error> {
        self.asks(HostCall::Spawn);
        self.may(Capability::Spawn)?;
        let (pid, monitor) = waiting(self.spawn_guest(&module, options)).await?;
        Ok(Spawned { pid: words::pid(pid), monitor: monitor.map(MonitorRef::number) })
    }

    async fn send(&mut self, to: Pid, tag: u64, body: Vec<u8>) -> Result<(), Error> {
        self.asks(HostCall::Send);
        self.fits(&body)?;
        let to = words::pid_of(to);
        // Fast path: usually there is room, and the call need not wait.
        match self.post(to, tag, body) {
            Ok(()) => Ok(()),
            Err(unsent) => self.post_later(to, tag, unsent).await,
        }
    }

    fn try_send(&mut self, to: Pid, tag: u64, body: Vec<u8>) -> Result<(), Error> {
        self.asks(HostCall::TrySend);
        self.fits(&body)?;
        match self.try_post(words::pid_of(to), tag, body) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(TrySendError::NoProcess { .. })) => Err(Error::NoProcess),
            Ok(Err(TrySendError::Full { .. })) | Err(Unsent::Full(_)) => Err(Error::MailboxFull),
            Err(Unsent::Denied(error)) => Err(error),
            Err(Unsent::Quota(_)) => Err(self.over_quota()),
        }
    }

    async fn receive(&mut self, timeout_ms: Option<u64>) -> Option<Received> {
        self.asks(HostCall::Receive);
        self.receive_within(timeout_ms).await
    }

    async fn receive_tagged(&mut self, tag: u64, timeout_ms: Option<u64>) -> Option<Message> {
        self.asks(HostCall::ReceiveTagged);
        let wanted = move |message: &rusm_runtime::Message| tag_of(message) == Some(tag);
        let message = waiting(async {
            match timeout_ms {
                None => Some(self.ctx.receive_match(wanted).await),
                Some(ms) => self.ctx.receive_match_timeout(Duration::from_millis(ms), wanted).await,
            }
        })
        .await?;
        match self.received(message) {
            Received::Message(message) => Some(message),
            // Only messages of bytes have a tag.
            _ => None,
        }
    }

    async fn call(&mut self, to: Pid, tag: u64, body: Vec<u8>, timeout_ms: u64) -> Result<Vec<u8>, Error> {
        self.asks(HostCall::Call);
        self.fits(&body)?;
        let (to, timeout) = (words::pid_of(to), Duration::from_millis(timeout_ms));
        self.may_send(to)?;
        let (body, timeout) = self.bytes_within(timeout, body).await?;
        let reply: Result<Bytes, _> = waiting(async {
            if tag == 0 {
                self.ctx.call(to, body, timeout).await
            } else {
                self.ctx.call(to, TaggedBytes { tag, body }, timeout).await
            }
        })
        .await;
        reply.map(words::body).map_err(|error| match error {
            rusm_runtime::CallError::Oneself { .. } => Error::Invalid("a process cannot call itself".to_owned()),
            rusm_runtime::CallError::NoProcess { .. } => Error::NoProcess,
            rusm_runtime::CallError::Timeout { .. } => Error::TimedOut,
            rusm_runtime::CallError::Ended { reason, .. } => Error::CalleeExited(words::reason(&reason)),
        })
    }

    fn reply(&mut self, to: u64, body: Vec<u8>) -> bool {
        self.asks(HostCall::Reply);
        if self.fits(&body).is_err() {
            return false;
        }
        let Some(reply) = self.take_reply(to) else { return false };
        let body = self.bytes_at_once(body);
        reply.send(&self.ctx, body).is_none()
    }

    fn link(&mut self, other: Pid) {
        self.asks(HostCall::Link);
        let other = words::pid_of(other);
        // A link can end the other process. A guest that may not do that is told that no such link exists.
        if !self.is_own(other) && self.may(Capability::ExitOthers).is_err() {
            return self.process().be_refused(other, format!("denied: {}", Capability::ExitOthers.word()));
        }
        if self.ctx.runtime().is_alive(other) || self.process().has_room_at(self.ctx.pid(), true) {
            self.ctx.link(other);
        } else {
            self.process().be_refused(other, "noproc".to_owned());
        }
    }

    fn unlink(&mut self, other: Pid) {
        self.asks(HostCall::Unlink);
        self.ctx.unlink(words::pid_of(other));
    }

    fn monitor(&mut self, target: Pid) -> u64 {
        self.asks(HostCall::Monitor);
        let target = words::pid_of(target);
        if !self.has_room_for_monitor() {
            self.process().be_refused(target, "limit: too many monitors: demonitor some".to_owned());
            return 0;
        }
        self.ctx.monitor(target).number()
    }

    fn demonitor(&mut self, monitor: u64) -> bool {
        self.asks(HostCall::Demonitor);
        let was_there = MonitorRef::numbered(monitor).is_some_and(|reference| self.ctx.demonitor_flush(reference));
        if was_there {
            self.monitor_is_over();
        }
        was_there
    }

    fn trap_exits(&mut self, trap: bool) -> bool {
        self.asks(HostCall::TrapExits);
        self.ctx.trap_exits(trap)
    }

    async fn exit(&mut self, target: Pid, reason: ExitReason) -> Result<(), Error> {
        self.asks(HostCall::Exit);
        let target = words::pid_of(target);
        if !self.is_own(target) {
            self.may(Capability::ExitOthers)?;
        }
        let reason = words::reason_of(reason);
        if reason != rusm_runtime::ExitReason::Killed && !self.process().has_room_at(target, true) {
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
        self.asks(HostCall::Sleep);
        waiting(self.ctx.sleep(Duration::from_millis(ms))).await;
    }

    async fn yield_(&mut self) {
        self.asks(HostCall::Yield);
        waiting(self.ctx.yield_now()).await;
    }
}

impl State {
    /// Receives the next message, waiting for at most `timeout_ms` milliseconds, or without a limit.
    pub(crate) async fn receive_within(&mut self, timeout_ms: Option<u64>) -> Option<Received> {
        let message = waiting(async {
            match timeout_ms {
                None => Some(self.ctx.receive().await),
                Some(ms) => self.ctx.receive_timeout(Duration::from_millis(ms)).await,
            }
        })
        .await?;
        Some(self.received(message))
    }

    /// Stores the next message of a core module as its item; returns its kind.
    #[inline]
    pub(crate) fn item_of(&mut self, message: rusm_runtime::Message) -> i32 {
        let message = match message.downcast::<ShortBytes>() {
            Ok(short) => return self.item.take_bytes(short.tag, Given::Short(short)),
            Err(message) => message,
        };
        let message = match message.downcast::<Bytes>() {
            Ok(body) => return self.item.take_bytes(0, Given::Long(body)),
            Err(message) => message,
        };
        let message = match message.downcast::<ChargedBytes>() {
            Ok(charged) => return self.item.take_bytes(charged.tag, charged.into_body().into()),
            Err(message) => message,
        };
        match message.downcast::<TaggedBytes>() {
            Ok(TaggedBytes { tag, body }) => self.item.take_bytes(tag, Given::Long(body)),
            Err(message) => {
                let received = self.received_rarer(message);
                self.item.take(Some(received))
            }
        }
    }

    /// Converts the next message of a component.
    pub(super) fn received(&mut self, message: rusm_runtime::Message) -> Received {
        let plain = |tag, body: Bytes| Received::Message(Message { tag, body: words::body(body), reply_to: None });
        let message = match message.downcast::<ShortBytes>() {
            Ok(short) => return Received::Message(Message { tag: short.tag, body: short.to_vec(), reply_to: None }),
            Err(message) => message,
        };
        let message = match message.downcast::<Bytes>() {
            Ok(body) => return plain(0, body),
            Err(message) => message,
        };
        let message = match message.downcast::<TaggedBytes>() {
            Ok(TaggedBytes { tag, body }) => return plain(tag, body),
            Err(message) => message,
        };
        let message = match message.downcast::<ChargedBytes>() {
            Ok(charged) => {
                return Received::Message(Message { tag: charged.tag, body: charged.into_body(), reply_to: None });
            }
            Err(message) => message,
        };
        self.received_rarer(message)
    }

    #[cold]
    fn received_rarer(&mut self, message: rusm_runtime::Message) -> Received {
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
                self.meets(exit.from);
                let (from, reason) = (words::pid(exit.from), words::reason(&exit.reason));
                return Received::Exit(ExitSignal { from, reason });
            }
            Err(message) => message,
        };
        let message = match message.downcast::<rusm_runtime::Down>() {
            Ok(down) => {
                self.monitor_is_over();
                self.meets(down.pid);
                let (pid, reason) = (words::pid(down.pid), words::reason(&down.reason));
                return Received::Down(Down { monitor: down.reference.number(), pid, reason });
            }
            Err(message) => message,
        };
        match self.offered(message) {
            Ok(word) => Received::Opaque(word.to_owned()),
            Err(message) => self.received_rarest(message),
        }
    }

    fn requested(&mut self, tag: u64, body: Bytes, reply: rusm_runtime::ReplyTo<Bytes>) -> Received {
        let reply_to = Some(self.keep(reply));
        Received::Message(Message { tag, body: words::body(body), reply_to })
    }

    fn received_rarest(&self, message: rusm_runtime::Message) -> Received {
        let message = match message.downcast::<Joined>() {
            Ok(Joined { reference, group, pid }) => {
                self.meets(pid);
                return change(reference, &group, pid, true);
            }
            Err(message) => message,
        };
        let message = match message.downcast::<Left>() {
            Ok(Left { reference, group, pid }) => return change(reference, &group, pid, false),
            Err(message) => message,
        };
        let plain = |body| Received::Message(Message { tag: 0, body, reply_to: None });
        let message = match message.downcast::<Vec<u8>>() {
            Ok(body) => return plain(body),
            Err(message) => message,
        };
        match message.downcast::<String>() {
            Ok(text) => plain(text.into_bytes()),
            Err(message) => Received::Opaque(message.type_name().to_owned()),
        }
    }
}

fn change(reference: MonitorRef, group: &str, pid: rusm_runtime::Pid, joined: bool) -> Received {
    Received::Group(GroupChange { monitor: reference.number(), group: group.to_owned(), pid: words::pid(pid), joined })
}

/// Returns the tag by which a guest can select a message; `None` if it is not bytes.
fn tag_of(message: &rusm_runtime::Message) -> Option<u64> {
    if let Some(short) = message.downcast_ref::<ShortBytes>() {
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
pub(crate) fn beginning(options: &SpawnOptions) -> Beginning {
    Beginning {
        name: options.name.as_deref().map(Into::into),
        label: None,
        link: options.ties.contains(Ties::LINK),
        monitor: options.ties.contains(Ties::MONITOR),
        scheduler: None,
    }
}

impl types::Host for State {}
