//! [`Exports`]: the types of messages that a runtime exchanges with other nodes, by stable names.
//!
//! ```text
//!   message ─▶ its type ─▶ name + bytes ──────▶ other node ─▶ name ─▶ decode ─▶ message of the type there
//!                 └─ not exported: an error at the send
//! ```

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::links::name::check_name;
use crate::links::signal::MonitorRef;
use crate::mailbox::message::Message;
use crate::mailbox::request::{RemoteReply, Reply, ReplyTo, Request};
use crate::mailbox::tagged::TaggedBytes;
use crate::process::pid::Pid;
use crate::runtime::remote::codec::{Decoder, Encoder, Portable};

type EncodeMessage = Arc<dyn Fn(&Message, &mut Encoder<'_>) + Send + Sync>;
type DecodeMessage = Arc<dyn Fn(&mut Decoder<'_>) -> Option<Message> + Send + Sync>;
type DecodeRequest = Arc<dyn Fn(&mut Decoder<'_>, RemoteReply) -> Option<Message> + Send + Sync>;
type DecodeReply = Arc<dyn Fn(&mut Decoder<'_>, MonitorRef) -> Option<Message> + Send + Sync>;
type EncodeReply = Arc<dyn Fn(&dyn Any, &mut Encoder<'_>) -> bool + Send + Sync>;

/// Types that a runtime exchanges with other nodes; see [`Config::exports`](crate::Config::exports).
///
/// `Bytes` and [`TaggedBytes`] need no entry. Numbers, `bool`, `String`, `Vec<u8>`, [`Pid`] and `()` are exported by
/// default, and so are calls with requests of bytes and replies of bytes.
///
/// ```
/// # use rusm_runtime as rusm;
/// use rusm::remote::Exports;
///
/// let exports = Exports::default().message::<(u64, String)>("order").call::<String, Option<u64>>("stock");
/// assert!(exports.is_exported::<(u64, String)>());
/// ```
#[derive(Clone)]
pub struct Exports(Arc<Inner>);

#[derive(Clone, Default)]
struct Inner {
    outgoing: HashMap<TypeId, Outgoing>,
    values: HashMap<Arc<str>, DecodeMessage>,
    calls: HashMap<Arc<str>, CallCodec>,
    /// Bodies of processes that other nodes may start, of the type that `ask.rs` knows.
    spawnables: HashMap<Arc<str>, Arc<dyn Any + Send + Sync>>,
}

/// How messages of one type are sent.
#[derive(Clone)]
pub(crate) enum Outgoing {
    Value { name: Arc<str>, encode: EncodeMessage },
    Call { name: Arc<str>, encode: EncodeMessage, caller: CallerOf, forget: fn(Message) },
}

/// Returns caller and reference of a request.
pub(crate) type CallerOf = fn(&Message) -> Option<(Pid, MonitorRef)>;

impl Outgoing {
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Value { name, .. } | Self::Call { name, .. } => name,
        }
    }
}

/// How requests and replies of one kind of call are encoded and decoded.
#[derive(Clone)]
pub(crate) struct CallCodec {
    pub(crate) decode_request: DecodeRequest,
    pub(crate) encode_reply: EncodeReply,
    pub(crate) decode_reply: DecodeReply,
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

impl Default for Exports {
    fn default() -> Self {
        Self(Arc::default())
            .message::<()>("()")
            .message::<bool>("bool")
            .message::<u8>("u8")
            .message::<u16>("u16")
            .message::<u32>("u32")
            .message::<u64>("u64")
            .message::<usize>("usize")
            .message::<i32>("i32")
            .message::<i64>("i64")
            .message::<f64>("f64")
            .message::<String>("string")
            .message::<Vec<u8>>("vec<u8>")
            .message::<Pid>("pid")
            .call::<Bytes, Bytes>("bytes->bytes")
            .call::<TaggedBytes, Bytes>("tagged->bytes")
    }
}

impl Exports {
    /// Exports a type of messages under a name. All nodes must use the same name for the same type.
    ///
    /// # Panics
    /// If the name is empty, too long or taken, or if the type is exported under another name.
    #[must_use]
    pub fn message<T: Portable + Send + 'static>(self, name: &str) -> Self {
        self.message_with(name, T::encode, T::decode)
    }

    /// Like [`message`](Self::message), with functions that encode and decode the values.
    ///
    /// # Panics
    /// As [`message`](Self::message).
    #[must_use]
    pub fn message_with<T: Send + 'static>(
        mut self,
        name: &str,
        encode: impl Fn(&T, &mut Encoder<'_>) + Send + Sync + 'static,
        decode: impl Fn(&mut Decoder<'_>) -> Option<T> + Send + Sync + 'static,
    ) -> Self {
        let name = self.check(name, TypeId::of::<T>(), type_name::<T>());
        let encode: EncodeMessage = Arc::new(move |message, to| {
            if let Some(value) = message.downcast_ref::<T>() {
                encode(value, to);
            }
        });
        let inner = Arc::make_mut(&mut self.0);
        inner.outgoing.insert(TypeId::of::<T>(), Outgoing::Value { name: Arc::clone(&name), encode });
        inner.values.insert(name, Arc::new(move |from| decode(from).map(Message::new)));
        self
    }

    /// Exports calls with requests of type `Q` and replies of type `R`.
    ///
    /// # Panics
    /// As [`message`](Self::message).
    #[must_use]
    pub fn call<Q: Portable + Send + 'static, R: Portable + Send + 'static>(self, name: &str) -> Self {
        self.call_with(name, (Q::encode, Q::decode), (R::encode, R::decode))
    }

    /// Like [`call`](Self::call), with functions that encode and decode requests, and functions for replies.
    ///
    /// # Panics
    /// As [`message`](Self::message).
    #[must_use]
    pub fn call_with<Q: Send + 'static, R: Send + 'static>(
        mut self,
        name: &str,
        (encode_request, decode_request): (
            impl Fn(&Q, &mut Encoder<'_>) + Send + Sync + 'static,
            impl Fn(&mut Decoder<'_>) -> Option<Q> + Send + Sync + 'static,
        ),
        (encode_reply, decode_reply): (
            impl Fn(&R, &mut Encoder<'_>) + Send + Sync + 'static,
            impl Fn(&mut Decoder<'_>) -> Option<R> + Send + Sync + 'static,
        ),
    ) -> Self {
        let name = self.check(name, TypeId::of::<Request<Q, R>>(), type_name::<Request<Q, R>>());
        let encode: EncodeMessage = Arc::new(move |message, to| {
            if let Some(request) = message.downcast_ref::<Request<Q, R>>() {
                encode_request(&request.request, to);
            }
        });
        let caller: CallerOf =
            |message| message.downcast_ref::<Request<Q, R>>().and_then(|request| request.reply.caller());
        let forget = |message: Message| {
            if let Ok(request) = message.downcast::<Request<Q, R>>() {
                request.reply.forget();
            }
        };
        let codec = CallCodec {
            decode_request: Arc::new(move |from, reply| {
                let request = decode_request(from)?;
                Some(Message::new(Request::<Q, R> { request, reply: ReplyTo::remote(reply) }))
            }),
            encode_reply: Arc::new(move |value, to| {
                let value = value.downcast_ref::<R>();
                value.is_some_and(|value| {
                    encode_reply(value, to);
                    true
                })
            }),
            decode_reply: Arc::new(move |from, reference| {
                decode_reply(from).map(|value| Message::new(Reply { reference, value }))
            }),
        };
        let inner = Arc::make_mut(&mut self.0);
        let outgoing = Outgoing::Call { name: Arc::clone(&name), encode, caller, forget };
        inner.outgoing.insert(TypeId::of::<Request<Q, R>>(), outgoing);
        inner.calls.insert(name, codec);
        self
    }

    /// Returns true if messages of this type can be sent to other nodes.
    pub fn is_exported<T: 'static>(&self) -> bool {
        TypeId::of::<T>() == TypeId::of::<Bytes>()
            || TypeId::of::<T>() == TypeId::of::<TaggedBytes>()
            || self.0.outgoing.contains_key(&TypeId::of::<T>())
    }

    /// Returns the names of the exported types and calls, in sorted order.
    pub fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.0.values.keys().chain(self.0.calls.keys()).map(Arc::clone).collect();
        names.sort();
        names
    }

    fn check(&self, name: &str, id: TypeId, type_name: &str) -> Arc<str> {
        check_name("type of messages", name).unwrap_or_else(|error| panic!("{error}"));
        let is_taken = self.0.values.contains_key(name) || self.0.calls.contains_key(name);
        assert!(!is_taken, "two types are exported as {name:?}; {type_name} needs another name");
        if let Some(outgoing) = self.0.outgoing.get(&id) {
            panic!("{type_name} is exported twice, as {:?} and as {name:?}", outgoing.name());
        }
        name.into()
    }

    pub(crate) fn outgoing(&self, id: TypeId) -> Option<&Outgoing> {
        self.0.outgoing.get(&id)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&DecodeMessage> {
        self.0.values.get(name)
    }

    pub(crate) fn call_codec(&self, name: &str) -> Option<&CallCodec> {
        self.0.calls.get(name)
    }

    pub(crate) fn spawnable_entry(&self, name: &str) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.0.spawnables.get(name)
    }

    pub(crate) fn add_spawnable(mut self, name: &str, body: Arc<dyn Any + Send + Sync>) -> Self {
        check_name("spawnable process", name).unwrap_or_else(|error| panic!("{error}"));
        let before = Arc::make_mut(&mut self.0).spawnables.insert(name.into(), body);
        assert!(before.is_none(), "two bodies are spawnable as {name:?}");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "two types are exported as \"order\"")]
    fn a_name_belongs_to_one_type() {
        drop(Exports::default().message::<(u64, u64)>("order").call::<u64, u64>("order"));
    }

    #[test]
    #[should_panic(expected = "is exported twice, as \"u64\" and as \"number\"")]
    fn a_type_has_one_name() {
        drop(Exports::default().message::<u64>("number"));
    }
}
