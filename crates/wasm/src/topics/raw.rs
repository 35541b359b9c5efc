//! Topics for core modules: functions of module `rusm`, with memory ranges and statuses as in `src/raw.rs`.
//!
//! | Function | Gives | |
//! |---|---|---|
//! | `topic_publish(topic_p, topic_n, key_p, key_n, p, n)` | status | waits for room; `key_n` below 0: no key |
//! | `topic_try_publish(topic_p, topic_n, key_p, key_n, p, n)` | status | -8 if the topic is full |
//! | `topic_subscribe(topic_p, topic_n, p, n)` | `i64` | a consumer of the subscription with this name, or a status |
//! | `topic_subscribe_with(topic_p, topic_n, p, n, flags, deadline_ms, dead_p, dead_n, attempts_max)` | `i64` | as `topic_subscribe`; flag 1: ordered, flag 2: begin with the oldest message; a deadline below 0: the default; `dead_n` below 0: no dead-letter topic |
//! | `topic_listen(topic_p, topic_n, overflow, most)` | `i64` | a listener, which receives each message at most once, or a status; overflow: 0 block publishers, 1 drop the oldest, 2 drop the newest, 3 disconnect |
//! | `topic_hear(listener, timeout_ms)` | `i32` | as `topic_next`, without a lease |
//! | `topic_next(share, timeout_ms)` | `i32` | 1 and the message is the item, 0 if none arrived, or a status; a timeout below 0 waits forever. `item_tag()` is the lease, `item_ref()` the attempt, `item_reply()` the position |
//! | `topic_key(p, n)` | `i32` | copies at most `n` bytes of the key of the last message; returns the key's length, or a status |
//! | `topic_ack(share, lease)`, `topic_nack(share, lease)` | `i32` | 1 on success, 0 if the lease had ended (the error text says how), or a status |
//! | `topic_extend(share, lease, ms)` | `i32` | as `topic_ack`; extends the lease by `ms` |
//! | `topic_unsubscribe(share)` | `i32` | 1 if the consumer or listener existed |

#![expect(clippy::cast_possible_wrap, reason = "integers of core modules are signless")]

use wasmtime::{Caller, Linker};

use crate::bindings::rusm::runtime::types::Error;
use crate::guest::guest_info::HostCall;
use crate::guest::state::GuestState;
use crate::raw::table::{Output, function};
use crate::raw::{MODULE, status, write_bytes};
use rusm_runtime::topic::{AckStatus, Consumer, DeadLetter, Lease, Message, Overflow, SubscriptionConfig};

pub(super) fn link(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    function!(
        linker,
        async "topic_publish"(topic: text(tp, tn), key: optional_text(kp, kn), payload: bytes(p, n)) => |state| {
            state.publish_to(&topic, message(key, payload)).await
        }
    )?;
    function!(
        linker,
        "topic_try_publish"(topic: text(tp, tn), key: optional_text(kp, kn), payload: bytes(p, n)) => |state| {
            state.try_publish_to(&topic, message(key, payload))
        }
    )?;
    function!(linker, "topic_subscribe"(topic: text(tp, tn), subscription: text(p, n)) => |state| {
        state.subscribe_to(&topic, &subscription, SubscriptionConfig::default())
    })?;
    function!(
        linker,
        "topic_subscribe_with"(
            topic: text(tp, tn),
            subscription: text(p, n),
            flags: count(flags),
            deadline: milliseconds(ms),
            dead_letter: optional_text(dp, dn),
            attempts_max: count(attempts_max)
        ) => |state| {
            let dead_letter = dead_letter.map(|topic| DeadLetter { topic, attempts_max });
            let config = state.subscription_config(flags & 1 != 0, flags & 2 != 0, deadline, dead_letter);
            config.and_then(|config| state.subscribe_to(&topic, &subscription, config))
        }
    )?;
    function!(linker, "topic_listen"(topic: text(tp, tn), overflow: count(overflow), most: count(most)) => |state| {
        overflow_of(overflow, most).and_then(|overflow| state.listen_to(&topic, overflow))
    })?;
    function!(linker, async "topic_hear"(listener: number(listener), timeout: milliseconds(ms)) => |state| {
        let heard = state.next_message_of(listener, timeout).await;
        heard.map(|message| message.map_or(0, |message| hold_message(state, message)))
    })?;
    function!(linker, async "topic_next"(share: number(share), timeout: milliseconds(ms)) => |state| {
        let next = state.next_of(share, timeout).await;
        next.map(|lease| lease.map_or(0, |lease| hold(state, lease)))
    })?;
    linker.func_wrap(MODULE, "topic_key", |mut caller: Caller<'_, GuestState>, p: i32, n: i32| {
        let key = caller.data().topic_handles.as_ref().map(|handles| handles.key.clone()).unwrap_or_default();
        let most = key.len().min(n.max(0) as usize);
        let written = write_bytes(&mut caller, (p, most as i32), &key.as_bytes()[..most]);
        written.map(|()| key.len() as i32).into_integer(caller.data_mut())
    })?;
    function!(linker, "topic_ack"(share: number(share), lease: number(lease)) => |state| {
        state.settle(HostCall::TopicAck, share, lease, Consumer::ack)
    })?;
    function!(linker, "topic_nack"(share: number(share), lease: number(lease)) => |state| {
        state.settle(HostCall::TopicNack, share, lease, Consumer::nack)
    })?;
    function!(linker, "topic_extend"(share: number(share), lease: number(lease), time: milliseconds(ms)) => |state| {
        state.extend_by(share, lease, time.unwrap_or(0))
    })?;
    function!(linker, "topic_unsubscribe"(share: number(share)) => |state| state.unsubscribe_from(share))?;
    Ok(())
}

fn message(key: Option<String>, payload: Vec<u8>) -> Message {
    let message = Message::new(payload);
    match key {
        Some(key) => message.with_key(key),
        None => message,
    }
}

fn overflow_of(number: u32, capacity: u32) -> Result<Overflow, Error> {
    let capacity = capacity.cast_signed().max(0) as usize;
    match number {
        0 => Ok(Overflow::Block),
        1 => Ok(Overflow::DropOldest { capacity }),
        2 => Ok(Overflow::DropNewest { capacity }),
        3 => Ok(Overflow::Disconnect { capacity }),
        other => Err(Error::Invalid(format!("overflow {} is not between 0 and 3", other.cast_signed()))),
    }
}

fn hold(state: &mut GuestState, lease: Lease) -> i32 {
    state.last_result.set_received(None);
    let share = match state.share_if_long(lease.message.payload().len()) {
        Ok(share) => share,
        // The lease ends at its deadline, and the message comes again.
        Err(full) => return status(state, full.into()),
    };
    let key = lease.message.key().unwrap_or_default().to_owned();
    state.topic_handles.get_or_insert_default().key = key;
    state.last_result.set_lease(lease);
    state.last_result.share = share;
    1
}

fn hold_message(state: &mut GuestState, message: Message) -> i32 {
    message.key().unwrap_or_default().clone_into(&mut state.topic_handles.get_or_insert_default().key);
    match state.set_item(message.into_payload().into(), 0) {
        Ok(()) => 1,
        Err(full) => status(state, full.into()),
    }
}

/// 1 if the lease was settled. Otherwise 0, and the error text says how it had ended.
impl Output for AckStatus {
    type Integer = i32;

    fn into_integer(self, state: &mut GuestState) -> i32 {
        let text = match self {
            Self::Done => return 1,
            Self::AlreadyAcked => "it was already acknowledged",
            Self::AlreadyNacked => "it was already returned",
            Self::Expired => "its deadline has passed",
            Self::Revoked => "its lease was revoked",
            Self::Unknown => "the lease does not exist",
        };
        state.last_result.set_error(text.to_owned());
        0
    }
}
